"""Zeros keep the sign that eager gives them: reductions of one element, of a single number, and of
many negative zeros."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import anyshape


def folds(x: torch.Tensor) -> dict[str, Any]:
    flat, row = x.reshape(-1), x.reshape(-1, 1)
    return {
        "sum": (x.sum(), x.sum(-1), x.sum(-1, keepdim=True), row.sum(1), (x * 1).sum()),
        "sum of doubles": x.sum(dtype=torch.float64),
        "mean": (x.mean(), x.mean(-1), row.mean(1)),
        "nansum": (x.nansum(), x.nansum(-1), row.nansum(1)),
        "nanmean": (x.nanmean(), row.nanmean(1)),
        "prod": (x.prod(), x.prod(-1), row.prod(1)),
        "cumsum": (x.cumsum(-1), row.cumsum(1), row.cumsum(0)),
        "cumprod": (x.cumprod(-1), row.cumprod(1)),
        "norms": (x.norm(), x.norm(p=1), x.norm(p=float("inf")), torch.linalg.vector_norm(x, 3)),
        "extrema": (x.amax(), x.amin(), x.max(), x.min(), row.amax(1), row.amin(1)),
        "variance": (row.var(1, correction=0), row.std(1, correction=0)),
        "logsumexp": (x.logsumexp(-1), row.logsumexp(1)),
        "softmax": (x.softmax(-1), row.softmax(1)),
        "einsum": torch.einsum("i->", flat),
        "dot": torch.dot(flat, torch.ones_like(flat)),
        "product": (row.t() @ torch.ones_like(row), F.linear(row.t(), row.t())),
        "means of windows": (
            F.avg_pool1d(row.t()[None], 1),
            F.adaptive_avg_pool1d(row.t()[None], 1),
        ),
        "layer norm": F.layer_norm(flat, (flat.shape[0],)),
        "rms norm": F.rms_norm(flat, (flat.shape[0],)),
        "normalize": F.normalize(row.t()),
        "l1 loss": F.l1_loss(x, torch.zeros_like(x)),
    }


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (17,)])
def test_negative_zeros(shape: tuple[int, ...], dynamic: bool) -> None:
    x = torch.full(shape, -0.0)
    compiled = anyshape.compile(folds, dynamic=dynamic)
    with torch.no_grad(), anyshape.config.patch(on_compile_error="raise"):
        compiled(x)
        found, wanted = compiled(x), folds(x)
    for name, results in wanted.items():
        ours = found[name] if isinstance(results, tuple) else (found[name],)
        theirs = results if isinstance(results, tuple) else (results,)
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert torch.equal(one.signbit(), other.signbit()), (name, place)


def clamped(x: torch.Tensor) -> dict[str, torch.Tensor]:
    made = {
        "relu": torch.relu(x),
        "clamp": x.clamp(min=0),
        "clamp below": x.clamp(max=0),
        "clamp between": x.clamp(-0.0, 0.0),
        "clamp to numbers": x.clamp(0, 1),
        "relu6": F.relu6(x),
        "hardtanh": F.hardtanh(x, 0.0, 1.0),
        "in place": (x + -0.0).relu_(),
    }
    return {name: each * 1 for name, each in made.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.0, float("nan")])
def test_a_zero_within_its_bounds_stays(value: float, dtype: torch.dtype) -> None:
    compiled = anyshape.compile(clamped, dynamic=True)
    for size in (1, 3, 17, 40):
        x = torch.full((size,), value, dtype=dtype)
        for _ in range(2):
            found, wanted = compiled(x), clamped(x)
            for name, each in wanted.items():
                assert torch.equal(found[name].signbit(), each.signbit()) or value != value, name
                torch.testing.assert_close(found[name], each, rtol=0, atol=0, equal_nan=True)
