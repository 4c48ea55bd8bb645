"""Run a function for real and watch it: from a call to a `Trace`, or to the reason for none."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.overrides import TorchFunctionMode

from anyshape.capture.abort import AbortCapture, AbortReason
from anyshape.capture.builtins.backward import Grads
from anyshape.capture.contract import AssumedContract
from anyshape.capture.dynamism_policy import any_item
from anyshape.capture.externals.epilogue import Recipe
from anyshape.capture.externals.external_objects import Externals
from anyshape.capture.externals.side_effects import Change, Journal
from anyshape.capture.externals.state_aliases import state_guards
from anyshape.capture.externals.untrace import StrippingHooks, untraced
from anyshape.capture.hooks.hooks import Hooks
from anyshape.capture.hooks.pinned_functions import PinningHooks
from anyshape.capture.policy_protocol import DynamismPolicy
from anyshape.capture.record.recorder import Recorder
from anyshape.capture.record.segments import InputSource, RecordedSegment, SegmentOutput
from anyshape.capture.record.torch_state import read_state
from anyshape.capture.replay.layers import switch
from anyshape.capture.scouting import ScoutingHooks
from anyshape.capture.symbol_namespace import Roots
from anyshape.capture.trace import Store, Trace, TracedSegment
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import CODE
from anyshape.config import config
from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Path
from anyshape.ops.node_meta import EXPECTED, FACTS
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.support.random_state import State, default_generators
from anyshape.symbolic import Expr, Symbol, is_data_dependent
from anyshape.symbolic.expr import of_atom


@dataclass(frozen=True, slots=True)
class Captured:
    """The real answer, and what was learnt on the way."""

    result: Any
    outcome: Trace | AbortReason


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call by parameter: positional ones in order, the rest, the stars."""

    positional: Mapping[str, object]
    keyword: Mapping[str, object]
    star: tuple[str, tuple[object, ...]] | None = None
    star_star: tuple[str, Mapping[str, object]] | None = None


def capture(
    function: Callable[..., object],
    arguments: Arguments,
    chooser: DynamismPolicy,
    roots: Roots | None = None,
    whole: bool = False,
    contract: AssumedContract | None = None,
    left_and_raised: Callable[[AbortReason], None] = lambda left: None,
    before_write: Callable[[torch.Tensor], None] | None = None,
) -> Captured:
    """Call `function` and record it. Exceptions of the function pass through; where they come
    after the capture had to leave, `left_and_raised` is told why it had to.

    `before_write` is called with tensors from outside before they are changed; with it, gradients
    that the program computes are part of the graph, too. The program then does not go on where the
    capture has to leave: a step that nobody watches would train."""
    hooks: Hooks | None = None
    scout = ScoutingHooks()
    is_running = False

    def stop() -> None:
        # Watched code looks into this cell before every operation.
        if hooks is not None:
            plain = StrippingHooks() if whole else scout
            plain.watched = tracer.watched
            hooks.callables.cell.cell_contents = plain
            outside.strip()
            if hooks.grads is not None and tracer.left is not None:
                hooks.grads.leave()
                if is_running and not tracer.left.is_error:
                    raise _Stopped

    tracer = Tracer(chooser, stop, roots, whole)
    tracer.log = [] if switch.on else None
    recorder = Recorder(tracer)
    outside = Externals(tracer, Journal(tracer.cannot_replay))
    recorder.contents_of = outside.contents
    kind = PinningHooks if chooser.made_anew else Hooks
    hooks = kind(tracer, recorder, outside)
    if before_write is not None:
        hooks.grads = Grads(hooks)
        recorder.before_write = before_write
    state = read_state()
    random = default_generators.get_state()
    call = hooks.callables
    if contract is not None:
        contract.assume(tracer)
    try:
        args, kwargs = _read_arguments(tracer, arguments)
    except AbortCapture as left:
        tracer.leave_for(left)
        args, kwargs = _plain_arguments(arguments)
    _register_callee(tracer, function)
    try:
        try:
            is_running = True
            with _RecordingMode(recorder):
                result = call.call(function, args, kwargs)
            is_running = False
        except _Stopped:
            result, is_running = None, False
        except BaseException as error:
            left, is_running = tracer.left, False
            tracer.abort(f"the function raised {type(error).__name__}")
            untraced(error)
            tracer.shared.settle(untraced)
            if left is not None and not left.is_error:
                left_and_raised(replace(left, later=tuple(scout.found)))
            raise
        if tracer.active:
            try:
                if contract is not None:
                    contract.guard_unread(tracer)
                if hooks.grads is not None:
                    hooks.grads.finish()
                trace = _trace(tracer, recorder, outside, state, result, random)
            except AbortCapture as left:
                tracer.leave_for(left)
            except Exception as error:
                if config.on_compile_error == "raise":
                    raise
                tracer.abort(f"what was captured could not be put together: {error!r}")
            else:
                tracer.active = False
                stop()
                return Captured(untraced(result), trace)
        assert tracer.left is not None
        tracer.shared.settle(untraced)
        left = replace(tracer.left, later=tuple(scout.found))
        return Captured(tracer.shared.own(untraced(result)), left)
    finally:
        _forget(hooks)


