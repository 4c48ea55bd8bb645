"""Operators at given sizes, without a program's data: on the `meta` device, or on made-up data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from anyshape.ops.kernel_launch import without_launches
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import (
    META,
    Twins,
    device_of,
    leaves,
    meta_of,
    rebuilt,
    tensor_of,
)
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Size

Number = Callable[[Size], int]

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True, slots=True)
class ConcreteCall:
    """A torch function and its arguments: a meta for each tensor, an expression for each symbol."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    #: what it returned in this run, as metas of the real tensors; None if it has not run
    seen: Any = None

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    @property
    def metas(self) -> list[Meta]:
        return [leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Meta)]

    @property
    def device(self) -> torch.device:
        return device_of(self.args, self.kwargs)


class DependsOnData(Exception):
    """The shape of the result, or the way to it, depends on what the tensors hold."""


def at_numbers(call: ConcreteCall, number: Number, *, grads: bool = False) -> Any:
    """What a call returns if each size is the number given for it, by torch's shape functions."""
    twins = Twins(number, grads=grads)
    with calm(grads):
        args, kwargs = twins.arguments(tuple(call.args)), twins.arguments(on_meta(call.kwargs))
        with OnMeta():
            result = call.function(*args, **kwargs)
        return twins.results(result, call.device)


class DispatchMode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do not load the compiler that torch would hide this mode from."""
        return False


class OnMeta(DispatchMode):
    """Keeps everything on the `meta` device, and refuses what depends on data."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        found = list(leaves((args, kwargs)))
        tensors = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        symbolic = any(isinstance(leaf, _SYMBOLIC) for leaf in found)
        if tensors and not symbolic and all(tensor.device != META for tensor in tensors):
            # Constants that torch's functions make. Their values are known.
            return func(*args, **kwargs)
        _refuse_data(func, args)
        args, kwargs = _moved(func, args, kwargs, bool(tensors))
        kernels_apart = without_launches(func)
        if kernels_apart is not None:
            with self:
                return kernels_apart(*args, **kwargs)
        return self.answer(func, args, kwargs)

    def answer(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator, its arguments on the `meta` device."""
        shape = tuple(args[0].shape) if args and isinstance(args[0], torch.Tensor) else None
        result = func(*args, **kwargs)
        written = shape is not None and result is args[0] and tuple(result.shape) != shape
        if written and torch.Tag.inplace_view not in func.tags:
            # Shape functions resize the target of an in-place form where the operator rejects it.
            raise RuntimeError(f"{func} does not change its target's shape {shape}")
        return result


@contextmanager
def calm(grads: bool = False) -> Iterator[None]:
    """Nobody listens, and autograd only if it is asked about: what runs here is about shapes."""
    modes: list[Any] = []
    try:
        while torch._C._len_torch_function_stack():
            modes.append(torch._C._pop_torch_function_stack())
        with _disable_current_modes(), torch.set_grad_enabled(grads):
            yield
    finally:
        for mode in reversed(modes):
            torch._C._push_on_torch_function_stack(mode)


def on_meta(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments for twins: they are on the `meta` device, which has no generators."""
    named = {
        name: value for name, value in kwargs.items() if name not in ("generator", "pin_memory")
    }
    if named.get("device") is not None:
        named["device"] = META
    return named


_NEXT_SENTENCE: Final = re.compile(r"\.\s+(?=[A-Z])|\n")


def first_sentence(error: Exception) -> str:
    """What went wrong, without the advice that torch gives."""
    text = _NEXT_SENTENCE.split(str(error).strip(), maxsplit=1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _refuse_data(func: OpOverload, args: Sequence[Any]) -> None:
    """Raise if the result's shape, or a number that leaves the tensors, depends on data."""
    if BY_DATA.isdisjoint(func.tags):
        return
    if func._schema.name == "aten::index":
        # Tagged for its masks only.
        indices = [leaf for leaf in leaves(args[1]) if isinstance(leaf, torch.Tensor)]
        if all(index.dtype not in (torch.bool, torch.uint8) for index in indices):
            return
    raise DependsOnData(f"{func} depends on data")


BY_DATA: Final = frozenset((torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape))


def _moved(
    func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], has_tensors: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with all tensors on the `meta` device, and new ones to be made there."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device != META:
            return tensor_of(meta_of(value, META), lambda size: size)
        return META if isinstance(value, torch.device) else rebuilt(value, move)

    args, kwargs = move(args), on_meta(move(kwargs))
    if not has_tensors and any(argument.name == "device" for argument in func._schema.arguments):
        kwargs["device"] = META
    return args, kwargs
