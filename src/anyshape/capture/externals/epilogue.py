"""From what a capture returned and changed to the program that does the same after the graph.

Values made by the program are made again: containers, dataclasses, plain objects, with the aliasing
they had. What came from outside is found by its path. Tensors are outputs of the graph.
"""

from __future__ import annotations

import enum
import functools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.native_values import is_numpy_scalar
from anyshape.capture.externals.side_effects import Change, Effect
from anyshape.capture.hooks.formatting import shown, written
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.numbers.traced_text import Snapshot, TracedText
from anyshape.capture.record.recorder import Recorder
from anyshape.capture.record.segments import SegmentOutput
from anyshape.capture.rewrite.instrument import (
    is_instrumented,
    is_outer_cell,
    own_cells,
    own_code,
)
from anyshape.capture.trace import Does, Step
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.symbolic import Expr, is_data_dependent

#: Py_TPFLAGS_HEAPTYPE: a class statement made it.
_HEAP_TYPE: Final = 1 << 9
#: Methods of native objects, with the object.
_BOUND: Final = (types.BuiltinFunctionType, types.MethodWrapperType)


class Recipe:
    """Collects the steps of a function `run(inputs…)`."""

    def __init__(self, tracer: Tracer, recorder: Recorder) -> None:
        self._tracer = tracer
        self._recorder = recorder
        self.steps: list[Step] = []
        self.namespace: dict[str, object] = {}
        #: outputs of the graph
        self.outputs: list[torch.fx.Node] = []
        #: values of earlier segments, by name
        self.from_earlier: dict[str, SegmentOutput] = {}
        self._output_names: dict[torch.fx.Node, str] = {}
        #: what the function needs besides the inputs of the graph
        self.extra: list[Path | Expr] = []
        self._extra_names: dict[object, str] = {}
        self._made: dict[int, str] = {}
        self._kept: list[object] = []
        #: cells of functions whose contents are yet to be made
        self._unfilled: set[int] = set()

    def _do(self, line: str, does: Does = Does.RUN, target: str = "", *args: object) -> None:
        self.steps.append(Step(line, does, target, args))

    def value(self, value: Any) -> str:
        """An expression for a value."""
        kind = type(value)
        if kind is TracedInt:
            return self._size(value.expr)
        if kind is TracedFloat:
            return self._node(self._recorder.number_node(value.node))
        if kind is TracedText:
            return self._text(value)
        if kind in ATOMS:
            return self._constant(value)
        if isinstance(value, torch.Tensor):
            path = self._tracer.path_of(value)
            if path is not None:
                return self.path(path)
            return self._node(self._recorder.node(value))
        path = self._tracer.path_of(value)
        if path is not None:
            return self.path(path)
        if isinstance(value, _BOUND) and self._is_bound_inside(value):
            return self._bound(value)
        if isinstance(value, (*CODE, enum.Enum)) and not _is_made(value):
            return self._constant(value)
        made = self._made.get(id(value))
        return self._make(value) if made is None else made

    def path(self, path: Path) -> str:
        return self._input(path)

    def _input(self, source: Path | Expr) -> str:
        found = self._extra_names.get(source)
        if found is None:
            found = self._extra_names[source] = f"x{len(self.extra)}"
            self.extra.append(source)
        return found

    def _size(self, size: Any) -> str:
        if type(size) is int:
            return repr(size)
        if not is_data_dependent(size):
            return self._input(size)
        node = self._recorder.sizes.of(size)
        return repr(node) if type(node) is int else self._node(node)

    def _node(self, node: torch.fx.Node) -> str:
        """What a node of the last segment gives, which may be no more than an input of it."""
        for placeholder, source, _ in self._recorder.segment.inputs:
            if placeholder is node and isinstance(source, SegmentOutput):
                return self.carried(source)
        return self.output(node)

    def carried(self, source: SegmentOutput) -> str:
        name = f"v{source.segment}_{source.output}"
        self.from_earlier[name] = source
        return name

    def output(self, node: torch.fx.Node) -> str:
        found = self._output_names.get(node)
        if found is None:
            found = self._output_names[node] = f"t{len(self.outputs)}"
            self.outputs.append(node)
        return found

    def _constant(self, value: object) -> str:
        if value is None or value is True or value is False or type(value) is int:
            return repr(value)
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def _new(self, value: object) -> str:
        name = f"r{len(self._made)}"
        self._made[id(value)] = name
        self._kept.append(value)
        return name

    def _make(self, value: object) -> str:
        if value in self._tracer.shared:
            raise AbortCapture("a container that a cached function holds is returned or stored")
        maker = _MAKERS.get(type(value))
        if maker is not None:
            return maker(self, value)
        kind = type(value)
        if is_numpy_scalar(kind):
            return self._constant(value)  # computed of what is guarded, and never changed
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            if getattr(value, "__dict__", None):
                raise AbortCapture(f"a {kind.__name__} with attributes is returned or stored")
            return self._named_tuple(value)
        if isinstance(value, tuple) and kind.__module__ == "torch.return_types":
            return self._of_a_tuple(value)
        if isinstance(value, BaseException | torch.nn.Module):
            raise AbortCapture(f"a {kind.__name__} made by the program is returned or stored")
        if isinstance(value, OrderedDict) and not _rebuilds_itself(kind):
            return self._dictionary_object(value)
        if isinstance(value, dict | list | set | tuple | str | int | float):
            raise AbortCapture(f"a {kind.__name__} is returned or stored")
        if _rebuilds_itself(kind):
            raise AbortCapture(f"a {kind.__name__} made by the program is returned or stored")
        return self._object(value)

    def _list(self, value: list[object]) -> str:
        name = self._new(value)
        self._do(f"{name} = []", Does.MAKE, name, list, ())
        if value:
            items = [*map(self.value, value)]
            self._do(f"{name} += ({', '.join(items)},)", Does.EXTEND, name, *items)
        return name

    def _tuple(self, value: tuple[object, ...]) -> str:
        items = [self.value(item) for item in value]
        if id(value) in self._made:  # inside itself, through a list
            raise AbortCapture("a tuple that holds itself")
        return self._of_items(value, f"({''.join(f'{item}, ' for item in items)})", items)

    def _of_items(self, value: object, made: str, items: list[str], most: int | None = None) -> str:
        """Something that is made at once, by an expression."""
        name = self._new(value)
        self._do(f"{name} = {made}", Does.MAKE, name, type(value), items, most)
        return name

    def _named_tuple(self, value: Any) -> str:
        items = [self.value(item) for item in value]
        made = f"tuple.__new__({self._constant(type(value))}, ({''.join(f'{x}, ' for x in items)}))"
        return self._of_items(value, made, items)

    def _of_a_tuple(self, value: Any) -> str:
        """A tuple of a class of torch's, which takes one."""
        items = [self.value(item) for item in value]
        made = f"{self._constant(type(value))}(({''.join(f'{x}, ' for x in items)}))"
        return self._of_items(value, made, items)

    def _dict(self, value: dict[object, object]) -> str:
        name = self._new(value)
        kind = type(value)
        made, does = "{}", Does.MAKE
        if kind is defaultdict:
            factory = self.value(value.default_factory)  # pyright: ignore[reportAttributeAccessIssue] of a defaultdict
            made = f"{self._constant(kind)}({factory})"
            does = Does.MAKE if factory == "None" else Does.RUN
        elif kind is not dict:
            made = f"{self._constant(kind)}()"
        self._do(f"{name} = {made}", does, name, kind, ())
        self._fill(name, value)
        return name

    def _fill(self, name: str, value: dict[object, object], store: str = "") -> None:
        for key, item in value.items():
            at, held = self.value(key), self.value(item)
            line = f"{store}({name}, {at}, {held})" if store else f"{name}[{at}] = {held}"
            self._do(line, Does.SET_ITEM, name, at, held)

    def _set(self, value: Any) -> str:
        items = [self.value(item) for item in value]
        return self._of_items(value, f"{self._constant(type(value))}([{', '.join(items)}])", items)

    def _deque(self, value: deque[object]) -> str:
        items = [self.value(item) for item in value]
        made = f"{self._constant(deque)}([{', '.join(items)}], {value.maxlen!r})"
        return self._of_items(value, made, items, value.maxlen)

    def _slice(self, value: slice) -> str:
        parts = [*map(self.value, (value.start, value.stop, value.step))]
        return self._of_items(value, f"slice({', '.join(parts)})", parts)

    def _partial(self, value: functools.partial[object]) -> str:
        parts = [self.value(value.func), *map(self.value, value.args)]
        named = [f"{key!r}: {self.value(item)}" for key, item in value.keywords.items()]
        if value.__dict__:
            raise AbortCapture("a partial with attributes is returned or stored")
        name = self._new(value)
        call = f"{self._constant(functools.partial)}({', '.join(parts)}, **{{{', '.join(named)}}})"
        self._do(f"{name} = {call}")
        return name

    def _function(self, value: types.FunctionType) -> str:
        """A function that the program made: the user's code, with cells of its own."""
        code = own_code(self._tracer.watched, value)
        cells = own_cells(value)
        if code is None or set(code.co_freevars) != set(cells):
            raise AbortCapture("a function made by the program is returned or stored")
        self._plain_annotations(value)
        defaults = self.value(value.__defaults__)
        inner = "".join(f"{self._cell(cells[name])}, " for name in code.co_freevars)
        name = self._new(value)
        made = [self._constant(code), self._constant(value.__globals__), repr(value.__name__)]
        kind = self._constant(types.FunctionType)
        self._do(f"{name} = {kind}({', '.join(made)}, {defaults}, ({inner}))")
        for attribute in ("__kwdefaults__", "__qualname__", "__module__", "__doc__"):
            held = getattr(value, attribute)
            if held is not None:
                self._do(f"{name}.{attribute} = {self.value(held)}")
        if value.__annotations__:
            self._do(f"{name}.__annotations__ = {self.value(dict(value.__annotations__))}")
        if value.__dict__:
            self._do(f"{name}.__dict__.update({self.value(dict(value.__dict__))})")
        for cell in cells.values():
            self._fill_cell(cell)
        return name

    def _plain_annotations(self, value: types.FunctionType) -> None:
        for held in value.__annotations__.values():
            if type(held) not in ATOMS and not isinstance(held, CODE):
                raise AbortCapture(
                    "a function with annotations made by the program is returned or stored"
                )

    def _cell(self, cell: types.CellType) -> str:
        if is_outer_cell(self._tracer.watched, cell):
            return self._constant(cell)
        found = self._made.get(id(cell))
        if found is None:
            found = self._new(cell)
            made = f"{found} = {self._constant(types.CellType)}()"
            self._do(made, Does.MAKE, found, types.CellType, ())
            self._unfilled.add(id(cell))
        return found

    def _fill_cell(self, cell: types.CellType) -> None:
        """Once the function is there, which may hold itself."""
        if id(cell) not in self._unfilled:
            return
        self._unfilled.discard(id(cell))
        try:
            held = cell.cell_contents
        except ValueError:
            return
        self._do(f"{self._made[id(cell)]}.cell_contents = {self.value(held)}")

    def _text(self, value: TracedText) -> str:
        parts = [
            self._constant(piece)
            if isinstance(piece, str)
            else f"({self.value(piece.value)}, {piece.conversion!r}, {piece.spec!r})"
            for piece in value.pieces
        ]
        return f"{self._constant(written)}({', '.join(parts)})"

    def _snapshot(self, value: Snapshot) -> str:
        parts = f"{value.parameter}, {value.requires_grad}, {value.grad_fn!r}"
        return f"{self._constant(shown)}({self.value(value.tensor)}, {parts})"

    def _method(self, value: types.MethodType) -> str:
        if type(value.__self__) in (TracedInt, TracedFloat):
            raise AbortCapture("a method of a dynamic number is returned or stored")
        owner = self.value(value.__self__)
        function = self.value(value.__func__)
        return f"{self._constant(types.MethodType)}({function}, {owner})"

    def _is_bound_inside(self, value: Any) -> bool:
        """Whether a native method was taken from an object during the call: the object is another
        one in the next call. A method from outside is guarded to be the same one."""
        owner = value.__self__
        if owner is None or type(owner) in ATOMS or isinstance(owner, CODE):
            return False
        guards = self._tracer.guards.values()
        return not any(each.kind is Kind.IDENTITY and each.value is value for each in guards)

    def _bound(self, value: Any) -> str:
        """`iter(numbers).__next__`, `found.append`."""
        owner, name = value.__self__, value.__name__
        if type(owner).__flags__ & _HEAP_TYPE:
            # It may have another method of this name.
            raise AbortCapture(f"`{name}` of a {type(owner).__name__} is returned or stored")
        return f"{self._constant(getattr)}({self.value(owner)}, {name!r})"

    def _dictionary_object(self, value: OrderedDict[object, object]) -> str:
        """A subclass of OrderedDict with attributes, such as a model's output."""
        name = self._new(value)
        kind = self._constant(type(value))
        self._do(f"{name} = OrderedDict.__new__({kind})", Does.MAKE, name, type(value), ())
        self._do(f"OrderedDict.__init__({name})", Does.NOTHING)
        self.namespace["OrderedDict"] = OrderedDict
        self._fill(name, dict(OrderedDict.items(value)), "OrderedDict.__setitem__")
        self._attributes(name, value)
        return name

    def _object(self, value: object) -> str:
        """A plain object: its class and what it holds."""
        try:
            object.__new__(type(value))
        except TypeError:
            raise AbortCapture(f"a {type(value).__name__} is returned or stored") from None
        name = self._new(value)
        kind = self._constant(type(value))
        self._do(f"{name} = object.__new__({kind})", Does.MAKE, name, type(value), ())
        self._attributes(name, value)
        return name

    def _attributes(self, name: str, value: object) -> None:
        held = getattr(value, "__dict__", None)
        if held:
            pairs, parts = list[Any](), list[str]()
            for key, item in held.items():
                shown, stored = self._constant(key), self.value(item)
                pairs.append((key, stored))
                parts.append(f"{shown}: {stored}")
            line = f"{name}.__dict__.update({{{', '.join(parts)}}})"
            self._do(line, Does.SET_ATTRIBUTES, name, *pairs)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot in ("__dict__", "__weakref__"):
                    continue
                member = base.__dict__.get(slot)
                if member is None:
                    raise AbortCapture(f"a {type(value).__name__} with private slots")
                try:
                    item = member.__get__(value)
                except AttributeError:
                    continue
                self._set_attribute(name, slot, item)

    def _set_attribute(self, target: str, name: str, value: object) -> None:
        held = self.value(value)
        line = f"object.__setattr__({target}, {name!r}, {held})"
        self._do(line, Does.SET_ATTRIBUTES, target, (name, held))

    # -- effects ---------------------------------------------------------------------------------

    def effect(self, effect: Effect) -> None:
        target = "" if effect.target is None else self.path(effect.target)
        values = effect.values
        match effect.change:
            case Change.SET_ATTRIBUTE:
                self._set_attribute(target, effect.key, values[0])
            case Change.DELETE_ATTRIBUTE:
                self._do(f"object.__delattr__({target}, {effect.key!r})")
            case Change.SET_ITEM:
                key, value = self.value(effect.key), self.value(values[0])
                self._do(f"{target}[{key}] = {value}", Does.SET_ITEM, target, key, value)
            case Change.DELETE_ITEM:
                self._do(f"del {target}[{self.value(effect.key)}]")
            case Change.SET_CELL:
                self._do(f"{target}.cell_contents = {self.value(values[0])}")
            case Change.METHOD:
                self._call(effect.key, target, *map(self.value, values), does=_does(effect))
            case Change.CALL:
                args, kwargs = values
                parts = [*map(self.value, args)]
                parts += [f"{name}={self.value(value)}" for name, value in kwargs.items()]
                self._call(effect.key, *parts, does=_does(effect))
            case Change.ADD_GRAD:
                held = self.value(values[0])
                self._do(f"add_grad({target}, {held})", Does.ADD_GRAD, target, held)
            case Change.EXPECT_NO_GRAD:
                self._do(f"expect_no_grad({target})", Does.EXPECT_NO_GRAD, target)

    def _call(self, function: object, *args: str, does: Does) -> None:
        self._do(f"{self._constant(function)}({', '.join(args)})", does)


