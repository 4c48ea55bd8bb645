"""Methods and functions of torch that are replaced between calls are noticed, and so is their
return."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import anyshape
from tests import forks

Program = Callable[[torch.Tensor], Any]


def relu(x: torch.Tensor) -> Any:
    return x.relu() + 1


def operators(x: torch.Tensor) -> Any:
    return (x * 2 - x) @ x, -x, x[0], x > 0, 1 + x


def properties(x: torch.Tensor) -> Any:
    return x.T * 2


def in_place(x: torch.Tensor) -> Any:
    y = x * 1
    y += 1
    y[0] = 3
    return y


def functional(x: torch.Tensor) -> Any:
    return F.relu(x), torch.sin(x)


def sizes(x: torch.Tensor) -> Any:
    return x * x.size(0)


def gumbel(x: torch.Tensor) -> Any:
    # calls a function of its own module, and methods
    return F.multi_head_attention_forward(
        x[None], x[None], x[None], 4, 1, torch.ones(12, 4), torch.ones(12), None, None, False,
        0.0, torch.ones(4, 4), torch.ones(4), training=False,
    )  # fmt: skip


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


NET = Net().requires_grad_(False)


def module(x: torch.Tensor) -> Any:
    return NET(x)


def _negative(*args: Any, **kwargs: Any) -> Any:
    first = next(each for each in args if isinstance(each, torch.Tensor))
    return first.sub(7)


CASES: list[tuple[Program, Any, str, Any]] = [
    (relu, torch.Tensor, "relu", _negative),
    (relu, torch.Tensor, "__add__", _negative),
    (operators, torch.Tensor, "__mul__", _negative),
    (operators, torch.Tensor, "__sub__", _negative),
    (operators, torch.Tensor, "__matmul__", _negative),
    (operators, torch.Tensor, "__neg__", _negative),
    (operators, torch.Tensor, "__gt__", _negative),
    (operators, torch.Tensor, "__radd__", _negative),
    (operators, torch.Tensor, "__getitem__", _negative),
    (properties, torch.Tensor, "T", property(_negative)),
    (in_place, torch.Tensor, "__iadd__", _negative),
    (in_place, torch.Tensor, "__setitem__", lambda *args: None),
    (functional, F, "relu", _negative),
    (functional, torch, "sin", _negative),
    (sizes, torch.Tensor, "size", lambda x, *dim: 11),
    (gumbel, F, "softmax", _negative),
    (gumbel, F, "linear", _negative),
    (module, torch.nn.Linear, "forward", _negative),
    (module, torch.nn.ReLU, "forward", _negative),
    (module, torch.nn.Sequential, "forward", _negative),
    (module, torch.nn.Module, "__call__", _negative),
    (module, torch.nn.Module, "_call_impl", _negative),
    (module, F, "linear", _negative),
    (module, F, "relu", _negative),
]


@pytest.mark.parametrize(
    ("program", "owner", "name", "other"),
    CASES,
    ids=[f"{program.__name__}-{name}" for program, _, name, _ in CASES],
)
def test_replaced(
    program: Program, owner: Any, name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.linspace(-1, 1, 16).view(4, 4)
    compiled = anyshape.compile(program)

    def same() -> None:
        torch.testing.assert_close(compiled(x.clone()), program(x.clone()))

    with torch.no_grad():
        same()
        same()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, other)
            same()
            same()
        compiles = compiled.stats().captures
        same()
    assert compiled.stats().captures == compiles, "the first entry serves torch as it was"


def test_what_is_added_replaces_nothing() -> None:
    compiled = anyshape.compile(relu)
    x = torch.ones(3)
    compiled(x)
    vars_before = dir(torch.Tensor)
    torch.Tensor.of_this_test = _negative  # pyright: ignore[reportAttributeAccessIssue]
    try:
        assert "of_this_test" not in vars_before
        compiled(x)
        assert compiled.stats().recompiles == 0
    finally:
        del torch.Tensor.of_this_test  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "when",
    ["calls", *(pytest.param(each, marks=pytest.mark.slow) for each in ("import", "compile"))],
)
def test_replaced_by_what_calls_the_original(when: str) -> None:
    """Libraries do so: before anyshape is imported, before a compile, between two calls."""
    root = Path(__file__).parents[2]
    program = str(root / "tests/capture/replaced_program.py")
    done = forks.run([program, when], root, bare=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "71 functions, 0 wrong", done.stdout


def test_code_of_functions_is_replaced() -> None:
    """Functions that a watched program makes have a cell of ours, which other code has not."""

    def doubled(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    def outside(x: torch.Tensor) -> torch.Tensor:
        def inner(t: torch.Tensor) -> torch.Tensor:
            return t * 7

        doubled.__code__ = inner.__code__
        return doubled(x)

    def inside(x: torch.Tensor) -> torch.Tensor:
        factor = 2

        def first(t: torch.Tensor) -> torch.Tensor:
            return t * factor

        def second(t: torch.Tensor) -> torch.Tensor:
            return t + factor

        first.__code__ = second.__code__
        return first(x)

    for function, wanted in ((outside, 7.0), (inside, 3.0)):
        compiled = anyshape.compile(function)
        for size in (2, 3, 4):
            assert torch.equal(compiled(torch.ones(size)), torch.full((size,), wanted))
