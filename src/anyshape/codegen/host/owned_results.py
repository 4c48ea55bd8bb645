"""Buffers that are what a C function gave: its tensor is kept rather than copied."""

from __future__ import annotations

from collections import Counter

from anyshape.codegen.host.abi import HostUnsupported
from anyshape.codegen.host.extern_calls import is_whole
from anyshape.codegen.host.externs import EXTERNS
from anyshape.loops.program import Area, Extern, Segment, Step


def adopted_buffers(segment: Segment) -> list[str]:
    """Temporaries that a C function fills whole, before anybody else touches them."""
    temporaries = {buffer.name: buffer for buffer in segment.temporaries}
    seen: set[str] = set()
    found: list[str] = []
    # A buffer that two calls give would have to lose the first tensor at the second: it is copied
    # to instead.
    given = Counter(area.buffer for step in segment.steps for area in results_of(step))
    for step in segment.steps:
        if not isinstance(step, Extern):
            seen |= set(step.buffers)
            continue
        for area in results_of(step):
            buffer = temporaries.get(area.buffer)
            is_first = area.buffer not in seen and given[area.buffer] == 1
            if is_first and buffer is not None and is_whole(area, buffer):
                found.append(area.buffer)
        seen |= {area.buffer for area in step.arguments if isinstance(area, Area)}
    return found


def results_of(step: Step) -> list[Area]:
    """The areas that a C function gives tensors for."""
    if not isinstance(step, Extern):
        return []
    row = EXTERNS.get(step.function)
    if row is None:
        raise HostUnsupported(f"there is no C function {step.function}")
    return [area for area in step.arguments[: row.results] if isinstance(area, Area)]
