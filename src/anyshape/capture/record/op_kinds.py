"""What is known of a torch operation by the function that is called."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.capture.record.bound_call import CallForms, name_of
from anyshape.capture.record.data_dependent_shapes import is_jagged_method
from anyshape.ops.meta import Meta
from anyshape.ops.op import OpKind
from anyshape.ops.table import lookup

#: Marks functions of ours that stand for code of the program.
RUNS_PYTHON: Final = "_anyshape_runs_python"

#: They switch a mode of torch.
STATE_CHANGES: Final = frozenset({torch._C._set_grad_enabled})

#: `x.data` shares the memory of `x`, and not its version.
ALIASES_UNSEEN: Final = frozenset({vars(torch._C.TensorBase)["data"].__get__})

#: They update running statistics, arguments after the first, without a new version.
_STATISTICS: Final = re.compile("batch_norm|instance_norm")

#: Pointwise, and yet not defined for every integer.
_DIVISIONS: Final = re.compile("floor_?div|remainder|fmod|mod__|divide|^div_?$")

#: Operators whose failure does not depend on what is in the tensors.
_NEVER_RAISES: Final = frozenset(
    {OpKind.POINTWISE, OpKind.REDUCTION, OpKind.VIEW, OpKind.MATMUL, OpKind.FACTORY}
)

#: Parts of names of operators that draw random numbers.
_RANDOM: Final = re.compile(
    "rand|drop|bernoulli|multinomial|normal|poisson|uniform|exponential|geometric|cauchy|binomial"
    "|dirichlet|gamma|rrelu|gumbel|scaled_dot_product_attention|lstm|gru|rnn"
)


@functools.lru_cache(maxsize=4096)
def may_draw(function: Callable[..., Any]) -> bool:
    """Whether it may draw random numbers, with other arguments if not with these."""
    return runs_python(function) or _RANDOM.search(name_of(function).lower()) is not None


def runs_python(function: Callable[..., Any]) -> bool:
    """Whether it is a function with its own gradient, whose code is the program's."""
    return getattr(function, RUNS_PYTHON, False)


def may_raise(function: Callable[..., Any], call: CallForms) -> bool:
    """Whether it may fail because of what is in a tensor."""
    always, on_integers = _raises(function)
    return always or (on_integers and _has_integers((call.metas, call.meta_kwargs)))


@functools.lru_cache(maxsize=4096)
def _raises(function: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether it may fail on any tensors; on positions and divisors that are whole numbers."""
    entry = lookup(function)
    if entry is None:
        return True, True
    kind = entry.op.lowering
    is_division = _DIVISIONS.search(name_of(function)) is not None
    return kind not in (*_NEVER_RAISES, OpKind.INDEX_MAP), (is_division or kind is OpKind.INDEX_MAP)


def _has_integers(tree: Any) -> bool:
    """Whether a tensor among arguments is neither of floats nor of complex numbers."""
    if isinstance(tree, Meta):
        return not (tree.dtype.is_floating_point or tree.dtype.is_complex)
    if isinstance(tree, dict):
        return any(map(_has_integers, tree.values()))
    return isinstance(tree, tuple | list) and any(map(_has_integers, tree))


@functools.lru_cache(maxsize=4096)
def writes_statistics(function: Callable[..., Any]) -> bool:
    name = str(function) if isinstance(function, OpOverload) else name_of(function)
    return _STATISTICS.search(name) is not None


def is_in_place(function: Callable[..., Any], call: CallForms, result: Any) -> bool:
    """Whether it changes an argument."""
    entry = lookup(function)
    if result is None or (entry is not None and entry.in_place) or is_mutable(function):
        return True
    name, named = name_of(function), call.plain_kwargs
    return (
        (name.endswith("_") and not name.endswith("__"))
        or name.startswith(("__i", "__set"))
        or "out" in named
        or named.get("inplace", False) is not False
    )


def is_mutable(function: Callable[..., Any]) -> bool:
    """Whether an operator of a library says that it changes an argument: its kernel need not tell
    autograd."""
    if isinstance(function, OpOverload):
        return function._schema.is_mutable
    if isinstance(function, OpOverloadPacket):
        return any(getattr(function, name)._schema.is_mutable for name in function.overloads())
    return False


def target_of(function: Callable[..., Any]) -> Any:
    """What the graph calls: methods by name, properties by getattr."""
    if getattr(torch.Tensor, name_of(function), None) is function or is_jagged_method(function):
        return name_of(function)
    if getattr(function, "__name__", None) == "__get__":
        return ("getattr", name_of(function))
    return function
