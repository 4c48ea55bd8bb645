"""anyshape behind torch's own capture: `torch.compile(backend="anyshape")`."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import anyshape
from anyshape.compat.dynamo_backend import compile_graph
from anyshape.errors import BadOption

NAME = "anyshape"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    if NAME not in torch._dynamo.list_backends():
        # An environment that was made before the package had an entry point.
        torch._dynamo.register_backend(compile_graph, NAME)
    yield
    torch._dynamo.reset()


class Counted:
    """The backend, with what it has compiled."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        self.made.append(compile_graph(graph, examples))
        return self.made[-1]

    @property
    def hits(self) -> int:
        return sum(each.stats().hits for each in self.made)

    @property
    def captures(self) -> int:
        return sum(each.stats().captures for each in self.made)


def test_torch_finds_it_by_its_entry_point(tmp_path: Path):
    """In a process whose only way to it is the one that the project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = "torch_dynamo_backends"
    (name, target), *more = project["entry-points"][group].items()
    assert not more
    installed = tmp_path / "declared-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: declared\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "f = torch.compile(lambda x: x * 2, backend='anyshape', dynamic=True)\n"
        "for n in (2, 3, 5): assert torch.equal(f(torch.ones(n)), torch.full((n,), 2.0))\n"
        "import anyshape\n"
        "print(anyshape.stats().captures, anyshape.stats().hits)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "1 2\n", ran.stderr


def test_by_its_name():
    compiled = torch.compile(lambda x: x * 2 + 1, backend="anyshape")
    before = anyshape.stats().captures
    for n in (3, 3, 5, 7, 1, 0):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x), x * 2 + 1)
    assert anyshape.stats().captures > before


def test_many_sizes_are_one_program():
    backend = Counted()

    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.softmax(x @ y, -1) * x.shape[0]

    compiled = torch.compile(f, backend=backend, dynamic=True)
    for n in (3, 5, 8, 13, 21):
        x, y = torch.randn(n, 6), torch.randn(6, n + 10)
        torch.testing.assert_close(compiled(x, y), f(x, y))
    assert (len(backend.made), backend.captures, backend.hits) == (1, 1, 4)


def test_integers_are_dynamic_where_torch_says_so():
    backend = Counted()

    def f(x: Tensor, n: int) -> tuple[Tensor, int]:
        return x * n + torch.ones(n, 1), n + 1

    compiled = torch.compile(f, backend=backend, dynamic=True)
    for n in (3, 5, 8, 13):
        x = torch.randn(4)
        torch.testing.assert_close(compiled(x, n), f(x, n))
    assert (backend.captures, backend.hits) == (1, 3)


def test_training():
    backend = Counted()
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend=backend)
    ours, theirs = (torch.optim.SGD(each.parameters(), 0.1) for each in (net, twin))
    for n in (3, 3, 5, 8, 2, 13):
        x = torch.randn(n, 4)
        for model, optimizer in ((compiled, ours), (twin, theirs)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    for mine, expected in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, expected)
    assert backend.hits >= 2


def test_gradients_of_inputs():
    compiled = torch.compile(lambda x, w: (x * w).sin().sum(), backend="anyshape", dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(n, requires_grad=True)
        w = torch.randn(n)
        (found,) = torch.autograd.grad(compiled(x, w), x)
        torch.testing.assert_close(found, (x * w).cos().detach() * w)


def test_what_a_program_changes():
    net = nn.BatchNorm1d(4)
    twin = copy.deepcopy(net)

    def step(model: nn.Module, x: Tensor, total: Tensor) -> Tensor:
        total.add_(x.sum())
        x[0] = 0
        return model(x)

    compiled = torch.compile(step, backend="anyshape", dynamic=True)
    totals = torch.zeros(()), torch.zeros(())
    for n in (3, 5, 8, 4):
        x = torch.randn(n, 4)
        other = x.clone()
        torch.testing.assert_close(compiled(net, x, totals[0]), step(twin, other, totals[1]))
        torch.testing.assert_close(x, other)
    torch.testing.assert_close(totals[0], totals[1])
    torch.testing.assert_close(net.state_dict(), twin.state_dict())


def test_modes_of_torch():
    @torch.compile(backend="anyshape", dynamic=True)
    def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            y = x * w
        with torch.autocast("cpu", torch.bfloat16):
            z = x @ w.t()
        return y, z

    for n in (3, 5, 8):
        x, w = torch.randn(n, 4), torch.randn(n, 4, requires_grad=True)
        y, z = f(x, w)
        assert not y.requires_grad
        assert z.requires_grad
        assert z.dtype is torch.bfloat16
        torch.testing.assert_close(y, x * w.detach())


def test_graph_breaks_and_branches():
    def f(x: Tensor) -> Tensor:
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        torch._dynamo.graph_break()
        return y * x.shape[0]

    compiled = torch.compile(f, backend="anyshape")
    for n in (3, 3, 5, 5, 7):
        for sign in (1, -1):
            x = torch.rand(n) * sign
            torch.testing.assert_close(compiled(x), f(x))


def test_operators_with_graphs_inside():
    def f(x: Tensor, flag: Tensor) -> Tensor:
        y = torch.cond(flag, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return checkpoint(lambda z: z.exp() * 2, y, use_reentrant=False)

    compiled = torch.compile(f, backend="anyshape", dynamic=True)
    for n in (3, 5, 8):
        for flag in (True, False):
            x = torch.randn(n, requires_grad=True)
            twin = x.detach().clone().requires_grad_()
            out, expected = compiled(x, torch.tensor(flag)), f(twin, torch.tensor(flag))
            torch.testing.assert_close(out, expected)
            out.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(x.grad, twin.grad)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] as torch has it
        return gradient * 3  # on purpose not its gradient


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_functions_with_gradients_of_their_own():
    compiled = torch.compile(lambda x: Doubled.apply(x).sum(), backend="anyshape", dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(n, requires_grad=True)
        compiled(x).backward()
        torch.testing.assert_close(x.grad, torch.full((n,), 3.0))


def test_random_numbers_are_those_of_eager():
    compiled = torch.compile(nn.Dropout(0.5), backend="anyshape", dynamic=True)
    for n in (30, 50, 80):
        x = torch.ones(n)
        torch.manual_seed(n)
        found = compiled(x)
        torch.manual_seed(n)
        torch.testing.assert_close(found, nn.functional.dropout(x, 0.5))


def test_static_sizes_are_numbers():
    backend = Counted()
    compiled = torch.compile(lambda x: x.sum(0), backend=backend, dynamic=False)
    for n in (3, 5, 3):
        assert torch.equal(compiled(torch.ones(n, 2)), torch.full((2,), float(n)))
    assert [len(each.entries[0].symbols) for each in backend.made] == [0, 0]


def test_options_are_checked():
    padded = torch.compile(lambda x: x * 2, backend="anyshape", options={"shape_padding": True})
    with pytest.warns(UserWarning, match="never padded"):
        padded(torch.ones(2))
    graph = torch.fx.symbolic_trace(lambda x: x * 2)
    with pytest.raises(BadOption, match="did you mean 'max_autotune'"):
        compile_graph(graph, [torch.ones(2)], options={"max_autotun": True})


def test_graphs_of_other_tracers():
    compiled = compile_graph(torch.fx.symbolic_trace(lambda x: x * 2), [torch.ones(2)])
    assert isinstance(compiled, anyshape.Compiled)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
