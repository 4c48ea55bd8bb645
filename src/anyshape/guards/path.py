"""How to find an object again: from the arguments of a call, or from an object that is held.

    L['self'].layers[0]     Path.local("self").instance("layers").item(0)

Paths are made once per capture: the same steps from the same root give the same `Path`, so that a
path can be a dictionary key at the price of an identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from anyshape.guards.values import instance_dictionary, item_of


class Access(Enum):
    """How the last step of a path goes on from its parent."""

    # Members are parts of dictionary keys; Enum's own hash is a Python function.
    __hash__ = object.__hash__

    #: the argument of this name
    LOCAL = "local"
    #: an object held by the path itself: a function, a class, a module, a dictionary of globals
    CONSTANT = "constant"
    #: `getattr(parent, key)`; only where that runs no user code
    ATTRIBUTE = "attribute"
    #: `parent.__dict__[key]`
    INSTANCE = "instance"
    #: `parent[key]` of a list, tuple or dictionary; for a subclass, by the method of the base
    ITEM = "item"
    #: `parent[the object at the path key]` of a dictionary, for what is told by its identity
    KEYED = "keyed"
    #: `parent.cell_contents`
    CELL = "cell"
    #: `parent()` of a weak reference
    REFERENT = "referent"
    #: `parent.stride()[key]` of a tensor
    STRIDE = "stride"
    #: the instance dictionary, past a class that says something else of `__dict__`
    DICTIONARY = "dictionary"


class Path:
    """A root or a step from another path. Compared by identity."""

    __slots__ = ("_steps", "access", "key", "parent", "root", "text")

    def __init__(self, parent: Path | None, access: Access, key: object, text: str) -> None:
        self.parent: Final = parent
        self.root: Final[Path] = self if parent is None else parent.root
        self.access: Final = access
        self.key: Final = key
        #: as users know it: `L['x']`, `L['self']._parameters['weight']`, `G['scale']`
        self.text: Final = text
        self._steps: dict[tuple[Access, type, object], Path] = {}

    def __repr__(self) -> str:
        return self.text

    @property
    def argument(self) -> str:
        """As the caller writes it: `x`, `args[1].mask`. For what begins with an argument."""
        return f"{self.root.key}{self.text[len(self.root.text) :]}"

    @property
    def line(self) -> list[Path]:
        """The paths from the root to this one."""
        return [self] if self.parent is None else [*self.parent.line, self]

    def below(self, root: Path) -> Path:
        """The path with the same steps from another root."""
        if self.parent is None:
            return root
        text, key = self.text[len(self.parent.text) :], self.key
        if isinstance(key, Path) and key.root is self.root:
            key = key.below(root)
        return self.parent.below(root).step(self.access, key, text)

    def step(self, access: Access, key: object, text: str) -> Path:
        """The path that goes on like this; `text` is what its own gains."""
        at = (access, type(key), key)
        found = self._steps.get(at)
        if found is None:
            found = self._steps.setdefault(at, Path(self, access, key, self.text + text))
        return found

    def attribute(self, name: str) -> Path:
        return self.step(Access.ATTRIBUTE, name, f".{name}")

    def instance(self, name: str) -> Path:
        return self.step(Access.INSTANCE, name, f".{name}")

    def item(self, key: object) -> Path:
        return self.step(Access.ITEM, key, f"[{key!r}]")

    def keyed(self, key: Path) -> Path:
        return self.step(Access.KEYED, key, f"[{key.text}]")

    def cell(self) -> Path:
        return self.step(Access.CELL, None, "")

    def referent(self) -> Path:
        return self.step(Access.REFERENT, None, "()")

    def stride(self, dim: int) -> Path:
        return self.step(Access.STRIDE, dim, f".stride()[{dim}]")

    def dictionary(self) -> Path:
        return self.step(Access.DICTIONARY, None, ".__dict__")


def local(name: str) -> Path:
    return Path(None, Access.LOCAL, name, f"L[{name!r}]")


class Parameters(dict[str, Path]):
    """The path of each parameter of a function, made when it is asked for."""

    def __missing__(self, name: str) -> Path:
        made = self[name] = local(name)
        return made


def constant(value: object, text: str) -> Path:
    """The path to an object that it holds; whoever reached the object guards that it is still that
    one."""
    return Path(None, Access.CONSTANT, value, text)


#: From the parent of a path, which of an argument is the arguments by name, to the object; the key
#: is what `found_key` gives.
STEPS: Final[Mapping[Access, Callable[[Any, Any], Any]]] = {
    Access.LOCAL: lambda arguments, name: arguments[name],
    Access.CONSTANT: lambda _, held: held,
    Access.ATTRIBUTE: lambda parent, name: getattr(parent, name),
    Access.INSTANCE: lambda parent, name: instance_dictionary(parent)[name],
    Access.ITEM: item_of,
    Access.KEYED: item_of,
    Access.CELL: lambda parent, _: parent.cell_contents,
    Access.REFERENT: lambda parent, _: parent(),
    Access.STRIDE: lambda parent, dim: parent.stride()[dim],
    Access.DICTIONARY: lambda parent, _: instance_dictionary(parent),
}


def found_key(path: Path, object_at: Callable[[Path], object]) -> object:
    """What the last step of a path goes by."""
    return object_at(path.key) if isinstance(path.key, Path) else path.key


def find(path: Path, arguments: Mapping[str, object], found: dict[Path, object]) -> object:
    """The object at the path; raises whatever a step raises. `found` has what was found before."""
    if path not in found:
        parent = arguments if path.parent is None else find(path.parent, arguments, found)
        key = found_key(path, lambda other: find(other, arguments, found))
        found[path] = STEPS[path.access](parent, key)
    return found[path]
