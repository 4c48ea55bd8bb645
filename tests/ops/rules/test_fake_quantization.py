"""Fake quantization, with parameters that are numbers and tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, checks_only, dynamic, dynamic_but_formats
from tests.ops.laid_out import channels_last, first_inside, inside_out

ABC = {"a": 3, "b": 4, "c": 6}
LAYOUTS = [None, first_inside, inside_out]
Prepare = Callable[[torch.Tensor], torch.Tensor] | None

per_tensor = torch.fake_quantize_per_tensor_affine
per_channel = torch.fake_quantize_per_channel_affine


@pytest.mark.parametrize("prepare", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_per_tensor(prepare: Prepare, dtype: torch.dtype) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return per_tensor(x, 0.1, 3, 0, 255)

    assert dynamic(check(program, "a b c", first=ABC, prepare=prepare, dtype=dtype))


@pytest.mark.parametrize("parameter", ["", "1", "1 1"])
def test_parameters_are_tensors_with_one_element(parameter: str) -> None:
    def program(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
        return per_tensor(x, scale.abs() + 1, zero_point, 0, 255)

    assert dynamic(check(program, "a b", parameter, parameter, first=ABC, dtypes={2: torch.int32}))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("prepare", LAYOUTS)
def test_per_channel(prepare: Prepare, axis: int) -> None:
    def program(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
        return per_channel(x, scale.abs() + 1, zero_point, axis, -128, 127)

    channels = "abc"[axis]
    outcome = check(
        program, "a b c", channels, channels, first=ABC, prepare=prepare, dtypes={2: torch.int32}
    )
    assert dynamic(outcome)
    assert checks_only(outcome)


def test_images() -> None:
    sizes = {"n": 2, "h": 5, "w": 7}
    program = lambda x: per_channel(x, torch.ones(3), torch.zeros(3).int(), 1, 0, 15)  # noqa: E731
    outcome = check(program, "n 3 h w", first=sizes, prepare=channels_last)
    assert dynamic_but_formats(outcome)


ONES, ZEROS = torch.ones(4), torch.zeros(4, dtype=torch.int32)

REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "no range": lambda x: per_tensor(x, 0.1, 0, 255, 0),
    "a zero point outside": lambda x: per_tensor(x, 0.1, 256, 0, 255),
    "several scales": lambda x: per_tensor(x, ONES, ZEROS, 0, 255),
    "integers": lambda x: per_tensor(x.long(), 0.1, 0, 0, 255),
    "too few scales": lambda x: per_channel(x, ONES[:3], ZEROS[:3], 1, 0, 255),
    "no dimension": lambda x: per_channel(x, ONES, ZEROS, 2, 0, 255),
    "from the end": lambda x: per_channel(x, ONES, ZEROS, -1, 0, 255),
    "no vector": lambda x: per_channel(x, ONES[None], ZEROS[None], 1, 0, 255),
    "no channel": lambda x: per_channel(x[:, :0], ONES[:0], ZEROS[:0], 1, 0, 255),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_torch(name: str) -> None:
    with pytest.raises(ShapeMismatch):
        check(REFUSED[name], "a 4", first={"a": 3})
