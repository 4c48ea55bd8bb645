"""Source text that walks paths: each object once, into a local variable, after the guards of
everything above it.

    if _as_type(self) is not _as_c0: break          # type(L['self']) is Linear
    _as_p1 = self.__dict__
    if _as_type(_as_p1) is not _as_dict: break
    _as_p2 = _as_p1['training']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from types import MappingProxyType, ModuleType
from typing import Any, Final, cast

from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Access, Path
from anyshape.guards.values import (
    dictionary_reader,
    instance_dictionary,
    item_of,
    item_reader,
    reads_plainly,
)
from anyshape.symbolic import Fact, Size, Symbol, to_text


class Namespace:
    """The globals of generated code. Every name starts with a prefix that no parameter starts
    with: a user's `type`, `len` or `id` is an ordinary parameter."""

    def __init__(self, parameters: Iterable[str]) -> None:
        prefix, taken = "_as", tuple(parameters)
        while any(name.startswith(prefix) for name in taken):
            prefix = f"_{prefix}"
        self.prefix: Final = f"{prefix}_"
        self.values: Final[dict[str, object]] = {}
        self._names: Final[dict[int, str]] = {}

    def constant(self, value: object) -> str:
        """A name for the object; the same one for the same object, which stays alive with it."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"{self.prefix}c{len(self._names)}"
            self.values[name] = value
        return name

    def literal(self, value: object) -> str:
        """As text where text is the value itself, else by name."""
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self.constant(value)


class Walk:
    """Lines of one entry so far, and the variable of each path that was walked."""

    def __init__(
        self,
        namespace: Namespace,
        locals_: Mapping[str, type | None],
        guards: Iterable[Guard],
        check: Callable[[Walk, Guard], None],
        given: Mapping[Path, str] = MappingProxyType({}),
    ) -> None:
        self.namespace: Final = namespace
        self.lines: Final[list[str]] = []
        #: the parameters of the function, with the type where the language gives it
        self._locals: Final = locals_
        #: variables that hold the objects at these paths already; what is above was checked
        self._given: Final = given
        self._check: Final = check
        self._at: Final[dict[Path, list[Guard]]] = {}
        self._names: Final[dict[Path, str]] = {}
        self._shapes: Final[dict[Path, str]] = {}
        self._dictionaries: Final[dict[Path, str]] = {}
        #: the variable of each symbol that has a value by now
        self.symbols: Final[dict[Symbol, str]] = {}
        self._fresh = 0
        for guard in guards:
            if guard.path is not None:
                self._at.setdefault(guard.path, []).append(guard)
        for found in self._at.values():  # The type first: how the rest is read depends on it.
            if len(found) > 1:
                found.sort(key=_says_no_type)

    # -- lines ----------------------------------------------------------------------------------

    def fresh(self) -> str:
        self._fresh += 1
        return f"{self.namespace.prefix}p{self._fresh}"

    def name(self, value: object) -> str:
        return self.namespace.constant(value)

    def literal(self, value: object) -> str:
        return self.namespace.literal(value)

    def assign(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def refuse_if(self, condition: str) -> None:
        """This entry is not for this call if the condition holds."""
        self.lines.append(f"if {condition}: break")

    @property
    def state(self) -> str:
        """The variable that holds the global state of this call."""
        return f"{self.namespace.prefix}state"

    def arithmetic(self, value: Size | Fact) -> str:
        """An expression or a fact over variables of symbols."""
        text = to_text(value, self._symbol)
        return _EXTREMA.sub(lambda found: f"{self.name(_BUILTIN[found[1]])}(", text)

    def _symbol(self, symbol: Symbol) -> str:
        name = self.symbols.get(symbol)
        if name is None:
            raise ValueError(f"the entry does not say where the value of {symbol.name} comes from")
        return name

    # -- paths ----------------------------------------------------------------------------------

    def at(self, path: Path) -> str:
        """The variable that holds the object at the path: everything above it was checked before
        it was read, and its own guards right after."""
        todo: list[Path] = []
        step: Path | None = path
        while step is not None and step not in self._names:
            todo.append(step)
            step = None if step in self._given else step.parent
        for missing in reversed(todo):
            name = self._given.get(missing) or _STEPS[missing.access](self, missing)
            self._names[missing] = name
            for guard in self._at.get(missing, ()):
                self._check(self, guard)
        return self._names[path]

    def variable(self, path: Path) -> str:
        """The variable of a path whose guards are being written."""
        return self._names[path]

    def type_at(self, path: Path) -> type | None:
        """The type that the object at the path has once its guards have passed."""
        for guard in self._at.get(path, ()):
            found = _TYPE_BY_GUARD.get(guard.kind)
            if found is not None:
                return found(guard.value)
        if path.access is Access.LOCAL:
            return self._locals.get(cast("str", path.key))
        if path.access is Access.CONSTANT and not type(path.key).__flags__ & _MADE_BY_CLASS:
            return type(path.key)  # Of an instance of a class, `__class__` can be assigned.
        return None

    def object_at(self, path: Path) -> object:
        """The very object that the path leads to once its guards have passed, or None."""
        if path.access is Access.CONSTANT:
            return path.key
        guards = self._at.get(path, ())
        return next((guard.value for guard in guards if guard.kind is Kind.IDENTITY), None)

    def shape(self, path: Path) -> str:
        """The variable that holds the shape of the tensor at the path."""
        if path not in self._shapes:
            self._shapes[path] = self.assign(f"{self._names[path]}.shape")
        return self._shapes[path]

    def dictionary(self, path: Path) -> str:
        """The variable that holds the instance dictionary of the object at the path."""
        if path not in self._dictionaries:
            self._dictionaries[path] = self._dictionary(path)
        return self._dictionaries[path]

    def _dictionary(self, path: Path) -> str:
        known = self.object_at(path)
        if type(known) is ModuleType:
            return self.name(known.__dict__)  # A module keeps its dictionary for life.
        kind = self.type_at(path)
        reader = dictionary_reader(kind) if kind is not None else None
        if kind is None or reader is None:
            return self.assign(f"{self.name(instance_dictionary)}({self._names[path]})")
        if reads_plainly(kind):
            name = self.assign(f"{self._names[path]}.__dict__")
        else:
            name = self.assign(f"{self.name(reader)}({self._names[path]})")
        # A subclass of dict in this place has methods that are user code; a class has a view here.
        plain = MappingProxyType if issubclass(kind, type) else dict
        self.refuse_if(f"{self.name(type)}({name}) is not {self.name(plain)}")
        return name

    # -- steps: one for each access -------------------------------------------------------------

    def local(self, path: Path) -> str:
        key = path.key
        if key not in self._locals:
            raise ValueError(f"{path.text}: the function has no parameter of that name")
        return cast("str", key)

    def held(self, path: Path) -> str:
        return self.name(path.key)

    def attribute(self, path: Path) -> str:
        name = cast("str", path.key)
        owner = self._names[_parent(path)]
        if name.isascii() and name.isidentifier() and not iskeyword(name):
            return self.assign(f"{owner}.{name}")
        return self.assign(f"{self.name(getattr)}({owner}, {name!r})")

    def instance(self, path: Path) -> str:
        return self.assign(f"{self.dictionary(_parent(path))}[{self.literal(path.key)}]")

    def item(self, path: Path) -> str:
        parent = _parent(path)
        owner, key = self._names[parent], self._key(path)
        kind = self.type_at(parent)
        if kind in (list, tuple, dict):
            return self.assign(f"{owner}[{key}]")
        reader = item_reader(kind) if kind is not None else None
        return self.assign(f"{self.name(reader or item_of)}({owner}, {key})")

    def _key(self, path: Path) -> str:
        return self.at(path.key) if isinstance(path.key, Path) else self.literal(path.key)

    def cell(self, path: Path) -> str:
        return self.assign(f"{self._names[_parent(path)]}.cell_contents")

    def referent(self, path: Path) -> str:
        return self.assign(f"{self._names[_parent(path)]}()")

    def stride(self, path: Path) -> str:
        return self.assign(f"{self._names[_parent(path)]}.stride({path.key})")

    def own_dictionary(self, path: Path) -> str:
        return self.assign(self.dictionary(_parent(path)))


#: A user's parameter may be named `min`; names of symbols are ours and contain no bracket.
_EXTREMA: Final = re.compile(r"\b(min|max)\(")
_BUILTIN: Final[dict[str, object]] = {"min": min, "max": max}


def _parent(path: Path) -> Path:
    assert path.parent is not None, f"{path.text} is a root"
    return path.parent


_STEPS: Final[dict[Access, Callable[[Walk, Path], str]]] = {
    Access.LOCAL: Walk.local,
    Access.CONSTANT: Walk.held,
    Access.ATTRIBUTE: Walk.attribute,
    Access.INSTANCE: Walk.instance,
    Access.ITEM: Walk.item,
    Access.KEYED: Walk.item,
    Access.CELL: Walk.cell,
    Access.REFERENT: Walk.referent,
    Access.STRIDE: Walk.stride,
    Access.DICTIONARY: Walk.own_dictionary,
}


#: `Py_TPFLAGS_HEAPTYPE`
_MADE_BY_CLASS: Final = 1 << 9


def _says_no_type(guard: Guard) -> bool:
    return guard.kind not in _TYPE_BY_GUARD


#: Guards that tell the type of what they look at. IDENTITY does not: `__class__` of an instance can
#: be assigned.
_TYPE_BY_GUARD: Final[dict[Kind, Callable[[Any], type]]] = {
    Kind.TYPE: lambda kind: kind,
    Kind.EQUALS: type,
    Kind.TENSOR: lambda spec: spec.type,
}