def _forget(hooks: Hooks) -> None:
    """Let go of the program's objects. What watched a capture refers to itself in many ways, so
    that it lives until the next garbage collection, and tensors must not."""
    hooks.tracer.abort("the capture has ended")
    hooks.tracer.forget()
    hooks.recorder.forget()
    hooks.outside.forget()
    hooks.forget()


def _register_callee(tracer: Tracer, function: object) -> None:
    """What is called is outside too: an object, or a method's instance, with state of its own."""
    if isinstance(function, types.MethodType):
        _register_callee(tracer, function.__self__)
    elif not isinstance(function, CODE):
        tracer.register(function, tracer.constant(function, "L['self']"))


def _plain_arguments(arguments: Arguments) -> tuple[tuple[object, ...], dict[str, object]]:
    args = (*arguments.positional.values(), *(arguments.star[1] if arguments.star else ()))
    named = arguments.star_star[1] if arguments.star_star else {}
    return args, {**arguments.keyword, **named}


def _read_arguments(
    tracer: Tracer, arguments: Arguments
) -> tuple[tuple[object, ...], dict[str, object]]:
    args = [
        tracer.read(value, tracer.roots.local(name)) for name, value in arguments.positional.items()
    ]
    kwargs = {
        name: tracer.read(value, tracer.roots.local(name))
        for name, value in arguments.keyword.items()
    }
    if arguments.star is not None:
        name, values = arguments.star
        path = tracer.roots.local(name)
        tracer.guard(Kind.LENGTH, path, len(values))
        args += [tracer.read(value, path.item(index)) for index, value in enumerate(values)]
    if arguments.star_star is not None:
        name, named = arguments.star_star
        path = tracer.roots.local(name)
        tracer.guard(Kind.KEYS, path, tuple(named))
        kwargs |= {key: tracer.read(value, path.item(key)) for key, value in named.items()}
    return tuple(args), kwargs


def _trace(
    tracer: Tracer,
    recorder: Recorder,
    outside: Externals,
    state: tuple[object, ...],
    result: object,
    random: State,
) -> Trace:
    if tracer.shared.is_changed():
        raise AbortCapture("a container that a cached function holds is changed")
    recipe = Recipe(tracer, recorder)
    for effect in outside.journal.effects:
        recipe.effect(effect)
    returned = recipe.value(result)
    recorder.end_last(recipe.output)
    recorder.segment.outputs = recipe.outputs
    guards = [
        *tracer.guards.values(),
        *_facts(tracer),
        *state_guards(tracer, outside.journal),
        *_changed_are_distinct(tracer, outside),
        *_reformed_are_distinct(tracer, recorder),
        *_changed_are_no_leaves(recorder),
        Guard(Kind.STATE, None, state, "torch's modes when it was captured"),
    ]
    return Trace(
        [_segment(recorder, segment) for segment in (*recorder.segments, recorder.segment)],
        recipe.extra,
        recipe.from_earlier,
        recipe.steps,
        recipe.namespace,
        returned,
        guards,
        tracer.symbols,
        tracer.facts,
        recorder.changes.repeatable(),
        recorder.changes_state,
        default_generators.drawn_since(random),
        recorder.defects,
        _written(outside),
        recorder.may_draw,
        recorder.checks_forms,
        recorder.changes.may_fail,
        not (recorder.changes.may_raise_late or recorder.may_draw),
        recorder.changes.needs_undo(),
        [
            Store(each.target, each.key, each.change is Change.CALL)
            for each in outside.journal.effects
        ],
        recorder.asks_for_layout,
    )


