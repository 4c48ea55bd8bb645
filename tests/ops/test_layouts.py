"""View or copy, for all sizes: what `as_view` says is compared with torch, strides and shared
memory.
"""

from __future__ import annotations

import random
from itertools import permutations, product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import anyshape
from anyshape.errors import ShapeMismatch
from anyshape.ops.families.indexing import getitem
from anyshape.ops.families.views import expand, permute
from anyshape.ops.layouts import Copy, as_view, contiguity, must_view
from anyshape.ops.meta import Meta, contiguous, strided
from anyshape.ops.shape_query import NeedKind, ShapeQuery
from anyshape.symbolic import Facts, Size, as_symbol, evaluate, holds, symbol
from tests.ops.driver import check

A, B, C = symbol("a"), symbol("b"), symbol("c")
CPU = torch.device("cpu")

#: What happens to a contiguous tensor before it is reshaped: on metas and on tensors.
STEPS = {
    "as it is": (lambda q, m: m, lambda t: t),
    "every second of the last": (
        lambda q, m: getitem(q, m, (..., slice(None, None, 2))),
        lambda t: t[..., ::2],
    ),
    "every second of the first": (
        lambda q, m: getitem(q, m, slice(None, None, 2)),
        lambda t: t[::2],
    ),
    "two of the middle": (
        lambda q, m: getitem(q, m, (slice(None), slice(0, 2))),
        lambda t: t[:, :2],
    ),
    "repeated": (
        lambda q, m: expand(q, getitem(q, m, (slice(None), None)), -1, 3, -1, -1),
        lambda t: t[:, None].expand(-1, 3, -1, -1),
    ),
}


