"""Views, copies of them, and tensors whose elements are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.graph.comparing import check

SIZES = ((5, 7), (3, 4), (1, 1), (0, 3), (3, 0), (2, 33))


def calls(sizes: tuple[tuple[int, int], ...] = SIZES) -> list[tuple[torch.Tensor]]:
    return [(torch.randn(a, b),) for a, b in sizes]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.movedim(0, 1) * 2,
        lambda x: x.swapaxes(0, 1) + 1,
        lambda x: x[None].squeeze(0) + 1,
        lambda x: (x + 1)[None, :, None].squeeze((0, 2)),
        lambda x: [part * 2 for part in (x + 1).tensor_split(3, 1)],
        lambda x: x.diagonal() * 2,
        lambda x: (x + 1).diagonal(),
        lambda x: (x + 1)[1:] * 2,
        lambda x: (x + 1)[-3:] * 2,
        lambda x: (x + 1)[:, -2:] + x[:, -2:],
        lambda x: (x + 1)[::2] * 2,
        lambda x: (x + 1).t()[1:].reshape(-1),
        lambda x: (x + 1).t().reshape(-1) * 2,
        lambda x: (x + 1).t().contiguous().view(-1) * 2,
        lambda x: (x + 1).t().flatten() * 2,
        lambda x: (x + 1).flip(0),
        lambda x: x.flip(-1) + 1,
        lambda x: (x.fliplr(), x.flipud()),
        lambda x: (x.rot90(), x.rot90(2), x.rot90(-1), x.rot90(1, (1, 0))),
        lambda x: (x.roll(2, 1), x.roll(-1), x.roll((1, 2), (0, 1)) + 1),
        lambda x: (x.repeat(2, 3), x.repeat(2, 1, 2) * 2, x.tile(2)),
        lambda x: (x.repeat_interleave(3, 1) + 1, x.repeat_interleave(2)),
        lambda x: (x.tril(), x.triu(1) * 2, (x + 1).tril(-1), x.triu(-1)),
        lambda x: (
            torch.diag_embed(x),
            torch.diag_embed(x, 1, 0, 2),
            torch.diag_embed(x, -2, 2, 0),
        ),
        lambda x: (x.diag(), x.reshape(-1).diag(-1)),
        lambda x: (torch.permute_copy(x, (1, 0)), torch.unsqueeze_copy(x, 1)),
        lambda x: functional.pad(x + 1, (1, 2)),
        lambda x: functional.pad(x, (0, 1, 2, 0), value=3.0) * 2,
        lambda x: functional.pad((x * 4).long() // 2, (2, 0), value=7),
    ],
)
def test_views_and_copies(function: Callable[..., Any]) -> None:
    check(function, calls())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [part * 2 for part in (x + 1).hsplit(2)],
        lambda x: [part * 2 for part in x.vsplit(2)],
        lambda x: [part * 2 for part in x[..., None].repeat(1, 1, 4).dsplit(2)],
        lambda x: (x + 1).unflatten(1, (2, -1)) * 2,
        lambda x: (x + 1).unfold(1, 2, 1) * 2,
        lambda x: functional.pad(x, (-1, 2)),
        lambda x: functional.pad(x, (2, -1), value=1.0),
        lambda x: functional.pad(x[None], (1, 2), mode="replicate"),
        lambda x: functional.pad(x[None], (1, 0), mode="circular"),
        lambda x: functional.pad(x[None], (1, 1), mode="reflect"),
    ],
)
def test_views_and_copies_of_even_sizes(function: Callable[..., Any]) -> None:
    check(function, calls(((4, 8), (2, 6), (2, 2), (6, 34))))


def test_centred_and_diagonal() -> None:
    shapes = ((3, 4), (1, 1), (5, 2), (4, 7), (0, 3))
    check(lambda x: torch.fft.fftshift(x) * 2, calls(shapes))
    check(lambda x: (torch.fft.ifftshift(x, dim=1), torch.fft.ifftshift(x + 1)), calls(shapes))
    check(lambda x: (torch.diagflat(x + 1, 1), torch.diagflat(x.t())), calls(shapes[:4]))


def test_channels_and_space() -> None:
    images = [(torch.randn(a, 8, 2 * b, 4),) for a, b in ((1, 2), (2, 3), (1, 1))]
    check(lambda x: functional.pixel_shuffle(x, 2), images)
    check(lambda x: functional.pixel_unshuffle(x + 1, 2), images)
    check(lambda x: functional.channel_shuffle(x, 2) * 2, images)


def test_merged_heads_are_copied_without_divisions() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    found = check(function, [(torch.randn(a, 4, b, 8),) for a, b in ((2, 3), (5, 7), (1, 1))])
    assert found.kernels
    assert not any("//" in kernel for kernel in found.kernels)


def test_what_shares_memory_for_some_sizes_is_left_to_torch_where_it_shows() -> None:
    sizes = [(torch.randn(a, b),) for a, b in ((3, 4), (1, 4), (4, 1))]

    def written(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        flat = y.t().reshape(-1)
        y.add_(1)
        return flat * 2

    def written_through(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        flat = y.t().reshape(-1)
        flat.add_(1)
        return y * 2

    check(written, sizes)
    check(written_through, sizes)
    check(lambda x: x.t().reshape(-1), sizes, called=["reshape"])
    check(lambda x: x.t().reshape(-1) * 2, sizes)
