"""Operators on lists of tensors, as optimizers use them: the same as eager, one for each tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyshape
from anyshape.capture.builtins.foreach import MODELS
from tests.wrappers.programs import difference

NAMES = sorted(each.__name__ for each in MODELS if each.__name__.startswith("_foreach_"))
ADD: Any = getattr(torch, "_foreach_add")  # noqa: B009 no stub has them
MUL: Any = getattr(torch, "_foreach_mul")  # noqa: B009
SCALED = ("addcdiv", "addcmul")


def tensors(n: int, seed: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.rand(n + i, 2, generator=made) + 0.5 for i in range(3)]


def arguments(name: str, n: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Second and later arguments in all forms that the operator has."""
    base = name.removeprefix("_foreach_").rstrip("_")
    other, third = tensors(n, 1), tensors(n, 2)
    if base in SCALED:
        factors = (0.5, [0.5, 2.0, 3.0], torch.tensor([0.5, 2.0, 3.0]))
        return [((other, third), {}), *(((other, third, each), {}) for each in factors)]
    if base == "lerp":
        return [((other, 0.25), {}), ((other, third), {})]
    if base == "norm":
        return [((), {}), ((1,), {}), ((float("inf"),), {"dtype": torch.float64})]
    if base in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"):
        forms = [((other,), {}), ((2,), {}), ((0.5,), {}), (([0.5, 2.0, 3.0],), {})]
        return [*forms, ((other,), {"alpha": 0.5})] if base in ("add", "sub") else forms
    return [((other,), {})] if base == "copy" else [((), {})]


@pytest.mark.parametrize("name", NAMES)
def test_as_eager(name: str):
    function = getattr(torch, name)
    for form in range(len(arguments(name, 2))):

        @anyshape.compile(backend="eager")
        def step(xs, args, kwargs):
            made = function(xs, *args, **kwargs)
            return [each * 2 for each in made]

        for n in (2, 3, 5):
            args, kwargs = arguments(name, n)[form]
            eager, compiled = tensors(n, 0), tensors(n, 0)
            expected = [each * 2 for each in function(eager, *args, **kwargs)]
            assert difference(expected, step(compiled, args, kwargs)) is None
            assert difference(eager, compiled) is None
        assert step.stats().graphs > 0


NUMBERS = (0.9, 0.3337, 1e5, 1e-9, 3, True)
WITH_NUMBERS = sorted(
    name for name in NAMES if name.split("_")[2] in ("add", "sub", "mul", "div", "pow", "clamp")
)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_in_half_precision(name: str, dtype: torch.dtype):
    """Torch rounds some of them before it computes, and others not."""
    function = getattr(torch, name)

    @anyshape.compile
    def step(xs, number):
        return function(xs, number)

    for number in NUMBERS:
        for shape in ((), (1,), (3, 1), (1000,)):
            made = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
            eager, ours = [made.clone()], [made.clone()]
            want, found = outcome(function, eager, number), outcome(step, ours, number)
            if isinstance(want, str) or isinstance(found, str):
                assert want == found, number
            else:
                assert same_bits(want, found), number
            assert same_bits(eager[0], ours[0])


def outcome(function: Any, xs: list[torch.Tensor], number: float) -> torch.Tensor | str:
    try:
        (made,) = function(xs, number) or xs
    except RuntimeError as error:
        return str(error)
    return made


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))


def test_gradients_are_recorded_as_by_eager():
    @anyshape.compile(backend="eager")
    def step(xs):
        return MUL(xs, 2.0)

    for n in (2, 3, 4):
        xs = [each.requires_grad_() for each in tensors(n, 0)]
        made = step(xs)
        assert [type(each.grad_fn) for each in made] == [
            type(each.grad_fn) for each in MUL(xs, 2.0)
        ]
        made[1].sum().backward()
        assert xs[1].grad is not None
        assert torch.equal(xs[1].grad, torch.full_like(xs[1], 2.0))


def test_lists_that_do_not_fit_fail_as_eager_does():
    @anyshape.compile(backend="eager")
    def step(xs, ys):
        return ADD(xs, ys)

    with pytest.raises(RuntimeError, match="same number of tensors"):
        step(tensors(2, 0), tensors(2, 1)[:2])
