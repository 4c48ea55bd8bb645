"""Fourier transforms on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fft

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import inside_out

FIRST = {"a": 3, "b": 4, "c": 6}
THEN = [
    {"a": 5, "b": 7, "c": 8},
    {"a": 2, "b": 3, "c": 2},
    {"a": 1, "b": 4, "c": 6},
    {"a": 3, "b": 2, "c": 9},
]
REAL = {"rfft", "ihfft"}


def swapped(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


@pytest.mark.parametrize("prepare", [None, inside_out, swapped])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_all_dims(name: str, prepare: Any) -> None:
    # A transform back to real numbers needs two points at least.
    then = [s for s in THEN if min(s.values()) > 1] if name in ("irfft", "hfft") else THEN
    kwargs: Any = {"first": FIRST, "then": then, "prepare": prepare}
    for dim in (0, 1, -1):
        assert dynamic(check(getattr(fft, name), "a b c", dim=dim, **kwargs))
    assert dynamic(check(getattr(fft, name + "2"), "a b c", **kwargs))
    assert dynamic(check(getattr(fft, name + "n"), "a b c", **kwargs))
    for dims in ((0, 1), (0, 2), (2, 0)):
        assert dynamic(check(getattr(fft, name + "n"), "a b c", dim=dims, **kwargs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    if name in REAL and dtype.is_complex:
        with pytest.raises(ShapeMismatch):
            check(getattr(fft, name), "a b", first={"a": 3, "b": 4}, dtype=dtype)
    else:
        assert dynamic(
            check(
                getattr(fft, name),
                "a b",
                first={"a": 3, "b": 4},
                dtype=dtype,
                then=[{"a": 5, "b": 2}],
            )
        )


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths(name: str) -> None:
    first = {"a": 3, "b": 6, "n": 8}
    then = [{"a": 3, "b": 6, "n": 5}, {"a": 1, "b": 9, "n": 1}, {"a": 4, "b": 1, "n": 9}]
    function = getattr(fft, name)
    assert dynamic(check(lambda x, n: function(x, n=n), "a b", Sym("n"), first=first, then=then))
    assert dynamic(
        check(lambda x, n: function(x, n=n, dim=0), "b a", Sym("n"), first=first, then=then)
    )
    outcome = check(
        lambda x, n: function(x, n=n, dim=0),
        "b a",
        Sym("n"),
        first=first,
        then=then,
        prepare=inside_out,
    )
    assert outcome.served
    # With MKL the layout tells padding from slicing.
    assert bool(outcome.guarded) == torch.backends.mkl.is_available()
    many = getattr(fft, name + "n")
    assert dynamic(check(lambda x, n: many(x, s=(n, n)), "2 a b", Sym("n"), first=first, then=then))
    assert dynamic(
        check(lambda x, n: many(x, s=(-1, n)), "2 a b", Sym("n"), first=first, then=then)
    )


def test_needs() -> None:
    batch = {"a >= 1"} if torch.backends.mkl.is_available() else set[str]()
    outcome = check(fft.fft, "a b", first={"a": 3, "b": 4})
    assert {str(need.fact) for need in outcome.needs} == {*batch, "b >= 1"}
    outcome = check(fft.irfft, "a b", first={"a": 3, "b": 4})
    assert {str(need.fact) for need in outcome.needs} == {*batch, "b >= 2"}


@pytest.mark.skipif(torch.backends.mkl.is_available(), reason="MKL takes no empty batch")
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft2", "ihfft2"])
def test_an_empty_batch(name: str) -> None:
    then = [{"a": 0, "b": 4}, {"a": 0, "b": 7}]
    assert dynamic(check(getattr(fft, name), "a 3 b", first={"a": 3, "b": 4}, then=then))


def test_shift_and_frequencies() -> None:
    assert dynamic(check(fft.fftshift, "a b", first={"a": 3, "b": 4}))
    assert dynamic(check(fft.ifftshift, "a b", dim=1, first={"a": 3, "b": 4}, prepare=swapped))
    assert dynamic(check(fft.fftfreq, Sym("n"), first={"n": 5}))
    assert dynamic(check(lambda n: fft.rfftfreq(n, dtype=torch.float64), Sym("n"), first={"n": 5}))


@pytest.mark.parametrize(
    ("function", "specs", "kwargs"),
    [
        (fft.fft, ("0",), {}),
        (fft.fft, ("4",), {"n": 0}),
        (fft.fft, ("",), {}),
        (fft.irfft, ("1",), {}),
        (fft.fftn, ("3",), {"s": (2, 2)}),
        (fft.fftn, ("3 3",), {"s": (2, 2), "dim": (0,)}),
        (fft.fftn, ("3 3",), {"dim": (0, 0)}),
        (fft.fft2, ("3",), {}),
        (fft.rfftn, ("",), {}),
    ],
)
def test_rejected(function: Any, specs: Any, kwargs: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, **kwargs)
