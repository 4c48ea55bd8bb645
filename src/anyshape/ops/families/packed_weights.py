"""Operators with packed weights: what the weight decides is a size that only a run knows.

Where the sizes of a state say the same, they are used instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.op import DRAWS, PURE, Effects, Op, OpKind, Rule
from anyshape.ops.packed_weights import Packed
from anyshape.ops.shape_query import ShapeQuery


def _linear(q: ShapeQuery, X: Meta, W_prepack: Packed, reduce_range: bool = False) -> Meta:
    if X.rank < 2:
        raise UnknownOperator(op=q.op)
    return X.like((*X.shape[:-1], q.new_size()), torch.float32)


def _embedding(q: ShapeQuery, weight: Packed, indices: Meta, pruned_weights: bool = False) -> Meta:
    return indices.like((*indices.shape, q.new_size()), torch.float32)


def _whole(q: ShapeQuery, input: Meta, hx: Any, params: Any, *rest: Any, **named: Any) -> Any:
    """All steps of all layers. A packed sequence, which comes with the sizes of its batches in the
    place of the states, is left to torch."""
    states = tuple(hx) if isinstance(hx, Sequence) else (hx,)
    if len(rest) != 6 or isinstance(params, Meta) or not all(map(_is_state, states)):
        raise UnknownOperator(op=q.op)
    bidirectional, batch_first = rest[4:]
    if input.rank != 3 or isinstance(bidirectional, Meta):
        raise UnknownOperator(op=q.op)
    features = states[0].shape[2] * (2 if bidirectional else 1)
    # Computed step by step: a batch that comes first is only seen so.
    layout = Dense((1, 0, 2)) if batch_first else None
    output = input.like((*input.shape[:2], features), layout=layout)
    return (output, *(state.like() for state in states))


def _is_state(value: Any) -> bool:
    return isinstance(value, Meta) and value.rank == 3


def _lstm_cell(
    q: ShapeQuery,
    input: Meta,
    hx: Sequence[Meta],
    w_ih: Packed,
    w_hh: Packed,
    bias_ih: Meta | None,
    bias_hh: Meta | None,
) -> tuple[Meta, ...]:
    return tuple(state.like() for state in hx)


def _cell(
    q: ShapeQuery,
    input: Meta,
    hx: Meta,
    w_ih: Packed,
    w_hh: Packed,
    b_ih: Meta | None,
    b_hh: Meta | None,
) -> Meta:
    return hx.like()


def _row(
    name: str, rule: Rule, *spaces: str, overload: str = "default", effects: Effects = PURE
) -> Op:
    names = tuple(f"torch.ops.{space}.{name}" for space in spaces or ("quantized",))
    overloads = tuple(f"{each}.{overload}" for each in names)
    return Op(name, (*names, *overloads), rule, OpKind.CALL_OUT, effects=effects)


ROWS: tuple[Op, ...] = (
    _row("linear_dynamic", _linear, "quantized", "_quantized"),
    *(
        _row(name, _linear)
        for name in ("linear_dynamic_fp16", "linear_relu_dynamic", "linear_relu_dynamic_fp16")
    ),
    *(_row(name, _linear, "sparse") for name in ("qlinear_dynamic", "qlinear_relu_dynamic")),
    *(_row(name, _embedding) for name in ("embedding_byte", "embedding_4bit")),
    *(
        # With dropout between layers.
        _row(name, _whole, "aten", overload="input", effects=DRAWS)
        for name in ("quantized_lstm", "quantized_gru")
    ),
    _row("quantized_lstm_cell_dynamic", _lstm_cell),
    *(_row(f"quantized_{kind}_cell_dynamic", _cell) for kind in ("gru", "rnn_tanh", "rnn_relu")),
)