def _written(outside: Externals) -> frozenset[str]:
    """The sources of attributes and items that the program sets: of a list, all its items."""
    found: set[str] = set()
    for effect in outside.journal.effects:
        if effect.target is None:
            continue
        if effect.change is Change.SET_ATTRIBUTE:
            found.add(f"{effect.target.text}.{effect.key}")
        elif effect.change is Change.SET_ITEM and type(effect.key) is str:
            found.add(effect.target.item(effect.key).text)
        elif effect.change is Change.SET_ITEM and type(effect.key) is int:
            found.add(any_item(effect.target.text))
    return frozenset(found)


def _segment(recorder: Recorder, segment: RecordedSegment) -> TracedSegment:
    segment.graph.output(tuple(segment.outputs))
    for number in segment.numbers:
        if number.node.target == "size" and not number.node.users:
            segment.graph.erase_node(number.node)
    asked = [each.symbols for each in segment.expectations]
    decision = segment.decision
    if decision is not None and decision.fact is not None:
        asked.append(decision.fact.symbols)
    if decision is not None and decision.size is not None:
        asked.append(decision.size.symbols)
    values = {
        symbol: recorder.place(symbol)
        for symbols in asked
        for symbol in symbols
        if not symbol.backed
    }
    # Its Python code is written when somebody asks for it: native code needs none, and it takes
    # long.
    graph = _LazyGraphModule(_NO_MODULE, segment.graph)
    graph.meta[FACTS] = segment.facts or recorder.tracer.facts
    expected = [each.fact for each in segment.expectations if each.fact is not None]
    graph.meta[EXPECTED] = tuple(dict.fromkeys(expected))
    return TracedSegment(
        graph,
        [_source(source) for _, source, _ in segment.inputs],
        [example for _, _, example in segment.inputs],
        len(segment.outputs),
        segment.expectations,
        decision,
        values,
        segment.changed,
    )


_NO_MODULE: Final = torch.nn.Module()


def _source(source: InputSource) -> Path | Expr | SegmentOutput:
    return of_atom(source) if isinstance(source, Symbol) else source


def _facts(tracer: Tracer) -> Iterable[Guard]:
    for assumption in tracer.facts.assumptions:
        if is_data_dependent(assumption.fact):
            continue  # checked where the data is known
        reason, frame = tracer.origins.get(assumption.fact, (assumption.reason, None))
        yield Guard(Kind.SIZES, None, assumption.fact, reason, frame)


def _changed_are_no_leaves(recorder: Recorder) -> Iterable[Guard]:
    with torch._C.DisableTorchFunction():
        for path in recorder.changes.with_history():
            leaf = path.attribute("is_leaf")
            yield Guard(Kind.EQUALS, leaf, False, "it is changed in place")


#: Containers of which a change is seen anywhere; of others, see `state_aliases`.
_NOT_BY_NAME: Final = (list, deque, set)


def _changed_are_distinct(tracer: Tracer, outside: Externals) -> Iterable[Guard]:
    """What the program changed was one object among others of its kind: were two of them the same,
    a change of one would be seen in the other."""
    by_kind: dict[type, list[Path]] = {}
    changed = {
        type(thing) for thing in outside.journal.changed.values() if isinstance(thing, _NOT_BY_NAME)
    }
    if not changed:
        return
    for thing in tracer.kept:
        kind = type(thing)
        path = tracer.path_of(thing)
        if kind in changed and path is not None:
            by_kind.setdefault(kind, []).append(path)
    for paths in by_kind.values():
        if len(paths) > 1:
            yield Guard(Kind.DISTINCT, None, tuple(paths), "one of them is changed")


def _reformed_are_distinct(tracer: Tracer, recorder: Recorder) -> Iterable[Guard]:
    """A tensor whose form the program changes is none of the others: were it, the other one would
    have the new form, too. Those of other dtypes, devices and ranks are others anyway."""
    with torch._C.DisableTorchFunction():
        reformed = list(recorder.changes.reformed())
        ranks = {id(tensor): rank for _, tensor, rank in reformed}
        given = [each for each in tracer.kept if reformed and isinstance(each, torch.Tensor)]
        for path, tensor, rank in reformed:
            kind = (tensor.dtype, tensor.device, rank)
            for other in given:
                where = tracer.path_of(other)
                if other is tensor or where is None:
                    continue
                if kind == (other.dtype, other.device, ranks.get(id(other), other.dim())):
                    reason = "the form of one of them is changed"
                    yield Guard(Kind.DISTINCT, None, (path, where), reason)


class _Stopped(BaseException):
    """The capture has left, and the program is not to go on."""


class _RecordingMode(TorchFunctionMode):
    """Sees the torch operations that native Python code performs during a capture."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return self._recorder.run(func, args, kwargs or {}, native=True)
