"""Pooling on symbols and on real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic, dynamic_but_formats

FIRST = {"n": 3, "c": 2, "h": 9, "w": 8}
THEN = [
    {"n": 2, "c": 5, "h": 17, "w": 12},
    {"n": 1, "c": 3, "h": 9, "w": 8},
    {"n": 0, "c": 3, "h": 9, "w": 8},
    {"n": 2, "c": 1, "h": 4, "w": 5},
    *({"n": 2, "c": 2, "h": 3 + i, "w": 11 - i} for i in range(9)),
]
INPUT = {1: "n c h", 2: "n c h w", 3: "n c h w 6"}
UNBATCHED = {1: "c h", 2: "c h w", 3: "c h w 6"}


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    dims = range(2, tensor.dim())
    return (
        tensor.permute(0, *dims, 1)
        .contiguous()
        .permute(0, tensor.dim() - 1, *(d - 1 for d in dims))
    )


WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1, "padding": 1},
]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kwargs", WINDOWS, ids=str)
@pytest.mark.parametrize("prepare", [None, channels_last])
def test_windows(dims: int, kwargs: dict[str, Any], prepare: Any) -> None:
    for name in ("max_pool", "avg_pool"):
        function = getattr(F, f"{name}{dims}d")
        assert dynamic(
            check(function, INPUT[dims], first=FIRST, then=THEN, prepare=prepare, **kwargs)
        )
    function = getattr(F, f"max_pool{dims}d")
    kwargs = {**kwargs, "return_indices": True}
    assert dynamic(check(function, INPUT[dims], first=FIRST, then=THEN, prepare=prepare, **kwargs))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_without_a_batch(dims: int) -> None:
    first = {"c": 2, "h": 9, "w": 8}
    then = [{"c": 3, "h": 4, "w": 5}, {"c": 1, "h": 7, "w": 9}]
    for name in ("max_pool", "avg_pool"):
        assert dynamic(
            check(getattr(F, f"{name}{dims}d"), UNBATCHED[dims], 2, first=first, then=then)
        )
    for name in ("adaptive_max_pool", "adaptive_avg_pool"):
        assert dynamic(
            check(getattr(F, f"{name}{dims}d"), UNBATCHED[dims], 2, first=first, then=then)
        )


def test_max_pool3d_of_channels_last_without_a_batch() -> None:
    prepare = lambda t: t.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)  # noqa: E731
    check(
        F.max_pool3d,
        "c h w 6",
        2,
        first={"c": 2, "h": 9, "w": 8},
        then=[{"c": 3, "h": 4, "w": 5}],
        prepare=prepare,
    )
    check(
        F.max_pool3d,
        "c 9 8 6",
        2,
        first={"c": 2},
        prepare=lambda t: t.transpose(1, 2),
        then=[{"c": 5}, {"c": 1}],
    )


@pytest.mark.parametrize("dilation", [2, (1, 3)])
def test_dilation(dilation: Any) -> None:
    assert dynamic(check(F.max_pool2d, "n c h w", 2, 1, 1, dilation, first=FIRST, then=THEN))


@pytest.mark.parametrize("tracked", [True, False])
def test_max_pool1d_keeps_the_layout_only_for_gradients(tracked: bool) -> None:
    prepare = lambda t: channels_last(t).requires_grad_(tracked)  # noqa: E731
    assert dynamic(check(F.max_pool1d, "n c h", 2, first=FIRST, then=THEN, prepare=prepare))
    with torch.no_grad():
        assert dynamic(check(F.max_pool1d, "n c h", 2, first=FIRST, then=THEN, prepare=prepare))


def test_only_the_batch_may_be_empty() -> None:
    outcome = check(F.max_pool2d, "n c h w", 1, first=FIRST)
    assert {str(need.fact) for need in outcome.needs} == {"c >= 1", "h >= 1", "w >= 1"}
    assert {**FIRST, "n": 0} in outcome.served


def test_symbolic_window() -> None:
    first = {"h": 12, "k": 3, "s": 2}
    then = [{"h": 30, "k": 5, "s": 7}, {"h": 5, "k": 5, "s": 1}]
    for ceil in (True, False):
        outcome = check(
            lambda x, k, s, c=ceil: F.max_pool2d(x, (k, 2), (s, s), ceil_mode=c),
            "2 3 h h",
            Sym("k"),
            Sym("s"),
            first=first,
            then=then,
        )
        assert dynamic(outcome)


@pytest.mark.parametrize("prepare", [None, channels_last])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive(dims: int, prepare: Any) -> None:
    for size in (1, 4, (None,) * (dims - 1) + (3,)):
        for name in ("adaptive_max_pool", "adaptive_avg_pool"):
            function = getattr(F, f"{name}{dims}d")
            assert dynamic(
                check(function, INPUT[dims], size, first=FIRST, then=THEN, prepare=prepare)
            )
    function = getattr(F, f"adaptive_max_pool{dims}d")
    outcome = check(
        function, INPUT[dims], 2, return_indices=True, first=FIRST, then=THEN, prepare=prepare
    )
    assert dynamic(outcome)


def test_adaptive_symbolic_target() -> None:
    first = {"n": 2, "h": 8, "o": 3}
    then = [
        {"n": 1, "h": 1, "o": 1},
        {"n": 2, "h": 0, "o": 1},
        {"n": 2, "h": 5, "o": 0},
        {"n": 2, "h": 5, "o": 9},
    ]
    outcome = check(
        lambda x, o: F.adaptive_avg_pool2d(x, (o, o)), "n 3 h h", Sym("o"), first=first, then=then
    )
    assert dynamic(outcome)


def test_adaptive_to_one_takes_every_size() -> None:
    assert dynamic(check(F.adaptive_avg_pool2d, "n c h w", 1, first=FIRST))
    assert dynamic(check(F.adaptive_avg_pool1d, "n c h", 1, first=FIRST))
    assert dynamic(check(F.adaptive_avg_pool3d, "n c h w 3", 1, first=FIRST))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_lp_pool(dims: int) -> None:
    for prepare in (None, channels_last):
        function = getattr(F, f"lp_pool{dims}d")
        outcome = check(
            function, INPUT[dims], 2.0, 3, 2, True, first=FIRST, then=THEN, prepare=prepare
        )
        assert dynamic_but_formats(outcome) if prepare is channels_last else dynamic(outcome)


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional(dims: int) -> None:
    function = getattr(F, f"fractional_max_pool{dims}d")
    then = [sizes for sizes in THEN if min(sizes["h"], sizes["w"]) > 3]
    assert dynamic(check(function, INPUT[dims], 2, 2, first=FIRST, then=then))
    assert dynamic(check(function, INPUT[dims], 2, 2, return_indices=True, first=FIRST, then=then))
    assert dynamic(
        check(function, INPUT[dims], 2, output_ratio=(0.5,) * dims, first=FIRST, then=THEN)
    )


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("prepare", [None, channels_last])
def test_unpool(dims: int, prepare: Any) -> None:
    function = getattr(F, f"max_unpool{dims}d")

    last = {1: "h", 2: "h w", 3: "h w 2"}[dims]
    outcome = check(
        function,
        f"n c {last}",
        f"n c {last}",
        3,
        2,
        1,
        first=FIRST,
        then=THEN,
        prepare=prepare,
        dtypes={1: torch.int64},
    )
    assert dynamic(outcome)


def test_unpool_to_a_chosen_size() -> None:
    outcome = check(
        F.max_unpool2d,
        "n c h h",
        "n c h h",
        2,
        output_size=(17, 17),
        first=FIRST | {"h": 8},
        dtypes={1: torch.int64},
        then=[FIRST | {"h": 8, "n": 1}, FIRST | {"h": 20}],
    )
    assert len(outcome.served) == len(outcome.guarded) == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_dtypes(dtype: torch.dtype) -> None:
    assert dynamic(check(F.max_pool2d, "n c h w", 2, first=FIRST, then=THEN, dtype=dtype))
    assert dynamic(check(F.avg_pool2d, "n c h w", 2, first=FIRST, then=THEN, dtype=dtype))


@pytest.mark.parametrize(
    ("function", "specs", "dtype"),
    [
        (F.max_pool2d, ("2 3 1 9", 2), None),
        (F.max_pool2d, ("2 0 9 9", 2), None),
        (F.max_pool2d, ("2 3 9 9", 2, 1, 2), None),
        (F.max_pool2d, ("9 9", 2), None),
        (F.max_pool2d, ("2 3 9 9", 2, 0), None),
        (F.max_pool2d, ("2 3 9 9", (2, 2, 2)), None),
        (F.max_pool2d, ("2 3 9 9", 2), torch.bool),
        (F.avg_pool2d, ("2 3 9 9", 2), torch.int32),
        (F.adaptive_avg_pool2d, ("2 3 0 9", 2), None),
        (F.adaptive_avg_pool2d, ("2 3 9 9", (2, 2, 2)), None),
        (F.adaptive_max_pool2d, ("2 0 9 9", 2), None),
        (F.fractional_max_pool2d, ("2 3 9 9", 2, 9), None),
        (F.max_unpool2d, ("2 3 4 4", "2 3 4 3", 2), None),
    ],
)
def test_rejected(function: Callable[..., Any], specs: tuple[Any, ...], dtype: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, dtype=dtype or torch.float32)
