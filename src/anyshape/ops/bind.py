"""From a call of a torch function to an operator and its arguments by name.

The one place that knows which functions are forms of which operator, in which order and by which
names they take their arguments, and how they are told to work in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from anyshape.ops.op import Op
from anyshape.ops.signature import Unbound, signature_of
from anyshape.ops.table import OpMatch, lookup

__all__ = [
    "OpCall",
    "Unbound",
    "asked_to_work_in_place",
    "bind_match",
    "is_bound",
    "works_in_place",
]


class OpCall(NamedTuple):
    """A call of an operator."""

    op: Op
    #: by the names of its signature, those that were not given as well
    arguments: dict[str, Any]
    #: whether the result is the first argument, which is written to
    in_place: bool
    #: whether that is by an argument, `inplace=True`, and not by the name of the function
    is_asked_for: bool
    #: what the result is written into instead, if that was given
    out: Any

    @property
    def first(self) -> Any:
        """The argument that an in-place form writes to, and that a view is of."""
        return self.arguments[signature_of(self.op).first]

    def behind_first(self) -> dict[str, Any]:
        """All arguments but the first."""
        first = signature_of(self.op).first
        return {name: value for name, value in self.arguments.items() if name != first}


def bind_match(match: OpMatch, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpCall:
    """The call of an operator that a call of one of its functions is.

    Raises `Unbound` if the arguments do not fit."""
    out = None
    if "out" in kwargs:
        kwargs = dict(kwargs)
        out = kwargs.pop("out")
    arguments = signature_of(match.op).bind(args, kwargs)
    if "reduction" in arguments:
        arguments["reduction"] = _reduction(
            arguments["reduction"],
            arguments.pop("size_average", None),
            arguments.pop("reduce", None),
        )
    flag = bool(arguments.pop("inplace", False))
    return OpCall(match.op, arguments, match.in_place or flag, flag, out)


#: How numbers stand for reductions of losses.
_REDUCTIONS: Final = {0: "none", 1: "mean", 2: "sum"}


def _reduction(reduction: str | int, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction of a loss by its name; two older flags win over it."""
    if size_average is not None or reduce is not None:
        return "none" if reduce is False else "sum" if size_average is False else "mean"
    return _REDUCTIONS.get(reduction, "") if isinstance(reduction, int) else reduction


def is_bound(match: OpMatch, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether arguments fit the parameters of an operator."""
    try:
        bind_match(match, args, kwargs)
    except Unbound:
        return False
    return True


def works_in_place(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a function writes to its first argument: by its name, or because it is asked to."""
    match = lookup(function)
    if match is not None and match.in_place:
        return True
    try:
        return asked_to_work_in_place(function, args, kwargs) is not None
    except Unbound:
        return True  # A form that another torch has: it may.


def asked_to_work_in_place(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> OpCall | None:
    """The call, if it has `inplace=True`."""
    match = lookup(function)
    if match is None or "inplace" not in signature_of(match.op).names:
        return None
    call = bind_match(match, args, kwargs)
    return call if call.is_asked_for else None
