"""What a node of the graph is: a tensor of its own, or a view of one, or several.

Values never change; a tensor of the program may. `Storage` is a tensor with memory of its own: it
has a value now, and another one after it was written to. A view names its storage and how to read
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.graph.plan import View, leaves
from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.lowering.values import Index, IndexMap, Memory, Rearranged, Value, Values
from anyshape.ops.meta import Meta
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Expr


@dataclass(slots=True, eq=False)
class Storage:
    """A tensor with memory of its own, as the program sees it."""

    meta: Meta
    value: Value
    #: whether the memory is the caller's, or belongs to a tensor that Python code has
    outside: bool = False
    #: whether there are views of it that only strides tell of: it has to be in memory
    by_strides: bool = False
    #: whether its memory is laid out otherwise than the program has it: of its views index maps
    #: alone tell where elements are
    relaid: bool = False
    #: other roots that may share its memory, as far as we know
    entangled: set[Storage] = field(default_factory=set["Storage"])
    #: how often it was written to, for its version counter: natively, and by torch in the memory
    #: that it has now, which has counted that itself
    native_writes: int = 0
    called_writes: int = 0
    #: whether it was written to through `.data`, which has a counter of its own
    written_apart: bool = False


@dataclass(slots=True, eq=False)
class TensorView:
    """A tensor of the program: a root, or a view of one."""

    root: Storage
    meta: Meta
    #: from what it was made, and how; None for the root itself
    base: TensorView | None = None
    index_map: IndexMap | None = None
    #: how the program made it, if Python can do the same
    view: View | None = None
    _made_of: Value | None = None
    _value: Value | None = None

    @property
    def is_view(self) -> bool:
        return self.base is not None

    def value(self, values: Values) -> Value:
        """What it is now."""
        if self.base is None:
            return self.root.value
        whole = self.root.value
        known = self.known_value()
        if known is not None:
            return known
        dtype = whole.dtype
        if (whole.memory is not None and not self.root.relaid) or self.index_map is None:
            memory = self.memory()
            assert memory is not None
            self._value = values.new(self.meta.shape, dtype, None, (), memory=memory)
        else:
            source, index_map = self.base.value(values), self.index_map
            relaid = self.root.relaid

            def at(index: Index) -> Scalar:
                if whole.memory is None or relaid:
                    return source.at(index_map(index))
                # Stored since: the strides of the view are simpler than the way through the map.
                return expr.load(
                    whole.memory.buffer, self._within(whole.memory).address(index), dtype
                )

            factors = None
            if isinstance(index_map, Rearranged):
                factors = index_map.factors(source.split_sizes())
            self._value = values.new(self.meta.shape, dtype, at, (source, whole), factors=factors)
        self._made_of = whole
        return self._value

    @property
    def counts_apart(self) -> bool:
        """Whether writes to it are not counted by its root: it was made through `.data`."""
        if self.base is None:
            return False
        by_data = self.view is not None and self.view[:2] == ("getattr", "data")
        return by_data or self.base.counts_apart

    def known_value(self) -> Value | None:
        """What it was when somebody asked last, if that is so still."""
        whole = self.root.value
        is_still = self._made_of is whole and whole.memory is None
        return self._value if is_still else None

    def views(self) -> tuple[View, ...] | None:
        """How it is made of its root, step by step; None if that is not known."""
        if self.base is None:
            return ()
        before = self.base.views()
        return None if before is None or self.view is None else (*before, self.view)

    def memory(self) -> Memory | None:
        """Where it is kept, if it is and strides can tell."""
        whole = self.root.value.memory
        if whole is None or (self.root.relaid and self.base is not None):
            return None
        return whole if self.base is None else self._within(whole)

    def _within(self, whole: Memory) -> Memory:
        offset = whole.offset + self.meta.offset - self.root.meta.offset
        return Memory(whole.buffer, self.meta.strides, offset)


# -- arguments as trees: the tensors in them, and what only Python handles ------------------------


class Foreign:
    """A tensor that only Python code handles: sparse, complex, quantised, or, with its meta, on
    another device."""

    #: whether it is there before the first step, and stays as it is
    is_constant = False

    def __init__(self, name: str, elsewhere: Meta | None = None) -> None:
        self.name = name
        self.elsewhere = elsewhere


class Several(tuple[Any, ...]):
    """The tensors of a result of Python code, and the name of the result itself: it may have more
    of them than the run at hand had."""

    name: str


def several(name: str, items: Sequence[object]) -> Several:
    found = Several(items)
    found.name = name
    return found


def handles_in(tree: object) -> list[TensorView]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, TensorView)]


def values_in(tree: object) -> list[Value]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Value)]


def has_tensors(tree: Any) -> bool:
    return bool(handles_in(tree)) or any(isinstance(each, Foreign) for each in tree)


def is_size(value: object) -> bool:
    return type(value) is int or isinstance(value, Expr)
