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
from collections.abc import Mapping, Sequence
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

    def _of(self, item: Any) -> object:
        kind = type(item)
        if kind in _PLAIN:
            return kind, item
        row = _ROWS.get(kind)
        if row is not None:
            return row(self, item)
        if isinstance(item, _BY_IDENTITY) or item is self._lowering:
            return id(item)
        if item in self._surroundings():
            return id(item)
        if kind.__module__.startswith(_ROWS_OF_OPERATORS):
            return self._object(item)
        raise Unknown(f"{kind}")

    def _surroundings(self) -> _Identities:
        """Tables of the lowering at hand, which only grow."""
        values = self._lowering.values
        return _Identities((values, values.extents, self._lowering.facts))

    def _again(self, item: object) -> int | None:
        """The number of something that was met before; it has one from now on."""
        found = self._numbers.get(id(item))
        if found is None:
            self._numbers[id(item)] = len(self._numbers)
            self._kept.append(item)
        return found

    def _buffer(self, name: str) -> int:
        return self.buffers.setdefault(name, len(self.buffers))

    def _symbol(self, symbol: Symbol) -> object:
        extent = self._lowering.values.extents.get(symbol)
        if extent is None:
            return symbol  # a size, of which there are no two
        return self._symbols.setdefault(symbol, len(self._symbols)), extent

    # -- one row for each kind ---------------------------------------------------------------------

    def _value(self, value: Value) -> object:
        again = self._again(value)
        if again is not None:
            return "value", again
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

    def _handle(self, handle: TensorView) -> object:
        again = self._again(handle)
        if again is not None:
            return "handle", again
        return (
            "handle",
            self._root(handle.root),
            handle.meta,
            None if handle.base is None else self._handle(handle.base),
            self._of(handle.index_map),
            self._of(handle.view),
            self._of(handle.known_value()),
        )

    def _root(self, root: Storage) -> object:
        again = self._again(root)
        if again is not None:
            return "root", again
        if root.entangled:
            raise Unknown("tensors that may share memory")
        return root.meta, self._value(root.value), root.outside, root.by_strides

    def _function(self, function: types.FunctionType) -> object:
        again = self._again(function)
        if again is not None:
            return "function", again
        cells = tuple(self._cell(cell) for cell in function.__closure__ or ())
        defaults = self._of(function.__defaults__), self._of(function.__kwdefaults__)
        return function.__code__, id(function.__globals__), defaults, cells

    def _cell(self, cell: types.CellType) -> object:
        try:
            return self._of(cell.cell_contents)
        except ValueError:
            raise Unknown("a variable without a value") from None

    def _method(self, method: types.MethodType) -> object:
        return "method", self._of(method.__func__), self._of(method.__self__)

    def _partial(self, partial: functools.partial[Any]) -> object:
        return "partial", self._of(partial.func), self._of(partial.args), self._of(partial.keywords)

    def _items(self, items: Sequence[Any]) -> object:
        return type(items), tuple(map(self._of, items))

    def _mapping(self, items: Mapping[Any, Any]) -> object:
        return tuple((self._of(key), self._of(item)) for key, item in items.items())

    def _object(self, item: Any) -> object:
        """What the row of an operator keeps: it does what its attributes say."""
        again = self._again(item)
        if again is not None:
            return "object", again
        if dataclasses.is_dataclass(item):
            found = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        elif hasattr(item, "__dict__") and not hasattr(type(item), "__slots__"):
            found = vars(item)
        else:
            raise Unknown(f"{type(item)}")
        return type(item), self._mapping(found)

    def _slice(self, item: slice) -> object:
        return "slice", self._of((item.start, item.stop, item.step))

    def _float(self, item: float) -> object:
        return "float", repr(item)

    def _rearranged(self, item: Rearranged) -> object:
        return "rearranged", self._of(item.index_map), self._of(item.factors)


_ROWS: Final[dict[type, Any]] = {
    Value: LiveState._value,
    TensorView: LiveState._handle,
    Storage: LiveState._root,
    Memory: LiveState._memory,
    Axis: LiveState._axis,
    Symbol: LiveState._symbol,
    View: LiveState._items,
    Rearranged: LiveState._rearranged,
    tuple: LiveState._items,
    list: LiveState._items,
    dict: LiveState._mapping,
    slice: LiveState._slice,
    float: LiveState._float,
    types.FunctionType: LiveState._function,
    types.MethodType: LiveState._method,
    functools.partial: LiveState._partial,
}


class _Identities:
    def __init__(self, items: tuple[object, ...]) -> None:
        self._items = items

    def __contains__(self, item: object) -> bool:
        return any(item is each for each in self._items)
