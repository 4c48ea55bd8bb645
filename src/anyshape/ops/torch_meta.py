"""Operators by torch's own shape functions, on symbolic sizes.

Torch's functions run on tensors of the `meta` device whose sizes are `torch.SymInt`s with our nodes
inside. A dispatch mode sees every operator that they call on the way down and answers it by the
first of these that can:

    our own rule          views above all, whose C++ functions reject symbolic sizes
    the pointwise tag     broadcasting, with the dtype that torch's function gives at sizes of 1
    a Python function     torch registers them for most operators
    its parts             an operator that is made of others
    C++                   takes symbolic sizes where it was written to

What comes out is not to be trusted at all sizes: see `validate_by_sampling.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, Final

import torch
from torch._dispatch.python import enable_python_dispatcher, no_python_dispatcher
from torch._ops import OpOverload

from anyshape.errors import NeedsDecision, UnknownOperator
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.concrete import (
    ConcreteCall,
    DependsOnData,
    OnMeta,
    calm,
    first_sentence,
    on_meta,
)
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import META, Twins, meta_of, rebuilt, tensor_of
from anyshape.ops.op import OpKind
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.symint import Asked
from anyshape.ops.table import OpMatch, lookup
from anyshape.symbolic import eq

#: rule(questions, entry, args, kwargs): the value of a row, also of its in-place form.
RuleOf = Callable[[ShapeQuery, OpMatch, Sequence[Any], Mapping[str, Any]], Any]

_META_KEY: Final = torch._C.DispatchKey.Meta
_PARTS_KEYS: Final = (
    torch._C.DispatchKey.CompositeExplicitAutograd,
    torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional,
)


class Unable(Exception):
    """Torch's functions do not give a result in symbols; the text says why."""


def by_torch(q: ShapeQuery, call: ConcreteCall, rule_of: RuleOf, *, hinted: bool = False) -> Any:
    """What a call returns, by torch's own shape functions; `hinted` as in `symint.Asked`."""
    asked = Asked(q, hinted)
    twins = Twins(asked.int)
    try:
        with calm():
            args, kwargs = twins.arguments(tuple(call.args)), twins.arguments(on_meta(call.kwargs))
            with enable_python_dispatcher(), _Functions(asked, rule_of):
                result = call.function(*args, **kwargs)
            return twins.results(result, call.device)
    except (NeedsDecision, DependsOnData):
        raise
    except Exception as error:
        # Whatever torch's functions fail with: they were not written for us.
        raise Unable(first_sentence(error)) from error


