"""Operations that may return their own argument stay symbolic: what decides whether they do is
guarded, not the sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

import anyshape

Inputs = Callable[[int], tuple[Any, ...]]


def x(n: int) -> Tensor:
    return torch.linspace(-1, 2, 4 * n).reshape(n, 4)


def of_x(function: Callable[..., Any]) -> tuple[Callable[..., Any], Inputs]:
    return function, lambda n: (x(n),)


def log_prob(logits: Tensor, action: Tensor) -> Tensor:
    return Categorical(logits=logits, validate_args=False).log_prob(action)


#: program and inputs by size
PROGRAMS: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "one tensor": of_x(torch.broadcast_tensors),
    "the same twice": of_x(lambda x: torch.broadcast_tensors(x, x)),
    "with its own result": of_x(lambda x: torch.broadcast_tensors(x, x + 1)),
    "a column": (torch.broadcast_tensors, lambda n: (x(n)[:, :1], x(n))),
    "a row": (torch.broadcast_tensors, lambda n: (x(1)[0], x(n))),
    "a row of size 1": (torch.broadcast_tensors, lambda n: (x(1), x(n))),
    "a scalar": (torch.broadcast_tensors, lambda n: (x(n), torch.ones(()))),
    "three": (torch.broadcast_tensors, lambda n: (x(n), x(1)[0], torch.ones(()))),
    "with gradients": (torch.broadcast_tensors, lambda n: (x(n).requires_grad_(), x(n))),
    "gradients of a row": (torch.broadcast_tensors, lambda n: (x(n), torch.ones(4, 1, 4)
                                                               .requires_grad_())),
    "written to": (
        lambda x, y: torch.broadcast_tensors(x, y)[0].add_(1),
        lambda n: (x(n), torch.ones(4)),
    ),
    "at least two dimensions": (
        lambda a, b: torch.atleast_2d(a, b),
        lambda n: (x(n).requires_grad_(), x(n)),
    ),
    "given edges": (
        lambda x, a, b: torch.histogramdd(x[:, :2], [a, b]),
        lambda n: (x(n), torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 3)),
    ),
    "Categorical": (log_prob, lambda n: (x(n), torch.zeros(n, dtype=torch.long))),
    "Normal": (
        lambda m, s: Normal(m, s, validate_args=False).log_prob(m),
        lambda n: (x(n), x(n).abs() + 1),
    ),
    "Bernoulli": (
        lambda logits, a: Bernoulli(logits=logits, validate_args=False).log_prob(a),
        lambda n: (x(n), torch.ones(n, 4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_for_all_sizes(name: str):
    program, inputs = PROGRAMS[name]
    with anyshape.config.patch(profile=False, on_compile_error="raise", verify_calls=1.0):
        compiled = anyshape.compile(program, dynamic=True)
        for n in (3, 5, 2, 1, 4):
            compiled(*inputs(n))
        entries = compiled.entries
        assert compiled.stats().graphs == 1
        assert sum(entry.verified for entry in entries) == 4


def test_the_fact_is_guarded_where_sizes_decide():
    """Two sizes that are equal for some calls only: the argument itself, or a view of it."""
    with anyshape.config.patch(profile=False, verify_calls=1.0):
        compiled = anyshape.compile(torch.broadcast_tensors, dynamic=True)
        for n, m in ((3, 3), (4, 4), (3, 1), (5, 5), (6, 1), (1, 7), (1, 1)):
            a, b = x(n), x(m)
            found, expected = compiled(a, b), torch.broadcast_tensors(a, b)
            assert [each is a for each in found] == [each is a for each in expected]
            assert [each is b for each in found] == [each is b for each in expected]
        assert compiled.stats().graphs == 3
