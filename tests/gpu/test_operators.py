"""Torch's table of operators on a GPU: what eager gives there, and native where it is native on the
processor. One definition of it for all devices: tests/native/opdb.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import anyshape
from tests.gpu.device import DEVICE, IS_GPU, IS_THERE, needs_device
from tests.native.opdb import dtypes_of, infos, try_operator
from tests.native.test_opdb_families import BY_NAME, FAMILIES

pytestmark = needs_device

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
#: Memory adds to bfloat16 in any order, and rounds each time: eager differs from itself.
_ADDED_BY_MEMORY = ("scatter_reduce", "scatter_add", "index_add", "index_reduce", "index_put")
#: Of the operators of a family that are native on the processor, this share is on a GPU.
_LEAST_NATIVE = 0.6

#: Where eager rounds each running sum to bfloat16 we do not, as nobody does on the processor.
_ADDED_IN_FLOAT32 = ("cumsum", "cumprod")


@pytest.fixture(autouse=True)
def default_device() -> Iterator[None]:
    anyshape.reset()
    # By default convolutions multiply floats of 19 bits, or do not, by the algorithm that is taken.
    library: Any = torch.backends.cudnn
    before, library.conv.fp32_precision = library.conv.fp32_precision, "ieee"
    try:
        with torch.device(DEVICE):
            yield
    finally:
        library.conv.fp32_precision = before


def _cases() -> list[Any]:
    if not IS_THERE:
        return []
    with torch.device(DEVICE):
        return [
            pytest.param(info, dtype, id=f"{info.full_name}-{str(dtype).removeprefix('torch.')}")
            for info in infos()
            for dtype in dtypes_of(info, DTYPES)
        ]


@pytest.mark.parametrize(("info", "dtype"), _cases())
def test_as_eager(info: Any, dtype: torch.dtype) -> None:
    outcome = try_operator(info, dtype, most=3)
    if IS_GPU and dtype is torch.bfloat16 and info.name in _ADDED_IN_FLOAT32 and outcome.wrong:
        pytest.xfail("running sums of two bytes")
    in_any_order = IS_GPU and dtype is torch.bfloat16 and info.name.startswith(_ADDED_BY_MEMORY)
    if in_any_order and outcome.wrong:
        pytest.xfail("sums of two bytes in any order")
    assert outcome.wrong == []
    assert not outcome.late, "it takes too long"


@pytest.mark.parametrize("family", FAMILIES)
def test_native_as_on_the_processor(family: str) -> None:
    there, here = set[str](), set[str]()
    for name in FAMILIES[family].split():
        for device, found in ((DEVICE, there), ("cpu", here)):
            with torch.device(device):
                for dtype in dtypes_of(BY_NAME[name], (torch.float32, torch.int64))[:1]:
                    if try_operator(BY_NAME[name], dtype, most=1).native:
                        found.add(name)
    print(f"{family}: {len(here & there)} of {len(here)} are native on {DEVICE} too")
    print(f"not yet: {' '.join(sorted(here - there))}")
    least = _LEAST_NATIVE if IS_GPU else 1.0
    assert len(here & there) >= least * len(here), sorted(here - there)
