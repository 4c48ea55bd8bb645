"""A graph changes the grad mode or inference mode: what was made before it is made before it.

A tensor is an inference tensor if it was made in that mode, and a view has a history if it was made
where autograd records. Expressions and views of a lowering are made where somebody needs them; so
all of them are made where the mode changes.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from anyshape.graph.aliasing import Several, TensorView, several
from anyshape.graph.fallback import Calling, entangle
from anyshape.graph.plan import PythonCall
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.node_meta import CALL, UNRECORDED

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
        made: dict[int, Any] = {}
        for node, held in list(self._env.items()):
            self._env[node] = self._made_now(held, made)

    def _made_now(self, held: Any, made: dict[int, Any]) -> Any:
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

    def _view_now(self, handle: TensorView) -> Any:
        ref = self._references(handle)
        name, own = self._name("c"), self._name("t")
        self.steps.append(PythonCall("call_function", _itself, (ref,), {}, name, ((own, ()),)))
        found = self._given(own, handle.meta)
        if isinstance(found, TensorView):
            entangle([handle.root, found.root])
        return found


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
