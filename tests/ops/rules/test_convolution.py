"""Convolutions on symbols and on real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Outcome, Sym, check, dynamic
from tests.ops.laid_out import channels_last

BATCH = {"n": 3, "h": 9, "w": 8}


def needs(outcome: Outcome) -> set[str]:
    return {str(need.fact) for need in outcome.needs}


# A kernel must fit, which 0 and 1 do not always: `then` has the sizes that torch accepts.
THEN = [
    {"n": 5, "h": 11, "w": 17},
    {"n": 1, "h": 9, "w": 8},
    {"n": 0, "h": 9, "w": 8},
    {"n": 2, "h": 3, "w": 3},
]


@pytest.mark.parametrize("prepare", [None, channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"stride": 2},
        {"stride": (2, 1), "padding": (1, 0)},
        {"padding": 2, "dilation": (1, 1)},
        {"padding": "same"},
        {"padding": "valid", "stride": [3]},
    ],
    ids=str,
)
def test_conv2d(kwargs: Any, dtype: torch.dtype, prepare: Any) -> None:
    outcome = check(
        F.conv2d,
        "n 4 h w",
        "6 4 3 3",
        "6",
        first=BATCH,
        then=THEN,
        dtype=dtype,
        prepare=prepare,
        **kwargs,
    )
    assert dynamic(outcome)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("function", "specs", "kwargs"),
    [
        (F.conv1d, ("n 4 h", "6 4 3"), {}),
        (
            F.conv1d,
            ("n 4 h", "6 2 3", "6"),
            {"groups": 2, "stride": 2, "padding": 1, "dilation": 1},
        ),
        (F.conv1d, ("4 h", "6 4 3"), {"padding": "same"}),
        (F.conv1d, ("n 4 h", "6 4 2"), {"padding": "same"}),
        (F.conv3d, ("n 4 h w 7", "6 4 3 3 2"), {"stride": (1, 2, 2)}),
        (F.conv3d, ("4 h w 7", "6 4 3 3 2"), {}),
        (F.conv2d, ("4 h w", "6 4 3 3"), {"stride": 2}),
        (torch.conv2d, ("n 4 h w", "4 1 3 3"), {"groups": 4}),
        (F.conv_transpose1d, ("n 4 h", "4 6 3"), {"stride": 2, "output_padding": 1}),
        (F.conv_transpose1d, ("n 4 h", "4 3 3", "6"), {"groups": 2}),
        (F.conv_transpose2d, ("n 4 h w", "4 6 3 3"), {"stride": (2, 3), "padding": 1}),
        (F.conv_transpose2d, ("n 4 h w", "4 6 3 3"), {"dilation": 2, "output_padding": 1}),
        (F.conv_transpose2d, ("4 h w", "4 6 3 3"), {}),
        (F.conv_transpose3d, ("n 4 h w 3", "4 2 3 3 3", "2"), {"padding": 1}),
    ],
)
def test_dims_and_kinds(function: Callable[..., Any], specs: tuple[str, ...], kwargs: Any) -> None:
    assert dynamic(check(function, *specs, first=BATCH, then=THEN, **kwargs))
    if function is not F.conv3d and function is not F.conv_transpose3d:
        assert dynamic(
            check(function, *specs, first=BATCH, then=THEN, prepare=channels_last, **kwargs)
        )


def test_one_by_one_takes_every_size() -> None:
    outcome = check(F.conv2d, "n 4 h w", "6 4 1 1", first=BATCH)
    assert needs(outcome) == {"h >= 1", "w >= 1"}
    assert {"n": 0, "h": 9, "w": 8} in outcome.served
    assert {"n": 3, "h": 1, "w": 8} in outcome.served


def test_a_kernel_larger_than_the_image_is_checked() -> None:
    outcome = check(F.conv2d, "n 4 h w", "6 4 3 3", first=BATCH)
    assert {"n": 3, "h": 1, "w": 8} in outcome.guarded
    assert needs(outcome) >= {"h >= 3", "w >= 3"}


def test_symbolic_channels() -> None:
    outcome = check(
        F.conv2d,
        "n c h w",
        "o c 3 3",
        "o",
        first={**BATCH, "c": 2, "o": 5},
        then=[{"n": 2, "c": 3, "h": 4, "w": 5, "o": 1}, {"n": 2, "c": 1, "h": 4, "w": 5, "o": 2}],
    )
    assert dynamic(outcome)


@pytest.mark.parametrize("prepare", [None, channels_last])
def test_symbolic_kernel_and_numbers(prepare: Any) -> None:
    first = {"h": 9, "k": 3, "s": 2, "p": 1}
    then = [{"h": 17, "k": 5, "s": 1, "p": 0}, {"h": 1, "k": 1, "s": 3, "p": 0}]
    outcome = check(
        lambda x, w, s, p: F.conv2d(x, w, stride=(s, s), padding=(p, p)),
        "2 4 h 9",
        "6 4 k 1",
        Sym("s"),
        Sym("p"),
        first=first,
        then=then,
        prepare=prepare,
    )
    assert dynamic(outcome)


@pytest.mark.parametrize(
    "layout",
    [
        lambda t: t.transpose(2, 3).contiguous().transpose(2, 3),
        lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
        lambda t: channels_last(torch.cat([t, t], 2))[:, :, ::2],
        lambda t: channels_last(t[:1]).expand(t.shape) if t.shape[0] else t,
    ],
)
def test_other_layouts_at_their_own_sizes(layout: Any) -> None:
    check(
        F.conv2d,
        "3 4 9 8",
        "6 4 3 3",
        first={},
        prepare=lambda t: layout(t) if t.shape[0] == 3 else t,
    )


def test_weight_channels_last() -> None:
    prepare = lambda t: channels_last(t) if t.shape[-1] == 3 else t  # noqa: E731
    assert dynamic(
        check(F.conv2d, "n 4 h w", "6 4 3 3", first=BATCH, then=THEN[:3], prepare=prepare)
    )


def test_padded_single_element_is_not_channels_last() -> None:
    outcome = check(
        lambda x, w: F.conv2d(x, w, padding=1),
        "2 c h h",
        "5 c 1 1",
        first={"c": 2, "h": 3},
        then=[{"c": 1, "h": 1}, {"c": 1, "h": 4}],
        prepare=lambda t: channels_last(t) if t.shape[2] > 1 else t,
    )
    assert {"c": 1, "h": 1} in outcome.guarded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_conv3d_channels_last(dtype: torch.dtype) -> None:
    then = [{"n": 5, "h": 4, "w": 8}, {"n": 1, "h": 9, "w": 8}, {"n": 0, "h": 9, "w": 8}]
    outcome = check(
        F.conv3d,
        "n 4 h w 5",
        "6 4 3 3 3",
        first=BATCH,
        then=then,
        prepare=channels_last,
        dtype=dtype,
    )
    assert outcome.served
    single = check(
        F.conv3d,
        "n 4 h w 5",
        "6 4 3 3 3",
        first={**BATCH, "n": 1},
        then=then,
        prepare=channels_last,
        dtype=dtype,
    )
    assert single.served


def test_convolution_and_tbc() -> None:
    last = (None, [1, 1], [1, 1], [1, 1])
    assert dynamic(
        check(
            torch.convolution, "n 4 h w", "6 4 3 3", *last, False, [0, 0], 1, first=BATCH, then=THEN
        )
    )
    assert dynamic(
        check(
            torch.convolution, "n 4 h w", "4 6 3 3", *last, True, [0, 0], 1, first=BATCH, then=THEN
        )
    )
    outcome = check(
        torch.conv_tbc, "t b c", "2 c o", "o", 1, first={"t": 5, "b": 2, "c": 3, "o": 4}
    )
    assert dynamic(outcome)


@pytest.mark.parametrize(
    ("function", "specs", "kwargs"),
    [
        (F.conv2d, ("2 4 2 9", "6 4 3 3"), {}),
        (F.conv2d, ("2 4 9 9", "6 3 3 3"), {}),
        (F.conv2d, ("2 4 9 9", "6 4 3 3", "5"), {}),
        (F.conv2d, ("2 4 9 9", "6 4 3 3"), {"padding": "same", "stride": 2}),
        (F.conv2d, ("2 4 9 9", "6 4 3 3"), {"padding": -1}),
        (F.conv2d, ("2 4 9 9", "5 2 3 3"), {"groups": 2}),
        (F.conv2d, ("2 2 4 9 9", "6 4 3 3"), {}),
        (F.conv2d, ("2 4 9 9", "6 4 3"), {}),
        (F.conv2d, ("2 4 9 9", "6 4 3 3"), {"stride": (1, 1, 1)}),
        (F.conv2d, ("2 4 0 9", "6 4 3 3"), {"padding": 2}),
        (F.conv_transpose2d, ("2 4 9 9", "3 4 3 3"), {}),
        (F.conv_transpose2d, ("2 4 9 9", "4 4 3 3"), {"output_padding": 1}),
        (F.conv_transpose2d, ("2 4 1 1", "4 4 1 1"), {"padding": 1}),
    ],
)
def test_rejected(function: Callable[..., Any], specs: tuple[str, ...], kwargs: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, **kwargs)


def test_dtypes_must_agree() -> None:
    with pytest.raises(ShapeMismatch):
        check(F.conv2d, "2 4 9 9", "6 4 3 3", first={}, dtypes={1: torch.float64})
