"""cuBLASLt, the library of matrix products that comes with torch, by ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch

from anyshape.loops.product_plan import ADDS, ALIGNMENT_BITS, ALIGNMENTS, HAS_BIAS, IS_FLOAT16, KEY
from anyshape.runtime.loader.errors import NativeFailed

#: CUBLAS_COMPUTE_32F, CUDA_R_32F, and CUDA_R_16BF or CUDA_R_16F
_COMPUTE: Final = 68
_FLOAT32: Final = 0
_DTYPE: Final = {0: 14, IS_FLOAT16: 2}
#: of CUBLASLT_MATMUL_DESC
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS, _BIAS_BATCH = 3, 4, 7, 8, 10
_WITH_BIAS: Final = 4
#: of CUBLASLT_MATRIX_LAYOUT
_COUNT, _DISTANCE = 5, 6
#: of CUBLASLT_MATMUL_PREF
_WORKSPACE_LIMIT, _REDUCTIONS = 1, 3
_ALIGNMENT: Final = {"b": 5, "a": 6, "c": 7, "d": 8}
#: whose addresses are in a key, in this order
_PLACES: Final = ("a", "b", "d", "bias")
#: CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: sums of parts are float32, whatever torch's flags allow
_IN_FLOAT32: Final = 2
#: What torch gives the library on Hopper.
_WORKSPACE: Final = 32 << 20


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Operation(NamedTuple):
    """A product as the library describes it: addresses of descriptions, which are never freed."""

    operation: int
    a: int
    b: int
    d: int


class Algorithm(NamedTuple):
    #: as the library has it
    words: bytes
    #: bytes of memory that it needs
    workspace: int


class Blas:
    """The library, on one GPU. Called with that device's context."""

    def __init__(self, library: Any) -> None:
        self._library = library
        handle = ctypes.c_void_p()
        self._call("Create", ctypes.byref(handle))
        assert handle.value is not None
        self.handle = handle.value
        self.multiply = self._address("Matmul")
        self.set = self._address("MatmulDescSetAttribute")
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        self.version = int(library.cublasLtGetVersion())

    def _address(self, name: str) -> int:
        function = self._library[f"cublasLt{name}"]
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._library[f"cublasLt{name}"](*arguments)
        if code:
            raise NativeFailed(f"cublasLt{name}: error {code}")

    def _set(self, kind: str, described: Any, attribute: int, value: Any) -> None:
        given = ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        self._call(f"{kind}SetAttribute", described, attribute, *given)

    def _layout(self, dtype: int, rows: int, columns: int, step: int, batch: int, far: int) -> Any:
        """Columns side by side, `step` elements apart."""
        layout = ctypes.c_void_p()
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(step)
        self._call("MatrixLayoutCreate", ctypes.byref(layout), dtype, *sizes)
        if batch > 1:
            self._set("MatrixLayout", layout, _COUNT, ctypes.c_int32(batch))
            self._set("MatrixLayout", layout, _DISTANCE, ctypes.c_int64(far))
        return layout

    def operation(self, key: Mapping[str, int]) -> Operation | None:
        """The transposed product, `d.T = b.T @ a.T`, since columns are stored side by side. None if
        the library has no such strides."""
        rows, columns, depth, batch = (key[n] for n in ("rows", "columns", "depth", "batch"))
        b = _stored(columns, depth, key["b.column"], key["b.row"])
        a = _stored(depth, rows, key["a.column"], key["a.row"])
        d = _stored(columns, rows, key["d.column"], key["d.row"])
        if min(rows, columns, depth, batch) < 1 or a is None or b is None or d is None or d[0]:
            return None
        kind = key["kind"]
        dtype = _DTYPE[kind & IS_FLOAT16]
        operation = ctypes.c_void_p()
        self._call("MatmulDescCreate", ctypes.byref(operation), _COMPUTE, _FLOAT32)
        self._set("MatmulDesc", operation, _TRANSPOSE_A, ctypes.c_int32(b[0]))
        self._set("MatmulDesc", operation, _TRANSPOSE_B, ctypes.c_int32(a[0]))
        if kind & HAS_BIAS:
            self._set("MatmulDesc", operation, _EPILOGUE, ctypes.c_uint32(_WITH_BIAS))
            # Heuristics ask for its alignment.
            somewhere = ctypes.c_void_p(256 + alignment(key, "bias") % 16)
            self._set("MatmulDesc", operation, _BIAS, somewhere)
            if batch > 1:
                far = ctypes.c_int64(key["bias.batch"])
                self._set("MatmulDesc", operation, _BIAS_BATCH, far)
        layouts = [
            self._layout(dtype, own[1], own[2], own[3], batch, key[f"{name}.batch"])
            for name, own in (("a", a), ("b", b), ("d", d))
        ]
        return Operation(operation.value or 0, *(layout.value or 0 for layout in layouts))

    def proposed(self, key: Mapping[str, int], own: Operation) -> Algorithm | None:
        """The algorithm that is best in the library's opinion. Of others that it proposes, few were
        faster when they were tried, and none by much."""
        preference = ctypes.c_void_p()
        self._call("MatmulPreferenceCreate", ctypes.byref(preference))
        try:
            limit = ctypes.c_size_t(_WORKSPACE)
            self._set("MatmulPreference", preference, _WORKSPACE_LIMIT, limit)
            schemes = ctypes.c_uint32(_IN_FLOAT32)
            self._set("MatmulPreference", preference, _REDUCTIONS, schemes)
            for name, attribute in _ALIGNMENT.items():
                bytes_ = ctypes.c_uint32(alignment(key, "d" if name == "c" else name))
                self._set("MatmulPreference", preference, attribute, bytes_)
            found, count = _Found(), ctypes.c_int()
            operation, a, b, d = map(ctypes.c_void_p, own)
            self._call(
                "MatmulAlgoGetHeuristic",
                *(ctypes.c_void_p(self.handle), operation, b, a, d, d, preference, 1),
                *(ctypes.byref(found), ctypes.byref(count)),
            )
        finally:
            self._library.cublasLtMatmulPreferenceDestroy(preference)
        if not count.value or found.state:
            return None
        return Algorithm(bytes(found.algorithm), found.workspace)


