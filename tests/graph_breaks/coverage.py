"""Where the operations of a call run: in graphs, or one by one.

A backend that marks its graphs in torch's profile, and a profile of one call: an operation outside
of all marks ran eagerly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.fx

import anyshape
from tests.graph_breaks.table import NEW_CALLS, Program
from tests.graph_breaks.twins import Twin

_GRAPH: Final = "anyshape graph"
_BOUNDARY: Final = "boundary"
#: Operations that reading data brings along, and those that only look at a tensor.
_NO_WORK: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("item", "_local_scalar_dense", "is_nonzero", "detach", "detach_", "alias", "lift_fresh"),
        *("to", "_to_copy", "copy_", "empty", "empty_strided", "resolve_conj", "resolve_neg"),
        *("select", "unbind", "slice", "as_strided", "view", "t", "transpose", "clone"),
        *("empty_like", "zeros", "zero_", "ones", "fill_", "set_", "requires_grad_", "unsafe_view"),
        *("result_type", "numpy_T", "_unsafe_view", "unsqueeze", "expand", "resize_", "random_"),
    )
)


def marking_backend(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Runs a graph operator by operator, with a mark around it."""

    def run(*args: Any) -> Any:
        with torch.profiler.record_function(_GRAPH):
            return graph(*args)

    return run


@dataclass
class Profile:
    """The operations of a call in order, with whether each ran in a graph."""

    operations: list[tuple[str, bool]] = field(default_factory=list)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        profile: Any = torch.autograd.profiler.profile(use_kineto=False)
        with profile:
            yield
        for event in sorted(profile.function_events, key=lambda each: each.time_range.start):
            if not event.name.startswith("aten::") or event.name in _NO_WORK:
                continue
            above = list(_above(event))
            if _BOUNDARY in above or any(each.startswith("aten::") for each in above):
                continue
            self.operations.append((event.name, _GRAPH in above))

    @property
    def on_both_sides(self) -> bool:
        """Whether the first and the last operation ran in a graph."""
        inside = [each for _, each in self.operations]
        return bool(inside) and inside[0] and inside[-1]

    @property
    def share(self) -> float:
        """Of the operations that ran in graphs."""
        inside = [each for _, each in self.operations]
        return sum(inside) / len(inside) if inside else 0.0


def _above(event: Any) -> Iterator[str]:
    while (event := event.cpu_parent) is not None:
        yield event.name


@dataclass(frozen=True)
class Judgement:
    """How a program is compiled once its sizes are known."""

    name: str
    on_both_sides: bool
    #: whether two calls at known sizes compiled nothing
    is_settled: bool
    share: float
    why: str

    def __str__(self) -> str:
        sides = "graphs on both sides" if self.on_both_sides else "no graphs on both sides"
        settled = "" if self.is_settled else ", compiles again"
        return f"{self.name}: {sides}, {self.share:.0%} in graphs{settled}; {self.why}"


def judge(program: Program) -> Judgement:
    """Call a program five times, and look at two more calls."""
    twin = Twin(program, lambda function: anyshape.compile(function, backend=marking_backend))
    for call in range(NEW_CALLS):
        twin.call(call)
    captures = twin.function.stats().captures
    profile = Profile()
    twin.call(NEW_CALLS)
    twin.call(NEW_CALLS + 1, profile.taken)
    return Judgement(
        program.name,
        profile.on_both_sides or bool(program.one_side),
        twin.function.stats().captures == captures or bool(program.unsettled),
        profile.share,
        twin.function.explain().eager,
    )
