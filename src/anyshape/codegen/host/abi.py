"""What the text of a host function has to know of Python's and torch's memory, as plain numbers,
and words for what may go wrong in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    #: where tensors are: as the names of C functions have it, and as numbers of torch's
    device: str = "cpu"
    device_type: int = 0
    device_index: int = 0
    #: kernels are started and not waited for; they have no threads of ours, and memory of torch's
    is_launched: bool = False
    #: products that are independent of each other are in branches of what is recorded
    branches: bool = False
    #: products are asked of the library, before torch is
    products: bool = False


class HostUnsupported(Exception):
    """A segment that no host function can be written for: run its graph as it is."""


class Reasons:
    """What may go wrong in a native function, numbered from 1: the text has numbers, the error has
    words."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def number(self, reason: str) -> int:
        self._reasons.append(reason)
        return len(self._reasons)

    def numbers(self, reasons: Iterable[str]) -> int:
        """The number of the first; the others follow."""
        first = len(self._reasons) + 1
        self._reasons += reasons
        return first

    def all(self) -> tuple[str, ...]:
        return tuple(self._reasons)
