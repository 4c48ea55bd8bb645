"""Kernels become code of vectors on machines other than this one, and right code without masks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from anyshape.codegen.llvm.machine import Machine
from anyshape.codegen.llvm.module import module, module_texts
from anyshape.codegen.target import Target
from anyshape.loops.scalars import fresh_scope
from tests.codegen.kernel_samples import SAMPLES
from tests.codegen.llvm_jit import AVX2, NEON, assembly, host
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import check_kernel

AVX512 = Target("x86_64-unknown-linux-gnu", "sapphirerapids", "")
VECTORS = {"avx512": r"%zmm", "avx2": r"%ymm", "neon": r"\bv\d+\.(4s|2d|16b|8h)"}
TARGETS = {"avx512": AVX512, "avx2": AVX2, "neon": NEON}


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_vectors(sample: str, target: str) -> None:
    text = assembly(SAMPLES[sample](), TARGETS[target])
    assert re.search(VECTORS[target], text)


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_once(target: str) -> None:
    kernels = {f"f{i}": SAMPLES["softmax"]() for i in range(2)}
    text = module(kernels, TARGETS[target])
    assert text.count("define internal <16 x float> @as.exp.f32.v16") == 1
    assert text.count("define i32 @f") == 2


def test_equal_kernels_are_one_module() -> None:
    target = TARGETS["avx512"]
    one, two = (
        module_texts({f"f{place}": SAMPLES[name]() for place, name in enumerate(names)}, target)
        for names in (("softmax", "sum of all", "softmax"), ("sum of all", "softmax"))
    )
    # The third is what exp calls in rare cases.
    assert len(one.apart) == 3
    assert set(one.apart) == set(two.apart)
    assert one.beside.count("define i32 @f") == 3


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(100, 104))
def test_without_masks(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines that have no masked loads and stores."""
    bare = Machine(frozenset(), frozenset())
    monkeypatch.setattr(Machine, "of", staticmethod(lambda _: bare))
    check_kernel(kind, seed, host())


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(200, 203))
def test_avx2(kind: str, seed: int) -> None:
    check_kernel(kind, seed, AVX2)
