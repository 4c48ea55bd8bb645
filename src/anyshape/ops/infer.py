"""From a call on metas to the metas of its result: by rule, else by torch's meta functions, else
for these sizes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import torch

from anyshape.errors import SymbolicTypeError, UnknownOperator
from anyshape.ops.bind import OpCall, Unbound, bind_match, is_bound
from anyshape.ops.broadcast import require_writable
from anyshape.ops.concrete import ConcreteCall
from anyshape.ops.meta import Meta
from anyshape.ops.meta_fallback import without_row
from anyshape.ops.op import Op, OpKind
from anyshape.ops.promotion import category
from anyshape.ops.shape_query import Need, ShapeQuery
from anyshape.ops.signature import signature_of, taken_by
from anyshape.ops.table import OpMatch, lookup
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Facts, Size, and_, eq


class How(Enum):
    """Where a result comes from."""

    RULE = "own rule"
    META = "torch's meta function"
    SPECIALISED = "run for these sizes only"


class Inferred(NamedTuple):
    """The result of an operator in symbols, and what it relies on."""

    #: a `Meta` for each tensor of the result, nested as the result is
    value: Any
    #: what was assumed, in order; `facts` has it all
    needs: tuple[Need, ...]
    facts: Facts
    how: How
    #: symbols made for sizes that depend on data
    unbacked: tuple[Expr, ...] = ()
    #: of a result for these sizes only: why
    detail: str = ""


#: What a rule says of `requires_grad` there is the base's for a view, and False for a copy.
_MAY_BE_VIEWS: Final = (OpKind.VIEW, OpKind.INDEX_MAP)


def infer(
    facts: Facts,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    seen: Any = None,
) -> Inferred:
    """What `function` returns on these arguments, with a `Meta` for each tensor and an `Expr` for
    each symbolic integer.

    `seen` is what it returned in this run (the metas of the real tensors, nested as the result is),
    if it has run: torch's shape functions misstate a layout here and there.
    """
    for argument in args:
        if isinstance(argument, torch.Tensor):
            raise SymbolicTypeError(
                detail="a real tensor among the arguments: `of_tensor` gives the meta of it"
            )
    entry = lookup(function)
    if entry is not None:
        try:
            return _by_rule(facts, entry, args, kwargs)
        except UnknownOperator:
            # The rule does not cover these arguments.
            return _without_row(facts, ConcreteCall(function, args, kwargs, seen))
    return _without_row(facts, ConcreteCall(function, args, kwargs, seen))


def _without_row(facts: Facts, call: ConcreteCall) -> Inferred:
    named = dict(call.kwargs)
    out = named.pop("out", None)
    found = without_row(facts, replace(call, kwargs=named), rule_value)
    q = found.questions
    value = found.value if out is None else _onto(q, out, found.value)
    how = How.META if found.specialised is None else How.SPECIALISED
    return Inferred(value, tuple(q.needs), q.facts, how, (), found.specialised or "")


def _by_rule(
    facts: Facts, entry: OpMatch, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Inferred:
    questions = ShapeQuery(facts, entry.op.name)
    named: dict[str, Any] = {}
    out = None
    if kwargs:
        own_name = signature_of(entry.op).own_name
        named = {own_name(name): value for name, value in kwargs.items()}
        out = named.pop("out", None)
    value = rule_value(questions, entry, args, named)
    target: Meta | None = None
    if entry.in_place:
        target = value
    elif out is not None:
        value = _onto(questions, out, value)
    value = _with_grad(entry.op, target, (args, named), value)
    needs = tuple(questions.needs) if questions.needs else ()
    return Inferred(value, needs, questions.facts, How.RULE, tuple(questions.unbacked))


def rule_value(q: ShapeQuery, entry: OpMatch, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a row says; for an in-place form, of its target.

    Raises `UnknownOperator` if the rule does not cover the arguments.
    """
    op = entry.op
    try:
        if op.signature is None:
            value = op.rule(q, *args, **named)
        else:
            value = _by_name(q, op, bind_match(entry, args, named))
    except (TypeError, Unbound) as error:
        # Torch takes arguments that the rule does not.
        if not is_bound(entry, args, named):
            raise UnknownOperator(op=op.name) from error
        raise
    if entry.in_place and not entry.op.restrides:
        return _into(q, args[0] if args else named["input"], value)
    return value


