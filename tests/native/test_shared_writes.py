"""Writes that are seen elsewhere: in other inputs, in other elements, in views, by autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from tests.native.plans import watched


def compared(function: Callable[..., Any], calls: list[Callable[[], tuple[Any, ...]]]) -> None:
    """The calls in order, results and inputs as in eager; errors of the same type."""
    compiled = anyshape.compile(function, dynamic=True)
    with watched() as plans, torch.no_grad():
        for make in calls:
            torch.manual_seed(0)
            here = make()
            torch.manual_seed(0)
            there = make()
            try:
                wanted = function(*here)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    compiled(*there)
                continue
            given = compiled(*there)
            for a, b in zip((*wanted, *here), (*given, *there), strict=True):
                torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5, equal_nan=True)
                assert a.stride() == b.stride() or a.numel() <= 1
    assert plans.runs, "no native program has run"


def apart(size: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randn(size, 4), torch.randn(size, 4))


def the_same(size: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randn(size, 4),) * 2


def parts_of_one(size: int) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        whole = torch.randn(size, 5)
        return whole[:, :4], whole[:, 1:]

    return make


def add_and_read(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.add_(y)
    return (x * y,)


def read_and_write_a_part(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    both = x + y
    y[1:] = x[:-1] * 2
    return both, x * 2


def write_by_a_call(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    before = y + 1
    x.renorm_(2, 0, 1.0)
    return before, y * 2


@pytest.mark.parametrize("function", [add_and_read, read_and_write_a_part, write_by_a_call])
@pytest.mark.parametrize("shared", [the_same, parts_of_one])
def test_inputs_that_share_memory_after_inputs_that_do_not(function: Any, shared: Any) -> None:
    calls = [apart(3), apart(6), shared(3), shared(7), apart(5)]
    compared(function, calls)


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (1, 2), (4, 1), (9, 2)])
def test_an_input_whose_elements_share_memory_is_changed(strides: tuple[int, int]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        return (x + 1,)

    def strided(size: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(9 * size + 9).as_strided((size, 4), strides),)

    compared(function, [strided(3), strided(5), strided(17)])


def fill_where(shown: torch.Tensor) -> None:
    shown.masked_fill_(torch.arange(shown.shape[0])[:, None, None] % 2 == 0, 1.0)


def put_mask(shown: torch.Tensor) -> None:
    shown[shown > 1] = 5.0


def put_positions(shown: torch.Tensor) -> None:
    shown[torch.tensor([0, 3])] = torch.arange(2.0)[:, None, None]


def add_one(shown: torch.Tensor) -> None:
    shown.add_(1)


@pytest.mark.parametrize("write", [fill_where, put_mask, put_positions, add_one])
@pytest.mark.parametrize("made_here", [True, False])
@pytest.mark.filterwarnings("ignore:Use of")
def test_an_expanded_tensor_is_written_to(write: Callable[..., None], made_here: bool) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x * 2 if made_here else x
        shown = base.unsqueeze(0).expand(6, *base.shape)
        write(shown)
        return base * 3, shown

    # Eager has nothing against it where there are no elements.
    sizes = (0, 3, 5, 1, 17) if write is add_one else (3, 5, 1, 17)
    compared(function, [lambda size=size: (torch.randn(size, 4),) for size in sizes])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_a_running_fold_in_place_keeps_the_layout(name: str, dim: int) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        turned = y.t()
        getattr(y, name)(dim)
        y[..., 0] = 1
        return y, turned, turned + 1

    sizes = (3, 5, 1, 17)
    transposed = [lambda size=size: (torch.randn(4, size).t(),) for size in sizes]
    compared(function, [*transposed, lambda: (torch.randn(3, 4),)])


def test_autograd_sees_that_a_tensor_was_changed() -> None:
    def change(x: torch.Tensor) -> None:
        x.mul_(2)
        x[0] = 1.0

    compiled = anyshape.compile(change, dynamic=True)
    with watched() as plans, torch.no_grad():
        compiled(torch.randn(4))
    factor = torch.randn(3, requires_grad=True) * 1
    loss = (factor * factor).sum()
    with watched() as plans, torch.no_grad():
        compiled(factor.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert not plans.errors


def test_inference_tensors_cannot_be_changed_outside_of_inference_mode() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    compiled = anyshape.compile(change, dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(4))
        with torch.inference_mode():
            made = torch.zeros(5)
            assert compiled(made).sum() == 5
        with pytest.raises(RuntimeError, match="inference tensor"):
            compiled(made)


def test_tensors_without_elements_are_reshaped() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.diagonal().abs()
        flat = y.reshape(-1)
        y.add_(1)
        return (flat,)

    compiled = anyshape.compile(function, dynamic=False)
    with watched() as plans, torch.no_grad():
        assert compiled(torch.randn(0, 2, 3))[0].shape == (0,)
    assert not plans.errors


def test_roots_of_halves_are_powers() -> None:
    special = torch.tensor([float("-inf"), float("inf"), -0.0, 0.0, -1.0, 4.0])

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x**0.5, x**-0.5

    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        compared(function, [lambda dtype=dtype: (special.to(dtype).repeat(3),)] * 2)
