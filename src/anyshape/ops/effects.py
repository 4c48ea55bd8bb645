"""What operators do beside giving a result: draw random numbers, write to arguments, fail.

Of operators with a row that is data of the row. Of others torch's schemas and tags tell it; where
they do not, the answer is the one that is safe.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.ops.bind import Unbound, bind_match, works_in_place
from anyshape.ops.kernel_launch import KernelLaunch
from anyshape.ops.op import OpKind
from anyshape.ops.origins import is_of_torch
from anyshape.ops.signature import signature_of
from anyshape.ops.table import OpMatch, lookup

#: Operators that do not fail because of what is in tensors, unless that are integers.
_FAILS_ON_INTEGERS: Final = frozenset(
    {
        *(OpKind.POINTWISE, OpKind.REDUCTION, OpKind.VIEW, OpKind.MATMUL, OpKind.FACTORY),
        OpKind.INDEX_MAP,
    }
)

#: Operators without a row that write to statistics, which their schemas do not say.
_WRITE_UNTOLD: Final = frozenset(
    {
        *("_batch_norm_impl_index", "batch_norm_gather_stats", "batch_norm_update_stats"),
        *("batch_norm_gather_stats_with_counts", "cudnn_batch_norm", "miopen_batch_norm"),
    }
)

#: Namespaces whose operators have torch's tags.
_TAGGED: Final = ("aten", "prims", "quantized", "_quantized", "sparse", "quantized_decomposed")


def may_draw(function: Callable[..., Any]) -> bool:
    """Whether it may draw random numbers, with other arguments if not with these."""
    # What is remembered must not keep the program's kernels alive. They have their own generators.
    return not isinstance(function, KernelLaunch) and _may_draw(function)


@functools.lru_cache(maxsize=4096)
def _may_draw(function: Callable[..., Any]) -> bool:
    match = lookup(function)
    if match is not None:
        return match.op.effects.draws
    overloads = list(_overloads(function))
    if overloads:
        return any(map(_is_seeded, overloads))
    # Code in Python, or native code that is no operator: of torch's own only what is an operator
    # draws, and functions that are written in Python.
    return not is_of_torch(function) or hasattr(function, "__code__")


def _is_seeded(overload: OpOverload) -> bool:
    if torch.Tag.nondeterministic_seeded in overload.tags:
        return True
    return overload.namespace not in _TAGGED


def _overloads(function: Callable[..., Any]) -> Iterator[OpOverload]:
    """The operators of torch's library that a function may call: those of its name."""
    if isinstance(function, OpOverload):
        yield function
        return
    packet: Any = function
    if not isinstance(function, OpOverloadPacket):
        name = _name_of(function)
        packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    if isinstance(packet, OpOverloadPacket):
        for name in packet.overloads():
            yield getattr(packet, name)


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or ""


# -- writes ----------------------------------------------------------------------------------------


def gives_nothing(function: Callable[..., Any]) -> bool:
    """Whether it is an operator that only writes: no schema of its name has results."""
    overloads = list(_overloads(function))
    return bool(overloads) and not any(each._schema.returns for each in overloads)


def is_mutable(function: Callable[..., Any]) -> bool:
    """Whether an operator of a library says that it changes an argument: its kernel need not tell
    autograd."""
    if isinstance(function, KernelLaunch):
        return True
    if not isinstance(function, OpOverload | OpOverloadPacket):
        return False
    return any(each._schema.is_mutable for each in _overloads(function))


def may_write(function: Callable[..., Any]) -> bool:
    """Whether a function without a row may change an argument, by the schemas of its name."""
    if writes_untold(function) or is_mutable(function):
        return True
    given = [arg for each in _overloads(function) for arg in each._schema.arguments]
    return any(
        arg.alias_info is not None and arg.alias_info.is_write
        for arg in given
        if not arg.kwarg_only
    )


#: Marks functions of ours that stand for code of the program.
RUNS_PYTHON: Final = "_anyshape_runs_python"
#: What their names begin with, before that of the class that they apply.
APPLY: Final = "apply_"


def runs_python(function: Callable[..., object]) -> bool:
    """Whether it is a function with its own gradient, whose code is the program's."""
    return getattr(function, RUNS_PYTHON, False)


def is_pure_extension(function: Callable[..., Any]) -> bool:
    """Whether it is an operator of another library than torch's whose schema says that it writes to
    nothing, and that its results are tensors of their own."""
    if not isinstance(function, OpOverload | OpOverloadPacket):
        return False
    overloads = list(_overloads(function))
    values = [v for each in overloads for v in (*each._schema.arguments, *each._schema.returns)]
    is_of_others = all(each.namespace not in _TAGGED for each in overloads)
    return is_of_others and all(value.alias_info is None for value in values)


def writes_untold(function: Callable[..., Any]) -> bool:
    """Whether it may write to arguments after the first, without a new version: statistics."""
    return not isinstance(function, KernelLaunch) and _writes_untold(function)


def schema_of_extension(function: Callable[..., Any]) -> Any:
    """The schema of an operator of another library than torch's; None of anything else."""
    if isinstance(function, OpOverloadPacket) and len(function.overloads()) == 1:
        function = getattr(function, function.overloads()[0])
    if not isinstance(function, OpOverload) or function.namespace in _TAGGED:
        return None
    return function._schema


