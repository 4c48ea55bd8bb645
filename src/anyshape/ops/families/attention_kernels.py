"""Attention with gradients on GPUs, by a fused kernel that is named: its forward gives the
logsumexp that its backward takes.

Which kernel it is, is for torch to say: `graph/attention_choice.py` asks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
import torch.nn.functional as F

from anyshape.loops.expr import WIDTH
from anyshape.loops.program import Area, Extern
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.families.attention import (
    SIDE_BY_SIDE,
    added_mask,
    aligned_area,
    bias_area,
    group_of,
    in_rows,
    known_mask,
    plain_area,
    score_sizes,
)
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.values import Lowering, NotLowered, Value
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.op import Op, OpKind, gradient, lower
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, floordiv, modulo

#: By the numbers that torch has for them (`torch.nn.attention.SDPBackend`).
KERNELS: Final = {1: "flash", 2: "efficient"}
_aten: Any = torch.ops.aten
#: The efficient kernel's logsumexp has rows of whole blocks, and so has the mask it is given.
_BLOCK, _MASK_BLOCK = 32, 16


def forward_name(kernel: str) -> str:
    return f"_scaled_dot_product_{kernel}_attention"


def backward_name(kernel: str) -> str:
    return f"{forward_name(kernel)}_backward"


def attention_by_kernel(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    kernel: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, and the logsumexp of its scores."""
    if not (query.numel() and key.numel() and value.numel()):
        shape: Any = logsumexp_sizes(query.shape, kernel)
        return torch.zeros_like(query), torch.zeros(shape, dtype=torch.float32, device=query.device)
    function = getattr(_aten, forward_name(kernel))
    heads = map(in_rows, (query, key, value))
    mask = None if kernel == "flash" else _stretched(attn_mask, query, key)
    found = function(*heads, *_forward_arguments(kernel, mask, is_causal), scale=scale)
    return found[0], found[1]


def attention_by_kernel_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    result: torch.Tensor,
    logsumexp: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    kernel: str,
) -> tuple[torch.Tensor, ...]:
    """The gradients of query, key and value."""
    if not (query.numel() and key.numel() and value.numel()):
        return tuple(map(torch.zeros_like, (query, key, value)))
    heads = tuple(map(in_rows, (grad, query, key, value)))
    out = in_rows(result)
    function = getattr(_aten, backward_name(kernel))
    mask = None if kernel == "flash" else _stretched(attn_mask, query, key)
    rest = _backward_arguments(
        kernel, heads, mask, out, logsumexp, query.shape[2], key.shape[2], is_causal
    )
    return tuple(function(*rest, scale=scale)[:3])


def _forward_arguments(kernel: str, mask: Any, is_causal: bool) -> tuple[Any, ...]:
    """What the forward function takes between heads and scale. The last of one says whether it is
    to give back what dropout has drawn."""
    return (mask, True, 0.0, is_causal) if kernel == "efficient" else (0.0, is_causal, False)


def _backward_arguments(
    kernel: str,
    heads: Sequence[Any],
    mask: Any,
    out: Any,
    logsumexp: Any,
    rows: Any,
    columns: Any,
    is_causal: bool,
) -> tuple[Any, ...]:
    """What the backward function takes, but for the scale. Without dropout there is no state of
    random numbers, and tensors of one length have no table of lengths: both are None."""
    if kernel == "efficient":
        wanted = (True, True, True, False)
        return (*heads, mask, out, logsumexp, None, None, 0.0, wanted, is_causal)
    lengths = (None, None, rows, columns)
    return (*heads, out, logsumexp, *lengths, 0.0, is_causal, None, None)


def _stretched(
    mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor
) -> torch.Tensor | None:
    """What is added to the scores, with their sizes, in rows of whole blocks."""
    if mask is None:
        return None
    columns = key.shape[2]
    sizes = (*query.shape[:3], columns)
    added = added_mask(mask, query.dtype)
    assert added is not None
    added = F.pad(added.expand(*added.shape[:-1], columns), (0, -columns % _MASK_BLOCK))
    return added[..., :columns].expand(sizes)


def logsumexp_sizes(sizes: Sequence[Size], kernel: str) -> tuple[Size, ...]:
    batch, heads, rows, _ = sizes
    if kernel == "efficient":
        return batch, heads, floordiv(rows + (_BLOCK - 1), _BLOCK) * _BLOCK
    return batch, heads, rows


# -- shapes ---------------------------------------------------------------------------------------


def _by_kernel(
    q: ShapeQuery,
    query: Meta,
    key: Meta,
    value: Meta,
    attn_mask: Meta | None,
    is_causal: bool,
    scale: float | None,
    kernel: str,
) -> tuple[Meta, Meta]:
    sizes = logsumexp_sizes(query.shape, kernel)
    logsumexp = query.like(sizes, torch.float32, contiguous(len(sizes)))
    return _laid_out(q, query, kernel), logsumexp


def _by_kernel_backward(
    q: ShapeQuery,
    grad: Meta,
    query: Meta,
    key: Meta,
    value: Meta,
    result: Meta,
    logsumexp: Meta,
    attn_mask: Meta | None,
    is_causal: bool,
    scale: float | None,
    kernel: str,
) -> tuple[Meta, ...]:
    return tuple(_laid_out(q, each, kernel) for each in (query, key, value))


def _laid_out(q: ShapeQuery, like: Meta, kernel: str) -> Meta:
    """Results and gradients: side by side, or as what they belong to is."""
    if kernel == "efficient":
        return like.like(layout=SIDE_BY_SIDE)
    return like.like(layout=pointwise_layout(q, like.shape, [like]))


