"""Operators without a row: by torch's shape functions in symbols, else at the sizes of this run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import get_testing_overrides

from anyshape.errors import UnknownOperator
from anyshape.ops.concrete import ConcreteCall, DependsOnData, at_numbers
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import leaves, rebuilt
from anyshape.ops.promotion import category
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.specialise import specialised
from anyshape.ops.torch_meta import RuleOf, Unable, by_torch
from anyshape.ops.validate_by_sampling import Untrue, probed
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Facts, Size


@dataclass(frozen=True, slots=True)
class Found:
    """The result of an operator without a row."""

    value: Any
    questions: ShapeQuery
    #: why the sizes of this run are the only ones it is for; None if they are not
    specialised: str | None = None


def without_row(facts: Facts, call: ConcreteCall, rule_of: RuleOf) -> Found:
    """What a call returns, for as many sizes as torch's shape functions allow."""
    if not _is_operator(call.function):
        raise UnknownOperator(op=call.name)  # It would be run, whatever it does.
    problems: list[str] = []
    # First as if no size were 0 or 1 where that is not known, then with a guard for each question.
    for hinted in (False, True):
        q = ShapeQuery(facts, call.name)
        try:
            value = by_torch(q, call, rule_of, hinted=hinted)
            if q.unbacked:
                raise DependsOnData("a size that depends on data is made on the way")
            value = probed(q, call, value)
        except DependsOnData as error:
            raise UnknownOperator(op=call.name) from error
        except (Unable, Untrue) as error:
            problems.append(str(error))
        else:
            return Found(_completed(q, call, value), q)
    q = ShapeQuery(facts, call.name)
    why = "; ".join(dict.fromkeys(problems))
    value = specialised(q, call, why)
    return Found(_completed(q, call, value), q, why)


def _completed(q: ShapeQuery, call: ConcreteCall, value: Any) -> Any:
    """The value with what shape functions do not say: who sees writes, and `requires_grad`."""
    given = {id(meta): meta for meta in call.metas}
    for leaf in leaves(value):
        if isinstance(leaf, Meta) and id(leaf) in given and leaf.shares_if is not None:
            q.decide(
                leaf.shares_if,
                "a write to a reshaped tensor is seen through its operand where it is a view",
            )
    if torch.is_grad_enabled() and any(meta.requires_grad for meta in given.values()):
        return _with_grad(q, call, value)
    return value


def _with_grad(q: ShapeQuery, call: ConcreteCall, value: Any) -> Any:
    """The value with `requires_grad` as autograd sets it at the sizes of this run."""

    def number(size: Size) -> int:
        hint = q.facts.hint(size)
        return 2 if hint is None else hint

    try:
        tracked = at_numbers(call, number, grads=True)
        flags = iter([leaf.requires_grad for leaf in leaves(tracked) if isinstance(leaf, Meta)])
    except Exception:
        # Only known by running it. Nearly every operator with a floating result is differentiable.
        flags = iter(
            [category(leaf.dtype) >= 2 for leaf in leaves(value) if isinstance(leaf, Meta)]
        )

    def flagged(item: Any) -> Any:
        if isinstance(item, Meta):
            return replace(item, requires_grad=next(flags))
        return rebuilt(item, flagged)

    return flagged(value)


def _is_operator(function: Any) -> bool:
    """Whether it is an operator: what torch lets others override, or has registered as one."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return True
    name = getattr(function, "__name__", None)
    built_in = torch._C._VariableFunctions  # pyright: ignore[reportAttributeAccessIssue] not in torch's stubs
    if isinstance(name, str) and getattr(built_in, name, None) == function:
        return True
    try:
        return function in _overridable()
    except TypeError:  # not hashable
        return False


@lru_cache(maxsize=1)
def _overridable() -> frozenset[Any]:
    return frozenset(get_testing_overrides())
