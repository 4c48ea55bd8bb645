"""What a compiled function runs as: the plans of its graphs, and what failed when they ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from anyshape import config
from anyshape.backends.native import backend as native
from anyshape.backends.native.python_host import Host
from anyshape.graph.plan import Compute, Plan
from anyshape.graph.schedule import Schedule
from anyshape.loops.program import Launch, Segment
from anyshape.loops.text import kernel_text


@dataclass
class Plans:
    """The plans that were made, in order, and errors of native programs, which the pipeline answers
    by running eagerly."""

    made: list[Plan] = field(default_factory=list[Plan])
    scheduled: list[Schedule] = field(default_factory=list[Schedule])
    errors: list[BaseException] = field(default_factory=list[BaseException])
    runs: int = 0

    @property
    def native(self) -> set[str]:
        """Operators that native code computes."""
        return {name for plan in self.made for name in plan.native}

    @property
    def called(self) -> dict[str, str]:
        """Operators that torch is called for, and why."""
        return {name: why for plan in self.made for name, why in plan.called.items()}

    @property
    def kernels(self) -> list[str]:
        return [
            kernel_text(step.kernel)
            for plan in self.made
            for step in plan.steps
            if isinstance(step, Compute)
        ]

    @property
    def launches(self) -> list[Launch]:
        """Kernels as they are called, after some have become one."""
        return [
            step
            for made in self.scheduled
            for part in made.parts
            if isinstance(part, Segment)
            for step in part.steps
            if isinstance(step, Launch)
        ]


@contextmanager
def watched() -> Iterator[Plans]:
    """See the plans of everything that is compiled meanwhile. Failures raise."""
    found = Plans()
    lowered, host, policy = native.lowered, native.python_host, config.on_compile_error

    def watched_lowered(graph: torch.fx.GraphModule, **options: bool) -> tuple[Plan, Schedule]:
        plan, made = lowered(graph, **options)
        found.made.append(plan)
        found.scheduled.append(made)
        return plan, made

    def watched_host(*args: Any) -> Host:
        made = host(*args)

        def program(*inputs: Any) -> Any:
            found.runs += 1
            try:
                return made.run(*inputs)
            except BaseException as error:
                found.errors.append(error)
                raise

        return made._replace(run=program)

    native.lowered, native.python_host = watched_lowered, watched_host
    config.on_compile_error = "raise"
    try:
        yield found
    finally:
        native.lowered, native.python_host = lowered, host
        config.on_compile_error = policy
