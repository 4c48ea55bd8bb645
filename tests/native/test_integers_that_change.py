"""Integers that the program is given have no bounds, and are no sizes: native code computes with 64
bits, and functions check what they take for a float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.backends.native import small_graphs

Program = Callable[[Tensor, int], Tensor]

#: The first are what is captured; products of the last leave 64 bits.
VALUES = (2, 3, 5, 0, -1, 1, 2**31, 2**32, 2**61, 2**62, -(2**62), 2**63 - 1, -(2**63))

COMPUTED: dict[str, Program] = {
    "factor": lambda x, n: x * (n * 4),
    "square": lambda x, n: x * (n * n),
    "cube": lambda x, n: x * n**3,
    "sum": lambda x, n: x + (n + n),
    "less one": lambda x, n: x + (n - 1),
    "negative": lambda x, n: x * -n,
    "shifted": lambda x, n: x * (n << 3),
    "of a size": lambda x, n: x * (n * x.size(0)),
    "remainder": lambda x, n: x * ((n * 4 + 1) % 7),
    "quotient": lambda x, n: x * ((n * 4 + 1) // 8),
    "larger": lambda x, n: x * max(n * 4, 3),
    "filled": lambda x, n: x + torch.full((3,), n * 4),
    "range": lambda x, n: x.detach() * torch.arange(n * 4, n * 4 + 3),
    "clamped": lambda x, n: x.clamp(n, n * 2),
    "cut": lambda x, n: x[: n * 4],
    "whole numbers": lambda x, n: x.detach().long() + n * 4,
}

AS_FLOATS: dict[str, Program] = {
    "triplet margin": lambda x, n: F.triplet_margin_loss(x, x + 1, x * 2, margin=n),
    "hinge": lambda x, n: F.hinge_embedding_loss(x, x.sign().detach(), margin=n),
    "label smoothing": lambda x, n: F.cross_entropy(
        x, torch.zeros(len(x)).long(), label_smoothing=n
    ),
    "dropout": F.dropout,
    "softshrink": F.softshrink,
    "huber": lambda x, n: F.huber_loss(x, -x, delta=n),
    "smooth l1": lambda x, n: F.smooth_l1_loss(x, -x, beta=n),
    "celu": F.celu,
}


def _outcome(program: Any, n: int, number: int) -> Any:
    torch.manual_seed(number)
    x = torch.randn([700, 900, 5][number % 3], 3, requires_grad=True)
    try:
        y = program(x, n)
        if y.requires_grad:
            y.sum().backward()
    except (RuntimeError, ValueError, OverflowError) as error:
        return type(error)
    return y.detach(), x.grad


@pytest.mark.filterwarnings("ignore:Truncating the start")
@pytest.mark.parametrize("name", [*COMPUTED, *AS_FLOATS])
def test_any_integer_gives_what_eager_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    program = (COMPUTED | AS_FLOATS)[name]
    compiled = anyshape.compile(program)
    for number, n in enumerate(VALUES):
        found, wanted = (_outcome(each, n, number) for each in (compiled, program))
        if isinstance(wanted, type):
            assert found is wanted, n
        else:
            torch.testing.assert_close(found, wanted, equal_nan=True)
    if name in ("factor", "sum", "negative"):
        assert compiled.stats().graphs == 2
