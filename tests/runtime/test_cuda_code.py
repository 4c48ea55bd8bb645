"""Machine code for GPUs, without one: the driver is a few functions of Python."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape.runtime.cuda import code
from anyshape.runtime.cuda.code import GpuTarget, gpu_target, module_of
from anyshape.runtime.cuda.driver import Driver
from anyshape.runtime.loader.code_bundle import CodeBundle, opened
from anyshape.runtime.loader.errors import NativeFailed, NativeUnavailable
from anyshape.runtime.loader.workers import workers

TARGET = GpuTarget((9, 0), 78, 200_000)
TEXT = "define void @kernel() { ret void }"


class _Function:
    """A function of a library, as ctypes has them."""

    argtypes: Any = None

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> int:
        return self._function(*arguments) or 0


class Library:
    """Stands for libcuda."""

    def __init__(self, version: int = 13000, refuses: bool = False) -> None:
        self.linked: list[bytes] = []
        self.loaded: list[bytes] = []
        self.contexts: list[tuple[str, int | None]] = []
        self._version, self._refuses = version, refuses
        self._cubin = ctypes.create_string_buffer(b"machine code")

    def __getattr__(self, name: str) -> Any:
        found = _Function(getattr(type(self), f"_{name}").__get__(self))
        setattr(self, name, found)
        return found

    def _cuLaunchKernel(self, *_: Any) -> None: ...

    def _cuDriverGetVersion(self, where: Any) -> None:
        where._obj.value = self._version

    def _cuDeviceGet(self, where: Any, device: int) -> None: ...

    def _cuDeviceGetAttribute(self, where: Any, *_: Any) -> None:
        where._obj.value = 200_000

    def _cuGetErrorString(self, number: int, where: Any) -> None:
        where._obj.value = f"error {number}".encode()

    def _cuCtxGetCurrent(self, where: Any) -> None:
        where._obj.value = 77

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self.contexts.append((threading.current_thread().name, context.value))

    def _cuLinkCreate_v2(self, *_: Any) -> None: ...

    def _cuLinkAddData_v2(self, state: Any, kind: int, ptx: bytes, *_: Any) -> int:
        self.linked.append(ptx)
        return 218 if self._refuses else 0

    def _cuLinkComplete(self, state: Any, cubin: Any, size: Any) -> None:
        cubin._obj.value = ctypes.addressof(self._cubin)
        size._obj.value = len(self._cubin.value)

    def _cuLinkDestroy(self, *_: Any) -> None: ...

    def _cuModuleLoadData(self, where: Any, cubin: bytes) -> int:
        self.loaded.append(cubin)
        where._obj.value = len(self.loaded)
        return 0 if cubin == b"machine code" else 200

    def _cuModuleGetFunction(self, where: Any, module: Any, name: bytes) -> int:
        where._obj.value = 100 + module.value
        return 0 if name == b"kernel" else 500

    def _cuFuncGetAttribute(self, where: Any, *_: Any) -> None:
        where._obj.value = 2048

    def _cuFuncSetAttribute(self, *_: Any) -> None: ...


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(anyshape.config, "cache_dir", str(tmp_path))
    gpu_target.cache_clear()
    yield
    gpu_target.cache_clear()
    workers.finish()


def given(monkeypatch: pytest.MonkeyPatch, **how: Any) -> Library:
    library = Library(**how)
    found = Driver(library)
    monkeypatch.setattr(code, "driver", lambda: found)
    return library


def test_made_by_a_thread_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    library = given(monkeypatch)
    module = module_of("key", lambda: TEXT, TARGET)
    first = module.function(0, "kernel", 0)
    assert module.function(0, "kernel", 0) == first
    assert module.function(1, "kernel", 0) != first, "a GPU has code of its own"
    assert b".visible .func kernel" in library.linked[0]
    assert b".target sm_90" in library.linked[0]
    assert library.contexts == [("anyshape native", 77)]
    workers.finish()
    other = module_of("key", lambda: pytest.fail("it is on disk"), TARGET)
    assert other.function(0, "kernel", 0)
    assert len(library.linked) == 1


def test_code_for_another_gpu_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    library = given(monkeypatch)
    for target in (TARGET, TARGET._replace(capability=(8, 0), ptx=70)):
        module_of("key", lambda: TEXT, target).function(0, "kernel", 0)
        workers.finish()
    assert len(library.linked) == 2
    given(monkeypatch, version=12080)
    made: list[int] = []
    module_of("key", lambda: made.append(1) or TEXT, TARGET).function(0, "kernel", 0)
    assert made, "by another driver"


def test_what_the_driver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, refuses=True)
    with pytest.raises(NativeUnavailable, match=r"refused PTX: error 218 \(CUDA error 218\)"):
        module_of("key", lambda: TEXT, TARGET).function(0, "kernel", 0)
    given(monkeypatch)
    with pytest.raises(NativeFailed, match="kernel other: error 500"):
        module_of("key", lambda: TEXT, TARGET).function(0, "other", 0)


def test_code_of_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = given(monkeypatch)
    shelf = CodeBundle()
    with opened(shelf):
        module_of("key", lambda: TEXT, TARGET)
    assert list(shelf.used.values()) == [b"machine code"]
    monkeypatch.setattr(anyshape.config, "cache_dir", str(tmp_path / "other"))
    with opened(CodeBundle(given=shelf.used)):
        module = module_of("key", lambda: pytest.fail("it is given"), TARGET)
    assert module.function(0, "kernel", 0)
    assert len(library.linked) == 1


@pytest.mark.parametrize(
    ("capability", "version", "wanted"),
    [
        ((9, 0), 13000, (9, 0)),
        ((9, 0), 11000, (8, 0)),
        ((8, 8), 13000, (8, 7)),
        ((13, 0), 13000, (12, 0)),
        ((7, 0), 13000, "compute capability 7.0"),
        ((9, 0), 10020, "too old"),
    ],
)
def test_targets(
    capability: tuple[int, int], version: int, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, version=version)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    if isinstance(wanted, str):
        with pytest.raises(NativeUnavailable, match=wanted):
            gpu_target(0)
    else:
        assert gpu_target(0).capability == wanted
