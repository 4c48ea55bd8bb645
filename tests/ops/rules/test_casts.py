"""Copies, casts and moves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic, dynamic_but_formats
from tests.ops.laid_out import channels_last

NCHW = {"n": 2, "c": 3, "h": 4, "w": 5}


def permuted(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(1, 3, 0, 2).contiguous().permute(2, 0, 3, 1)


FUNCTIONS = [
    lambda x: x.to(torch.float64),
    lambda x: x.to(torch.float32),
    lambda x: x.to("cpu"),
    lambda x: x.to("cpu", torch.int32),
    lambda x: x.to(device="cpu", dtype=torch.bool, copy=True),
    lambda x: x.to(torch.float32, False, True),
    lambda x: x.to(x.int()),
    lambda x: x.to(torch.float16, memory_format=torch.channels_last),
    lambda x: x.to(memory_format=torch.channels_last),
    lambda x: x.to(memory_format=torch.contiguous_format),
    lambda x: x[:, :, 1:].to(memory_format=torch.contiguous_format),
    lambda x: x.float() + x.double() + x.half(),
    lambda x: (x.bfloat16(), x.int(), x.long(), x.short(), x.char(), x.byte(), x.bool()),
    lambda x: (x.cfloat(), x.cdouble()),
    lambda x: x.long(memory_format=torch.contiguous_format),
    lambda x: x.type(torch.int64),
    lambda x: x.type("torch.DoubleTensor"),
    lambda x: x.type(torch.IntTensor),
    lambda x: x.type_as(x.int()),
    lambda x: x.cpu(),
    lambda x: x.clone(),
    lambda x: torch.clone(x, memory_format=torch.channels_last),
    lambda x: x.clone(memory_format=torch.contiguous_format),
    lambda x: x.contiguous(),
    lambda x: x.contiguous(memory_format=torch.channels_last),
    lambda x: x.permute(1, 0, 3, 2).contiguous(),
    lambda x: x[:, :, ::2].contiguous(),
    lambda x: x.detach(),
    lambda x: x.requires_grad_().sin().detach(),
    lambda x: x.requires_grad_().double(),
    lambda x: x.requires_grad_().int(),
    lambda x: x.type_as(torch.ones(1, dtype=torch.float64, requires_grad=True)),
    lambda x: x.to(torch.ones(1, requires_grad=True)),
    lambda x: x.requires_grad_().data,
    lambda x: x.fill_(2),
    lambda x: x.fill_(torch.tensor(2.0)),
    lambda x: torch.fill(x, 2),
    lambda x: x.zero_(),
    lambda x: torch.alias_copy(x),
    lambda x: x.copy_(x[:1, :, :1].double()),
    lambda x: x.int().copy_(x),
    lambda x: torch.as_tensor(x),
    lambda x: torch.as_tensor(x, dtype=torch.float64),
    lambda x: torch.asarray(x, copy=True),
    lambda x: torch.tensor([1, 2.5]) * 2,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("prepare", [None, channels_last, permuted])
def test_functions(function: Any, prepare: Any) -> None:
    outcome = check(function, "n c h w", first=NCHW, prepare=prepare)
    assert dynamic_but_formats(outcome) if prepare is channels_last else dynamic(outcome)


def test_broadcast_tensors() -> None:
    specs = ("n c h", "c 1", "h")
    outcome = check(torch.broadcast_tensors, *specs, first={"n": 2, "c": 3, "h": 4})
    assert dynamic(outcome)


def test_a_copy_may_be_a_view_at_some_sizes() -> None:
    """A write to it then has to know which."""
    assert dynamic(check(lambda x: x.t().contiguous(), "h w", first={"h": 4, "w": 5}))
    outcome = check(lambda x: x.t().contiguous().add_(1), "h w", first={"h": 4, "w": 5})
    assert len(outcome.needs) == 1
    assert {"h": 1, "w": 5} in outcome.guarded


def test_what_copy_requires() -> None:
    outcome = check(lambda x, y: x.copy_(y), "a b", "c", first={"a": 3, "b": 4, "c": 4})
    assert [str(need.fact) for need in outcome.needs] == ["b == c or c == 1"]


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x, y: x.copy_(y), ("w", "h w")),
        (lambda x, y: x.copy_(y), ("h w", "h")),
        (lambda x: x.clone(memory_format=torch.channels_last), ("h w",)),
        (lambda x: x.contiguous(memory_format=torch.preserve_format), ("h w",)),
        (lambda x: x.fill_(x), ("h w",)),
        (lambda x, y: torch.broadcast_tensors(x, y), ("h", "w")),
    ],
)
def test_rejected(function: Any, specs: tuple[str, ...]) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first=NCHW)
