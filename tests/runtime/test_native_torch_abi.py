"""What native code believes of torch, and what happens where it is not so."""

from __future__ import annotations

import ctypes

import pytest
import torch

from anyshape.runtime.loader import torch_abi as subject
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.symbols import address_of, find_symbol


@pytest.fixture(autouse=True)
def found_anew():
    subject.torch_abi.cache_clear()
    yield
    subject.torch_abi.cache_clear()


def test_this_torch_is_known():
    found = subject.torch_abi()
    assert found is not None
    assert found.tensor_offset % 8 == 0
    assert dict(found.dtypes)["f32"] == 6


def test_codes_are_dtypes():
    make = subject.tensor_maker()
    for name, code in subject.dtype_codes():
        assert make((2,), (1,), code).dtype is subject.TORCH_DTYPE[name]


@pytest.mark.parametrize("part", ["_tensor_offset", "_type_offset"])
def test_wrong_offset_is_noticed(monkeypatch: pytest.MonkeyPatch, part: str):
    def refuse(samples: object) -> int:
        raise subject._NotSo

    monkeypatch.setattr(subject, part, refuse)
    assert subject.torch_abi() is None


def test_ambiguous_offset_is_refused():
    held = (ctypes.c_int64 * 4)(7, 3, 7, 5)
    address = ctypes.addressof(held)
    assert subject._offset({address: 3}, ctypes.sizeof(held)) == 8
    for word in (7, 4):
        with pytest.raises(subject._NotSo):
            subject._offset({address: word}, ctypes.sizeof(held))


def test_missing_function_means_the_slow_way(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "_NEEDED", ("aoti_torch_that_never_was",))
    assert subject.torch_abi() is None


def test_wrong_data_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.Tensor, "data_ptr", lambda self: 1)
    assert subject.torch_abi() is None


def test_wrong_kind_of_new_tensor_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "_same_kind", lambda new, like: False)
    assert subject.torch_abi() is None


def test_symbols():
    assert find_symbol("aoti_torch_cpu_mm_out")
    assert find_symbol("GOMP_parallel")
    assert find_symbol("malloc")
    assert find_symbol("fmaf")
    assert find_symbol("PyLong_AsLongLong")
    assert find_symbol("anyshape_num_threads")
    assert find_symbol("nobody_has_this") is None
    with pytest.raises(NativeUnavailable, match="nobody_has_this"):
        address_of("nobody_has_this")
