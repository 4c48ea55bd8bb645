"""What is known of operators beside the shapes of their results, by the name of the operator: their
native code (`ops/lowering`) and what they are in ONNX (`ops/onnx.py`). The families fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

Row = TypeVar("Row", bound=Callable[..., Any])
Table = dict[str, Callable[..., Any]]

#: native code of operators with results of their own
NATIVE: Final[Table] = {}

#: views: (lowering, meta of the base, further arguments) -> the map from an index of the view to
#: one of the base, or None where only the strides tell; a list of them for several results
VIEWS: Final[Table] = {}

#: views of several tensors, each result of one: (lowering, metas of the bases, further named
#: arguments) -> a map for each
VIEWS_OF_EACH: Final[Table] = {}

#: in-place forms that write into parts of their first argument:
#: (lowering, the handle that is written, further arguments)
WRITES: Final[Table] = {}

#: (writer, node, arguments by name) -> the name of the result in the model, or a list of names
ONNX: Final[Table] = {}


def _adding_to(table: Table) -> Callable[..., Callable[[Row], Row]]:
    def named(*names: str) -> Callable[[Row], Row]:
        """The function is the row of these operators."""

        def add(function: Row) -> Row:
            for name in names:
                assert name not in table, f"two rows for `{name}`"
                table[name] = function
            return function

        return add

    return named


lower: Final = _adding_to(NATIVE)
lower_view: Final = _adding_to(VIEWS)
lower_views: Final = _adding_to(VIEWS_OF_EACH)
lower_in_place: Final = _adding_to(WRITES)
onnx: Final = _adding_to(ONNX)


def onnx_rows(rows: Mapping[str, Callable[..., Any]]) -> None:
    """Rows that one function makes for several operators."""
    for name, row in rows.items():
        onnx(name)(row)
