"""Random factories and random operators."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.ops.broadcast import broadcast
from anyshape.ops.elementwise import MetaOperand
from anyshape.ops.families.factories import factory_row, like, made, size_in
from anyshape.ops.meta import Meta
from anyshape.ops.op import DRAWS, Op, OpKind
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, eq, ge, gt, le, lt, or_

_METHOD = "torch.Tensor."


def _random(
    q: ShapeQuery, *args: Any, size: Any = None, dtype: torch.dtype | None = None, **options: Any
) -> Meta:
    return made(q, size_in(args, size), dtype, **options)


def _require_between(q: ShapeQuery, low: Any, high: Any) -> None:
    if isinstance(low, int | Expr) and isinstance(high, int | Expr):
        q.require(lt(low, high), "the lower bound must be below the upper one")


def _randint(q: ShapeQuery, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    """`randint(high, size)` or `randint(low, high, size)`, each by name if one likes."""
    size = options.pop("size", None)
    *bounds, shape = args if size is None else (*args, size)
    named = [options.pop(name) for name in ("low", "high") if name in options]
    low, high = [0, *bounds, *named][-2:]
    _require_between(q, low, high)
    return made(q, tuple(shape), dtype, default=torch.int64, **options)


def _randint_like(q: ShapeQuery, input: Meta, *bounds: Any, **options: Any) -> Meta:
    named = [options.pop(name) for name in ("low", "high") if name in options]
    low, high = [0, *bounds, *named][-2:]
    _require_between(q, low, high)
    return like(q, input, **options)


def _randperm(q: ShapeQuery, n: Size, *, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    return made(q, (n,), dtype, default=torch.int64, **options)


def _sampled(q: ShapeQuery, input: Meta, *_: Any, **__: Any) -> Meta:
    """One sample for each element; these operators do not look at layouts."""
    return input.like()


def _binomial(q: ShapeQuery, count: Meta, prob: Meta, generator: Any = None) -> Meta:
    if count.dtype != prob.dtype:
        raise q.fail(f"counts and probabilities must have one dtype: {count.dtype}, {prob.dtype}")
    return count.like(broadcast(q, [count.shape, prob.shape]))


def _normal(
    q: ShapeQuery, mean: MetaOperand = 0.0, std: MetaOperand = 1.0, size: Any = None, **options: Any
) -> Meta:
    tensors = [operand for operand in (mean, std) if isinstance(operand, Meta)]
    if tensors:
        return tensors[0].like(broadcast(q, [tensor.shape for tensor in tensors]))
    if size is None:
        raise q.fail("two numbers need a size")
    return made(q, tuple(size), options.pop("dtype", None), **options)


def _multinomial(
    q: ShapeQuery, input: Meta, num_samples: Size, replacement: bool = False, **_: Any
) -> Meta:
    if input.rank not in (1, 2):
        raise q.fail(f"the distributions must have one or two dimensions, not {input.rank}")
    q.require(gt(num_samples, 0), "at least one sample must be drawn")
    categories = input.shape[-1]
    q.require(le(categories, 2**24), "there are at most 2**24 categories")
    if not replacement:
        q.require(
            le(num_samples, categories), "not more samples are drawn than there are categories"
        )
    elif input.rank == 1:
        q.require(ge(categories, 1), "there must be a category")
    else:
        q.require(or_(ge(categories, 1), eq(input.shape[0], 0)), "there must be a category")
    return input.like((*input.shape[:-1], num_samples), torch.int64)


def _overwritten(q: ShapeQuery, input: Meta, *_: Any, **__: Any) -> Meta:
    return input


def _random_in_place(q: ShapeQuery, input: Meta, *bounds: Any, **named: Any) -> Meta:
    if len(bounds) == 2:
        _require_between(q, *bounds)
    return input


#: Methods that overwrite their tensor with samples.
_IN_PLACE = (
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "uniform_",
)  # fmt: skip

_ROWS = (
    *(factory_row(name, _random) for name in ("rand", "randn")),
    *(factory_row(name, like) for name in ("rand_like", "randn_like")),
    factory_row("randint", _randint),
    factory_row("randint_like", _randint_like),
    factory_row("randperm", _randperm),
    *(
        Op(name, (f"torch.{name}", _METHOD + name), _sampled, OpKind.CALL_OUT)
        for name in ("bernoulli", "poisson", "_standard_gamma", "_sample_dirichlet")
    ),
    Op("binomial", ("torch.binomial",), _binomial, OpKind.CALL_OUT),
    Op("normal", ("torch.normal",), _normal, OpKind.CALL_OUT),
    Op(
        "multinomial",
        ("torch.multinomial", _METHOD + "multinomial"),
        _multinomial,
        OpKind.CALL_OUT,
    ),
    *(
        Op(
            name,
            (),
            _overwritten,
            OpKind.CALL_OUT,
            in_place=(_METHOD + name, f"torch.{name}"),
        )
        for name in _IN_PLACE
    ),
    Op("random_", (), _random_in_place, OpKind.CALL_OUT, in_place=(_METHOD + "random_",)),
)

ROWS: tuple[Op, ...] = tuple(replace(row, effects=DRAWS) for row in _ROWS)
