"""Recurrent layers: torch has a whole stack as one operator, ONNX a layer in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.export.onnx.rows import N, NotMapped, Row, W

#: The order of the gates in ONNX, by their places in torch.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}


def stack(kind: str) -> Row:
    """Layers one on the other."""

    def row(
        w: W,
        node: N,
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

    return row


def _layers(
    w: W, kind: str, source: str, states: Sequence[Any], weights: Any, layers: int, ways: int
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
    w: W,
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


def _ordered(w: W, weight: Any, kind: str, width: int) -> str:
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
        for at in _GATES[kind]
    ]
    return w.add("Concat", gates, axis=0)


def _stacked(w: W, names: Sequence[str]) -> str:
    parts = [w.add("Unsqueeze", [name, w.constant([0])]) for name in names]
    return parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=0)
