"""Short-time transforms on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

FIRST = {"b": 3, "t": 100}
THEN = [{"b": 2, "t": 57}, {"b": 1, "t": 17}, {"b": 5, "t": 64}]


@pytest.mark.filterwarnings("ignore:stft with return_complex=False")
@pytest.mark.filterwarnings("ignore:Note. you can still call")
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"center": False},
        {"hop_length": 5},
        {"onesided": False},
        {"return_complex": False},
        {"pad_mode": "constant"},
        {"normalized": True, "pad_mode": "circular"},
    ],
    ids=str,
)
def test_stft(kwargs: dict[str, Any]) -> None:
    kwargs = {"return_complex": True, **kwargs}

    def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 16, window=w, **kwargs)

    for dtypes in ({}, {0: torch.float64}, {1: torch.float64}):
        assert dynamic(check(run, "b t", "16", first=FIRST, then=THEN, dtypes=dtypes))
    assert dynamic(check(run, "t", "16", first={"t": 100}, then=[{"t": 40}]))


def test_complex_signals_and_windows() -> None:
    run = lambda x, w: torch.stft(x, 16, window=w)  # noqa: E731
    for dtypes in ({0: torch.complex64}, {1: torch.complex64}):
        assert dynamic(check(run, "b t", "16", first=FIRST, then=THEN, dtypes=dtypes))


def test_symbolic_frames() -> None:
    run = lambda x, w, n, h: x.stft(n, h, window=w, return_complex=True)  # noqa: E731
    first = {"b": 2, "t": 100, "n": 16, "h": 4}
    outcome = check(
        run, "b t", "n", Sym("n"), Sym("h"), first=first, then=[{"b": 1, "t": 30, "n": 11, "h": 3}]
    )
    assert dynamic(outcome)


def test_needs() -> None:
    run = lambda x, w: torch.stft(x, 16, window=w, return_complex=True)  # noqa: E731
    outcome = check(run, "b t", "16", first=FIRST)
    assert {str(need.fact) for need in outcome.needs} == {"b >= 1", "t >= 9"}


def _envelope(tensor: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(tensor) if tensor.dim() == 1 else tensor


@pytest.mark.parametrize(
    ("spec", "kwargs"),
    [
        ("b 9 f", {}),
        ("9 f", {}),
        ("b 9 f", {"hop_length": 5, "center": False}),
        ("b 9 f", {"length": 30}),
        ("b 16 f", {}),
        ("b 16 f", {"onesided": False, "return_complex": True}),
    ],
)
def test_istft(spec: str, kwargs: Any) -> None:
    run = lambda x, w: torch.istft(x, 16, window=w, **kwargs)  # noqa: E731
    first = {"b": 2, "f": 20} if "b" in spec else {"f": 20}
    then = [{"b": 1, "f": 9}, {"b": 3, "f": 12}] if "b" in spec else [{"f": 12}]
    kwargs_of_check: Any = {"dtypes": {0: torch.complex64}, "prepare": _envelope}
    assert dynamic(check(run, spec, "16", first=first, then=then, **kwargs_of_check))


def test_rejected() -> None:
    for specs, kwargs in (
        (("2 8", "16"), {}),
        (("2 2 100", "16"), {}),
        (("2 100", "10"), {}),
        (("2 8", "16"), {"center": False}),
    ):
        with pytest.raises(ShapeMismatch):
            check(
                lambda x, w, k=kwargs: torch.stft(x, 16, window=w, return_complex=True, **k),
                *specs,
                first={},
            )
    with pytest.raises(ShapeMismatch):
        check(
            lambda x, w: torch.istft(x, 16, window=w),
            "2 8 20",
            "16",
            first={},
            dtypes={0: torch.complex64},
        )
