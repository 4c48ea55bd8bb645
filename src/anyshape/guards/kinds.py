"""What each kind of guard means, a row for each: how it prints, when it holds, what is said when it
does not, the code that checks it, what a stamp has to watch in its place, and what it implies.

`holds` is the meaning. Generated code has to give the same verdict, and shares nothing with it but
the comparison of values (`values.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from anyshape.guards import guard_codegen as code
from anyshape.guards.fast_path.stamp_scope import StampScope, is_immutable
from anyshape.guards.fast_path.watching import Watching
from anyshape.guards.float_answer import FloatAnswer
from anyshape.guards.guard import Guard, Kind, SymbolSource
from anyshape.guards.path import Path, find
from anyshape.guards.path_codegen import Walk
from anyshape.guards.tensor_guard import emit_tensor, is_like, mismatch, tensor_text
from anyshape.guards.text import Names, fact_text, names_of, object_name, shown
from anyshape.guards.values import (
    contains,
    keys_match,
    keys_of,
    lacks_instance_attribute,
    length_of,
    members_match,
    strict_key,
    strictly_equal,
)
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Symbol, holds


class Call:
    """A call as one entry sees it."""

    def __init__(
        self,
        symbols: Sequence[SymbolSource],
        arguments: Mapping[str, object],
        probe: Callable[[], object] | None,
    ) -> None:
        self.probe: Final = probe
        self.names: Final = names_of(symbols)
        self.values: Final[dict[Symbol, int]] = {}
        self._arguments: Final = arguments
        self._found: Final[dict[Path, object]] = {}

    def at(self, path: Path | None) -> object:
        """The object at the path; raises whatever the way to it raises."""
        assert path is not None, "a guard on an object looks at a path"
        return find(path, self._arguments, self._found)


_Implied = Iterable[tuple[Kind, object]]


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind. Functions of an object and a value are given what is at the guard's path, and the
    guard's value."""

    text: Callable[[Guard, Names], str]
    #: write the lines that check it
    emit: Callable[[Walk, Guard], None]
    #: what there is instead, or None if it holds: of a guard that looks at more than one object
    contradicted_by: Callable[[Call, Guard], str | None] | None = None
    #: whether it holds of the object; None where `contradicted_by` says it
    holds: Callable[[Any, Any], bool] | None = None
    #: what is wrong where it does not hold, given the text of the guard
    complain: Callable[[Guard, Any, str], str] = lambda guard, found, text: text
    #: whether a stamp can stand for one at the path
    is_stamped: Callable[[StampScope, Path, Any], bool] | None = None
    #: note what would have to change for it to fail, if the same object can fail it
    watch: Callable[[Watching, object, Any], object] = lambda walk, thing, value: None
    #: a key of values, equal exactly where two guards at one path say the same
    key: Callable[[Any], object] = lambda value: (object, id(value))
    #: what holds at the same path as well: other kinds, and their values
    implies: Callable[[Any], _Implied] | None = None


def _at(guard: Guard) -> str:
    return guard.path.text if guard.path is not None else ""


def _actual(show: Callable[[Any], str]) -> Callable[[Guard, Any, str], str]:
    """The sentence that ends with what was found."""
    return lambda guard, found, text: f"{text}, actual {show(found)}"


# -- parts of rows that are no expressions -------------------------------------------------------


def _members_text(guard: Guard, names: Names) -> str:
    members = sorted(map(repr, guard.value))
    return f"{_at(guard)} == {{{', '.join(members)}}}" if members else f"{_at(guard)} == set()"


def _predicate_text(guard: Guard, names: Names) -> str:
    if type(guard.value) is FloatAnswer:
        return guard.value.text(_at(guard))
    return f"{object_name(guard.value)}({_at(guard)})"


def _contains_text(guard: Guard, names: Names) -> str:
    key, present = guard.value
    return f"{key!r} {'in' if present else 'not in'} {_at(guard)}"


def _other_value(guard: Guard, found: object, text: str) -> str:
    same = type(found) is type(guard.value)
    return f"{text}, actual {shown(found)}" + ("" if same else f" of type {type(found).__name__}")


def _has_no_attribute(thing: object, name: str) -> bool:
    try:
        getattr(thing, name)
    except AttributeError:
        return True
    return False


