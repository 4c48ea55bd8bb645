"""Which of the library's algorithms for a product is fastest, tried on the GPU.

The library proposes some, best first in its opinion, which is right for most large products. For
small ones others are up to a third faster. Trials run in a thread and a stream of their own, since
the caller may be recording; second factors are read from the device's memory, as weights are.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Final

import torch

from anyshape.loops.product_plan import HAS_BIAS, IS_FLOAT16, KEY
from anyshape.runtime.cuda.blas import (
    MOST_WORKSPACE,
    Algorithm,
    Blas,
    Candidate,
    Operation,
    factors,
)
from anyshape.runtime.cuda.driver import driver
from anyshape.runtime.loader.build import disk_cache
from anyshape.runtime.loader.disk_cache import key_of
from anyshape.runtime.loader.errors import NativeFailed

#: Proposals that are tried.
_CANDIDATES: Final = 6
#: Elements that no cache holds, over which second factors are spread.
_FAR: Final = 80 << 20
#: Products in a row, and how often they are timed.
_ROW: Final = 16
_TIMES: Final = 2
#: Less is noise.
_WORTH: Final = 0.97
_ELEMENT: Final = 2
#: Elements of a factor: weights of a batch may lie far apart.
_MOST: Final = 1 << 28
#: Elements of 256 bytes, at multiples of which torch's memory begins.
_STEP: Final = 128


class Trials:
    def __init__(self, library: Blas, device: int) -> None:
        self._library = library
        self._device = device
        self._lock = threading.Lock()
        self._arena: _Arena | None = None

    def end(self) -> None:
        """Nobody records any more."""
        with self._lock:
            self._arena = None

    def best(self, key: Mapping[str, int], own: Operation) -> Candidate | None:
        name = self._name(key)
        kept = disk_cache().read(name) or b""
        is_whole = len(kept) == ctypes.sizeof(Algorithm)
        if is_whole and (known := self._library.checked(own, kept)) is not None:
            return known
        found = self._library.candidates(key, own, _CANDIDATES)
        if len(found) < 2 or max(_extent(key, name) for name in "abd") > _MOST:
            return found[0] if found else None
        chosen: list[Candidate] = []
        context = driver().context()

        def run() -> None:
            with contextlib.suppress(NativeFailed, RuntimeError):
                driver().enter(context)
                chosen.append(self._fastest(key, own, found))

        thread = threading.Thread(target=run)
        with self._lock:
            thread.start()
            thread.join()
        if not chosen:
            return found[0]
        disk_cache().write(name, chosen[0].algorithm)
        return chosen[0]

    def _name(self, key: Mapping[str, int]) -> str:
        words = struct.pack(f"{len(KEY)}q", *key.values()).hex()
        device = torch.cuda.get_device_name(self._device)
        return key_of("product", device, str(self._library.version), words)

    def _fastest(
        self, key: Mapping[str, int], own: Operation, found: Sequence[Candidate]
    ) -> Candidate:
        with torch.cuda.device(self._device):
            arena = self._arena = self._arena or _Arena(self._device)
            with torch.cuda.stream(arena.stream):
                run = _Run(self._library, key, own, arena)
                times = [run.time(each) for each in found]
            arena.stream.synchronize()
        best = min(range(len(found)), key=times.__getitem__)
        return found[best] if times[best] < _WORTH * times[0] else found[0]


class _Arena:
    """Memory for trials, as long as somebody records: to fill it takes longer than a trial."""

    def __init__(self, device: int) -> None:
        self._place = torch.device("cuda", device)
        self.stream = torch.cuda.ExternalStream(driver().new_stream(), device)
        self._numbers: dict[torch.dtype, torch.Tensor] = {}
        self.workspace = torch.empty(MOST_WORKSPACE, dtype=torch.uint8, device=self._place)
        # Not torch's own: that one's numbers are the program's, and may be recorded at present.
        self._generator = torch.Generator(self._place)

    def numbers(self, dtype: torch.dtype, elements: int) -> torch.Tensor:
        """So many at least, as random as data is."""
        found = self._numbers.get(dtype)
        if found is None or found.numel() < elements:
            found = torch.empty(elements, dtype=dtype, device=self._place)
            found.normal_(generator=self._generator)
            self._numbers[dtype] = found
        return found


class _Run:
    """A product on memory of its own."""

    def __init__(
        self, library: Blas, key: Mapping[str, int], own: Operation, arena: _Arena
    ) -> None:
        self._library, self._own = library, own
        self._stream, self._workspace = arena.stream, arena.workspace
        dtype = torch.float16 if key["kind"] & IS_FLOAT16 else torch.bfloat16
        # Each begins at a multiple of so many elements.
        sizes = {name: _whole(_extent(key, name)) for name in "abd"}
        sizes["bias"] = _whole(key["columns"] + (key["batch"] - 1) * key["bias.batch"])
        beside = sum(sizes.values()) - sizes["b"]
        copies = max(1, min(_ROW, _FAR // sizes["b"]))
        memory = arena.numbers(dtype, max(_FAR, copies * sizes["b"]) + beside)
        first = memory.data_ptr()
        self._a = first
        self._d = self._a + _ELEMENT * sizes["a"]
        bias = self._d + _ELEMENT * sizes["d"]
        self._b = bias + _ELEMENT * sizes["bias"]
        self._memory = memory
        self._places = [_ELEMENT * sizes["b"] * (place % copies) for place in range(_ROW)]
        if key["kind"] & HAS_BIAS:
            library.set_bias(own, ctypes.c_void_p(bias))
        self._factors = (ctypes.c_float * 2)(*factors(key))

    def time(self, candidate: Candidate) -> float:
        """Milliseconds of a row; infinite if it fails."""
        # Code is loaded at the first call, which no recording may be in the middle of.
        if self._multiply(candidate, 0):
            return float("inf")
        self._stream.synchronize()

        def row() -> None:
            for place in self._places:
                self._multiply(candidate, place)

        with driver().recorded(self._stream.cuda_stream, row) as launch:
            launch()
            times: list[float] = []
            for _ in range(_TIMES):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record(self._stream)
                launch()
                end.record(self._stream)
                end.synchronize()
                times.append(begin.elapsed_time(end))
        return min(times)

    def _multiply(self, candidate: Candidate, place: int) -> int:
        return self._library.call(
            self._own,
            self._factors,
            (self._a, self._b + place, self._d),
            candidate,
            self._workspace.data_ptr(),
            self._stream.cuda_stream,
        )


def _whole(elements: int) -> int:
    return -(-elements // _STEP) * _STEP


def _extent(key: Mapping[str, int], name: str) -> int:
    """Elements from the first to the last."""
    rows, columns = {
        "a": (key["rows"], key["depth"]),
        "b": (key["depth"], key["columns"]),
        "d": (key["rows"], key["columns"]),
    }[name]
    row = (rows - 1) * key[f"{name}.row"] + (columns - 1) * key[f"{name}.column"]
    return 1 + row + (key["batch"] - 1) * key[f"{name}.batch"]
