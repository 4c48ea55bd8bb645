"""The words of memory that hold what guards compare of a tensor, so that a stamp can watch them.

Eleven words, some 25 ns a tensor, in place of six attributes at 60 to 130 ns each. Where the words
lie is an affair of the tensor library, and may change with its version. So nothing is taken on
trust: at the start, tensors are changed in every way that guards must see, and if one way leaves
the words alone, there is no watching. For each tensor, sizes and strides are read in both ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, cast

from anyshape.guards.fast_path.memory_watch import SUPPORTED, Watch, word_at

_WORD: Final = 8
#: in the Python object: the pointer to the tensor
_TENSOR: Final = 16
#: in the tensor, counted in words: the pointer to what autograd keeps of it
AUTOGRAD: Final = 3
#: there: the function that made it
MADE_BY: Final = 6
#: Sizes of higher ranks lie elsewhere.
MOST_DIMS: Final = 5


class Layout(NamedTuple):
    """Where things lie, counted in words."""

    #: in the tensor: how many dimensions, then room for five sizes and five strides, offset and
    #: count of elements, dtype and device, and the keys of the dispatcher
    rank: int
    #: in what autograd keeps of it: whether it requires grad
    requires_grad: int

    @property
    def sizes(self) -> int:
        return self.rank + 1

    @property
    def strides(self) -> int:
        return self.sizes + MOST_DIMS

    @property
    def dtype_and_device(self) -> int:
        return self.strides + MOST_DIMS + 2

    @property
    def keys(self) -> int:
        return self.dtype_and_device + 1


#: As seen in torch 2.13 and in torch 2.11; which it is here is found out.
LAYOUTS: Final = (Layout(rank=7, requires_grad=16), Layout(rank=8, requires_grad=18))


class Tensor(Protocol):
    """As much of a tensor as is needed here."""

    data: Tensor

    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def imag(self) -> Tensor: ...
    def stride(self) -> Sequence[int]: ...
    def requires_grad_(self, requires_grad: bool = True) -> Tensor: ...
    def double(self) -> Tensor: ...
    def cfloat(self) -> Tensor: ...
    def conj(self) -> Tensor: ...
    def to(self, device: str) -> Tensor: ...
    def t(self) -> Tensor: ...
    def t_(self) -> Tensor: ...
    def unsqueeze_(self, dim: int) -> Tensor: ...
    def resize_(self, *sizes: int) -> Tensor: ...
    def as_strided_(self, size: Sequence[int], stride: Sequence[int]) -> Tensor: ...
    def add_(self, other: Tensor) -> Tensor: ...


class TensorMemory:
    """Gives the addresses of words to watch, for tensors of these types and no others: a subclass
    may keep its sizes where it likes."""

    def __init__(
        self,
        types: frozenset[type],
        layout: Layout,
        find_alike: Callable[[TensorMemory], Callable[..., bool] | None] = lambda _: None,
    ) -> None:
        self.types: Final = types
        self.layout: Final = layout
        self._find_alike = find_alike

    @functools.cached_property
    def alike(self) -> Callable[..., bool] | None:
        """Native code that compares tensors (`tensor_match.py`), made when it is asked for."""
        return self._find_alike(self)

    def __call__(self, tensor: object) -> tuple[int, ...] | None:
        """Addresses in an order in which each is safe to read if those before are unchanged."""
        if type(tensor) not in self.types:
            return None
        start = getattr(tensor, "_cdata", 0)  # the address of the tensor itself
        pointer = id(tensor) + _TENSOR
        if not start or word_at(pointer) != start:
            return None
        found = cast("Tensor", tensor)
        sizes, strides = found.shape, found.stride()
        rank, layout = len(sizes), self.layout
        if rank > MOST_DIMS or word_at(start + layout.rank * _WORD) != rank:
            return None
        at_sizes = _words(start, range(layout.sizes, layout.sizes + rank))
        at_strides = _words(start, range(layout.strides, layout.strides + rank))
        if [*map(word_at, at_sizes)] != [*sizes] or [*map(word_at, at_strides)] != [*strides]:
            return None
        own = _words(start, (layout.rank, layout.dtype_and_device, layout.keys, AUTOGRAD))
        autograd = word_at(start + AUTOGRAD * _WORD)
        extra = _words(autograd, (MADE_BY, layout.requires_grad)) if autograd else ()
        return (pointer, *own, *at_sizes, *at_strides, *extra)


def _words(start: int, numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(start + number * _WORD for number in numbers)


#: Makes a tensor of given sizes.
Zeros = Callable[..., Tensor]


def tensor_memory(
    zeros: Callable[..., object],
    parameter: type,
    find_alike: Callable[[TensorMemory], Callable[..., bool] | None] = lambda _: None,
) -> TensorMemory | None:
    """A reader of the memory of plain tensors and parameters; None where watching does not work, or
    would miss a change. Ten milliseconds: once in a process is enough.
    """
    if not SUPPORTED:
        return None
    make = cast("Zeros", zeros)
    if not _autograd_is_where_expected(make):
        return None
    types = frozenset((type(make(1)), parameter))
    readers = (TensorMemory(types, layout, find_alike) for layout in LAYOUTS)
    return next((reader for reader in readers if _sees_all(reader, make, parameter)), None)


def _sees_all(memory: TensorMemory, zeros: Zeros, parameter: type) -> bool:
    return _devices_differ(memory, zeros) and all(
        _is_seen(memory, variant(zeros(2, 3)), change, zeros)
        for variant in (*VARIANTS, parameter)
        for change in CHANGES.values()
    )


def _autograd_is_where_expected(zeros: Zeros) -> bool:
    """Before anything follows the pointer: it is null until autograd has something to keep."""
    tensor = zeros(2, 3)
    start = word_at(id(tensor) + _TENSOR)
    if start != getattr(tensor, "_cdata", 0) or word_at(start + AUTOGRAD * _WORD) != 0:
        return False
    tensor.requires_grad_()
    pointer = word_at(start + AUTOGRAD * _WORD)
    return pointer > 0xFFFF and pointer % _WORD == 0


def _devices_differ(memory: TensorMemory, zeros: Zeros) -> bool:
    """The library does not let every tensor change its device; that it tells them apart is seen on
    two."""
    here, elsewhere = zeros(2, 3), zeros(2, 3).to("meta")
    if memory(here) is None or memory(elsewhere) is None:
        return False
    at = memory.layout.dtype_and_device * _WORD
    addresses = cast("list[int]", [getattr(each, "_cdata") for each in (here, elsewhere)])  # noqa: B009
    return word_at(addresses[0] + at) != word_at(addresses[1] + at)


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _with_history(tensor: Tensor) -> Tensor:
    """One that autograd knows, though it does not require grad."""
    return tensor.requires_grad_(True).requires_grad_(False)


def _complex(tensor: Tensor) -> Tensor:
    """One that differs from its conjugate in a bit alone."""
    return tensor.cfloat()


#: Kinds of tensors that changes are tried on.
VARIANTS: Final = (_itself, _with_history, _complex)


def _is_seen(memory: TensorMemory, tensor: Tensor, change: Change, zeros: Zeros) -> bool:
    addresses = memory(tensor)
    if addresses is None:
        return False
    watch = Watch(addresses)
    if not watch.holds():
        return False
    try:
        changes = change(tensor, zeros)
    except RuntimeError:
        return True  # The library does not allow it: so it does not happen.
    return not changes or not watch.holds()


#: Changes a tensor of sizes (2, 3) in place; says whether it did.
Change = Callable[[Tensor, Zeros], bool]


def _put(value: Callable[[Zeros], Tensor]) -> Change:
    def change(tensor: Tensor, zeros: Zeros) -> bool:
        tensor.data = value(zeros)
        return True

    return change


def _in_place(method: Callable[[Tensor], object]) -> Change:
    def change(tensor: Tensor, zeros: Zeros) -> bool:
        method(tensor)
        return True

    return change


def _flip_requires_grad(tensor: Tensor, zeros: Zeros) -> bool:
    tensor.requires_grad_(not getattr(tensor, "requires_grad"))  # noqa: B009
    return True


def _make_it_a_result(tensor: Tensor, zeros: Zeros) -> bool:
    """It requires grad by what it was made from, if it did not before."""
    before = bool(getattr(tensor, "requires_grad"))  # noqa: B009
    tensor.add_(zeros(2, 3).requires_grad_())
    return not before


#: Everything that a guard on a tensor must not overlook.
CHANGES: Final[dict[str, Change]] = {
    "dtype": _put(lambda zeros: zeros(2, 3).double()),
    "device": _put(lambda zeros: zeros(2, 3).to("meta")),
    "sizes": _put(lambda zeros: zeros(2, 4)),
    "rank": _put(lambda zeros: zeros(2, 3, 1)),
    "strides": _put(lambda zeros: zeros(3, 2).t()),
    "negative bit": _put(lambda zeros: zeros(2, 3).cfloat().conj().imag),
    "conjugate bit": _put(lambda zeros: zeros(2, 3).cfloat().conj()),
    "transposed": _in_place(lambda tensor: tensor.t_()),
    "one dimension more": _in_place(lambda tensor: tensor.unsqueeze_(0)),
    "resized": _in_place(lambda tensor: tensor.resize_(5, 3)),
    "restrided": _in_place(lambda tensor: tensor.as_strided_((2, 3), (1, 2))),
    "requires grad": _flip_requires_grad,
    "made by a function": _make_it_a_result,
}
