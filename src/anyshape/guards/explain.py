"""Why an entry does not serve a call: its guards one by one, as an interpreter would check them.

first_failure(plan, {"x": x})       tensor 'x' size mismatch at index 0. expected 10, actual 20
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from anyshape.errors import AnyshapeError
from anyshape.guards.dynamic_int import DynamicInt, plain_int
from anyshape.guards.guard import EntryPlan, Guard, Kind, SymbolSource
from anyshape.guards.kinds import Call, complaint, guard_text
from anyshape.guards.path import Path
from anyshape.guards.tensor_guard import differences
from anyshape.guards.text import changed_state, shown
from anyshape.symbolic import Expr, evaluate


class Failure(NamedTuple):
    """The first thing that does not hold. `guard` is None where a symbol has no value here."""

    guard: Guard | None
    sentence: str
    #: what it is about: the kind of the guard, what of a tensor ("size", "dtype"), of a symbol
    kind: str = ""
    #: "L['x'].size()[0]"
    source: str = ""
    expected: str = ""
    actual: str = ""


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
        if guard.kind is not Kind.SIZES and (failure := _failure(call, guard)) is not None:
            yield failure
    for source in plan.symbols:
        if (failure := _bind(call, source)) is not None:
            yield failure
    for guard in on_sizes:
        if (failure := _failure(call, guard)) is not None:
            yield failure
    for wanted in plan.inputs:
        if (sentence := _missing(call, wanted)) is not None:
            yield Failure(None, sentence)


def _failure(call: Call, guard: Guard) -> Failure | None:
    sentence = complaint(call, guard)
    if sentence is None:
        return None
    source = "" if guard.path is None else guard.path.text
    if guard.kind is Kind.TENSOR:
        return _of_tensor(call, guard, sentence, source)
    text = guard_text(guard, call.names)
    actual = sentence[len(text) + 2 :].removeprefix("actual ")
    if guard.kind is Kind.STATE and call.probe is not None:
        sentence = changed_state(guard.value, call.probe()) or sentence
    return Failure(guard, sentence, guard.kind.value, source, _expected(guard, text), actual)


def _of_tensor(call: Call, guard: Guard, sentence: str, source: str) -> Failure:
    try:
        what, index, expected, actual = next(differences(guard.value, call.at(guard.path)))
    except Exception as error:  # there is no tensor
        return Failure(guard, sentence, "", source, "", f"{type(error).__name__}: {error}")
    source = f"{source}.size()[{index}]" if what == "size" else source
    return Failure(guard, sentence, what, source, str(expected), str(actual))


def _expected(guard: Guard, text: str) -> str:
    """What a guard asks for, without what it looks at where that is one object."""
    if guard.kind is Kind.TYPE:
        return text.rpartition(" is ")[2]
    return text.partition(" == ")[2] if guard.kind in (Kind.EQUALS, Kind.STATE) else text


def _bind(call: Call, source: SymbolSource) -> Failure | None:
    """Give the symbol its value, or say why it has none."""
    text, symbol = source.text, source.symbol
    try:
        found = call.at(source.path)
        value = found if source.dim is None else cast("Any", found).shape[source.dim]
    except Exception as error:
        return Failure(None, f"{text} cannot be read: {type(error).__name__}: {error}")
    if type(value) is DynamicInt:
        value = plain_int(value)
    if type(value) is not int:
        actual = f"{shown(value)} of type {type(value).__name__}"
        return Failure(None, f"{text} is an int, actual {actual}")
    if not symbol.declared.contains(value):
        allowed = str(symbol.declared)
        sentence = f"{symbol.declared.said_of(text)}, actual {value}"
        return Failure(None, sentence, "range", text, allowed, str(value))
    if call.values.setdefault(symbol, value) != value:
        same = f"{text} == {call.names(symbol)}"
        sentence = f"{same}, actual {value} and {call.values[symbol]}"
        return Failure(None, sentence, "one_symbol", text, same, str(value))
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
