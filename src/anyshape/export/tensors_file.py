"""Tensors in the safetensors format: a length, a JSON header, the elements.

Written and read here, because the format is a page long and the package needs no more than that;
any other reader of the format reads it too.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from typing import Any, Final

import torch

_NAMES: Final[dict[torch.dtype, str]] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES: Final = {name: dtype for dtype, name in _NAMES.items()}

#: Readers may map the file into memory, where elements have to be aligned.
_ALIGNMENT: Final = 8


class Damaged(Exception):
    """Bytes that are not in the format."""


def write(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The file of some tensors; `Damaged` for an element type that the format does not have."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    offset = 0
    # The widest first, so that all are aligned.
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        if tensor.dtype not in _NAMES:
            raise Damaged(f"{name} has elements of the type {tensor.dtype}")
        data = bytes_of(tensor)
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor, one after the other."""
    flat = tensor.detach().cpu().contiguous()
    # As a sequence, a storage gives one Python number a byte: a hundred times slower.
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())


def read(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a file."""
    if len(data) < 8:
        raise Damaged("it is shorter than the length of its header")
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        raise Damaged("it ends within its header")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError:
        raise Damaged("its header is no JSON") from None
    body = memoryview(data)[8 + length :]
    if not isinstance(header, dict):
        raise Damaged("its header is no table")
    return {
        name: _tensor(name, row, body) for name, row in header.items() if name != "__metadata__"
    }


def _tensor(name: str, row: Any, body: memoryview) -> torch.Tensor:
    try:
        dtype, shape = _DTYPES[row["dtype"]], [int(size) for size in row["shape"]]
        start, end = (int(each) for each in row["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise Damaged(f"the row of {name} in its header") from None
    count = 1
    for size in shape:
        count *= size
    if not 0 <= start <= end <= len(body) or min(shape, default=0) < 0:
        raise Damaged(f"{name} lies outside of the file")
    if end - start != count * dtype.itemsize:
        raise Damaged(f"{name} has {end - start} bytes, and not those of its shape")
    if not count:
        return torch.empty(shape, dtype=dtype)
    # A copy: what is mapped or shared could not be written to.
    return torch.frombuffer(bytearray(body[start:end]), dtype=dtype).reshape(shape)
