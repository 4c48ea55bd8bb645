"""Programs whose way depends on data: a tree of graphs that grows by what calls do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.errors import DataDependentError

Inputs = Callable[[int], tuple[Any, ...]]


def compare(
    function: Callable[..., Any], inputs: Inputs, calls: int = 20, **options: Any
) -> anyshape.api.Stats:
    """Eager and compiled, call by call, from the same random state."""
    compiled: Any = anyshape.compile(function, **options)
    for call in range(calls):
        results = []
        for each in (function, compiled):
            torch.manual_seed(call)
            given = inputs(call)
            result = each(*given)
            versions = [x._version for x in given if isinstance(x, Tensor)]
            results.append((result, given, versions, torch.rand(1)))
        torch.testing.assert_close(results[1], results[0], equal_nan=True)
    return compiled.stats()


def vectors(call: int) -> tuple[Tensor]:
    return (torch.randn(4 + call % 3),)


@pytest.mark.parametrize("dynamic", [None, True])
def test_both_sides_of_a_branch(dynamic: bool | None) -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y = y + 1 if y.sum() > 0 else y - 1
        return y * y

    stats = compare(function, vectors, dynamic=dynamic)
    assert stats.graphs == (3 if dynamic else 6)
    assert stats.graph_breaks == (1 if dynamic else 2)
    assert stats.eager_calls == 0


def test_a_question_about_a_number_is_a_branch_on_it_not_on_its_value() -> None:
    def function(x: Tensor) -> Tensor:
        n = (x > 0).sum().item()
        return x * n if n > 2 else x[:n]

    stats = compare(function, lambda call: (torch.randn(8),), 40, dynamic=True)
    assert stats.graphs == 3
    assert stats.captures == 2


def test_floats_stay_in_the_graph() -> None:
    def function(x: Tensor) -> Tensor:
        mean = x.mean().item()
        return x - max(mean, 0.5) * math.exp(mean) + int(mean * 3) + round(mean, 1)

    assert compare(function, vectors, dynamic=True).graphs == 1


def test_what_random_numbers_and_changes_a_run_made_is_undone_before_it_is_made_again() -> None:
    total = torch.zeros(())

    def function(x: Tensor, state: Tensor) -> Tensor:
        y = torch.nn.functional.dropout(x, 0.5)
        state += y.sum()
        if state.sum() > 1:
            state *= 0.5
            y = y + torch.randn_like(y)
        return y

    def inputs(call: int) -> tuple[Tensor, Tensor]:
        return torch.randn(5), torch.full((2,), float(call % 3)) + total

    stats = compare(function, inputs, 30)
    assert stats.eager_calls == 0
    assert stats.graphs == 3


def test_python_effects_are_made_once() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.large = 0, 0
            self.seen: list[int] = []

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if x.sum() > 0:
                self.large += 1
                self.seen.append(x.shape[0])
            return x + self.calls

    plain, other = Counting(), Counting()
    compiled = anyshape.compile(other, dynamic=True)
    for call in range(30):
        x = torch.randn(3 + call % 2)
        assert torch.equal(compiled(x), plain(x))
        assert (other.calls, other.large, other.seen) == (plain.calls, plain.large, plain.seen)


def test_decisions_in_loops_handlers_comprehensions_and_callees() -> None:
    def step(x: Tensor) -> Tensor:
        return x - 1 if x.max() > 1 else x

    def function(x: Tensor) -> tuple[Tensor, list[bool], int]:
        count = 0
        while x.abs().max() > 1.5 and count < 4:
            x = step(x)
            count += 1
        with torch.no_grad():
            flags = [bool(part > 0) for part in x.unbind()[:2]]
        try:
            if x.sum() > 1:
                raise ValueError
        except ValueError:
            x = x * 2
        return x, flags, count

    stats = compare(function, lambda call: (torch.randn(3) * 1.2,), 60, dynamic=True)
    assert stats.graphs < 120


# -- one graph, or an error that says what to do ---------------------------------------------------


def test_fullgraph_names_the_question_and_the_check_that_answers_it() -> None:
    def function(x: Tensor) -> Tensor:
        n = x.sum().item()
        if n > 3:
            return x * n
        return x

    with pytest.raises(DataDependentError) as error:
        anyshape.compile(function, fullgraph=True)(torch.ones(5, dtype=torch.long))
    assert error.value.suggestions == ("torch._check(n >= 4)",)
    assert "n = x.sum().item()" in str(error.value)
    assert "test_tree.py" in str(error.value)


def test_a_check_teaches_and_is_checked() -> None:
    def function(x: Tensor) -> Tensor:
        n = x.sum().item()
        torch._check(n > 3)
        return x * n if n > 3 else x

    compiled = anyshape.compile(function, fullgraph=True, dynamic=True)
    for size in (4, 5, 6):
        x = torch.ones(size, dtype=torch.long)
        assert torch.equal(compiled(x), x * size)
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        compiled(torch.ones(2, dtype=torch.long))
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("size", [0, 1, 9])
def test_a_dimension_marked_unbacked(size: int) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor | None:
        torch._check(x.shape[0] < 10)
        return x * y if x.shape[0] < 10 else None

    compiled: Any = anyshape.compile(function, fullgraph=True)
    x, y = torch.randn(5), torch.randn(5)
    anyshape.mark_unbacked(x, 0)
    anyshape.mark_unbacked(y, 0)
    compiled(x, y)
    given = torch.randn(size), torch.randn(size)
    torch.testing.assert_close(compiled(*given), given[0] * given[1])
    with pytest.raises(RuntimeError):
        compiled(torch.randn(10), torch.randn(10))
    # A size of 1 is broadcast: another meaning, and the right one.
    assert compiled(torch.randn(1), torch.randn(4)).shape == (4,)


# -- what has no shape rule ------------------------------------------------------------------------


def _sparse(call: int) -> tuple[Tensor, Tensor]:
    size = 4 + call % 3
    return (torch.rand(size, size) > 0.5).float().to_sparse(), torch.randn(size, 3)


def _jagged(call: int) -> Tensor:
    parts = [torch.randn(1 + part + call % 3, 4) for part in range(2 + call % 2)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def test_sparse_inputs_with_any_number_of_elements() -> None:
    stats = compare(lambda a, x: torch.sparse.mm(a, x).relu() + x, _sparse, dynamic=True)
    assert (stats.graphs, stats.eager_calls) == (1, 0)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_another_layout_is_another_entry() -> None:
    compiled = anyshape.compile(lambda a, x: a @ x, dynamic=True)
    x = torch.randn(3, 2)
    dense = torch.eye(3)
    for a in (dense, dense.to_sparse(), dense.to_sparse_csr(), dense):
        torch.testing.assert_close(compiled(a, x), x)
    assert compiled.stats().recompiles == 2


def test_jagged_batches() -> None:
    def function(batch: Tensor) -> Tensor:
        return torch.nested.to_padded_tensor(batch * 2 + 1, 0.0).sum(1)

    compiled = anyshape.compile(function, dynamic=True)
    for call in range(12):
        batch = _jagged(call)
        torch.testing.assert_close(compiled(batch), function(batch))
    assert (compiled.stats().graphs, compiled.stats().eager_calls) == (1, 0)


# -- growth has an end -----------------------------------------------------------------------------


def test_what_grows_without_end_runs_in_parts() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.layers(x)) * 2 + 1

    class Looping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Part()

        def forward(self, x: Tensor, bits: Tensor) -> Tensor:
            for bit in bits:
                x = self.part(x) if bit else x - 1
            return x

    module = Looping()
    compiled: Any = anyshape.compile(module)
    with torch.no_grad():
        for call in range(60):
            torch.manual_seed(call)
            x, bits = torch.randn(3, 4), torch.rand(6) > 0.5
            torch.testing.assert_close(compiled(x, bits), module(x, bits))
    assert compiled.stats().graphs < 80
    explained = str(compiled.explain())
    assert "too many data-dependent branches" in explained
    assert "test_tree.py" in explained
    assert "in parts" in explained
    assert "Looping.forward (lines" in explained


def test_a_function_with_foreign_calls_runs_in_parts() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def block(self, x: Tensor) -> Tensor:
            return torch.relu(self.linear(x)) * 2 + x.sum()

        def forward(self, x: Tensor) -> Tensor:
            inner = self.block(x).detach().numpy() + 1
            return self.block(torch.from_numpy(inner))

    module = Model()
    compiled: Any = anyshape.compile(module)
    for call in range(8):
        x = torch.randn(2 + call, 4)
        torch.testing.assert_close(compiled(x), module(x))
    stats = compiled.stats()
    assert stats.graphs == 2  # what stands before the call, and after it
    assert stats.hits >= 8
