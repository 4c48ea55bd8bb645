"""Where sizes are to be read of the inputs of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.graph.functionalize import FunctionalGraph
from anyshape.graph.plan import Unlowerable
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT, SYMBOL
from anyshape.symbolic import Symbol
from anyshape.symbolic.expr import of_atom


def places_of(
    program: FunctionalGraph, needed: Sequence[Symbol]
) -> dict[Symbol, tuple[int, int | None]]:
    """Where each symbol is to be read: a dimension of an input, or one that is a number."""
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = inputs[: len(inputs) - len(program.symbols)]
    known: dict[Symbol, tuple[int, int | None]] = {}
    for number, node in enumerate(inputs):
        symbol = node.meta.get(SYMBOL)
        if symbol is not None:
            known.setdefault(symbol, (number, None))
        meta = node.meta.get(RESULT)
        for dim, size in enumerate(meta.shape if isinstance(meta, Meta) else ()):
            if not isinstance(size, int) and len(size.symbols) == 1:
                (symbol,) = size.symbols
                if size == of_atom(symbol):
                    known.setdefault(symbol, (number, dim))
    missing = [symbol.name for symbol in needed if symbol not in known]
    if missing:
        raise Unlowerable(f"no input has {missing[0]} as a size")
    return known


def input_value(inputs: Sequence[Any], place: tuple[int, int | None]) -> int:
    number, dim = place
    return inputs[number] if dim is None else inputs[number].shape[dim]
