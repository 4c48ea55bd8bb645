"""Text becomes functions on a GPU, found on disk or made."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

import torch

from anyshape.config import config
from anyshape.events.native_counts import count
from anyshape.runtime.cuda.driver import driver
from anyshape.runtime.loader.build import available_cores, disk_cache
from anyshape.runtime.loader.code_bundle import open_bundle
from anyshape.runtime.loader.disk_cache import key_of
from anyshape.runtime.loader.engine import assembly
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.host_target import llvmlite_version
from anyshape.runtime.loader.own_sources import sources_hash
from anyshape.runtime.loader.workers import Task, workers
from anyshape.shared_cache.team_cache import shared

#: By compute capability: the version of PTX that knows it. A newer GPU runs code for the last one.
_PTX: Final = {
    (7, 5): 63,
    (8, 0): 70,
    (8, 6): 71,
    (8, 7): 74,
    (8, 9): 78,
    (9, 0): 78,
    (10, 0): 86,
    (12, 0): 87,
}
#: CUDA's version, and that of PTX which its driver reads.
_READS: Final = ((13000, 90), (12080, 87), (12070, 86), (12000, 80), (11080, 78), (11000, 70))
#: What makes the text.
_SOURCES: Final = ("codegen", "loops", "symbolic", "backends/native", "runtime/cuda")


class GpuTarget(NamedTuple):
    """The GPU that code is made for."""

    capability: tuple[int, int]
    ptx: int
    most_shared: int


@functools.cache
def gpu_target(device: int) -> GpuTarget:
    own = torch.cuda.get_device_capability(device)
    known = [each for each in _PTX if each <= own]
    if not known:
        raise NativeUnavailable(f"a GPU of compute capability {own[0]}.{own[1]} (7.5 is needed)")
    version = driver().version()
    reads = next((ptx for cuda, ptx in _READS if version >= cuda), 0)
    usable = [each for each in known if _PTX[each] <= reads]
    if not usable:
        raise NativeUnavailable(f"the CUDA driver is for CUDA {version // 1000}: too old")
    best = max(usable)
    return GpuTarget(best, _PTX[best], driver().most_shared(device))


class Module:
    """The code of a module on every GPU that has asked for it."""

    def __init__(self, cubin: Callable[[], Future[bytes]]) -> None:
        self._cubin = cubin
        self._loaded: dict[int, int] = {}
        self._functions: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()

    def function(self, device: int, name: str, shared: int) -> int:
        """A function that may have so many bytes of shared memory. To be called with that device's
        context."""
        with self._lock:
            found = self._functions.get((device, name))
            if found is None:
                if device not in self._loaded:
                    self._loaded[device] = driver().load(self._cubin().result())
                module = self._loaded[device]
                found = driver().function(module, name, shared)
                self._functions[device, name] = found
            return found


def module_of(
    key: str, text: Callable[[], str], target: GpuTarget, is_rare: bool = False
) -> Module:
    """The code of a module by all that its text depends on; the text is asked for if it has to be
    made, which threads do: of what is rare, when a function is asked for. To be called with a
    device's context."""
    shelf = open_bundle()
    name = key_of(
        *("cuda", key, repr(target), str(driver().version())),
        *(llvmlite_version(), sources_hash(disk_cache(), *_SOURCES)),
    )

    def found() -> Future[bytes]:
        cubin = disk_cache().read(name)
        if cubin is not None:
            count("local_hits")
        else:
            cubin = shared.fetch("native", name)
            if cubin is not None:
                disk_cache().write(name, cubin)
        return _begun(text(), target, name) if cubin is None else _done(cubin)

    if shelf is None:
        future = None if is_rare else found()
        return Module(found if future is None else lambda: future)
    given = shelf.given.get(name)
    made = found() if given is None else _done(given)
    shelf.used[name] = made.result()
    return Module(lambda: made)


def _done(cubin: bytes) -> Future[bytes]:
    found: Future[bytes] = Future()
    found.set_result(cubin)
    return found


def _begun(text: str, target: GpuTarget, name: str) -> Future[bytes]:
    """Machine code that a thread makes, and keeps on disk."""
    context = driver().context()

    def make() -> bytes:
        major, minor = target.capability
        ptx = assembly(text, "nvptx64-nvidia-cuda", f"sm_{major}{minor}", f"+ptx{target.ptx}")
        driver().enter(context)
        cubin = driver().machine_code(ptx.encode() + b"\0")
        workers.do_last(partial(disk_cache().write, name, cubin))
        shared.send("native", name, cubin)
        return cubin

    task = Task(make)
    workers.do([task], min(config.compile_threads, available_cores()))
    return task.future
