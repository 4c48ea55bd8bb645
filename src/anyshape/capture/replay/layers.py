"""Calls of modules: watched, unless a call of an equal one was, which is then replayed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.externals.untrace import untraced
from anyshape.capture.record.segment_state import TracedTensor
from anyshape.capture.record.torch_state import read_state
from anyshape.capture.replay.events import tensors_in
from anyshape.capture.replay.forms import Forms, NoForm, built, result_form
from anyshape.capture.replay.layer_trace import LayerTrace, NotReplayed, record
from anyshape.capture.replay.replayer import Replayer, ReplayMismatch
from anyshape.config import config
from anyshape.guards.guard import Frame
from anyshape.guards.path import Path
from anyshape.support.random_state import default_generators


class Switch:
    """Whether captures replay: for tests, which compare the two ways."""

    def __init__(self) -> None:
        self.on = True
        #: how many calls were replayed, since the process began
        self.replayed = 0

    @contextmanager
    def off(self) -> Iterator[None]:
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before


switch: Final = Switch()

#: So many calls of modules of one class are remembered.
_MOST: Final = 4
#: A shorter stretch of the log takes as long to replay as to watch.
_SHORTEST: Final = 12


class _Call:
    """A call of a module that was watched: where it is on the log, and what it began with."""

    def __init__(self, path: Path, form: object, forms: Forms, standing: Any, frame: Frame | None):
        self.path = path
        self.form = form
        self.arguments: list[TracedTensor] = list(forms.tensors)
        self.externals = [each.path for each in forms.externals]
        self.standing = standing
        self.frame = frame
        self.start = self.end = 0
        self.guards: tuple[int, int] = (0, 0)
        self.first: torch.fx.Node
        self.last: torch.fx.Node
        self.result: Any = None
        self.recording: LayerTrace | None = None

    def nodes(self) -> list[torch.fx.Node]:
        """Those that the call added to the graph, if they are still there."""
        found: list[torch.fx.Node] = []
        node = self.first
        while node is not self.last:
            node = node.next
            found.append(node)
            if node.op == "root":
                raise NotReplayed("nodes were taken out of the graph")
        return found


class Layers:
    """The calls of modules of one capture."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._tracer = hooks.tracer
        self._recorder = hooks.recorder
        self._calls: dict[type, deque[_Call]] = {}

    def forget(self) -> None:
        """Let go of what was recorded: to be called when nobody watches any more."""
        self._calls.clear()

    def call(
        self,
        watch: Callable[..., Any],
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        tracer = self._tracer
        path = tracer.path_of(module)
        standing = self._state_snapshot()
        if tracer.log is None or path is None or standing is None:
            return watch(module, args, kwargs)
        forms = Forms(tracer, self._recorder._known)
        form = None
        with suppress(NoForm), torch._C.DisableTorchFunction():
            form = forms.arguments(args, kwargs)
        if form is None:
            return watch(module, args, kwargs)  # here: no error of the program gets a context
        call = _Call(path, form, forms, standing, tracer.user_frame())
        earlier = self._calls.get(type(module))
        if earlier is not None:
            for known in tuple(reversed(earlier)):
                if _is_like(known, call):
                    player = self._ready(known, module, path)
                    if player is not None:
                        return self._replay(player, known, forms, module, args, kwargs)
        return self._watch(call, watch, module, args, kwargs)

    # -- watching --------------------------------------------------------------------------------

    def _watch(
        self,
        call: _Call,
        watch: Callable[..., object],
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        tracer = self._tracer
        graph = self._recorder.graph
        log = tracer.log
        assert log is not None, "no call is watched without a log"
        call.start, call.first, before = len(log), graph._root.prev, len(tracer.guards)
        result = watch(module, args, kwargs)
        standing = self._state_snapshot()
        if tracer.log is not log or standing is None:
            return result
        if not tracer.active or not _is_same(standing, call.standing):
            return result
        call.end, call.last = len(log), graph._root.prev
        call.guards = (before, len(tracer.guards))
        if call.end - call.start >= _SHORTEST:
            with suppress(NoForm):
                call.result = result_form(result, tracer, self._recorder._known, set())
                self._calls.setdefault(type(module), deque(maxlen=_MOST)).append(call)
        return result

    def _state_snapshot(self) -> tuple[object, ...] | None:
        """All that a call may leave changed besides the log, and the modes that it runs in; None
        while something is asked that a check expects."""
        tracer, recorder, hooks = self._tracer, self._recorder, self._hooks
        journal, outside, changes = hooks.journal, hooks.outside, recorder.changes
        if tracer.runtime_asserts:
            return None
        segment = recorder.segment
        return (
            tracer.facts,
            segment,
            (read_state(), journal.size, recorder.checkpoint is None),
            len(tracer.symbols),
            len(segment.expectations),
            len(segment.numbers),
            len(segment.outputs),
            len(segment.generators),
            len(recorder._of_data),
            len(recorder._origins),
            len(recorder.defects),
            recorder.changes_state,
            recorder.checks_forms,
            changes.unseen,
            changes.draws_apart,
            len(changes._written),
            len(outside.owners),
            len(outside._viewed),
        )

    # -- replaying -------------------------------------------------------------------------------

    def _ready(self, call: _Call, module: torch.nn.Module, path: Path) -> Replayer | None:
        if _is_below(path, call.path) or _is_below(call.path, path):
            return None
        if call.recording is None:
            try:
                call.recording = self._recording(call)
            except NotReplayed:
                self._calls[type(module)].remove(call)
                return None
        player = Replayer(call.recording, self._tracer, self._recorder, module, path)
        with torch._C.DisableTorchFunction():
            return player if player.may() else None

    def _recording(self, call: _Call) -> LayerTrace:
        if any(_is_below(path, call.path) for path in call.externals):
            raise NotReplayed("an argument is a part of the module")
        log = self._tracer.log
        assert log is not None, "no call is watched without a log"
        with torch._C.DisableTorchFunction():
            return record(
                self._tracer,
                call.path,
                log[call.start : call.end],
                call.arguments,
                tensors_in(call.result),
                *call.guards,
                call.nodes(),
            )

    def _replay(
        self,
        player: Replayer,
        call: _Call,
        forms: Forms,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        given = dict(zip(call.arguments, forms.tensors.values(), strict=True))
        random = default_generators.get_state() if player.recording.draws else None
        try:
            with torch._C.DisableTorchFunction():
                player.play(given)
            switch.replayed += 1
            return built(call.result, player.tensors, self._tracer)
        except BaseException as error:
            # As the operation would have been left, had it been watched.
            self._tracer.abort(str(error))
            self._tracer.lent_frame = None
            expected = isinstance(error, ReplayMismatch | AbortCapture)
            if not isinstance(error, Exception):
                raise
            if not expected and config.on_compile_error == "raise":
                raise
        # Nothing has been changed so far, and the program may know what to do.
        if random is not None:
            default_generators.set_state(random)
        return untraced(module)(
            *map(untraced, args), **{name: untraced(each) for name, each in kwargs.items()}
        )


def _is_like(one: _Call, other: _Call) -> bool:
    """Whether two calls begin alike."""
    return (
        one.standing[0] is other.standing[0]
        and one.standing[2] == other.standing[2]
        and one.frame == other.frame
        and one.form == other.form
    )


def _is_same(one: tuple[Any, ...], other: tuple[object, ...]) -> bool:
    return one[0] is other[0] and one[1] is other[1] and one[2:] == other[2:]


def _is_below(path: Path | None, other: Path) -> bool:
    """Whether a path goes through another, or is it."""
    while path is not None:
        if path is other:
            return True
        path = path.parent
    return False
