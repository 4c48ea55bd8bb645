"""Recurrent layers: torch has a whole stack as one operator, ONNX a layer in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.export.onnx.rows import N, NotMapped, W

#: The order of the gates in ONNX, by their places in torch.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}


def lstm(w: W, node: N, x: Any, state: Any, weights: Any, *options: Any) -> list[str]:
    hidden, cell = state
    return _stack(w, "LSTM", x, [hidden, cell], weights, options)


def gru(w: W, node: N, x: Any, state: Any, weights: Any, *options: Any) -> list[str]:
    return _stack(w, "GRU", x, [state], weights, options)


def _stack(
    w: W, kind: str, x: Any, states: Sequence[Any], weights: Any, options: Sequence[Any]
) -> list[str]:
    """Options: has_biases, num_layers, dropout, train, bidirectional, batch_first."""
    if len(options) != 6 or not isinstance(weights, tuple | list):
        raise NotMapped("a packed sequence")
    has_bias, layers, dropout, train, both, batch_first = options
    if (dropout and train) or w.rank(x) != 3:
        raise NotMapped("a recurrent layer in training, or without a batch")
    ways = 2 if both else 1
    each = 4 if has_bias else 2
    if len(weights) != layers * ways * each:
        raise NotMapped("a recurrent layer with projections")
    source = w.add("Transpose", [w.name(x)], perm=[1, 0, 2]) if batch_first else w.name(x)
    last: list[list[str]] = [[] for _ in states]
    for layer in range(layers):
        rows = range(layer * ways, (layer + 1) * ways)
        own = [weights[at * each : (at + 1) * each] for at in rows]
        # The states of a layer lie one after the other, a direction each.
        ends = w.constant([layer * ways]), w.constant([(layer + 1) * ways])
        before = [w.add("Slice", [w.name(state), *ends, w.constant([0])]) for state in states]
        source, *after = _layer(w, kind, source, own, before, has_bias, ways)
        for kept, state in zip(last, after, strict=True):
            kept.append(state)
    found = w.add("Transpose", [source], perm=[1, 0, 2]) if batch_first else source
    states_after = [kept[0] if len(kept) == 1 else w.add("Concat", kept, axis=0) for kept in last]
    return [found, *states_after]


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
