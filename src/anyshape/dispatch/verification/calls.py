"""Which calls are verified, and one call verified: eager on copies, then the entry, then a look at
what both left behind."""

from __future__ import annotations

import contextvars
import functools
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import torch
import torch.fx

from anyshape.backends.reproduction import write_difference
from anyshape.capture.record.torch_state import read_state
from anyshape.capture.trace import Store
from anyshape.config import config
from anyshape.dispatch.arguments import as_given, by_parameter
from anyshape.dispatch.callable_target import Target
from anyshape.dispatch.dynamic_int_arguments import plain_call
from anyshape.dispatch.verification.compare import Comparison
from anyshape.dispatch.verification.copies import Copies
from anyshape.dispatch.verification.places import WrittenPlace, places_of
from anyshape.dispatch.verification.random_states import (
    differing_generators,
    random_states,
    restore_random_states,
)
from anyshape.dispatch.verification.tensor_copies import CannotCopy
from anyshape.errors import VerificationError
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.guards.explain import first_failure
from anyshape.guards.guard import EntryPlan
from anyshape.runtime.program import GraphFailed
from anyshape.runtime.trace_tree import SideExit
from anyshape.support.lazy_dataclass import replace


class VerifiedEntry(Protocol):
    """A compiled entry, as far as its calls are verified."""

    id: str
    plan: EntryPlan
    graphs: list[torch.fx.GraphModule]
    #: what its programs write outside of themselves
    stores: list[Store]
    #: whether its graphs change nothing but tensors of their own
    repeatable: bool
    #: how many of its calls were verified
    verified: int
    #: why none can be, once that is known
    not_verified: str


