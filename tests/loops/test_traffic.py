"""The bytes that kernels are said to move are those that there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.backends.eager import run_graph
from anyshape.graph.lowered import lowered
from anyshape.loops import expr
from anyshape.loops.program import Launch, Segment
from anyshape.loops.traffic import traffic
from anyshape.symbolic import evaluate

ROWS, LENGTH = 6, 40
TABLE = torch.zeros(100, 8)

#: reads and writes of elements of x (240 of them), and bytes of an element
PROGRAMS: dict[str, tuple[Callable[[Tensor], Any], int, int]] = {
    "pointwise": (lambda x: (x + 1).exp(), 240 * 4, 240 * 4),
    "a row is read three times": (lambda x: x.softmax(-1), 240 * 4, 240 * 4),
    "a sum of rows": (lambda x: x.sum(-1), 240 * 4, ROWS * 4),
    "a sum of columns": (lambda x: x.sum(0), 240 * 4, LENGTH * 4),
    "a part": (lambda x: x[:, :10] * 2, 60 * 4, 60 * 4),
    "one row for all": (lambda x: x + x[0], 240 * 4, 240 * 4),
    "another dtype": (lambda x: x.bfloat16(), 240 * 4, 240 * 2),
    "a result that is read again": (lambda x: F.layer_norm(x + 1, (LENGTH,)), 240 * 4, 240 * 4),
    "two kernels": (lambda x: torch.cat([x, x * 2]), 480 * 4, 480 * 4),
    "nothing is read": (lambda x: torch.ones(x.shape[0], 5) * 3, 0, ROWS * 5 * 4),
    "in place": (lambda x: x.mul_(2), 240 * 4, 240 * 4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_of_a_program(name: str) -> None:
    function, reads, writes = PROGRAMS[name]
    found: list[tuple[int, int]] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        with expr.fresh_scope():
            for part in lowered(graph)[1].parts:
                assert isinstance(part, Segment)
                known = {"s0": ROWS, "s1": LENGTH}
                values = {symbol: known[symbol.name] for symbol in part.symbols}
                for step in part.steps:
                    assert isinstance(step, Launch)
                    made = traffic(part, step)
                    found.append((evaluate(made.reads, values), evaluate(made.writes, values)))
        return run_graph(graph, examples)

    with torch.no_grad():
        anyshape.compile(function, dynamic=True, backend=backend)(torch.randn(ROWS, LENGTH))
    assert found
    assert sum(each for each, _ in found) == reads
    assert sum(each for _, each in found) == writes


def test_rows_by_index_are_as_many_as_indices() -> None:
    found: list[int] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        with expr.fresh_scope():
            for part in lowered(graph)[1].parts:
                if isinstance(part, Segment):
                    for step in part.steps:
                        assert isinstance(step, Launch)
                        found.append(evaluate(traffic(part, step).reads, {}))
        return run_graph(graph, examples)

    compiled = anyshape.compile(lambda i: F.embedding(i, TABLE), dynamic=False, backend=backend)
    compiled(torch.arange(7))
    assert found == [7 * 8 + 7 * 8 * 4], "indices of 8 bytes, and 8 floats for each"
