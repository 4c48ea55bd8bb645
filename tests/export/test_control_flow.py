"""`torch.cond`, `torch.while_loop`, `map`: captured with all branches, right whichever is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan as torch_associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan

import anyshape
from anyshape import Dim
from anyshape.errors import GraphBreakError
from anyshape.ops.higher_order_ops import region_of

#: Their types say less than they take.
map_over: Any = torch_map
associative_scan: Any = torch_associative_scan


def both_ways(exported: anyshape.Exported, folder: Path) -> tuple[Any, Any]:
    exported.save(folder / "package.zip")
    return exported, anyshape.load(folder / "package.zip")


class Chooses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[0]

        def first(a: Tensor) -> Tensor:
            return self.yes(a) + rows

        def second(a: Tensor) -> Tensor:
            return self.no(a).relu().t().t()

        return torch.cond(x.sum() > 0, first, second, (x,)) * 2

    def plainly(self, x: Tensor) -> Tensor:
        return (self.yes(x) + x.shape[0] if x.sum() > 0 else self.no(x).relu()) * 2


def test_cond(tmp_path: Path):
    module = Chooses()
    exported = anyshape.export(module, (torch.ones(4, 3),), dynamic_shapes={"x": (Dim("n"), None)})
    for program in both_ways(exported, tmp_path):
        for size in (0, 1, 2, 7):
            for sign in (1.0, -1.0):
                x = torch.rand(size, 3) * sign
                torch.testing.assert_close(program(x), module.plainly(x))


def test_gradients_come_from_the_branch_that_is_taken():
    def program(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.log(), lambda a: a * 3, (x,))

    exported = anyshape.export(program, (torch.ones(2),), dynamic_shapes={"x": (Dim.AUTO,)})
    x = torch.full((3,), -1.0, requires_grad=True)
    exported(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))  # pyright: ignore[reportArgumentType] it has one


def loop(x: Tensor, count: Tensor) -> tuple[Tensor, ...]:
    def goes_on(i: Tensor, a: Tensor) -> Tensor:
        return i < count

    def step(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, a * 2 + x.shape[0]

    return torch.while_loop(goes_on, step, (torch.tensor(0), x))


def test_while_loop(tmp_path: Path):
    exported = anyshape.export(
        loop, (torch.ones(3), torch.tensor(2)), dynamic_shapes={"x": (Dim("n"),)}
    )
    for program in both_ways(exported, tmp_path):
        for size in (0, 1, 5):
            for count in (0, 1, 4):
                x = torch.randn(size)
                expected = x
                for _ in range(count):
                    expected = expected * 2 + size
                steps, found = program(x, torch.tensor(count))
                assert steps == count
                torch.testing.assert_close(found, expected)


def test_map(tmp_path: Path):
    def program(x: Tensor, y: Tensor) -> Tensor:
        return map_over(lambda row, other: (row * other).cumsum(0), x, y) + 1

    exported = anyshape.export(
        program, (torch.ones(2, 4), torch.ones(4)), dynamic_shapes={"x": (Dim("n", min=1), None)}
    )
    for each in both_ways(exported, tmp_path):
        for size in (1, 3, 6):
            x, y = torch.randn(size, 4), torch.randn(4)
            torch.testing.assert_close(each(x, y), (x * y).cumsum(1) + 1)


def running_sums(x: Tensor, weight: Tensor) -> Any:
    def step(carried: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        total = carried * weight + row
        return total, total.sin()

    return scan(step, torch.zeros(3), x, dim=1, reverse=True)


def plain_sums(x: Tensor, weight: Tensor) -> Any:
    total, rows = torch.zeros(3), list[Tensor]()
    for row in x.flip(1).unbind(1):
        total = total * weight + row
        rows.append(total.sin())
    return total, torch.stack(rows, 1).flip(1)


def test_scan(tmp_path: Path):
    exported = anyshape.export(
        running_sums,
        (torch.ones(3, 4), torch.ones(3)),
        dynamic_shapes={"x": (None, Dim("n", min=1))},
    )
    for program in both_ways(exported, tmp_path):
        for size in (1, 2, 5):
            x, weight = torch.randn(3, size), torch.rand(3)
            torch.testing.assert_close(program(x, weight), plain_sums(x, weight))


def linear_recurrence(a: Tensor, b: Tensor, dim: int, reverse: bool) -> Tensor:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(combine, (a, b), dim=dim, reverse=reverse, combine_mode="generic")[1]


@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (-1, True)])
def test_associative_scan(dim: int, reverse: bool, tmp_path: Path):
    auto = (Dim("rows", min=1), Dim("columns", min=1))
    exported = anyshape.export(
        lambda a, b: linear_recurrence(a, b, dim, reverse),
        (torch.rand(3, 4), torch.rand(3, 4)),
        dynamic_shapes=(auto, auto),
    )
    for program in both_ways(exported, tmp_path):
        for shape in ((3, 4), (1, 1), (2, 7), (6, 1)):
            a, b = torch.rand(shape), torch.rand(shape)
            torch.testing.assert_close(program(a, b), linear_recurrence(a, b, dim, reverse))


def test_scans_that_torch_does_not_take_either():
    """The program does not run on by itself where we give up: we say what there is against it."""
    with pytest.raises(GraphBreakError, match="pointwise"):
        anyshape.export(lambda x: associative_scan(torch.add, x, 0), (torch.ones(3),))


def of_scan(x: Tensor) -> Tensor:
    return running_sums(x, torch.ones(3))[1].cos()


@pytest.mark.parametrize(
    ("program", "shape"),
    [
        (Chooses().eval(), (None, 3)),
        (lambda x: loop(x, x.new_full((), 3)[None].sum())[1] * 2, (None,)),
        (lambda x: map_over(lambda row: row.sin() + 1, x) * 2, (None, 3)),
        (of_scan, (3, None)),
        (lambda x: linear_recurrence(x, x + 1, 0, False).cos(), (None, 3)),
    ],
    ids=["cond", "while_loop", "map", "scan", "associative_scan"],
)
def test_native_code_around_operators_with_graphs(
    program: Any, shape: tuple[int | None, ...], tmp_path: Path
):
    def given(size: int) -> Tensor:
        return torch.rand([size if each is None else each for each in shape]) - 0.2

    spec = {0: tuple(Dim("n", min=1) if each is None else None for each in shape)}
    with torch.no_grad():
        exported = anyshape.export(program, (given(4),), dynamic_shapes=(spec[0],))
        for each in both_ways(exported, tmp_path):
            for size in (1, 2, 5):
                x = given(size)
                eager = anyshape.load(tmp_path / "package.zip", backend="eager")
                torch.testing.assert_close(each(x), eager(x))
            (entry,) = each.entries
            (graph,) = entry.graphs
            assert graph.meta["report"].native
            assert any(region_of(node.target) for node in graph.graph.nodes)


def test_a_plain_choice_needs_no_branch():
    def program(x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 2, lambda a: a + 1, lambda a: a - 1, (x,))

    exported = anyshape.export(program, (torch.ones(4),), dynamic_shapes={"x": (Dim.AUTO,)})
    assert exported.symbols["s0"].range.lower == 3


def changes(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a: a.add_(1), lambda a: a * 1, (x,))


def draws(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a: a + torch.rand(3), lambda a: a * 1, (x,))


def asks(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a: a[a > 0], lambda a: a * 1, (x,))


def differs(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a: a[:2], lambda a: a * 1, (x,))


@pytest.mark.parametrize("program", [draws, asks])
def test_branches_that_cannot_be_followed(program: Any):
    with pytest.raises(GraphBreakError, match=r"torch\.cond"):
        anyshape.export(program, (torch.ones(3),))


@pytest.mark.parametrize("program", [changes, differs])
def test_branches_that_torch_does_not_take_either(program: Any):
    """Where we give up, the program itself runs, and torch says what it has against it."""
    with pytest.raises(RuntimeError, match=r"cond|alias|mutat"):
        anyshape.export(program, (torch.ones(3),))


def test_the_branches_are_shown():
    exported = anyshape.export(
        lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), (torch.ones(3),)
    )
    text = exported.print_readable(False)
    assert "cond = anyshape.cond(gt, (x,), (x,))  # (float32[3])" in text
    assert "sin = torch.sin(input_0)  # float32[3]" in text


def test_compiled_too():
    module = Chooses()
    compiled: Any = anyshape.compile(module, dynamic=True, fullgraph=True)
    for size in (2, 3, 5):
        for sign in (1.0, -1.0):
            x = torch.rand(size, 3) * sign
            torch.testing.assert_close(compiled(x), module.plainly(x))
    assert compiled.stats().graphs == 1


def test_a_region_takes_numbers_of_before_a_decision_on_data() -> None:
    """Also in the call that compiles, which has no value of them in the graph behind it."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        count = int((x.abs() * 3).sum().item())
        y = x.sin()
        if count > 4:
            y = y + count
        body: Any = lambda row: row * y[0] + count  # noqa: E731 its type is not the parameter's
        return torch_map(body, x)

    compiled = anyshape.compile(scaled, dynamic=True)
    for size in (3, 2, 4, 3, 1):
        x = torch.linspace(-1, 1, 4 * size).view(size, 4)
        torch.testing.assert_close(compiled(x), scaled(x))
