"""Sizes that depend on data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from anyshape.errors import ShapeMismatch
from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.shape_query import NeedKind
from anyshape.symbolic import Facts, ge, le, symbol
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import inside_out

SIZES = {"b": 3, "s": 5}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.nonzero(x),
        lambda x: x.nonzero(),
        lambda x: torch.nonzero(x, as_tuple=True),
        lambda x: x.nonzero(as_tuple=True),
        lambda x: torch.argwhere(x),
        lambda x: x.argwhere(),
        lambda x: torch.where(x > 0),
        lambda x: torch.nonzero_static(x, size=5, fill_value=0),
        lambda x: x.nonzero_static(size=2),
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x.masked_select(x > 1),
        lambda x: torch.unique(x),
        lambda x: x.unique(sorted=False),
        lambda x: torch.unique(x, return_inverse=True),
        lambda x: torch.unique(x, return_counts=True),
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x),
        lambda x: x.unique_consecutive(return_inverse=True, return_counts=True),
        lambda x: torch.repeat_interleave(x, 3),
        lambda x: x.repeat_interleave(2, 1),
        lambda x: x.repeat_interleave(2, dim=-1, output_size=8),
        lambda x: x.repeat_interleave(torch.tensor(2), 0),
        lambda x: x.repeat_interleave(torch.tensor([2]), 1),
        lambda x: x.repeat_interleave(torch.tensor([0, 1, 2, 3]), 2),
        lambda x: x.repeat_interleave(torch.tensor([0, 1, 2, 3]), 2, output_size=6),
    ],
)
def test_any_size(call: Callable[..., Any]):
    for dtype in (torch.float32, torch.int64):
        for prepare in (None, inside_out):
            assert dynamic(check(call, "b s 4", first=SIZES, dtype=dtype, prepare=prepare))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.unique(x, dim=0),
        lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True),
        lambda x: x.unique(dim=-1, return_counts=True),
        lambda x: torch.unique_consecutive(x, dim=1, return_inverse=True),
    ],
)
def test_slices_may_not_be_empty(call: Callable[..., Any]):
    for prepare in (None, inside_out):
        outcome = check(call, "b s 4", first=SIZES, dtype=torch.int64, prepare=prepare)
        assert outcome.served
        assert all(need.kind is NeedKind.CHECK for need in outcome.needs)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.nonzero(),
        lambda x: x.nonzero(as_tuple=True),
        lambda x: x.argwhere(),
        lambda x: torch.where(x > 0),
        lambda x: x.unique(),
        lambda x: x.masked_select(x > 0),
        lambda x: x.repeat_interleave(3),
        lambda x: x.nonzero_static(size=3),
        lambda x: x.unique(return_inverse=True),
    ],
)
def test_without_dimensions(call: Callable[..., Any]):
    assert dynamic(check(call, "", first={}))


def test_counts():
    assert dynamic(check(lambda x: torch.bincount(x), "s", first={"s": 5}, dtype=torch.int64))
    assert dynamic(check(lambda x: x.bincount(minlength=7), "s", first={"s": 5}, dtype=torch.int64))
    call = lambda x, n: torch.bincount(x, minlength=n)  # noqa: E731
    assert dynamic(check(call, "s", Sym("n"), first={"s": 5, "n": 4}, dtype=torch.int64))
    for dtype in (torch.float32, torch.float64, torch.int64, torch.float16):
        outcome = check(
            torch.bincount, "s", "s", first={"s": 5}, dtype=torch.int64, dtypes={1: dtype}
        )
        assert outcome.guarded == [{"s": 0}]  # nothing is counted in integers


def test_masks_are_broadcast():
    call = lambda x, m: x.masked_select(m > 0)  # noqa: E731
    assert dynamic(check(call, "b s", "s", first=SIZES))
    assert dynamic(check(call, "s", "b 1", first=SIZES))


def test_repeats():
    long = {1: torch.int64}
    call = lambda x, r: x.repeat_interleave(r, 1)  # noqa: E731
    assert dynamic(check(call, "b s", "s", first=SIZES, dtypes=long))
    assert dynamic(check(call, "b s", "", first=SIZES, dtypes=long))
    assert dynamic(
        check(lambda x, r: x.repeat_interleave(r), "s", "s", first={"s": 5}, dtypes=long)
    )
    assert dynamic(
        check(lambda r: torch.repeat_interleave(r), "s", first={"s": 5}, dtype=torch.int64)
    )
    assert dynamic(check(call, "b s", Sym("r"), first=SIZES | {"r": 2}))
    outcome = check(call, "b s", "n", first=SIZES | {"n": 5}, dtypes=long)
    assert {"b": 3, "s": 5, "n": 1} in outcome.served
    assert {
        "b": 3,
        "s": 5,
        "n": 0,
    } in outcome.guarded


def test_positions_given_a_size():
    assert dynamic(
        check(lambda x, n: x.nonzero_static(size=n), "b s", Sym("n"), first=SIZES | {"n": 4})
    )


def test_what_is_true_of_a_count_is_known_and_needs_no_check():
    s = symbol("s")
    facts = Facts().declare(s, 5)
    x = Meta((s, 4), torch.int64, contiguous(2), torch.device("cpu"))

    def range_of(function: Callable[..., Any], x: Meta, facts: Facts = facts, **kwargs: Any) -> Any:
        inferred = infer(facts, function, (x,), kwargs)
        [count] = inferred.unbacked
        assert not inferred.needs
        assert function is torch.bincount or inferred.facts.holds(le(count, x.numel))
        return inferred.facts.range(count)

    assert range_of(torch.nonzero, x)[0] == 0
    assert range_of(torch.argwhere, x)[0] == 0
    assert range_of(torch.unique, x)[0] == 0
    assert range_of(torch.unique, x, facts.assume(ge(s, 2), "a test"))[0] == 1
    assert range_of(torch.nonzero, x.like((3, 4))) == (0, 12)
    assert range_of(torch.unique, x.like((3, 4))) == (1, 12)
    assert range_of(torch.bincount, x.like((s,)), minlength=3) == (3, None)


def test_two_counts_are_two_symbols():
    def call(x: torch.Tensor) -> Any:
        return x.nonzero(), (x > 1).nonzero()

    outcome = check(call, "b s", first=SIZES)
    counts = {
        meta.shape[0]
        for one in outcome.calls
        for meta in tree_leaves(one.inferred.value)
        if one.name == "nonzero"
    }
    assert len(counts) == 2


@pytest.mark.parametrize(
    ("call", "spec", "dtype"),
    [
        (lambda x: x.masked_select(x), "b s", torch.float32),
        (lambda x: torch.bincount(x), "b s", torch.int64),
        (lambda x: torch.bincount(x), "s", torch.float32),
        (lambda x: torch.bincount(x, minlength=-1), "s", torch.int64),
        (lambda x: x.repeat_interleave(-1), "s", torch.float32),
        (lambda x: x.repeat_interleave(torch.tensor([1.0])), "s", torch.float32),
        (lambda x: x.repeat_interleave(torch.tensor([1, 2])), "s", torch.float32),
        (lambda x: x.repeat_interleave(2, output_size=3), "s", torch.float32),
        (lambda x: x.unique(dim=0), "b 0", torch.float32),
        (lambda x: x.nonzero_static(size=-1), "s", torch.float32),
    ],
)
def test_rejected(call: Callable[..., Any], spec: str, dtype: torch.dtype):
    with pytest.raises(ShapeMismatch):
        check(call, spec, first=SIZES, dtype=dtype)
