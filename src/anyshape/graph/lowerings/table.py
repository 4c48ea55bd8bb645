"""The tables of rows, by the name of the operator in `ops/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from anyshape.graph.values import NotLowered
from anyshape.ops.bind import not_taken, taken_by
from anyshape.ops.op import Op

Row = TypeVar("Row", bound=Callable[..., Any])

#: operators with results of their own
ROWS: Final[dict[str, Callable[..., Any]]] = {}

#: views: (lowering, meta of the base, further arguments) -> the map from an index of the view to
#: one of the base, or None where only the strides tell; a list of them for several results
VIEWS: Final[dict[str, Callable[..., Any]]] = {}

#: views of several tensors, each result of one: (lowering, metas of the bases, further named
#: arguments) -> a map for each
VIEWS_OF_EACH: Final[dict[str, Callable[..., Any]]] = {}

#: in-place forms that write into parts of their first argument:
#: (lowering, the handle that is written, further arguments)
WRITES: Final[dict[str, Callable[..., None]]] = {}


def for_row(row: Callable[..., Any], op: Op, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a row gets of the arguments of a call. A row has native code only for what it takes."""
    taken = taken_by(row, arguments)
    if len(taken) < len(arguments):
        for name in not_taken(row, op, arguments):
            raise NotLowered(f"`{name}` is given")
    return taken


def row(*names: str) -> Callable[[Row], Row]:
    """The function is the row of these operators."""

    def add(function: Row) -> Row:
        for name in names:
            assert name not in ROWS, f"two rows for `{name}`"
            ROWS[name] = function
        return function

    return add


def view(*names: str) -> Callable[[Row], Row]:
    """The function gives the index maps of these views."""

    def add(function: Row) -> Row:
        for name in names:
            assert name not in VIEWS, f"two rows for `{name}`"
            VIEWS[name] = function
        return function

    return add


def views_of_each(*names: str) -> Callable[[Row], Row]:
    """The function gives the index maps of views of several tensors."""

    def add(function: Row) -> Row:
        for name in names:
            assert name not in VIEWS_OF_EACH, f"two rows for `{name}`"
            VIEWS_OF_EACH[name] = function
        return function

    return add


def writes(*names: str) -> Callable[[Row], Row]:
    """The function is the in-place form of these operators."""

    def add(function: Row) -> Row:
        for name in names:
            assert name not in WRITES, f"two rows for `{name}`"
            WRITES[name] = function
        return function

    return add
