"""All of torch's table of operators as native code: no answer differs from eager's."""

from __future__ import annotations

import pytest
import torch

from tests.native.opdb import dtypes_of, infos, try_operator

_PARTS = 24
#: Every operator on f32, and on one of the others in turn.
OTHERS = (torch.bfloat16, torch.int64)
#: Of the operators on f32 in each part, this share at least has samples that are native code.
_LEAST_NATIVE = 0.25


@pytest.mark.parametrize("part", range(_PARTS))
def test_operators_are_right(part: int) -> None:
    torch.set_num_threads(1)
    wrong: list[str] = []
    native: list[bool] = []
    for number, info in enumerate(infos()[part::_PARTS]):
        dtypes = (torch.float32, OTHERS[(number + part) % len(OTHERS)])
        for dtype in dtypes_of(info, dtypes):
            outcome = try_operator(info, dtype, most=1)
            wrong += [f"{info.full_name} of {dtype}: {each}" for each in outcome.wrong]
            if dtype is torch.float32:
                native.append(bool(outcome.native))
    assert wrong == []
    assert sum(native) >= _LEAST_NATIVE * len(native), f"{sum(native)} of {len(native)}"
