"""What a compile tells those who listen: that it begins, and what came of it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import torch.fx

from anyshape.blame import expr_of, fixed_by
from anyshape.calls import OURSELVES
from anyshape.capture.trace import Trace
from anyshape.entries import Entry
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.guards.guard import Frame
from anyshape.targets import Target


def begins(target: Target, entry_id: str) -> None:
    if stream.listening(kinds.FrameStart):
        frames = [
            Frame(frame.filename, frame.lineno or 0, frame.name)
            for frame in traceback.extract_stack()
            if not frame.filename.startswith(OURSELVES)
        ]
        stream.emit(
            kinds.FrameStart(target.name, target.file, target.line, frames, compile_id=entry_id)
        )


def compiled(
    target: Target,
    entry: Entry,
    trace: Trace,
    seconds: float,
    graphs: Sequence[torch.fx.GraphModule],
) -> None:
    """An entry was made, or has grown by these graphs."""
    if stream.listening(kinds.Specialised):
        _specialised(entry, trace)
    if stream.listening(kinds.GraphCompiled):
        for graph in graphs:
            code = graph.print_readable(print_output=False)
            stream.emit(kinds.GraphCompiled(code, compile_id=entry.id, name=target.name))
    if stream.listening(kinds.Compiled):
        lines = [guard.text for guard in entry.guards]
        stream.emit(
            kinds.Compiled(seconds, len(entry.graphs), len(lines), lines, compile_id=entry.id)
        )


def _specialised(entry: Entry, trace: Trace) -> None:
    for source in trace.symbols:
        value = trace.facts.value(expr_of(trace, source))
        guard = fixed_by(trace, source)
        if value is not None and guard is not None:
            stream.emit(
                kinds.Specialised(
                    source.symbol.name,
                    [source.text],
                    value,
                    guard.reason,
                    guard.user_frame,
                    compile_id=entry.id,
                )
            )
