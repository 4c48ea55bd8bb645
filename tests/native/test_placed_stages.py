"""Graphs cut where they go from one place to another: whichever operators are where, a program does
as eager code. The places are made up: all tensors are on the processor."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
from torch import Tensor

import anyshape
from anyshape.backends.native import backend
from anyshape.backends.native.cuda_graphs import recordable_place
from anyshape.backends.native.report import StagedReport
from anyshape.graph import placed_stages as module
from anyshape.graph.lowered import lowered
from anyshape.graph.placed_stages import Place, placed_stages
from anyshape.graph.plan import Unlowerable
from anyshape.graph.stage import Node
from anyshape.ops.node_meta import REPORT, RESULT
from tests import devices
from tests.native.mixed_programs import EXACT, FLOATS, STORED
from tests.native.view_programs import Vocabulary, compared, program

WORDS = {"exact": EXACT, "floats": FLOATS, "stored": STORED}


class Cut:
    """How often a graph was cut, and the places of its operators."""

    def __init__(self) -> None:
        self.stages: list[int] = []
        self.place_of: Callable[[Node], Place | None] = lambda node: None

    def __call__(self, graph: torch.fx.GraphModule) -> list[Any]:
        found = placed_stages(graph.graph, self.place_of)
        self.stages.append(len(found))
        return found


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    made = Cut()
    monkeypatch.setattr(backend, "placed", made)
    return made


def at_random(seed: int) -> Callable[[Node], Place]:
    return lambda node: random.Random(f"{seed} {node.name}").randrange(2)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", WORDS)
def test_random_programs(name: str, seed: int, cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes in place, views and all; each operator is at one of two places."""
    monkeypatch.setattr(module, "_MOST", 1000)
    words: Vocabulary = WORDS[name]
    cut.place_of = at_random(seed)
    source, kind = program(seed + 100, 9, words)
    found = compared(source, kind, seed, lambda f: anyshape.compile(f, dynamic=True), words)
    assert not found, "\n".join([source, kind, *found])


def _selected(x: Tensor) -> tuple[Tensor, Tensor]:
    kept = (x * 2)[x > 0]
    return kept.cumsum(0) + kept.shape[0], (x + kept.sum()).relu()


def _read(x: Tensor) -> tuple[Tensor, int]:
    count = int((x > 0).sum().item())
    torch._check(count >= 0)
    return torch.arange(count) * 2 + 1, count + 1


def _drawn(x: Tensor) -> tuple[Tensor, ...]:
    a = torch.rand_like(x)
    b = (x + a).sin()
    return a, b * torch.rand(x.shape[0], 1), torch.randn(3) + b.sum()


def _written(x: Tensor) -> tuple[Tensor, Tensor]:
    y, z = x * 2, x.clone()
    part = z[1:]
    part += y[1:]
    y.mul_(z)
    x.add_(1)
    part.neg_()
    return y + x, z


def _of_several(x: Tensor) -> tuple[Tensor, ...]:
    values, places = x.sort(0)
    first, *rest = values.split(2)
    return first * 2, places + 1, torch.cat([first, *rest]) - x


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "selected": _selected,
    "read": _read,
    "drawn": _drawn,
    "written": _written,
    "of several": _of_several,
    "sizes": lambda x: (x.new_zeros(x.shape[0] * 2 + 1), x.expand(2, *x.shape).sum(0) / x.shape[1]),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_depends_on_order(
    name: str, seed: int, cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 1000)
    cut.place_of = at_random(seed)
    function, compiled = PROGRAMS[name], anyshape.compile(PROGRAMS[name], dynamic=True)
    for rows in (4, 1, 7, 2):
        given = torch.randn(rows, 3, generator=devices.generator(rows))
        inputs = given.clone(), given.clone()
        torch.manual_seed(rows)
        wanted = function(inputs[0])
        after = torch.get_rng_state()
        torch.manual_seed(rows)
        found = compiled(inputs[1])
        torch.testing.assert_close((found, inputs[1]), (wanted, inputs[0]), equal_nan=True)
        assert torch.equal(torch.get_rng_state(), after)


