"""Gradients of torch's table of operators: native code against eager."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

import anyshape
from anyshape.backends.native import small_graphs
from tests.native.opdb import infos

#: Samples of each operator.
MOST = 2


def _is_differentiable(info: Any) -> bool:
    return info.supports_autograd and torch.float32 in info.supported_backward_dtypes("cpu")


INFOS = {info.full_name: info for info in infos() if _is_differentiable(info)}
#: Captured with a symbolic integer, they are not understood: `warn` runs them eagerly.
NOT_CAPTURED = {"combinations", "sort", "tensordot", "linalg.tensorinv"}


@pytest.mark.parametrize("name", INFOS)
def test_as_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    if name not in NOT_CAPTURED:
        monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")
    info = INFOS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(info.sample_inputs("cpu", torch.float32, requires_grad=True))[:MOST]
        for sample in samples:
            _check(info.op, (sample.input, sample.args, sample.kwargs))


def _check(op: Any, given: Any) -> None:
    flat, spec = tree_flatten(given)
    places = [place for place, each in enumerate(flat) if isinstance(each, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        own = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            own[place] = tensor
        input, args, kwargs = tree_unflatten(own, spec)
        return op(input, *args, **kwargs)

    tensors = [
        flat[place].detach().clone().requires_grad_(flat[place].requires_grad) for place in places
    ]
    try:
        want = _outcome(function, tensors)
    except (RuntimeError, IndexError, ValueError):
        return  # eager cannot, or its gradient is none
    compiled = anyshape.compile(function, dynamic=True)
    _outcome(compiled, tensors)
    got = _outcome(compiled, tensors)
    assert len(got) == len(want)
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None), "a gradient of zeros is not one that is missing"
        if a is not None:
            torch.testing.assert_close(b, a, rtol=1e-4, atol=2e-5, equal_nan=True)


def _outcome(function: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor | None]:
    torch.manual_seed(0)
    found = tree_flatten(function(*tensors))[0]
    results = [each for each in found if isinstance(each, torch.Tensor)]
    differentiable = [each for each in results if each.requires_grad]
    inputs = [each for each in tensors if each.requires_grad]
    if not differentiable or not inputs:
        return [each.detach() for each in results]
    weights = [
        torch.linspace(0.5, 1.5, each.numel()).view(each.shape).to(each.dtype)
        for each in differentiable
    ]
    grads = torch.autograd.grad(differentiable, inputs, weights, allow_unused=True)
    return [*(each.detach() for each in results), *grads]
