"""The buffers that a kernel uses."""

from __future__ import annotations

from anyshape.loops.expr import reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.stages import all_roots


def touched(kernel: Kernel) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """The buffers that a kernel reads and writes, and the numbers it takes."""
    reads: set[str] = set()
    numbers: dict[str, None] = {}
    for scalar in reached(all_roots(kernel)):
        if scalar.op == "load":
            reads.add(scalar.data[0])
        elif scalar.op == "number":
            numbers[scalar.data] = None
    stored = [part for stage in kernel.stages for part in (*stage.stores, *stage.scans)]
    writes = {part.buffer for part in stored} - kernel.private.keys()
    reads |= {part.buffer for part in stored if getattr(part, "mode", "set") != "set"}
    return frozenset(reads - kernel.private.keys()), frozenset(writes), tuple(sorted(numbers))
