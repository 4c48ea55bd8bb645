"""Every workload of the benchmark gives eager's answer with `backend="native"`, from one program
for all its sizes. The large size is the benchmark's own business: it checks before it measures."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyshape
from benchmarks.native.agree import disagreement
from benchmarks.native.memory import allocator_peak
from benchmarks.native.registry import WORKLOADS
from benchmarks.native.rounds import take_turns
from benchmarks.native.workload import Workload

_SIZES = ("odd", "tiny", "odd")


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_right_at_each_size(workload: Workload) -> None:
    function = workload.built()
    compiled = anyshape.compile(function, dynamic=True, backend="native")
    for size in _SIZES:
        args = workload.arguments(size)
        assert not disagreement(compiled(*args), function(*args), strides=True), size
    assert compiled.stats().graphs >= 1
    assert compiled.stats().eager_calls == 0


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_inputs_are_the_same_each_time(workload: Workload) -> None:
    for one, other in zip(workload.arguments("tiny"), workload.arguments("tiny"), strict=True):
        assert torch.equal(one, other)


DIFFERENT = {
    "dtype": (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    "shape": (torch.ones(3), torch.ones(1, 3)),
    "strides": (torch.ones(2, 3), torch.ones(3, 2).t()),
    "values": (torch.ones(3), torch.tensor([1.0, 1.0, 1.001])),
    "nan": (torch.tensor([1.0, float("nan")]), torch.ones(2)),
    "infinity": (torch.tensor([1.0, float("inf")]), torch.ones(2)),
    "integers": (torch.tensor([1, 2]), torch.tensor([1, 3])),
    "number of tensors": ((torch.ones(1),), (torch.ones(1), torch.ones(1))),
    "kind": ([torch.ones(1)], (torch.ones(1),)),
}


@pytest.mark.parametrize(("found", "expected"), DIFFERENT.values(), ids=list(DIFFERENT))
def test_a_wrong_answer_is_seen(found: Any, expected: Any) -> None:
    assert disagreement(found, expected, strides=True)


def test_rounding_is_no_wrong_answer() -> None:
    x = torch.randn(100)
    assert not disagreement(x * (1 + 1e-6), x, strides=True)


def test_peak_memory_counts_what_lives_at_once() -> None:
    x = torch.ones(1 << 20)

    def one_then_another() -> torch.Tensor:
        first = x + 1
        second = first.sum()
        del first
        return x + second

    # ... and the sum, and numbers as tensors.
    assert 0 <= allocator_peak(one_then_another) - x.nbytes < 100


def test_rounds_take_turns() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in ("a", "b")}
    found = take_turns(calls, budget=0, most=3)
    assert {len(seconds) for seconds in found.seconds.values()} == {3}
    assert 0 <= found.quiet <= 1
    assert {"a", "b"} <= set(order)
