"""The last resort: the result of an operator at the sizes of this run, and at no others."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from anyshape.errors import UnknownOperator
from anyshape.ops.concrete import Call, DependsOnData, Number, at_numbers, first_line, for_real
from anyshape.ops.meta import Meta
from anyshape.ops.promotion import category
from anyshape.ops.questions import Questions
from anyshape.ops.twins import leaves
from anyshape.symbolic import Expr, Size

#: An operator is only run if its tensors have no more elements than this.
_MOST_ELEMENTS: Final = 1 << 18
#: What torch raises for arguments that it does not take.
_REJECTIONS: Final = (RuntimeError, ValueError, IndexError, TypeError)


def specialised(q: Questions, call: Call, why: str) -> Any:
    """What a call returns at the sizes of this run, each of which it fixes.

    Never for a result that depends on data: `UnknownOperator`.
    """
    reason = f"{q.op} has no shape function for symbols: {why}"
    for leaf in leaves((call.args, call.kwargs)):
        sizes = (*leaf.shape, *leaf.strides) if isinstance(leaf, Meta) else (leaf,)
        for size in sizes:
            if isinstance(size, Expr):
                q.fix(size, reason)

    def number(size: Size) -> int:
        return q.fix(size, reason)

    # Kernels are right where shape functions are not, and are all there is where those are missing.
    try:
        shape_function = at_numbers(call, number)
    except DependsOnData as error:
        raise UnknownOperator(op=q.op) from error
    except Exception as error:
        return _by_kernel(q, call, number, error)
    try:
        return _by_kernel(q, call, number, None)
    except Exception:
        return shape_function


def _by_kernel(q: Questions, call: Call, number: Number, failed: Exception | None) -> Any:
    """The result by running the operator, if that is cheap and data cannot decide the shape."""
    metas = call.metas
    # Tensors of integers hold lengths, indices and counts, which kernels read without telling.
    harmless = all(category(meta.dtype) >= 2 for meta in metas)
    elements = sum(prod(map(number, meta.shape)) for meta in metas)
    if not metas or not harmless or elements > _MOST_ELEMENTS:
        raise UnknownOperator(op=q.op) from failed
    try:
        value = for_real(call, number)
    except _REJECTIONS as error:
        if not isinstance(failed, _REJECTIONS) or isinstance(failed, NotImplementedError):
            raise UnknownOperator(op=q.op) from error
        # Both ways fail: this is what eager does with such arguments.
        raise q.fail(first_line(failed)) from error
    except Exception as error:
        raise UnknownOperator(op=q.op) from error
    if not all(isinstance(leaf, Meta) or leaf is None for leaf in leaves(value)):
        # A number or an array, and of made-up data.
        raise UnknownOperator(op=q.op) from failed
    return value
