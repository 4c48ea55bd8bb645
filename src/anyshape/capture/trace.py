"""What a capture hands on: the graphs, what they are for, and how to make the result of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch.fx

from anyshape.capture.record.segments import Decision, RuntimeAssert, SegmentOutput
from anyshape.guards.guard import Guard, SymbolSource
from anyshape.guards.path import Path
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Expr, Facts, Symbol


@dataclass(frozen=True, slots=True, eq=False)
class TracedSegment:
    """A graph, and what comes after it: a decision, or for the last one the result."""

    graph: torch.fx.GraphModule
    #: the inputs of the graph, in order, with their values in this run
    inputs: Sequence[Path | Expr | SegmentOutput]
    examples: Sequence[object]
    #: how many outputs the graph has
    outputs: int
    expectations: Sequence[RuntimeAssert]
    decision: Decision | None
    #: where the data symbols of expectations and decision are found
    values: Mapping[Symbol, SegmentOutput]
    #: external tensors that it changes
    changed: Sequence[Path]


class Does(enum.Enum):
    """What a step of an epilogue does, as far as that is data."""

    #: makes `target`: the class, the items that it is made with, how many it may ever have
    MAKE = enum.auto()
    #: puts items at the end of the list `target`
    EXTEND = enum.auto()
    #: sets an item of `target`: the key, the value
    SET_ITEM = enum.auto()
    #: sets attributes of `target`: pairs of a name and a value
    SET_ATTRIBUTES = enum.auto()
    #: adds a gradient to `.grad` of `target`, or relies on there being none: the value
    ADD_GRAD = enum.auto()
    EXPECT_NO_GRAD = enum.auto()
    #: keeps the counts of a cache, or has no effect of its own
    NOTHING = enum.auto()
    #: is code, which Python alone can run
    RUN = enum.auto()


class Step(NamedTuple):
    """A statement of an epilogue: as a line of Python, and by what it does. Values in it are
    expressions: names, literals, and calls for what is code."""

    line: str
    does: Does = Does.RUN
    target: str = ""
    args: tuple[Any, ...] = ()


class Store(NamedTuple):
    """Something that the program writes outside of itself, without the value."""

    #: the object, if it is one
    target: Path | None
    #: the name, the item's key, or the function that is called
    key: object
    #: whether a function is called for its effect: `print`, a logger
    is_call: bool


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One way through the program, for all the sizes that its guards admit."""

    segments: Sequence[TracedSegment]
    #: what the program after the last graph needs besides its outputs
    extra: Sequence[Path | Expr]
    earlier: Mapping[str, SegmentOutput]
    #: the program after the last graph: its steps, names in them, the expression of the result
    steps: Sequence[Step]
    namespace: dict[str, object]
    result: str
    guards: Sequence[Guard]
    symbols: Sequence[SymbolSource]
    facts: Facts
    #: whether running the graphs again from their start would change something twice
    repeatable: bool
    #: whether a graph switches modes of torch, which a failure must undo
    changes_state: bool
    #: whether it draws random numbers
    draws_random: bool
    defects: Sequence[str] = field(default=())
    #: attributes that the program sets, as sources are named
    written: frozenset[str] = frozenset()
    #: whether another run may draw random numbers
    may_draw: bool = False
    #: whether a graph checks what no guard can
    checks_forms: bool = False
    #: whether an operation may fail, by its data, after something has been changed
    may_raise_late: bool = False
    #: whether a bad position in a tensor is found before anything has been changed
    fails_first: bool = False
    #: whether a run that fails has to be undone, because it has changed tensors by then
    needs_undo: bool = False
    #: what the program after the last graph writes
    stores: Sequence[Store] = ()
    #: whether the program asks how tensors lie in memory
    asks_for_layout: bool = False

    @property
    def lines(self) -> list[str]:
        """The program after the last graph, in Python."""
        return [step.line for step in self.steps]

    @property
    def has_operations(self) -> bool:
        """Whether a graph computes anything."""
        calls = ("call_function", "call_method", "call_module")
        return any(node.op in calls for each in self.segments for node in each.graph.graph.nodes)

    @property
    def is_flat(self) -> bool:
        """Whether it is one graph, and nothing about it depends on data."""
        alone = len(self.segments) == 1 and not self.segments[0].expectations
        return alone and not self.needs_undo and not self.checks_forms
