"""Dropout in its variants: the input itself while not training, and with nothing to drop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from anyshape.ops.broadcast import pointwise_layout, require_writable
from anyshape.ops.elementwise import fresh
from anyshape.ops.families.casts import returns_itself
from anyshape.ops.lowering.values import Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import Effects, Op, OpKind, Rule, lower, onnx
from anyshape.ops.promotion import result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import eq


def _noise(q: ShapeQuery, input: Meta) -> Meta:
    return input.like(layout=pointwise_layout(q, input.shape, (input,)))


def _noise_by_feature(q: ShapeQuery, input: Meta) -> Meta:
    """One number for each feature of each item: dimensions 0 and 1."""
    if input.rank < 2:
        raise q.fail("feature dropout needs at least two dimensions")
    return input.like((*input.shape[:2], *(1,) * (input.rank - 2)))


def _noise_by_channel(q: ShapeQuery, input: Meta) -> Meta:
    """One number for each feature of a single item: dimension 0."""
    if input.rank < 1:
        raise q.fail("feature dropout needs at least one dimension")
    return input.like((*input.shape[:1], *(1,) * (input.rank - 1)))


def _dropped(noise: Callable[[ShapeQuery, Meta], Meta], training: bool) -> Rule:
    """The rule of a function with these defaults; operators have none, and no `inplace`."""

    def rule(
        q: ShapeQuery,
        input: Meta,
        p: float = 0.5,
        training: bool = training,
        inplace: bool = False,
        train: bool | None = None,
    ) -> Meta:
        if not 0 <= p <= 1:
            raise q.fail(f"the probability must lie between 0 and 1, not {p}")
        if p == 0 or not (training if train is None else train):
            return input
        if inplace:
            require_writable(q, input)
            return input
        if returns_itself(q, eq(input.numel, 0), "of nothing nothing is dropped"):
            return input
        return fresh(q, [input, noise(q, input)], input.dtype)

    return rule


def _spatial(batched: int, only: tuple[int, ...] = ()) -> Rule:
    """Feature dropout on batches of that rank; other ranks (or those of `only`) are one item."""
    by_item, alone = _dropped(_noise_by_feature, True), _dropped(_noise_by_channel, True)

    @functools.wraps(alone)
    def rule(q: ShapeQuery, input: Meta, *args: Any, **kwargs: Any) -> Meta:
        if input.rank == batched:
            return by_item(q, input, *args, **kwargs)
        if only and input.rank not in only:
            raise q.fail(f"an input of {input.rank} dimensions is neither one item nor a batch")
        return alone(q, input, *args, **kwargs)

    return rule


def _native(q: ShapeQuery, input: Meta, p: float, train: bool | None) -> tuple[Meta, Meta]:
    layout = pointwise_layout(q, input.shape, (input,))
    if q.decide(eq(input.numel, 0), "the mask of no elements has the dtype of the input"):
        return input.like(layout=layout), input.like(layout=layout)
    return input.like(layout=layout), input.like(dtype=torch.bool, layout=layout)


def _native_backward(q: ShapeQuery, grad_output: Meta, mask: Meta, scale: float) -> Meta:
    return fresh(q, [grad_output, mask], result_type((grad_output, scale)))


def _row(name: str, rule: Rule, *homes: str, in_place: bool = False) -> Op:
    return Op(
        name,
        tuple(f"{home}.{name}" for home in homes),
        rule,
        OpKind.CALL_OUT,
        in_place=(f"torch.{name}_",) if in_place else (),
        effects=Effects(draws=True, total=True),
    )


_FUNCTIONS = "torch.nn.functional"

ROWS = (
    _row("dropout", _dropped(_noise, True), "torch", _FUNCTIONS, in_place=True),
    _row("dropout1d", _spatial(3, (2,)), _FUNCTIONS),
    _row("dropout2d", _dropped(_noise_by_feature, True), _FUNCTIONS),
    _row("dropout3d", _spatial(5), _FUNCTIONS),
    _row("alpha_dropout", _dropped(_noise, False), "torch", _FUNCTIONS, in_place=True),
    _row("feature_dropout", _dropped(_noise_by_feature, True), "torch", in_place=True),
    _row(
        "feature_alpha_dropout",
        _dropped(_noise_by_feature, False),
        "torch",
        _FUNCTIONS,
        in_place=True,
    ),
    _row("native_dropout", _native, "torch"),
    Op(
        "native_dropout_backward",
        ("torch.ops.aten.native_dropout_backward.default",),
        _native_backward,
        OpKind.POINTWISE,
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower(
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
    "feature_alpha_dropout",
)
def lower_dropout(c: Lowering, input: Value, p: Any, training: Any, train: Any, **_: Any) -> Value:
    if (training if train is None else train) is not False and p != 0:
        raise NotLowered("random numbers are torch's")
    return input


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("dropout")
def onnx_dropout(
    w: Writer, node: Node, input: Any, p: Any, training: bool, train: bool | None
) -> str:
    if (training if train is None else train) and p:
        raise NotMapped("dropout in training")
    return w.name(input)
