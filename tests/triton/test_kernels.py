"""Programs with Triton kernels at many sizes against eager code, and how many graphs they take."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import anyshape
from tests.triton import kernels

SIZES = (5, 33, 1, 0, 16)


class Case(NamedTuple):
    """A program, and the shapes of its arguments at a size."""

    program: Callable[..., Any]
    shapes: Callable[[int], list[tuple[int, ...]]] = lambda n: [(n,)]
    sizes: tuple[int, ...] = SIZES
    #: with `dynamic=True`
    graphs: int = 1
    dtype: torch.dtype = torch.float32


def _two(n: int) -> list[tuple[int, ...]]:
    return [(n,), (n,)]


def _rows(n: int) -> list[tuple[int, ...]]:
    return [(n, 6)]


CASES = [
    Case(kernels.add, _two),
    Case(kernels.add_with_grid_of_sizes, _two),
    Case(kernels.add_with_closure, _two),
    Case(kernels.add_with_grid_of_arguments, _two),
    Case(kernels.softmax, lambda n: [(3, n)], (5, 8, 7, 12, 16, 1), graphs=3),
    Case(kernels.softmax, _rows),
    Case(kernels.layer_norm, lambda n: [(n, 6), (6,), (6,)]),
    Case(kernels.matmul, lambda n: [(n, 5), (5, 2 * n)]),
    Case(kernels.scale_by_heuristics, sizes=(5, 8, 7, 1, 33, 40, 64, 128, 100), graphs=3),
    Case(kernels.scale_by_heuristics_with_grid, sizes=(5, 7, 1, 33, 100)),
    Case(kernels.histogram, dtype=torch.int32),
    Case(kernels.largest, dtype=torch.int32),
    Case(kernels.activate_without_bias),
    Case(kernels.activate_with_bias, _two),
    Case(kernels.double_),
    Case(kernels.in_place),
    Case(kernels.in_place_of_made),
    Case(kernels.in_a_loop),
    Case(kernels.twice, _two),
    Case(kernels.several_outputs, _two),
    Case(kernels.strided_input, _rows),
    Case(kernels.after_a_view, _rows, (5, 33, 16, 2), graphs=2),  # one row is left
    Case(kernels.of_expanded, _rows, (5, 33, 1)),
    Case(kernels.into_a_view, _rows, (5, 33, 16)),
    Case(kernels.three_dimensions, lambda n: [(n, 2, 3)]),
    Case(kernels.dropout),
    Case(kernels.clip),
    Case(kernels.clip_by_sizes),
    Case(kernels.dtypes),
    Case(kernels.booleans),
    Case(kernels.integers),
    Case(kernels.total),
    Case(kernels.gathered, sizes=(5, 33, 1, 16)),
    Case(kernels.cumulative),
    Case(kernels.tuned_with_heuristics, sizes=(5, 32, 64, 1, 33)),
    Case(kernels.data_dependent_size),
]


def _arguments(case: Case, n: int, device: str) -> list[torch.Tensor]:
    torch.manual_seed(n)
    made = [torch.randn(shape, device=device) for shape in case.shapes(n)]
    if case.dtype is torch.int32:
        made = [(each.abs() * 3).clamp(max=7).to(torch.int32) for each in made]
    return made


def _check(compiled: Any, case: Case, n: int, device: str) -> None:
    for _ in range(2):  # The first call may be the capture.
        theirs, ours = _arguments(case, n, device), _arguments(case, n, device)
        expected, found = case.program(*theirs), compiled(*ours)
        torch.testing.assert_close(found, expected, equal_nan=True)
        torch.testing.assert_close(ours, theirs, equal_nan=True)  # what kernels have written there


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_as_eager_at_every_size(case: Case, backend: Any, device: str) -> None:
    compiled = anyshape.compile(case.program, dynamic=True, backend=backend)
    for n in case.sizes:
        _check(compiled, case, n, device)
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (case.graphs, 0, 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_sizes_that_become_dynamic(case: Case, device: str) -> None:
    compiled = anyshape.compile(case.program)
    for n in case.sizes:
        _check(compiled, case, n, device)
    stats = compiled.stats()
    assert stats.graphs <= case.graphs + 1
    assert (stats.graph_breaks, stats.eager_calls) == (0, 0)


def test_strided_inputs(device: str) -> None:
    compiled = anyshape.compile(kernels.strided_input, dynamic=True)
    for n in (5, 7, 12):
        x = torch.randn(n, 2 * n, device=device)
        for view in (x, x.t(), x[:, ::2], x[::2], x[1:, 3:]):
            torch.testing.assert_close(compiled(view), view + 1)
    assert compiled.stats().eager_calls == 0
    # Of those with gaps, strides are fixed where nothing says how they follow from sizes.
    assert compiled.stats().graphs <= 9


def test_a_module_whose_buffer_a_kernel_writes(device: str) -> None:
    theirs = kernels.Doubling().to(device)
    ours = copy.deepcopy(theirs)
    compiled = anyshape.compile(ours, dynamic=True)
    for n in SIZES:
        x = torch.randn(n, device=device)
        torch.testing.assert_close(compiled(x), theirs(x))
        torch.testing.assert_close(ours.seen, theirs.seen)
    assert compiled.stats().graphs == 1
    another = copy.deepcopy(ours)
    torch.testing.assert_close(anyshape.compile(another)(x), theirs(x))


def test_a_function_with_its_gradient(device: str) -> None:
    compiled = anyshape.compile(kernels.with_gradient, dynamic=True)
    for n in (5, 33, 1, 0, 16, 5):
        x, y = (torch.linspace(0, 1, n, device=device, requires_grad=True) for _ in range(2))
        kernels.with_gradient(x).backward()
        compiled(y).backward()
        torch.testing.assert_close(y.grad, x.grad)
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (1, 0, 0)


def test_a_changed_constexpr_is_a_new_entry_whose_reason_names_it(device: str) -> None:
    compiled = anyshape.compile(kernels.activate, dynamic=True)
    for activation in ("relu", "square", "relu"):
        for n in (3, 9):
            x = torch.randn(n, device=device)
            found = compiled(x, None, activation)
            torch.testing.assert_close(found, kernels.activate(x, None, activation))
    assert compiled.stats().graphs == 2
    assert "`ACTIVATION` is a constexpr of the kernel `activate_kernel`" in str(compiled.explain())


def test_the_step_has_the_name_of_the_kernel(device: str) -> None:
    compiled = anyshape.compile(kernels.add, dynamic=True)
    x = torch.randn(5, device=device)
    compiled(x, x)
    (graph,) = compiled.entries[0].graphs
    assert [node.name for node in graph.graph.nodes if "launch" in node.name] == [
        "launch_add_kernel"
    ]
    assert "launches of Triton kernels: `add_kernel`" in str(compiled.explain())


def test_the_package_does_not_import_triton() -> None:
    code = "import anyshape, sys; anyshape.compile(abs)(-1); print('triton' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "False", found.stderr


def test_traces_name_the_kernel(tmp_path: Path) -> None:
    code = (
        "import torch, anyshape; from tests.triton import kernels;"
        "d = 'cuda' if torch.cuda.is_available() else 'cpu'; x = torch.randn(5, device=d);"
        "anyshape.compile(kernels.add, dynamic=True)(x, x)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ANYSHAPE_TRACE": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    for pattern in ("*.log", "*.jsonl"):
        (trace,) = tmp_path.glob(pattern)
        assert "launch_add_kernel" in trace.read_text()
