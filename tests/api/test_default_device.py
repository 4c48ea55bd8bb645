"""Functions that make tensors where `torch.set_default_device` and `with torch.device` say."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.overrides import BaseTorchFunctionMode

import anyshape


@pytest.fixture(autouse=True)
def no_default() -> Iterator[None]:
    before = torch.get_default_device()
    yield
    torch.set_default_device(before)


def made(n: int) -> tuple[Tensor, Tensor, Tensor]:
    count = torch.arange(n) + 1
    return count * 2, torch.ones(n, 2).cumsum(0), torch.tensor([1.5, 2.5]) * n


def check(compiled: anyshape.api.Compiled, n: int) -> None:
    for found, wanted in zip(compiled(n), made(n), strict=True):
        assert found.device == wanted.device
        assert found.shape == wanted.shape
        if wanted.device.type != "meta":
            assert torch.equal(found, wanted)


def test_each_device_has_its_graph() -> None:
    compiled = anyshape.compile(made, dynamic=True)
    for device in ("cpu", "meta", "cpu", "meta"):
        with torch.device(device):
            for n in (3, 4):
                check(compiled, n)
    assert compiled.stats().graphs == 2
    assert compiled.stats().eager_calls == 0


def test_it_is_set_and_taken_back() -> None:
    compiled = anyshape.compile(made, dynamic=True)
    for device in (None, "meta", None, "cpu", "meta"):
        torch.set_default_device(device)
        check(compiled, 3)
        check(compiled, 5)
    assert compiled.stats().eager_calls == 0


def test_one_inside_another() -> None:
    compiled = anyshape.compile(made, dynamic=True)
    with torch.device("meta"):
        check(compiled, 3)
        with torch.device("cpu"):
            check(compiled, 3)
        check(compiled, 4)


def test_native_code() -> None:
    compiled = anyshape.compile(lambda x: (torch.arange(x.shape[0]) + x).sin(), dynamic=True)
    with torch.device("cpu"), torch.no_grad():
        for n in (3, 3, 5):
            x = torch.randn(n)
            torch.testing.assert_close(compiled(x), (torch.arange(n) + x).sin())
    assert "native code: 3 operators" in str(compiled.explain())


@functools.cache
def table(n: int) -> Tensor:
    return torch.arange(float(n))


def test_cached_functions() -> None:
    compiled = anyshape.compile(lambda n: (table(n).device, torch.ones(n) + table(n)), dynamic=True)
    with torch.device("meta"):
        for n in (3, 4, 3):
            where, result = compiled(n)
            assert where.type == result.device.type == "meta"
    table.cache_clear()


def test_it_is_asked_for() -> None:
    def function(x: Tensor) -> tuple[torch.device, Tensor]:
        return torch.get_default_device(), x + 1

    compiled = anyshape.compile(function, dynamic=True)
    for device in ("meta", "cpu", "meta"):
        with torch.device(device):
            for n in (3, 4):
                assert compiled(torch.ones(n, device="cpu"))[0] == torch.device(device)
    assert compiled.stats().eager_calls == 0


def test_other_modes_run_eagerly() -> None:
    compiled = anyshape.compile(made, dynamic=True)
    with torch.device("cpu"), BaseTorchFunctionMode():
        check(compiled, 3)
    assert compiled.stats().eager_calls == 1


def scaled(tensors: list[Tensor], factor: float) -> None:
    torch._foreach_mul_(tensors, factor)  # pyright: ignore[reportPrivateImportUsage]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_factors_of_half_precision_are_on_no_default_device(dtype: torch.dtype) -> None:
    compiled = anyshape.compile(scaled)
    for factor in (0.1, 3, 0.3):
        mine, theirs = ([torch.arange(3.0, dtype=dtype, device="cpu")] for _ in "ab")
        with torch.device("meta"):
            compiled(mine, factor)
            scaled(theirs, factor)
        assert torch.equal(mine[0], theirs[0])