def _other_sizes(call: Call, guard: Guard) -> str | None:
    if holds(guard.value, call.values):
        return None
    names = {symbol: call.names(symbol) for symbol in guard.value.symbols}
    if len(names) == 1:
        return str(call.values[next(iter(names))])
    ordered = sorted(names, key=lambda symbol: names[symbol])
    return ", ".join(f"{names[s]} = {call.values[s]}" for s in ordered)


def _same_objects(call: Call, guard: Guard) -> str | None:
    paths: dict[int, Path] = {}
    for path in guard.value:
        other = paths.setdefault(id(call.at(path)), path)
        if other is not path:
            return f"{other.text} is {path.text}"
    return None


def _other_state(call: Call, guard: Guard) -> str | None:
    found = call.probe() if call.probe is not None else None
    return None if found == guard.value else repr(found)


def _not_predicated(call: Call, guard: Guard) -> str | None:
    found = guard.value() if guard.path is None else guard.value(call.at(guard.path))
    return None if found else "it does not hold"


def _by_equals(value: Any) -> _Implied:
    yield Kind.TYPE, type(value)
    if type(value) in (tuple, str, bytes, frozenset):
        yield from _by_members(value)


def _by_members(value: Any) -> _Implied:
    return (Kind.LENGTH, len(value)), (Kind.TRUTH, len(value) != 0)


#: Classes of objects whose type never changes: `is` one of these tells the type.
_FIXED_TYPES: Final = frozenset((type, FunctionType, BuiltinFunctionType, type(None), bool))


def _by_identity(value: object) -> _Implied:
    return ((Kind.TYPE, type(value)),) if type(value) in _FIXED_TYPES else ()


# -- the table ----------------------------------------------------------------------------------