def _step(count: Tensor, weight: Tensor, grad: Tensor) -> None:
    """As optimizers do: what is counted in float64 is on the processor, the rest elsewhere."""
    for _ in range(3):
        count += 1
        weight.mul_(0.99)
        weight.addcdiv_(grad, grad * grad + 1, value=-0.1)
        weight.div_(1 - 0.9**count)


def _by_dtype(node: Node) -> Place | None:
    found = node.meta.get("result")
    return getattr(found, "dtype", None)


def test_few_stages(cut: Cut) -> None:
    """All that is counted comes first: three rounds are two stages, and both are native."""
    cut.place_of = _by_dtype
    compiled = anyshape.compile(_step, dynamic=True)
    for rows in (3, 1, 8):
        state = [torch.tensor(2.0, dtype=torch.float64), torch.randn(rows), torch.randn(rows)]
        twin = [each.clone() for each in state]
        for _ in range(2):
            _step(*twin)
            compiled(*state)
        torch.testing.assert_close(state, twin)
    assert cut.stages[0] == 2
    ((graph,),) = [entry.graphs for entry in compiled.entries]
    report = graph.meta[REPORT]
    assert isinstance(report, StagedReport)
    assert all("native code" in line for line in report.lines())


def _of_one_memory(count: Tensor, again: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    count += 1
    first = weight * again
    count += 1
    return first, weight * again


def test_tensors_that_share_memory_are_in_the_order_of_the_program(cut: Cut) -> None:
    cut.place_of = _by_dtype
    compiled = anyshape.compile(_of_one_memory, dynamic=True)
    weight = torch.ones(3)
    for is_shared in (False, True, False, True):
        outcomes: list[Any] = []
        for function in (_of_one_memory, compiled):
            memory = torch.tensor([2.0, 2.0], dtype=torch.float64)
            count, again = memory[0], memory.view(2)[0 if is_shared else 1]
            outcomes.append((function(count, again, weight), memory))
        torch.testing.assert_close(outcomes[1], outcomes[0])
    assert max(cut.stages) == 2


def test_too_many_stages_are_none(cut: Cut) -> None:
    def ping_pong(x: Tensor) -> Tensor:
        for _ in range(10):
            x = (x.double() * 2).float() + 1
        return x

    cut.place_of = _by_dtype
    compiled = anyshape.compile(ping_pong, dynamic=True)
    x = torch.randn(5)
    torch.testing.assert_close(compiled(x), ping_pong(x))
    assert cut.stages == [0]


def test_graphs_are_cut_at_what_waits_for_the_gpu(cut: Cut) -> None:
    """What is before a selection by data and what is behind it could be recorded."""

    def program(x: Tensor) -> Tensor:
        y = (x @ x.mT).relu()
        kept = y[y.sum(1) > 1]
        return (kept * 2).softmax(-1) + 1

    cut.place_of = recordable_place
    compiled = anyshape.compile(program, dynamic=True)
    for rows in (4, 1, 6, 2):
        x = torch.rand(rows, 3) + 0.5
        torch.testing.assert_close(compiled(x), program(x))
    assert cut.stages[0] == 3


def test_several_tensors_at_once_are_python_s() -> None:
    """As the result of a call on another device that is passed on as it is."""
    found: list[torch.fx.GraphModule] = []

    def kept(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        found.append(graph)
        return graph

    anyshape.compile(lambda x: x.sin() * 2, backend=kept)(torch.ones(3))
    (graph,) = found
    (given,) = [node for node in graph.graph.nodes if node.op == "placeholder"]
    given.meta[RESULT] = (given.meta[RESULT], given.meta[RESULT])
    with pytest.raises(Unlowerable, match="several tensors at once"):
        lowered(graph)
