"""The program after the graph, as nodes: what makes the result, and changes what the caller gave.

A trace has it as lines of Python, in few forms (see `capture.recipe`). Each form has a reader here;
a line in any other form is something that an artifact cannot do.
"""

from __future__ import annotations

import ast
import enum
import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.tracer import ATOMS
from anyshape.export import results
from anyshape.guards.path import Path
from anyshape.support.lazy_dataclass import dataclass, field


class NotData(Exception):
    """A result or a change that is more than data."""


@dataclass(frozen=True, slots=True)
class Outside:
    """An object that the caller did not give: an artifact does not have it."""

    path: Path


@dataclass(slots=True)
class _Made:
    """A container or an object that the lines make."""

    kind: type
    items: list[Any] = field(default_factory=list[Any])
    pairs: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    #: how often it is spoken of
    uses: int = 0
    node: Any = None
    building: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """An attribute or an item to be set on something that the caller gave."""

    target: Any
    key: Any
    value: Any
    is_item: bool


class RecipeNodes:
    """`known` has the nodes of the names in the lines: `t0` (outputs), `x0` (what is given)."""

    def __init__(
        self, graph: torch.fx.Graph, known: Mapping[str, Any], namespace: Mapping[str, Any]
    ) -> None:
        self._graph = graph
        self._known = known
        self._namespace = namespace
        self._made: dict[str, _Made] = {}
        self._changes: list[_Change] = []
        #: what the program set on objects outside in the end, where that is a plain value
        self.left_out: dict[tuple[Path, str], Any] = {}

    def result(self, lines: list[str], result: str) -> Any:
        """The argument of the graph's output; the changes come before it."""
        for line in lines:
            self._line(ast.parse(line).body[0], line)
        returned = self._value(ast.parse(result, mode="eval").body)
        for change in self._last_changes():
            key = change.key if isinstance(change.key, str) else self._node(change.key)
            target, value = self._node(change.target), self._node(change.value)
            if change.is_item:
                self._call(results.set_item, target, key, value)
            else:
                self._call(results.set_attribute, target, key, value)
        return self._node(returned)

    def _last_changes(self) -> list[_Change]:
        """Of what is set several times, only the last."""
        last: dict[Any, _Change] = {}
        for change in self._changes:
            if isinstance(change.target, Outside) and not change.is_item:
                self._leave_out(change.target.path, change)
            else:
                at = (id(change.target), change.is_item, type(change.key), change.key)
                last.pop(at, None)
                last[at] = change
        for path, name in self.left_out:
            if type(self.left_out[path, name]) not in ATOMS:
                raise NotData(f"`{path.text}.{name}`, which it sets")
        return list(last.values())

    def _leave_out(self, path: Path, change: _Change) -> None:
        self.left_out[path, change.key] = change.value

    # -- lines -------------------------------------------------------------------------------------

    def _line(self, line: ast.stmt, text: str) -> None:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._made[name] = self._new(value, text)
            case ast.AugAssign(target=ast.Name(id=name), value=ast.Tuple(elts=items)):
                self._made[name].items += map(self._value, items)
            case ast.Assign(targets=[ast.Subscript(value=target, slice=key)], value=value):
                self._set_item(self._target(target), self._value(key), self._value(value))
            case ast.Expr(value=ast.Call(func=ast.Attribute() as function, args=args)):
                self._method(ast.unparse(function), args, text)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if isinstance(
                self._namespace.get(name), functools._lru_cache_wrapper
            ):
                pass  # It keeps the counts of a cache, which an exported program has no part in.
            case _:
                raise NotData(text)

    def _target(self, target: ast.expr) -> Any:
        made = self._made.get(target.id) if isinstance(target, ast.Name) else None
        return self._value(target) if made is None else made

    def _set_item(self, target: Any, key: Any, value: Any) -> None:
        if isinstance(target, _Made):
            target.pairs.append((key, value))
        else:
            self._changes.append(_Change(target, key, value, is_item=True))

    def _method(self, function: str, args: list[ast.expr], text: str) -> None:
        if function.endswith(".__dict__.update") and isinstance(args[0], ast.Dict):
            made = self._made[function.split(".", 1)[0]]
            for key, value in zip(args[0].keys, args[0].values, strict=True):
                assert key is not None, "no `**` in these lines"
                made.attributes[self._value(key)] = self._value(value)
            return
        if function == "OrderedDict.__init__":
            return
        values = list(map(self._value, args))
        if function == "OrderedDict.__setitem__":
            self._set_item(*values)
        elif function == "object.__setattr__":
            target, name, value = values
            if isinstance(target, _Made):
                target.attributes[name] = value
            else:
                self._changes.append(_Change(target, name, value, is_item=False))
        else:
            raise NotData(text)

    def _new(self, value: ast.expr, text: str) -> _Made:
        match value:
            case ast.List():
                return _Made(list)
            case ast.Dict():
                return _Made(dict)
            case ast.Tuple(elts=items):
                return _Made(tuple, list(map(self._value, items)))
            case ast.Call(func=ast.Name(id="slice"), args=parts):
                return _Made(slice, list(map(self._value, parts)))
            case ast.Call(func=ast.Name(id=name), args=args) if name in self._namespace:
                return self._instance(self._namespace[name], args, text)
            case ast.Call(func=ast.Attribute() as function, args=[kind, *args]):
                made = _Made(self._value(kind))
                if ast.unparse(function) == "tuple.__new__" and isinstance(args[0], ast.Tuple):
                    made.items += map(self._value, args[0].elts)
                return made
            case _:
                raise NotData(text)

    def _instance(self, kind: Any, args: list[ast.expr], text: str) -> _Made:
        if not isinstance(kind, type):
            raise NotData(text)
        match args:
            case []:
                return _Made(kind)
            case [ast.Tuple(elts=items) | ast.List(elts=items), *more]:
                made = _Made(kind, list(map(self._value, items)))
                if kind is deque and more and self._value(more[0]) is not None:
                    raise NotData("a deque with a greatest length")
                return made
            case [ast.Constant(value=None)] if kind is defaultdict:
                return _Made(kind)
            case _:
                raise NotData(text)

    # -- values ------------------------------------------------------------------------------------

    def _value(self, value: ast.expr) -> Any:
        match value:
            case ast.Constant(value=constant):
                return constant
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as constant)):
                return -constant
            case ast.Name(id=name) if name in self._made:
                self._made[name].uses += 1
                return self._made[name]
            case ast.Name(id=name) if name in self._known:
                return self._known[name]
            case ast.Name(id=name) if name in self._namespace:
                return self._namespace[name]
            case _:
                raise NotData(ast.unparse(value))

    def _node(self, value: Any) -> Any:
        """What an argument of a node is for a value."""
        if isinstance(value, _Made):
            return self._container(value)
        if isinstance(value, torch.fx.Node) or type(value) in ATOMS:
            return value
        if isinstance(value, Outside):
            raise NotData(f"`{value.path.text}`, which lives outside")
        if isinstance(value, enum.Enum):
            raise NotData(f"{value} is a member of an enumeration")
        raise NotData(f"a {type(value).__name__} from outside")

    def _container(self, made: _Made) -> Any:
        if made.node is None:
            if made.building:
                raise NotData(f"a {made.kind.__name__} that holds itself")
            made.building = True
            build = _BUILDERS.get(made.kind, RecipeNodes._object)
            made.node = build(self, made)
        return made.node

    def _call(self, function: Callable[..., Any], *args: Any) -> torch.fx.Node:
        return self._graph.call_function(function, args)

    def _nodes(self, made: _Made) -> list[Any]:
        return [self._node(item) for item in made.items]

    def _pairs(self, made: _Made) -> list[Any]:
        return [[self._node(key), self._node(value)] for key, value in made.pairs]

    def _list(self, made: _Made) -> Any:
        items = self._nodes(made)
        # Written out, each mention would be a list of its own.
        return items if made.uses <= 1 else self._call(results.as_list, *items)

    def _tuple(self, made: _Made) -> Any:
        items = self._nodes(made)
        return tuple(items) if made.uses <= 1 else self._call(results.as_tuple, *items)

    def _dict(self, made: _Made) -> Any:
        pairs = self._pairs(made)
        # The keys of a graph's dictionary are texts.
        if made.uses <= 1 and all(type(key) is str for key, _ in pairs):
            return dict(pairs)
        return self._call(results.as_dict, *pairs)

    def _size(self, made: _Made) -> Any:
        return self._call(results.size, *self._nodes(made))

    def _of_items(self, made: _Made) -> Any:
        return self._call(results.container, made.kind.__name__, *self._nodes(made))

    def _of_pairs(self, made: _Made) -> Any:
        return self._call(results.container, made.kind.__name__, *self._pairs(made))

    def _object(self, made: _Made) -> Any:
        kind = made.kind
        if kind.__module__ == "torch.return_types":
            return self._call(results.return_type, kind.__name__, *self._nodes(made))
        name = results.know_class(kind)
        fields = getattr(kind, "_fields", None)
        if issubclass(kind, tuple) and fields is not None:
            return self._call(results.named_tuple, name, tuple(fields), *self._nodes(made))
        attributes = {key: self._node(value) for key, value in made.attributes.items()}
        return self._call(results.record, name, self._pairs(made), attributes)


_BUILDERS: Final[dict[type, Callable[[RecipeNodes, _Made], Any]]] = {
    list: RecipeNodes._list,
    tuple: RecipeNodes._tuple,
    dict: RecipeNodes._dict,
    torch.Size: RecipeNodes._size,
    set: RecipeNodes._of_items,
    frozenset: RecipeNodes._of_items,
    deque: RecipeNodes._of_items,
    slice: RecipeNodes._of_items,
    OrderedDict: RecipeNodes._of_pairs,
    Counter: RecipeNodes._of_pairs,
    defaultdict: RecipeNodes._of_pairs,
}
