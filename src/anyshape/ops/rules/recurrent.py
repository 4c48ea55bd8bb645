"""Recurrent networks, whole (the functions behind `nn.LSTM` and others) and by cell. Packed
sequences are left to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshape.errors import UnknownOperator
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.meta import Dense, Layout, Meta, contiguous
from anyshape.ops.op import DRAWS, PURE, Effects, Op, OpKind, Rule
from anyshape.ops.rules.matmul import require_one_dtype, require_rank, require_same
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, gt

#: How many matrices are stacked in one weight.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _whole(gates: int, *, cell_state: bool) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: Any,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> tuple[Meta, ...]:
        states = tuple(hx) if isinstance(hx, Sequence) else (hx,)
        if not isinstance(params, Sequence) or len(states) != 1 + cell_state or input.rank != 3:
            raise UnknownOperator(op=q.op)
        require_one_dtype(q, input, *states, *params)
        steps, batch = input.shape[:2] if not batch_first else (input.shape[1], input.shape[0])
        q.require(gt(steps, 0), "a sequence is not empty")
        directions = 2 if bidirectional else 1
        for state in states:
            require_rank(q, state, 3, "a state")
            require_same(q, state.shape[0], num_layers * directions, "states and layers")
            require_same(q, state.shape[1], batch, "the batch sizes of state and input")
        require_same(q, input.shape[2], params[0].shape[1], "the features of input and weight")
        require_same(
            q, params[0].shape[0], gates * states[-1].shape[2], "the sizes of state and weight"
        )
        features = states[0].shape[2]
        require_same(q, features, params[1].shape[1], "the sizes of state and recurrent weight")
        last = [state.like() for state in states]
        return (_sequence(input, steps, batch, features * directions, batch_first), *last)

    return rule


def _sequence(input: Meta, steps: Size, batch: Size, features: Size, batch_first: bool) -> Meta:
    """The outputs of all steps, computed step by step: a batch that comes first is only seen so."""
    if batch_first:
        return input.like((batch, steps, features), layout=Dense((1, 0, 2)))
    return input.like((steps, batch, features))


def _require_cell(
    q: ShapeQuery,
    gates: int,
    input: Meta,
    states: Sequence[Meta],
    w_ih: Meta,
    w_hh: Meta,
    *biases: Meta | None,
) -> None:
    require_one_dtype(q, input, *states, w_ih, w_hh, *biases)
    for tensor in (input, *states, w_ih, w_hh):
        require_rank(q, tensor, 2, "a tensor of a cell")
    require_same(q, input.shape[1], w_ih.shape[1], "the features of input and weight")
    for state in states:
        require_same(q, state.shape[0], input.shape[0], "the batch sizes of input and state")
        require_same(q, state.shape[1], w_hh.shape[1], "the sizes of state and weight")
        require_same(q, w_hh.shape[0], gates * state.shape[1], "the sizes of state and weight")
    require_same(q, w_ih.shape[0], w_hh.shape[0], "the sizes of the two weights")
    for bias in biases:
        if bias is not None:
            require_same(q, bias.shape[0], w_ih.shape[0], "the sizes of bias and weight")


def _lstm_cell(
    q: ShapeQuery,
    input: Meta,
    hx: Sequence[Meta],
    w_ih: Meta,
    w_hh: Meta,
    b_ih: Meta | None = None,
    b_hh: Meta | None = None,
) -> tuple[Meta, Meta]:
    _require_cell(q, 4, input, hx, w_ih, w_hh, b_ih, b_hh)
    return hx[0].like(), hx[1].like()


def _cell(gates: int, layout: Callable[[ShapeQuery, Meta], Layout]) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        hx: Meta,
        w_ih: Meta,
        w_hh: Meta,
        b_ih: Meta | None = None,
        b_hh: Meta | None = None,
    ) -> Meta:
        _require_cell(q, gates, input, (hx,), w_ih, w_hh, b_ih, b_hh)
        return hx.like(layout=layout(q, hx))

    return rule


def _plain(q: ShapeQuery, hx: Meta) -> Layout:
    return contiguous(hx.rank)


def _mixed(q: ShapeQuery, hx: Meta) -> Layout:
    """The last step mixes the old state into the new one, element by element."""
    return pointwise_layout(q, hx.shape, [hx, hx.like()])


def _row(name: str, rule: Rule, effects: Effects = PURE) -> Op:
    return Op(name, (f"torch.{name}",), rule, OpKind.CALL_OUT, effects=effects)


ROWS: tuple[Op, ...] = (
    # With dropout between layers.
    *(
        _row(name, _whole(gates, cell_state=name == "lstm"), DRAWS)
        for name, gates in _GATES.items()
    ),
    _row("lstm_cell", _lstm_cell),
    _row("gru_cell", _cell(_GATES["gru"], _mixed)),
    _row("rnn_tanh_cell", _cell(_GATES["rnn_tanh"], _plain)),
    _row("rnn_relu_cell", _cell(_GATES["rnn_relu"], _plain)),
)
