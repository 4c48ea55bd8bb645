"""What a compile tells those who listen: that it begins, and what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch.fx

from anyshape.blame import expr_of, fixed_by
from anyshape.calls import OURSELVES
from anyshape.capture.choices import Choices
from anyshape.capture.trace import Trace
from anyshape.capture.tracer import Left
from anyshape.config import config
from anyshape.entries import Entry
from anyshape.errors import AnyshapeError
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.graph_text import graph_text, inputs_of, operators_of, sizes_of
from anyshape.guards.guard import Frame, Guard
from anyshape.guards.tree import tree_text
from anyshape.ops.node_notes import REPORT
from anyshape.policy.observations import Observation, merge
from anyshape.profile.records import FunctionRecord
from anyshape.targets import Target


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
        began, started = time.time(), time.perf_counter()
        try:
            yield
        finally:
            self.stages.append(kinds.Stage(name, began, time.perf_counter() - started))


def begins(target: Target, entry_id: str) -> None:
    if stream.listening(kinds.FrameStart):
        frames = [
            Frame(frame.filename, frame.lineno or 0, frame.name)
            for frame in traceback.extract_stack()
            if not frame.filename.startswith((OURSELVES, "<anyshape"))
        ]
        stream.emit(
            kinds.FrameStart(target.name, target.file, target.line, frames, compile_id=entry_id)
        )


def sizes_seen(target: Target, choices: Choices, entry_id: str) -> None:
    """What the call had that a compile was for."""
    if stream.listening(kinds.SizesSeen):
        seen = {source: str(each) for source, each in choices.observed.items()}
        decided = {
            source: (ruling.decision.choice.value, ruling.decision.reason)
            for source, ruling in choices.rulings.items()
        }
        stream.emit(kinds.SizesSeen(target.name, seen, decided, compile_id=entry_id))


def read_profile(target: Target, known: FunctionRecord, entry_id: str) -> None:
    """What earlier runs knew, where they knew anything."""
    if known.sources and stream.listening(kinds.ProfileState):
        _profile(target, {name: each.seen for name, each in known.sources.items()}, "get", entry_id)


def wrote_profile(
    target: Target, known: FunctionRecord, seen: Mapping[str, Observation], entry_id: str
) -> None:
    """What the next run will know."""
    if config.profile and stream.listening(kinds.ProfileState):
        held = {name: each.seen for name, each in known.sources.items()}
        for name, each in seen.items():
            held[name] = merge(held[name], each) if name in held else each
        _profile(target, held, "put", entry_id)


def _profile(target: Target, seen: Mapping[str, Observation], action: str, entry_id: str) -> None:
    lines = [f"{target.file}:{target.line}:{target.name}:"]
    lines += [f"{name}: {each}" for name, each in sorted(seen.items())]
    text = "\n".join(lines)
    for remote in (False, True)[: 1 + (config.profile_url is not None)]:
        stream.emit(kinds.ProfileState(action, remote, text, compile_id=entry_id))


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
            stream.emit(_graph(graph, target.name, entry.id))
    if stream.listening(kinds.Compiled):
        nodes = [node for graph in graphs for node in graph.graph.nodes]
        stream.emit(
            kinds.Compiled(
                seconds,
                len(entry.graphs),
                len(entry.guards),
                [_said(guard) for guard in entry.guards],
                tree_text(entry.guards),
                kinds.Measures(
                    target.name,
                    target.file,
                    target.line,
                    clock.stages,
                    entries,
                    sum(node.op.startswith("call") for node in nodes),
                    len(nodes),
                    sum(node.op == "placeholder" for node in nodes),
                ),
                compile_id=entry.id,
            )
        )


def _graph(graph: torch.fx.GraphModule, name: str, entry_id: str) -> kinds.GraphCompiled:
    report = graph.meta.get(REPORT)
    return kinds.GraphCompiled(
        graph_text(graph),
        sizes_of(graph),
        name,
        operators_of(graph),
        inputs_of(graph),
        () if report is None else report.lines(),
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
        guard = fixed_by(trace, source)
        if value is not None and guard is not None:
            told.is_specialised(source.symbol, value, guard.reason, guard.user_frame)


def left(target: Target, why: Left, clock: Clock, entries: int, entry_id: str) -> None:
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
