"""What the text of a host function has to know of Python's and torch's memory: plain numbers."""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class HostAbi:
    #: of the at::Tensor in a Python tensor, whose address is a handle to torch's C functions;
    #: None: not known, and Python has to hand over addresses
    tensor_offset: int | None
    #: of `ob_type` in a Python object
    type_offset: int
    #: torch's numbers for our dtypes
    dtypes: Mapping[str, int]
    #: C++ function: handle -> new Python tensor
    wrap: str


class HostUnsupported(Exception):
    """A segment that no host function can be written for: run its graph as it is."""
