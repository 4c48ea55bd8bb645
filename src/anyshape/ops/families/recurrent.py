"""Recurrent networks, whole (the functions behind `nn.LSTM` and others) and by cell. Packed
sequences are left to torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch.nn.functional as F

from anyshape.errors import UnknownOperator
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.families.matmul import require_one_dtype, require_rank, require_same
from anyshape.ops.gradient import Records, Term
from anyshape.ops.meta import Dense, Layout, Meta, contiguous
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import DRAWS, PURE, Effects, Op, OpKind, Rule, made_of, onnx_rows
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


# -- gradients ------------------------------------------------------------------------------------


def _products(
    input: Term, state: Term, w_ih: Term, w_hh: Term, b_ih: Any, b_hh: Any
) -> tuple[Term, Term]:
    """What the gates are made of: of the input, and of the state."""
    return input.call(F.linear, w_ih, b_ih), state.call(F.linear, w_hh, b_hh)


@made_of("lstm_cell")
def parts_of_lstm_cell(
    records: Records, input: Term, hx: Any, w_ih: Term, w_hh: Term, b_ih: Any, b_hh: Any
) -> tuple[Term, Term]:
    state, memory = hx
    own, before = _products(input, state, w_ih, w_hh, b_ih, b_hh)
    enter, forget, cell, leave = (before + own).chunk(_GATES["lstm"], 1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * cell.tanh()
    return leave.sigmoid() * memory.tanh(), memory


@made_of("gru_cell")
def parts_of_gru_cell(
    records: Records, input: Term, hx: Term, w_ih: Term, w_hh: Term, b_ih: Any, b_hh: Any
) -> Term:
    products = _products(input, hx, w_ih, w_hh, b_ih, b_hh)
    own, before = (each.chunk(_GATES["gru"], 1) for each in products)
    reset, update = ((before[gate] + own[gate]).sigmoid() for gate in (0, 1))
    new = (own[2] + before[2] * reset).tanh()
    return (hx - new) * update + new


@made_of("rnn_tanh_cell", "rnn_relu_cell")
def parts_of_rnn_cell(
    records: Records,
    input: Term,
    hx: Term,
    w_ih: Term,
    w_hh: Term,
    b_ih: Any,
    b_hh: Any,
    function: str,
) -> Term:
    own, before = _products(input, hx, w_ih, w_hh, b_ih, b_hh)
    found = before + own
    return found.tanh() if function == "rnn_tanh_cell" else found.relu()


# -- ONNX -----------------------------------------------------------------------------------------


#: The order of the gates in ONNX, by their places in torch.
_ONNX_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}


def onnx_recurrent(
    kind: str,
    w: Writer,
    node: Node,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> list[str]:
    """Layers one on the other."""
    if not isinstance(params, tuple | list):
        raise NotMapped("a packed sequence")
    states = list(hx) if kind == "LSTM" else [hx]
    if (dropout and train) or w.rank(input) != 3:
        raise NotMapped("a recurrent layer in training, or without a batch")
    ways = 2 if bidirectional else 1
    if len(params) != num_layers * ways * (4 if has_biases else 2):
        raise NotMapped("a recurrent layer with projections")
    x = w.name(input)
    source = w.add("Transpose", [x], perm=[1, 0, 2]) if batch_first else x
    found, last = _layers(w, kind, source, states, params, num_layers, ways)
    if batch_first:
        found = w.add("Transpose", [found], perm=[1, 0, 2])
    joined = (kept[0] if len(kept) == 1 else w.add("Concat", kept, axis=0) for kept in last)
    return [found, *joined]


def _layers(
    w: Writer, kind: str, source: str, states: Sequence[Any], weights: Any, layers: int, ways: int
) -> tuple[str, list[list[str]]]:
    """What the last layer gives, and the states of all of them."""
    each = len(weights) // (layers * ways)
    last: list[list[str]] = [[] for _ in states]
    for layer in range(layers):
        rows = range(layer * ways, (layer + 1) * ways)
        own = [weights[at * each : (at + 1) * each] for at in rows]
        # The states of a layer lie one after the other, a direction each.
        ends = w.constant([layer * ways]), w.constant([(layer + 1) * ways])
        before = [w.add("Slice", [w.name(state), *ends, w.constant([0])]) for state in states]
        source, *after = _layer(w, kind, source, own, before, each == 4, ways)
        for kept, state in zip(last, after, strict=True):
            kept.append(state)
    return source, last


def _layer(
    w: Writer,
    kind: str,
    source: str,
    weights: Sequence[Any],
    states: Sequence[str],
    has_bias: bool,
    ways: int,
) -> list[str]:
    width = w.example(weights[0][1]).shape[-1]
    ours = [[_ordered(w, each, kind, width) for each in group] for group in weights]
    inputs = [source, _stacked(w, [g[0] for g in ours]), _stacked(w, [g[1] for g in ours])]
    if has_bias:
        biases = [w.add("Concat", [g[2], g[3]], axis=0) for g in ours]
        inputs.append(_stacked(w, biases))
    else:
        inputs.append("")
    # In torch a GRU multiplies after the product with the state.
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    direction = "bidirectional" if ways == 2 else "forward"
    found, *after = w.several(
        kind,
        [*inputs, "", *states],
        1 + len(states),
        hidden_size=width,
        direction=direction,
        **extra,
    )
    # length, direction, batch, width: the directions lie side by side in torch.
    apart = w.add("Transpose", [found], perm=[0, 2, 1, 3])
    return [w.add("Reshape", [apart, w.constant([0, 0, ways * width])]), *after]


def _ordered(w: Writer, weight: Any, kind: str, width: int) -> str:
    gates = [
        w.add(
            "Slice",
            [
                w.name(weight),
                w.constant([at * width]),
                w.constant([(at + 1) * width]),
                w.constant([0]),
            ],
        )
        for at in _ONNX_GATES[kind]
    ]
    return w.add("Concat", gates, axis=0)


def _stacked(w: Writer, names: Sequence[str]) -> str:
    parts = [w.add("Unsqueeze", [name, w.constant([0])]) for name in names]
    return parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=0)


onnx_rows(
    {
        "lstm": partial(onnx_recurrent, "LSTM"),
        "gru": partial(onnx_recurrent, "GRU"),
    }
)
