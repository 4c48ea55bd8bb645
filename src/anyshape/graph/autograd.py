"""What autograd and its modes have to do with a graph.

Native code makes plain tensors: nothing records how they came about. So whether autograd has a part
in a graph is decided here, once and for a whole graph, by what the capture saw of every result, and
not by operators: a graph with a result that autograd recorded runs as it is. What native code makes
is asked again where it is made (`Lowering`), since a tensor may say that it requires grad where
nothing is recorded: a parameter, and any view of one.

Where a graph changes the grad mode or inference mode, what was made before it is made before it. A
tensor is an inference tensor if it was made in that mode, and a view has a history if it was made
where autograd records. Expressions and views of a lowering are made where somebody needs them; so
all of them are made where the mode changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.fx

from anyshape.graph.aliasing import Several, TensorView, several
from anyshape.graph.fallback import Calling, entangle
from anyshape.graph.plan import PythonCall, Unlowerable, leaves
from anyshape.ops.bind import works_in_place
from anyshape.ops.meta import Meta
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.node_meta import CALL, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.table import lookup

#: Modes that a tensor keeps the mark of.
_LASTING = frozenset({"inference_mode"})


class Settling(Calling):
    """Changes of modes."""

    #: whether autograd recorded at the operator before, if there was one
    _records: bool | None = None
    #: modes that the graph is in, innermost last: whether tensors keep their mark
    _entered: tuple[bool, ...] = ()

    def _see_modes(self, node: torch.fx.Node) -> None:
        """To be called with each node before it is lowered."""
        changes = False
        if CALL in node.meta:
            records = UNRECORDED not in node.meta
            if node.target is torch._C._set_grad_enabled:
                changes = self._records not in (None, records)
            self._records = records
        elif node.target is enter_mode:
            changes = node.args[0] in _LASTING
            self._entered = (*self._entered, changes)
        elif node.target is leave_mode:
            changes = not self._entered or self._entered[-1]
            self._entered = self._entered[:-1]
        if changes:
            self._settle()

    def _settle(self) -> None:
        """Make all tensors that are needed later."""
        made: dict[int, object] = {}
        for node, held in list(self._env.items()):
            self._env[node] = self._made_now(held, made)

    def _made_now(self, held: object, made: dict[int, Any]) -> object:
        if isinstance(held, TensorView):
            if not held.is_view:
                self.materialize_storage(held.root)
                return held
            if id(held) not in made:
                made[id(held)] = held, self._view_now(held)
            return made[id(held)][1]
        if type(held) is Several:
            return several(held.name, [self._made_now(each, made) for each in held])
        if isinstance(held, tuple | list):
            return type(held)(self._made_now(each, made) for each in held)
        return held

    def _view_now(self, handle: TensorView) -> object:
        ref = self._references(handle)
        name, own = self._name("c"), self._name("t")
        self.steps.append(PythonCall("call_function", _itself, (ref,), {}, name, ((own, ()),)))
        found = self._given(own, handle.meta)
        if isinstance(found, TensorView):
            entangle([handle.root, found.root])
        return found


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def refuse_recorded(nodes: Iterable[torch.fx.Node]) -> None:
    """Raise `Unlowerable` if autograd records any of these nodes."""
    if is_recorded(nodes):
        raise Unlowerable("a result requires grad")


def is_recorded(nodes: Iterable[torch.fx.Node]) -> bool:
    """Whether autograd records any of these nodes."""
    for node in nodes:
        call = node.meta.get(CALL)
        if call is None or UNRECORDED in node.meta:
            continue
        if RESULT not in node.meta:
            # `x[i] = v` gives nothing: `x` requires grad from then on if `v` does.
            recorded = requires_grad((call.args, call.kwargs))
        else:
            result = node.meta[RESULT]
            recorded = requires_grad(result) and not _returns_its_argument(call, result)
        if recorded:
            return True
    return False


def _returns_its_argument(call: RecordedCall, result: object) -> bool:
    """Whether a call gives back what it was given, and has done nothing to it."""
    entry = lookup(call.function)
    if entry is None or works_in_place(call.function, call.args, call.kwargs):
        return False
    return any(each is result for each in call.args)


def requires_grad(tree: object) -> bool:
    """Whether any tensor among results or arguments does."""
    return any(isinstance(leaf, Meta) and leaf.requires_grad for leaf in leaves(tree))
