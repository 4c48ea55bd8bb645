"""The few functions of libcuda that are needed, by ctypes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

from anyshape.runtime.loader.errors import NativeFailed, NativeUnavailable

_LIBRARIES: Final = ("libcuda.so.1", "nvcuda.dll")
#: CU_JIT_INPUT_PTX
_PTX: Final = 1
#: CU_JIT_ERROR_LOG_BUFFER and the bytes that it has
_LOG, _LOG_BYTES = 5, 6
#: CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
_SHARED: Final = 1
#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DYNAMIC_SHARED: Final = 8
#: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
_SHARED_OPT_IN: Final = 97
#: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_PROCESSORS: Final = 16
#: CU_STREAM_NON_BLOCKING
_NON_BLOCKING: Final = 1
#: CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
_COOPERATIVE: Final = 95


class Driver:
    """libcuda, with torch's context."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def address(self, name: str) -> int | None:
        """Of a function that host code calls."""
        if not name.startswith("cu"):
            return None
        return ctypes.cast(self._library[name], ctypes.c_void_p).value

    def _check(self, code: int, what: str) -> None:
        if code:
            raise NativeFailed(f"{what}: {self.message(code)}")

    def message(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return f"{(text.value or b'unknown').decode()} (CUDA error {code})"

    def version(self) -> int:
        """Of CUDA that the driver is for: 12040 is 12.4."""
        found = ctypes.c_int()
        self._check(self._library.cuDriverGetVersion(ctypes.byref(found)), "cuDriverGetVersion")
        return found.value

    def most_shared(self, device: int) -> int:
        """Bytes of shared memory that a block may ask for."""
        return self._attribute(device, _SHARED_OPT_IN)

    def _attribute(self, device: int, number: int) -> int:
        handle, found = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
        code = self._library.cuDeviceGetAttribute(ctypes.byref(found), number, handle)
        self._check(code, "cuDeviceGetAttribute")
        return found.value

    def resident_blocks(self, function: int, threads: int, shared: int, device: int) -> int:
        """Blocks of so many threads and bytes of shared memory that the GPU runs at the same time;
        0 if it cannot be asked to."""
        if not self._attribute(device, _COOPERATIVE):
            return 0
        found = ctypes.c_int()
        code = self._library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(found), ctypes.c_void_p(function), threads, ctypes.c_size_t(shared)
        )
        self._check(code, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return found.value * self._attribute(device, _PROCESSORS)

    def context(self) -> ctypes.c_void_p:
        """Of this thread, at present."""
        found = ctypes.c_void_p()
        self._check(self._library.cuCtxGetCurrent(ctypes.byref(found)), "cuCtxGetCurrent")
        return found

    def enter(self, context: ctypes.c_void_p) -> None:
        """Make it this thread's, too."""
        self._check(self._library.cuCtxSetCurrent(context), "cuCtxSetCurrent")

    def machine_code(self, ptx: bytes) -> bytes:
        """The cubin of a PTX module. Threads may do so side by side."""
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(_LOG, _LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        state, cubin, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        library = self._library
        self._check(
            library.cuLinkCreate_v2(2, options, values, ctypes.byref(state)), "cuLinkCreate"
        )
        try:
            code = library.cuLinkAddData_v2(
                state, _PTX, ptx, ctypes.c_size_t(len(ptx)), b"anyshape", 0, None, None
            )
            if not code:
                code = library.cuLinkComplete(state, ctypes.byref(cubin), ctypes.byref(size))
            if code:
                said = log.value.decode(errors="replace").strip()
                raise NativeUnavailable(f"the driver refused PTX: {self.message(code)} {said}")
            return ctypes.string_at(cubin, size.value)
        finally:
            library.cuLinkDestroy(state)

    @functools.cached_property
    def _copying(self) -> Any:
        # With its types known, arguments need no objects of their own: it is called often.
        found = self._library["cuMemcpyDtoDAsync_v2"]
        found.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
        return found

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Bytes from one place on GPUs to another, as soon as the stream comes to it."""
        self._check(self._copying(target, source, size, stream), "cuMemcpyDtoDAsync")

    def new_stream(self) -> int:
        """A stream of the current context that nobody else has. It is never destroyed."""
        found = ctypes.c_void_p()
        code = self._library.cuStreamCreate(ctypes.byref(found), _NON_BLOCKING)
        self._check(code, "cuStreamCreate")
        assert found.value is not None
        return found.value

    def load(self, cubin: bytes) -> int:
        """A module in the current context. It is never unloaded: kernels may be under way."""
        module = ctypes.c_void_p()
        self._check(self._library.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        assert module.value is not None
        return module.value

    def function(self, module: int, name: str, shared: int) -> int:
        """A kernel of a module, which may have so many bytes of shared memory in all."""
        found = ctypes.c_void_p()
        code = self._library.cuModuleGetFunction(
            ctypes.byref(found), ctypes.c_void_p(module), name.encode()
        )
        self._check(code, f"kernel {name}")
        own = ctypes.c_int()
        code = self._library.cuFuncGetAttribute(ctypes.byref(own), _SHARED, found)
        self._check(code, f"kernel {name}")
        code = self._library.cuFuncSetAttribute(found, _DYNAMIC_SHARED, shared - own.value)
        self._check(code, f"kernel {name}")
        assert found.value is not None
        return found.value


@functools.cache
def driver() -> Driver:
    for name in _LIBRARIES:
        try:
            return Driver(ctypes.CDLL(name))
        except OSError:
            continue
    raise NativeUnavailable("the CUDA driver (libcuda) is not installed")
