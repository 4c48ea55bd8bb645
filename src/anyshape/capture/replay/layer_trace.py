"""A stretch of the log as checks and actions, with numbers for the paths below the module's own.

`LayerTrace` is the result. `record` gives the reason instead where the stretch has something that a
replay could not do, or that says more of its module than its guards do: an object below the path
that was reached from elsewhere (`self.parent.layers[0] is self`) is this module's only.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.record.segment_state import TracedTensor
from anyshape.capture.replay.checks import (
    REPLAYED_STEPS,
    Check,
    check_of,
    is_equal,
    is_kind,
    is_same,
    is_that,
    step,
)
from anyshape.capture.replay.events import ARGUMENTS, Input, Operation, metadata_key, tensors_in
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Access, Path
from anyshape.ops.node_meta import CALL, NUMBER


class NotReplayed(Exception):
    """Why a stretch of the log is no recording."""


class LayerTrace:
    """What a call of a module did, in terms of paths below the module's own, which is number 0."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: (number of the parent, access, key, what the text gains) of the paths from number 1
        self.steps: list[tuple[int, Access, object, str]] = []
        #: of the objects below the other path, in order: they also look them up
        self.checks: list[Check] = []
        #: numbers of objects that were met for the first time
        self.fresh: list[int] = []
        #: numbers of paths that were read for the first time, and of those that had been
        self.unread: list[int] = []
        self.read: list[int] = []
        #: objects that were registered at their path before
        self.registered: list[int] = []
        #: numbers and floats, which the policy is asked about; tensors that become inputs
        self.numbers: list[tuple[int, type]] = []
        self.inputs: list[int] = []
        #: tensors that were inputs before
        self.used: list[tuple[int, Input]] = []
        #: guards that there were before
        self.kept: list[tuple[int, Guard]] = []
        #: what to do, in order
        self.actions: list[tuple[Any, ...]] = []
        #: tensors from elsewhere
        self.constants: dict[TracedTensor, torch.Tensor] = {}
        self.unchanged: list[Input] = []
        self.draws = False


#: Actions.
GUARD: Final = 0
READ: Final = 1
INPUT: Final = 2
OPERATE: Final = 3
NOTE: Final = 4


def record(
    tracer: Tracer,
    path: Path,
    events: Iterable[object],
    arguments: Iterable[TracedTensor],
    result: Iterable[TracedTensor],
    guards_before: int,
    guards_after: int,
    nodes: list[torch.fx.Node],
) -> LayerTrace:
    """The recording of a call, of the module at `path`; raises `NotReplayed`."""
    new = set(map(id, islice(tracer.guards.values(), guards_before, guards_after)))
    made = _Reader(tracer, path, arguments, new)
    for event in events:
        made.event(event)
    made.finish(result, nodes)
    return made.made


