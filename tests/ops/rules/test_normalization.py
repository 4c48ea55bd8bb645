"""Softmax and the norms of layers: layouts, sizes that torch refuses, statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, checks_only, dynamic
from tests.ops.laid_out import inside_out

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # of torch, about a dimension left out
SIZES = {"b": 3, "s": 5}
LEGIT: Any = torch.__dict__["_native_batch_norm_legit"]


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def channels_last_3d(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last_3d) if tensor.dim() == 5 else tensor


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.softmax(x, 1),
        lambda x: x.softmax(-1),
        lambda x: x.softmax(dim=0, dtype=torch.float64),
        lambda x: torch.special.softmax(x, 1),
        lambda x: F.softmax(x, 1),
        lambda x: F.softmax(x),
        lambda x: F.softmax(x, dim=0, dtype=torch.float16),
        lambda x: torch.log_softmax(x, 1),
        lambda x: x.log_softmax(-1),
        lambda x: torch.special.log_softmax(x, 0),
        lambda x: F.log_softmax(x, dim=-1),
        lambda x: F.softmin(x, 1),
        lambda x: F.gumbel_softmax(x),
        lambda x: F.gumbel_softmax(x, hard=True, dim=2),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: F.layer_norm(x, [4], torch.ones(4), torch.ones(4)),
        lambda x: torch.layer_norm(x, (4,)),
        lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5),
        lambda x: F.rms_norm(x, (4,)),
        lambda x: torch.rms_norm(x, (4,), torch.ones(4)),
        lambda x: F.local_response_norm(x, 2),
    ],
)
def test_any_size(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        assert dynamic(check(call, "b s 4", first=SIZES, prepare=prepare))


def test_without_dimensions():
    for call in (lambda x: x.softmax(0), lambda x: F.log_softmax(x, -1), lambda x: F.softmax(x)):
        assert dynamic(check(call, "", first={}))


def test_local_response_of_no_integers():
    call = lambda x: F.local_response_norm(x, 2)  # noqa: E731
    outcome = check(call, "b s 4", first=SIZES, dtype=torch.int64)
    assert [0 in sizes.values() for sizes in outcome.guarded] == [True, True]
    assert check(call, "0 s 4", first={"s": 5}, dtype=torch.int64).served


def test_a_hard_choice_needs_something_to_choose():
    outcome = check(lambda x: F.gumbel_softmax(x, hard=True), "b s", first=SIZES)
    assert outcome.guarded == [{"b": 3, "s": 0}]


def test_normalized_shape_may_be_symbolic():
    assert dynamic(
        check(lambda x, s, w: F.layer_norm(x, (s,), w, w), "b s", Sym("s"), "s", first=SIZES)
    )
    assert dynamic(
        check(lambda x, s, w: F.rms_norm(x, (s, 4), w), "b s 4", Sym("s"), "s 4", first=SIZES)
    )


@pytest.mark.parametrize("prepare", [None, channels_last, inside_out])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.softmax(x, 1),
        lambda x: F.log_softmax(x),
        lambda x: F.rms_norm(x, (6,)),
        lambda x: F.layer_norm(x, (6,)),
        lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
        lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.ones(4), torch.ones(4)),
        lambda x: torch.group_norm(x, 2),
        lambda x: torch.group_norm(x, 2, torch.ones(4), torch.ones(4)),
        lambda x: torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, True),
        lambda x: torch.native_batch_norm(
            x, None, None, torch.zeros(4), torch.ones(4), False, 0.1, 1e-5
        ),
        lambda x: F.instance_norm(x, torch.zeros(4), torch.ones(4), use_input_stats=False),
        lambda x: torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, True),
        lambda x: F.local_response_norm(x, 3),
    ],
)
def test_images(call: Callable[..., Any], prepare: Any):
    outcome = check(call, "n 4 h 6", first={"n": 3, "h": 5}, prepare=prepare)
    # Where sizes are 1, an odd layout may be channels-last after all, which torch looks at.
    assert dynamic(outcome) or (prepare is inside_out and outcome.served)


@pytest.mark.parametrize("prepare", [None, channels_last])
def test_more_than_one_value_is_needed(prepare: Any):
    def trained(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, training=True)

    sizes = {"n": 3, "h": 5}
    outcome = check(trained, "n 4 h 1", first=sizes, prepare=prepare)
    assert outcome.guarded == [{"n": 1, "h": 1}]
    assert checks_only(outcome)
    outcome = check(lambda x: F.instance_norm(x), "n 4 h 1", first=sizes, prepare=prepare)
    assert {sizes["h"] for sizes in outcome.guarded} == {1}
    assert checks_only(outcome)
    outcome = check(lambda x: F.group_norm(x, 4), "n 4 h 1", first=sizes, prepare=prepare)
    assert {"n": 1, "h": 1} in outcome.guarded
    assert not outcome.needless
    assert checks_only(outcome)
    assert dynamic(check(trained, "n 4 h 3", first=sizes, prepare=prepare))


def test_volumes():
    for call in (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.group_norm(x, 2),
    ):
        outcome = check(call, "n 4 h 2 3", first={"n": 3, "h": 5}, prepare=channels_last_3d)
        assert dynamic(outcome)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, p: F.batch_norm(x, p, p, p, p, training=True),
        lambda x, p: F.batch_norm(x, p, p, p, p),
        lambda x, p: F.batch_norm(x, p, p),
        lambda x, p: F.instance_norm(x, weight=p, bias=p),
        lambda x, p: F.instance_norm(x, p, p, use_input_stats=False),
        lambda x, p: F.group_norm(x, 1, p, p),
        lambda x, p: torch.native_batch_norm(x, p, p, p, p, True, 0.1, 1e-5),
        lambda x, p: torch.native_batch_norm(x, p, p, p, p, False, 0.1, 1e-5),
        lambda x, p: LEGIT(x, p, p, p, p, True, 0.1, 1e-5),
        lambda x, p: LEGIT(x, p, p, True, 0.1, 1e-5),
    ],
)
def test_symbolic_channels(call: Callable[..., Any]):
    first = {"n": 3, "c": 4, "h": 5}
    assert checks_only(check(call, "n c h", "c", first=first, prepare=torch.abs))
    assert checks_only(check(call, "n c h 2", "c", first=first, prepare=channels_last))


def test_groups_divide_channels():
    outcome = check(
        lambda x, g: F.group_norm(x, g), "n c 2", Sym("g"), first={"n": 3, "c": 4, "g": 2}
    )
    assert {"n": 3, "c": 1, "g": 2} in outcome.guarded
    assert {"n": 3, "c": 4, "g": 1} in outcome.served
    assert {"n": 3, "c": 4, "g": 0} in outcome.guarded


@pytest.mark.parametrize(
    ("call", "specs"),
    [
        (lambda x: torch.group_norm(x, 2), ("n c h",)),
        (lambda x: F.group_norm(x, 2), ("n c h",)),
        (lambda x: F.group_norm(x, 2), ("n c h 3",)),
        (lambda x, p: F.group_norm(x, 2, p, p), ("n c h 3", "c")),
        (
            lambda x, n, c, h: torch.native_group_norm(x, None, None, n, c, h, 2, 1e-5),
            ("n c h", Sym("n"), Sym("c"), Sym("h")),
        ),
    ],
)
def test_groups_of_nothing_are_taken_as_torch_takes_them(
    call: Callable[..., Any], specs: tuple[Any, ...]
):
    """Which empty inputs torch refuses differs by its version."""
    first = {"n": 3, "c": 4, "h": 5}
    empty = [{"n": n, "c": c, "h": h} for n in (0, 3) for c in (0, 4) for h in (0, 5)]
    outcome = check(call, *specs, first=first, then=empty)
    assert {"n": 0, "c": 4, "h": 5} in outcome.served
    assert not outcome.needless
    assert checks_only(outcome)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_dtypes(dtype: torch.dtype):
    for call in (
        lambda x: x.softmax(1),
        lambda x: F.softmax(x, 1, dtype=torch.float32),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: F.rms_norm(x, (4,), torch.ones(4)),
        lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5),
        lambda x: F.group_norm(x, 1),
        lambda x: F.instance_norm(x),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    ):
        assert checks_only(check(call, "b s 4", first=SIZES, dtype=dtype))
    assert dynamic(
        check(lambda x: x.softmax(1, dtype=torch.float32), "b s", first=SIZES, dtype=torch.int64)
    )


def test_statistics_are_as_wide_as_the_parameters():
    ones = torch.ones(4)
    for call in (
        lambda x: torch.native_layer_norm(x, (4,), ones, ones, 1e-5),
        lambda x: F.layer_norm(x, (4,), ones, ones),
        lambda x: torch.native_batch_norm(x, ones, ones, ones, ones, False, 0.1, 1e-5),
        lambda x: torch.native_group_norm(x, ones, ones, 3, 4, 1, 2, 1e-5),
    ):
        assert check(call, "3 4", first={}, dtype=torch.bfloat16).hows


def test_native_group_norm():
    def call(x: torch.Tensor, n: int, h: int) -> Any:
        return torch.native_group_norm(x, None, None, n, 4, h, 2, 1e-5)

    for prepare in (None, channels_last):
        first = {"n": 3, "h": 5}
        assert checks_only(check(call, "n 4 h 1", Sym("n"), Sym("h"), first=first, prepare=prepare))


def test_grad():
    def call(x: torch.Tensor) -> Any:
        return (
            torch.native_layer_norm(x, (4,), None, None, 1e-5),
            torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
            F.layer_norm(x, (4,)),
            F.softmax(x, 1),
        )

    assert checks_only(check(call, "b 4", first={"b": 3}, prepare=lambda t: t.requires_grad_()))


@pytest.mark.parametrize(
    ("call", "specs", "dtype"),
    [
        (lambda x: x.softmax(0), ("b s",), torch.int64),
        (lambda x: x.softmax(2), ("b s",), torch.float32),
        (lambda x: F.layer_norm(x, (4,)), ("b s",), torch.float32),
        (lambda x: F.layer_norm(x, ()), ("b s",), torch.float32),
        (lambda x, w: F.layer_norm(x, (4,), w), ("b 4", "s"), torch.float32),
        (lambda x: F.rms_norm(x, (4,)), ("b 4",), torch.int64),
        (lambda x: F.group_norm(x, 2), ("b s",), torch.float32),
        (lambda x: F.group_norm(x, 2), ("b",), torch.float32),
        (lambda x: F.batch_norm(x, None, None), ("b s",), torch.float32),
        (lambda x: F.batch_norm(x, None, None, training=True), ("b",), torch.float32),
        (lambda x: F.batch_norm(x, None, None, training=True), ("1 s",), torch.float32),
        (lambda x, w: F.batch_norm(x, w, w), ("b s", "b"), torch.float32),
        (lambda x: F.instance_norm(x), ("b s",), torch.float32),
        (lambda x: F.instance_norm(x, use_input_stats=False), ("b s 2",), torch.float32),
        (lambda x: F.local_response_norm(x, 2), ("b s",), torch.float32),
        (lambda x: F.local_response_norm(x, 0), ("b s 2",), torch.float32),
        (
            lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
            ("0 s",),
            torch.float32,
        ),
    ],
)
def test_rejected(call: Callable[..., Any], specs: tuple[str, ...], dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, *specs, first=SIZES, dtype=dtype)
