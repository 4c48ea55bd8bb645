"""What lowering knows at a node, in a form that can be compared: all that decides how the nodes
that follow are lowered.

Names are numbers in the order in which they are met. Two states that are equal in this form differ
in names alone, and then equal nodes lead from both to equal steps and again to equal states. The
expressions that tensors still are (`Value`) are functions of Python: two of them are the same if
they have the same code and hold the same things.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.aliasing import Storage, TensorView
from anyshape.graph.materialize import Materialize
from anyshape.graph.plan import View
from anyshape.loops.expr import Axis
from anyshape.ops.lowering.values import Memory, NumberRef, Rearranged, Value
from anyshape.ops.meta import Meta
from anyshape.symbolic import Expr, Symbol

#: What means the same wherever it is found.
_PLAIN: Final = frozenset(
    {int, bool, str, type(None), torch.dtype, torch.device, Meta, Expr, NumberRef}
)
_ROWS_OF_OPERATORS: Final = "anyshape.ops.families."
_BY_IDENTITY: Final = (type, types.BuiltinFunctionType, types.ModuleType)


class Unknown(Exception):
    """Something is held of which we cannot say whether it is the same."""


def _numbered(kind: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """What was met before is its number; it has one from now on."""

    def wrap(form: Callable[..., object]) -> Callable[..., object]:
        def numbered(state: LiveState, item: object) -> object:
            found = state._numbers.get(id(item))
            if found is not None:
                return kind, found
            state._numbers[id(item)] = len(state._numbers)
            state._kept.append(item)
            return form(state, item)

        return numbered

    return wrap


class LiveState:
    """`form`: compares equal where the states do. `buffers`: the names of the buffers in it, in the
    order of their numbers."""

    def __init__(
        self,
        lowering: Materialize,
        live: Sequence[tuple[object, Any]],
    ) -> None:
        self._lowering = lowering
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        self._symbols: dict[Symbol, int] = {}
        self.buffers: dict[str, int] = {}
        self.form: object = (
            id(lowering.facts),
            len(lowering.assumed),
            len(lowering.changed),
            len(lowering.required),
            tuple((key, self._of(held)) for key, held in live),
        )

    def _of(self, item: object) -> object:
        kind = type(item)
        if kind in _PLAIN:
            return kind, item
        row = _ROWS.get(kind)
        if row is not None:
            return row(self, item)
        if isinstance(item, _BY_IDENTITY) or item is self._lowering:
            return id(item)
        # Tables of the lowering at hand, which only grow.
        values, facts = self._lowering.values, self._lowering.facts
        if any(item is each for each in (values, values.extents, facts)):
            return id(item)
        if kind.__module__.startswith(_ROWS_OF_OPERATORS):
            return self._object(item)
        raise Unknown(f"{kind}")

    def _buffer(self, name: str) -> int:
        return self.buffers.setdefault(name, len(self.buffers))

    def _symbol(self, symbol: Symbol) -> object:
        extent = self._lowering.values.extents.get(symbol)
        if extent is None:
            return symbol  # a size, of which there are no two
        return self._symbols.setdefault(symbol, len(self._symbols)), extent

    # -- one row for each kind ---------------------------------------------------------------------

    @_numbered("value")
    def _value(self, value: Value) -> object:
        laid_out = self._lowering.meta_of(value)
        if value.memory is not None:
            return "stored", value.sizes, value.dtype, laid_out, self._memory(value.memory)
        return (
            "value",
            value.sizes,
            value.dtype,
            laid_out,
            value.cost,
            value.factors,
            value.fold,
            tuple(map(self._axis, value.axes)),
            tuple(map(self._value, value.parents)),
            self._of(value.made_by),
        )

    def _memory(self, memory: Memory) -> object:
        return self._buffer(memory.buffer), memory.strides, memory.offset

    def _axis(self, axis: Axis) -> object:
        return self._symbol(axis.symbol), axis.extent

    @_numbered("handle")
    def _handle(self, handle: TensorView) -> object:
        return (
            "handle",
            self._root(handle.root),
            handle.meta,
            None if handle.base is None else self._handle(handle.base),
            self._of(handle.index_map),
            self._of(handle.view),
            self._of(handle.known_value()),
        )

    @_numbered("root")
    def _root(self, root: Storage) -> object:
        if root.entangled:
            raise Unknown("tensors that may share memory")
        return root.meta, self._value(root.value), root.outside, root.by_strides

    @_numbered("function")
    def _function(self, function: types.FunctionType) -> object:
        cells = tuple(self._cell(cell) for cell in function.__closure__ or ())
        defaults = self._of(function.__defaults__), self._of(function.__kwdefaults__)
        return function.__code__, id(function.__globals__), defaults, cells

    def _cell(self, cell: types.CellType) -> object:
        try:
            return self._of(cell.cell_contents)
        except ValueError:
            raise Unknown("a variable without a value") from None

    def _items(self, items: Sequence[Any]) -> object:
        return type(items), tuple(map(self._of, items))

    def _mapping(self, items: Mapping[Any, object]) -> object:
        return tuple((self._of(key), self._of(item)) for key, item in items.items())

    @_numbered("object")
    def _object(self, item: object) -> object:
        """What the row of an operator keeps: it does what its attributes say."""
        if dataclasses.is_dataclass(item):
            found = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        elif hasattr(item, "__dict__") and not hasattr(type(item), "__slots__"):
            found = vars(item)
        else:
            raise Unknown(f"{type(item)}")
        return type(item), self._mapping(found)


_ROWS: Final[dict[type, Any]] = {
    Value: LiveState._value,
    TensorView: LiveState._handle,
    Storage: LiveState._root,
    Memory: LiveState._memory,
    Axis: LiveState._axis,
    Symbol: LiveState._symbol,
    View: LiveState._items,
    Rearranged: lambda state, item: ("rearranged", state._of((item.index_map, item.factors))),
    tuple: LiveState._items,
    list: LiveState._items,
    dict: LiveState._mapping,
    slice: lambda state, item: ("slice", state._of((item.start, item.stop, item.step))),
    float: lambda state, item: ("float", repr(item)),
    types.FunctionType: LiveState._function,
    types.MethodType: lambda state, item: ("method", state._of((item.__func__, item.__self__))),
    functools.partial: lambda state, item: (
        "partial",
        state._of((item.func, item.args, item.keywords)),
    ),
}
