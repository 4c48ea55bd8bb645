"""Operators that lead to one result stand together, behind all that they depend on."""

from __future__ import annotations

import torch
import torch.fx

import anyshape
from anyshape.graph import lowering
from anyshape.graph.local_order import in_local_order


def orders(function, *args) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """The nodes of a graph as captured, and in the order that they are lowered in."""
    found: list[tuple[list[torch.fx.Node], list[torch.fx.Node]]] = []

    def seen(nodes, *rest):
        found.append((list(nodes), in_local_order(nodes, *rest)))
        return found[-1][1]

    before = lowering.in_local_order
    lowering.in_local_order = seen
    try:
        anyshape.compile(function)(*args)
    finally:
        lowering.in_local_order = before
    return found[-1]


def targets(nodes: list[torch.fx.Node]) -> list[object]:
    return [node.args[0] for node in nodes if node.op == "call_method"]


def tensors(count: int = 8) -> list[torch.Tensor]:
    return [torch.randn(3, 4) for _ in range(count)]


def test_each_tensor_comes_whole():
    def step(xs, ys):
        for x in xs:
            x.mul_(2)
        for x, y in zip(xs, ys, strict=True):
            x.add_(y)

    before, after = orders(step, tensors(), tensors())
    assert set(before) == set(after)
    assert targets(after) == [each for pair in zip(*[targets(before)[:8]] * 2) for each in pair]  # noqa: B905


def test_who_reads_a_tensor_as_it_was_comes_before_the_write():
    def step(xs):
        kept = [x * 3 for x in xs]
        for x in xs:
            x.add_(1)
        for x, y in zip(xs, reversed(kept), strict=True):
            x.sub_(y)

    xs, ys = tensors(), []
    ys = [x.clone() for x in xs]
    step(ys)
    _, after = orders(step, xs)
    for x, y in zip(xs, ys, strict=True):
        assert torch.equal(x, y)
    place = {node: number for number, node in enumerate(after)}
    for node in after:
        assert all(place[each] < place[node] for each in node.all_input_nodes)


def test_views_are_the_tensors_they_show():
    def step(xs):
        for x in xs:
            x[0].add_(1)
        for x in xs:
            x.mul_(x.t()[0, 0].clone())
        for x in xs:
            x[1:].sub_(x[0])

    xs = tensors()
    ys = [x.clone() for x in xs]
    step(ys)
    anyshape.compile(step)(xs)
    for x, y in zip(xs, ys, strict=True):
        torch.testing.assert_close(x, y)
