"""Graphs for a GPU without what its code needs: a warning says what, and they run as they are."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import anyshape
from anyshape.backends.native import backend
from anyshape.runtime.cuda import code, driver
from anyshape.runtime.loader.errors import NativeUnavailable


class Library:
    """libcuda as far as it is asked before code is made. `version`: of CUDA, 12040 is 12.4."""

    class _Function:
        def __init__(self, call: Callable[..., int]) -> None:
            self._call = call
            self.argtypes: Any = None

        def __call__(self, *args: Any) -> int:
            return self._call(*args)

    def __init__(self, version: int) -> None:
        self._version = version
        self.cuLaunchKernel = self._Function(lambda *_: 1)

    def cuDriverGetVersion(self, found: Any) -> int:
        ctypes.cast(found, ctypes.POINTER(ctypes.c_int))[0] = self._version
        return 0

    def cuDeviceGet(self, handle: Any, device: int) -> int:
        return 0

    def cuDeviceGetAttribute(self, found: Any, attribute: int, handle: Any) -> int:
        ctypes.cast(found, ctypes.POINTER(ctypes.c_int))[0] = 100_000
        return 0


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The code of every segment is asked for as that of a GPU is. Tensors are the processor's."""
    functions = backend.segment_functions

    def for_gpu(texts: dict[str, str], now: bool, _: torch.device, *more: Any) -> Any:
        return functions(texts, now, torch.device("cuda", 0), *more)

    monkeypatch.setattr(backend, "segment_functions", for_gpu)
    monkeypatch.setattr(backend, "_told", set())
    code.gpu_target.cache_clear()
    driver.driver.cache_clear()
    yield
    code.gpu_target.cache_clear()
    driver.driver.cache_clear()


def given(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], version: int) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(version))


def check_eager(why: str) -> None:
    compiled = anyshape.compile(lambda x: (x.sin() + 1).softmax(-1), dynamic=True)
    with torch.no_grad():
        x = torch.randn(3, 5)
        with pytest.warns(UserWarning, match=f"graphs run eagerly: {why}"):
            found = compiled(x)
        torch.testing.assert_close(found, (x.sin() + 1).softmax(-1))
        # Once is enough.
        for rows in (3, 7):
            x = torch.randn(rows, 5)
            torch.testing.assert_close(compiled(x), (x.sin() + 1).softmax(-1))
    assert f"no native code: {why}" in str(compiled.explain()).replace("\\", "")
    assert compiled.stats().graphs == 1


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, (9, 0), 0)
    monkeypatch.setattr(driver, "_LIBRARIES", ())
    check_eager("the CUDA driver")


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, (9, 0), 10020)
    check_eager("the CUDA driver is for CUDA 10: too old")


def test_an_old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, (7, 0), 13000)
    check_eager("a GPU of compute capability 7.0")


@pytest.mark.parametrize(
    ("capability", "version", "target"),
    [
        ((9, 0), 13000, ((9, 0), 78)),
        # Code for the last one that is known runs on what comes later.
        ((12, 1), 13000, ((12, 0), 87)),
        ((13, 5), 14000, ((12, 0), 87)),
        ((8, 9), 12000, ((8, 9), 78)),
        # A driver that knows the GPU, but no PTX that is for it.
        ((9, 0), 11000, ((8, 0), 70)),
        ((7, 5), 11000, ((7, 5), 63)),
    ],
)
def test_which_code_is_made(
    monkeypatch: pytest.MonkeyPatch, capability: Any, version: int, target: Any
) -> None:
    given(monkeypatch, capability, version)
    assert code.gpu_target(0)[:2] == target


def test_a_device_that_torch_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CUDA_VISIBLE_DEVICES=""` after a graph was made: torch's own error, not one of ours."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(13000))
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((RuntimeError, AssertionError), match=r"NVIDIA|CUDA|Torch"):
        code.gpu_target(0)


def test_no_library_has_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_LIBRARIES", ("libnobody_has_this.so",))
    with pytest.raises(NativeUnavailable, match="libcuda"):
        driver.driver()
