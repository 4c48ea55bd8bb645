"""Floats of eight bits in kernels: all codes, and numbers wherever it is decided which code they
get, for processors and for GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from anyshape.codegen.target import Machine
from anyshape.loops.expr import Dtype, fresh_scope, load, operation
from anyshape.loops.kernels import Kernel
from anyshape.runtime.loader.torch_abi import TORCH_DTYPE
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.kernel_samples import AT, pointwise
from tests.codegen.llvm_jit import compiled, host
from tests.codegen.random_kernels import STORED
from tests.loops.oracle.rounding import round_to
from tests.native.test_float8 import around, random_bits, random_in_range

each_dtype = pytest.mark.parametrize("dtype", STORED)


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def cast(source: Dtype, target: Dtype) -> Kernel:
    return pointwise(operation("cast", load("k0", AT, source), dtype=target))


def numbers(dtype: Dtype) -> torch.Tensor:
    torch_dtype = TORCH_DTYPE[dtype]
    found = [around(torch_dtype), random_bits(3000), random_in_range(torch_dtype, 6000)]
    return torch.cat(found)


def codes(array: np.ndarray, dtype: Dtype) -> list[float]:
    return torch.from_numpy(array).view(TORCH_DTYPE[dtype]).float().tolist()


def check_encoding(runner: Any, dtype: Dtype) -> None:
    """Against the definition of rounding: torch may make the largest number of what is larger."""
    x = numbers(dtype)
    for count in (x.numel(), 1, 19):
        found = np.zeros(count, np.uint8)
        runner([x[:count].numpy(), found], [count])
        for number, mine in zip(x.tolist(), codes(found, dtype), strict=False):
            wanted = round_to(number, dtype)
            same = mine == wanted and math.copysign(1, mine) == math.copysign(1, wanted)
            assert same or (mine != mine and wanted != wanted), f"{number!r}: {mine}, not {wanted}"


def check_decoding(runner: Any, dtype: Dtype) -> None:
    every = np.arange(256, dtype=np.uint8)
    found = np.zeros(256, np.int32)
    runner([every, found], [256])
    wanted = torch.from_numpy(every).view(TORCH_DTYPE[dtype]).float().view(torch.int32)
    assert torch.equal(torch.from_numpy(found), wanted)


def check_nan(runner: Any, dtype: Dtype) -> None:
    """It keeps its sign where the format has one; what mantissa it has does not matter."""
    x = torch.tensor([0x7F800001, 0x7FC00000, 0x7FFFFFFF]).to(torch.int32)
    both = torch.cat([x, x | -(2**31)]).view(torch.float32)
    found = np.zeros(6, np.uint8)
    runner([both.numpy(), found], [6])
    assert found.tolist() == both.to(TORCH_DTYPE[dtype]).view(torch.uint8).tolist()


@each_dtype
def test_on_this_processor(dtype: Dtype) -> None:
    check_encoding(compiled(cast("f32", dtype)), dtype)
    check_nan(compiled(cast("f32", dtype)), dtype)
    check_decoding(compiled(cast(dtype, "f32")), dtype)


@each_dtype
def test_without_masks(dtype: Dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Machine(frozenset(), frozenset())
    monkeypatch.setattr(Machine, "of", staticmethod(lambda _: bare))
    check_encoding(compiled(cast("f32", dtype), host()), dtype)
    check_decoding(compiled(cast(dtype, "f32"), host()), dtype)


@each_dtype
def test_on_an_emulated_gpu(dtype: Dtype) -> None:
    encode = Emulated(cast("f32", dtype), (2, 1, 0))
    check_encoding(encode, dtype)
    check_nan(encode, dtype)
    check_decoding(Emulated(cast(dtype, "f32"), (2, 1, 0)), dtype)
