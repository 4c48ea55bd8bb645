"""Type promotion against `torch.result_type`, over all pairs of dtypes, ranks and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from anyshape.ops.meta import of_tensor
from anyshape.ops.promotion import complex_of, floating, real, result_type
from anyshape.symbolic import symbol

#: Complex numbers whose parts are bfloat16, since torch 2.14.
BFLOAT_PAIRS: tuple[torch.dtype, ...] = tuple(
    dtype for name, dtype in vars(torch).items() if name == "bcomplex32"
)
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint16, torch.uint32, torch.uint64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    *BFLOAT_PAIRS,
)  # fmt: skip


@pytest.fixture(autouse=True)
def default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def _torch_says(a: Any, b: Any) -> torch.dtype | None:
    try:
        return torch.result_type(a, b)
    except RuntimeError:
        return None


def _we_say(*operands: Any) -> torch.dtype | None:
    metas = [of_tensor(x) if isinstance(x, torch.Tensor) else x for x in operands]
    try:
        return result_type(metas)
    except RuntimeError:
        return None


@pytest.mark.filterwarnings("ignore:.* support is experimental")
@pytest.mark.parametrize(
    "default", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_result_type_of_all_pairs(default: torch.dtype) -> None:
    torch.set_default_dtype(default)
    tensors = [torch.empty(shape, dtype=dtype) for dtype in DTYPES for shape in ((2,), ())]
    others = [*tensors, True, 2, 2.0, 2j]
    wrong = [
        (a, b)
        for tensor in tensors
        for other in others
        for a, b in ((tensor, other), (other, tensor))
        if _torch_says(a, b) != _we_say(a, b)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        # A float number lifts an integer tensor without dimensions before both meet the third.
        ((torch.ones(2, dtype=torch.int8), torch.tensor(1), 2.0), torch.float32),
        (
            (torch.ones(2, dtype=torch.float16), torch.tensor(1.0, dtype=torch.float64), 2j),
            torch.complex32,
        ),
        ((torch.ones(2, dtype=torch.bool), 3, True), torch.int64),
        ((True, 2), torch.int64),
        ((2, 2.0), torch.float32),
    ],
    ids=str,
)
def test_result_type_of_more(operands: Any, expected: torch.dtype) -> None:
    assert _we_say(*operands) == expected


def test_a_symbolic_integer_is_an_integer() -> None:
    s = symbol("s")
    assert result_type((of_tensor(torch.ones(2, dtype=torch.bool)), s)) is torch.int64
    assert result_type((of_tensor(torch.ones(2, dtype=torch.float16)), s)) is torch.float16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parts_of_dtypes(dtype: torch.dtype) -> None:
    if dtype.itemsize > 1 and floating(dtype) is dtype:
        wider = dtype is torch.bfloat16 and not BFLOAT_PAIRS
        assert real(complex_of(dtype)) is (torch.float32 if wider else real(dtype))
    assert not real(dtype).is_complex
    assert floating(dtype).is_floating_point or floating(dtype).is_complex
