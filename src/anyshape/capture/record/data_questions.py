"""A question about data as the user can understand it: in the program's names, with what to add."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from linecache import getline
from types import FrameType
from typing import Final

from anyshape.capture.numbers.concolic import TracedInt
from anyshape.capture.record.segments import Decision
from anyshape.guards.guard import Frame
from anyshape.guards.text import fact_text
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Size, Symbol, not_, to_text
from anyshape.symbolic.expr import single_atom


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a number that depends on data was made, and how the program can say it."""

    #: in the program's words (`n`, `kept.shape[0]`), if it has a name for it
    name: str
    frame: Frame | None

    def __str__(self) -> str:
        line = "" if self.frame is None else getline(self.frame.filename, self.frame.line).strip()
        return f"`{line}` at {self.frame}" if line else str(self.frame)


@dataclass(frozen=True, slots=True)
class Question:
    """What the program asks and nothing known answers."""

    text: str
    #: where the numbers in it come from: one line each
    numbers: tuple[str, ...]
    #: why a graph ends there, in a sentence
    reason: str
    #: statements that answer it, ready to paste above the line that asks
    suggestions: tuple[str, ...]


_ASSIGNMENT: Final = re.compile(r"^([A-Za-z_][\w.]*)\s*(?::[^=]+)?=(?!=)\s*(.+)$")
_NUMBER: Final = re.compile(r"\.(item|tolist)\(\)$|^int\(.*\)$")


def origin_of(frame: Frame | None, dim: int | None) -> Origin:
    """`dim`: of a size that an operation made, which dimension of the result it is."""
    if frame is None:
        return Origin("", None)
    line = getline(frame.filename, frame.line).split("  #")[0].strip()
    found = _ASSIGNMENT.match(line)
    if found is None:
        return Origin("", frame)
    name, value = found.groups()
    if dim is not None:
        return Origin(f"{name}.shape[{dim}]", frame)
    return Origin(name if _NUMBER.search(value) else "", frame)


def names_in(
    frame: FrameType | None, shape_of: Callable[[object], tuple[Size, ...]]
) -> dict[Symbol, str]:
    """What the variables of a function call the symbols: `n`, `kept.shape[0]`."""
    names: dict[Symbol, str] = {}
    if frame is None:
        return names
    for name, value in frame.f_locals.items():
        if name.startswith("_") or not name.isidentifier():
            continue
        if type(value) is TracedInt:
            _name(names, value.expr, name)
        else:
            for dim, size in enumerate(shape_of(value)):
                _name(names, size, f"{name}.shape[{dim}]")
    return names


def _name(names: dict[Symbol, str], size: Size, text: str) -> None:
    atom = single_atom(size)
    if isinstance(atom, Symbol):
        names.setdefault(atom, text)


def question_of(
    decision: Decision, origins: Mapping[Symbol, Origin], here: Mapping[Symbol, str]
) -> Question:
    """`here` has the names that the function which asks has for symbols."""
    if decision.fact is None and decision.size is None:
        return Question(decision.reason, (), decision.reason, ())
    asked = decision.fact if decision.fact is not None else decision.size
    assert asked is not None
    symbols = sorted((s for s in asked.symbols if not s.backed), key=lambda s: s.name)

    def name(symbol: Symbol) -> str:
        origin = origins.get(symbol)
        return here.get(symbol) or (origin.name if origin is not None else "") or symbol.name

    numbers = [
        f"{name(symbol)} is made by {origins[symbol]}" for symbol in symbols if symbol in origins
    ]
    if decision.fact is not None:
        text = fact_text(decision.fact, name)
        holding = decision.fact if decision.outcome else not_(decision.fact)
        check = fact_text(holding, name)
    else:
        text = f"the value of {to_text(asked, name)}"
        check = f"{to_text(asked, name)} == {decision.outcome}"
    if any(name(symbol) == symbol.name for symbol in asked.symbols):
        unnamed = "give the number a name in the function that asks, and check it there"
        numbers.append(f"{unnamed}: torch._check({check})")
        return Question(text, tuple(numbers), f"`{text}` depends on data", ())
    made = f" ({'; '.join(numbers)})" if numbers else ""
    reason = f"`{text}` depends on data{made}"
    return Question(text, tuple(numbers), reason, (f"torch._check({check})",))
