"""What a graph became, as text: the schedule, and the code of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import torch

from anyshape.backends.native.build import segment_source
from anyshape.backends.native.segment_functions import segment_key
from anyshape.events import kinds
from anyshape.graph.plan import Plan, PythonCall
from anyshape.graph.schedule import Schedule
from anyshape.loops.canonical import own_names
from anyshape.loops.program import Segment
from anyshape.loops.text import segment_text

Scope = Callable[[], AbstractContextManager[None]]


def schedule_event(made: Schedule, plan: Plan, compile_id: str, scope: Scope) -> kinds.Schedule:
    with scope():
        return kinds.Schedule(schedule_text(made, plan), compile_id=compile_id)


def output_code_event(
    host: str,
    segments: list[Segment],
    compile_id: str,
    scope: Scope,
    texts: dict[str, str],
    device: torch.device,
    is_backward: bool,
) -> kinds.OutputCode:
    """`texts` has those of segments that had to be built; others were found as machine code."""
    codes = [host]
    with scope():
        for segment in map(own_names, segments):
            key = segment_key(segment)
            if key not in texts:
                texts[key] = _source(segment, device)
            codes.append(texts[key])
    text = "\n\n".join(codes)
    return kinds.OutputCode(text, is_backward=is_backward, compile_id=compile_id)


def _source(segment: Segment, device: torch.device) -> str:
    if device.type != "cuda":
        return segment_source(segment)
    from anyshape.backends.native.cuda_segment import cuda_source

    return cuda_source(segment, device)


def schedule_text(made: Schedule, plan: Plan) -> str:
    """The parts in order, and why operators are called out."""
    lines = [*_part_texts(made.parts)]
    lines += [f"called out: {name}: {why}" for name, why in plan.called.items()]
    return "\n".join(lines)


def _part_texts(parts: Iterable[Segment | PythonCall]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, Segment):
            yield segment_text(part)
        else:
            name = getattr(part.target, "__name__", part.target)
            yield f"call {name}{f' ({part.why})' if part.why else ''}"
