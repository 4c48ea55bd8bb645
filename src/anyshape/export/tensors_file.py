"""Tensors as the bytes of a safetensors file, by the library of that name."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib import import_module

import torch


class Damaged(Exception):
    """Bytes that are not in the format, or a tensor that the format does not have."""


def write(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The file of some tensors."""
    library = import_module("safetensors.torch")
    try:
        return library.save(dict(_apart(tensors)))
    except Exception as error:  # it has no class of errors for all that it does not take
        kinds = ", ".join(sorted({str(each.dtype) for each in tensors.values()}))
        raise Damaged(f"tensors of {kinds} ({error})") from error


def _apart(tensors: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    """On the CPU, dense and with memory of their own: the format has no views."""
    made = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
    seen: set[int] = set()
    for name, each in made.items():
        memory = each.untyped_storage()
        if memory.data_ptr() in seen or memory.nbytes() != each.nbytes:
            made[name] = each.clone()
        seen.add(memory.data_ptr())
    return made


def read(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a file, which may be written to."""
    library: object = import_module("safetensors.torch")
    try:
        return library.load(data)
    except Exception as error:  # of Rust's and of its own
        raise Damaged(f"the weights are no safetensors file ({error})") from None


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor, one after the other."""
    dense = tensor.detach().cpu().contiguous()
    # As a sequence, a storage gives one Python number a byte: a hundred times slower.
    return ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size())
