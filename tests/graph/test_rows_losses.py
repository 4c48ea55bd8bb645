from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import anyshape
from tests.native.checks import check, floats

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
SHAPES = ((4, 5), (7, 33), (1, 1), (3, 2))
REDUCTIONS = ("mean", "sum", "none")

OF_TWO: dict[str, Callable[..., Any]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": lambda a, b, reduction: F.smooth_l1_loss(a, b, beta=0.5, reduction=reduction),
    "smooth_l1 without an edge": lambda a, b, reduction: F.smooth_l1_loss(
        a, b, beta=0.0, reduction=reduction
    ),
    "huber": lambda a, b, reduction: F.huber_loss(a, b, delta=0.7, reduction=reduction),
    "bce with logits": lambda a, b, reduction: F.binary_cross_entropy_with_logits(
        a, b.abs(), reduction=reduction
    ),
    "bce with weights": lambda a, b, reduction: F.binary_cross_entropy_with_logits(
        a, b.abs(), weight=b, pos_weight=a, reduction=reduction
    ),
    "kl_div": lambda a, b, reduction: F.kl_div(a, b.relu(), reduction=reduction),
    "kl_div of logs": lambda a, b, reduction: F.kl_div(a, b, log_target=True, reduction=reduction),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.filterwarnings("ignore")
def test_of_two(name: str, reduction: str, dtype: torch.dtype) -> None:
    loss = OF_TWO[name]
    calls = [floats(shape, shape, dtype=dtype) for shape in SHAPES]
    plans = check(lambda a, b: loss(a, b, reduction=reduction), calls)
    assert all(len(plan.steps) == 1 for plan in plans.made)


def test_mean_of_a_batch() -> None:
    calls = [floats(shape, shape) for shape in SHAPES]
    check(lambda a, b: F.kl_div(a, b.abs(), reduction="batchmean"), calls)


def classes(dtype: torch.dtype) -> list[list[torch.Tensor]]:
    maker = torch.Generator().manual_seed(0)
    shapes = ((4, 7), (33, 50), (3, 2), (2, 5, 3, 4), (3, 6, 2, 9))
    return [
        [x, torch.randint(0, x.shape[1], (x.shape[0], *x.shape[2:]), generator=maker)]
        for x in floats(*shapes, dtype=dtype)
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float, reduction: str, dtype: torch.dtype) -> None:
    def program(x: torch.Tensor, target: torch.Tensor) -> Any:
        return F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)

    for calls in (classes(dtype)[:3], classes(dtype)[3:]):
        plans = check(program, calls)
        # One kernel for the losses of rows, one for their sum.
        assert all(len(plan.steps) <= 2 for plan in plans.made)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss], ids=lambda f: f.__name__)
def test_ignored_classes_and_weights(loss: Any, weighted: bool, reduction: str) -> None:
    def program(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> Any:
        given = weight if weighted else None
        return loss(x, target, given, ignore_index=2, reduction=reduction)

    calls = [[x, t, *floats(x.shape[1:2])] for x, t in classes(torch.float32)[:2]]
    check(program, calls)


def test_nothing_but_ignored_classes() -> None:
    x = floats((3, 4))[0]
    target = torch.full((3,), -100)
    check(F.cross_entropy, [[x, target]])


def test_one_row() -> None:
    calls = [[x, torch.tensor(3)] for x in floats((5,), (9,))]
    check(F.cross_entropy, calls)


def test_a_class_out_of_range_is_an_error() -> None:
    compiled = anyshape.compile(F.cross_entropy, dynamic=True)
    x, target = classes(torch.float32)[0]
    with torch.no_grad():
        compiled(x, target)
        compiled(x, target)
        for bad in (7, -1, 1000):
            with pytest.raises(IndexError, match="out of bounds"):
                compiled(x, torch.full_like(target, bad))


def chances(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    made = [each.sigmoid() for each in floats(*shapes, dtype=dtype)]
    for each in made:
        flat = each.view(-1)
        flat[:1], flat[1:2] = 0.0, 1.0
    return made


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_bce_of_chances(reduction: str, dtype: torch.dtype) -> None:
    calls = [chances(shape, shape, dtype=dtype) for shape in (*SHAPES, (0, 3))]
    check(lambda a, b: F.binary_cross_entropy(a, b, reduction=reduction), calls)
    check(lambda a, b: F.binary_cross_entropy(a, b, b[:1] + a, reduction=reduction), calls)


@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan")])
def test_bce_of_what_is_no_chance(bad: float) -> None:
    compiled = anyshape.compile(F.binary_cross_entropy, dynamic=True)
    a, b = chances((4, 5), (4, 5))
    with torch.no_grad():
        torch.testing.assert_close(compiled(a, b), F.binary_cross_entropy(a, b))
        a[2, 3] = bad
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            compiled(a, b)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_of_chances(reduction: str, smoothing: float) -> None:
    def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(a, b, reduction=reduction, label_smoothing=smoothing)

    def weighted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        # Of the size of one: terms that are large and cancel have no digits in common.
        weight = torch.arange(1.0, 1 + a.shape[1]) / a.shape[1]
        return F.cross_entropy(a, b, weight, reduction=reduction, label_smoothing=smoothing)

    calls = [floats(shape, shape) for shape in (*SHAPES, (0, 3), (4, 0))]
    check(plain, calls)
    check(weighted, calls)
    deep = [floats(shape, shape) for shape in ((2, 3, 4), (1, 5, 2))]
    check(weighted, deep)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weighted_and_smoothed(reduction: str) -> None:
    def loss(a: torch.Tensor, classes: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(
            a, classes, weight, reduction=reduction, label_smoothing=0.1, ignore_index=1
        )

    calls = [(floats((n, 5))[0], torch.arange(n) % 5, torch.arange(5.0) + 1) for n in (4, 7, 1, 12)]
    check(loss, calls)
