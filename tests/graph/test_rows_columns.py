"""Windows of images as columns, and images from columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.graph.comparing import check

SIZES = ((2, 3, 8, 9), (1, 1, 5, 5), (3, 2, 12, 7), (0, 2, 8, 8))

WINDOWS = [
    lambda x: functional.unfold(x, (2, 2)),
    lambda x: functional.unfold(x, (3, 2), stride=2),
    lambda x: functional.unfold(x, 3, padding=1),
    lambda x: functional.unfold(x, 2, dilation=2, padding=(1, 0), stride=(1, 2)),
]


@pytest.mark.parametrize("columns", WINDOWS)
def test_windows_as_columns(columns: Callable[..., Any]) -> None:
    check(columns, [(torch.randn(shape),) for shape in SIZES])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_windows_of_other_dtypes(dtype: torch.dtype) -> None:
    check(WINDOWS[2], [(torch.randn(shape).to(dtype),) for shape in SIZES[:2]])


def test_windows_of_what_is_computed_and_of_one_image() -> None:
    def columns(x: torch.Tensor) -> torch.Tensor:
        return functional.unfold((x * 2 + 1).transpose(-1, -2), 3, padding=1) + 1

    check(columns, [(torch.randn(shape[1:]),) for shape in SIZES])


@pytest.mark.parametrize(
    ("columns", "image"),
    [
        (WINDOWS[2], lambda x, n, m: functional.fold(x, (n, m), 3, padding=1)),
        (WINDOWS[0], lambda x, n, m: functional.fold(x, (n, m), (2, 2))),
        (
            lambda x: functional.unfold(x, (2, 1), dilation=2),
            lambda x, n, m: functional.fold(x, (n, m), (2, 1), dilation=2),
        ),
        (
            lambda x: functional.unfold(x, 2, stride=2),
            lambda x, n, m: functional.fold(x, (n, m), 2, stride=2),
        ),
        (
            lambda x: functional.unfold(x, (3, 2), stride=2, padding=1),
            lambda x, n, m: functional.fold(x * 2, (n, m), (3, 2), stride=2, padding=1),
        ),
        (
            lambda x: functional.unfold(x, 2, stride=(3, 4)),
            lambda x, n, m: functional.fold(x, (n, m), 2, stride=(3, 4)),
        ),
    ],
)
def test_images_from_columns(columns: Callable[..., Any], image: Callable[..., Any]) -> None:
    check(image, [(columns(torch.randn(shape)), *shape[2:]) for shape in SIZES[:3]])


def test_windows_with_gaps_by_steps_are_put_together_by_torch() -> None:
    def image(x: torch.Tensor) -> torch.Tensor:
        return functional.fold(x, (5, 5), 2, dilation=2, stride=2)

    check(image, [(torch.randn(n, 4, 4),) for n in (2, 1, 5)], called=["col2im"])


def test_a_window_that_does_not_fit_is_an_error() -> None:
    def columns(x: torch.Tensor) -> torch.Tensor:
        return functional.unfold(x, 3)

    check(columns, [(torch.randn(2, 2, n, 5),) for n in (5, 3, 2)], fails=True)