def _low(kind: int, place: int) -> int:
    return kind >> (ALIGNMENTS + ALIGNMENT_BITS * place) & ((1 << ALIGNMENT_BITS) - 1)


def alignment(key: Mapping[str, int], name: str) -> int:
    """Bytes that all matrices of a factor, or all biases, begin at a multiple of."""
    # Elements have two bytes.
    bits = _low(key["kind"], _PLACES.index(name)) | 2 * key[f"{name}.batch"] | 16
    return bits & -bits


def _stored(
    rows: int, columns: int, row_step: int, column_step: int
) -> tuple[int, int, int, int] | None:
    """How a matrix lies in memory: whether transposed, and then rows, columns and their step."""
    if row_step == 1 and (column_step >= rows or columns == 1):
        return 0, rows, columns, max(column_step, rows)
    if column_step == 1 and (row_step >= columns or rows == 1):
        return 1, columns, rows, max(row_step, columns)
    return None


@functools.cache
def blas(device: int) -> Blas | None:
    """None where torch has come without it."""
    cuda = torch.version.cuda
    if cuda is None:
        return None
    try:
        # torch has loaded it: its name is enough.
        library = ctypes.CDLL(f"libcublasLt.so.{cuda.partition('.')[0]}")
        with torch.cuda.device(device):
            return Blas(library)
    except (OSError, AttributeError, NativeFailed):
        return None


def key_of(words: Any) -> dict[str, int]:
    return dict(zip(KEY, words, strict=False))


def factors(key: Mapping[str, int]) -> tuple[float, float]:
    """Of the product, and of what is there already."""
    return 1.0, 1.0 if key["kind"] & ADDS else 0.0
