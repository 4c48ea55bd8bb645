"""Subscripts: reading and writing, with all kinds of items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

SIZES = {"b": 3, "s": 5}
X = "b s 4"
LONG, BOOL = torch.int64, torch.bool

#: Right for all sizes, without a need.
DYNAMIC: dict[str, Callable[[torch.Tensor], Any]] = {
    "nothing": lambda x: x[()],
    "ellipsis": lambda x: x[...],
    "from 1": lambda x: x[1:],
    "from 10, out of range": lambda x: x[10:],
    "to -1": lambda x: x[:, :-1],
    "from -2": lambda x: x[:, -2:],
    "from -10, out of range": lambda x: x[-10:],
    "to -10, out of range": lambda x: x[:-10],
    "within": lambda x: x[:, 1:-1],
    "from -3 to -1": lambda x: x[:, -3:-1],
    "from 2 to 4": lambda x: x[:, 2:4],
    "backwards, empty": lambda x: x[:, 4:2],
    "from -1 to 2": lambda x: x[:, -1:2],
    "every second": lambda x: x[::2],
    "every third from 1": lambda x: x[:, 1::3],
    "every second of a part": lambda x: x[:, 1:-1:2],
    "the last": lambda x: x[..., -1],
    "one of the last": lambda x: x[..., 1],
    "new dimensions": lambda x: x[None, :, None, ..., None],
    "True": lambda x: x[True],
    "False": lambda x: x[False],
    "True beside a slice": lambda x: x[:, True, 1:],
    "two after another": lambda x: x[1:][:, 1:][..., 0],
    "a slice of a transposed one": lambda x: x.transpose(0, 2)[1:3, ::2],
    "a list": lambda x: x[..., [0, 3, 1]],
    "an empty list": lambda x: x[..., []],
    "a range": lambda x: x[..., range(3)],
    "a list of a transposed one": lambda x: x.permute(2, 0, 1)[[0, 1]],
    "a tuple of lists": lambda x: x.permute(2, 0, 1)[([[0, 1], [1, 0]],)],
    "a list at the end of a permuted one": lambda x: x.permute(1, 0, 2)[..., [0, 1]],
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], X, first=SIZES)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


#: A subscript with what it needs, as text.
NEEDING: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int], list[str]]] = {
    "one": (lambda x: x[1], (X,), SIZES, ["b >= 2"]),
    "the last": (lambda x: x[-1], (X,), SIZES, ["b >= 1"]),
    "by symbol": (
        lambda x, i: x[i], (X, Sym("i")), {"b": 3, "s": 5, "i": 1}, ["i + 1 <= b"],
    ),
    "up to a symbol": (lambda x, i: x[:, :i], (X, Sym("i")), {"b": 3, "s": 5, "i": 2}, []),
    "from a symbol": (lambda x, i: x[:, i:], (X, Sym("i")), {"b": 3, "s": 5, "i": 2}, []),
    "between symbols": (
        lambda x, i, j: x[:, i:j], (X, Sym("i"), Sym("j")), {"b": 3, "s": 5, "i": 2, "j": 4}, [],
    ),
    "in symbolic steps": (
        lambda x, i: x[:, 1::i], (X, Sym("i")), {"b": 3, "s": 5, "i": 2}, ["i >= 1"],
    ),
    "a list": (
        lambda x: x[[1, 0]], (X,), SIZES, ["b != 0", "b >= 2 or s == 0"],
    ),
    "lists apart": (
        lambda x: x[[0], :, [0, 1]], (X,), SIZES, ["b != 0"],
    ),
    # Of size 1, the stride of a dimension is nobody's, and torch takes the two others in another
    # order.
    "a list in the middle of a permuted one": (
        lambda x: x.permute(1, 2, 0)[:, [0, 1]], (X,), SIZES, ["b != 1", "s != 1"],
    ),
    "a written mask": (lambda x: x[[True, False, True]], (X,), SIZES, ["b == 3"]),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDING)
def test_needs(case: str) -> None:
    function, specs, first, needs = NEEDING[case]
    outcome = check(function, *specs, first=first)
    assert [str(need.fact) for need in outcome.needs] == needs


#: Subscripts with a tensor of k x l indices, all of them 0.
LOOKUPS: dict[str, Callable[..., Any]] = {
    "first": lambda x, i: x[i],
    "middle": lambda x, i: x[:, i],
    "last": lambda x, i: x[..., i],
    "two neighbours": lambda x, i: x[:, i, i],
    "two apart": lambda x, i: x[i, :, i],
    "all": lambda x, i: x[i, i, i],
    "broadcast": lambda x, i: x[i[:, :1], i],
    "a transposed index": lambda x, i: x[i.t()],
    "into a transposed one": lambda x, i: x.transpose(0, 1)[i],
    "into a permuted one": lambda x, i: x.permute(1, 0, 2)[:, i],
    "apart in a permuted one": lambda x, i: x.permute(2, 0, 1)[i, :, i],
    "into what has gaps": lambda x, i: x[..., ::2][:, i],
    "beside an integer": lambda x, i: x[i, ..., 0],
    "an integer between": lambda x, i: x[:, i, 0],
    "beside a new dimension": lambda x, i: x[:, None, i],
    "a new dimension between": lambda x, i: x[:, i, None, i],
    "of int32": lambda x, i: x[i.int()],
}


@pytest.mark.parametrize("case", LOOKUPS)
def test_lookups(case: str) -> None:
    def rule(x: torch.Tensor, i: torch.Tensor) -> Any:
        return LOOKUPS[case](x, i * 0)

    first = {"b": 3, "s": 5, "k": 2, "l": 6}
    outcome = check(rule, X, "k l", first=first, dtypes={1: LONG})
    # Torch, too, finds nothing in a size of 0.
    assert all(0 in sizes.values() for sizes in outcome.guarded), outcome.needs


#: Subscripts with a mask of b x s.
MASKS: dict[str, Callable[..., Any]] = {
    "whole": lambda x, m: x[m],
    "beside an integer": lambda x, m: x[m, 0],
    "beside a slice": lambda x, m: x[m, 1:],
    "last": lambda x, m: x.permute(2, 0, 1)[:, m],
    "behind an ellipsis": lambda x, m: x.permute(2, 0, 1)[..., m],
    "of one dimension": lambda x, m: x[m[:, 0]] if m.shape[1] else x[m.any(1)],
    "inverted": lambda x, m: x[~m],
    "then once more": lambda x, m: (y := x[m], y[1:], y[..., 0]),
}


@pytest.mark.parametrize("case", MASKS)
def test_masks(case: str) -> None:
    first = {"b": 3, "s": 5}
    outcome = check(MASKS[case], X, "b s", first=first, dtypes={1: BOOL})
    assert all(need.kind is not need.kind.GUARD for need in outcome.needs), outcome.needs


def test_tensors_without_dimensions() -> None:
    outcome = check(lambda x, i: x[i * 0], X, "", first=SIZES, dtypes={1: LONG})
    assert [str(need.fact) for need in outcome.needs] == ["b != 0"]
    assert dynamic(check(lambda x, i: x[i], X, "", first=SIZES, dtypes={1: BOOL}))
    assert dynamic(check(lambda x, i: x[i * 0 :], X, "", first=SIZES, dtypes={1: LONG}))


#: `x[…] = v`, returning x.
WRITES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[int, Any], list[str]]] = {
    "a number": (lambda x: x.__setitem__(0, 1.0), (X,), {}, ["b >= 1"]),
    "a number in a slice": (lambda x: x.__setitem__(slice(1, None), 2), (X,), {}, []),
    "a tensor": (lambda x, v: x.__setitem__(..., v), (X, "b s 4"), {}, []),
    "a tensor of another dtype": (
        lambda x, v: x.__setitem__(..., v), (X, "b s 4"), {1: torch.float64}, [],
    ),
    "a row": (lambda x, v: x.__setitem__((slice(None), slice(1, None)), v), (X, "4"), {}, []),
    "dimensions of 1 in front": (
        lambda x, v: x.__setitem__(..., v), (X, "1 1 1 s 4"), {}, [],
    ),
    "by mask": (lambda x, m: x.__setitem__(m, 0.0), (X, "b s"), {1: BOOL}, []),
    "a row by mask": (lambda x, v, m: x.__setitem__(m, v), (X, "4", "b s"), {2: BOOL}, []),
    "by list": (lambda x, v: x.__setitem__((..., [0, 2]), v), (X, "b s 2"), {}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITES)
def test_writes(case: str) -> None:
    function, specs, dtypes, needs = WRITES[case]

    def rule(*args: Any) -> Any:
        function(*args)
        return args[0]

    outcome = check(rule, *specs, first=SIZES, dtypes=dtypes)
    assert [str(need.fact) for need in outcome.needs] == needs
    assert len(outcome.guarded) <= len(needs)


def test_a_write_makes_the_target_require_grad() -> None:
    def rule(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x[0] = v.requires_grad_() * 2
        return x * 1

    with torch.enable_grad():
        made = rule(torch.zeros(2, 3), torch.ones(3))
    assert made.requires_grad


def _any(value: Any) -> Any:
    """Past the types, which torch's stubs know to be wrong."""
    return value


#: Subscripts that torch rejects for a tensor of 3 x 5.
REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "out of range": lambda x: x[3],
    "out of range at the front": lambda x: x[-4],
    "too many": lambda x: x[0, 0, 0],
    "a step of 0": lambda x: x[::0],
    "a negative step": lambda x: x[::-1],
    "a float": lambda x: x.__getitem__(_any(1.0)),
    "an index of floats": lambda x: x[torch.zeros(2)],
    "an index of int8": lambda x: x[torch.zeros(2, dtype=torch.int8)],
    "a mask of another size": lambda x: x[torch.ones(4, dtype=torch.bool)],
    "a written mask of another size": lambda x: x[[True, False]],
    "indices that do not broadcast": lambda x: x[[0, 1], [0, 1, 2]],
    "a list out of range": lambda x: x[[0, 3]],
    "a value that does not fit": lambda x: x.__setitem__(0, torch.zeros(4)),
    "a value with too many dimensions": lambda x: x.__setitem__(0, torch.zeros(2, 5)),
    "a value of another dtype by list": lambda x: x.__setitem__([0], torch.zeros(5).double()),
    "a complex number": lambda x: x.__setitem__(0, _any(1j)),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first=SIZES)
