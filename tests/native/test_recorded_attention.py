"""Attention that autograd records, as graphs with gradients have it on GPUs: here on the
processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import anyshape
from anyshape.graph import attention_logsumexp


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    own = attention_logsumexp._attention_on

    def given(device: str, node: torch.fx.Node) -> dict[str, Any] | None:
        return own("cpu", node) if device == "cuda" else None

    monkeypatch.setattr(attention_logsumexp, "_attention_on", given)
    monkeypatch.setattr(anyshape.config, "native_training", True)


PROGRAMS: dict[str, Callable[..., torch.Tensor]] = {
    "plain": lambda q, k, v: F.scaled_dot_product_attention(q, k, v).sin(),
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q * 2, k, v, is_causal=True) + q,
    "dropout": lambda q, k, v: F.scaled_dot_product_attention(q, k, v.cos(), dropout_p=0.4) * 3,
    "twice": lambda q, k, v: F.scaled_dot_product_attention(
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.1), k, v, dropout_p=0.5
    ),
    "masked": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.ones(q.shape[2], k.shape[2]).tril().bool(), scale=0.3
    ),
    "groups": lambda q, k, v: F.scaled_dot_product_attention(
        torch.cat([q, q * 2], 1), k, v, enable_gqa=True
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True)
    for length in (5, 8, 2, 1):
        outcomes: list[list[torch.Tensor]] = []
        for function in (program, compiled):
            torch.manual_seed(length)
            given = [torch.randn(2, 3, length, 8, requires_grad=True) for _ in range(3)]
            result = function(*given)
            grads = torch.autograd.grad(result.square().sum(), given, retain_graph=True)
            again = torch.autograd.grad(result.square().sum(), given)
            assert all(map(torch.equal, grads, again))
            outcomes.append([result.detach(), *grads, torch.rand(1)])
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-5)
    told = str(compiled.explain())
    assert "forward: native code" in told
    assert "autograd does" not in told
    assert compiled.stats().graphs == 1


def test_a_gradient_of_a_gradient() -> None:
    program = PROGRAMS["causal"]
    compiled = anyshape.compile(program, dynamic=True)
    found: list[torch.Tensor] = []
    for function in (program, compiled):
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            (grad,) = torch.autograd.grad(function(q, k, v).sum(), [q], create_graph=True)
            found += torch.autograd.grad(grad.square().sum(), [q])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