ROWS: tuple[Op, ...] = (
    Op(
        "attention_by_kernel",
        (f"{__name__}.attention_by_kernel",),
        _by_kernel,
        OpKind.CALL_OUT,
    ),
    Op(
        "attention_by_kernel_backward",
        (f"{__name__}.attention_by_kernel_backward",),
        _by_kernel_backward,
        OpKind.CALL_OUT,
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower("attention_by_kernel")
def lower_by_kernel(
    c: Lowering,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    is_causal: Any,
    scale: Any,
    kernel: Any,
) -> tuple[Value, ...]:
    c.needs_library(forward_name(kernel))
    tensors = (query, key, value)
    scores, lanes = _sizes(c, tensors, scale, kernel)
    bias, is_causal = _bias(c, attn_mask, query, scores, is_causal, scale)
    areas = [aligned_area(c, each, lanes) for each in tensors]
    (made, out), logsumexp = _fresh(c, areas[0], query, kernel), _fresh_state(c, query, kernel)
    results = (out, logsumexp[1], *[None] * (2 if kernel == "efficient" else 7))
    arguments = (*results, *areas, *_forward_arguments(kernel, bias, is_causal), scale)
    _call(c, forward_name(kernel), arguments, [*areas, bias], (out, logsumexp[1]))
    return made, logsumexp[0]


@lower("attention_by_kernel_backward")
def lower_by_kernel_backward(
    c: Lowering,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    result: Value,
    logsumexp: Value,
    attn_mask: Value | None,
    is_causal: Any,
    scale: Any,
    kernel: Any,
) -> tuple[Value, ...]:
    c.needs_library(backward_name(kernel))
    scores, lanes = _sizes(c, (query, key, value), scale, kernel)
    bias, is_causal = _bias(c, attn_mask, query, scores, is_causal, scale)
    # What is kept of the forward is where torch or native code has put it.
    given = (query, key, value, result)
    first = aligned_area(c, grad, lanes)
    areas = [first, *(aligned_area(c, each, lanes, trusts=True) for each in given)]
    state = plain_area(c, logsumexp)
    made: list[Value] = []
    wholes: list[Area] = []
    for area, each in zip(areas[1:4], given, strict=False):
        own, whole = _fresh(c, area, each, kernel)
        made.append(own)
        wholes.append(whole)
    heads, out = areas[:4], areas[4]
    rest = _backward_arguments(kernel, heads, bias, out, state, *scores[2:], is_causal)
    results = (*wholes, None) if kernel == "efficient" else wholes
    name = backward_name(kernel)
    _call(c, name, (*results, *rest, scale), [*areas, state, bias], wholes)
    return tuple(made)


Scores = tuple[Size, Size, Size, Size]


def _sizes(
    c: Lowering, tensors: tuple[Value, Value, Value], scale: Any, kernel: str
) -> tuple[Scores, int]:
    """The sizes of the scores, and how many elements 16 bytes have."""
    query, key, value = tensors
    is_grouped = not c.same(query.sizes[1], key.sizes[1])
    scores = score_sizes(c, tensors, group_of(query, key, value) if is_grouped else 1, scale)
    if is_grouped and kernel == "efficient":
        raise NotLowered("heads in groups")
    lanes = 16 // WIDTH[query.dtype]
    c.assume(eq(modulo(query.sizes[3], lanes), 0), "heads of a width that is no multiple of 16")
    return scores, lanes


def _bias(
    c: Lowering,
    mask: Value | None,
    query: Value,
    scores: Scores,
    is_causal: bool,
    scale: float | None,
) -> tuple[Area | None, bool]:
    mask, is_causal = known_mask(c, mask, is_causal, scores, scale)
    return None if mask is None else bias_area(c, mask, query.dtype, scores), is_causal


def _fresh(c: Lowering, area: Area, like: Value, kernel: str) -> tuple[Value, Area]:
    """Memory that torch gives, laid out as what it belongs to is, or side by side."""
    meta: Meta = c.result[0]
    in_order = meta.like(like.sizes, layout=contiguous(4)).strides
    strides = meta.like(like.sizes, layout=SIDE_BY_SIDE).strides
    if kernel != "efficient" and c.same_sizes(area.strides, in_order):
        strides = in_order
    made, kept = c.fresh(like.sizes, like.dtype, strides)
    return made, Area(kept.buffer, like.sizes, kept.strides)


def _fresh_state(c: Lowering, query: Value, kernel: str) -> tuple[Value, Area]:
    sizes = logsumexp_sizes(query.sizes, kernel)
    made, kept = c.fresh(sizes, "f32")
    return made, Area(kept.buffer, sizes, kept.strides)


def _call(
    c: Lowering,
    name: str,
    arguments: tuple[Any, ...],
    reads: Sequence[Area | None],
    writes: Sequence[Area],
) -> None:
    read = [area.buffer for area in reads if area is not None]
    c.extern(Extern(name, arguments), read, [area.buffer for area in writes])


# -- gradients ------------------------------------------------------------------------------------


@gradient("attention_by_kernel")
def gradient_by_kernel(
    grad: dict[int, Term],
    parts: dict[int, Term],
    query: Term,
    key: Term,
    value: Term,
    attn_mask: Term | None,
    is_causal: bool,
    scale: Any,
    kernel: str,
) -> Gradients:
    if set(grad) != {0}:
        raise NoGradient("a gradient of the logsumexp")
    given = (query, key, value, parts[0], parts[1], attn_mask, is_causal, scale, kernel)
    made = grad[0].call(attention_by_kernel_backward, *given)
    return dict(zip(("query", "key", "value"), made, strict=True))
