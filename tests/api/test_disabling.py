"""Functions that are never compiled, and graph breaks, as boundaries of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape


def _note(seen: list[Any], x: Tensor) -> Tensor:
    seen.append(torch.compiler.is_compiling() or x.shape[0])
    return x - 1


def _around(boundary: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        y = x.sin() + 1
        boundary(y)
        return y.cos() * 2

    return function


SEEN: list[Any] = []
DISABLED = {
    "ours": anyshape.disable(lambda x: _note(SEEN, x)),
    "ours, with a reason": anyshape.disable(reason="it saves")(lambda x: _note(SEEN, x)),
    "torch's": torch.compiler.disable(lambda x: _note(SEEN, x)),
    "a graph break of ours": lambda x: anyshape.graph_break(),
    "a graph break of torch's": lambda x: torch._dynamo.graph_break(),
}


@pytest.mark.parametrize("name", DISABLED)
def test_is_compiled_around(name: str) -> None:
    function = _around(DISABLED[name])
    compiled = anyshape.compile(function)
    for size in (3, 4, 5, 6, 6, 7):
        SEEN.clear()
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), function(x))
        assert SEEN in ([], [size, size])
    stats = compiled.stats()
    assert stats.in_parts
    assert stats.boundaries >= 1
    assert stats.graphs == 2
    assert stats.eager_calls == 2  # that learnt where to split


def test_all_functions_together_have_the_boundaries_of_each() -> None:
    anyshape.reset()
    assert not anyshape.stats().in_parts
    compiled = [anyshape.compile(_around(DISABLED[name])) for name in ("ours", "torch's")]
    for function in compiled:
        for size in (3, 4, 5):
            function(torch.randn(size))
    found = anyshape.stats()
    assert found.in_parts
    assert found.boundaries == sum(each.stats().boundaries for each in compiled) >= 2


def test_a_reason_is_told() -> None:
    compiled = anyshape.compile(_around(DISABLED["ours, with a reason"]), fullgraph=True)
    with pytest.raises(anyshape.AnyshapeError, match="not to be traced: it saves"):
        compiled(torch.ones(3))


def test_a_module() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return _note(SEEN, x)

    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Inner(), nn.Linear(4, 4))
    anyshape.disable(net[2])
    compiled = anyshape.compile(net)
    for size in (2, 3, 4, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), net(x))


def test_outside_of_compiled_code_nothing_changes() -> None:
    @anyshape.disable
    def function(x: int) -> int:
        """What it does."""
        anyshape.graph_break()
        return x + 1

    assert function(1) == 2
    assert function.__doc__ == "What it does."
    assert function.__name__ == "function"
