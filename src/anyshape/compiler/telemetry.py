"""What a compile tells those who listen: that it begins, and what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import torch.fx

from anyshape.capture.abort import AbortReason
from anyshape.capture.dynamism_policy import CompileDecisions, DimDecision
from anyshape.capture.trace import Trace
from anyshape.config import config
from anyshape.dispatch.callable_target import Target
from anyshape.dispatch.entry import Entry, GraphBreak
from anyshape.errors import AnyshapeError
from anyshape.events import kinds
from anyshape.events.progress import progress
from anyshape.events.stream import stream
from anyshape.explain.blame import expr_of, fixed_by
from anyshape.graph.graph_text import graph_text, inputs_of, operators_of, sizes_of
from anyshape.guards.guard import EntryPlan, Frame, Guard, Kind
from anyshape.guards.text import declared_ranges
from anyshape.guards.tree import tree_text
from anyshape.ops.kernel_launch import launch_lines
from anyshape.ops.node_meta import REPORT, STANDING
from anyshape.ops.origins import OURSELVES
from anyshape.policy.observations import Observation, merge
from anyshape.profile.records import FunctionRecord


class Clock:
    """How long the stages of one compile take."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.stages: list[kinds.Stage] = []

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        progress.stage(name)
        began, started = time.time(), time.perf_counter()
        try:
            yield
        finally:
            self.stages.append(kinds.Stage(name, began, time.perf_counter() - started))


def begins(target: Target, entry_id: str) -> None:
    if stream.listening(kinds.FrameStart):
        frames: list[Frame] = []
        for frame, line in traceback.walk_stack(None):
            code = frame.f_code
            if not code.co_filename.startswith((OURSELVES, "<anyshape")):
                frames.append(Frame(code.co_filename, line, code.co_name))
        frames.reverse()
        stream.emit(
            kinds.FrameStart(target.name, target.file, target.line, frames, compile_id=entry_id)
        )


def sizes_seen(target: Target, choices: CompileDecisions, entry_id: str) -> None:
    """What the call had that a compile was for."""
    if stream.listening(kinds.SizesSeen):
        observed, rulings = dict(choices.observed), dict(choices.rulings)
        make = partial(_sizes_seen, target.name, observed, rulings, entry_id)
        stream.emit_made(kinds.SizesSeen, make)


def _sizes_seen(
    function: str,
    observed: Mapping[str, Observation],
    rulings: Mapping[str, DimDecision],
    entry_id: str,
) -> kinds.SizesSeen:
    seen = {source: str(each) for source, each in observed.items()}
    decided = {
        source: kinds.Decided(ruling.decision.choice.value, ruling.decision.reason)
        for source, ruling in rulings.items()
    }
    return kinds.SizesSeen(function, seen, decided, compile_id=entry_id)


def read_profile(target: Target, known: FunctionRecord, entry_id: str) -> None:
    """What earlier runs knew, where they knew anything."""
    if known.sources and stream.listening(kinds.ProfileState):
        _profile(target, known, {}, "get", entry_id)


def wrote_profile(
    target: Target, known: FunctionRecord, seen: Mapping[str, Observation], entry_id: str
) -> None:
    """What the next run will know."""
    if config.profile and stream.listening(kinds.ProfileState):
        _profile(target, known, dict(seen), "put", entry_id)


def _profile(
    target: Target,
    known: FunctionRecord,
    seen: Mapping[str, Observation],
    action: str,
    entry_id: str,
) -> None:
    for remote in (False, True)[: 1 + (config.profile_url is not None)]:
        make = partial(_profile_state, target, known, seen, action, remote, entry_id)
        stream.emit_made(kinds.ProfileState, make)


def _profile_state(
    target: Target,
    known: FunctionRecord,
    seen: Mapping[str, Observation],
    action: str,
    remote: bool,
    entry_id: str,
) -> kinds.ProfileState:
    held = {name: each.seen for name, each in known.sources.items()}
    for name, each in seen.items():
        held[name] = merge(held[name], each) if name in held else each
    lines = [f"{target.file}:{target.line}:{target.name}:"]
    lines += [f"{name}: {each}" for name, each in sorted(held.items())]
    return kinds.ProfileState(action, remote, "\n".join(lines), compile_id=entry_id)


