"""Strides that a program reads are eager's at every size and layout, in few graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "itself": lambda x: x.stride(),
    "one": lambda x: (x.stride(0), x.stride(-1)),
    "pointwise": lambda x: (x * 2 + 1).stride(),
    "like": lambda x: torch.zeros_like(x).stride(),
    "fresh": lambda x: torch.empty(x.shape[1], x.shape[0], 3).stride(),
    "new": lambda x: x.new_zeros(x.shape[0], 1, x.shape[1]).stride(),
    "transposed": lambda x: x.t().stride(),
    "made and transposed": lambda x: (x + 1).t().stride(),
    "part": lambda x: x[1:, ::2].stride(),
    "broadcast": lambda x: (x + x[:1]).stride(),
    "transposed sum": lambda x: (x.t() + x.t()).stride(),
    "contiguous": lambda x: x.contiguous().stride(),
    "reduced": lambda x: x.sum(0, keepdim=True).stride(),
    "expanded": lambda x: x.unsqueeze(0).expand(3, -1, -1).stride(),
    "reshaped": lambda x: x.reshape(-1, 1).stride(),
    "unsqueezed": lambda x: x.unsqueeze(1).stride(),
    "product": lambda x: (x @ x.t()).stride(),
    "used": lambda x: x.as_strided((x.shape[0], x.shape[1]), x.stride()) + 1,
    "asked": lambda x: x * (2 if x.stride(1) == 1 else 3),
}


def _inputs() -> Iterator[Tensor]:
    for n, m in itertools.product((5, 1, 0, 2, 7), (3, 1, 0, 4)):
        yield torch.randn(n, m)
        yield torch.randn(m, n).t()
        yield torch.randn(n, 2 * m)[:, ::2]
        if n == 1 or m == 1:  # torch lets a dimension of one element have any stride
            yield torch.randn(100).as_strided((n, m), (m if n > 1 else 17, 1 if m > 1 else 13))


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str, dynamic: bool | None) -> None:
    program = PROGRAMS[name]
    with anyshape.config.patch(recompile_limit=200):
        compiled = anyshape.compile(program, dynamic=dynamic)
        for x in _inputs():
            for _ in range(2):
                expected, found = program(x), compiled(x)
                if isinstance(expected, Tensor):
                    torch.testing.assert_close(found, expected)
                else:
                    assert found == expected, (x.shape, x.stride())


@pytest.mark.parametrize("name", ["itself", "pointwise", "like", "fresh", "new"])
def test_one_graph_for_all_sizes(name: str) -> None:
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True)
    for n, m in itertools.product((5, 1, 0, 2, 7), (3, 1, 0, 4)):
        x = torch.randn(n, m)
        assert compiled(x) == program(x)
    assert compiled.stats().graphs == 1


def _laid_out(shape: tuple[int, ...], memory_format: torch.memory_format) -> torch.Tensor:
    return torch.ones(shape).contiguous(memory_format=memory_format)


@pytest.mark.parametrize(
    "order", list(itertools.permutations(["last", "empty", "empty last", "plain"]))
)
def test_a_memory_format_of_nothing_is_in_its_strides(order: tuple[str, ...]) -> None:
    """Torch says of an empty tensor that it is contiguous, and of other formats by its strides."""
    inputs = {
        "last": _laid_out((2, 3, 2, 2), torch.channels_last),
        "empty": torch.ones(0, 3, 2, 2),
        "empty last": torch.empty_strided((0, 3, 2, 2), (12, 1, 6, 3)),
        "plain": torch.ones(2, 3, 2, 2),
    }

    def asks(x: torch.Tensor) -> tuple[bool, bool]:
        last = x.is_contiguous(memory_format=torch.channels_last)
        return last, (x * 2).is_contiguous(memory_format=torch.channels_last)

    compiled = anyshape.compile(asks, dynamic=True)
    for name in (*order, *order):
        x = inputs[name]
        assert compiled(x) == asks(x), name


class Solver:
    """An object that is asked for much, and holds a tensor whose strides are not known."""

    def __init__(self) -> None:
        self.a, self.b, self.c, self.d, self.e = 1.0, 2.0, 3.0, 4.0, 5.0
        self.names = {"first": 1, "second": [2, 3]}
        self.held = torch.zeros(0)

    def step(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + self.held
        for each in (self.a, self.b, self.c, self.d, self.e):
            y = y * each
        return y + self.names["first"] + self.names["second"][0], self.held.t()


def test_strides_of_a_tensor_that_an_object_holds() -> None:
    compiled = anyshape.compile(lambda solver, x: solver.step(x), dynamic=True)
    solver = Solver()
    for rows, width in ((4, 8), (5, 9), (6, 12), (7, 5), (3, 6)):
        solver.held = torch.randn(rows, width)[:, :5]
        x = torch.randn(rows, 5)
        found, expected = compiled(solver, x), solver.step(x)
        torch.testing.assert_close(found, expected)
        assert found[1].stride() == expected[1].stride()
    assert compiled.stats().hits >= 2