KINDS: Final[Mapping[Kind, KindRow]] = {
    Kind.TYPE: KindRow(
        text=lambda guard, _: f"type({_at(guard)}) is {guard.value.__name__}",
        emit=code.emit_type,
        holds=lambda thing, kind: type(thing) is kind,
        complain=_actual(lambda found: type(found).__name__),
        is_stamped=lambda scope, path, value: True,
        watch=lambda walk, thing, _: walk.note_type(thing),
        key=strict_key,
    ),
    Kind.EQUALS: KindRow(
        text=lambda guard, _: f"{_at(guard)} == {guard.value!r}",
        emit=code.emit_equals,
        holds=strictly_equal,
        complain=_other_value,
        is_stamped=lambda scope, path, value: is_immutable(value),
        key=strict_key,
        implies=_by_equals,
    ),
    Kind.IDENTITY: KindRow(
        text=lambda guard, _: f"{_at(guard)} is {object_name(guard.value)}",
        emit=code.emit_identity,
        holds=lambda thing, value: thing is value,
        complain=_actual(shown),
        is_stamped=lambda scope, path, value: True,
        implies=_by_identity,
    ),
    Kind.LENGTH: KindRow(
        text=lambda guard, _: f"len({_at(guard)}) == {guard.value}",
        emit=code.emit_length,
        holds=lambda thing, length: length_of(thing) == length,
        complain=_actual(lambda found: str(length_of(found))),
        is_stamped=lambda scope, path, _: scope.has_size(path),
        watch=lambda walk, thing, _: walk.note_size(thing),
        key=strict_key,
        implies=lambda length: ((Kind.TRUTH, length != 0),),
    ),
    Kind.KEYS: KindRow(
        text=lambda guard, _: f"list({_at(guard)}) == {list(guard.value)!r}",
        emit=code.emit_keys,
        holds=keys_match,
        complain=_actual(lambda found: f"[{', '.join(map(shown, keys_of(found)))}]"),
        is_stamped=lambda scope, path, _: scope.has_keys(path),
        watch=lambda walk, thing, _: walk.note_size(thing),
        key=strict_key,
        implies=lambda keys: (*_by_members(keys), *((Kind.CONTAINS, (key, True)) for key in keys)),
    ),
    Kind.MEMBERS: KindRow(
        text=_members_text,
        emit=code.emit_members,
        holds=members_match,
        complain=_actual(lambda found: f"{length_of(found)} members"),
        key=strict_key,
        implies=_by_members,
    ),
    Kind.CONTAINS: KindRow(
        text=_contains_text,
        emit=code.emit_contains,
        holds=lambda thing, wanted: contains(thing, wanted[0]) is wanted[1],
        complain=lambda guard, _, text: f"{text}, actual {'not ' if guard.value[1] else ''}there",
        is_stamped=lambda scope, path, _: scope.has_names(path),
        watch=lambda walk, thing, wanted: walk.note_entry(thing, wanted[0]),
        key=strict_key,
    ),
    Kind.NO_INSTANCE_ATTRIBUTE: KindRow(
        text=lambda guard, _: f"{guard.value!r} not in {_at(guard)}.__dict__",
        emit=code.emit_no_instance_attribute,
        holds=lacks_instance_attribute,
        complain=_actual(lambda _: "it is there"),
        is_stamped=lambda scope, path, _: scope.has_dictionary(path),
        watch=lambda walk, thing, name: walk.note_entry(walk.dictionary(thing), name),
        key=strict_key,
    ),
    Kind.NO_ATTRIBUTE: KindRow(
        text=lambda guard, _: f"not hasattr({_at(guard)}, {guard.value!r})",
        emit=code.emit_no_attribute,
        holds=_has_no_attribute,
        complain=lambda guard, _, text: f"{text}, actual: it has",
        key=strict_key,
    ),
    Kind.TRUTH: KindRow(
        text=lambda guard, _: f"bool({_at(guard)}) is {guard.value}",
        emit=code.emit_truth,
        holds=lambda thing, truth: (length_of(thing) != 0) is bool(truth),
        complain=_actual(lambda found: str(length_of(found) != 0)),
        is_stamped=lambda scope, path, _: scope.has_size(path),
        watch=lambda walk, thing, _: walk.note_size(thing),
        key=strict_key,
    ),
    Kind.TENSOR: KindRow(
        text=lambda guard, _: tensor_text(guard),
        emit=emit_tensor,
        holds=is_like,
        complain=lambda guard, found, _: mismatch(guard, found),
        is_stamped=lambda scope, _, spec: spec.type in scope.watched,
        watch=lambda walk, thing, _: walk.note_tensor(thing),
        key=lambda spec: spec,
        implies=lambda spec: ((Kind.TYPE, spec.type),),
    ),
    Kind.SIZES: KindRow(
        text=lambda guard, names: fact_text(guard.value, names),
        emit=code.emit_sizes,
        contradicted_by=_other_sizes,
    ),
    Kind.SAME_OBJECT: KindRow(
        text=lambda guard, _: f"{_at(guard)} is {guard.value.text}",
        emit=code.emit_same_object,
        contradicted_by=lambda call, guard: (
            None if call.at(guard.path) is call.at(guard.value) else "two objects"
        ),
    ),
    Kind.DISTINCT: KindRow(
        text=lambda guard, _: f"all different objects: {', '.join(p.text for p in guard.value)}",
        emit=code.emit_distinct,
        contradicted_by=_same_objects,
        key=lambda paths: paths,
    ),
    Kind.STATE: KindRow(
        text=lambda guard, _: f"global state == {guard.value!r}",
        emit=code.emit_state,
        contradicted_by=_other_state,
        key=strict_key,
    ),
    Kind.PREDICATE: KindRow(
        text=_predicate_text,
        emit=code.emit_predicate,
        contradicted_by=_not_predicated,
    ),
}

#: Whether a guard of the kind holds of an object: those kinds that look at one.
HOLDS: Final[Mapping[Kind, Callable[[Any, Any], bool]]] = {
    kind: row.holds for kind, row in KINDS.items() if row.holds is not None
}


def guard_text(guard: Guard, names: Names) -> str:
    """How the guard prints; a text of its own comes first."""
    return guard.text or KINDS[guard.kind].text(guard, names)


def with_text(guard: Guard, write: Callable[[Guard], str]) -> Guard:
    """The guard with a text, if it has none: one that is written when it is asked for."""
    if guard.text:
        return guard
    return Guard(guard.kind, guard.path, guard.value, guard.reason, guard.user_frame, write)


def writer(names: Names) -> Callable[[Guard], str]:
    return lambda guard: KINDS[guard.kind].text(guard, names)


def complaint(call: Call, guard: Guard) -> str | None:
    """What is wrong with a call, or None if the guard holds."""
    row, text = KINDS[guard.kind], guard_text(guard, call.names)
    try:
        if row.contradicted_by is not None:
            actual = row.contradicted_by(call, guard)
            return None if actual is None else f"{text}, actual {actual}"
        assert row.holds is not None, f"{guard.kind.name} says when it holds"
        found = call.at(guard.path)
        return None if row.holds(found, guard.value) else row.complain(guard, found, text)
    except Exception as error:
        return f"{text}, but {type(error).__name__}: {error}"