def _does(effect: Effect) -> Does:
    """Of a call: keeping the counts of a cache, or which buffers `state_dict` leaves out, is
    nothing that a result depends on."""
    counts = isinstance(effect.key, functools._lru_cache_wrapper)
    not_saved = effect.target is not None and effect.target.key == "_non_persistent_buffers_set"
    return Does.NOTHING if counts or not_saved else Does.RUN


_MAKERS: Final[dict[type, Callable[[Recipe, Any], str]]] = {
    list: Recipe._list,
    tuple: Recipe._tuple,
    torch.Size: Recipe._of_a_tuple,
    dict: Recipe._dict,
    OrderedDict: Recipe._dict,
    defaultdict: Recipe._dict,
    Counter: Recipe._dict,
    set: Recipe._set,
    frozenset: Recipe._set,
    deque: Recipe._deque,
    slice: Recipe._slice,
    types.MethodType: Recipe._method,
    Snapshot: Recipe._snapshot,
    types.FunctionType: Recipe._function,
    functools.partial: Recipe._partial,
}


def _is_made(value: object) -> bool:
    """Whether it is a function that the program made."""
    return isinstance(value, types.FunctionType) and is_instrumented(value.__code__)


def _rebuilds_itself(kind: type) -> bool:
    """Whether instances hold something that their dictionary and slots do not show."""
    for base in kind.__mro__:
        if base in (object, OrderedDict, dict):
            continue
        if not base.__flags__ & _HEAP_TYPE:
            return True
    return False
