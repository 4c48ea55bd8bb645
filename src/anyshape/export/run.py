"""`export`: the order of its steps.

spec        what is to be dynamic, in the terms of the arguments
attempt     one capture for all of it
suggest     where the program disagrees: what it would agree to
graph       a graph that stands alone
inputs      what its inputs must be
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, cast

from anyshape.errors import (
    AnyshapeError,
    ConstraintViolation,
    DataDependentError,
    GraphBreakError,
    NotCallable,
)
from anyshape.events.kinds import ProgramExported
from anyshape.events.stream import stream
from anyshape.export.attempt import Attempt, Subject
from anyshape.export.exported import Exported
from anyshape.export.graph import GraphBuilder, Weights
from anyshape.export.inputs import (
    Condition,
    FromGuards,
    Inputs,
    SizeSource,
    starred_in,
    way_of,
)
from anyshape.export.program import Program
from anyshape.export.show import say_shapes
from anyshape.export.spec import Spec, all_auto, inferred, spec_of, static, unlike
from anyshape.export.suggest import Free, corrected, promoted, relaxed, suggestion_of
from anyshape.guards.guard import Kind, SymbolSource
from anyshape.guards.minimise import minimise
from anyshape.guards.path import Access, Path
from anyshape.shapes import Marker
from anyshape.shapes.match import Leaf, Way
from anyshape.symbolic import Expr, Fact, Range, Symbol, substitute_fact, symbol, to_text
from anyshape.symbolic.expr import single_atom
from anyshape.symbolic.logic import Nonnegative, Truth


def export(
    function: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    example_inputs: Sequence[Any] | None = None,
    promote: bool = False,
) -> Exported:
    """One artifact for all the shapes that `dynamic_shapes` describes: it runs without the program.

    `example_inputs` are calls (tuples of arguments, dicts of named ones, or pairs of both) of which
    every size that differs is dynamic. `promote=True` makes sizes dynamic that the spec does not
    speak of, where a size that is `Dim.AUTO` would be static otherwise.
    """
    original = getattr(function, "__anyshape_original__", None)
    if original is not None:
        function = original()
    if not callable(function):
        raise NotCallable(value=function, caller="anyshape.export")
    calls = [_call(each) for each in example_inputs or ()]
    if not args and not kwargs and calls:
        args, kwargs = calls[0]
    subject = Subject(function, tuple(args), dict(kwargs or {}))
    spec = spec_of(dynamic_shapes, subject.arguments)
    if calls:
        others = [subject.called_with(*each) for each in calls]
        spec = inferred(spec, [subject.arguments, *others])
    return _Export(subject, spec, promote).run()


def _call(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    match example:
        case dict():
            return (), example
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), kwargs
        case tuple() | list():
            return tuple(example), {}
        case _:
            return (example,), {}


class _Export:
    def __init__(self, subject: Subject, spec: Spec, promote: bool) -> None:
        self._subject = subject
        self._spec = spec
        self._promote = promote
        self._leaves = subject.arguments.leaves()

    def run(self) -> Exported:
        attempt = self._attempt()
        attempt, spec, notes = self._without_demotion(attempt)
        suggested = suggestion_of(spec, self._subject.arguments)
        program, left_out = program_of(self._subject, attempt)
        made = Exported(program, suggested, [*notes, *left_out])
        if stream.listening(ProgramExported):
            stream.emit(
                ProgramExported(
                    made.name,
                    made.print_readable(print_output=False),
                    made.constraints,
                    made.notes,
                    compile_id="export",
                )
            )
        return made

    # -- where the program disagrees ---------------------------------------------------------------

    def _attempt(self) -> Attempt:
        try:
            attempt = self._subject.attempt(self._spec)
        except ConstraintViolation as error:
            raise self._with_suggestion(error, relaxed(self._spec)) from None
        except (GraphBreakError, DataDependentError) as error:
            attempt = self._with_less(error)
        if attempt.broken is None:
            return attempt
        free = self._free()
        if free is not None:
            better = corrected(self._spec, free, self._subject.arguments)
            if self._honours(better):
                raise self._with_suggestion(attempt.broken, better)
        raise self._with_suggestion(attempt.broken, relaxed(self._spec))

    def _with_less(self, error: AnyshapeError) -> Attempt:
        """The program cannot be captured with all of this dynamic. AUTO is no reason for an error:
        those sizes stay static without which it can."""
        auto = [
            (way, dim)
            for way, leaf in self._spec.leaves.items()
            for dim, item in enumerate(leaf.items)
            if item is Marker.AUTO
        ]
        found, spec = None, static(self._spec, auto)
        for kept in (None, *auto):
            tried = spec if kept is None else unlike(spec, kept, Marker.AUTO)
            try:
                found, spec = self._subject.attempt(tried), tried
            except AnyshapeError:
                if kept is None:
                    raise error from None
        assert found is not None, "the first of them could be captured"
        self._spec = spec
        return found

    def _with_suggestion(self, error: ConstraintViolation, spec: Spec) -> ConstraintViolation:
        return ConstraintViolation(
            function=error.function,
            violations=error.violations,
            suggested=suggestion_of(spec, self._subject.arguments),
        )

    def _honours(self, spec: Spec) -> bool:
        try:
            return self._subject.attempt(spec).broken is None
        except AnyshapeError:
            return False

    def _free(self) -> Free | None:
        """What the program does with every size free, if it can be captured so."""
        try:
            found = self._subject.attempt(all_auto(self._spec, self._leaves))
        except AnyshapeError:
            return None
        return Free(found, self._leaves)

    # -- sizes that could be dynamic ---------------------------------------------------------------

    def _without_demotion(self, attempt: Attempt) -> tuple[Attempt, Spec, list[str]]:
        """Sizes that are AUTO and came out static because of one that the spec does not name are
        promoted, or reported."""
        demoted = self._demoted(attempt)
        if not demoted:
            return attempt, self._spec, []
        free = self._free()
        better = self._spec if free is None else promoted(self._spec, free)
        if self._added(better) == []:
            return attempt, self._spec, []
        try:
            again = self._subject.attempt(better)
        except AnyshapeError:
            return attempt, self._spec, []
        still = self._demoted(again)
        gained = [each for each in demoted if each not in still]
        if again.broken is not None or not gained:
            return attempt, self._spec, []
        if self._promote:
            return again, better, []
        added = ", ".join(self._added(better))
        notes = [
            f"{name} is Dim.AUTO and came out static: it is tied to {added}, which the spec does"
            " not name; promote=True, or dynamic_shapes=ep.suggested, makes both dynamic"
            for name in gained
        ]
        for note in notes:
            warnings.warn(f"anyshape: {note}", stacklevel=4)
        return attempt, better, notes

    def _demoted(self, attempt: Attempt) -> list[str]:
        said = attempt.contract.said()
        facts = attempt.trace.facts
        return [
            _name_of(source)
            for source in attempt.trace.symbols
            if said.get(source.text) is Marker.AUTO
            and facts.value(attempt.symbol(source)) is not None
        ]

    def _added(self, better: Spec) -> list[str]:
        return [
            leaf.text(dim)
            for way, leaf in better.leaves.items()
            for dim, item in enumerate(leaf.items)
            if item is not self._spec.said(way, dim)
        ]


def _name_of(source: SymbolSource) -> str:
    return SizeSource("", way_of(source.path), source.dim).name


# -- the artifact ----------------------------------------------------------------------------------


def program_of(subject: Subject, attempt: Attempt) -> tuple[Program, list[str]]:
    """The artifact of a capture, and what it leaves out of what the program did."""
    trace = attempt.trace
    bound = {**dict(zip(subject.target.signature.parameters, subject.own, strict=False))}
    bound |= subject.arguments.bound
    builder = GraphBuilder(
        trace,
        subject.signature,
        subject.self_name,
        bound,
        Weights.of(subject.module),
        subject.name,
    )
    graph_module = builder.build()
    graph_module.train(subject.module.training if subject.module is not None else False)
    inputs, names = inputs_of(subject, attempt), symbol_names(attempt)
    say_shapes(graph_module.graph, names)
    examples = {
        name: trace.facts.hints[made] for made, name in names.items() if isinstance(name, str)
    }
    program = Program(subject.name, graph_module, subject.signature, inputs, examples)
    return program, builder.left_out


def inputs_of(subject: Subject, attempt: Attempt) -> Inputs:
    """What its inputs must be."""

    def is_given(path: Path) -> bool:
        return path.root.access is Access.LOCAL and path.root.key != subject.self_name

    trace = attempt.trace
    names = symbol_names(attempt)
    sources = [
        SizeSource(name, way_of(each.path), each.dim)
        for each in trace.symbols
        if is_given(each.path) and isinstance(name := names[each.symbol], str)
    ]
    sizes = {
        (each.path, each.dim): names[each.symbol] for each in trace.symbols if each.dim is not None
    }
    made = FromGuards(subject.name, is_given, sizes, frozenset(map(_steps, attempt.changed)))
    conditions = list(made.conditions(trace.guards))
    conditions += _unread(attempt.contract.call.leaves, conditions, trace.symbols, names)
    conditions += _fixed_integers(trace.symbols, names, is_given)
    conditions.sort(key=lambda each: len(each.way))
    ranges = {
        name: trace.facts.range(attempt.symbol(each))
        for each in trace.symbols
        if isinstance(name := names[each.symbol], str)
    }
    facts = [to_text(fact) for fact in _facts(attempt, names, ranges)]
    texts = list(dict.fromkeys(facts))
    return Inputs(conditions, sources, ranges, texts, starred_in(subject.signature))


def _facts(
    attempt: Attempt, names: Mapping[Symbol, str | int], ranges: Mapping[str, Range]
) -> Iterator[Fact]:
    """What the ranges do not say, in the names that people know."""
    put = {
        made: name if isinstance(name, int) else symbol(name, ranges[name])
        for made, name in names.items()
    }
    for guard in minimise(attempt.trace.guards, attempt.trace.symbols):
        if guard.kind is Kind.SIZES:
            fact = substitute_fact(cast("Fact", guard.value), put)
            if not isinstance(fact, Truth) and not _bounds_only(fact):
                yield fact


def _bounds_only(fact: Fact) -> bool:
    """Whether it is an end of a range, which the range of its symbol says too."""
    terms = dict(fact.size.terms) if isinstance(fact, Nonnegative) else {}
    terms.pop((), None)
    return len(terms) == 1 and len(next(iter(terms))) == 1 and abs(next(iter(terms.values()))) == 1


def _unread(
    leaves: Sequence[Leaf],
    conditions: Sequence[Condition],
    symbols: Sequence[SymbolSource],
    names: Mapping[Symbol, str | int],
) -> Iterator[Condition]:
    """Of tensors that the spec speaks of and the program does not look at."""
    read = {each.way for each in conditions if each.kind == "tensor"}
    named = {(way_of(each.path), each.dim): names[each.symbol] for each in symbols}
    for leaf in leaves:
        way = _steps(leaf.way)
        if leaf.is_tensor and way not in read:
            sizes = tuple(
                item if type(item) is int else named.get((way, dim))
                for dim, item in enumerate(leaf.items)
            )
            yield Condition(way, "tensor", {"sizes": sizes})


def _fixed_integers(
    symbols: Sequence[SymbolSource],
    names: Mapping[Symbol, str | int],
    is_given: Callable[[Path], bool],
) -> Iterator[Condition]:
    for each in symbols:
        value = names[each.symbol]
        if each.dim is None and isinstance(value, int) and is_given(each.path):
            yield Condition(way_of(each.path), "equals", value)


def _steps(way: Way) -> tuple[Any, ...]:
    return (
        way.parameter,
        *(("item" if each.kind.value == "item" else "attribute", each.key) for each in way.steps),
    )


def symbol_names(attempt: Attempt) -> dict[Symbol, str | int]:
    """What each symbol is called: by the user's name for it, or for one that is always equal; by a
    name that no dim has; or by the only value that it has."""
    facts = attempt.trace.facts
    meant: dict[str, Expr] = {}
    for made, meaning in attempt.contract.meanings.items():
        dim = single_atom(meaning)
        if isinstance(dim, Symbol):
            meant.setdefault(dim.name, facts.symbols[made.name])
    names: dict[Symbol, str | int] = {}
    for source in attempt.trace.symbols:
        made = attempt.symbol(source)
        if source.symbol in names:
            continue
        value = facts.value(made)
        if value is not None:
            names[source.symbol] = value
            continue
        name = next((name for name, known in meant.items() if facts.equal(known, made)), None)
        if name is None:
            name = next(each for each in map("s{}".format, count()) if each not in meant)
            meant[name] = made
        names[source.symbol] = name
    return names
