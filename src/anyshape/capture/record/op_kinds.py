"""What is known of a torch operation by the function that is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from anyshape.capture.record.bound_call import CallForms, name_of
from anyshape.capture.record.data_dependent_shapes import is_jagged_method
from anyshape.ops import effects
from anyshape.ops.effects import runs_python
from anyshape.ops.meta import Meta

#: They switch a mode of torch.
STATE_CHANGES: Final = frozenset({torch._C._set_grad_enabled})

#: `x.data` shares the memory of `x`, and not its version.
ALIASES_UNSEEN: Final = frozenset({vars(torch._C.TensorBase)["data"].__get__})


def may_draw(function: Callable[..., object]) -> bool:
    """Whether it may draw random numbers, with other arguments if not with these."""
    return runs_python(function) or effects.may_draw(function)


def may_raise(function: Callable[..., object], call: CallForms) -> bool:
    """Whether it may fail because of what is in a tensor."""
    return effects.raises_on_any(function, call.plain_args, call.plain_kwargs) or (
        effects.raises_on_integers(function, call.plain_kwargs)
        and _has_integers((call.metas, call.meta_kwargs), effects.waits_for_integers(function))
    )


def _has_integers(tree: object, waits: int) -> bool:
    """Whether a tensor among arguments is neither of floats nor of complex numbers. A GPU tells of
    a bad position when nothing can be made again any more: such a call does not fail, unless it
    `waits` for tensors of so few dimensions."""
    if isinstance(tree, Meta):
        is_of_floats = tree.dtype.is_floating_point or tree.dtype.is_complex
        return not is_of_floats and (tree.rank <= waits or tree.device.type == "cpu")
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return isinstance(tree, tuple | list) and any(_has_integers(each, waits) for each in tree)


def is_in_place(function: Callable[..., object], call: CallForms, result: object) -> bool:
    """Whether it changes an argument."""
    return result is None or effects.changes_argument(function, call.plain_args, call.plain_kwargs)


def may_write(function: Callable[..., object], kwargs: Mapping[str, object]) -> bool:
    """Whether it changes an argument, as far as can be told before it is called."""
    name = name_of(function)
    in_place = name.endswith("_") and not name.endswith("__")
    in_place |= name.startswith("__i") and name not in effects.READING
    if in_place or name == "__setitem__" or runs_python(function):
        return True
    asked = kwargs.get("out") is not None or bool(kwargs.get("inplace"))
    return asked or effects.is_mutable(function) or effects.writes_untold(function)


def target_of(function: Callable[..., object]) -> Any:
    """What the graph calls: methods by name, properties by getattr."""
    if getattr(torch.Tensor, name_of(function), None) is function or is_jagged_method(function):
        return name_of(function)
    if getattr(function, "__name__", None) == "__get__":
        return ("getattr", name_of(function))
    return function
