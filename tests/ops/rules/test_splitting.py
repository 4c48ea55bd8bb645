"""split, chunk and relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import NeedsDecision, ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

SIZES = {"b": 3, "s": 5}

#: Right for all sizes, without a need: the number of parts does not depend on a size.
DYNAMIC: dict[str, Callable[..., Any]] = {
    "split": lambda x: x.split(2, -1),
    "split unevenly": lambda x: torch.split(x, 3, dim=2),
    "split by sizes": lambda x: x.split([1, 3], 2),
    "split_with_sizes": lambda x: torch.split_with_sizes(x, (1, 1, 2), 2),
    "chunk": lambda x: x.chunk(2, 2),
    "chunk fewer": lambda x: torch.chunk(x, 3, -1),
    "unsafe": lambda x: (torch.unsafe_split(x, 2, 2), torch.unsafe_chunk(x, 2, 2)),
    "tensor_split": lambda x: torch.tensor_split(x, 3, 1),
    "tensor_split at indices": lambda x: x.tensor_split((1, 3), 1),
    "tensor_split from the end": lambda x: torch.tensor_split(x, [2, -1], dim=1),
    "tensor_split beyond": lambda x: x.tensor_split([-9, 9], 1),
    "hsplit at indices": lambda x: torch.hsplit(x, [1, 2]),
    "vsplit at indices": lambda x: x.vsplit((2,)),
    "dsplit": lambda x: torch.dsplit(x, 2),
    "transposed": lambda x: x.transpose(0, 2).split(2),
    "one part": lambda x: x.chunk(1),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], "b s 4", first=SIZES)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


def test_the_halves_of_a_doubled_size_are_always_two() -> None:
    assert check(lambda x: torch.cat([x, x]).chunk(2), "b s", first=SIZES).needs == []


def test_the_number_of_parts_is_a_guard() -> None:
    outcome = check(lambda x: x.split(2), "b", first={"b": 5}, then=[{"b": n} for n in range(9)])
    assert [sizes["b"] for sizes in outcome.served] == [5, 6]
    outcome = check(lambda x: x.split(2), "b", first={"b": 1}, then=[{"b": n} for n in range(9)])
    assert [sizes["b"] for sizes in outcome.served] == [0, 1, 2]
    outcome = check(lambda x: x.chunk(3), "b", first={"b": 5}, then=[{"b": n} for n in range(12)])
    assert [sizes["b"] for sizes in outcome.served] == [0, 3, *range(5, 12)]
    outcome = check(lambda x: x.chunk(3), "b", first={"b": 4}, then=[{"b": n} for n in range(12)])
    assert [sizes["b"] for sizes in outcome.served] == [2, 4]


def test_symbolic_parts() -> None:
    first = {"b": 6, "k": 2}
    then = [{"b": b, "k": k} for b in range(8) for k in range(4)]
    outcome = check(lambda x, k: x.split(k), "b", Sym("k"), first=first, then=then)
    assert {"b": 5, "k": 2} in outcome.served
    outcome = check(lambda x, k: x.split([k, k, 2]), "b", Sym("k"), first=first, then=then)
    assert outcome.served == [{"b": 2 + 2 * k, "k": k} for k in range(3)]
    outcome = check(lambda x, k: x.tensor_split((k,)), "b", Sym("k"), first=first, then=then)
    assert len(outcome.served) == len(then)
    outcome = check(lambda x: x.hsplit(2), "b", first={"b": 6}, then=[{"b": n} for n in range(6)])
    assert [sizes["b"] for sizes in outcome.served] == [0, 2, 4]


def test_indices_in_a_tensor() -> None:
    indices = torch.tensor([1, 3])
    outcome = check(
        lambda x: torch.tensor_split(x, indices), "b s", first={"b": 5, "s": 2}, then=[]
    )
    assert len(outcome.calls[-1].inferred.unbacked) == 6
    with pytest.raises(NeedsDecision):
        check(lambda x: torch.tensor_split(x, torch.tensor(2)), "b s", first=SIZES)


REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "parts of size 0": lambda x: x.split(0),
    "negative parts": lambda x: x.split(-1),
    "parts that do not sum up": lambda x: x.split([1, 1]),
    "a negative size": lambda x: x.split([-1, 4]),
    "no chunks": lambda x: x.chunk(0),
    "no sections": lambda x: x.tensor_split(0),
    "hsplit unevenly": lambda x: x.hsplit(2),
    "vsplit of a vector": lambda x: x[0].vsplit(1),
    "dsplit of a matrix": lambda x: x.dsplit(1),
    "a scalar": lambda x: x[0, 0].split(1),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first=SIZES)
