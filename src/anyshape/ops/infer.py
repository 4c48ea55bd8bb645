"""From a call on metas to the metas of its result: by rule, else by torch's meta functions, else for these sizes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op
from anyshape.ops.promotion import category
from anyshape.ops.questions import Need, Questions
from anyshape.ops.table import Entry, lookup
from anyshape.symbolic import Expr, Facts, eq


class How(Enum):
    """Where a result comes from."""

    RULE = "own rule"
    META = "torch's meta function"
    SPECIALISED = "run for these sizes only"


@dataclass(frozen=True, slots=True)
class Inferred:
    """The result of an operator in symbols, and what it relies on."""

    #: a `Meta` for each tensor of the result, nested as the result is
    value: Any
    #: what was assumed, in order; `facts` has it all
    needs: tuple[Need, ...]
    facts: Facts
    how: How
    #: symbols made for sizes that depend on data
    unbacked: tuple[Expr, ...] = ()


#: Names that torch takes for the same parameter.
_SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "axes": "dims", "x": "input", "x1": "input", "x2": "other"}


def infer(
    facts: Facts, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Inferred:
    """What `function` returns on these arguments, with a `Meta` for each tensor and an `Expr` for each symbolic integer."""
    entry = lookup(function)
    if entry is None:
        raise UnknownOperator(op=getattr(function, "__name__", repr(function)))
    return _by_rule(facts, entry, args, kwargs)


def _by_rule(
    facts: Facts, entry: Entry, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Inferred:
    questions = Questions(facts, entry.op.name)
    named = {_SYNONYMS.get(name, name): value for name, value in kwargs.items()}
    out = named.pop("out", None)
    value = entry.op.rule(questions, *args, **named)
    target: Meta | None = None
    if entry.in_place:
        target = value = _into(questions, args[0] if args else named["input"], value)
    elif out is not None:
        value = _onto(out, value)
    value = _with_grad(entry.op, target, (args, named), value)
    return Inferred(
        value, tuple(questions.needs), questions.facts, How.RULE, tuple(questions.unbacked)
    )


def _into(q: Questions, target: Meta, value: Any) -> Meta:
    """The result of an in-place form: the target itself, which the value has to fit into."""
    computed: Meta = value[0] if isinstance(value, tuple | list) else value
    if category(computed.dtype) > category(target.dtype):
        raise q.fail(f"a result of {computed.dtype} does not go into a tensor of {target.dtype}")
    if len(computed.shape) != len(target.shape):
        raise q.fail(f"a result of shape {computed.shape} does not go into shape {target.shape}")
    for size, wanted in zip(computed.shape, target.shape, strict=True):
        q.require(eq(size, wanted), "the result of an in-place operator has its target's shape")
    return target


def _onto(out: Any, value: Any) -> Any:
    """The result given by `out=`: the computed shape in the dtype of the given tensor, which is resized if need be."""
    if isinstance(out, tuple | list):
        return tuple(map(_onto, out, value))
    assert isinstance(out, Meta) and isinstance(value, Meta), "out= takes the place of tensors"
    if out.shape == value.shape:
        return out
    return value.like(dtype=out.dtype)


def _with_grad(op: Op, target: Meta | None, args: Any, value: Any) -> Any:
    """The value with `requires_grad` as autograd sets it; a row that is not differentiable has said it itself."""
    if not op.differentiable:
        return value
    tracked = torch.is_grad_enabled() and any(meta.requires_grad for meta in metas_in(args))
    if target is not None:
        return replace(target, requires_grad=target.requires_grad or tracked)
    return map_metas(
        lambda meta: replace(meta, requires_grad=tracked and category(meta.dtype) >= 2), value
    )


def metas_in(value: Any) -> Iterator[Meta]:
    """All metas in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, Meta):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from metas_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from metas_in(item)


def map_metas(function: Callable[[Meta], Meta], value: Any) -> Any:
    """The same nest of tuples, lists and dictionaries with each meta replaced."""
    if isinstance(value, Meta):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)(map_metas(function, item) for item in value)
    if isinstance(value, dict):
        return {key: map_metas(function, item) for key, item in value.items()}
    return value
