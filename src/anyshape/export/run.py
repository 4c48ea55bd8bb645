"""`export`: the order of its steps.

spec        what is to be dynamic, in the terms of the arguments
attempt     one capture for all of it
suggest     where the program disagrees: what it would agree to
graph       a graph that stands alone
inputs      what its inputs must be
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch.fx

from anyshape.arguments import spelled
from anyshape.capture.trace import Trace
from anyshape.errors import (
    AnyshapeError,
    BadOption,
    CannotExport,
    ConstraintViolation,
    DataDependentError,
    GraphBreakError,
    NotCallable,
)
from anyshape.events.kinds import ProgramExported
from anyshape.events.stream import stream
from anyshape.export.attempt import Attempt, Subject, copy_of, undisturbed
from anyshape.export.exported import Exported
from anyshape.export.functionalize import NotFunctional, make_functional
from anyshape.export.graph import GraphBuilder, Weights
from anyshape.export.inputs import SizeSource, way_of
from anyshape.export.layout_dependence import has_views_by_layout
from anyshape.export.program import Program
from anyshape.export.requirements import inputs_of, symbol_names
from anyshape.export.show import say_shapes
from anyshape.export.spec import Arguments, Spec, all_auto, inferred, spec_of, static, unlike
from anyshape.export.suggest import (
    Free,
    corrected,
    narrowed,
    promoted,
    relaxed,
    suggestion_of,
)
from anyshape.graph.inline_backward import computes_gradients, with_inline_backward
from anyshape.graph.plan import Unlowerable
from anyshape.guards.guard import SymbolSource
from anyshape.shapes import Marker
from anyshape.support.lazy_dataclass import replace
from anyshape.support.user_warning import warn_user


@spelled
def export(
    function: Callable[..., object],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    dynamic_shapes: object = None,
    example_inputs: Iterable[object] | None = None,
    promote: bool = False,
) -> Exported:
    """One artifact for all the shapes that `dynamic_shapes` describes: it runs without the program.

    `example_inputs` are calls (tuples of arguments, dicts of named ones, or pairs of both) of which
    every size that differs is dynamic. `promote=True` makes sizes dynamic that the spec does not
    speak of, where a size that is `Dim.AUTO` would be static otherwise.

    A program that calls `loss.backward()` or `torch.autograd.grad` is exported with its backward,
    one that calls a step of an optimizer with that. Gradients are in `.grad` (`ep.gradients`) or in
    the result, as the program has it; parameters and state are changed (`ep.changes`).

    >>> linear = torch.nn.Linear(4, 2)
    >>> ep = anyshape.export(linear, (torch.ones(3, 4),), dynamic_shapes={"input": "batch 4"})
    >>> ep(torch.ones(7, 4)).shape
    torch.Size([7, 2])
    >>> ep.symbols["batch"].source
    'input.shape[0]'
    """
    original = getattr(function, "__anyshape_original__", None)
    if original is not None:
        function = original()
    if not callable(function):
        raise NotCallable(value=function, caller="anyshape.export")
    if isinstance(function, type):
        raise CannotExport(
            function=function.__name__,
            reason="it is a class",
            hints=[f"export an object of it: {function.__name__}(...)"],
        )
    calls = calls_in(example_inputs)
    args, kwargs = call_of(args, kwargs)
    if not args and not kwargs and calls:
        args, kwargs = calls[0]
    subject = Subject(function, args, kwargs)
    spec = spec_of(dynamic_shapes, subject.arguments)
    others = [subject.called_with(*each) for each in calls]
    if others:
        spec = inferred(spec, [subject.arguments, *others])
    return _Export(subject, spec, promote, others).run()


class _Export:
    def __init__(
        self, subject: Subject, spec: Spec, promote: bool, others: Sequence[Arguments]
    ) -> None:
        self._subject = subject
        self._spec = spec
        self._promote = promote
        #: further calls of which the artifact is to be one
        self._others = others
        self._leaves = subject.arguments.leaves()

    def run(self) -> Exported:
        attempt = self._attempt()
        attempt, spec, notes = self._without_demotion(attempt)
        suggested = suggestion_of(spec, self._subject.arguments)
        program, left_out = program_of(self._subject, attempt)
        notes += [*left_out, *self._refused(program)]
        made = Exported(program, suggested, notes)
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

    def _refused(self, program: Program) -> Iterator[str]:
        """Examples that the artifact does not take: they differ in more than sizes, or the program
        tells their sizes apart."""
        for index, call in enumerate(self._others):
            problems = program.inputs.problems(dict(call.bound))
            if problems:
                note = f"example_inputs[{index}] will be refused: {'; '.join(problems)}"
                warn_user(note)
                yield note

    # -- where the program disagrees ---------------------------------------------------------------

    def _attempt(self) -> Attempt:
        try:
            attempt = self._subject.attempt(self._spec)
        except ConstraintViolation as error:
            raise self._corrected(error) from None
        except (GraphBreakError, DataDependentError) as error:
            attempt = self._with_less(error)
        if attempt.broken is None:
            return attempt
        raise self._corrected(attempt.broken)

    def _corrected(self, error: ConstraintViolation) -> ConstraintViolation:
        """With a spec that has the user's names, if there is one that the program honours."""
        for narrower in narrowed(self._spec, self._subject.arguments):
            if self._honours(narrower):
                return self._with_suggestion(error, narrower)
        free = self._free()
        if free is not None:
            better = corrected(self._spec, free, self._subject.arguments)
            if self._honours(better):
                return self._with_suggestion(error, better)
        return self._with_suggestion(error, relaxed(self._spec))

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
            warn_user(note)
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
    trace, backward = _with_backward(attempt.trace)
    bound = {**dict(zip(subject.target.signature.parameters, subject.own, strict=False))}
    bound |= subject.arguments.bound
    builder = GraphBuilder(
        trace,
        subject.signature,
        subject.self_name,
        bound,
        Weights.of(subject.module),
        subject.name,
        computes_gradients(attempt.trace.segments[0].graph.graph),
    )
    graph_module = builder.build()
    graph_module.train(subject.module.training if subject.module is not None else False)
    changes, by_layout, notes = _made_functional(graph_module, subject, attempt)
    inputs, names = inputs_of(subject, attempt, by_layout), symbol_names(attempt)
    say_shapes(graph_module.graph, names)
    examples = {
        name: trace.facts.hints[made] for made, name in names.items() if isinstance(name, str)
    }
    program = Program(
        subject.name, graph_module, subject.signature, inputs, examples, tuple(changes)
    )
    return program, [*builder.left_out, *backward, *notes]


