"""What the captures of one entry share: the same place has the same path and the same symbol."""

from __future__ import annotations

from anyshape.guards.path import Path, constant, local
from anyshape.symbolic import Expr


class Roots:
    """Where paths begin, and the symbols that stand for what is found at their ends."""

    def __init__(self) -> None:
        self._locals: dict[str, Path] = {}
        self._constants: dict[int, Path] = {}
        #: by the path, and the dimension of a tensor there
        self.symbols: dict[tuple[Path, int | None], Expr] = {}

    def local(self, name: str) -> Path:
        found = self._locals.get(name)
        if found is None:
            found = self._locals[name] = local(name)
        return found

    def known_constant(self, value: object) -> Path | None:
        return self._constants.get(id(value))

    def constant(self, value: object, text: str) -> Path:
        # The path holds the object, so that its identity is not used again.
        found = self._constants[id(value)] = constant(value, text)
        return found

    def next_name(self) -> str:
        return f"s{len(set(self.symbols.values()))}"
