"""Why an entry does not serve a call: its guards one by one, as an interpreter would check them.

first_failure(plan, {"x": x})       tensor 'x' size mismatch at index 0. expected 10, actual 20
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from anyshape.errors import AnyshapeError
from anyshape.guards.dynamic_int import DynamicInt, plain_int
from anyshape.guards.guard import EntryPlan, Guard, Kind, SymbolSource
from anyshape.guards.kinds import Call, complaint
from anyshape.guards.path import Path
from anyshape.guards.text import shown
from anyshape.symbolic import Expr, evaluate


class Failure(NamedTuple):
    """The first thing that does not hold. `guard` is None where a symbol has no value here."""

    guard: Guard | None
    sentence: str


def first_failure(
    plan: EntryPlan, arguments: Mapping[str, object], probe: Callable[[], object] | None = None
) -> Failure | None:
    """The first guard of the entry that fails for these arguments (as `miss` gets them), or None if
    the entry serves the call."""
    return next(_failures(Call(plan.symbols, arguments, probe), plan), None)


def _failures(call: Call, plan: EntryPlan) -> Iterator[Failure]:
    """What does not hold, as far as the call could be looked at: facts about sizes come last."""
    on_sizes = [guard for guard in plan.guards if guard.kind is Kind.SIZES]
    for guard in plan.guards:
        if guard.kind is not Kind.SIZES and (sentence := complaint(call, guard)) is not None:
            yield Failure(guard, sentence)
    for source in plan.symbols:
        if (sentence := _bind(call, source)) is not None:
            yield Failure(None, sentence)
    for guard in on_sizes:
        if (sentence := complaint(call, guard)) is not None:
            yield Failure(guard, sentence)
    for wanted in plan.inputs:
        if (sentence := _missing(call, wanted)) is not None:
            yield Failure(None, sentence)


def _bind(call: Call, source: SymbolSource) -> str | None:
    """Give the symbol its value, or say why it has none."""
    text, symbol = source.text, source.symbol
    try:
        found = call.at(source.path)
        value = found if source.dim is None else cast("Any", found).shape[source.dim]
    except Exception as error:
        return f"{text} cannot be read: {type(error).__name__}: {error}"
    if type(value) is DynamicInt:
        value = plain_int(value)
    if type(value) is not int:
        return f"{text} is an int, actual {shown(value)} of type {type(value).__name__}"
    if not symbol.declared.contains(value):
        return f"{text} in {symbol.declared}, actual {value}"
    if call.values.setdefault(symbol, value) != value:
        return f"{text} == {call.names(symbol)}, actual {value} and {call.values[symbol]}"
    return None


def _missing(call: Call, wanted: Path | Expr | int) -> str | None:
    """Why an input of the entry is not there, if it is not."""
    try:
        if isinstance(wanted, Path):
            call.at(wanted)
        else:
            evaluate(wanted, call.values)
    except AnyshapeError as error:
        return f"{wanted} has no value: {error}"
    except Exception as error:
        return f"{wanted} cannot be read: {type(error).__name__}: {error}"
    return None
