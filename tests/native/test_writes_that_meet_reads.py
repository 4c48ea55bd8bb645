"""A write to a part of a tensor that reads another part of it: torch refuses some, does others in
an order of its own, and what compiled code gives is that, with gradients and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape

Write = Callable[[torch.Tensor], object]


def _if_square(write: Write) -> Write:
    return lambda x: write(x) if x.shape[0] == x.shape[1] else None


def _set(key: Any, read: Callable[[torch.Tensor], Any]) -> Write:
    def write(x: torch.Tensor) -> None:
        x[key] = read(x)

    return write


_ALL = slice(None)
#: Those that may meet for some sizes.
MEETING: dict[str, Write] = {
    "running sum": lambda x: x[:, 1:].add_(x[:, :-1]),
    "running product": lambda x: x[:, 1:].mul_(x[:, :-1]),
    "rows down": _set(slice(1, None), lambda x: x[:-1]),
    "rows up": _set(slice(None, -1), lambda x: x[1:]),
    "columns": _set((_ALL, slice(1, None)), lambda x: x[:, :-1]),
    "every second": _set((slice(None, 2),), lambda x: x[1:3]),
    "all of it": _set(slice(1, None), lambda x: x[:1]),
    "transposed": lambda x: x.t()[1:].add_(x.t()[:-1]),
    "transposed and set": lambda x: x.t().__setitem__(slice(1, None), x.t()[:-1]),
    "other dimensions": lambda x: x[None].transpose(1, 2)[0, 1:].mul_(x.t()[:-1]),
    "copied": lambda x: x[..., 2:].copy_(x[..., :-2]),
    "along the diagonal": lambda x: x[1:, 1:].add_(x[:-1, :-1]),
    "narrowed": lambda x: x.narrow(1, 1, 2).add_(x.narrow(1, 0, 2)),
    "as a line": lambda x: x.view(-1)[1:].sub_(x.view(-1)[:-1]),
    "clamped by rows": lambda x: x[1:].clamp_(min=x[:-1]),
    "clamped by itself": _if_square(lambda x: x.clamp_(min=x.t())),
    "product": _if_square(lambda x: x[1:].addmm_(x[:-1], x)),
    "of two": lambda x: x[1:].atan2_(x[:-1]),
    "by index": lambda x: x.__setitem__(torch.arange(x.shape[0]).flip(0), x),
    "part by index": lambda x: x.__setitem__(torch.arange(x.shape[0] - 1), x[1:]),
    "by index from itself": lambda x: x.index_copy_(0, torch.arange(x.shape[0]).flip(0), x),
    "added by index": lambda x: x.index_add_(0, torch.arange(x.shape[0]).flip(0), x),
    "scattered": lambda x: x.scatter_(0, torch.zeros(x.shape, dtype=torch.long), x),
}
#: Those that never do.
APART: dict[str, Write] = {
    "the very same": lambda x: x.add_(x),
    "all of it": _set(_ALL, lambda x: x),
    "the same part": lambda x: x[0].add_(x[0]),
    "other row": lambda x: x[0].add_(x[1]),
    "other column": lambda x: x[:, 0].add_(x[:, 1]),
    "set to another column": _set((_ALL, 0), lambda x: x[:, 1]),
    "set to another row": _set(1, lambda x: x[0]),
    "last to first": _set(-1, lambda x: x[0]),
    "mask of itself": lambda x: x.masked_fill_(x > 1, 0.0),
}
SIZES = (2, 3, 4, 5)


def _compared(write: Write, has_grad: bool, sizes: tuple[int, ...]) -> Any:
    def function(given: torch.Tensor) -> torch.Tensor:
        x = given * 1.5
        write(x)
        return x * 1

    compiled = anyshape.compile(function, dynamic=True)
    for size in (*sizes, *sizes):
        x = torch.arange(1.0, 4.0 * size + 1, dtype=torch.float64).reshape(size, 4)
        x.requires_grad_(has_grad)
        want, got = _outcome(function, x), _outcome(compiled, x)
        assert [type(each) for each in want] == [type(each) for each in got], (size, want, got)
        for one, other in zip(want, got, strict=True):
            same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            assert same, (size, want, got)
    return compiled


def _outcome(function: Callable[..., torch.Tensor], x: torch.Tensor) -> list[Any]:
    try:
        result = function(x)
    except RuntimeError as error:
        return [str(error)[:60]]
    if not x.requires_grad:
        return [result]
    try:
        return [result.detach(), torch.autograd.grad(result.sum(), x)[0]]
    except RuntimeError:
        return [result.detach(), RuntimeError]


@pytest.mark.parametrize("sizes", [SIZES, SIZES[::-1]], ids=["small first", "large first"])
@pytest.mark.parametrize("has_grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("name", MEETING)
def test_writes_that_may_meet(name: str, has_grad: bool, sizes: tuple[int, ...]) -> None:
    _compared(MEETING[name], has_grad, sizes)


@pytest.mark.parametrize("has_grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("name", APART)
def test_writes_that_are_apart_are_native(name: str, has_grad: bool) -> None:
    compiled = _compared(APART[name], has_grad, SIZES)
    assert "no native code" not in str(compiled.explain())