def _by_name(q: ShapeQuery, op: Op, call: OpCall) -> Any:
    """What a rule says that gets those arguments that it takes."""
    if call.is_asked_for:
        require_writable(q, call.first)
        return call.first
    return op.rule(q, **taken_by(op.rule, call.arguments))


def _into(q: ShapeQuery, target: Meta, value: Any) -> Meta:
    """The result of an in-place form: the target itself, which the value has to fit into."""
    computed: Meta = value[0] if isinstance(value, tuple | list) else value
    if category(computed.dtype) > category(target.dtype):
        raise q.fail(f"a result of {computed.dtype} does not go into a tensor of {target.dtype}")
    if len(computed.shape) != len(target.shape):
        raise q.fail(f"a result of shape {computed.shape} does not go into shape {target.shape}")
    for size, wanted in zip(computed.shape, target.shape, strict=True):
        q.require(eq(size, wanted), "the result of an in-place operator has its target's shape")
    require_writable(q, target)
    if target.shares_if is not None:
        q.decide(
            target.shares_if,
            "a write to a reshaped tensor is seen through its operand where it is a view",
        )
    return target


def _onto(q: ShapeQuery, out: Any, value: Any) -> Any:
    """The result given by `out=`: the computed shape in the dtype of the given tensor, which is
    resized if need be."""
    if isinstance(out, tuple | list):
        return tuple(_onto(q, given, computed) for given, computed in zip(out, value, strict=True))
    assert isinstance(out, Meta), "out= takes the place of a tensor"
    assert isinstance(value, Meta), "out= takes the place of a tensor"
    # Without elements it does not matter which of the two layouts the result has.
    if 0 not in out.shape and _has_shape(q, out, value.shape):
        return out
    return value.like(dtype=out.dtype, layout=value.layout)


def _has_shape(q: ShapeQuery, out: Meta, shape: tuple[Size, ...]) -> bool:
    if q.same_all(out.shape, shape):
        return True
    if len(out.shape) != len(shape):
        return False
    return q.decide(and_(*map(eq, out.shape, shape)), "`out` is resized if it has another shape")


def _with_grad(op: Op, target: Meta | None, args: Any, value: Any) -> Any:
    """The value with `requires_grad` as autograd sets it; a row that is not differentiable has said
    it itself."""
    if not op.differentiable:
        return value
    if not torch.is_grad_enabled() and op.lowering in _MAY_BE_VIEWS:
        return value  # A view requires grad if its base does, also where nothing is recorded.
    tracked = torch.is_grad_enabled() and _requires_grad(args)
    if target is not None:
        return _requiring(target, target.requires_grad or tracked)
    if type(value) is Meta:
        # An operator that had nothing to do returns its tensor, which stays as it was.
        return value if args[0] and value is args[0][0] else _requiring(value, tracked)
    given = {id(meta) for meta in metas_in(args)}
    return map_metas(lambda m: m if id(m) in given else _requiring(m, tracked), value)


def _requires_grad(value: Any) -> bool:
    """Whether a tensor in nested tuples, lists and dictionaries requires grad."""
    kind = type(value)
    if kind is Meta:
        return value.requires_grad
    if kind is tuple or kind is list:
        return any(map(_requires_grad, value))
    return kind is dict and any(map(_requires_grad, value.values()))


def _requiring(meta: Meta, tracked: bool) -> Meta:
    tracked = tracked and category(meta.dtype) >= 2
    return meta if meta.requires_grad == tracked else replace(meta, requires_grad=tracked)


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
