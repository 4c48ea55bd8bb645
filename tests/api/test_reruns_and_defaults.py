"""Runs that are made twice, defaults that change, operators of libraries, copies of modules."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from tests import devices

Writer = Callable[[Tensor, Tensor], object]

# -- a graph that fails is run again, eagerly, only if that changes nothing twice ------------------

#: Each changes its first argument, or its second, and not by the same again when done twice.
WRITERS: dict[str, Writer] = {
    "method": lambda x, y: x.add_(1),
    "operator": lambda x, y: x.__iadd__(1),
    "through a view": lambda x, y: x.view(-1).mul_(2),
    "through a slice": lambda x, y: x[1:].mul_(2),
    "item": lambda x, y: x.__setitem__(0, x[0] + 1),
    "inplace=True": lambda x, y: F.elu(x, inplace=True),
    "out=": lambda x, y: torch.add(x, 1, out=x),
    "out= of another": lambda x, y: torch.add(y, x[0], out=y),
    "data": lambda x, y: x.data.add_(1),
    "detached": lambda x, y: x.detach().add_(1),
    "batch_norm": lambda x, y: F.batch_norm(x, y, y.clone(), training=True),
    "instance_norm": lambda x, y: F.instance_norm(x.T[None], y, y.clone()),
    "copy": lambda x, y: y.copy_(y + x[0]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_nothing_is_written_twice(write: Writer, dynamic: bool | None) -> None:
    def function(x: Tensor, y: Tensor, index: Tensor) -> Tensor:
        write(x, y)
        return x[index]

    states = []
    for call in (function, anyshape.compile(function, dynamic=dynamic)):
        x, y = torch.arange(12.0).view(3, 4) / 7, torch.ones(4)
        for index in (0, 1, 9):
            try:
                call(x, y, torch.tensor([index]))
            except IndexError:
                states.append((x, y))
    torch.testing.assert_close(states[1], states[0], rtol=0, atol=0)


def test_what_the_program_made_may_be_changed_twice() -> None:
    """Then the eager run does the Python effects that came before the error."""
    log: list[int] = []

    def function(x: Tensor, index: Tensor) -> Tensor:
        mine = x.clone()
        mine += 1
        log.append(1)
        return mine[index]

    compiled = anyshape.compile(function)
    for index in (0, 1):
        compiled(torch.ones(3), torch.tensor([index]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([9]))
    assert len(log) == 3
    assert compiled.stats().hits == 2


# -- operators of libraries ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    made = torch.library.Library("anyshape_review", "DEF")
    # The first has the name of one of torch's own, whose shape does not depend on data.
    for name in ("positive", "positive_ones"):
        made.define(f"{name}(Tensor x) -> Tensor")
        made.impl(name, lambda x: x[x > 0].clone(), devices.dispatch_key())
    yield torch.ops.anyshape_review
    made._destroy()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("overload", [False, True])
@pytest.mark.parametrize("name", ["positive", "positive_ones"])
def test_shape_that_depends_on_data(
    library: Any, name: str, overload: bool, dynamic: bool | None
) -> None:
    packet = getattr(library, name)
    operator = packet.default if overload else packet

    def function(x: Tensor) -> Tensor:
        return x.sum() * operator(x).shape[0]

    compiled = anyshape.compile(function, dynamic=dynamic)
    for values in ([1.0, 2.0, -1.0], [1.0, -2.0, -1.0], [-1.0, -2.0, -3.0]):
        assert torch.equal(compiled(torch.tensor(values)), function(torch.tensor(values)))


# -- default values --------------------------------------------------------------------------------


@pytest.mark.parametrize("eager", [False, True])
def test_defaults_of_a_function_change(eager: bool) -> None:
    def function(x: Tensor, scale: float = 1.0, *, shift: float = 0.0) -> Tensor:
        return x * scale + shift + (x.sum().item() if eager else 0)

    compiled, x = anyshape.compile(function), torch.ones(2)
    for step in range(8):
        function.__defaults__ = (float(step // 2),)
        function.__kwdefaults__ = {"shift": float(step // 3)}
        assert torch.equal(compiled(x), function(x))


def test_defaults_are_added() -> None:
    def function(x: Tensor, scale: float) -> Tensor:
        return x * scale

    compiled: Any = anyshape.compile(function)
    x = torch.ones(2)
    compiled(x, 2.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'scale'"):
        compiled(x)
    function.__defaults__ = (5.0,)
    assert torch.equal(compiled(x), x * 5)


# -- the compiled object ---------------------------------------------------------------------------


def test_module_that_holds_a_compiled_function_is_copied() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.after = anyshape.compile(lambda x: x + 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.after(self.inner(x))

    module, x = Holder(), torch.ones(3, 2)
    assert torch.equal(copy.deepcopy(module)(x), module(x))


def test_bound_method_is_copied_with_its_object() -> None:
    class Scaled:
        scale = 2.0

        def __init__(self) -> None:
            self.times = anyshape.compile(self.multiply)

        def multiply(self, x: Tensor) -> Tensor:
            return x * self.scale

    first = Scaled()
    second = copy.deepcopy(first)
    second.scale = 3.0
    assert torch.equal(first.times(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(second.times(torch.ones(2)), torch.full((2,), 3.0))


def test_reset_inside_a_compiled_function_does_not_hang() -> None:
    def function(x: Tensor) -> Tensor:
        anyshape.reset()
        return x + 1

    results: list[Tensor] = []
    thread = threading.Thread(
        target=lambda: results.append(anyshape.compile(function)(torch.ones(2))), daemon=True
    )
    thread.start()
    thread.join(timeout=30)
    assert torch.equal(results[0], torch.full((2,), 2.0))
