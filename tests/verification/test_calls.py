"""Programs that are right are found to be right, whatever they read, write, draw and raise; which
calls are verified; and what is never done twice."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import config
from anyshape.errors import BadSetting
from anyshape.events import kinds
from anyshape.events.stream import stream

COUNTER = {"calls": 0}
SEEN: list[Tensor] = []
NET = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
TOTAL = 0


def in_globals(x: Tensor) -> Tensor:
    global TOTAL
    TOTAL += 1
    COUNTER["calls"] += 1
    SEEN.append(x)
    return NET(x)


def aliases(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x[1:]
    y.mul_(2)
    return x, y, x.view(-1)


def drawing(x: Tensor) -> Tensor:
    return nn.functional.dropout(x, 0.5) + torch.randn(x.shape)


def branching(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2 if x.sum() > 0 else x - 1


def modes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        a = x * 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = x @ x.T
    with torch.inference_mode():
        c = x + 1
    return a, b, c


def doubling(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def inner(x: Tensor) -> Tensor:
        return function(x) * 2

    return inner


@doubling
@torch.no_grad()
def decorated(x: Tensor) -> Tensor:
    return x.relu()


def reading_attributes(x: Tensor) -> dict[str, Any]:
    return {"sizes": tuple(x.shape), "sum": x.sum(), "none": None, "nested": [x, (x, x + 1)]}


def with_a_default(x: Tensor, kept: list[Any] = []) -> Tensor:  # noqa: B006 what programs do
    kept.append(x.shape[0])
    return x * len(kept)


def generator_given(x: Tensor, g: torch.Generator) -> Tensor:
    return x + torch.rand(4, generator=g)


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tied = self.linear
        self.norm = nn.BatchNorm1d(4)
        self.history: deque[Any] = deque(maxlen=2)
        self.n = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        self.history.append(x.shape[0])
        return self.tied(self.norm(self.linear(x)))


def leaf(n: int) -> Tensor:
    return torch.linspace(-1, 3, 4 * n).reshape(n, 4)


PROGRAMS: dict[str, tuple[Any, Callable[[int], tuple[Any, ...]]]] = {
    "globals": (in_globals, lambda n: (leaf(n),)),
    "aliases": (aliases, lambda n: (leaf(n),)),
    "drawing": (drawing, lambda n: (leaf(n),)),
    "branching": (branching, lambda n: (leaf(n) - 3 * (n % 2),)),
    "modes": (modes, lambda n: (leaf(n).requires_grad_(),)),
    "decorated": (decorated, lambda n: (leaf(n),)),
    "containers": (reading_attributes, lambda n: (leaf(n),)),
    "a generator": (generator_given, lambda n: (leaf(n), torch.Generator().manual_seed(n))),
    "a module": (Module(), lambda n: (leaf(n),)),
    "a method": (Module().forward, lambda n: (leaf(n),)),
    "a module in a closure": ((lambda m: lambda x: m(x) + 1)(Module()), lambda n: (leaf(n),)),
    "a history": (torch.relu_, lambda n: (leaf(n).requires_grad_() * 2,)),
    "views": (lambda x, y: y.add_(1) + x[1:], lambda n: (lambda b: (b, b[1:]))(leaf(n))),
    "overlaps": (lambda x, y: (x.add_(1), y * 2), lambda n: (lambda b: (b[:2], b[1:]))(leaf(n))),
    "expanded": (lambda x: x + 1, lambda n: (leaf(1).expand(n, 4),)),
    "complex": (lambda x: x * 2, lambda n: (leaf(n) + 1j,)),
    "eight bits": (lambda x: x.float() * 2, lambda n: (leaf(n).to(torch.float8_e5m2),)),
    "to eight bits": (lambda x: (x / 0).to(torch.float8_e4m3fn), lambda n: (leaf(n),)),
    "split views": (lambda x: x * 2, lambda n: (leaf(n).split(1)[0],)),
    "a view of a leaf": (lambda x: x.exp(), lambda n: (leaf(n).requires_grad_()[1:],)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_right_is_found_right(name: str):
    program, inputs = PROGRAMS[name]
    compiled: Any = anyshape.compile(program)
    for n in (3, 4, 5, 6, 5, 4):
        compiled(*inputs(n))
    assert sum(entry.verified for entry in compiled.entries) >= 1
    assert not any(entry.not_verified for entry in compiled.entries)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_in_contexts(context: Any):
    compiled: Any = anyshape.compile(Module())
    with context():
        for n in (3, 4, 5, 6):
            compiled(leaf(n))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for n in (3, 4, 5, 6):
            compiled(leaf(n))
    assert sum(entry.verified for entry in compiled.entries) >= 4


def test_state_changes_once():
    global TOTAL
    TOTAL, COUNTER["calls"] = 0, 0
    SEEN.clear()
    module = Module()
    compiled, counting = anyshape.compile(module), anyshape.compile(in_globals)
    before = int(NET[1].num_batches_tracked)  # pyright: ignore[reportArgumentType] a tensor
    for n in (3, 4, 5, 6):
        compiled(leaf(n))
        counting(leaf(n))
    assert module.n == TOTAL == COUNTER["calls"] == len(SEEN) == 4
    assert int(module.norm.num_batches_tracked) == 4  # pyright: ignore[reportArgumentType] a tensor
    assert int(NET[1].num_batches_tracked) == before + 4  # pyright: ignore[reportArgumentType] a tensor
    assert list(module.history) == [5, 6]


def test_random_numbers_are_those_of_eager():
    compiled = anyshape.compile(drawing)
    torch.manual_seed(0)
    found = [compiled(leaf(n)) for n in (3, 4, 5, 6)]
    torch.manual_seed(0)
    for n, each in zip((3, 4, 5, 6), found, strict=True):
        torch.testing.assert_close(each, drawing(leaf(n)))


def printing(x: Tensor) -> Tensor:
    print("once")
    return x + 1


def test_effects_that_cannot_be_copied_are_told_and_not_done_twice(
    capsys: pytest.CaptureFixture[str],
):
    heard: list[kinds.NotVerified] = []
    stop = stream.subscribe(heard.append, (kinds.NotVerified,))  # pyright: ignore[reportArgumentType] of one kind
    compiled = anyshape.compile(printing)
    try:
        for _ in range(5):
            compiled(leaf(2))
    finally:
        stop()
    assert capsys.readouterr().out == "once\n" * 5
    (event,) = heard
    assert event.function == "printing"
    assert "print" in event.reason


def test_what_cannot_be_copied_is_told():
    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lines = (line for line in "ab")

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    compiled: Any = anyshape.compile(Locked())
    for _ in range(3):
        compiled(leaf(2))
    assert "generator" in compiled.entries[0].not_verified
    assert compiled.entries[0].verified == 0


def in_parts(x: Tensor) -> Tensor:
    y = _work(x)
    time.sleep(0)  # cannot be traced
    return _work(y)


def _work(x: Tensor) -> Tensor:
    return ((x * 2 + 1).relu() - x).sin()


def test_parts_are_verified():
    compiled = anyshape.compile(in_parts)
    for n in (3, 4, 5, 6, 7):
        compiled(leaf(n))
    function = compiled._function
    parts = [entry for part in function._parts() for entry in part.entries]
    assert sum(entry.verified for entry in parts + compiled.entries) >= 1


def test_the_first_calls_of_each_entry():
    with config.patch(verify_calls=2):
        compiled = anyshape.compile(lambda x: x + 1)
        for n in (3, 4, 5, 6, 7, 8):
            compiled(leaf(n))
        assert [entry.verified for entry in compiled.entries] == [0, 2]


def test_a_share_of_the_calls():
    with config.patch(verify_calls=0.5):
        compiled = anyshape.compile(lambda x: x + 1)
        for _ in range(61):
            compiled(leaf(3))
        assert 5 < compiled.entries[0].verified < 55


def test_nothing_is_added_while_it_is_off():
    with config.patch(verify_calls=0.0):
        compiled: Any = anyshape.compile(lambda x: x + 1)
        for _ in range(3):
            compiled(leaf(3))
        plain = compiled._function.dispatch.anyshape_source
        run = compiled.entries[0].plan.run
        assert compiled.entries[0].verified == 0
    compiled(leaf(3))  # on again, without another compile
    assert compiled.entries[0].verified == 1
    assert compiled.stats().captures == 1
    with config.patch(verify_calls=0.0):
        assert compiled._function.dispatch.anyshape_source == plain
        assert compiled.entries[0].plan.run is run
        compiled(leaf(3))
        assert compiled.entries[0].verified == 1


def test_other_defaults_are_seen():
    def program(x: Tensor, scale: int = 2) -> Tensor:
        return x * scale

    compiled = anyshape.compile(program)
    for _ in range(2):
        assert torch.equal(compiled(leaf(2)), leaf(2) * 2)
    program.__defaults__ = (3,)
    for _ in range(2):
        assert torch.equal(compiled(leaf(2)), leaf(2) * 3)


def test_compiled_functions_inside_run_eagerly_beside():
    inner = anyshape.compile(_work)
    inner(leaf(3))
    outer = anyshape.compile(lambda x: inner(x) + 1)
    for n in (3, 3, 4, 5):
        outer(leaf(n))
    assert sum(entry.verified for entry in outer.entries) >= 1


def test_the_error_of_a_program_is_compared():
    def program(x: Tensor, i: Tensor) -> Tensor:
        x.add_(1)
        return x[i]

    compiled = anyshape.compile(program)
    for i in (0, 1, 2):
        compiled(leaf(3), torch.tensor([i]))
    with pytest.raises(IndexError):
        compiled(leaf(3), torch.tensor([7]))


@pytest.mark.parametrize("value", [-0.1, 1.1, -1, True, "some"])
def test_values_that_mean_nothing(value: Any):
    with pytest.raises(BadSetting):
        config.verify_calls = value
