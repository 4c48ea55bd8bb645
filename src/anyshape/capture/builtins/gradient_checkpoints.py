"""`torch.utils.checkpoint`: the function that it calls is followed, and what it computes is marked,
so that it is computed again for its gradients (`graph/checkpoint_regions.py`).

The call that is captured runs under torch's own checkpoint. What a compiled run would not do again
in the backward as eager code does, effects above all, is left to that for good.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import ne
from typing import Any, Final

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils import checkpoint as checkpoints

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.control_flow import Stretch, values_of
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.externals.untrace import untraced
from anyshape.support.random_state import default_generators

_USUAL: Final[Any] = vars(checkpoints)["_DEFAULT_DETERMINISM_MODE"]
_around: Final[Any] = vars(checkpoints)["_checkpoint_without_reentrant_generator"]


def _checkpoint(
    hooks: Hooks,
    function: Any,
    *args: Any,
    use_reentrant: object = None,
    context_fn: object = checkpoints.noop_context_fn,
    determinism_check: Any = _USUAL,
    debug: object = False,
    early_stop: Any = True,
    preserve_rng_state: Any = True,
    **kwargs: Any,
) -> object:
    if type(use_reentrant) is not bool or type(preserve_rng_state) is not bool:
        raise AbortCapture("`checkpoint` that is not told `use_reentrant`")
    if debug or context_fn is not checkpoints.noop_context_fn:
        raise AbortCapture("`checkpoint` with contexts of the program's own")
    if use_reentrant and (kwargs or not torch.is_grad_enabled() or not _any_grad(args)):
        raise AbortCapture("`checkpoint` of tensors without gradients, or with names")
    recorder = hooks.recorder
    if not torch.is_grad_enabled() or hooks.grads is not None:
        return hooks.call(function, *args, **kwargs)  # Nothing is kept.
    outer = recorder.checkpoint
    if outer is not None:
        if use_reentrant:
            raise AbortCapture("`checkpoint` inside of another one")
        outer.has_others = True
    own, before, again = outer or _Region(), _Before(hooks), _Again(function)
    with torch._C.DisableTorchFunction():
        options = preserve_rng_state, checkpoints.noop_context_fn, determinism_check, False
        stops = early_stop and not use_reentrant
        around = _around(again, *options, stops, *args, **kwargs)
        next(around)
    # One inside of another one is computed again with that.
    recorder.checkpoint = own
    try:
        stretch = Stretch(
            hooks, "`checkpoint`", lambda *given: hooks.call(function, *given, **kwargs), args
        )
    except BaseException as error:
        with torch._C.DisableTorchFunction():
            around.throw(error)
        raise
    finally:
        recorder.checkpoint = outer
    with torch._C.DisableTorchFunction():
        next(around, None)
        if not hooks.tracer.active:
            return stretch.result
        why = stretch.why or before.changed(stretch)
        if why is None and not preserve_rng_state and before.has_drawn():
            why = "`checkpoint` draws other random numbers in the backward"
        if why is None and use_reentrant and not _is_plain(stretch.result, args):
            why = "`checkpoint` gives what has no gradient"
        if why is None and not own.has_others:
            again.as_recorded(hooks, stretch)
    if why is None:
        return stretch.result
    # Done already, and right: the next call is split here.
    hooks.tracer.abort(why)
    return untraced(stretch.result)


class _Region:
    """Stands for a call in the graph, and holds none of its tensors."""

    #: whether there are others inside of it
    has_others = False


class _Again:
    """The function in the backward, when nobody watches any more: what it did, if there is nothing
    else to it, since that need not be what torch's own functions would do."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._recorded: Callable[[], Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._recorded is not None:
            return self._recorded()
        return untraced(self._function)(
            *map(untraced, args), **{name: untraced(each) for name, each in kwargs.items()}
        )

    def as_recorded(self, hooks: Hooks, stretch: Stretch) -> None:
        nodes = [node for node in stretch.nodes() if node.op != "placeholder"]
        own = set(nodes)
        inputs = list(dict.fromkeys(e for n in nodes for e in n.all_input_nodes if e not in own))
        try:
            values = values_of(hooks, inputs)
        except AbortCapture:
            return
        graph = torch.fx.Graph()
        copies = {each: graph.placeholder(each.name) for each in inputs}
        for node in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(None)
        module = _LazyGraphModule(torch.nn.Module(), graph)
        self._function = None
        self._recorded = lambda: module(*values)


def _any_grad(args: tuple[object, ...]) -> bool:
    with torch._C.DisableTorchFunction():
        return any(isinstance(each, torch.Tensor) and each.requires_grad for each in args)


def _is_plain(result: object, args: tuple[object, ...]) -> bool:
    """Whether all of a result is what a function of autograd makes of it, of which any input has a
    gradient."""
    results = result if type(result) is tuple else (result,)
    given = {id(each) for each in args}
    return all(
        isinstance(each, torch.Tensor)
        and id(each) not in given
        and (each.requires_grad or not (each.is_floating_point() or each.is_complex()))
        for each in results
    )


class _Before:
    """What was there before the function ran."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._state = default_generators.get_state()
        self._kept = self._sizes()
        self._numbers = len(hooks.recorder._origins)
        known: list[Any] = [each.alive for each in hooks.recorder._known.values()]
        with torch._C.DisableTorchFunction():
            alive = [each() if isinstance(each, weakref.ref) else each for each in known]
            self._versions = [(each, _version(each)) for each in alive if each is not None]

    def _sizes(self) -> tuple[object, ...]:
        recorder = self._hooks.recorder
        segment, changes = recorder.segment, recorder.changes
        numbers = len(segment.numbers), len(segment.expectations)
        written = len(changes._written), changes.unseen
        return self._hooks.journal.size, numbers, written

    def has_drawn(self) -> bool:
        return default_generators.drawn_since(self._state)

    def changed(self, stretch: Stretch) -> str | None:
        """Why the function cannot simply be computed again, if so."""
        for differs, what in zip(map(ne, self._sizes(), self._kept), _HAS, strict=True):
            if differs:
                return f"`checkpoint` calls {what}{self._made() if what is _DATA else ''}"
        found = [*self._versions]
        known = {id(each) for each, _ in found}
        found += [
            (each, version)
            for _, each, version in self._hooks.recorder.changes.externals
            if id(each) not in known
        ]
        if stretch.writes and any(_version(each) != version for each, version in found):
            return "`checkpoint` calls a function that writes to tensors"
        return None

    def _made(self) -> str:
        """The line that makes the first number that depends on data."""
        made = list(self._hooks.recorder._origins.values())[self._numbers :]
        return f", by {made[0]}" if made else ""


_DATA: Final = "a function that makes sizes or numbers which are known only when it runs"
#: What it is about a function, by what differs.
_HAS: Final = ("a function with effects", _DATA, "a function that writes to tensors")


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


MODELS: Final[Models] = {checkpoints.checkpoint: _checkpoint}