def _with_backward(trace: Trace) -> tuple[Trace, list[str]]:
    """The trace with the operators of its backward, if it has one, and what there is to say if it
    has to be autograd's."""
    (segment,) = trace.segments
    if not computes_gradients(segment.graph.graph):
        return trace, []
    try:
        graph = with_inline_backward(segment.graph)
    except Unlowerable as error:
        reason = str(error).removeprefix("a result requires grad, and ")
        return trace, [f"torch's autograd computes the gradients in every call: {reason}"]
    return replace(trace, segments=[replace(segment, graph=graph)]), []


def _made_functional(
    graph_module: torch.fx.GraphModule, subject: Subject, attempt: Attempt
) -> tuple[list[str], bool, list[str]]:
    """What a call changes, whether that is so for inputs of this layout only, and what there is to
    say if the graph changes it itself."""

    def example() -> dict[str, object]:
        return {name: copy_of(value) for name, value in subject.arguments.bound.items()}

    try:
        with undisturbed(None):
            changes, by_layout = make_functional(graph_module, example, attempt.trace.facts)
    except NotFunctional as error:
        by_layout = has_views_by_layout(graph_module.graph)
        return [], by_layout, [f"the graph changes tensors in place: {error}"]
    graph_module.recompile()
    return changes, by_layout, []


# -- the calls that a user gives as examples, in the forms in which they can be written ------------


Call = tuple[tuple[Any, ...], dict[str, Any]]


def call_of(args: object, kwargs: object) -> Call:
    """`args=` and `kwargs=`, or an error that says what they are."""
    if not isinstance(args, tuple | list):
        raise _bad("args", args, "a tuple of arguments: (x,), if it is one")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise _bad("kwargs", kwargs, "a dict of named arguments, or None")
    names = dict(kwargs or {})
    for name in names:
        if not isinstance(name, str):
            raise _bad("kwargs", kwargs, f"names of arguments, and {name!r} is none")
    return tuple(args), names


def calls_in(examples: object) -> list[Call]:
    """`example_inputs=`: tuples of arguments, dicts of named ones, pairs of both, or single
    arguments."""
    if examples is None:
        return []
    if not isinstance(examples, Iterable) or isinstance(examples, Mapping | str):
        raise _bad("example_inputs", examples, "a list of calls: [(x,), (y,)]")
    return [_call(each) for each in examples]


def _call(example: object) -> Call:
    match example:
        case dict():
            return call_of((), example)
        case (tuple() | list() as args, dict() as kwargs):
            return call_of(args, kwargs)
        case tuple() | list():
            return tuple(example), {}
        case _:
            return (example,), {}


def _bad(option: str, value: object, accepted: str) -> BadOption:
    shown = repr(value)
    brief = shown if len(shown) < 60 else f"<a {type(value).__name__}>"
    return BadOption(option=option, value=_Text(brief), accepted=accepted)


class _Text(str):
    """Shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__
