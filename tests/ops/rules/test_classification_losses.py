"""Losses of scores against classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, checks_only, dynamic

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about old flags
SIZES = {"b": 3, "c": 4, "s": 5}
LONG = {1: torch.int64}


def in_range(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss with classes that are in range whatever the sizes."""
    return lambda x, y, *rest, **options: loss(x, y - y, *rest, **options)


@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy], ids=lambda f: f.__name__)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "specs",
    [("b 4", "b"), ("b 4 s", "b s"), ("b 4 s 2", "b s 2"), ("b 4 s 2 3", "b s 2 3"), ("4", "")],
)
def test_classes(loss: Callable[..., Any], reduction: str, specs: tuple[str, str]):
    first = {name: SIZES[name] for name in ("b", "s") if name in " ".join(specs).split()}
    assert dynamic(check(in_range(loss), *specs, first=first, dtypes=LONG, reduction=reduction))


def test_there_must_be_a_class():
    for specs in (("b c", "b"), ("b c s", "b s")):
        first = {"b": 3, "c": 4} | ({"s": 5} if "s" in specs[1] else {})
        outcome = check(in_range(F.cross_entropy), *specs, first=first, dtypes=LONG)
        assert checks_only(outcome)
        assert {sizes["c"] for sizes in outcome.guarded} == {0}


def test_weights_and_smoothing():
    def call(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, y - y, w, label_smoothing=0.1)

    assert checks_only(check(call, "b c", "b", "c", first={"b": 3, "c": 4}, dtypes=LONG))
    assert checks_only(check(call, "b c", "b c", "c", first={"b": 3, "c": 4}))
    assert check(call, "b c", "b c", "c", first={"b": 3, "c": 4}, dtypes={2: torch.float64}).served


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_probabilities(reduction: str):
    for spec, first in (("b c", {"b": 3, "c": 4}), ("b c s", SIZES), ("c", {"c": 4})):
        assert dynamic(check(F.cross_entropy, spec, spec, first=first, reduction=reduction))
    assert dynamic(
        check(F.cross_entropy, "b c", "b c", first={"b": 3, "c": 4}, dtypes={1: torch.float64})
    )


def test_old_flags():
    assert dynamic(
        check(F.cross_entropy, "b 4", "b", first={"b": 3}, dtypes=LONG, size_average=False)
    )
    assert dynamic(check(F.nll_loss, "b 4", "b", first={"b": 3}, dtypes=LONG, reduce=False))


@pytest.mark.skipif(
    not hasattr(F, "linear_cross_entropy"), reason="older torch has no such operator"
)
def test_linear_cross_entropy():
    first = {"b": 3, "f": 6}
    for reduction in ("none", "mean"):
        outcome = check(
            F.linear_cross_entropy,
            "b f",
            "4 f",
            "b",
            first=first,
            dtypes={2: torch.int64},
            reduction=reduction,
        )
        assert checks_only(outcome)


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_margins(reduction: str):
    first = {"b": 3, "c": 4}
    for specs in (("b c", "b"), ("c", ""), ("c", "1")):
        names = {name: first[name] for name in " ".join(specs).split() if name in first}
        outcome = check(
            in_range(F.multi_margin_loss), *specs, first=names, dtypes=LONG, reduction=reduction
        )
        assert checks_only(outcome)
        assert {sizes["c"] for sizes in outcome.guarded} == {0}
    for spec in ("b c", "c"):
        names = {name: first[name] for name in spec.split()}
        outcome = check(
            in_range(F.multilabel_margin_loss),
            spec,
            spec,
            first=names,
            dtypes=LONG,
            reduction=reduction,
        )
        assert checks_only(outcome)
        assert {sizes["c"] for sizes in outcome.guarded} == {0}
    assert dynamic(
        check(
            in_range(F.multilabel_margin_loss), "", "", first={}, dtypes=LONG, reduction=reduction
        )
    )


def ctc(
    log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, reduction: str
) -> Any:
    ones = torch.ones_like(lengths)
    return F.ctc_loss(log_probs, targets, ones, ones, reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_sequences(reduction: str):
    first = {"t": 6, "b": 3, "s": 2}
    outcome = check(
        lambda x, y, n: ctc(x.log_softmax(-1), y, n, reduction),
        *("t b 4", "b s", "b"),
        first=first,
        dtypes={1: torch.int64, 2: torch.int64},
        then=[dict.fromkeys(first, 1), dict.fromkeys(first, 9), first | {"b": 0}, first | {"t": 0}],
    )
    assert checks_only(outcome)
    assert len(outcome.served) == 2
    assert len(outcome.guarded) == 2


def test_lengths_as_numbers():
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        lengths: Any = (5, 4), (1, 2)
        return F.ctc_loss(x.log_softmax(-1), y, *lengths, reduction="none")

    first = {"t": 6, "s": 3}
    outcome = check(
        call,
        "t 2 4",
        "2 s",
        first=first,
        dtypes=LONG,
        then=[{"t": 5, "s": 2}, {"t": 4, "s": 2}, {"t": 5, "s": 1}],
    )
    assert outcome.served == [{"t": 5, "s": 2}]
    assert checks_only(outcome)


@pytest.mark.parametrize(
    ("call", "specs", "dtypes"),
    [
        (F.cross_entropy, ("b c", "b"), {}),
        (F.cross_entropy, ("b c", "c"), LONG),
        (F.cross_entropy, ("b c", "b c"), LONG),
        (F.cross_entropy, ("b c", "b s"), {}),
        (F.cross_entropy, ("", ""), LONG),
        (F.cross_entropy, ("b 0", "b"), LONG),
        (F.nll_loss, ("b c", "b"), {1: torch.int32}),
        (F.nll_loss, ("b c", "b"), {0: torch.int64, 1: torch.int64}),
        (lambda x, y: F.nll_loss(x, y, torch.ones(5)), ("b c", "b"), LONG),
        (lambda x, y: F.nll_loss(x, y, torch.ones(4).double()), ("b c", "b"), LONG),
        (F.multi_margin_loss, ("b c", "c"), LONG),
        (F.multilabel_margin_loss, ("b c", "b"), LONG),
        (lambda x, y: ctc(x, y, y[0], "mean"), ("b c s", "b s"), LONG),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...], dtypes: dict[int, torch.dtype]):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES, dtypes=dtypes)
