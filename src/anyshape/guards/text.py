"""Facts about sizes and objects as people read them, in the words of torch's own logs.

L['x'].size()[0] < 10
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Final, cast

from anyshape.guards.guard import SymbolSource
from anyshape.guards.values import PRIMITIVES
from anyshape.support.plain_attributes import plain_attribute
from anyshape.symbolic import Expr, Fact, Symbol, to_text
from anyshape.symbolic.expr import polynomial
from anyshape.symbolic.logic import And, Nonnegative, Nonzero, Or, Zero

Names = Callable[[Symbol], str]

#: What the parts of torch's state stand for, in order.
STATE_PARTS: Final = (
    "grad mode",
    "torch function modes",
    "torch dispatch modes",
    "default dtype",
    "autocast",
    "inference mode",
    "deterministic algorithms",
    "no functorch transform",
    "torch functions enabled",
    "no saved-tensor hooks",
    "not in torch.jit.trace",
    "forward-mode differentiation",
    "replaced functions of torch",
)


def changed_state(before: object, now: object) -> str:
    """What differs between two states: "grad mode was on, and is off now"."""
    if not isinstance(before, tuple) or not isinstance(now, tuple):
        return ""
    was, found = cast("tuple[object, ...]", before), cast("tuple[object, ...]", now)
    return "; ".join(
        f"{name} was {_of_state(old)}, and is {_of_state(new)} now"
        for name, old, new in zip(STATE_PARTS, was, found, strict=False)
        if old != new
    )


def _of_state(value: object) -> str:
    if isinstance(value, bool | None):
        return "on" if value else "off"
    if isinstance(value, tuple):  # autocast, by device, or default devices
        rows = cast("tuple[object, ...]", value)
        on = [f"{row[0]} ({row[2]})" for row in rows if isinstance(row, tuple) and row[1]]
        return f"on for {', '.join(on)}" if on else str(rows)
    return str(value)


def names_of(symbols: Iterable[SymbolSource]) -> Names:
    """What to write for a symbol: where its value comes from, the first place if there are more."""
    texts: dict[Symbol, str] = {}
    for source in symbols:
        texts.setdefault(source.symbol, source.text)
    return lambda symbol: texts.get(symbol, symbol.name)


def fact_text(fact: Fact, names: Names) -> str:
    """The fact in terms of its sources: `L['x'].size()[0] < 10`."""
    match fact:
        case And() | Or():
            word = " and " if isinstance(fact, And) else " or "
            return word.join(_part(part, names) for part in fact.parts)
        case Nonnegative():
            return _strict(fact.size, names) or to_text(fact, names)
        case _:
            return to_text(fact, names)


def in_logs(fact: Fact) -> str:
    """The fact in symbols, as logs have it: `Eq(s0, 5)`, `s0 < 10`."""
    match fact:
        case And() | Or():
            word = " & " if isinstance(fact, And) else " | "
            return word.join(f"({in_logs(part)})" for part in fact.parts)
        case Zero() | Nonzero():
            word, sign = ("Eq", " == ") if isinstance(fact, Zero) else ("Ne", " != ")
            left, _, right = to_text(fact).partition(sign)
            return f"{word}({left}, {right})"
        case _:
            return fact_text(fact, lambda symbol: symbol.name)


def _part(fact: Fact, names: Names) -> str:
    text = fact_text(fact, names)
    return f"({text})" if isinstance(fact, And | Or) else text


def _strict(size: Expr, names: Names) -> str | None:
    """`size >= 0` as `a < b`, where that is how a program would say it: an upper bound by a number,
    or one size below another."""
    terms = dict(size.terms)
    constant = terms.pop((), 0)
    below = polynomial({m: -c for m, c in terms.items() if c < 0})
    above = polynomial({m: c for m, c in terms.items() if c > 0})
    if above == 0:
        return f"{to_text(below, names)} < {constant + 1}"
    if below != 0 and constant == -1:
        return f"{to_text(below, names)} < {to_text(above, names)}"
    return None


def declared_ranges(symbols: Iterable[SymbolSource]) -> Iterator[tuple[str, str]]:
    """The bounds that symbols have from the start, and that places share one: checked with them. A
    source, and `L['x'].size()[0] >= 2`. That a size is not negative goes without saying."""
    homes: dict[Symbol, SymbolSource] = {}
    for source in symbols:
        home = homes.setdefault(source.symbol, source)
        if home is not source:
            yield source.text, f"{source.text} == {home.text}"
            continue
        low, high = source.symbol.declared
        if low is not None and (low > 0 or source.dim is None):
            yield source.text, f"{source.text} >= {low}"
        if high is not None:
            yield source.text, f"{source.text} <= {high}"


def object_name(value: object) -> str:
    """A class or a function by its name, anything else by its type: its `repr` is user code."""
    if value is None or value is True or value is False or value is ...:
        return str(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if issubclass(type(value), _NAMED):
        name = plain_attribute(value, "__qualname__") or plain_attribute(value, "__name__")
        return f"{name}"
    return f"<{type(value).__name__} object>"


_NAMED: Final = (type, FunctionType, BuiltinFunctionType, ModuleType)


def shown(value: object) -> str:
    """A primitive as it is, anything else by its type: its `repr` is user code."""
    kind = type(value)
    parts = cast("tuple[object, ...]", value) if kind is tuple else (value,)
    return repr(value) if all(type(part) in PRIMITIVES for part in parts) else object_name(value)
