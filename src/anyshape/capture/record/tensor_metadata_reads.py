"""Reading a tensor without computing: its sizes (in symbols), constants of it, and its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.record.data_dependent_shapes import is_jagged
from anyshape.capture.tracer import Tracer
from anyshape.ops.layouts import contiguity
from anyshape.ops.meta import Meta, channels_last, contiguous
from anyshape.symbolic import Size, eq, or_
from anyshape.symbolic.expr import symbols_of


class Reader(Protocol):
    """The part of the recorder that reading needs."""

    tracer: Tracer
    #: whether the program asks how tensors lie in memory
    asks_for_layout: bool

    def meta(self, tensor: torch.Tensor) -> Meta: ...

    def exact_strides(self, tensor: torch.Tensor) -> tuple[Size, ...] | None:
        """The strides of a tensor as expressions that hold for all sizes of this entry."""
        ...

    def pin_layouts(self) -> None:
        """Guard strides, offset and flags of every input exactly."""
        ...


def shape(reader: Reader, tensor: torch.Tensor) -> torch.Size:
    if is_jagged(type(tensor)):
        raise AbortCapture("the shape of a jagged tensor")
    sizes = reader.meta(tensor).shape
    integer = reader.tracer.integer
    return torch.Size([size if type(size) is int else integer(size) for size in sizes])


def _size(reader: Reader, tensor: torch.Tensor, dim: object = None) -> object:
    if dim is None:
        return shape(reader, tensor)
    return shape(reader, tensor)[_dim(reader, tensor, dim)]


def _dim(reader: Reader, tensor: torch.Tensor, dim: object) -> int:
    if type(dim) is int and -tensor.dim() <= dim < tensor.dim():
        return dim
    raise AbortCapture("a dimension that is not a plain integer in range")


def _numel(reader: Reader, tensor: torch.Tensor) -> Any:
    return reader.tracer.integer(reader.meta(tensor).numel)


def _length(reader: Reader, tensor: torch.Tensor) -> object:
    if tensor.dim() == 0:
        raise AbortCapture("the length of a tensor without dimensions")
    return reader.tracer.integer(reader.meta(tensor).shape[0])


def _bytes(reader: Reader, tensor: torch.Tensor) -> object:
    return _numel(reader, tensor) * tensor.element_size()


def _at_these_sizes(reader: Reader, tensor: torch.Tensor, what: str) -> None:
    meta = reader.meta(tensor)
    for size in meta.shape:
        for symbol in symbols_of(size):
            whole = reader.tracer.facts.symbols[symbol.name]
            reader.tracer.decide(eq(whole, reader.tracer.value_of(whole)), what)


def _stride(reader: Reader, tensor: torch.Tensor, dim: object = None) -> object:
    found = reader.exact_strides(tensor)
    if found is None:
        # Torch's strides follow no formula at the sizes 0 and 1, so a program that reads them gets
        # these sizes only.
        _at_these_sizes(reader, tensor, "the program reads strides")
        reader.pin_layouts()
        found = tensor.stride()
    strides = tuple(map(reader.tracer.integer, found))
    return strides if dim is None else strides[_dim(reader, tensor, dim)]


def _offset(reader: Reader, tensor: torch.Tensor) -> object:
    _at_these_sizes(reader, tensor, "the program reads the offset in the storage")
    reader.pin_layouts()
    return tensor.storage_offset()


def _is_contiguous(
    reader: Reader,
    tensor: torch.Tensor,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> bool:
    reader.asks_for_layout = True
    real = tensor.is_contiguous(memory_format=memory_format)
    meta = reader.meta(tensor)
    layout = contiguous(meta.rank)
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        if meta.rank != (4 if memory_format is torch.channels_last else 5):
            return real
        layout = channels_last(meta.rank)
        # Of nothing, contiguous ones are so in any order; here torch looks at the strides.
        if reader.tracer.decide(eq(meta.numel, 0), "the program asks for the layout"):
            _at_these_sizes(reader, tensor, "the program asks for the layout")
            reader.pin_layouts()
            return real
    elif memory_format is not torch.contiguous_format:
        raise AbortCapture(f"is_contiguous({memory_format})")
    said = reader.tracer.decide(
        or_(eq(meta.numel, 0), contiguity(meta, layout)), "the program asks for the layout"
    )
    if said is not real:
        _at_these_sizes(reader, tensor, "the program asks for the layout")
    return real


def _flag(name: str) -> Callable[..., object]:
    """A bit of a tensor that says how its data is read: kept by operations, guarded on inputs."""

    def read(reader: Reader, tensor: torch.Tensor) -> bool:
        reader.meta(tensor)
        reader.pin_layouts()
        return getattr(tensor, name)()

    return read


def _getter(name: str) -> Callable[..., object]:
    return getattr(torch.Tensor, name).__get__


#: What depends on sizes: read from the symbolic shape.
SIZE_READS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    _getter("shape"): shape,
    torch.Tensor.size: _size,
    torch.Tensor.numel: _numel,
    torch.Tensor.nelement: _numel,
    torch.numel: _numel,
    torch.Tensor.__len__: _length,
    _getter("nbytes"): _bytes,
    torch.Tensor.stride: _stride,
    torch.Tensor.storage_offset: _offset,
    torch.Tensor.is_contiguous: _is_contiguous,
    torch.Tensor.is_conj: _flag("is_conj"),
    torch.Tensor.is_neg: _flag("is_neg"),
    torch.is_conj: _flag("is_conj"),
    torch.is_neg: _flag("is_neg"),
}

#: Attributes of tensors that the guards of a tensor fix, or that follow from the operations.
CONSTANT_ATTRIBUTES: Final = (
    "dtype",
    "device",
    "layout",
    "ndim",
    "requires_grad",
    "is_cuda",
    "is_cpu",
    "is_meta",
    "is_mps",
    "is_xpu",
    "is_sparse",
    "is_quantized",
    "is_nested",
    "is_mkldnn",
    "itemsize",
    "names",
)

_CONSTANT_METHODS: Final = (
    "dim",
    "ndimension",
    "element_size",
    "is_floating_point",
    "is_complex",
    "is_signed",
    "get_device",
    "type",
)

CONSTANT_READS: Final[frozenset[Callable[..., Any]]] = frozenset(
    [
        *(_getter(name) for name in CONSTANT_ATTRIBUTES if hasattr(torch.Tensor, name)),
        *(getattr(torch.Tensor, name) for name in _CONSTANT_METHODS if name != "type"),
        torch.is_floating_point,
        torch.is_complex,
        torch.is_tensor,
        torch.is_signed,
        torch.result_type,
        torch.get_device,
    ]
)

#: What depends on the rank, or on sizes.
SHAPE_READS: Final = frozenset(
    {*SIZE_READS, torch.Tensor.dim, torch.Tensor.ndimension, _getter("ndim")}
)

_DATA_METHODS: Final = (
    "item",
    "tolist",
    "__bool__",
    "__int__",
    "__float__",
    "__complex__",
    "__index__",
    "__contains__",
    "__repr__",
    "__format__",
    "__array__",
    "numpy",
    "data_ptr",
    "is_nonzero",
    "equal",
    "allclose",
    "is_set_to",
    "untyped_storage",
    "storage",
    "_typed_storage",
    "__dlpack__",
    "__dlpack_device__",
    "__reduce_ex__",
    "__deepcopy__",
    "__hash__",
    "is_pinned",
    "is_shared",
    "_is_view",
)

#: What reads data (or memory addresses): Python goes on with a value that no guard can fix.
DATA_READS: Final[frozenset[Callable[..., Any]]] = frozenset(
    [
        *(getattr(torch.Tensor, name) for name in _DATA_METHODS if hasattr(torch.Tensor, name)),
        *(_getter(name) for name in ("_version", "grad_fn", "_base", "output_nr", "_cdata")),
        torch.equal,
        torch.allclose,
        torch.is_nonzero,
        torch.is_same_size,
    ]
)

#: What they are about if not the elements, and what a person can do about that.
_OF_AUTOGRAD: Final = (
    "the graph of autograd",
    "read it outside of what is compiled; where no line of the program does, a full backward hook "
    "of a module does (register_full_backward_hook): `register_hook` on what is given spares it",
)
_OF_WRITES: Final = ("how often a tensor was written to", "ask it outside of what is compiled")
_OF_MEMORY: Final = ("the memory of a tensor", "ask for it outside of what is compiled")
_OF_DATA: Final = (
    "the data of a tensor",
    "keep the value in a tensor (torch.where instead of `if`)",
)
_ABOUT: Final = {
    **dict.fromkeys(("grad_fn", "output_nr"), _OF_AUTOGRAD),
    "_version": _OF_WRITES,
    **dict.fromkeys(("data_ptr", "is_set_to", "untyped_storage", "storage"), _OF_MEMORY),
    **dict.fromkeys(("_typed_storage", "_cdata", "_base", "_is_view", "is_shared"), _OF_MEMORY),
}


def read_by(name: str) -> tuple[str, str]:
    """What a read of `DATA_READS` is about, and what spares it."""
    return _ABOUT.get(name, _OF_DATA)


_BACKWARD: Final = (
    "backward",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "retain_grad",
    "share_memory_",
    "pin_memory",
)

#: What changes more than the tensors that it is given.
NOT_RECORDED: Final[frozenset[Callable[..., Any]]] = frozenset(
    [
        *(getattr(torch.Tensor, name) for name in _BACKWARD if hasattr(torch.Tensor, name)),
        torch.autograd.backward,
        torch.autograd.grad,
    ]
)
