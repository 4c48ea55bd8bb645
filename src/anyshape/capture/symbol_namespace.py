"""What the captures of one entry share: the same place has the same path and the same symbol."""

from __future__ import annotations

from anyshape.guards.path import Parameters, Path, constant
from anyshape.support.plain_attributes import plain_attribute
from anyshape.symbolic import Expr


class Roots:
    """Where paths begin, and the symbols that stand for what is found at their ends."""

    def __init__(self) -> None:
        self._locals = Parameters()
        self._constants: dict[int, Path] = {}
        #: by the path, and the dimension of a tensor there
        self.symbols: dict[tuple[Path, int | None], Expr] = {}

    def local(self, name: str) -> Path:
        return self._locals[name]

    def known_constant(self, value: object) -> Path | None:
        return self._constants.get(id(value))

    def constant(self, value: object, text: str | None = None) -> Path:
        # The path holds the object, so that its identity is not used again.
        found = self._constants[id(value)] = constant(value, text or _name_of(value))
        return found

    def next_name(self) -> str:
        return f"s{len(set(self.symbols.values()))}"


def _name_of(value: object) -> str:
    name = plain_attribute(value, "__qualname__") or plain_attribute(value, "__name__")
    module = plain_attribute(value, "__module__")
    if isinstance(name, str):
        return f"{module}.{name}" if isinstance(module, str) else name
    return f"<{type(value).__name__}>"
