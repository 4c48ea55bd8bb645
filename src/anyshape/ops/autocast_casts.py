"""What autocast does to the arguments of an operator, as torch does it.

    with torch.autocast("cpu", torch.bfloat16):
        F.linear(x, w)          # is F.linear(x.to(torch.bfloat16), w.to(torch.bfloat16))

No table says which operators those are. A call is run without data, and the operators that it comes
down to are noted: under autocast, and without it on arguments that were cast before. If it is the
same program, these casts are all that autocast does. If not, it casts somewhere inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import torch
from torch._ops import OpOverload

from anyshape.ops.concrete import DispatchMode, calm
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import META, leaves, mapped_tree
from anyshape.symbolic import Expr, Size

_aten: Final = torch.ops.aten
_CAST: Final = _aten._to_copy.default
#: Operators that cast themselves: computed in float32 of what is not.
_TO_FLOAT: Final = frozenset({_aten._softmax.default, _aten._log_softmax.default})
_WITH_DTYPE: Final = frozenset(
    {
        *(_aten.sum.default, _aten.sum.dim_IntList, _aten.prod.default, _aten.prod.dim_int),
        *(_aten.cumsum.default, _aten.cumprod.default),
    }
)


class CastsInside(Exception):
    """Autocast does more than to cast the arguments of a call, or what it does is not known."""


class Autocast(NamedTuple):
    """What autocast is on one kind of device."""

    enabled: bool
    dtype: torch.dtype


#: By kind of device, for those that tensors of a program may be on.
AutocastState = Mapping[str, Autocast]
DEVICES: Final = ("cpu", "cuda")


def autocast_now() -> AutocastState:
    return {
        device: Autocast(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in DEVICES
    }


def is_any_on(state: AutocastState) -> bool:
    return any(each.enabled for each in state.values())


@contextmanager
def _autocast(state: AutocastState) -> Iterator[None]:
    """Without `torch.autocast`, which is off for devices that this machine has none of."""
    before, was_cached = autocast_now(), torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        _set(state)
        yield
    finally:
        _set(before)
        torch.set_autocast_cache_enabled(was_cached)


def _set(state: AutocastState) -> None:
    for device, (enabled, dtype) in state.items():
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def autocast_casts(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    state: AutocastState,
    hint: Callable[[Size], int | None],
) -> list[torch.dtype | None]:
    """Of each tensor among the arguments, in order, the dtype that autocast casts it to, if it
    does. `hint`: what sizes were when the program was captured."""
    given, tensors = _given(args, kwargs, hint)
    with calm():
        on, off = state, {each: now._replace(enabled=False) for each, now in state.items()}
        if _log(function, given, tensors, on).is_same(_log(function, given, tensors, off)):
            return [None] * len(tensors)
        found = _log(function, given, tensors, on, takes_casts=True)
        # What is not dense is so when it was cast.
        likes = [found.casts.get(number, each) for number, each in enumerate(tensors)]
        cast = [_Example.of(each.shape, each.stride(), each.dtype, each.device) for each in likes]
        by_id = {id(old): new for old, new in zip(tensors, cast, strict=True)}
        changed = mapped_tree(given, lambda leaf: by_id.get(id(leaf), leaf))
        if not found.is_same(_log(function, changed, cast, off)):
            raise CastsInside
    return [
        found.casts[number].dtype if number in found.casts else None
        for number in range(len(tensors))
    ]


def require_parts(
    function: Callable[..., Any],
    parts: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    state: AutocastState,
    hint: Callable[[Size], int | None],
) -> None:
    """See to it that a call comes down to what its parts come down to, casts and all."""

    def apart(*args: Any, **kwargs: Any) -> Any:
        return parts(lambda called, *own, **named: called(*own, **named), *args, **kwargs)

    given, tensors = _given(args, kwargs, hint)
    with calm():
        whole = _log(function, given, tensors, state)
        if not whole.is_same(_log(apart, given, tensors, state)):
            raise CastsInside


def _given(
    args: Sequence[Any], kwargs: dict[str, Any], hint: Callable[[Size], int | None]
) -> tuple[Any, list[torch.Tensor]]:
    """Arguments for a call without data, and the tensors among them."""
    tensors: list[torch.Tensor] = []

    def example(leaf: Any) -> Any:
        if isinstance(leaf, Meta):
            tensors.append(_example(leaf, hint))
            return tensors[-1]
        return hint(leaf) if isinstance(leaf, Expr) else leaf

    return mapped_tree((tuple(args), dict(kwargs)), example), tensors


class _Example(torch.Tensor):
    """A tensor on a device, which this machine need not have, without memory."""

    __torch_function__: Any = torch._C._disabled_torch_function_impl

    @classmethod
    def of(
        cls, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        made = cls._make_wrapper_subclass(cls, shape, strides=strides, dtype=dtype, device=device)
        assert isinstance(made, torch.Tensor)
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError  # where nobody logs


class _Log(DispatchMode):
    """The operators that a call comes down to. `takes_casts`: casts of its arguments that it begins
    with are taken for the arguments."""

    def __init__(self, tensors: Sequence[torch.Tensor], *, takes_casts: bool) -> None:
        super().__init__()
        self.lines: list[Any] = []
        #: by the number of an argument, what it was cast to
        self.casts: dict[int, torch.Tensor] = {}
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
        if (apart := _without_its_cast(func, args, kwargs)) is not None:
            dtype, args, kwargs = apart
            if dtype != args[0].dtype:
                args = self.__torch_dispatch__(_CAST, (), args[:1], {"dtype": dtype}), *args[1:]
        result = self._made(func, args, kwargs)
        number = self._names.get(id(args[0])) if args else None
        is_first = self._takes_casts and not self.lines
        if is_first and func is _CAST and type(number) is int and number not in self.casts:
            self.casts[number] = result
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
        """A result without data: tensors stay on their device, where autocast sees them."""
        devices = [leaf.device for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        on = kwargs.get("device") or max(devices, key=str, default=torch.device("cpu"))
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
                made = owners[id(leaf)] = _Example.of(
                    leaf.shape, leaf.stride(), leaf.dtype, torch.device(on)
                )
                self._held += (leaf, made)
            return made

        moved = mapped_tree((args, kwargs), twin)
        if moved[1].get("device") is not None:
            moved[1]["device"] = META
        return mapped_tree(func(*moved[0], **moved[1]), owner)


def _without_its_cast(
    func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.dtype, tuple[Any, ...], dict[str, Any]] | None:
    """An operator that casts what it gets: the dtype, and its arguments without it."""
    if func in _TO_FLOAT and args[2]:
        return torch.float32, (*args[:2], False), kwargs
    if func in _WITH_DTYPE and (dtype := kwargs.get("dtype")) is not None:
        return dtype, args, {key: value for key, value in kwargs.items() if key != "dtype"}
    return None


_PLAIN: Final = (int, float, bool, str, torch.dtype, type(None))


def _log(
    function: Callable[..., Any],
    given: Any,
    tensors: Sequence[torch.Tensor],
    state: AutocastState,
    *,
    takes_casts: bool = False,
) -> _Log:
    log = _Log(tensors, takes_casts=takes_casts)
    args, kwargs = given
    try:
        with _autocast(state), log:
            function(*args, **kwargs)
    except Exception:
        # Operators that need data, or that have no shape function, fail in many ways.
        log.failed = True
    return log


def _example(meta: Meta, hint: Callable[[Size], int | None]) -> torch.Tensor:
    """A tensor like one that the capture has seen."""
    if meta.device.type not in DEVICES:
        raise CastsInside
    shape, strides = ([hint(each) or 0 for each in of] for of in (meta.shape, meta.strides))
    return _Example.of(shape, strides, meta.dtype, meta.device)
