"""A `SideBySide` under which Python code that reads sizes keeps their symbols.

Many functions of torch are Python code around several calls, and some of that code reads `x.shape`.
Here the integers it reads carry their expressions: arithmetic keeps them, a call that takes one
sees the symbol, and a comparison becomes a guard. Where a number escapes (`range(n)`, floats), the
result is for this number only, which shows at other sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta, Strided, dense_strides
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.table import lookup
from anyshape.symbolic import Expr, Fact, Size, eq, ge, gt, le, lt, maximum, ne
from tests.ops.driver import SideBySide, SymbolicInt, seen
from tests.ops.samples import plain


class InferenceFailed(Exception):
    """A call could not be inferred; the cause says why."""


class TrackedInt(SymbolicInt):
    """A real integer with its expression beside it, which Python code can compute with."""

    mode: Tracking

    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        return self.mode.decide(ne(self.expr, 0))

    def __neg__(self) -> int:
        return self.mode.tracked(-self.expr, -int(self))


def _symbolic(value: int) -> Size:
    return value.expr if isinstance(value, SymbolicInt) else int(value)


def _arithmetic(name: str, function: Callable[[Any, Any], Any], reflected: bool) -> None:
    usual = getattr(int, name)

    def method(self: TrackedInt, other: Any) -> Any:
        found = usual(self, other)
        if found is NotImplemented or not isinstance(other, int):
            return found
        pair = (_symbolic(other), self.expr) if reflected else (self.expr, _symbolic(other))
        return self.mode.tracked(function(*pair), found)

    setattr(TrackedInt, name, method)


def _comparison(name: str, fact: Callable[[Size, Size], Fact]) -> None:
    usual = getattr(int, name)

    def method(self: TrackedInt, other: Any) -> Any:
        found = usual(self, other)
        if found is NotImplemented or not isinstance(other, int):
            return found
        return self.mode.decide(fact(self.expr, _symbolic(other)))

    setattr(TrackedInt, name, method)


for _function in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod):
    _arithmetic(f"__{_function.__name__}__", _function, reflected=False)
    _arithmetic(f"__r{_function.__name__}__", _function, reflected=True)
for _fact in (eq, ne, lt, le, gt, ge):
    _comparison(f"__{_fact.__name__}__", _fact)


def _strides(meta: Meta) -> tuple[Size, ...]:
    """Strides as a program reads them: a size of 0 counts as 1."""
    if isinstance(meta.layout, Strided):
        return meta.layout.strides
    return dense_strides(tuple(maximum(size, 1) for size in meta.shape), meta.layout.order)


_SHAPE = vars(torch._C.TensorBase)["shape"].__get__

#: What is asked of a tensor's sizes: answered in symbols.
_SIZES: dict[Callable[..., Any], Callable[..., Any]] = {
    _SHAPE: lambda meta: meta.shape,
    torch.Tensor.size: lambda meta, dim=None: meta.shape if dim is None else meta.shape[dim],
    torch.Tensor.stride: lambda meta, dim=None: (
        _strides(meta) if dim is None else _strides(meta)[dim]
    ),
    torch.Tensor.numel: lambda meta: meta.numel,
    torch.Tensor.nelement: lambda meta: meta.numel,
    torch.numel: lambda meta: meta.numel,
    torch.Tensor.__len__: lambda meta: meta.shape[0],
}

#: What is asked of a tensor apart from its sizes: answered by the real one.
_QUERIES = {
    torch._C._set_grad_enabled,
    torch.Tensor.__format__,
    torch.Tensor.__repr__,
    torch.Tensor.data_ptr,
    torch.Tensor.dim,
    torch.Tensor.element_size,
    torch.Tensor.get_device,
    torch.Tensor.is_complex,
    torch.Tensor.is_conj,
    torch.Tensor.is_contiguous,
    torch.Tensor.is_floating_point,
    torch.Tensor.is_inference,
    torch.Tensor.is_neg,
    torch.Tensor.is_signed,
    torch.Tensor.ndimension,
    torch.Tensor.storage_offset,
    torch.Tensor.untyped_storage,
    torch.get_default_dtype,
    torch.is_complex,
    torch.is_conj,
    torch.is_floating_point,
    torch.is_grad_enabled,
    torch.is_neg,
    torch.is_same_size,
    torch.is_signed,
    torch.is_storage,
    torch.result_type,
}


class Tracking(SideBySide):
    """While active, infers every torch call in symbols, runs it for real, compares, and tracks
    sizes that Python code reads.
    """

    def tracked(self, size: Size, value: int) -> int:
        """The integer with its expression; a plain one where there is nothing to track."""
        if not isinstance(size, Expr):
            return value
        made = TrackedInt(value)
        made.expr, made.mode = size, self
        return made

    def decide(self, fact: Fact) -> bool:
        """Whether the fact holds in this run; a guard, for Python code branches on it."""
        questions = ShapeQuery(self.facts, "python")
        answer = questions.decide(fact, "Python code compares sizes")
        self.facts = questions.facts
        self.needs += questions.needs
        return answer

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _SIZES and isinstance(args[0], torch.Tensor):
            return self._read_size(func, args, kwargs)
        # Torch itself gets plain integers: what it does with them is no part of the program.
        plain_args, plain_kwargs = tree_map_only(SymbolicInt, int, plain((args, kwargs)))
        if lookup(func) is None and _is_query(func, plain_args):
            return func(*plain_args, **plain_kwargs)
        symbolic = self._in_symbols(args), self._in_symbols(kwargs)  # before an in-place operator
        result = func(*plain_args, **plain_kwargs)
        try:
            inferred = infer(self.facts, func, *symbolic, seen=seen(result))
        except Exception as error:
            raise InferenceFailed(_name(func)) from error
        self.record(func, inferred, args[0] if result is None else result)
        return result

    def _read_size(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        real = func(*args, **kwargs)
        said = _SIZES[func](self.meta_of(args[0]), *args[1:], **kwargs)
        if isinstance(real, int):
            return self.tracked(said, real)
        return type(real)(map(self.tracked, said, real))

    def _in_symbols(self, value: Any) -> Any:
        return super()._in_symbols(plain(value))


def _is_query(func: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether the call only asks about a tensor: attributes too, unless they are tensors
    themselves.
    """
    if func in _QUERIES:
        return True
    return getattr(func, "__name__", "") == "__get__" and not _has_tensors(func(*args))


def _has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(value))


def _name(func: Callable[..., Any]) -> str:
    if getattr(func, "__name__", "") == "__get__":
        return f"Tensor.{func.__self__.__name__}"  # pyright: ignore[reportFunctionMemberAccess]  # a bound __get__
    module = getattr(func, "__module__", None) or "torch"
    return f"{module}.{getattr(func, '__name__', func)}"


def said_of(mode: Tracking, result: Any) -> list[Meta]:
    """What was inferred for each tensor of a result, all of which inferred calls must have made."""
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    unknown = [tensor for tensor in tensors if id(tensor) not in mode.metas]
    if unknown:
        raise InferenceFailed("a tensor of the result comes from no inferred call")
    return [mode.metas[id(tensor)] for tensor in tensors]
