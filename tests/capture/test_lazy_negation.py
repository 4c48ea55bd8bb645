"""Tensors whose memory has the other sign: the imaginary part of a conjugated one, and its kin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import anyshape

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "imag": lambda z: z.conj().imag * 2,
    "imag, resolved": lambda z: z.conj().imag.resolve_neg() + 1,
    "imag in parts": lambda z: z.conj().imag.split(1)[0] * 3,
    "neg view": lambda z: torch.ops.aten._neg_view(z.real) * 2,
    "real": lambda z: z.conj().real * 2,
    "matmul": lambda z: (z.conj() @ z.mT).imag + 1,
    "adjoint": lambda z: z.mH.imag.sum(-1),
    "twice": lambda z: z.conj().conj().imag * 2,
    "view_as_real": lambda z: torch.view_as_real(z.conj().resolve_conj()) * 2,
    "unbind": lambda z: z.conj().imag.unbind()[0] * 2,
    "returned": lambda z: z.conj().imag,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_signs(name: str) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for rows in (2, 3, 5, 2):
        z = torch.randn(rows, 4, dtype=torch.complex64)
        got, want = compiled(z), function(z)
        assert got.is_neg() == want.is_neg()
        torch.testing.assert_close(got, want)
