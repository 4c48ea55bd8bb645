"""A bad index is found where its operator stands: what the program has written before is written,
and what it writes behind is not. Small tensors are undone and the program runs again; of large
ones nothing is kept, and kernels have to be in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape

Program = Callable[[Tensor, Tensor, Tensor], object]


def added(to: Tensor, source: Tensor, index: Tensor):
    to.add_(source[index])


def unused(to: Tensor, source: Tensor, index: Tensor):
    to.neg_()
    _ = source[index]
    to.mul_(3)


def embedded(to: Tensor, source: Tensor, index: Tensor):
    to.mul_(2)
    to.add_(F.embedding(index, source))


def behind_data(to: Tensor, source: Tensor, index: Tensor):
    to.add_(source[index])
    to.data.neg_()


def twice(to: Tensor, source: Tensor, index: Tensor):
    to.copy_(to + source[index])
    source.fill_(2)


def returned(to: Tensor, source: Tensor, index: Tensor):
    found = source[index]
    to.add_(1)
    return found


def at_the_end(to: Tensor, source: Tensor, index: Tensor):
    to.add_(1)
    to.mul_(2)
    return source[index]


def classes(to: Tensor, source: Tensor, index: Tensor):
    to.sub_(1)
    loss = F.cross_entropy(source, index)
    to.add_(loss)
    return loss


def gathered(to: Tensor, source: Tensor, index: Tensor):
    to.mul_(3)
    to.sub_(source.gather(0, index[:, None].expand_as(source)))
    return to.sum()


def scattered(to: Tensor, source: Tensor, index: Tensor):
    source.add_(1)
    to.scatter_add_(0, index[:, None].expand_as(source), source)
    source.mul_(2)


def between(to: Tensor, source: Tensor, index: Tensor):
    to.add_(1)
    first = source[index]
    to.mul_(2)
    second = source[index + 0]
    source.mul_(2)
    return first + second


def of_parts(to: Tensor, source: Tensor, index: Tensor):
    to[1:].neg_()
    found = source.index_select(0, index)
    to[:1].neg_()
    return found


PROGRAMS = (
    *(added, unused, embedded, behind_data, twice, returned, at_the_end),
    *(classes, gathered, scattered, between, of_parts),
)


def tried(program: Program, size: int, bad: bool) -> tuple[list[Tensor], Exception | None]:
    generator = torch.Generator().manual_seed(size)
    to, source = (torch.randn(size, size, generator=generator) for _ in range(2))
    index = torch.randperm(size, generator=generator)
    if bad:
        index[size // 2] = size + 3
    try:
        program(to, source, index)
    except (IndexError, RuntimeError) as error:
        return [to, source], error
    return [to, source], None


@pytest.mark.parametrize("size", [6, 300])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_written(program: Program, size: int):
    compiled = anyshape.compile(program, dynamic=True)
    for more, bad in ((0, False), (1, False), (3, True), (4, False), (5, True)):
        want, error = tried(program, size + more, bad)
        found, ours = tried(compiled, size + more, bad)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
        assert (error is None) == (ours is None) == (not bad)
        if size == 6:
            assert (type(ours), str(ours)) == (type(error), str(error))
    assert compiled.stats().graphs == 1


def test_nothing_is_kept_for_what_comes_first():
    """Where nothing has been written yet, the program says what is wrong itself, of any size."""
    compiled = anyshape.compile(added, dynamic=True)
    tried(compiled, 300, bad=False)
    _, error = tried(compiled, 301, bad=True)
    assert str(error) == "index 304 is out of bounds for dimension 0 with size 301"


WRITES: dict[str, Callable[[Tensor, Tensor], object]] = {
    "whole": lambda to, _: to.mul_(-0.5),
    "part": lambda to, _: to[1:].add_(1),
    "row": lambda to, source: to[0].copy_(source[0]),
    "other": lambda to, source: source.sub_(to),
    "transposed": lambda to, source: to.t().add_(source),
}


ORDERS = [each for each in itertools.permutations([*WRITES, "index"], 3) if "index" in each]


@pytest.mark.parametrize("order", ORDERS)
def test_orders(order: tuple[str, ...]):
    def program(to: Tensor, source: Tensor, index: Tensor):
        found: Tensor | float = 0.0
        for name in order:
            if name == "index":
                found = source[index] * 2
            else:
                WRITES[name](to, source)
        return found

    compiled = anyshape.compile(program, dynamic=True)
    for size, bad in ((300, False), (301, True), (302, False)):
        run = partial(tried, size=size, bad=bad)
        torch.testing.assert_close(run(compiled)[0], run(program)[0])


def _each(source: Tensor, index: Tensor) -> Tensor:
    return index[:, None].expand_as(source)


Operator = Callable[[Tensor, Tensor], object]
OPERATORS: dict[str, Operator] = {
    "index_select": lambda s, i: s.index_select(0, i),
    "gather": lambda s, i: s.gather(0, _each(s, i)),
    "take": lambda s, i: s.take(i * s.shape[0]),
    "take_along_dim": lambda s, i: s.take_along_dim(_each(s, i), 0),
    "embedding": lambda s, i: F.embedding(i, s),
    "embedding_bag": lambda s, i: F.embedding_bag(i[None], s),
    "index_add": lambda s, i: s.index_add(0, i, s),
    "index_fill": lambda s, i: s.index_fill(0, i, 2.0),
    "index_copy": lambda s, i: s.index_copy(0, i, s),
    "index_put": lambda s, i: s.index_put((i,), s),
    "scatter": lambda s, i: s.scatter(0, _each(s, i), s),
    "scatter of a number": lambda s, i: s.scatter(0, _each(s, i), 1.0),
    "scatter_add": lambda s, i: s.scatter_add(0, _each(s, i), s),
    "scatter_reduce": lambda s, i: s.scatter_reduce(0, _each(s, i), s, "amax"),
    "nll_loss": lambda s, i: F.nll_loss(s, i),
    "nll_loss of each": lambda s, i: F.nll_loss(s, i, reduction="none"),
    "cross_entropy": lambda s, i: F.cross_entropy(s, i),
    "cross_entropy unused": lambda s, i: (F.cross_entropy(s, i), None)[1],
    "one_hot": lambda s, i: F.one_hot(i, s.shape[0]),
    "put_": lambda s, i: s.clone().put_(i * s.shape[0], s[0]),
    "two positions": lambda s, i: s[i, i],
    "unused": lambda s, i: (s[i], None)[1],
    "from the end": lambda s, i: s[-1 - i],
    "division": lambda s, i: i // (i - i.max()),
}


def _late(operator: Operator) -> Program:
    def late(to: Tensor, source: Tensor, index: Tensor):
        to.add_(1)
        found = operator(source, index)
        to.mul_(3)
        return found

    return late


def _early(operator: Operator) -> Program:
    def early(to: Tensor, source: Tensor, index: Tensor):
        found = operator(source, index)
        to.add_(1)
        return found

    return early


def _last(operator: Operator) -> Program:
    def last(to: Tensor, source: Tensor, index: Tensor):
        first = source[index * 0]
        to.sub_(first)
        to.mul_(2)
        return operator(source, index)

    return last


@pytest.mark.parametrize("made", [_late, _early, _last])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_with_positions(name: str, made: Callable[[Operator], Program]):
    """Also that none is run again which has written by then: what fails first is known for all."""
    program = made(OPERATORS[name])
    for size in (5, 300):
        compiled = anyshape.compile(program, dynamic=True)
        for own, bad in ((size, False), (size + 1, True), (size + 2, False), (1, False), (1, True)):
            want, error = tried(program, own, bad)
            found, ours = tried(compiled, own, bad)
            torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
            assert (error is None) == (ours is None)