def compiled(
    target: Target,
    entry: Entry,
    trace: Trace,
    clock: Clock,
    graphs: Sequence[torch.fx.GraphModule],
    entries: int,
) -> None:
    """An entry was made, or has grown by these graphs."""
    seconds = clock.seconds
    if stream.listening(kinds.Specialised):
        _specialised(entry, trace)
    if stream.listening(kinds.GraphCompiled):
        for graph in graphs:
            stream.emit_made(kinds.GraphCompiled, partial(_graph, graph, target.name, entry.id))
    if stream.listening(kinds.Compiled):
        make = partial(
            _compiled, target, entry.id, entry.plan, seconds, clock.stages, tuple(graphs)
        )
        stream.emit_made(kinds.Compiled, partial(make, len(entry.graphs), entries))


def _compiled(
    target: Target,
    entry_id: str,
    plan: EntryPlan,
    seconds: float,
    stages: Sequence[kinds.Stage],
    graphs: Sequence[torch.fx.GraphModule],
    all_graphs: int,
    entries: int,
) -> kinds.Compiled:
    nodes = [node for graph in graphs for node in graph.graph.nodes]
    ranges = list(declared_ranges(plan.symbols))
    on_ranges = [kinds.GuardSaid(Kind.SIZES.value, text, source) for source, text in ranges]
    return kinds.Compiled(
        seconds,
        all_graphs,
        len(plan.guards),
        [*map(_said, plan.guards), *on_ranges],
        tree_text(plan.guards, [text for _, text in ranges]),
        kinds.Measures(
            target.name,
            target.file,
            target.line,
            stages,
            entries,
            sum(node.op.startswith("call") for node in nodes),
            len(nodes),
            sum(node.op == "placeholder" for node in nodes),
        ),
        compile_id=entry_id,
    )


def _graph(graph: torch.fx.GraphModule, name: str, entry_id: str) -> kinds.GraphCompiled:
    report = graph.meta.get(REPORT)
    standing = graph.meta.get(STANDING, ())
    return kinds.GraphCompiled(
        graph_text(graph),
        sizes_of(graph),
        name,
        operators_of(graph),
        inputs_of(graph),
        [*(() if report is None else report.lines()), *launch_lines(graph)],
        *standing,
        compile_id=entry_id,
    )


def _said(guard: Guard) -> kinds.GuardSaid:
    source = guard.path.text if guard.path is not None else ""
    return kinds.GuardSaid(guard.kind.value, guard.text, source, guard.reason, guard.user_frame)


def _specialised(entry: Entry, trace: Trace) -> None:
    """Those that a fact about other symbols has left one value to; the others are known."""
    told = entry.choices.told
    for source in trace.symbols:
        if source.symbol.name in told.specialised:
            continue
        value = trace.facts.value(expr_of(trace, source))
        if value is not None and (guard := fixed_by(trace, source)) is not None:
            told.is_specialised(source.symbol, value, guard.reason, guard.user_frame)


#: What keeps a program that asks for data in one graph.
_BREAK_HINTS: Final = (
    "choose with torch.where, or with arithmetic, instead of a branch on data",
    "if the answer is always the same, say so: torch._check(...), or anyshape.check(...)",
)


def breaks(found: GraphBreak, entry_id: str) -> None:
    """A graph ends where the program asks for data."""
    if stream.listening(kinds.GraphBreak):
        stream.emit(kinds.GraphBreak(found.reason, found.where, _BREAK_HINTS, compile_id=entry_id))


def left(target: Target, why: AbortReason, clock: Clock, entries: int, entry_id: str) -> None:
    """A call runs eagerly."""
    if stream.listening(kinds.RunsEagerly):
        stream.emit(
            kinds.RunsEagerly(
                why.reason,
                why.frame,
                why.hints,
                target.name,
                _without_graph(target, clock, entries),
                compile_id=entry_id,
            )
        )


def failed(target: Target, error: Exception, clock: Clock, entries: int, entry_id: str) -> None:
    """A compile ends with an error, ours or the program's."""
    if not stream.listening(kinds.CompileFailed):
        return
    name = f"{error.code} {type(error).__name__}" if isinstance(error, AnyshapeError) else ""
    stream.emit(
        kinds.CompileFailed(
            name or type(error).__qualname__,
            str(error),
            _raised_at(error),
            _without_graph(target, clock, entries),
            compile_id=entry_id,
        )
    )


def _without_graph(target: Target, clock: Clock, entries: int) -> kinds.Measures:
    return kinds.Measures(target.name, target.file, target.line, clock.stages, entries)


def _raised_at(error: Exception) -> Frame | None:
    frames = [
        Frame(frame.filename, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((OURSELVES, "<anyshape"))
    ]
    return frames[-1] if frames else None
