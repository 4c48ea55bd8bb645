"""Images of other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import interpolate

import anyshape
from tests.graph.comparing import check

IMAGES = [(torch.randn(s),) for s in ((2, 3, 4, 5), (1, 2, 7, 3), (1, 1, 1, 1), (2, 3, 16, 33))]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: interpolate(x, scale_factor=2),
        lambda x: interpolate(x, size=(5, 7)) * 2,
        lambda x: interpolate(x, scale_factor=1.7),
        lambda x: interpolate(x.double(), scale_factor=(3, 1.3)),
        lambda x: interpolate(x[0], size=x.shape[1] * 5),
    ],
)
def test_nearest(function: Callable[..., Any]) -> None:
    check(function, IMAGES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: interpolate(x, scale_factor=2, mode="bilinear"),
        lambda x: interpolate(x, size=(5, 7), mode="bilinear"),
        lambda x: interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
        lambda x: interpolate(x, size=(x.shape[2] * 3, 1), mode="bilinear", align_corners=True),
        lambda x: interpolate(x[0], scale_factor=3, mode="linear"),
    ],
)
def test_between_neighbours(function: Callable[..., Any]) -> None:
    check(function, IMAGES, close=True)


def test_what_neighbours_share_is_computed_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return interpolate(torch.nn.functional.silu(x * x), scale_factor=2, mode="bilinear")

    watch = check(function, IMAGES, close=True)
    assert sum(text.count("silu(") for text in watch.kernels) == 1, watch.kernels


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("recompute", [None, True])
def test_factors_that_are_integers_of_the_call(
    mode: str, several: bool, recompute: bool | None
) -> None:
    def function(x: torch.Tensor, by: int) -> torch.Tensor:
        factor = (by, x.shape[1]) if several else by
        kwargs: Any = {"recompute_scale_factor": recompute}
        return interpolate(x * 2, scale_factor=factor, mode=mode, **kwargs) + 1

    compiled = anyshape.compile(function, dynamic=True)
    for (image,), by in itertools.product(IMAGES, (2, 3, 1)):
        torch.testing.assert_close(compiled(image, by), function(image, by))
    stats = compiled.stats()
    assert stats.graphs <= 3
    assert not stats.eager_calls


def test_no_factor_of_zero() -> None:
    def function(x: torch.Tensor, by: int) -> torch.Tensor:
        return interpolate(x, scale_factor=by) + 1

    compiled = anyshape.compile(function, dynamic=True)
    for by in (2, 3, 0):
        results = []
        for each in (function, compiled):
            try:
                results.append(each(IMAGES[0][0], by))
            except RuntimeError as error:
                results.append(torch.tensor(str(error).count("greater than 0")))
        torch.testing.assert_close(*results)
