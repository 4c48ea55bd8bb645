"""Sums of products are products that add to what is there: right, and in less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.graph.lowered import lowered
from anyshape.loops.program import Segment
from benchmarks.native.memory import allocator_peak
from tests import devices

SIDE = 48


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


def two(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a @ b + c @ b


def of_one(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a @ b + (a * c) @ b


def many(a: Tensor, b: Tensor, c: Tensor) -> Any:
    total = a @ b
    for each in (c, a * 2, c + 1, a - c, c * a):
        total = total + each @ b
    return total


def twice(a: Tensor, b: Tensor, c: Tensor) -> Any:
    product = a @ b
    return product + product + c @ b


def of_a_sum(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return (a @ b + c @ b) @ b + (a @ b) @ (c @ b)


def used_elsewhere(a: Tensor, b: Tensor, c: Tensor) -> Any:
    product = a @ b
    total = product + c @ b
    return total, product.sin()


def given_out(a: Tensor, b: Tensor, c: Tensor) -> Any:
    product = c @ b
    return a @ b + product, product


def two_sums_of_one(a: Tensor, b: Tensor, c: Tensor) -> Any:
    product = a @ b
    return product + c @ b, product + (c + 1) @ b


def beside_other_values(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a @ b + c @ b + a


def transposed(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return (a @ b).t() + c @ b


def written_in_part(a: Tensor, b: Tensor, c: Tensor) -> Any:
    made = torch.zeros(len(a), b.shape[1])
    made[: len(a) // 2] = (a @ b + c @ b)[: len(a) // 2]
    return made


def joined(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return torch.cat([a @ b + c @ b, a])


PROGRAMS = [
    *(two, of_one, many, twice, of_a_sum, used_elsewhere, given_out, two_sums_of_one),
    *(beside_other_values, transposed, written_in_part, joined),
]


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("grad", [False, True])
def test_as_eager(program: Callable[..., Any], dtype: torch.dtype, grad: bool) -> None:
    run = anyshape.compile(program, dynamic=True)
    for side in (5, 8, 1, 0, 33):
        generator = devices.generator(side)
        args = [torch.randn(side, side, generator=generator).to(dtype) for _ in range(3)]
        results: list[Any] = []
        for function in (program, run):
            own = [each.clone().requires_grad_(grad) for each in args]
            found = function(*own)
            found = found if isinstance(found, tuple) else (found,)
            if grad:
                sum((each.sum() for each in found), torch.zeros(())).backward()
            results.append([*(each.detach() for each in found), *(each.grad for each in own)])
        wide = 5e-2 if dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(results[1], results[0], rtol=wide, atol=wide * max(side, 1))


def test_they_are_products_that_add() -> None:
    """Nothing is added up afterwards, and nothing is added to what somebody else needs."""
    found: list[list[str]] = []

    def backend(graph: Any, _: Any) -> Any:
        _, schedule = lowered(graph)
        (part,) = schedule.parts
        assert isinstance(part, Segment)
        found.append([getattr(step, "function", "kernel") for step in part.steps])
        return graph

    args = [torch.randn(7, 7, generator=devices.generator(0)) for _ in range(3)]
    anyshape.compile(of_one, backend=backend, dynamic=True)(*args)
    anyshape.compile(used_elsewhere, backend=backend, dynamic=True)(*args)
    assert [each for each in found[0] if each != "kernel"] == ["mm_out", "addmm_out"]
    assert found[0][-1] == "addmm_out"
    assert "addmm_out" not in found[1]


class Loop(nn.Module):
    """One weight, used again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(SIDE * 4, SIDE * 4)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(6):
            x = self.step(x).tanh()
        return x


@pytest.mark.parametrize("rows", [2, 300])
def test_gradients_of_a_shared_weight_take_less_memory(rows: int) -> None:
    peaks: list[int] = []
    x = torch.randn(rows, SIDE * 4, generator=devices.generator(2))
    for compiles in (False, True):
        torch.manual_seed(0)
        model = Loop()
        run: Any = anyshape.compile(model, dynamic=True) if compiles else model
        for _ in range(2):
            model.zero_grad()
            run(x).square().mean().backward()
        model.zero_grad()
        peaks.append(allocator_peak(lambda run=run: run(x).square().mean().backward()))
    assert peaks[1] <= peaks[0], peaks
