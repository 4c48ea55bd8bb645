"""A tensor that comes as two arguments, in a program that was compiled with two, and changes the
form of one: its shape, its strides, its memory, or whether it requires gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

#: What changes the form of a tensor, and leaves all of its elements known.
CHANGES: dict[str, Callable[[Tensor], object]] = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(),
    "resize_": lambda x: x.resize_(1, 2),
    "as_strided_": lambda x: x.as_strided_((2,), (1,)),
    "set_": lambda x: x.set_(torch.zeros(5)),  # pyright: ignore[reportArgumentType] its stub is of storages
    "data": lambda x: setattr(x, "data", torch.zeros(5)),
    "requires_grad_": lambda x: x.requires_grad_(),
    "a result with a history": lambda x: x.mul_(torch.ones((), requires_grad=True)),
}

#: What a program sees of the other one.
SEEN: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda x: x.shape,
    "strides": lambda x: (x.stride(), x.is_contiguous()),
    "rank": lambda x: x.dim(),
    "gradients": lambda x: (x.requires_grad, x.is_leaf),
    "elements": lambda x: (x * 2).tolist(),
}


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("change", CHANGES)
def test_form_is_that_of_both(change: str, seen: str, backend: str) -> None:
    def program(x: Tensor, others: list[Tensor]) -> Any:
        before = SEEN[seen](others[0])
        CHANGES[change](x)
        return before, SEEN[seen](others[0]), x.shape

    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for rows, columns in ((4, 3), (5, 2), (1, 2)):
        for is_one in (False, True, False):
            found = []
            for function in (program, compiled):
                x = torch.arange(rows * columns + 0.0).reshape(rows, columns)
                other = x if is_one else x.clone()
                found.append((function(x, [other]), x.shape, x.stride(), other.shape))
            assert found[0] == found[1], (rows, columns, is_one)


def test_tensors_of_other_ranks_are_not_compared() -> None:
    """Many tensors beside one that is changed cost a guard each: only what could be it has one."""

    @anyshape.compile(dynamic=True)
    def program(x: Tensor, other: Tensor, number: Tensor) -> Tensor:
        x.t_()
        return x + number + other.sum()

    program(torch.ones(2, 3), torch.ones(4), torch.tensor(1))
    assert not [each for each in program.entries[0].guards if each.kind.value == "NO_ALIASING"]


@pytest.mark.parametrize("asked_before", [False, True])
@pytest.mark.parametrize("change", ["requires_grad_", "a result with a history", "t_"])
def test_what_is_asked_of_a_tensor_is_how_it_is_now(change: str, asked_before: bool) -> None:
    def program(x: Tensor) -> Any:
        before = (x.is_leaf, x.requires_grad) if asked_before else ()
        CHANGES[change](x)
        return before, x.is_leaf, x.requires_grad

    compiled = anyshape.compile(program, dynamic=True)
    for rows in (4, 3, 5):
        assert compiled(torch.ones(rows, 3)) == program(torch.ones(rows, 3))
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("is_view", [False, True])
def test_a_history_is_that_of_views_too(is_view: bool) -> None:
    def program(x: Tensor, other: Tensor) -> Any:
        x.mul_(torch.ones((), requires_grad=True))
        return other.requires_grad, other.is_leaf, (other * 2).requires_grad

    compiled = anyshape.compile(program, dynamic=True)
    for again in (False, False, is_view, False, is_view):
        found = []
        for function in (program, compiled):
            x = torch.ones(3)
            found.append(function(x, x[1:] if again else torch.ones(2)))
        assert found[0] == found[1]
