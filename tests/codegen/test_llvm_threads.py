"""Threads: the same results, whoever computes them, and none where they do not pay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from anyshape.codegen.llvm import threads
from anyshape.loops.expr import fresh_scope
from tests.codegen.kernel_samples import SAMPLES, softmax, sum_of_all, sum_of_columns
from tests.codegen.llvm_jit import Compiled, Emulated, compiled, host
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import check_kernel


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(2)
    with fresh_scope():
        yield
    torch.set_num_threads(count)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(300, 304))
def test_random(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to do: threads in every call."""
    monkeypatch.setattr(threads, "GRAIN", 1)
    check_kernel(kind, seed, host())


def softmax_of(run: Compiled | Emulated, x: np.ndarray) -> np.ndarray:
    result = np.empty_like(x)
    assert run([x, result], x.shape) == 0
    return result


@pytest.mark.parametrize("shape", [(1, 1_000_000), (2, 300_001), (1000, 513), (3, 5)])
def test_softmax(shape: tuple[int, int]) -> None:
    """Threads share a row where there are few of them."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = softmax_of(compiled(softmax()), x)
    wanted = torch.from_numpy(x).softmax(-1)
    torch.testing.assert_close(torch.from_numpy(found), wanted, rtol=1e-5, atol=1e-9)


def test_same_every_time() -> None:
    x = np.random.default_rng(0).standard_normal(1_000_003).astype(np.float32)
    run = compiled(sum_of_all())
    results = set()
    for _ in range(10):
        total = np.empty(1, np.float32)
        run([x, total], [0, len(x)])
        results.add(total.item())
    assert len(results) == 1


def test_tall_sum() -> None:
    """One vector of columns: threads share the rows."""
    x = np.random.default_rng(0).standard_normal((200_000, 16)).astype(np.float32)
    total = np.empty(16, np.float32)
    compiled(sum_of_columns())([x, total], [16, 200_000])
    np.testing.assert_allclose(total, x.astype(np.float64).sum(0), rtol=0, atol=2e-3)


def test_inside_a_parallel_region() -> None:
    """No threads in threads: OpenMP is asked first."""
    text = compiled(SAMPLES["twice and one"]()).text
    assert text.index("call i32 @omp_in_parallel()") < text.index("call void @GOMP_parallel")
