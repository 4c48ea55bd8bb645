from __future__ import annotations

from typing import Any

import pytest
import torch

import anyshape
from tests.native.checks import FLOATS, SPECIAL, check, floats

SHAPES = ((4, 6), (6, 17), (2, 1), (2, 0))
#: Some are halfway between two integers, after they are divided by 0.1.
HALFWAY = torch.arange(-40, 40) * 0.05

#: With a number and a tensor, too, which no stub has.
per_tensor: Any = torch.fake_quantize_per_tensor_affine
per_channel = torch.fake_quantize_per_channel_affine


def inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    special = [each.to(dtype).reshape(-1, 1) for each in (SPECIAL, HALFWAY)]
    return [*(x * 10 for x in floats(*SHAPES, dtype=dtype)), *special]


def integers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_per_tensor(dtype: torch.dtype) -> None:
    def program(x: torch.Tensor) -> Any:
        return per_tensor(x, 0.1, 3, 0, 255), per_tensor(x, 0.037, -5, -128, 127)

    check(program, [[x] for x in inputs(dtype)])


def test_one_kernel() -> None:
    def program(x: torch.Tensor) -> Any:
        return per_tensor(x * 2, 0.1, 3, 0, 255) + 1

    assert len(check(program, [[x] for x in inputs(torch.float32)]).kernels) == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_parameters_in_tensors(dtype: torch.dtype, kind: torch.dtype, shape: Any) -> None:
    def program(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> Any:
        return per_tensor(x, scale, zero_point, 0, 255)

    scale, zero_point = torch.full(shape, 0.1, dtype=kind), torch.full(shape, 3).int()
    check(program, [[x, scale, zero_point] for x in inputs(dtype)])
    check(program, [[torch.tensor(1.23, dtype=dtype), scale, zero_point]])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_per_channel(dtype: torch.dtype, axis: int) -> None:
    def program(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> Any:
        return per_channel(x, scale, zero_point, axis, -128, 127)

    def call(x: torch.Tensor) -> list[torch.Tensor]:
        channels = torch.arange(x.shape[axis])
        return [x, 0.1 + channels * 0.01, (channels - 3).int()]

    check(program, [call(x) for x in inputs(dtype) if x.shape[axis]])


def test_what_torch_is_called_for() -> None:
    def program(x: torch.Tensor, zero_point: torch.Tensor) -> Any:
        floats = zero_point.float()
        return (
            per_tensor(x, 0.1, zero_point[0], 0, 255),
            per_tensor(x, floats[:1] + 1, floats[:1], 0, 255),
            per_tensor(x, 0.1, 3, 0, 2**25),
            per_channel(x, floats + 1, floats, 0, 0, 255),
        )

    called = ["fake_quantize_per_tensor_affine"] * 3 + ["fake_quantize_per_channel_affine"]
    check(program, [[x, integers(1, 2)] for x in floats((2, 6), (2, 17))], called=called)


def test_zero_points_are_checked() -> None:
    def program(x: torch.Tensor, zero_point: torch.Tensor) -> Any:
        return per_channel(x, torch.ones(2), zero_point, 0, 0, 15) + 1

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.randn(2, 3)
    for zero_point in (integers(0, 15), integers(3, 4)):
        assert torch.equal(compiled(x, zero_point), program(x, zero_point))
    for zero_point in (integers(0, 16), integers(-1, 4)):
        with pytest.raises(RuntimeError, match="`zero_point` must be between"):
            compiled(x, zero_point)


def test_modules() -> None:
    module = torch.ao.quantization.FakeQuantize()
    module.disable_observer()
    check(module, [[x] for x in inputs(torch.float32)])
    compiled: Any = anyshape.compile(module, dynamic=True)
    for rows in (3, 5):
        x = (torch.arange(rows) * 100.0).requires_grad_()
        found, wanted = (torch.autograd.grad(each(x).sum(), x) for each in (compiled, module))
        assert torch.equal(*found, *wanted)
    assert compiled.stats().eager_calls == 0
