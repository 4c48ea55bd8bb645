"""Whether the elements of two tensors are the same, as far as two ways to compute them can be."""

from __future__ import annotations

from typing import Final

import torch

#: Relative and absolute as in `torch.testing.assert_close`, then relative to the largest element:
#: sums in another order are off by units in the last place of their terms, not of the sum.
_TOLERANCES: Final = {
    torch.float16: (1e-3, 1e-5, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-5, 1.6e-2),
    # A unit in the last place.
    torch.float8_e4m3fn: (2**-3, 2**-9, 2**-3),
    torch.float8_e4m3fnuz: (2**-3, 2**-10, 2**-3),
    torch.float8_e5m2: (2**-2, 2**-16, 2**-2),
    torch.float8_e5m2fnuz: (2**-2, 2**-17, 2**-2),
    torch.float32: (1.3e-6, 1e-5, 1e-5),
    torch.float64: (1e-7, 1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5, 1e-3),
    torch.complex64: (1.3e-6, 1e-5, 1e-5),
    torch.complex128: (1e-7, 1e-7, 1e-7),
}


def values_difference(ours: torch.Tensor, theirs: torch.Tensor) -> str | None:
    """How the elements differ, in words; the two have one shape and dtype."""
    with torch.no_grad(), torch.inference_mode(False):
        mine, other = ours.detach(), theirs.detach()
        if mine.device.type == "meta":
            return None
        if mine.layout is not torch.strided:
            mine, other = mine.to_dense(), other.to_dense()
        if mine.is_quantized:
            mine, other = mine.int_repr(), other.int_repr()
        tolerance = _TOLERANCES.get(mine.dtype)
        if tolerance is not None and mine.dtype.itemsize == 1:  # which torch does not compare
            mine, other = mine.float(), other.float()
        if torch.equal(mine, other):
            return None
        if tolerance is None:
            return _told(mine, other, mine != other)
        return _float_difference(mine, other, *tolerance)


def _float_difference(
    mine: torch.Tensor, other: torch.Tensor, relative: float, absolute: float, of_largest: float
) -> str | None:
    wide = torch.complex128 if mine.dtype.is_complex else torch.float64
    mine, other = mine.to(wide), other.to(wide)
    size = torch.where(other.isfinite(), other.abs(), 0.0)
    allowed = absolute + torch.maximum(relative * size, of_largest * size.max())
    both_nan = mine.isnan() & other.isnan()
    off = ~((mine - other).abs() <= allowed) & ~both_nan & (mine != other)
    return _told(mine, other, off) if bool(off.any()) else None


def _told(mine: torch.Tensor, other: torch.Tensor, off: torch.Tensor) -> str | None:
    count = int(off.sum())
    if not count:
        return None
    at = tuple(int(index) for index in off.nonzero()[0])
    text = f"{count} of {mine.numel()} elements differ: {mine[at].item()!r} at {list(at)}"
    return f"{text}, where eager has {other[at].item()!r}"