def may_be_written(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arguments that a function without a row may write to: all of them, unless the schema of
    an operator says that it only reads some."""
    schema = schema_of_extension(function)
    if schema is None:
        return [*args, *kwargs.values()]
    named = {**dict(zip((each.name for each in schema.arguments), args, strict=False)), **kwargs}
    read = {each.name for each in schema.arguments if each.alias_info is None}
    return [value for name, value in named.items() if name not in read]


@functools.lru_cache(maxsize=4096)
def _writes_untold(function: Callable[..., Any]) -> bool:
    match = lookup(function)
    if match is not None:
        return match.op.effects.untold
    name = _name_of(function).partition(".")[0]  # of one overload: `batch_norm.default`
    match = lookup(getattr(torch, name, function))
    return name in _WRITE_UNTOLD if match is None else match.op.effects.untold


def changes_argument(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a call writes to an argument, and tells autograd."""
    if isinstance(function, KernelLaunch):
        return True
    always, by_flag = _changes(function)
    if always or out_of(function, args, kwargs) is not None:
        return True
    return by_flag and works_in_place(function, args, kwargs)


#: They begin as `__iadd__` does.
READING: Final = frozenset({"__invert__", "__index__", "__int__", "__iter__"})


@functools.lru_cache(maxsize=4096)
def _changes(function: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether every call of it writes to an argument; whether one does that is asked to."""
    match = lookup(function)
    name = _name_of(function)
    # By torch's rules for names: not every such function is an operator.
    named = (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__set"))
    named = named and name not in READING
    always = named or is_mutable(function) or (match is not None and match.in_place)
    return always, match is not None and "inplace" in signature_of(match.op).names


def out_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the results are written into instead of tensors of their own; None if nothing is."""
    if "out" in kwargs:
        return kwargs["out"]
    place = None if isinstance(function, KernelLaunch) else _place_of_out(function)
    return args[place] if place is not None and place < len(args) else None


@functools.lru_cache(maxsize=4096)
def _place_of_out(function: Callable[..., Any]) -> int | None:
    """Where `out` stands among the arguments of a function of torch that is written in Python;
    operators take it by name alone."""
    code = getattr(function, "__code__", None)
    if code is None or not is_of_torch(function):
        return None
    names = code.co_varnames[: code.co_argcount]
    return names.index("out") if "out" in names else None


def written_by(match: OpMatch, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments that a call may write to beside `out` and what its in-place form writes to, by
    name."""
    effects = match.op.effects
    if not effects.writes:
        return {}
    arguments = bind_match(match, args, kwargs).arguments
    if effects.given is not None:
        given = arguments.get(effects.given, True)
        if given is None or given is False:  # A largest norm of 0 is one.
            return {}
    return {name: arguments[name] for name in effects.writes if arguments.get(name) is not None}


# -- failures --------------------------------------------------------------------------------------


def raises_on_any(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a call may fail because of what is in a tensor, of whatever dtype."""
    if isinstance(function, KernelLaunch):
        return False
    if _raises(function)[0]:
        return True
    match = lookup(function)
    if match is None or match.op.effects.fails_with is None:
        return False
    name, value = match.op.effects.fails_with
    try:
        return bind_match(match, args, kwargs).arguments.get(name) == value
    except Unbound:
        return True


def raises_on_integers(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether it may fail because of what is in tensors of integers: positions and divisors."""
    if isinstance(function, KernelLaunch):
        return False
    _, on_integers, given = _raises(function)
    return on_integers and (given is None or kwargs.get(given) is not None)


def takes_positions(function: Callable[..., Any]) -> bool:
    """Whether it may fail where a tensor has positions that are out of range."""
    match = None if isinstance(function, KernelLaunch) else lookup(function)
    if match is None:
        return False
    kinds = OpKind.INDEX_MAP, OpKind.CALL_OUT
    return match.op.lowering in kinds or match.op.effects.indexes


def waits_for_integers(function: Callable[..., Any]) -> int:
    """How many dimensions tensors of integers may have that it reads on the host, also those of a
    GPU; -1: it reads none."""
    match = None if isinstance(function, KernelLaunch) else lookup(function)
    return -1 if match is None else match.op.effects.waits


@functools.lru_cache(maxsize=4096)
def _raises(function: Callable[..., Any]) -> tuple[bool, bool, str | None]:
    match = lookup(function)
    if match is None:
        return True, True, None
    kind, effects = match.op.lowering, match.op.effects
    if effects.total:
        return False, effects.indexes, None
    if effects.divides:
        return kind not in _FAILS_ON_INTEGERS, True, effects.given
    return kind not in _FAILS_ON_INTEGERS, kind is OpKind.INDEX_MAP or effects.indexes, None


def raises_on_numbers(function: object, changing: Sequence[bool]) -> bool:
    """Whether a function of numbers may fail because of what they are. `changing`: which of them
    are floats, or integers of data; what sizes are divided by has been looked at."""
    if function in _DIVISIONS:
        return changing[1]
    return function not in _OF_ALL_NUMBERS


_DIVISIONS: Final = frozenset({operator.truediv, operator.floordiv, operator.mod})
#: Functions of numbers that are defined for all of them.
_OF_ALL_NUMBERS: Final = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs),
        *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
        *(abs, float, bool, min, max, math.isnan, math.isinf, math.isfinite, math.fabs),
        *(math.copysign, math.hypot, math.degrees, math.radians, math.cbrt, math.atan),
        *(math.atan2, math.tanh, math.asinh, math.erf, math.erfc),
    }
)