class _Functions(OnMeta):
    """Answers the operators that torch's functions call, in symbols."""

    def __init__(self, asked: Asked, rule_of: RuleOf) -> None:
        super().__init__()
        self._asked = asked
        self._rule_of = rule_of

    def answer(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for answer in (self._by_rule, self._pointwise, self._by_python, self._by_parts):
            result = answer(func, args, kwargs)
            if result is not NotImplemented:
                return result
        with no_python_dispatcher():
            return func(*args, **kwargs)

    def _by_rule(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func._schema.name in _ALIASES:
            return self._tensor(self._meta(args[0]))
        entry = _entry_of(func)
        if entry is None or "out" in kwargs:
            return NotImplemented
        exact = entry.op.lowering is not OpKind.POINTWISE and func._schema.name not in _FILLS
        given = _as_written(func, self._meta(args, exact))
        try:
            value = self._rule_of(self._asked.q, entry, given, self._meta(kwargs, exact))
        except UnknownOperator:
            return NotImplemented
        if entry.in_place:
            return _restrided(args[0], self._tensor(value)) if entry.op.restrides else args[0]
        return self._tensor(value)

    def _meta(self, value: Any, exact: bool = True) -> Any:
        """The argument as a rule sees it; the value of a float, if it is more than an element."""
        if isinstance(value, torch.Tensor):
            return meta_of(value, META)
        if isinstance(value, torch.SymInt):
            return value.node.size
        if isinstance(value, torch.SymFloat):
            return float(value) if exact else 1.0
        if isinstance(value, torch.SymBool):
            return bool(value)
        return rebuilt(value, lambda item: self._meta(item, exact))

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, Meta):
            return tensor_of(value, self._asked.int)
        return rebuilt(value, self._tensor)

    def _pointwise(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (
            torch.Tag.pointwise not in func.tags
            or len(func._schema.returns) != 1
            or "out" in kwargs
        ):
            return NotImplemented
        metas = [self._meta(x) for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        if not metas or any(isinstance(x, tuple | list) for x in args):
            return NotImplemented
        q = self._asked.q
        shape = broadcast(q, [meta.shape for meta in metas])
        if func._schema.is_mutable:
            for size, wanted in zip(shape, metas[0].shape, strict=True):
                q.require(
                    eq(size, wanted), "the result of an in-place operator has its target's shape"
                )
            return args[0]
        small = func(*map(_small, args), **{name: _small(value) for name, value in kwargs.items()})
        layout = pointwise_layout(q, shape, metas)
        return self._tensor(Meta(shape, small.dtype, layout, META))

    def _by_python(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kernel = func.py_kernels.get(_META_KEY)
        if kernel is None or func._schema.name in _BY_CPP:
            return NotImplemented
        if func._can_decompose() and any(a.name == "reduction" for a in func._schema.arguments):
            # Some losses are registered with a function that takes the reduction's name.
            return NotImplemented
        with self:
            return kernel(*args, **kwargs)

    def _by_parts(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func._schema.name in _BY_NUMBERS:
            raise Unable(f"C++ code asks for the {func._schema.name.partition('::')[2]} in numbers")
        if func._can_decompose():
            with self:
                return func.decompose(*args, **kwargs)
        if not func.has_kernel_for_dispatch_key(_META_KEY):
            for key in _PARTS_KEYS:
                if func.has_kernel_for_dispatch_key(key):
                    with self:
                        return func._op_dk(key, *args, **kwargs)
        return NotImplemented


#: Operators that see their argument as it is.
_ALIASES: Final = frozenset(
    f"aten::{name}" for name in ("alias", "detach", "lift_fresh", "_conj", "_neg_view", "lift")
)
#: Operators whose C++ functions take symbolic sizes and whose Python ones do something else.
_BY_CPP: Final = frozenset(f"aten::{name}" for name in ("empty", "empty_strided", "as_strided_"))
#: Operators whose numbers become elements.
_FILLS: Final = frozenset(
    f"aten::{name}" for name in ("full", "full_like", "new_full", "scalar_tensor")
)
#: How C++ code that was not written for symbolic sizes asks for them.
_BY_NUMBERS: Final = frozenset(("aten::size", "aten::stride"))
#: Names inside torch of operators that have a row under another one.
_OTHER_NAMES: Final = {
    "_unsafe_view": "view",
    "_reshape_alias": "view",
    "slice": "__getitem__",
}
#: `torch._C._nn`, which has functions that are not in `torch.nn.functional` under their own names.
_NN: Final = vars(torch._C)["_nn"]
_PREFIXES: Final = {"special": torch.special, "linalg": torch.linalg, "fft": torch.fft}


@cache
def _entry_of(func: OpOverload) -> OpMatch | None:
    """The row of an operator as torch calls it inside.

    Functions and methods that torch generates take the arguments of the operator; those that are
    written in Python need not.
    """
    namespace, _, name = func._schema.name.partition("::")
    if namespace != "aten":
        return None
    name = _OTHER_NAMES.get(name, name)
    prefix, _, rest = name.partition("_")
    places = [(torch, name), (torch.Tensor, name), (_NN, name)]
    if prefix in _PREFIXES:
        places.append((_PREFIXES[prefix], rest))
    for holder, called in places:
        found = getattr(holder, called, None)
        generated = isinstance(found, BuiltinFunctionType | MethodDescriptorType)
        entry = (
            lookup(found) if found is not None and (generated or name == "__getitem__") else None
        )
        if entry is not None:
            return entry
    return None


def _as_written(func: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as the row takes them, where torch has another order inside."""
    name = func._schema.name
    if name == "aten::slice":
        self, rest = args[0], args[1:]
        dim, start, end, step = (*rest, *(0, None, None, 1)[len(rest) :])
        assert isinstance(dim, int), "a dimension is never symbolic"
        return self, (*[slice(None)] * (dim % max(self.rank, 1)), slice(start, end, step))
    if name == "aten::_reshape_alias":
        return args[:2]
    return args


def _small(value: Any) -> Any:
    """The argument for a question about dtypes: sizes of 1."""
    if isinstance(value, torch.Tensor):
        return torch.empty((1,) * value.dim(), dtype=value.dtype, device=META)
    return (
        1
        if isinstance(value, torch.SymInt)
        else 1.0
        if isinstance(value, torch.SymFloat)
        else value
    )


def _restrided(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    with no_python_dispatcher():
        return target.as_strided_(value.size(), value.stride(), value.storage_offset())
