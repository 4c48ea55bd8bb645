"""Losses of values against values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from anyshape.ops.infer import How
from anyshape.ops.shape_query import NeedKind
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import inside_out

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # of torch, about broadcasting and old flags
# torch's stubs do not know the newer `weight`.
# pyright: reportCallIssue=false
SIZES = {"b": 3, "s": 5}
REDUCTIONS = ["none", "mean", "sum"]


def probabilities(tensor: torch.Tensor) -> torch.Tensor:
    return inside_out(tensor.sigmoid())


OF_TWO: list[Callable[..., Any]] = [
    F.mse_loss,
    F.l1_loss,
    F.smooth_l1_loss,
    F.huber_loss,
    F.soft_margin_loss,
    F.kl_div,
    F.binary_cross_entropy,
    F.binary_cross_entropy_with_logits,
    F.poisson_nll_loss,
    F.hinge_embedding_loss,
    F.multilabel_soft_margin_loss,
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", OF_TWO, ids=lambda f: f.__name__)
def test_of_two(loss: Callable[..., Any], reduction: str):
    for prepare in (torch.sigmoid, probabilities):
        assert dynamic(check(loss, "b s", "b s", first=SIZES, prepare=prepare, reduction=reduction))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("loss", OF_TWO, ids=lambda f: f.__name__)
def test_layout_of_operands_that_differ(loss: Callable[..., Any], order: int):
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = x.sigmoid(), y.sigmoid()
        return loss(x, y.t(), reduction="none") if order else loss(x.t(), y, reduction="none")

    sizes = ("s b", "b s") if not order else ("b s", "s b")
    assert dynamic(check(call, *sizes, first=SIZES))


SAME_SIZES = (F.binary_cross_entropy, F.binary_cross_entropy_with_logits)


@pytest.mark.parametrize(
    "loss", [loss for loss in OF_TWO if loss not in SAME_SIZES], ids=lambda f: f.__name__
)
def test_broadcast(loss: Callable[..., Any]):
    for reduction in REDUCTIONS:
        assert dynamic(check(loss, "b s", "s", first=SIZES, reduction=reduction))
    for dtype in (torch.float64, torch.float32):
        check(loss, "b s", "s", first=SIZES, dtypes={1: dtype}, reduction="none")
        check(loss, "b s", "s", first=SIZES, dtypes={0: dtype}, reduction="none")
        check(loss, "b s", "", first=SIZES, dtypes={1: dtype}, reduction="mean")


@pytest.mark.parametrize(
    ("call", "specs"),
    [
        (lambda x, y, w: F.mse_loss(x, y, weight=w), ("b s", "b s", "b s")),
        (lambda x, y, w: F.mse_loss(x, y, weight=w, reduction="none"), ("b s", "s", "b s")),
        (lambda x, y, w: F.l1_loss(x, y, weight=w, reduction="sum"), ("b s", "b s", "b s")),
        (lambda x, y, w: F.huber_loss(x, y, weight=w), ("b s", "b s", "b s")),
        (lambda x, y, w: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), w), ("b s", "b s", "s")),
        (
            lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=w),
            ("b s", "b s", "s"),
        ),
        (
            lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, reduction="none"),
            ("b s", "b s", "1 s"),
        ),
        (
            lambda x, y, w: F.multilabel_soft_margin_loss(x, y, w, reduction="none"),
            ("b s", "b s", "s"),
        ),
        (lambda x, y, w: F.gaussian_nll_loss(x, y, w.abs()), ("b s", "b s", "b s")),
        (
            lambda x, y, w: F.gaussian_nll_loss(x, y, w.abs(), reduction="none"),
            ("b s 4", "b s 4", "b s 1"),
        ),
        (
            lambda x, y, w: F.gaussian_nll_loss(x, y, w.abs(), reduction="none"),
            ("b s 4", "b s 4", "b s"),
        ),
        (lambda x, y: F.gaussian_nll_loss(x, y, 0.5, full=True, reduction="none"), ("b s", "b s")),
        (lambda x, y, t: F.margin_ranking_loss(x, y, t), ("b s", "b s", "b s")),
        (lambda x, y, t: F.margin_ranking_loss(x, y, t, reduction="none"), ("b s", "1 s", "b 1")),
        (lambda x, y, t: F.cosine_embedding_loss(x, y, t, reduction="none"), ("b s", "b s", "b")),
        (lambda x, y, t: F.cosine_embedding_loss(x, y, t), ("s", "s", "")),
        (
            lambda x, y, z: F.triplet_margin_loss(x, y, z, reduction="none"),
            ("b s 4", "b s 4", "b s 4"),
        ),
        (lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True), ("b s", "b s", "b s")),
        (
            lambda x, y, z: F.triplet_margin_with_distance_loss(x, y, z, reduction="none"),
            ("b s", "b s", "b s"),
        ),
        (lambda x, y: F.mse_loss(x, y, size_average=False), ("b s", "b s")),
        (lambda x, y: F.mse_loss(x, y, reduce=False), ("b s", "b s")),
        (lambda x, y: F.kl_div(x, y, reduction="batchmean"), ("b s", "b s")),
        (lambda x, y: F.kl_div(x, y, log_target=True, reduction="none"), ("b s", "b s")),
        (lambda x, y: F.poisson_nll_loss(x, y, log_input=False, full=True), ("b s", "b s")),
        (lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), ("b s", "b s")),
        (lambda x, y: torch.kl_div(x, y), ("b s", "b s")),
        (lambda x, y: torch.kl_div(x, y, 1, log_target=True), ("b s", "b s")),
        (lambda x, y: torch.binary_cross_entropy_with_logits(x, y), ("b s", "b s")),
        (lambda x, y: torch.binary_cross_entropy_with_logits(x, y, None, None, 2), ("s", "b s")),
        (lambda x, y: torch.poisson_nll_loss(x, y, True, False, 1e-8, 1), ("b s", "b s")),
        (lambda x, y: torch.hinge_embedding_loss(x, y), ("b s", "b s")),
        (lambda x, y: torch.hinge_embedding_loss(x, y, 0.5, 1), ("b s", "b s")),
        (lambda x, y, t: torch.margin_ranking_loss(x, y, t), ("b s", "s", "s")),
        (lambda x, y, t: torch.cosine_embedding_loss(x, y, t, 0.1, 2), ("b s", "b s", "b")),
        (lambda x, y, z: torch.triplet_margin_loss(x, y, z), ("b s", "b s", "b s")),
        (
            lambda x, y, z: torch.triplet_margin_loss(x, y, z, 1.0, 2.0, 1e-6, False, 1),
            ("b s", "b s", "b s"),
        ),
    ],
)
def test_any_size(call: Callable[..., Any], specs: tuple[str, ...]):
    assert dynamic(check(call, *specs, first=SIZES))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_dtypes(dtype: torch.dtype):
    for loss in OF_TWO:
        for reduction in REDUCTIONS:
            check(
                loss,
                "b s",
                "b s",
                first=SIZES,
                dtype=dtype,
                prepare=torch.sigmoid,
                reduction=reduction,
            )
    for loss in (F.l1_loss, F.poisson_nll_loss, F.hinge_embedding_loss):
        check(loss, "b s", "b s", first=SIZES, dtype=torch.int64, reduction="none")
    check(F.l1_loss, "b s", "b s", first=SIZES, dtype=torch.int32, reduction="sum")
    check(F.cosine_embedding_loss, "b s", "b s", "b", first=SIZES, dtype=torch.int64)
    check(F.l1_loss, "b s", "b s", first=SIZES, dtype=torch.complex64, reduction="none")


@pytest.mark.parametrize("wide", [0, 1])
def test_operands_of_two_dtypes(wide: int):
    for loss in OF_TWO:
        if loss is not F.binary_cross_entropy:
            check(loss, "b s", "b s", first=SIZES, dtypes={wide: torch.float64}, reduction="none")
            check(loss, "b s", "b s", first=SIZES, dtypes={wide: torch.float64})


def test_variances_are_stretched_in_one_dimension_only():
    call = lambda x, v: F.gaussian_nll_loss(x, x, v.abs(), reduction="none")  # noqa: E731
    outcome = check(
        call, "b s", "1 1", first={"b": 1, "s": 5}, then=[{"b": 1, "s": 9}, {"b": 9, "s": 5}]
    )
    assert outcome.served == [{"b": 1, "s": 9}]
    assert outcome.guarded == [{"b": 9, "s": 5}]


@pytest.mark.parametrize(
    ("call", "specs", "dtype"),
    [
        (F.mse_loss, ("b s", "b 4"), torch.float32),
        (F.mse_loss, ("b s", "b s"), torch.int64),
        (F.l1_loss, ("b s", "b s"), torch.int64),
        (F.binary_cross_entropy, ("b s", "s"), torch.float32),
        (F.binary_cross_entropy_with_logits, ("b s", "s"), torch.float32),
        (F.soft_margin_loss, ("s", "b s"), torch.float32),
        (F.kl_div, ("b s", "b s"), torch.int64),
        (lambda x, y: F.mse_loss(x, x, weight=y), ("b s", "s"), torch.float32),
        (lambda x, y: F.margin_ranking_loss(x, x, y), ("b s", "s"), torch.float32),
        (lambda x, y: F.cosine_embedding_loss(x, x, y), ("b s 2", "b"), torch.float32),
        (lambda x, y: F.triplet_margin_loss(x, x, y), ("b s", "s"), torch.float32),
        (lambda x, v: F.gaussian_nll_loss(x, x, v), ("b s", "s"), torch.float32),
        (lambda x, v: F.mse_loss(x, v, reduction="middle"), ("b s", "b s"), torch.float32),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...], dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES, dtype=dtype)


def test_a_distance_of_the_users_own_is_beyond_the_rule():
    def call(x: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_with_distance_loss(
            x, x, x, distance_function=lambda a, b: (a - b).sum()
        )

    assert How.RULE not in check(call, "b s", first=SIZES).hows


def test_needs_are_checks_or_broadcasts():
    outcome = check(F.mse_loss, "b s", "n s", first=SIZES | {"n": 3})
    assert [need.kind for need in outcome.needs] == [NeedKind.GUARD]
