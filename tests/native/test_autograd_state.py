"""What a result is to autograd is what eager gives, on every hit: some of the cases, all of them
are in tests/slow/test_autograd_state.py."""

from __future__ import annotations

import operator

import pytest
import torch

import anyshape
from tests.native.autograd_programs import (
    COPIES,
    INPUTS,
    MODES,
    PROGRAMS,
    VIEWS,
    Layer,
    composed,
)
from tests.native.autograd_state import check, differences, try_gradients
from tests.native.opdb import infos

#: Operators with views or copies in them, or with results that do not all require grad.
_SOME = (
    "reshape flatten contiguous permute expand unfold mT diagonal narrow tensor_split sum amax"
    " sort nn.functional.layer_norm matmul cat isclose"
)


@pytest.mark.parametrize("view", VIEWS)
def test_copies_of_views(view: str) -> None:
    first = list(VIEWS).index(view)
    for copy in ("reshape", list(COPIES)[first % len(COPIES)]):
        check(composed(view, copy), lambda: [INPUTS["leaf"]()])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    for given, mode in (("leaf", "grad"), ("parameter", "no_grad")):
        with MODES[mode]():
            check(PROGRAMS[name], lambda given=given: [INPUTS[given]()])


@pytest.mark.parametrize("mode", MODES)
def test_tensors_of_modules(mode: str) -> None:
    eager, other = Layer(), Layer()
    compiled = anyshape.compile(other, dynamic=True)
    with MODES[mode]():
        assert not differences(eager, compiled, lambda: [torch.ones(2, 4)])


def test_some_operators() -> None:
    torch.set_num_threads(1)
    by_name = {info.full_name: info for info in infos()}
    wrong = [each for name in _SOME.split() for each in try_gradients(by_name[name], most=1)]
    assert wrong == []


_IN_PLACE = {
    "a method": lambda b: b.add_(2).clamp_(-1, 1),
    "nothing returned": lambda b: (b.add_(2).clamp_(-1, 1), 3)[1],
    "an operator": lambda b: operator.iadd(b, 2).clamp_(-1, 1),
    "a flag": lambda b: torch.nn.functional.relu(b, inplace=True),
    "an item": lambda b: b.__setitem__(0, 7.0),
    "a view": lambda b: b[1:].mul_(3).relu_(),
    "out": lambda b: torch.add(b.detach(), 1, out=b.detach()),
    "the argument itself": lambda b: b.contiguous() * 2,
}


@pytest.mark.parametrize("name", _IN_PLACE)
def test_gradients_through_what_is_changed_in_place(name: str) -> None:
    function = _IN_PLACE[name]
    compiled = anyshape.compile(function, dynamic=True)
    for _ in range(3):
        seen = []
        for each in (function, compiled):
            x = torch.tensor([-5.0, -2.5, 0.0, 3.0], requires_grad=True)
            b = x * 1
            each(b)
            b.sum().backward()
            assert x.grad is not None
            seen.append((x.grad.tolist(), type(b.grad_fn).__name__, b._version, b.tolist()))
        assert seen[0] == seen[1]
