"""cuBLASLt as its header has it, of functions of Python: columns are stored side by side."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_SET = (_POINTER, _INT, _POINTER, _SIZE)
_NOT_SUPPORTED = 15

_TYPES: dict[str, tuple[Any, ...]] = {
    "Create": (_POINTER,),
    "MatmulDescCreate": (_POINTER, _INT, _INT),
    "MatmulDescSetAttribute": _SET,
    "MatrixLayoutCreate": (_POINTER, _INT, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    "MatrixLayoutSetAttribute": _SET,
    "MatmulPreferenceCreate": (_POINTER,),
    "MatmulPreferenceSetAttribute": _SET,
    "MatmulPreferenceDestroy": (_POINTER,),
    "MatmulAlgoGetHeuristic": (*[_POINTER] * 7, _INT, _POINTER, _POINTER),
    "Matmul": (*[_POINTER] * 14, _SIZE, _POINTER),
}
#: Attributes: of an operation, a layout, a preference.
_TRANSPOSES, _EPILOGUE, _BIAS, _BIAS_BATCH = (3, 4), 7, 8, 10
_COUNT, _DISTANCE = 5, 6
_LIMIT, _REDUCTIONS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)
_DTYPES = {2: torch.float16, 14: torch.bfloat16}


class Made(NamedTuple):
    kind: str
    words: tuple[int, ...]
    attributes: dict[int, int]


class Algorithm(NamedTuple):
    """What it was proposed for: the operation and the layouts by their numbers, and the alignment
    of A, B, C and D, and of the bias."""

    described: tuple[int, ...]
    alignments: tuple[int, ...]
    bias: int


class Lt:
    """What `ctypes.CDLL` gives. `has`: whether there is an algorithm."""

    def __init__(self, has: Callable[[], bool] = lambda: True, workspace: int = 0) -> None:
        self.made: dict[int, Made] = {}
        self.algorithms: list[Algorithm] = []
        self.batches: list[int] = []
        self._has, self._workspace = has, workspace
        self._numbers = itertools.count(100)
        self._functions: dict[str, Any] = {
            f"cublasLt{name}": ctypes.CFUNCTYPE(_INT, *types)(getattr(self, f"_{name}"))
            for name, types in _TYPES.items()
        }
        self._functions["cublasLtGetVersion"] = ctypes.CFUNCTYPE(_SIZE)(lambda: 130000)

    def __getitem__(self, name: str) -> Any:
        return self._functions[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._functions[name]

    def kinds(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.made.values())

    # -- what is described -------------------------------------------------------------------------

    def _new(self, where: int, kind: str, *words: int) -> int:
        number = next(self._numbers)
        self.made[number] = Made(kind, words, {})
        _POINTER.from_address(where).value = number
        return 0

    def _set(self, kind: str, number: int, attribute: int, where: int, size: int) -> int:
        made = self.made[number]
        assert made.kind == kind
        value = int.from_bytes(ctypes.string_at(where, size), "little", signed=True)
        made.attributes[attribute] = value
        return 0

    def _Create(self, where: int) -> int:
        return self._new(where, "handle")

    def _MatmulDescCreate(self, where: int, compute: int, scale: int) -> int:
        assert (compute, scale) == (68, 0), "sums and factors are float32"
        return self._new(where, "operation")

    def _MatmulDescSetAttribute(self, *given: int) -> int:
        return self._set("operation", *given)

    def _MatrixLayoutCreate(self, where: int, *words: int) -> int:
        _, rows, _, step = words
        assert step >= rows >= 1
        return self._new(where, "layout", *words)

    def _MatrixLayoutSetAttribute(self, *given: int) -> int:
        return self._set("layout", *given)

    def _MatmulPreferenceCreate(self, where: int) -> int:
        return self._new(where, "preference")

    def _MatmulPreferenceSetAttribute(self, *given: int) -> int:
        return self._set("preference", *given)

    def _MatmulPreferenceDestroy(self, number: int) -> int:
        assert self.made.pop(number).kind == "preference"
        return 0

    # -- products ----------------------------------------------------------------------------------

    def _MatmulAlgoGetHeuristic(self, handle: int, *given: int) -> int:
        *described, preference, most, found, count = given
        assert self.made[handle].kind == "handle"
        assert most == 1
        wanted = self.made[preference].attributes
        assert wanted[_LIMIT] == 32 << 20
        assert wanted[_REDUCTIONS] == 2, "sums of parts are float32"
        if not self._has():
            return _NOT_SUPPORTED
        bias = self.made[described[0]].attributes.get(_BIAS, 0)
        alignments = tuple([wanted[each] for each in _ALIGNMENTS])
        self.algorithms.append(Algorithm(tuple(described), alignments, (bias | 16) & -(bias | 16)))
        words = (ctypes.c_uint64 * 8).from_address(found)
        words[:] = [len(self.algorithms), *range(1, 8)]
        _SIZE.from_address(found + 64).value = self._workspace
        _INT.from_address(found + 72).value = 0
        _INT.from_address(count).value = 1
        return 0

    def _Matmul(self, handle: int, operation: int, *given: Any) -> int:
        alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout = given[:10]
        algorithm, workspace, size, _ = given[10:]
        words = list((ctypes.c_uint64 * 8).from_address(algorithm))
        assert words[1:] == list(range(1, 8))
        own = self.algorithms[words[0] - 1]
        assert own.described == (operation, a_layout, b_layout, c_layout, d_layout)
        for address, by in zip((a, b, c, d), own.alignments, strict=True):
            assert address % by == 0, "it was proposed for other addresses"
        assert (bool(workspace), size) == (bool(self._workspace), self._workspace)
        asked = self.made[operation].attributes
        transposed = [asked.get(each, 0) for each in _TRANSPOSES]
        shown = self._shown(a, a_layout), self._shown(b, b_layout)
        left, right = (
            each.mT.float() if turned else each.float()
            for each, turned in zip(shown, transposed, strict=True)
        )
        made = left @ right * ctypes.c_float.from_address(alpha).value
        if (factor := ctypes.c_float.from_address(beta).value) != 0:
            made += factor * self._shown(c, c_layout).float()
        target = self._shown(d, d_layout)
        assert made.shape == target.shape
        if asked.get(_EPILOGUE, 1) == 4:
            far = asked.get(_BIAS_BATCH, 0)
            sizes, strides = (*made.shape[:2], 1), (far, 1, 0)
            assert all((asked[_BIAS] + 2 * far * n) % own.bias == 0 for n in range(made.shape[0]))
            made += _at(asked[_BIAS], target.dtype, sizes, strides)
        target.copy_(made)
        self.batches.append(made.shape[0])
        return 0

    def _shown(self, address: int, number: int) -> Tensor:
        dtype, rows, columns, step = self.made[number].words
        own = self.made[number].attributes
        sizes = own.get(_COUNT, 1), rows, columns
        return _at(address, _DTYPES[dtype], sizes, (own.get(_DISTANCE, 0), 1, step))


def _at(address: int, dtype: torch.dtype, sizes: Any, strides: Any) -> Tensor:
    extent = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    words = np.ctypeslib.as_array((ctypes.c_int16 * extent).from_address(address))
    return torch.from_numpy(words).view(dtype).as_strided(sizes, strides)
