"""What autocast does to the arguments of an operator, as torch does it.

    with torch.autocast("cpu", torch.bfloat16):
        F.linear(x, w)          # is F.linear(x.to(torch.bfloat16), w.to(torch.bfloat16))

No table says which operators those are. A call is run without data, and the operators that it comes
down to are noted: under autocast, and without it on arguments that were cast before. If it is the
same program, these casts are all that autocast does. If not, it casts somewhere inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch._ops import OpOverload

from anyshape.ops.concrete import DispatchMode, calm
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import META, mapped_tree
from anyshape.symbolic import Expr, Size

_CAST: Final = torch.ops.aten._to_copy.default


class CastsInside(Exception):
    """Autocast does more than to cast the arguments of a call, or what it does is not known."""


class Autocast(NamedTuple):
    """What autocast is on the processor."""

    enabled: bool
    dtype: torch.dtype


def autocast_casts(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    dtype: torch.dtype,
    hint: Callable[[Size], int | None],
) -> list[torch.dtype | None]:
    """Of each tensor among the arguments, in order, the dtype that autocast casts it to, if it
    does. `hint`: what sizes were when the program was captured."""
    tensors: list[torch.Tensor] = []

    def example(leaf: Any) -> Any:
        if isinstance(leaf, Meta):
            tensors.append(_example(leaf, hint))
            return tensors[-1]
        return hint(leaf) if isinstance(leaf, Expr) else leaf

    given = mapped_tree((tuple(args), dict(kwargs)), example)
    with calm():
        on, off = Autocast(True, dtype), Autocast(False, dtype)
        if _log(function, given, tensors, on).is_same(_log(function, given, tensors, off)):
            return [None] * len(tensors)
        found = _log(function, given, tensors, on, takes_casts=True)
        cast = [
            torch.empty_like(each, dtype=found.casts.get(number, each.dtype))
            for number, each in enumerate(tensors)
        ]
        by_id = {id(old): new for old, new in zip(tensors, cast, strict=True)}
        changed = mapped_tree(given, lambda leaf: by_id.get(id(leaf), leaf))
        if not found.is_same(_log(function, changed, cast, off)):
            raise CastsInside
    return [found.casts.get(number) for number in range(len(tensors))]


class _Log(DispatchMode):
    """The operators that a call comes down to. `takes_casts`: casts of its arguments that it begins
    with are taken for the arguments."""

    def __init__(self, tensors: Sequence[torch.Tensor], *, takes_casts: bool) -> None:
        super().__init__()
        self.lines: list[Any] = []
        self.casts: dict[int, torch.dtype] = {}
        self.failed = False
        self._takes_casts = takes_casts
        #: names by identity; tensors are held, or identities would come again
        self._names: dict[int, Any] = {id(each): n for n, each in enumerate(tensors)}
        self._held: list[torch.Tensor] = list(tensors)
        self._made_so_far = 0

    def is_same(self, other: _Log) -> bool:
        return not self.failed and not other.failed and self.lines == other.lines

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = self._made(func, args, kwargs)
        number = self._names.get(id(args[0])) if args else None
        is_first = self._takes_casts and not self.lines
        if is_first and func is _CAST and type(number) is int and number not in self.casts:
            self.casts[number] = result.dtype
            self._names[id(args[0])] = ("before its cast", number)
            self._names[id(result)] = number
            return result
        self.lines.append((str(func), mapped_tree((args, kwargs), self._noted)))
        mapped_tree(result, self._noted)
        return result

    def _noted(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf if isinstance(leaf, _PLAIN) else repr(leaf)
        if id(leaf) not in self._names:
            self._made_so_far += 1
            self._names[id(leaf)] = f"made {self._made_so_far}"
        name = self._names[id(leaf)]
        return name, leaf.dtype, tuple(leaf.shape), tuple(leaf.stride())

    def _made(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """A result without data: tensors stay on the processor, where autocast sees them."""
        twins: dict[int, torch.Tensor] = {}
        owners: dict[int, torch.Tensor] = {}

        def twin(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            if id(leaf) not in twins:
                made = twins[id(leaf)] = torch.empty_strided(
                    leaf.shape, leaf.stride(), dtype=leaf.dtype, device=META
                )
                owners[id(made)] = leaf
            return twins[id(leaf)]

        def owner(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            made = owners.get(id(leaf))
            if made is None:
                made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)
                owners[id(leaf)] = made
                self._held.append(made)
            return made

        moved = mapped_tree((args, kwargs), twin)
        if moved[1].get("device") is not None:
            moved[1]["device"] = META
        return mapped_tree(func(*moved[0], **moved[1]), owner)


_PLAIN: Final = (int, float, bool, str, torch.dtype, type(None))


def _log(
    function: Callable[..., Any],
    given: Any,
    tensors: Sequence[torch.Tensor],
    state: Autocast,
    *,
    takes_casts: bool = False,
) -> _Log:
    log = _Log(tensors, takes_casts=takes_casts)
    args, kwargs = given
    try:
        with torch.autocast("cpu", state.dtype, state.enabled, cache_enabled=False), log:
            function(*args, **kwargs)
    except Exception:
        # Operators that need data, or that have no shape function, fail in many ways.
        log.failed = True
    return log


def _example(meta: Meta, hint: Callable[[Size], int | None]) -> torch.Tensor:
    """A tensor like one that the capture has seen. Nobody touches its memory."""
    if meta.device.type != "cpu":
        raise CastsInside
    shape, strides = ([hint(each) or 0 for each in of] for of in (meta.shape, meta.strides))
    return torch.empty_strided(shape, strides, dtype=meta.dtype)
