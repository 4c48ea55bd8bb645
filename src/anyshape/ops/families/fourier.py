"""Fourier transforms on the CPU, by either library that torch is built with; other devices are left
to torch itself.

With MKL (x86-64) a transform lays its result out with the other dimensions first, by falling
strides, and the transformed ones last. It changes a dimension to the wanted length before: a slice
keeps the strides, padding makes a contiguous copy. An empty batch is an error.

With pocketfft (aarch64) results are contiguous, and a batch may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key, partial
from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.families.permute import integers_of, shifted_around
from anyshape.ops.lowering.values import Lowering, Value, place
from anyshape.ops.meta import Dense, Meta, Strided
from anyshape.ops.op import TOTAL, Op, OpKind, Rule, lower
from anyshape.ops.promotion import complex_of, floating, real
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, floordiv, ge, gt

Dims = tuple[int, ...]


def _with_mkl() -> bool:
    return torch.backends.mkl.is_available()


def _prepared(q: ShapeQuery, input: Meta, dims: Dims, sizes: Sequence[Size]) -> Meta:
    """The input with the lengths that are transformed."""
    if input.device.type != "cpu":
        raise UnknownOperator(op=q.op)
    if input.dtype in (torch.float16, torch.bfloat16, torch.complex32):
        raise q.fail(f"there is no transform of {input.dtype}")
    shape = list(input.shape)
    if not _with_mkl():
        for dim, size in zip(dims, sizes, strict=True):
            q.require(gt(size, 0), "a transform is of at least one element")
            shape[dim] = size
        return input.like(tuple(shape))
    padded = False
    for dim, size in zip(dims, sizes, strict=True):
        if size is not shape[dim]:
            if not input.is_contiguous:
                padded = q.decide(gt(size, shape[dim]), "padding makes a copy") or padded
            shape[dim] = size
    for size in shape:
        q.require(gt(size, 0), "a transform is of at least one element, and so is the batch")
    if input.is_contiguous or padded:
        return input.like(tuple(shape))
    return replace(input, shape=tuple(shape), layout=Strided(input.strides))


def _by_strides(q: ShapeQuery, input: Meta, dims: Sequence[int]) -> list[int]:
    """The dimensions by falling strides."""
    if isinstance(input.layout, Dense):
        return sorted(dims, key=input.layout.order.index)
    strides = input.strides

    def compare(a: int, b: int) -> int:
        if strides[a] == strides[b] or input.shape[a] == 1 or input.shape[b] == 1:
            return 0
        return -1 if q.decide(ge(strides[a], strides[b]), "the order of strides") else 1

    return sorted(dims, key=cmp_to_key(compare))


def _transformed(
    q: ShapeQuery, input: Meta, dims: Sequence[int], dtype: torch.dtype, last: Size | None = None
) -> Meta:
    """One step of a transform; `last` is the new length of the last of the dimensions, which then
    stays last.
    """
    shape = list(input.shape)
    if last is not None:
        shape[dims[-1]] = last
    if not _with_mkl():
        return input.like(tuple(shape), dtype)
    others = _by_strides(q, input, [dim for dim in range(input.rank) if dim not in dims])
    kept = list(dims[-1:]) if last is not None else []
    order = (*others, *_by_strides(q, input, dims[: len(dims) - len(kept)]), *kept)
    return input.like(tuple(shape), dtype, Dense(order))


def _to_complex(q: ShapeQuery, input: Meta, dims: Dims, sizes: Sequence[Size]) -> Meta:
    """Complex or real numbers to complex ones."""
    dtype = floating(input.dtype)
    dtype = dtype if dtype.is_complex else complex_of(dtype)
    if not dims:
        return input.like(dtype=dtype, layout=pointwise_layout(q, input.shape, [input]))
    return _transformed(q, _prepared(q, input, dims, sizes), dims, dtype)


def _real_to_half(q: ShapeQuery, input: Meta, dims: Dims, sizes: Sequence[Size]) -> Meta:
    """Real numbers to the first half of their symmetric transform."""
    if input.dtype.is_complex:
        raise q.fail("the input must be real")
    prepared = _prepared(q, input, dims, sizes)
    return _transformed(q, prepared, dims, complex_of(floating(input.dtype)), sizes[-1] // 2 + 1)


def _half_to_real(q: ShapeQuery, input: Meta, dims: Dims, sizes: Sequence[Size]) -> Meta:
    """The first half of a symmetric transform back to real numbers: the last dimension apart from
    the others.
    """
    q.require(gt(sizes[-1], 0), "a transform is of at least one element")
    found = _prepared(q, input, dims, (*sizes[:-1], sizes[-1] // 2 + 1))
    dtype = real(floating(input.dtype))
    if len(dims) > 1:
        found = _transformed(q, found, dims[:-1], dtype)
    return _transformed(q, found, dims[-1:], dtype, sizes[-1])


def _real_to_half_apart(q: ShapeQuery, input: Meta, dims: Dims, sizes: Sequence[Size]) -> Meta:
    """As `_real_to_half`, but the last dimension first and apart from the others."""
    if input.dtype.is_complex:
        raise q.fail("the input must be real")
    dtype = complex_of(floating(input.dtype))
    found = _prepared(q, input, dims, sizes)
    found = _transformed(q, found, dims[-1:], dtype, sizes[-1] // 2 + 1)
    return _transformed(q, found, dims[:-1], dtype) if len(dims) > 1 else found


def _of_one(kind: Rule, *, halved: bool) -> Rule:
    def rule(
        q: ShapeQuery, input: Meta, n: Size | None = None, dim: int = -1, norm: Any = None
    ) -> Meta:
        if not input.shape:
            raise q.fail("a tensor without dimensions has no transform")
        dims = (q.dim(dim, input.rank),)
        return kind(q, input, dims, _lengths(input, dims, None if n is None else (n,), halved))

    return rule


def _of_many(kind: Rule, *, halved: bool, default: Dims | None = None) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        s: Sequence[Size] | None = None,
        dim: Sequence[int] | int | None = default,
        norm: Any = None,
    ) -> Meta:
        s = (s,) if isinstance(s, int) else s
        if dim is None and s is not None:
            if len(s) > input.rank:
                raise q.fail(f"{len(s)} lengths are too many for {input.rank} dimensions")
            dims = tuple(range(input.rank - len(s), input.rank))
        else:
            dims = q.dims(dim, input.rank)
        if s is not None and len(s) != len(dims):
            raise q.fail("as many lengths as dimensions are given")
        if not dims and kind is not _to_complex:
            raise q.fail("at least one dimension is transformed")
        return kind(q, input, dims, _lengths(input, dims, s, halved))

    return rule


def _lengths(
    input: Meta, dims: Dims, given: Sequence[Size] | None, halved: bool
) -> tuple[Size, ...]:
    """The lengths in the domain that is not halved; -1 stands for the one that is there."""
    own = [input.shape[dim] for dim in dims]
    if halved and own:
        own[-1] = 2 * (own[-1] - 1)
    if given is None:
        return tuple(own)
    # A single transform takes -1 for a length, and rejects it.
    keep = len(dims) > 1
    return tuple(a if keep and b == -1 else b for a, b in zip(own, given, strict=True))


def _shift(q: ShapeQuery, input: Meta, dim: Any = None) -> Meta:
    q.dims(dim, input.rank)
    return input.like()


def _frequencies(halved: bool) -> Rule:
    def rule(
        q: ShapeQuery,
        n: Size,
        d: float = 1.0,
        *,
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Meta:
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not dtype.is_floating_point:
            raise q.fail(f"frequencies are floats, not {dtype}")
        q.require(ge(n, 0), f"a length must not be negative: {n}")
        device = torch.get_default_device() if device is None else torch.device(device)
        return Meta((n // 2 + 1 if halved else n,), dtype, Dense((0,)), device, 0, requires_grad)

    return rule


_ONE_DIM = {
    "fft": (_to_complex, False),
    "ifft": (_to_complex, False),
    "rfft": (_real_to_half, False),
    "irfft": (_half_to_real, True),
    "hfft": (_half_to_real, True),
    "ihfft": (_real_to_half, False),
}

_MANY_DIMS = {**_ONE_DIM, "ihfft": (_real_to_half_apart, False)}


def _row(name: str, rule: Rule) -> Op:
    return Op(f"fft.{name}", (f"torch.fft.{name}",), rule, OpKind.CALL_OUT, effects=TOTAL)


ROWS: tuple[Op, ...] = (
    *(_row(name, _of_one(kind, halved=halved)) for name, (kind, halved) in _ONE_DIM.items()),
    *(
        _row(f"{name}2", _of_many(kind, halved=halved, default=(-2, -1)))
        for name, (kind, halved) in _MANY_DIMS.items()
    ),
    *(
        _row(f"{name}n", _of_many(kind, halved=halved))
        for name, (kind, halved) in _MANY_DIMS.items()
    ),
    _row("fftshift", _shift),
    _row("ifftshift", _shift),
    *(
        Op(
            name,
            (f"torch.fft.{name}",),
            _frequencies(halved),
            OpKind.FACTORY,
            differentiable=False,
        )
        for name, halved in (("fftfreq", False), ("rfftfreq", True))
    ),
)


# -- native code ----------------------------------------------------------------------------------


def lower_centering(sign: int, c: Lowering, input: Value, dim: Any) -> Value:
    """The half of each dimension that is behind comes to the front, or back."""
    rank = len(input.sizes)
    given = range(rank) if dim is None else integers_of((dim,))
    for along in [place(each, rank) for each in given]:
        half = floordiv(input.sizes[along] + (1 if sign < 0 else 0), 2)
        input = shifted_around(c, input, along, half)
    return input


lower("fft.fftshift")(partial(lower_centering, 1))
lower("fft.ifftshift")(partial(lower_centering, -1))
