"""Operators of libraries that say they write to arguments: a run that is made again writes once.

Their kernels need not tell autograd, so no version shows what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from tests import devices

_NAME = "anyshape_test_mutable"


class Operators:
    """`form(x)` has results of a form that nobody knows: another run may find another one."""

    def __init__(self) -> None:
        self.wide = False
        self.library = torch.library.Library(_NAME, "DEF")
        self._define("form(Tensor x) -> Tensor", lambda x: (x + 1).double() if self.wide else x + 1)
        self._define("bump(Tensor(a!) x) -> ()", _bump)
        self._define("bump_all(Tensor(a!)[] xs) -> ()", lambda xs: [_bump(x) for x in xs] and None)
        self._define("bump_by(Tensor by, *, Tensor(a!) out) -> ()", lambda by, *, out: _bump(out))

    def _define(self, schema: str, kernel: Callable[..., Any]) -> None:
        self.library.define(schema)
        self.library.impl(schema.partition("(")[0], kernel, devices.dispatch_key())


def _bump(x: Tensor) -> None:
    """Write without a new version."""
    x.data.add_(1)


@pytest.fixture
def operators() -> Iterator[Operators]:
    made = Operators()
    yield made
    made.library._destroy()


def of() -> Any:
    return getattr(torch.ops, _NAME)


WRITES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "argument": lambda x, kept: of().bump(kept),
    "view": lambda x, kept: of().bump(kept[1:]),
    "in a list": lambda x, kept: of().bump_all([x * 2, kept]),
    "by keyword": lambda x, kept: of().bump_by(x, out=kept),
    "overload": lambda x, kept: of().bump.default(kept),
    "its own and an argument": lambda x, kept: (of().bump(x * 2), of().bump(kept)),
}


@pytest.mark.parametrize("size", [8, 1 << 18])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_is_undone(operators: Operators, write: str, size: int):
    mine, theirs = torch.zeros(size), torch.zeros(size)

    def program(x: Tensor, kept: Tensor) -> Tensor:
        WRITES[write](x, kept)
        return of().form(x) * 2 + kept[1]

    compiled: Any = anyshape.compile(program)
    for number, count in enumerate((3, 5, 4, 6, 7)):
        operators.wide = number == 3
        x = torch.randn(count, 4)
        found, expected = compiled(x, mine), program(x, theirs)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)
        assert torch.equal(mine, theirs), number


def test_what_the_program_made_is_written_in_a_graph(operators: Operators):
    def program(x: Tensor) -> Tensor:
        y = x * 2
        of().bump(y)
        return of().form(y)

    compiled: Any = anyshape.compile(program)
    for number, count in enumerate((3, 5, 4, 6)):
        operators.wide = number == 3
        x = torch.randn(count, 4)
        torch.testing.assert_close(compiled(x), program(x))
    assert compiled.stats().graphs
