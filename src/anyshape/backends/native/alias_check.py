"""Whether a native program may write to the tensors that it changes.

Native code takes elements for apart: it reads some before or after it writes to others, as it
likes. Where tensors share memory, with each other or within themselves, the graph runs as it is,
and also where torch forbids the write.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from anyshape.backends.native.build import no_alias_function


@functools.cache
def no_alias() -> Callable[..., bool]:
    """`apart(n, *tensors)`: a quick look at tensors of which the first n are changed. True: they
    share no memory. False: ask `may_write`."""
    return no_alias_function() or (lambda *_: False)


def may_write(changed: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Whether a write to a changed tensor is allowed, and seen nowhere but in the element that is
    written. `others`: what else the program reads."""
    spans: list[tuple[int, int]] = []
    for tensor in changed:
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            return False
        dense = tensor.is_contiguous()
        if not dense and not _elements_are_apart(tensor):
            return False
        start = tensor.data_ptr()
        if not start and tensor.numel():
            return False
        end = start + (tensor.nbytes if dense else extent(tensor))
        if any(start < there and begin < end for begin, there in spans):
            return False
        spans.append((start, end))
    # Most tensors lie before or behind all that is changed: their addresses tell.
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    for tensor in others:
        start = tensor.data_ptr()
        if not start and tensor.numel():
            # Zeros that torch has not made yet: native code could not read them.
            return False
        if start >= last:
            continue
        end = start + extent(tensor)
        if end > first and any(start < there and begin < end for begin, there in spans):
            return False
    return True


def extent(tensor: torch.Tensor) -> int:
    """Bytes from the first to behind the last element."""
    if tensor.is_contiguous():
        return tensor.nbytes
    if not tensor.numel():
        return 0
    dims = zip(tensor.shape, tensor.stride(), strict=True)
    return (1 + sum((size - 1) * stride for size, stride in dims)) * tensor.element_size()


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether its elements are one after the other, in some order of its dimensions."""
    step = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride != step:
                return False
            step *= size
    return True


def _elements_are_apart(tensor: torch.Tensor) -> bool:
    """Whether each dimension steps over all that the ones of smaller steps reach."""
    reached = 0
    dims = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted(dim for dim in dims if dim[1] != 1):
        if stride <= reached:
            return not tensor.numel()
        reached += (size - 1) * stride
    return True
