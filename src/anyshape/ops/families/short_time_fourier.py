"""Fourier transforms of overlapping frames of a signal, and back."""

from __future__ import annotations

from anyshape.errors import UnknownOperator
from anyshape.ops.families.matmul import require_same
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.op import Op, OpKind, names_of
from anyshape.ops.promotion import complex_of, real, result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Fact, Size, and_, ge, gt, le, lt, ne


def _require_window(
    q: ShapeQuery, n_fft: Size, hop: Size, length: Size, window: Meta | None
) -> None:
    q.require(gt(hop, 0), "frames advance")
    q.require(and_(gt(length, 0), le(length, n_fft)), "a window lies within a frame")
    if window is not None:
        if window.rank != 1:
            raise q.fail("a window is a vector")
        require_same(q, window.shape[0], length, "the window and its length")


def _fits(padding: str, size: Size, pad: Size) -> Fact:
    """What torch asks of a signal that is padded."""
    if padding == "reflect":
        return lt(pad, size)
    return le(pad, size) if padding == "circular" else ge(size, int(padding != "constant"))


def _stft(
    q: ShapeQuery,
    input: Meta,
    n_fft: Size,
    hop_length: Size | None = None,
    win_length: Size | None = None,
    window: Meta | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Meta:
    if align_to_window or input.device.type != "cpu":
        raise UnknownOperator(op=q.op)
    if input.rank not in (1, 2) or not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise q.fail("a signal is of floats, with or without a batch")
    hop = n_fft // 4 if hop_length is None else hop_length
    _require_window(q, n_fft, hop, n_fft if win_length is None else win_length, window)
    dtype = input.dtype if window is None else result_type((input, window))
    samples = input.shape[-1]
    if input.rank == 2:
        q.require(gt(input.shape[0], 0), "a batch of signals is not empty")
    if center:
        q.require(_fits(pad_mode, samples, n_fft // 2), f"a signal can be padded by {pad_mode}")
        samples = samples + n_fft // 2 * 2
    q.require(le(n_fft, samples), "a frame fits into the signal")
    whole = dtype.is_complex if onesided is None else not onesided
    if dtype.is_complex and not whole:
        raise q.fail("a transform of complex numbers has two sides")
    if return_complex is None and not dtype.is_complex:
        raise q.fail("return_complex must be given for real input")
    bins = n_fft if whole else n_fft // 2 + 1
    frames = (samples - n_fft) // hop + 1
    batch, first = input.shape[:-1], input.rank - 1
    order = (*range(first), first + 1, first)  # computed frame by frame
    dtype = dtype if dtype.is_complex else complex_of(dtype)
    if return_complex is not False:
        return input.like((*batch, bins, frames), dtype, Dense(order))
    return input.like((*batch, bins, frames, 2), real(dtype), Dense((*order, first + 2)))


def _istft(
    q: ShapeQuery,
    input: Meta,
    n_fft: Size,
    hop_length: Size | None = None,
    win_length: Size | None = None,
    window: Meta | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Size | None = None,
    return_complex: bool = False,
) -> Meta:
    if input.rank not in (2, 3) or not input.dtype.is_complex:
        raise q.fail("frames are complex, with or without a batch")
    for size in input.shape:
        q.require(gt(size, 0), "there are frames")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    _require_window(q, n_fft, hop, width, window)
    q.require(le(hop, width), "windows overlap or touch")
    bins, frames = input.shape[-2:]
    if onesided is None:
        onesided = q.decide(ne(bins, n_fft), "as many bins as samples have two sides")
    require_same(q, bins, n_fft // 2 + 1 if onesided else n_fft, "the bins of a frame")
    if return_complex and onesided:
        raise q.fail("a complex signal has two sides")
    samples = n_fft + hop * (frames - 1)
    if length is not None:
        samples = length
    elif center:
        samples = samples - n_fft // 2 * 2
    q.require(gt(samples, 0), "the signal is not empty")
    dtype = input.dtype if return_complex else real(input.dtype)
    return input.like((*input.shape[:-2], samples), dtype)


ROWS: tuple[Op, ...] = (
    Op("stft", names_of("stft", ("torch.functional.stft",)), _stft, OpKind.CALL_OUT),
    Op("istft", names_of("istft", ("torch.functional.istft",)), _istft, OpKind.CALL_OUT),
)