class _Reader:
    """Reads the log, event by event."""

    def __init__(
        self, tracer: Tracer, path: Path, arguments: Iterable[TracedTensor], new_guards: set[int]
    ) -> None:
        self.made = LayerTrace(path)
        self._tracer = tracer
        self._path = path
        self._new_guards = new_guards
        self._numbers: dict[Path, int] = {path: 0}
        #: paths below that were read in this stretch, and where the objects found were met first
        self._reached: set[Path] = {path}
        self._seen_guards: set[int] = set()
        self._seen_outside: set[Path] = set()
        self._unsettled: set[Path] = set()
        self._tensors: set[TracedTensor] = set(arguments)
        self._nodes: set[torch.fx.Node] = set()
        #: tensors that became inputs as arguments of the next operation, if it is being made: the
        #: order of inputs is that of the arguments
        self._for_arguments: dict[TracedTensor, tuple[Input, int, object]] | None = None

    def event(self, event: Any) -> None:
        kind = type(event)
        if kind is Guard:
            self._guard(event)
        elif kind is tuple:
            self._read(*event)
        elif kind is Operation:
            self._operation(event)
        elif kind is Input:
            self._input(event)
        elif event is ARGUMENTS:
            self._settle_inputs()
            self._for_arguments = {}
        else:
            raise NotReplayed(event)

    def finish(self, result: Iterable[TracedTensor], nodes: list[torch.fx.Node]) -> None:
        self._settle_inputs()
        for known in result:
            self._tensor(known, None)
        if self._unsettled:
            raise NotReplayed("a guard of a tensor that is no input")
        there = set(nodes)
        if not self._nodes <= there:
            raise NotReplayed("a node that is not in the graph")
        for node in nodes:
            if node not in self._nodes and not _is_made_on_demand(node):
                raise NotReplayed(f"the node `{node}`")

    # -- paths -----------------------------------------------------------------------------------

    def _number(self, path: Path) -> int:
        """The number of a path below the module's, -1 for one elsewhere."""
        found = self._numbers.get(path)
        if found is None:
            parent = path.parent
            start = -1 if parent is None else self._number(parent)
            found = -1
            if parent is not None and start >= 0:
                if path.access not in REPLAYED_STEPS:
                    raise NotReplayed(f"a path that goes on by {path.access.value}")
                made = self.made
                made.steps.append((start, path.access, path.key, path.text[len(parent.text) :]))
                found = len(made.steps)
                made.checks.append(step(found, start, path.access, path.key))
            self._numbers[path] = found
        return found

    def _check_origin(self, path: Path) -> None:
        """What a path goes on from was reached from the module, in this stretch."""
        read = self._tracer.was_read
        parent = path.parent
        while parent is not None and parent is not self._path and not read(parent):
            parent = parent.parent
        if parent not in self._reached:
            raise NotReplayed(f"{path} was reached from elsewhere")

    # -- guards and reads ------------------------------------------------------------------------

    def _guard(self, guard: Guard) -> None:
        path, kind, made = guard.path, guard.kind, self.made
        if path is None:
            raise NotReplayed(f"a guard of kind {kind.name}")
        number = self._number(path)
        if id(guard) in self._seen_guards:
            return
        self._seen_guards.add(id(guard))
        other = -1
        if kind is Kind.SAME_OBJECT:
            other = self._number(guard.value)
        if number < 0:
            if other >= 0:
                raise NotReplayed(f"{guard.value} was reached from elsewhere")
            if kind is Kind.PREDICATE and path.access is not Access.CONSTANT:
                raise NotReplayed("a predicate")
            made.actions.append((NOTE, guard))
            return
        if kind is Kind.TENSOR:
            self._unsettled.add(path)
            return
        if path not in self._reached:
            self._check_origin(path)
        if kind is not Kind.SAME_OBJECT:
            check = check_of(guard, number)
            if check is None:
                raise NotReplayed(f"a guard of kind {kind.name}")
            made.checks.append(check)
        if id(guard) not in self._new_guards:
            if kind is Kind.SAME_OBJECT:
                raise NotReplayed("an object at two places")
            made.kept.append((number, guard))
        made.actions.append((GUARD, guard, number, other))

    def _read(self, path: Path, value: object, first: bool) -> None:
        tracer, made = self._tracer, self.made
        number = self._number(path)
        where = tracer.path_of(value)
        if number < 0:
            if where is not None and self._number(where) >= 0:
                raise NotReplayed(f"{where} was reached from elsewhere")
            if path not in self._seen_outside:
                self._seen_outside.add(path)
                made.actions.append((NOTE, (path, value, False)))
            return
        if number == 0:
            raise NotReplayed("the module was reached from elsewhere")
        if path in self._reached and not first:
            return
        self._check_origin(path)
        self._reached.add(path)
        (made.unread if first else made.read).append(number)
        own = self._check_value(number, path, value, where, first)
        made.actions.append((READ, number, first, own and first))

    def _check_value(
        self, number: int, path: Path, value: object, where: Path | None, first: bool
    ) -> bool:
        """Note what another value has to be like; whether the object was met here first."""
        checks, kind = self.made.checks, type(value)
        if type(self._tracer.what_was_read(path)) is not kind:
            raise NotReplayed(f"{path} is dynamic")
        if kind in ATOMS:
            checks.append(is_equal(number, value))
            if kind is int or kind is float:
                self.made.numbers.append((number, kind))
            return False
        if isinstance(value, (*CODE, enum.Enum)):
            checks.append(is_that(number, value))
            return False
        if where is None:
            raise NotReplayed(f"{path} is a {kind.__name__} of nowhere")
        if where is path:
            checks.append(is_kind(number, kind))
            (self.made.fresh if first else self.made.registered).append(number)
            return True
        other = self._number(where)
        if other > 0 and other not in self.made.fresh:
            self.made.registered.append(other)
        self._reached.add(where)
        checks.append(is_that(number, value) if other < 0 else is_same(number, other))
        return False

    # -- tensors ---------------------------------------------------------------------------------

    def _input(self, event: Input) -> None:
        known = event.known
        path = known.path
        assert path is not None, "inputs come from outside the function"
        number = self._number(path)
        if number < 0:
            return  # It is an input by now.
        self._check_tensor(event, path, number)
        self._unsettled.discard(path)
        self._tensors.add(known)
        self.made.inputs.append(number)
        frame = self._tracer.guards[Kind.TENSOR, path].user_frame
        if self._for_arguments is None:
            self.made.actions.append((INPUT, event, number, frame))
        else:
            self._for_arguments[known] = (event, number, frame)

    def _settle_inputs(self) -> None:
        """An operation was not made after all: its arguments were looked at."""
        for event, number, frame in (self._for_arguments or {}).values():
            self.made.actions.append((INPUT, event, number, frame))
        self._for_arguments = None

    def _check_tensor(self, event: Input, path: Path, number: int) -> None:
        if path not in self._reached:
            raise NotReplayed(f"{path} was reached from elsewhere")
        if any(type(size) is not int for size in event.meta.shape):
            raise NotReplayed(f"a size of {path} is dynamic")
        self.made.checks.append(_has_face(number, event.face))

    def _tensor(self, known: TracedTensor, event: Input | None) -> None:
        """A tensor that an operation uses, or that is returned."""
        if known in self._tensors:
            return
        path = known.path
        if path is None or event is None:
            raise NotReplayed("a tensor that was neither given nor made")
        number = self._number(path)
        if number < 0:
            tensor: Any = known.alive
            self.made.constants[known] = tensor
            self.made.unchanged.append(event)
        else:
            self._check_tensor(event, path, number)
            self.made.used.append((number, event))
        self._tensors.add(known)

    def _operation(self, operation: Operation) -> None:
        for argument in (*operation.args, *operation.kwargs.values()):
            for known in tensors_in(argument):
                self._tensor(known, operation.externals.get(known))
        self._tensors.update(operation.results)
        self._nodes.add(operation.node)
        self.made.draws |= operation.draws
        self.made.actions.append((OPERATE, operation, self._for_arguments or {}))
        self._for_arguments = None


def _has_face(number: int, face: tuple[object, ...]) -> Check:
    def check(objects: list[Any]) -> bool:
        # Its class was compared before: it is a tensor.
        return metadata_key(objects[number]) == face

    return check


#: What sizes are computed by.
_SIZES: Final[frozenset[Callable[..., Any]]] = frozenset(
    {operator.add, operator.mul, operator.floordiv, operator.mod, min, max}
)


def _is_made_on_demand(node: torch.fx.Node) -> bool:
    """Whether it is made wherever it is first needed: an input, a size, one of several results."""
    if node.op == "placeholder":
        return True
    if CALL in node.meta or NUMBER in node.meta or node.op != "call_function":
        return False
    return node.target is operator.getitem or node.target in _SIZES
