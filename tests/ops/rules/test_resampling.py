"""Interpolation and sampling on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from anyshape.ops.float_scale import exact_ratio
from anyshape.ops.shape_query import NeedKind
from tests.ops.driver import Sym, check, dynamic
from tests.ops.rules.test_pooling import channels_last

FIRST = {"n": 3, "c": 2, "h": 9, "w": 8}
THEN = [
    {"n": 2, "c": 5, "h": 17, "w": 12},
    {"n": 1, "c": 1, "h": 3, "w": 2},
    {"n": 0, "c": 3, "h": 9, "w": 8},
]
INPUT = {1: "n c h", 2: "n c h w", 3: "n c h w 6"}


@pytest.mark.parametrize("prepare", [None, channels_last])
@pytest.mark.parametrize(
    ("mode", "dims", "more"),
    [
        *(("nearest", dims, {}) for dims in (1, 2, 3)),
        *(("nearest-exact", dims, {}) for dims in (1, 2, 3)),
        *(("area", dims, {}) for dims in (1, 2, 3)),
        ("linear", 1, {"align_corners": True}),
        ("bilinear", 2, {}),
        ("bicubic", 2, {"align_corners": False}),
        ("trilinear", 3, {}),
        ("bilinear", 2, {"antialias": True}),
        ("bicubic", 2, {"antialias": True}),
    ],
)
def test_interpolate(mode: str, dims: int, more: Any, prepare: Any) -> None:
    kwargs = {"mode": mode, "first": FIRST, "then": THEN, "prepare": prepare, **more}
    assert dynamic(check(F.interpolate, INPUT[dims], scale_factor=2, **kwargs))
    assert dynamic(check(F.interpolate, INPUT[dims], scale_factor=(0.5,) * dims, **kwargs))
    assert dynamic(check(F.interpolate, INPUT[dims], size=7, **kwargs))


@pytest.mark.parametrize("factor", [1.5, 1 / 3, 2 / 3, 0.1, 0.7, 2.3])
def test_ratios(factor: float) -> None:
    then = [{"h": h} for h in range(10, 200, 7)]
    kwargs: Any = {"scale_factor": factor, "recompute_scale_factor": True}
    outcome = check(F.interpolate, "2 3 h", first={"h": 60}, then=then, **kwargs)
    assert dynamic(outcome) == (exact_ratio(factor) is not None)


@pytest.mark.parametrize("factor", [a / b for b in range(1, 60) for a in (1, 2, 3, 7, 50)])
def test_a_ratio_is_exact(factor: float) -> None:
    ratio = exact_ratio(factor)
    if ratio is not None:
        sizes = [
            *range(2000),
            *(k * ratio.denominator + j for k in (10**6, 2**30 // 3, 2**31) for j in (-1, 0, 1)),
        ]
        assert all(int(n * factor) == n * ratio.numerator // ratio.denominator for n in sizes)


def test_other_factors_specialise() -> None:
    assert exact_ratio(1 / 49) is None  # int(49 * (1 / 49)) is 0
    outcome = check(
        F.interpolate, "2 3 h", scale_factor=1.2345678, first={"h": 60}, then=[{"h": 61}]
    )
    assert [need.kind for need in outcome.needs] == [NeedKind.SPECIALISED]


def test_symbolic_size() -> None:
    outcome = check(
        lambda x, a, b: F.interpolate(x, (a, b), mode="bilinear"),
        "2 3 h h",
        Sym("a"),
        Sym("b"),
        first={"h": 6, "a": 4, "b": 9},
        then=[{"h": 2, "a": 1, "b": 1}, {"h": 9, "a": 3, "b": 4}],
    )
    assert dynamic(outcome)


def test_grids() -> None:
    first = {"n": 2, "c": 3, "h": 5, "a": 4, "b": 6}
    outcome = check(F.grid_sample, "n c h 7", "n a b 2", align_corners=False, first=first)
    assert {str(need.fact) for need in outcome.needs} == {"h >= 1"}
    assert len(outcome.guarded) == 1
    outcome = check(F.grid_sample, "n c h 7 3", "n a b 2 3", align_corners=True, first=first)
    assert len(outcome.guarded) == 1
    last = check(
        F.grid_sample, "n c h 7", "n a b 2", align_corners=False, first=first, prepare=channels_last
    )
    assert len(last.guarded) == 1
    sizes = [{"n": 1, "h": 3, "w": 2}, {"n": 4, "h": 1, "w": 1}]
    outcome = check(
        lambda t, n, h, w: F.affine_grid(t, [n, 3, h, w], align_corners=False),
        "n 2 3",
        Sym("n"),
        Sym("h"),
        Sym("w"),
        first={"n": 2, "h": 4, "w": 5},
        then=sizes,
    )
    assert dynamic(outcome)
    outcome = check(F.affine_grid, "2 3 4", [2, 3, 4, 5, 6], align_corners=False, first={})
    assert outcome.served


@pytest.mark.parametrize(
    ("function", "specs", "kwargs"),
    [
        (F.interpolate, ("2 3 4",), {}),
        (F.interpolate, ("2 3 4",), {"size": 4, "scale_factor": 2}),
        (F.interpolate, ("2 3 4",), {"size": 4, "mode": "bilinear"}),
        (F.interpolate, ("2 3 4 4",), {"size": (4, 4, 4)}),
        (F.interpolate, ("2 0 4 4",), {"size": 4}),
        (F.interpolate, ("2 3 1 4",), {"scale_factor": 0.5}),
        (F.grid_sample, ("2 3 4 4", "1 4 4 2"), {"align_corners": False}),
        (F.grid_sample, ("2 3 4 4", "2 4 4 3"), {"align_corners": False}),
        (F.affine_grid, ("2 2 3", [3, 3, 4, 4]), {"align_corners": False}),
    ],
)
def test_rejected(function: Any, specs: Any, kwargs: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, **kwargs)


def test_dtypes() -> None:
    outcome = check(F.interpolate, "n c h w", size=5, first=FIRST, then=THEN, dtype=torch.uint8)
    assert dynamic(outcome)
    with pytest.raises(ShapeMismatch):
        check(F.interpolate, "2 3 4 4", size=5, first={}, dtype=torch.int64)
