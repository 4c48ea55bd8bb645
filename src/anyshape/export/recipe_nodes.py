"""The program after the graph, as nodes: what makes the result, and changes what the caller gave.

A trace has it as steps that say what they do (`capture.trace.Step`); one that is code is something
that an artifact cannot do.
"""

from __future__ import annotations

import enum
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.hooks.formatting import written
from anyshape.capture.trace import Does, Step
from anyshape.capture.value_kinds import ATOMS
from anyshape.export import results
from anyshape.guards.path import Path
from anyshape.support.lazy_dataclass import dataclass, field


class NotData(Exception):
    """A result or a change that is more than data."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hints = (hint,) if hint else ()


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

    target: object
    key: Any
    value: Any
    is_item: bool


class RecipeNodes:
    """`known` has the nodes of the names in the steps: `t0` (outputs), `x0` (what is given)."""

    def __init__(
        self,
        graph: torch.fx.Graph,
        known: Mapping[str, object],
        namespace: Mapping[str, object],
        item: Callable[[Path, object], object],
    ) -> None:
        self._graph = graph
        self._known = known
        self._namespace = namespace
        #: the node of a tensor that a container outside has by a key
        self._item = item
        self._made: dict[str, _Made] = {}
        self._changes: list[_Change] = []
        #: tensors, and what is added to their gradients
        self._added: list[tuple[object, object]] = []
        #: tensors that have no gradients before the call
        self.without_grad: list[Any] = []
        #: what the program set on objects outside in the end, where that is a plain value
        self.left_out: dict[tuple[Path, str], object] = {}

    def result(self, steps: Iterable[Step], result: str) -> Any:
        """The argument of the graph's output; the changes come before it."""
        for step in steps:
            self._step(step)
        returned = self._value(result)
        for change in self._last_changes():
            if isinstance(change.target, Outside):
                path = change.target.path
                hint = _HINT.format(change.key) if path.key == "_buffers" else ""
                raise NotData(f"`{path.text}[{change.key!r}]`, which it sets", hint)
            key = change.key if isinstance(change.key, str) else self._node(change.key)
            target, value = self._node(change.target), self._node(change.value)
            if change.is_item:
                self._call(results.set_item, target, key, value)
            else:
                self._call(results.set_attribute, target, key, value)
        for target, grad in self._added:
            self._call(results.add_grad, self._node(target), self._node(grad))
        return self._node(returned)

    def _last_changes(self) -> list[_Change]:
        """Of what is set several times, only the last."""
        last: dict[object, _Change] = {}
        for change in self._changes:
            if isinstance(change.target, Outside) and not change.is_item:
                self._leave_out(change.target.path, change)
            elif isinstance(change.target, Outside) and self._is_there(change.target.path, change):
                # `self.count += 1` changes a buffer, and then says that it is the buffer.
                last.pop(_place(change), None)
            else:
                last.pop(_place(change), None)
                last[_place(change)] = change
        for path, name in self.left_out:
            if type(self.left_out[path, name]) not in ATOMS:
                raise NotData(f"`{path.text}.{name}`, which it sets")
        return list(last.values())

    def _is_there(self, path: Path, change: _Change) -> bool:
        return isinstance(change.value, torch.fx.Node) and (
            self._item(path, change.key) is change.value
        )

    def _leave_out(self, path: Path, change: _Change) -> None:
        self.left_out[path, change.key] = change.value

    # -- steps -------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        name = step.target
        match step.does:
            case Does.MAKE:
                kind, items, *most = step.args
                self._made[name] = _Made(kind, list(map(self._value, items)))
                if any(each is not None for each in most):
                    raise NotData("a deque with a greatest length")
            case Does.EXTEND:
                self._made[name].items += map(self._value, step.args)
            case Does.SET_ITEM:
                key, value = map(self._value, step.args)
                self._set(name, key, value, is_item=True)
            case Does.SET_ATTRIBUTES:
                for key, value in step.args:
                    self._set(name, key, self._value(value), is_item=False)
            case Does.ADD_GRAD:
                self._added.append((self._value(name), self._value(step.args[0])))
            case Does.EXPECT_NO_GRAD:
                self.without_grad.append(self._value(name))
            case Does.NOTHING:
                pass  # An exported program has no part in the counts of a cache.
            case Does.RUN:
                raise NotData(self._in_words(step.line))

    def _set(self, name: str, key: Any, value: Any, is_item: bool) -> None:
        made = self._made.get(name)
        if made is None:
            self._changes.append(_Change(self._value(name), key, value, is_item))
        elif is_item:
            made.pairs.append((key, value))
        else:
            made.attributes[key] = value

    # -- values ------------------------------------------------------------------------------------

    def _value(self, text: str) -> object:
        """What an expression stands for: a name, or a literal."""
        if text in self._made:
            self._made[text].uses += 1
            return self._made[text]
        for names in (self._known, self._namespace, _LITERALS):
            if text in names:
                return names[text]
        try:
            return int(text)
        except ValueError:
            raise NotData(self._in_words(text)) from None

    def _in_words(self, code: str) -> str:
        """What code of the steps does: the names in it are its own."""
        call = _CALL.search(code)
        function = None if call is None else self._namespace.get(call["function"])
        if call is None or function is None:
            return f"`{_NAME.sub(lambda name: self._called(name[0]), code)}`"
        if function is written:
            return "a text that is made of a size"
        name = getattr(function, "__qualname__", type(function).__qualname__)
        target = self._known.get(call["first"])
        on = f" on `{target.path.text}`" if isinstance(target, Outside) else ""
        return f"a call of `{name}`{on}"

    def _called(self, name: str) -> str:
        value = self._known.get(name, self._namespace.get(name, name))
        if isinstance(value, Outside):
            return value.path.text
        return "..." if isinstance(value, torch.fx.Node) else str(value)

    def _node(self, value: object) -> object:
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

    def _container(self, made: _Made) -> object:
        if made.node is None:
            if made.building:
                raise NotData(f"a {made.kind.__name__} that holds itself")
            made.building = True
            build = _BUILDERS.get(made.kind, RecipeNodes._object)
            made.node = build(self, made)
        return made.node

    def _call(self, function: Callable[..., object], *args: Any) -> torch.fx.Node:
        return self._graph.call_function(function, args)

    def _nodes(self, made: _Made) -> list[object]:
        return [self._node(item) for item in made.items]

    def _pairs(self, made: _Made) -> list[Any]:
        return [[self._node(key), self._node(value)] for key, value in made.pairs]

    def _list(self, made: _Made) -> object:
        items = self._nodes(made)
        # Written out, each mention would be a list of its own.
        return items if made.uses <= 1 else self._call(results.as_list, *items)

    def _tuple(self, made: _Made) -> object:
        items = self._nodes(made)
        return tuple(items) if made.uses <= 1 else self._call(results.as_tuple, *items)

    def _dict(self, made: _Made) -> object:
        pairs = self._pairs(made)
        # The keys of a graph's dictionary are texts.
        if made.uses <= 1 and all(type(key) is str for key, _ in pairs):
            return dict(pairs)
        return self._call(results.as_dict, *pairs)

    def _size(self, made: _Made) -> object:
        return self._call(results.size, *self._nodes(made))

    def _of_items(self, made: _Made) -> object:
        return self._call(results.container, made.kind.__name__, *self._nodes(made))

    def _of_pairs(self, made: _Made) -> object:
        return self._call(results.container, made.kind.__name__, *self._pairs(made))

    def _object(self, made: _Made) -> object:
        kind = made.kind
        if kind.__module__ == "torch.return_types":
            return self._call(results.return_type, kind.__name__, *self._nodes(made))
        name = results.know_class(kind)
        fields = getattr(kind, "_fields", None)
        if issubclass(kind, tuple) and fields is not None:
            return self._call(results.named_tuple, name, tuple(fields), *self._nodes(made))
        attributes = {key: self._node(value) for key, value in made.attributes.items()}
        return self._call(results.record, name, self._pairs(made), attributes)


def _place(change: _Change) -> object:
    """What it changes: of several changes there, the last one counts."""
    target = change.target.path if isinstance(change.target, Outside) else id(change.target)
    return target, change.is_item, type(change.key), change.key


_HINT: Final = "change the buffer in place: `self.{}.copy_(value)`"

#: a call in a step, with its first argument, and names that steps have
_CALL: Final = re.compile(r"\b(?P<function>c\d+)\((?P<first>\w*)")
_NAME: Final = re.compile(r"\b[cxt]\d+\b")

_LITERALS: Final = {"None": None, "True": True, "False": False}

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