def _groupings(shape: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The shape with neighbours joined in all ways."""
    if len(shape) < 2:
        return [shape]
    rest = _groupings(shape[1:])
    return [(shape[0], *r) for r in rest] + [(shape[0] * r[0], *r[1:]) for r in rest]


def _values(sizes: tuple[int, ...]) -> dict[Any, int]:
    return {as_symbol(s): v for s, v in zip((A, B, C), sizes, strict=True)}


def _evaluated(shape: tuple[Size, ...], values: dict[Any, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, values) for size in shape)


def _questions(hints: tuple[int, ...]) -> ShapeQuery:
    facts = Facts()
    for s, hint in zip((A, B, C), hints, strict=True):
        facts = facts.declare(s, hint)
    return ShapeQuery(facts, "reshape")


SIZES = list(product((0, 1, 2, 3), repeat=3))


def _check(
    base: tuple[Size, ...],
    order: tuple[int, ...],
    step: str,
    regroup: int,
    first: tuple[int, ...],
) -> None:
    on_meta, on_tensor = STEPS[step]
    q = _questions(first)
    meta = on_meta(q, permute(q, Meta(base, torch.float32, contiguous(3), CPU), order))
    groups = _groupings(meta.shape)
    shape = groups[regroup % len(groups)]
    said = as_view(q, meta, shape)
    for sizes in [first, *random.Random(regroup).sample(SIZES, 12), (5, 7, 4)]:
        values = _values(sizes)
        if not all(holds(need.fact, values) for need in q.needs):
            assert sizes != first
            continue
        tensor = on_tensor(torch.empty(_evaluated(base, values)).permute(order))
        real = tensor.reshape(_evaluated(shape, values))
        if real.numel() == 0:
            continue
        shared = real.data_ptr() == tensor.data_ptr()
        if isinstance(said, Copy):
            expected = said.shares_if is not None and holds(said.shares_if, values)
            usual = torch.empty(real.shape).stride()
        else:
            expected, usual = True, _evaluated(said, values)
        assert shared == expected, f"at {sizes}: shared {shared}; needs {q.needs}, said {said}"
        for size, a, b in zip(real.shape, real.stride(), usual, strict=True):
            assert size == 1 or a == b, f"at {sizes}: {real.stride()} but {usual}; said {said}"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("base", [(A, B, C), (A, 4, C), (2, B, 3), (A, 1, C), (A, A, C)], ids=str)
def test_reshape_agrees_with_torch_on_strides_and_on_sharing(base: Any, step: str) -> None:
    cases = product(permutations(range(3)), range(8), ((3, 5, 4), (1, 3, 2), (2, 0, 3)))
    for order, regroup, first in random.Random(f"{base}{step}").sample(list(cases), 24):
        _check(base, order, step, regroup, first)


def test_contiguous_tensors_need_nothing() -> None:
    q = _questions((3, 5, 4))
    meta = Meta((A, B, C), torch.float32, contiguous(3), CPU)
    for shape in _groupings(meta.shape):
        assert must_view(q, meta, shape) == as_view(q, meta, shape)
    assert as_view(q, meta, (A, B, 2, C // 2)) == (B * 2 * (C // 2), 2 * (C // 2), C // 2, 1)
    assert q.needs == []


def test_merging_heads_needs_nothing_and_tells_where_memory_is_shared() -> None:
    q = _questions((3, 5, 4))
    heads = Meta((A, 8, B, 64), torch.float32, contiguous(4), CPU)
    said = as_view(q, permute(q, heads, 0, 2, 1, 3), (A, B, 512))
    assert isinstance(said, Copy)
    assert str(said.shares_if) == "b == 1"
    assert q.needs == []


def test_a_size_that_changes_the_strides_is_decided() -> None:
    # One image in channels-first seen as pixels is a view; several have to be copied.
    q = _questions((2, 5, 4))
    images = permute(q, Meta((A, 3, B, C), torch.float32, contiguous(4), CPU), 0, 2, 3, 1)
    assert isinstance(as_view(q, images, (A * B * C, 3)), Copy)
    assert [str(need.fact) for need in q.needs] == ["a != 1"]


def test_must_view_rejects_what_torch_rejects() -> None:
    q = _questions((3, 5, 4))
    meta = permute(q, Meta((A, B, C), torch.float32, contiguous(3), CPU), 0, 2, 1)
    assert must_view(q, meta, (A, 1, C, B))[2:] == (1, C)
    assert q.needs == []
    with pytest.raises(ShapeMismatch, match="do not allow a view"):
        must_view(q, meta, (A, B * C))


def test_what_depends_on_data_is_taken_for_the_general_case_and_checked() -> None:
    q = _questions((3, 5, 4))
    found = q.new_size()
    meta = permute(q, Meta((found, 8, 4), torch.float32, contiguous(3), CPU), 0, 2, 1)
    assert as_view(q, meta, (found, 4, 8)) == (32, 1, 4)
    assert as_view(q, meta, (found * 32,)) == Copy()
    assert q.needs == []
    # For u0 == 1 it would be a view, and transposed.
    assert as_view(q, meta, (found * 4, 8)) == Copy()
    assert [(str(need.fact), need.kind) for need in q.needs] == [("u0 != 1", NeedKind.CHECK)]


def test_contiguity() -> None:
    q = _questions((3, 5, 4))
    meta = Meta((A, B, C), torch.float32, contiguous(3), CPU)
    assert q.known(contiguity(meta))
    fact = contiguity(permute(q, meta, 0, 2, 1))
    for sizes in product((1, 2, 3), repeat=3):
        tensor = torch.empty(sizes).permute(0, 2, 1)
        assert holds(fact, _values(sizes)) == tensor.is_contiguous()


def _as_two_dimensional(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).unsqueeze(-1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.conv2d(_as_two_dimensional(x), torch.ones(6, 4, 3, 1)),
        lambda x: F.interpolate(_as_two_dimensional(x), scale_factor=2),
        lambda x: F.pad(_as_two_dimensional(x), (0, 1)),
        lambda x: torch.cat([_as_two_dimensional(x)] * 2, 3),
        lambda x: F.max_pool2d(_as_two_dimensional(x), (3, 1)),
        lambda x: _as_two_dimensional(x) + 1,
    ],
)
def test_a_dimension_made_of_size_1_keeps_its_place(function: Any) -> None:
    """Torch reads its stride when it asks whether a tensor is channels-last."""
    assert check(function, "b s 4", first={"b": 2, "s": 5}).served


def test_strides_of_sizes_of_1_are_torchs() -> None:
    """Torch reads them when it looks for channels-last tensors."""
    base = torch.empty(3, 17, 6)
    tensors = [base, base[:1, 1:], base[:1, 1:].mT, base[:, :1], base[:, 1:].mT, base[:1].mT]
    tried = 0
    for tensor in tensors:
        batch, rows, columns = tensor.shape
        for cut in (tensor.shape, (batch, 2, rows // 2, columns), (batch, rows, 2, columns // 2)):
            for place in range(len(cut) + 1):
                shape = (*cut[:place], 1, *cut[place:])
                try:
                    expected = tensor.view(shape).stride()
                except RuntimeError:
                    continue
                meta = Meta(
                    tuple(tensor.shape),
                    tensor.dtype,
                    strided(tuple(tensor.shape), tensor.stride()),
                    CPU,
                )
                q = ShapeQuery(Facts(), "view")
                assert must_view(q, meta, shape) == expected, (tensor.stride(), shape)
                assert as_view(q, meta, shape) == expected, (tensor.stride(), shape)
                tried += 1
    assert tried > 40


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_attention_gives_to_convolutions(dynamic: bool | None) -> None:
    """A batch of 1 is not channels-last where others are."""

    def program(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        rows = x.flatten(2).mT.contiguous() * 2
        return F.conv2d(rows.mT.reshape(batch, channels, height, width), weight)

    compiled = anyshape.compile(program, dynamic=dynamic)
    weight = torch.rand(5, 4, 1, 1)
    for batch, side in ((2, 3), (3, 5), (1, 4), (4, 3), (1, 6)):
        x = torch.rand(batch, 4, side, side)
        found, expected = compiled(x, weight), program(x, weight)
        assert found.stride() == expected.stride()
        assert torch.allclose(found, expected)