class _ThisThread(threading.local):
    """The calls that a thread is in, and whether it runs eagerly to verify one of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.is_eager = False


_this_thread: Final = _ThisThread()
#: Copies stand in places that all threads see: one verification at a time puts them there.
_places_lock: Final = threading.RLock()
#: The program's own random numbers are not touched.
_chance: Final = random.Random()


def runs_eagerly() -> bool:
    """Whether this thread runs a program eagerly, to verify a call of it."""
    return _this_thread.is_eager


class VerifiedCalls:
    """The calls of one function. Its dispatcher is made of the plans that `plan` gives, and is
    called through what `dispatch` gives."""

    def __init__(self, target: Target, check_signature: Callable[[], None]) -> None:
        self._target = target
        self._check_signature = check_signature

    def dispatch(self, dispatcher: Callable[..., Any]) -> Callable[..., Any]:
        """The dispatcher, with the arguments of its call at hand for `plan`."""

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            if _this_thread.is_eager:
                return self._target.call(*args, **kwargs)
            self._check_signature()
            _this_thread.calls.append((args, kwargs))
            try:
                return dispatcher(*args, **kwargs)
            finally:
                _this_thread.calls.pop()

        return dispatch

    def plan(self, entry: VerifiedEntry) -> EntryPlan:
        """The plan of an entry, which verifies calls as the settings say."""
        run = functools.partial(self._run, entry, entry.plan)
        return replace(entry.plan, run=run)

    def _run(self, entry: VerifiedEntry, plan: EntryPlan, *inputs: Any) -> Any:
        if entry.not_verified or not _is_due(entry):
            return plan.run(*inputs)
        try:
            call = _Call(self._target, entry, *_this_thread.calls[-1])
        except CannotCopy as error:
            entry.not_verified = str(error)
            name, reason = self._target.name, entry.not_verified
            stream.emit(kinds.NotVerified(name, reason, compile_id=entry.id))
            return plan.run(*inputs)
        entry.verified += 1
        return call.verify(plan, inputs)


def _is_due(entry: VerifiedEntry) -> bool:
    wanted = config.verify_calls
    if isinstance(wanted, int):
        return entry.verified < wanted
    return _chance.random() < wanted


class _Outcome:
    """What a run returned or raised, and how it left generators, modes and context variables.
    With a context of its own, what it sets there is not seen by the program."""

    def __init__(
        self, function: Callable[[], Any], context: contextvars.Context | None = None
    ) -> None:
        self.result: Any = None
        self.error: Exception | None = None
        try:
            self.result = function() if context is None else context.run(function)
        except Exception as error:
            self.error = error.with_traceback(None)
        self.random = random_states()
        self.state = read_state()
        self.context = context or contextvars.copy_context()

    @property
    def raised(self) -> Exception | None:
        """The error of the program."""
        return self.error.error if isinstance(self.error, GraphFailed) else self.error


class _Call:
    """One call: the copies for eager, and the comparison."""

    def __init__(
        self, target: Target, entry: VerifiedEntry, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        _refuse_effects(entry)
        self._target = target
        self._entry = entry
        args, kwargs = plain_call(args, kwargs)
        call = target.signature.bind(*args, **kwargs)
        call.apply_defaults()
        self._bound = dict(call.arguments)
        self._copies = Copies(share_parameters=entry.repeatable)
        self._copied_call = self._copies.of(target.call)
        self._copied: dict[str, Any] = {
            name: self._copies.of(value) for name, value in self._bound.items()
        }
        self._context = contextvars.copy_context()
        self._places = places_of(entry.plan.inputs, entry.stores, self._copies)

    def verify(self, plan: EntryPlan, inputs: tuple[Any, ...]) -> Any:
        """Serve the call, then compare. The entry goes first: where it has no answer, the program
        runs for real after all, and must not have run before."""
        random_before, grad_before = random_states(), torch.is_grad_enabled()
        examples = _kept(inputs)
        ours = _Outcome(lambda: plan.run(*inputs))
        if isinstance(ours.error, SideExit) or (
            isinstance(ours.error, GraphFailed) and ours.error.repeatable
        ):
            raise ours.error
        grad_after, failure = torch.is_grad_enabled(), self._failure()
        try:
            torch._C._set_grad_enabled(grad_before)
            restore_random_states(random_before)
            eager = self._eager()
        finally:
            torch._C._set_grad_enabled(grad_after)
            restore_random_states(ours.random)
        found = [*self._leaks(failure), *self._differences(ours, eager)]
        if found:
            self._tell(found, examples, ours.raised)
        if ours.error is not None:
            raise ours.error
        return ours.result

    def _eager(self) -> _Outcome:
        args, kwargs = as_given(by_parameter(self._target.signature, self._copied))
        with _places_lock:
            put: list[WrittenPlace] = []
            _this_thread.is_eager = True
            try:
                for place in self._places:
                    put.append(place)
                    place.put()
                context = self._context.copy()
                return _Outcome(lambda: self._copied_call(*args, **kwargs), context)
            finally:
                _this_thread.is_eager = False
                for place in put:
                    place.put_back()

    def _failure(self) -> str:
        """What would keep the entry from serving the call again."""
        failure = first_failure(self._entry.plan, self._bound, read_state)
        return "" if failure is None else failure.sentence

    def _leaks(self, before: str) -> list[str]:
        """What eager has changed of the originals: the entry does not know that the program does
        that."""
        changed = self._copies.tensors.changed()
        if changed:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in changed[:4])
            return [f"eager changes parameters that the entry does not change (sizes {shapes})"]
        after = self._failure()
        text = "eager changes what the entry does not know to be changed"
        return [] if after == before else [f"{text}: {after or before}"]

    def _differences(self, ours: _Outcome, eager: _Outcome) -> list[str]:
        compared = Comparison(self._copies.by_themselves)
        for name, value in self._bound.items():
            compared.compare(value, self._copied[name], f"L[{name!r}]")
        compared.compare(self._target.call, self._copied_call, self._target.called)
        for place in self._places:
            compared.compare(place.ours, place.eager, place.text)
        for variable in {*ours.context, *eager.context}:
            mine, other = ours.context.get(variable), eager.context.get(variable)
            if mine is not self._context.get(variable) or other is not mine:
                compared.compare(mine, other, variable.name)
        compared.begin_results()
        if ours.raised is None and eager.error is None:
            compared.compare(ours.result, eager.result, "result")
        elif not _same_errors(ours.raised, eager.error):
            mine, other = _said(ours.raised), _said(eager.error)
            compared.differ("the call", f"{mine}, where eager {other}")
        for name in differing_generators(ours.random, eager.random):
            compared.differ(name, "has another state than after eager")
        if ours.state != eager.state:
            compared.differ("torch's modes", f"{ours.state}, where eager has {eager.state}")
        return compared.found

    def _tell(self, found: Sequence[str], examples: Sequence[Any], cause: Exception | None) -> None:
        entry, name = self._entry, self._target.name
        listed = "\n".join(found)
        text = f"A compiled call of {name} ({entry.id}) differs from eager:\n\n{listed}\n"
        path = write_difference(entry.graphs, examples, text)
        file = "" if path is None else str(path)
        if config.on_verify == "raise":
            raise VerificationError(
                function=name, entry=entry.id, differences=tuple(found), file=file
            ) from cause
        stream.emit(kinds.VerificationFailed(name, tuple(found), file, compile_id=entry.id))


def _refuse_effects(entry: VerifiedEntry) -> None:
    """`CannotCopy` if a run does something that would be done twice."""
    for store in entry.stores:
        if store.is_call:
            name = getattr(store.key, "__qualname__", type(store.key).__qualname__)
            raise CannotCopy(f"it calls {name} for its effect, which would be done twice")
    for graph in entry.graphs:
        for node in graph.graph.nodes:
            if node.op == "call_function" and _is_collective(node.target):
                raise CannotCopy(f"it talks to other ranks ({node.target})")


def _is_collective(target: Any) -> bool:
    namespace = getattr(target, "namespace", "")
    module = getattr(target, "__module__", "") or ""
    return "c10d" in namespace or module.startswith("torch.distributed")


#: So many bytes of inputs are kept for a reproduction.
_MOST_KEPT: Final = 1 << 26


def _kept(inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs of the graph as they are before the run, if they are not too large."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if sum(tensor.nbytes for tensor in tensors if tensor.layout is torch.strided) > _MOST_KEPT:
        return ()
    with torch.inference_mode(False), torch.no_grad():
        return [
            value.detach().clone() if isinstance(value, torch.Tensor) else value for value in inputs
        ]


def _same_errors(ours: Exception | None, theirs: Exception | None) -> bool:
    return type(ours) is type(theirs) and str(ours) == str(theirs)


def _said(error: Exception | None) -> str:
    return "returns" if error is None else f"raises {error!r}"
