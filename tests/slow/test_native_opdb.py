"""All of torch's table of operators as native code: no answer differs from eager's."""

from __future__ import annotations

import pytest
import torch

from tests.native.opdb import dtypes_of, infos, try_operator

_PARTS = 24
DTYPES = (torch.float32, torch.bfloat16, torch.int64)
#: Operators of f32 of which some samples are native code: what has been reached.
_LEAST_NATIVE = 300


@pytest.mark.parametrize("part", range(_PARTS))
def test_operators_are_right(part: int) -> None:
    torch.set_num_threads(1)
    wrong: list[str] = []
    for info in infos()[part::_PARTS]:
        for dtype in dtypes_of(info, DTYPES):
            outcome = try_operator(info, dtype, most=1)
            wrong += [f"{info.full_name} of {dtype}: {each}" for each in outcome.wrong]
    assert wrong == []


def test_many_are_native() -> None:
    torch.set_num_threads(1)
    tried = [
        try_operator(info, torch.float32, most=1)
        for info in infos()
        if torch.float32 in info.dtypes
    ]
    assert sum(bool(each.native) for each in tried) >= _LEAST_NATIVE
