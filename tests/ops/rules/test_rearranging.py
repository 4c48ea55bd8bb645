"""flip, roll, rotations, repeats, triangles, channels in space, windows as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

FIRST = {"b": 3, "s": 5}

DYNAMIC: dict[str, Callable[..., Any]] = {
    "flip": lambda x: x.flip(0, 2),
    "flip a list": lambda x: torch.flip(x, [1]),
    "flip transposed": lambda x: x.permute(2, 0, 1).flip(0),
    "flip with gaps": lambda x: x[..., ::2].flip(-1),
    "fliplr": lambda x: x.fliplr(),
    "flipud": lambda x: torch.flipud(x.transpose(0, 1)),
    "reversed": lambda x: x.__reversed__(),
    "roll": lambda x: x.roll(2, 1),
    "roll all": lambda x: torch.roll(x, -3),
    "roll two": lambda x: x.roll((1, 2), (0, 1)),
    "roll transposed": lambda x: x.transpose(0, 1).roll(1, 0),
    "rot90": lambda x: x.rot90(),
    "rot90 twice": lambda x: torch.rot90(x, 2, (1, 2)),
    "rot90 back": lambda x: x.transpose(0, 2).rot90(-1, (0, 2)),
    "rot90 around": lambda x: x.transpose(0, 1).rot90(4),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat in front": lambda x: x.repeat([2, 1, 1, 1]),
    "repeat not at all": lambda x: x.repeat(0, 1, 1),
    "tile": lambda x: x.tile(2),
    "tile more": lambda x: torch.tile(x, (2, 1, 1, 3)),
    "tril": lambda x: x.tril(),
    "triu": lambda x: torch.triu(x.transpose(0, 1), 1),
    "tril_": lambda x: x.clone().transpose(1, 2).tril_(-1),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], "b s 4", first=FIRST)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


IMAGES: dict[str, Callable[..., Any]] = {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_shuffle of one": lambda x: torch.pixel_shuffle(x[0], 2) if len(x) else x,
    "channel_shuffle": lambda x: F.channel_shuffle(x, 4),
    "flip": lambda x: x.flip(1),
    "roll by a part": lambda x: x.roll(1, 1),
    "roll by nothing": lambda x: x.roll(0, 1),
    "unfold": lambda x: F.unfold(x, 1),
    "repeat": lambda x: x.repeat(1, 1, 2, 2),
}


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("case", IMAGES)
def test_images(case: str, layout: str) -> None:
    def prepare(t: torch.Tensor) -> torch.Tensor:
        return t.to(memory_format=torch.channels_last) if layout == "channels-last" else t

    first = {"n": 2, "h": 6, "w": 4}
    outcome = check(IMAGES[case], "n 8 h w", first=first, prepare=prepare)
    assert all(0 in sizes.values() for sizes in outcome.guarded), outcome.needs


def test_pixel_unshuffle() -> None:
    first = {"n": 2, "h": 6, "w": 4}
    then = [{"n": n, "h": h, "w": w} for n in (0, 1, 3) for h in (0, 2, 3, 8) for w in (1, 2, 4)]
    outcome = check(lambda x: F.pixel_unshuffle(x, 2), "n 8 h w", first=first, then=then)
    assert outcome.served == [s for s in then if all(s.values()) and s["h"] % 2 + s["w"] % 2 == 0]


def test_windows() -> None:
    first = {"n": 2, "h": 6, "w": 8}
    outcome = check(
        lambda x: F.unfold(x, (3, 2), dilation=2, padding=1, stride=2), "n 3 h w", first=first
    )
    assert {"n": 0, "h": 6, "w": 8} in outcome.served
    assert {"n": 2, "h": 1, "w": 8} in outcome.guarded

    def there_and_back(x: torch.Tensor, h: int, w: int) -> Any:
        return F.fold(F.unfold(x, 3, padding=1), (h, w), 3, padding=1)

    outcome = check(there_and_back, "n 3 h w", Sym("h"), Sym("w"), first=first)
    assert {"n": 2, "h": 1, "w": 8} in outcome.served


def test_symbolic_repeats() -> None:
    outcome = check(lambda x, k: x.repeat(k, 2), "b s", Sym("k"), first={**FIRST, "k": 3})
    assert dynamic(outcome)
    outcome = check(lambda x, k: x.roll(k, 0), "b s", Sym("k"), first={**FIRST, "k": 3})
    assert dynamic(outcome)


REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "flip twice": lambda x: x.flip(0, 0),
    "fliplr of a vector": lambda x: x[0].fliplr(),
    "roll by too few": lambda x: x.roll((1, 2), 0),
    "rotate in one dimension": lambda x: x.rot90(1, (0, 0)),
    "rotate a vector": lambda x: x[0].rot90(),
    "repeat too few": lambda x: x.repeat(2),
    "repeat backwards": lambda x: x.repeat(-1, 1),
    "a triangle of a vector": lambda x: x[0].tril(),
    "shuffle of 5 channels": lambda x: F.pixel_shuffle(x[:, :, None, None], 2),
    "shuffle of a matrix": lambda x: F.pixel_shuffle(x, 2),
    "unshuffle of odd sizes": lambda x: F.pixel_unshuffle(x[None], 2),
    "groups that do not fit": lambda x: F.channel_shuffle(x[None, :, :, None], 2),
    "a window that does not fit": lambda x: F.unfold(x[None], 4),
    "columns that do not fit": lambda x: F.fold(x[None], (2, 2), 2),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first=FIRST)
