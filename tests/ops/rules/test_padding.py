"""Padding in all modes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import pad

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

FIRST = {"n": 2, "h": 6, "w": 7}


@pytest.mark.parametrize("layout", ["contiguous", "channels-last", "transposed", "with gaps"])
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("pads", [(1, 2), (1, 0, 2, 1), (-1, 1, 0, 0), (-1, -1, 0, -2)], ids=str)
def test_modes(mode: str, pads: tuple[int, ...], layout: str) -> None:
    def rule(x: torch.Tensor) -> Any:
        if layout == "transposed":
            x = x.transpose(2, 3)
        if layout == "with gaps":
            x = x[..., ::2]
        return pad(x if len(pads) == 4 else x[0], pads, mode=mode)

    def prepare(t: torch.Tensor) -> torch.Tensor:
        return t.to(memory_format=torch.channels_last) if layout == "channels-last" else t

    outcome = check(rule, "n 3 h w", first=FIRST, prepare=prepare)
    if mode == "constant" and min(pads) >= 0:
        assert all(0 in sizes.values() for sizes in outcome.guarded), outcome.needs
    assert outcome.served


def test_symbolic_padding() -> None:
    outcome = check(lambda x, k: pad(x, (k, 1)), "n w", Sym("k"), first={"n": 2, "w": 3, "k": 2})
    assert dynamic(outcome)
    assert outcome.needs == []
    outcome = check(
        lambda x, k: pad(x, (k, 1), mode="reflect"), "n w", Sym("k"),
        first={"n": 2, "w": 5, "k": 2},
    )  # fmt: skip
    assert {"n": 2, "w": 1, "k": 2} in outcome.guarded


def test_constant_pad_nd_and_other_ranks() -> None:
    for function in (
        lambda x: torch.constant_pad_nd(x, (1, 1), 2.5),
        lambda x: torch.constant_pad_nd(x, ()),
        lambda x: pad(x, (0, 0, 1, 1, 2, 2)),
        lambda x: pad(x.flatten(), (3, 1), value=1.0),
        lambda x: pad(x > 0, (1, 1)),
    ):
        assert dynamic(check(function, "n h w", first=FIRST))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("pads", [(-2, -1, -1, 0), (1, -2, -2, 1), (-1, 1, -2, 1)], ids=str)
def test_what_is_cut_off_is_taken_as_torch_takes_it(mode: str, pads: tuple[int, ...]) -> None:
    """Whether a size may be cut down to 0 differs by mode and by the version of torch."""
    then = [{"h": h, "w": w} for h in range(1, 5) for w in range(1, 5)]
    outcome = check(lambda x: pad(x, pads, mode=mode), "2 3 h w", first={"h": 6, "w": 7}, then=then)
    assert outcome.served
    assert not outcome.needless


REJECTED = {
    "an odd number": ((1,), "constant"),
    "too many": ((1,) * 6, "constant"),
    "more than there is": ((-4, -2, 0, 0), "constant"),
    "more than there is in front": ((-6, 4), "constant"),
    "a reflection of the whole": ((0, 5), "reflect"),
    "twice around": ((6, 0), "circular"),
    "all dimensions": ((1, 1, 1, 1), "reflect"),
    "nothing": ((), "replicate"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    pads, mode = REJECTED[case]
    with pytest.raises((RuntimeError, NotImplementedError)):
        pad(torch.randn(3, 5), pads, mode=mode)
    with pytest.raises(ShapeMismatch):
        check(lambda x: pad(x, pads, mode=mode), "b s", first={"b": 3, "s": 5})
