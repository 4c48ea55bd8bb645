"""Native code that compares tensors sees every change that guards must see, and no others."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from anyshape.backends.native.build import tensor_match_function
from anyshape.guards.fast_path.tensor_impl_layout import LAYOUTS, TensorMemory, tensor_memory
from anyshape.guards.fast_path.tensor_match import TensorMatch, match_sees_all


@pytest.fixture
def memory() -> TensorMemory:
    found = tensor_memory(torch.zeros, torch.nn.Parameter)
    if found is None:
        pytest.skip("this torch is made otherwise")
    return found


def alike() -> Any:
    return tensor_match_function() or pytest.skip("this torch is made otherwise")


def test_it_sees_all(memory: TensorMemory):
    assert match_sees_all(memory, alike(), torch.zeros, torch.nn.Parameter)


def test_one_that_is_blind_is_found_out(memory: TensorMemory):
    assert not match_sees_all(memory, lambda *_: True, torch.zeros, torch.nn.Parameter)


def test_another_layout_is_found_out(memory: TensorMemory):
    other = next(layout for layout in LAYOUTS if layout != memory.layout)
    wrong = TensorMemory(memory.types, other)
    assert not match_sees_all(wrong, alike(), torch.zeros, torch.nn.Parameter)


def test_others_of_the_same_kinds_are_alike(memory: TensorMemory):
    kinds = [torch.zeros(2, 3), torch.nn.Parameter(torch.ones(4)), torch.zeros(()), torch.ones(0)]
    again = [torch.ones(2, 3), torch.nn.Parameter(torch.zeros(4)), torch.ones(()), torch.zeros(0)]
    match = TensorMatch(memory, alike(), len(kinds))
    assert not match.alike(match.address, *kinds)
    match.learn(*kinds)
    assert match.alike(match.address, *kinds)
    assert match.alike(match.address, *again)
    assert not match.alike(match.address, *again[:3], torch.zeros(1))
    assert not match.alike(match.address, *again[:3], 7)


def test_padding_is_not_compared(memory: TensorMemory):
    """What memory held before the tensor is nothing of the tensor."""
    one, other = torch.zeros(2, 3), torch.zeros(2, 3)
    at = other._cdata + 8 * memory.layout.dtype_and_device
    word = ctypes.c_uint64.from_address(at)
    word.value ^= 1 << 63
    for first, second in ((one, other), (other, one)):
        match = TensorMatch(memory, alike(), 1)
        match.learn(first)
        assert match.alike(match.address, first)
        assert match.alike(match.address, second)


def test_what_cannot_be_read_is_never_alike(memory: TensorMemory):
    high = torch.zeros(1, 1, 1, 1, 1, 1)
    match = TensorMatch(memory, alike(), 2)
    match.learn(torch.zeros(2), high)
    assert not match.alike(match.address, torch.zeros(2), high)
