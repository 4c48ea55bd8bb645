"""What a result is to autograd is what eager gives, on every hit: every operator of torch's table
with gradients on, whole and in parts; every copy of every view; every program in every mode."""

from __future__ import annotations

import pytest
import torch

from tests.native.autograd_programs import COPIES, INPUTS, MODES, PROGRAMS, VIEWS, composed
from tests.native.autograd_state import check, try_gradients
from tests.native.opdb import infos

_PARTS = 8


@pytest.mark.parametrize("part", range(_PARTS))
def test_operators(part: int) -> None:
    torch.set_num_threads(1)
    tried = [info for info in infos() if torch.float32 in info.dtypes][part::_PARTS]
    assert len(tried) > 50
    assert [each for info in tried for each in try_gradients(info, most=1)] == []


@pytest.mark.parametrize("view", VIEWS)
def test_copies_of_views(view: str) -> None:
    for copy in COPIES:
        for given in ("leaf", "non-leaf", "plain"):
            check(composed(view, copy), lambda given=given: [INPUTS[given]()], calls=2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    for entered in MODES.values():
        for make in INPUTS.values():
            with entered():
                check(PROGRAMS[name], lambda make=make: [make()], calls=2)
