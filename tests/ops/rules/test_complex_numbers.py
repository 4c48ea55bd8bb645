"""Complex numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import inside_out

AB = {"a": 3, "b": 4}


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.real + z.imag,
        lambda z: torch.real(z).sin(),
        lambda z: z.conj() * z,
        lambda z: torch.angle(z),
        lambda z: z.abs(),
        lambda z: torch.conj_physical(z),
        lambda z: z.conj_physical_(),
        lambda z: z.conj().resolve_conj(),
        lambda z: torch.complex(z.real, z.imag),
        lambda z: torch.polar(z.abs(), z.angle()),
        lambda z: z.sgn() + 1,
        lambda z: z.real.contiguous(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_functions(function: Any, dtype: torch.dtype) -> None:
    assert dynamic(check(function, "a b", first=AB, dtype=dtype))
    assert dynamic(check(function, "a b", first=AB, dtype=dtype, prepare=inside_out))


def test_real_numbers_are_their_own() -> None:
    for function in (torch.real, torch.conj, torch.conj_physical, torch.resolve_conj, torch.angle):
        assert dynamic(check(function, "a b", first=AB, prepare=inside_out))
    assert dynamic(check(torch.angle, "a b", first=AB, dtype=torch.int64))


@pytest.mark.parametrize(
    "function",
    [torch.imag, lambda x: torch.complex(x, x.double()), lambda x: torch.polar(x.long(), x.long())],
)
def test_rejected(function: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, "a b", first=AB)
