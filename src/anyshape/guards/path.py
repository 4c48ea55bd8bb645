"""How to find an object again: from the arguments of a call, or from an object that is held.

    L['self'].layers[0]     Path.local("self").instance("layers").item(0)

Paths are made once per capture: the same steps from the same root give the same `Path`, so that a
path can be a dictionary key at the price of an identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final


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
    #: `parent.cell_contents`
    CELL = "cell"
    #: `list(parent)[key]` of a dictionary: a key, by its position
    KEY = "key"
    #: `parent.stride()[key]` of a tensor
    STRIDE = "stride"


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

    def ancestry(self) -> Iterator[Path]:
        """The path, and those that it goes on from."""
        at: Path | None = self
        while at is not None:
            yield at
            at = at.parent

    def step(self, access: Access, key: object, text: str) -> Path:
        """The path that goes on like this; `text` is what its own gains."""
        return self._step(access, key, text)

    def _step(self, access: Access, key: object, text: str) -> Path:
        at = (access, type(key), key)
        found = self._steps.get(at)
        if found is None:
            found = self._steps[at] = Path(self, access, key, self.text + text)
        return found

    def attribute(self, name: str) -> Path:
        return self._step(Access.ATTRIBUTE, name, f".{name}")

    def instance(self, name: str) -> Path:
        return self._step(Access.INSTANCE, name, f".{name}")

    def item(self, key: object) -> Path:
        return self._step(Access.ITEM, key, f"[{key!r}]")

    def cell(self) -> Path:
        return self._step(Access.CELL, None, "")

    def stride(self, dim: int) -> Path:
        return self._step(Access.STRIDE, dim, f".stride()[{dim}]")

    def nth_key(self, index: int) -> Path:
        return self._step(Access.KEY, index, f".keys()[{index}]")


def local(name: str) -> Path:
    return Path(None, Access.LOCAL, name, f"L[{name!r}]")


def constant(value: object, text: str) -> Path:
    """The path to an object that it holds; whoever reached the object guards that it is still that
    one."""
    return Path(None, Access.CONSTANT, value, text)
