"""Broadcasting, and the layout of pointwise results against torch's own."""

from __future__ import annotations

import random

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.meta import dense_strides, of_tensor
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Facts, eq, symbol
from tests.ops.driver import Sym, check, dynamic

S, T = symbol("s"), symbol("t")


def questions(s: int = 5, t: int = 5) -> ShapeQuery:
    return ShapeQuery(Facts().declare(S, s).declare(T, t), "test")


def test_equal_shapes_need_nothing() -> None:
    q = questions()
    assert broadcast(q, [(S, 4), (S, 4)]) == (S, 4)
    assert broadcast(q, [(S, 4), (4,), (1, 1), ()]) == (S, 4)
    assert not q.needs


@pytest.mark.parametrize(
    ("s", "t", "shape", "fact"),
    [(5, 5, T, eq(S, T)), (5, 1, S, eq(T, 1)), (1, 5, T, eq(S, 1))],
)
def test_what_stretches_is_a_guard(s: int, t: int, shape: object, fact: object) -> None:
    q = questions(s, t)
    assert broadcast(q, [(S,), (T,)]) == (shape,)
    assert [need.fact for need in q.needs] == [fact]


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ShapeMismatch):
        broadcast(questions(5, 4), [(S,), (T,)])


def _operand(dice: random.Random, shape: list[int]) -> torch.Tensor:
    """A tensor of the shape, with some sizes 1 and some leading dimensions left out; permuted,
    sliced and expanded.
    """
    kept = shape[dice.choice((0, 0, 0, 1)) :]
    sizes = [1 if dice.random() < 0.2 else size for size in kept]
    order = dice.sample(range(len(sizes)), len(sizes))
    gaps = [dice.choice((1, 1, 1, 2)) for _ in sizes]
    expanded = [dice.random() < 0.15 for _ in sizes]
    stored = [1 if expanded[d] else sizes[d] * gaps[d] for d in order]
    tensor = torch.empty(stored).permute([order.index(d) for d in range(len(sizes))])
    for dim, (gap, wide) in enumerate(zip(gaps, expanded, strict=True)):
        if not wide and gap > 1:
            tensor = tensor[(slice(None),) * dim + (slice(None, None, gap),)]
    return tensor.expand(sizes)


@pytest.mark.parametrize("seed", range(40))
def test_layouts_are_torchs(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        shape = [dice.choice((2, 3, 3, 4)) for _ in range(dice.choice((2, 3, 4)))]
        operands = [_operand(dice, shape) for _ in range(dice.choice((1, 2, 3)))]
        # A dimension of size 1 in the result has strides of no meaning, which torch takes for some.
        if any(size == 1 for size in torch.broadcast_shapes(*(x.shape for x in operands))):
            continue
        result = {1: torch.sin, 2: torch.add, 3: torch.addcmul}[len(operands)](*operands)
        q = ShapeQuery(Facts(), "test")
        metas = [of_tensor(operand) for operand in operands]
        layout = pointwise_layout(q, tuple(result.shape), metas)
        said = dense_strides(tuple(result.shape), layout.order)
        for size, ours, theirs in zip(result.shape, said, result.stride(), strict=True):
            text = [(tuple(x.shape), x.stride()) for x in operands]
            assert size == 1 or ours == theirs, (text, said, result.stride())
        assert not q.needs


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.permute(2, 0, 1).sin(),
        lambda x: x[:, 1:].sin(),
        lambda x: x[:, ::2].transpose(0, 2).sin(),
        lambda x: x.unsqueeze(1).expand(-1, 4, -1, -1).transpose(1, 3).exp(),
        lambda x: x.transpose(0, 1) + x[:, :, :1].transpose(0, 1),
        lambda x: x[0] + x.permute(0, 2, 1).transpose(1, 2),
        lambda x: x.select(1, 0).t() * 2,
    ],
)
def test_symbolic_layouts(function: object) -> None:
    outcome = check(function, "a b c", first={"a": 3, "b": 4, "c": 5})  # pyright: ignore[reportArgumentType] a list of lambdas
    assert all("layout" not in need.reason for need in outcome.needs)


def test_an_overlapping_layout_is_decided() -> None:
    """Equal strides: the smaller size goes inside."""
    outcome = check(
        lambda x: x.unfold(0, 3, 1).cos(), "a", first={"a": 9}, then=[{"a": 12}, {"a": 4}]
    )
    assert outcome.served == [{"a": 12}]
    assert outcome.guarded == [{"a": 4}]


def test_writing_to_an_expanded_tensor() -> None:
    """Torch accepts it only where nothing is stretched, unless the tensor is only filled."""
    sizes = [{"a": 2}, {"a": 0}]
    outcome = check(lambda x, n: x.expand(n).add_(1), "1", Sym("a"), first={"a": 1}, then=sizes)
    assert (outcome.served, outcome.guarded) == ([{"a": 0}], [{"a": 2}])
    outcome = check(lambda x, n: x.expand(n).fill_(1), "1", Sym("a"), first={"a": 3}, then=sizes)
    assert outcome.served == sizes


def test_dynamic_pair() -> None:
    assert dynamic(check(torch.add, "a b", "a b", first={"a": 3, "b": 4}))
