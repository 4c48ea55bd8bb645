"""Why an entry does not serve a call: its guards one by one, as an interpreter would check them.

    first_failure(plan, {"x": x})       tensor 'x' size mismatch at index 0. expected 10, actual 20

This is what guards mean. The generated code has to give the same verdict, and shares nothing with
this file but the comparison of values (`values.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from anyshape.errors import AnyshapeError
from anyshape.guards.dispatch_entry import EntryPlan
from anyshape.guards.dynamic_int import DynamicInt, plain_int
from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.interpret import STEPS
from anyshape.guards.path import Path
from anyshape.guards.text import (
    Names,
    guard_text,
    names_of,
    object_name,
    order_text,
    tensor_name,
)
from anyshape.guards.values import (
    PRIMITIVES,
    contains,
    is_dense,
    keys_match,
    keys_of,
    lacks_instance_attribute,
    length_of,
    members_match,
    strictly_equal,
)
from anyshape.symbolic import Fact, Symbol, evaluate, holds


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
    state = _State(plan, arguments, probe)
    for guard in plan.guards:
        if guard.kind is not Kind.SIZES and (failure := state.complaint(guard)) is not None:
            return failure
    for source in plan.symbols:
        if (failure := state.bind(source)) is not None:
            return failure
    for guard in plan.guards:
        if guard.kind is Kind.SIZES and (failure := state.complaint(guard)) is not None:
            return failure
    return state.missing_input(plan)


class _State:
    """A call as one entry sees it."""

    def __init__(
        self,
        plan: EntryPlan,
        arguments: Mapping[str, object],
        probe: Callable[[], object] | None,
    ) -> None:
        self.arguments = arguments
        self.probe = probe
        self.sources: Sequence[SymbolSource] = plan.symbols
        self.names: Names = names_of(plan.symbols)
        self.values: dict[Symbol, int] = {}
        self.found: dict[Path, object] = {}

    def at(self, path: Path) -> object:
        """The object at the path; raises whatever the way to it raises."""
        if path not in self.found:
            parent = self.at(path.parent) if path.parent is not None else self.arguments
            self.found[path] = STEPS[path.access](parent, path.key)
        return self.found[path]

    def complaint(self, guard: Guard) -> Failure | None:
        """What is wrong, or None if the guard holds."""
        text = guard_text(guard, self.names)
        try:
            if guard.kind is Kind.TENSOR:
                return _judge_tensor(self, guard)
            sentence = _JUDGES[guard.kind](self, guard, text)
        except Exception as error:
            sentence = f"{text}, but {type(error).__name__}: {error}"
        if sentence is None:
            return None
        actual = sentence[len(text) + 2 :].removeprefix("actual ")
        kind = "" if guard.kind is Kind.TENSOR else guard.kind.value
        source = "" if guard.path is None else guard.path.text
        return Failure(guard, sentence, kind, source, _expected(guard, text), actual)

    def bind(self, source: SymbolSource) -> Failure | None:
        """Give the symbol its value, or say why it has none."""
        text, symbol = source.text, source.symbol
        try:
            found = self.at(source.path)
            value = found if source.dim is None else _shape_of(found)[source.dim]
        except Exception as error:
            return Failure(None, f"{text} cannot be read: {type(error).__name__}: {error}")
        if type(value) is DynamicInt:
            value = plain_int(value)
        if type(value) is not int:
            actual = f"{_shown(value)} of type {type(value).__name__}"
            return Failure(None, f"{text} is an int, actual {actual}")
        if not symbol.declared.contains(value):
            allowed = str(symbol.declared)
            sentence = f"{text} in {allowed}, actual {value}"
            return Failure(None, sentence, "range", text, allowed, str(value))
        if self.values.setdefault(symbol, value) != value:
            same = f"{text} == {self.names(symbol)}"
            sentence = f"{same}, actual {value} and {self.values[symbol]}"
            return Failure(None, sentence, "one_symbol", text, same, str(value))
        return None

    def missing_input(self, plan: EntryPlan) -> Failure | None:
        for wanted in plan.inputs:
            try:
                if isinstance(wanted, Path):
                    self.at(wanted)
                else:
                    evaluate(wanted, self.values)
            except AnyshapeError as error:
                return Failure(None, f"{wanted} has no value: {error}")
            except Exception as error:
                return Failure(None, f"{wanted} cannot be read: {type(error).__name__}: {error}")
        return None


def _shape_of(tensor: object) -> tuple[int, ...]:
    return cast("tuple[int, ...]", getattr(tensor, "shape"))  # noqa: B009


# -- judges: one for each kind ------------------------------------------------------------------


def _shown(value: object) -> str:
    """A primitive as it is, anything else by its type: its `repr` is user code."""
    kind = type(value)
    parts = cast("tuple[object, ...]", value) if kind is tuple else (value,)
    return repr(value) if all(type(part) in PRIMITIVES for part in parts) else object_name(value)


def _object(state: _State, guard: Guard) -> object:
    assert guard.path is not None, f"a guard of kind {guard.kind.name} looks at a path"
    return state.at(guard.path)


def _unless(holds: bool, text: str, actual: str) -> str | None:
    return None if holds else f"{text}, actual {actual}"


def _judge_type(state: _State, guard: Guard, text: str) -> str | None:
    kind = type(_object(state, guard))
    return _unless(guard.value is cast("object", kind), text, kind.__name__)


def _judge_equals(state: _State, guard: Guard, text: str) -> str | None:
    found = _object(state, guard)
    actual = _shown(found)
    if type(found) is not type(guard.value):
        actual = f"{actual} of type {type(found).__name__}"
    return _unless(strictly_equal(found, guard.value), text, actual)


def _judge_identity(state: _State, guard: Guard, text: str) -> str | None:
    found = _object(state, guard)
    return _unless(found is guard.value, text, _shown(found))


def _judge_length(state: _State, guard: Guard, text: str) -> str | None:
    length = length_of(_object(state, guard))
    return _unless(length == guard.value, text, str(length))


def _judge_keys(state: _State, guard: Guard, text: str) -> str | None:
    found = _object(state, guard)
    keys = ", ".join(map(_shown, keys_of(found)))
    return _unless(keys_match(found, cast("tuple[object, ...]", guard.value)), text, f"[{keys}]")


def _judge_members(state: _State, guard: Guard, text: str) -> str | None:
    found = _object(state, guard)
    equal = members_match(found, cast("frozenset[object]", guard.value))
    return _unless(equal, text, f"{length_of(found)} members")


def _judge_contains(state: _State, guard: Guard, text: str) -> str | None:
    key, present = cast("tuple[object, bool]", guard.value)
    there = contains(_object(state, guard), key)
    return _unless(there is present, text, "there" if there else "not there")


def _judge_no_instance_attribute(state: _State, guard: Guard, text: str) -> str | None:
    lacks = lacks_instance_attribute(_object(state, guard), cast("str", guard.value))
    return _unless(lacks, text, "it is there")


def _judge_no_attribute(state: _State, guard: Guard, text: str) -> str | None:
    found = _object(state, guard)
    try:
        getattr(found, cast("str", guard.value))
    except AttributeError:
        return None
    return f"{text}, actual: it has"


def _judge_truth(state: _State, guard: Guard, text: str) -> str | None:
    truth = length_of(_object(state, guard)) != 0
    return _unless(truth is bool(guard.value), text, str(truth))


def _judge_sizes(state: _State, guard: Guard, text: str) -> str | None:
    fact = cast("Fact", guard.value)
    if holds(fact, state.values):
        return None
    names = {symbol: state.names(symbol) for symbol in fact.symbols}
    if len(names) == 1:
        return f"{text}, actual {state.values[next(iter(names))]}"
    ordered = sorted(names, key=lambda symbol: names[symbol])
    return f"{text}, actual " + ", ".join(f"{names[s]} = {state.values[s]}" for s in ordered)


def _judge_same_object(state: _State, guard: Guard, text: str) -> str | None:
    same = _object(state, guard) is state.at(cast("Path", guard.value))
    return _unless(same, text, "two objects")


def _judge_distinct(state: _State, guard: Guard, text: str) -> str | None:
    paths: dict[int, Path] = {}
    for path in cast("tuple[Path, ...]", guard.value):
        other = paths.setdefault(id(state.at(path)), path)
        if other is not path:
            return f"{text}, actual {other.text} is {path.text}"
    return None


def _judge_state(state: _State, guard: Guard, text: str) -> str | None:
    found = state.probe() if state.probe is not None else None
    return _unless(found == guard.value, text, repr(found))


def _judge_predicate(state: _State, guard: Guard, text: str) -> str | None:
    predicate = cast("Callable[..., object]", guard.value)
    found = predicate() if guard.path is None else predicate(_object(state, guard))
    return _unless(bool(found), text, "it does not hold")


def _expected(guard: Guard, text: str) -> str:
    """What a guard asks for, without what it looks at where that is one object."""
    if guard.kind is Kind.TYPE:
        return text.rpartition(" is ")[2]
    return text.partition(" == ")[2] if guard.kind in (Kind.EQUALS, Kind.STATE) else text


def _judge_tensor(state: _State, guard: Guard) -> Failure | None:
    assert guard.path is not None, "a tensor guard looks at a path"
    spec, found = cast("TensorSpec", guard.value), _object(state, guard)
    wrong = next(_differences(spec, found), None)
    if wrong is None:
        return None
    what, index, expected, actual = wrong
    at = "" if index is None else f" at index {index}"
    text = f"{what} mismatch{at}. expected {expected}, actual {actual}"
    source = f"{guard.path.text}.size()[{index}]" if what == "size" else guard.path.text
    sentence = f"tensor {tensor_name(guard.path)} {text}"
    return Failure(guard, sentence, what, source, str(expected), str(actual))


def _differences(
    spec: TensorSpec, tensor: object
) -> Iterator[tuple[str, int | None, object, object]]:
    """What of a tensor differs, at which dimension: what it should be, and what it is."""
    if type(tensor) is not spec.type:
        yield "type", None, spec.type.__name__, type(tensor).__name__
        return
    for attribute in ("dtype", "device", "requires_grad", "layout"):
        expected, actual = getattr(spec, attribute), getattr(tensor, attribute)
        if (attribute != "layout" or expected is not None) and expected != actual:
            yield attribute, None, expected, actual
    sizes = _shape_of(tensor)
    if len(sizes) != len(spec.sizes):
        yield "rank", None, len(spec.sizes), len(sizes)
        return
    for index, (expected, actual) in enumerate(zip(spec.sizes, sizes, strict=True)):
        if expected is not None and expected != actual:
            yield "size", index, expected, actual
    if spec.strides is None and spec.order is None:
        return
    strides = cast("tuple[int, ...]", getattr(tensor, "stride")())  # noqa: B009
    if spec.strides is not None:
        for index, (expected, actual) in enumerate(zip(spec.strides, strides, strict=True)):
            if expected is not None and expected != actual:
                yield "stride", index, expected, actual
    if spec.order is not None and not is_dense(sizes, strides, spec.order):
        yield "layout", None, order_text(spec.order), f"stride {list(strides)}"


_JUDGES: Final[dict[Kind, Callable[[_State, Guard, str], str | None]]] = {
    Kind.TYPE: _judge_type,
    Kind.EQUALS: _judge_equals,
    Kind.IDENTITY: _judge_identity,
    Kind.LENGTH: _judge_length,
    Kind.KEYS: _judge_keys,
    Kind.MEMBERS: _judge_members,
    Kind.CONTAINS: _judge_contains,
    Kind.NO_INSTANCE_ATTRIBUTE: _judge_no_instance_attribute,
    Kind.NO_ATTRIBUTE: _judge_no_attribute,
    Kind.TRUTH: _judge_truth,
    Kind.SIZES: _judge_sizes,
    Kind.SAME_OBJECT: _judge_same_object,
    Kind.DISTINCT: _judge_distinct,
    Kind.STATE: _judge_state,
    Kind.PREDICATE: _judge_predicate,
}
