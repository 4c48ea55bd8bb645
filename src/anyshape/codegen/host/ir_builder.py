"""Lines of a function of LLVM IR, with names for its values."""

from __future__ import annotations

from collections.abc import Sequence


class FunctionBody:
    """The body of one function. What is put `first` comes before all else: memory on the stack."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._rest: list[str] = []
        self._count = 0

    def new(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}.{self._count}"

    def let(self, text: str, hint: str = "v") -> str:
        """A value by the name that is returned."""
        name = self.new(hint)
        self._rest.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self._rest.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a block: `name` is that of the value, `%done.3`."""
        self._rest.append(f"{name[1:]}:")

    def stack(self, type_: str, align: int = 8, hint: str = "m") -> str:
        name = self.new(hint)
        self._first.append(f"  {name} = alloca {type_}, align {align}")
        return name

    def at_start(self, text: str) -> None:
        self._first.append(f"  {text}")

    def let_at_start(self, text: str, hint: str = "v") -> str:
        """A value that all of the function knows."""
        name = self.new(hint)
        self._first.append(f"  {name} = {text}")
        return name

    def element_at_start(self, array: str, position: str, type_: str = "i64") -> str:
        """The address of an element, known from the start."""
        return self.let_at_start(f"getelementptr {type_}, ptr {array}, i64 {position}", "p")

    def element(self, array: str, position: int, type_: str = "i64") -> str:
        """The address of an element."""
        if position == 0:
            return array
        return self.let(f"getelementptr {type_}, ptr {array}, i64 {position}", "p")

    def fill(self, array: str, values: Sequence[str], type_: str) -> None:
        for position, value in enumerate(values):
            self.do(f"store {type_} {value}, ptr {self.element(array, position, type_)}")

    def text(self) -> str:
        return "\n".join([*self._first, *self._rest])
