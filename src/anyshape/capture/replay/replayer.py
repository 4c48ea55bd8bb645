"""A replay: first whether it may be, then the actions of the recording for another module."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from anyshape.capture.record.bound_call import name_of
from anyshape.capture.record.recorder import Recorder
from anyshape.capture.record.segment_state import Forget, TracedTensor
from anyshape.capture.replay.checks import MISSING
from anyshape.capture.replay.events import ARGUMENTS, Input, Operation, Parts, metadata_key
from anyshape.capture.replay.layer_trace import GUARD, INPUT, OPERATE, READ, LayerTrace
from anyshape.capture.tracer import Tracer
from anyshape.guards.guard import Guard
from anyshape.guards.path import Path
from anyshape.ops.node_meta import CHECKPOINT
from anyshape.symbolic import Expr


class ReplayMismatch(Exception):
    """An operation gave something else than before: the program has to run itself."""


class Replayer:
    """One replay, of a module at a path."""

    def __init__(
        self, recording: LayerTrace, tracer: Tracer, recorder: Recorder, module: object, path: Path
    ) -> None:
        self.recording = recording
        self._tracer = tracer
        self._recorder = recorder
        self._module = module
        self._paths: list[Path] = [path]
        self._objects: list[Any] = [module]
        #: the tensors of this replay, by what was known of those of the recording
        self.tensors: dict[TracedTensor, torch.Tensor] = {}
        #: what stands for calls of checkpoint here
        self._checkpoints: dict[object, object] = {}
        #: those that become inputs as arguments of the operation at hand
        self._inputs: dict[TracedTensor, tuple[Input, int, object]] = {}

    # -- before ----------------------------------------------------------------------------------

    def may(self) -> bool:
        """Whether the module and all below it is as that of the recording was."""
        recording, tracer = self.recording, self._tracer
        objects = self._objects = [self._module, *([None] * len(recording.steps))]
        try:
            if not all(check(objects) for check in recording.checks):
                return False
        except MISSING:
            return False
        fresh = {id(objects[number]) for number in recording.fresh}
        if len(fresh) != len(recording.fresh) or not fresh.isdisjoint(tracer.paths):
            return False
        paths = self._paths
        for start, access, key, text in recording.steps:
            paths.append(paths[start].step(access, key, text))
        return self._is_read_alike() and self._is_chosen_alike()

    def _is_read_alike(self) -> bool:
        recording, tracer, paths = self.recording, self._tracer, self._paths
        read, known = tracer.was_read, self._recorder._known
        return (
            not any(read(paths[number]) for number in recording.unread)
            and all(read(paths[number]) for number in recording.read)
            and all(
                tracer.path_of(self._objects[number]) is paths[number]
                for number in recording.registered
            )
            and all(
                tracer.has_guard(guard.kind, paths[number], guard.value)
                for number, guard in recording.kept
            )
            and not any(id(self._objects[number]) in known for number in recording.inputs)
            and all(event.known.meta == event.meta for event in recording.unchanged)
            and all(
                _is_alike(known.get(id(self._objects[number])), before, paths[number])
                for number, before in recording.used
            )
        )

    def _is_chosen_alike(self) -> bool:
        """Ask the policy, as reading them would, about numbers and about the sizes of tensors."""
        tracer, paths, objects = self._tracer, self._paths, self._objects
        chooser = tracer.chooser
        for number, kind in self.recording.numbers:
            path, value = paths[number], objects[number]
            if path in tracer.given_integers:
                return False
            if kind is int:
                if chooser.integer(path, value, tracer.owner(path)) is not None:
                    return False
            elif chooser.is_dynamic_float(path, value, tracer.owner(path)):
                return False
        for number in self.recording.inputs:
            path, tensor = paths[number], objects[number]
            if id(tensor) in tracer.given_sizes:
                return False
            if any(size is not None for size in chooser.sizes(path, tensor, tracer.owner(path))):
                return False
        return True

    # -- doing -----------------------------------------------------------------------------------

    def play(self, arguments: dict[TracedTensor, torch.Tensor]) -> None:
        self.tensors = {**self.recording.constants, **arguments}
        for number, event in self.recording.used:
            self.tensors[event.known] = self._objects[number]
        log = self._tracer.log
        assert log is not None, "there is a log where there is a recording"
        for action in self.recording.actions:
            kind = action[0]
            if kind is GUARD:
                log.append(self._guard(action[1], action[2], action[3]))
            elif kind is OPERATE:
                log.append(ARGUMENTS)
                self._inputs = action[2]
                log.append(self._operate(action[1]))
            elif kind is READ:
                log.append(self._read(action[1], action[2], action[3]))
            elif kind is INPUT:
                self._input(action[1], action[2], action[3])
            else:
                log.append(action[1])

    def _guard(self, guard: Guard, number: int, other: int) -> Guard:
        value = guard.value if other < 0 else self._paths[other]
        return self._tracer.add_guard(
            guard.kind, self._paths[number], value, guard.reason, guard.user_frame
        )

    def _read(self, number: int, first: bool, own: bool) -> tuple[Path, object, bool]:
        path, value = self._paths[number], self._objects[number]
        if first:
            self._tracer.take(value, path, own)
        return path, value, first

    def _input(self, event: Input, number: int, frame: Any) -> None:
        tensor = self._objects[number]
        tracer = self._tracer
        tracer.lent_frame = (frame,)
        try:
            made = self._recorder.known(tensor)
        finally:
            tracer.lent_frame = None
        if made.meta != event.meta:
            raise ReplayMismatch("an input is not what it was")
        self.tensors[event.known] = tensor

    def _operate(self, was: Operation) -> Operation:
        recorder = self._recorder
        node_args = [self._as_node(each) for each in was.args]
        node_kwargs = {name: self._as_node(each) for name, each in was.kwargs.items()}
        args = [self._as_value(each) for each in was.args]
        kwargs = {name: self._as_value(each) for name, each in was.kwargs.items()}
        try:
            result = was.function(*args, **kwargs)
        except Exception as error:
            self._tracer.lent_frame = (was.frame,)
            raise ReplayMismatch(f"`{name_of(was.function)}` raised an error") from error
        several = was.whole is not None
        results = list(result) if several and type(result) is was.whole else [result]
        if len(results) != len(was.results):
            raise ReplayMismatch("an operation has another number of results")
        for each, face, known in zip(results, was.faces, was.results, strict=True):
            before = self.tensors.get(known)
            if before is not None:
                alike = each is before
            else:
                alike = isinstance(each, torch.Tensor) and id(each) not in recorder._known
            if not alike or metadata_key(each) != face:
                raise ReplayMismatch("the result of an operation is not what it was")
        node = recorder._node(
            was.kind, was.target, (*node_args, *was.more), {} if was.more else node_kwargs
        )
        node.meta.update(was.meta)
        if CHECKPOINT in was.meta:
            # Another call of checkpoint, unless both layers are in one.
            known = self._checkpoints.setdefault(was.meta[CHECKPOINT], object())
            node.meta[CHECKPOINT] = recorder.checkpoint or known
        made = was.again(node)
        made.args = [self._renamed(each) for each in was.args]
        made.kwargs = {name: self._renamed(each) for name, each in was.kwargs.items()}
        for known in was.externals:
            tensor = self.tensors[known]
            named = recorder._known[id(tensor)]
            made.externals[named] = Input(named, tensor)
        for index, (each, known) in enumerate(zip(results, was.results, strict=True)):
            made.results.append(self._bind(each, known, was, index, node))
        self._note(was)
        return made

    def _bind(
        self, tensor: torch.Tensor, known: TracedTensor, was: Operation, index: int, node: object
    ) -> TracedTensor:
        recorder = self._recorder
        if known not in self.tensors:
            identity = id(tensor)
            alive = weakref.ref(tensor, Forget(recorder._known, identity))
            named = node if was.whole is None else (node, index)
            recorder._known[identity] = TracedTensor(
                named, was.metas[index], alive, recorder.segment
            )
            self.tensors[known] = tensor
        return recorder._known[id(tensor)]

    def _note(self, was: Operation) -> None:
        recorder = self._recorder
        recorder.may_draw |= was.draws
        changes = recorder.changes
        if was.raises:
            changes.note_raising(lambda: was.caught or recorder.tracer.is_caught())

    # -- arguments -------------------------------------------------------------------------------

    def _as_node(self, each: Any) -> object:
        kind = type(each)
        if kind is TracedTensor:
            if each not in self.tensors:
                self._input(*self._inputs[each])
            return self._recorder.node(self.tensors[each])
        if kind is Expr:
            return self._recorder.sizes.of(each)
        return each.make(list(map(self._as_node, each.parts))) if kind is Parts else each

    def _as_value(self, each: Any) -> object:
        kind = type(each)
        if kind is TracedTensor:
            return self.tensors[each]
        if kind is Expr:
            return self._tracer.value_of(each)
        return each.make(list(map(self._as_value, each.parts))) if kind is Parts else each

    def _renamed(self, each: Any) -> object:
        kind = type(each)
        if kind is TracedTensor:
            return self._recorder._known[id(self.tensors[each])]
        return Parts(each.make, list(map(self._renamed, each.parts))) if kind is Parts else each


def _is_alike(known: TracedTensor | None, before: Input, path: Path) -> bool:
    return known is not None and known.path is path and known.meta == before.meta
