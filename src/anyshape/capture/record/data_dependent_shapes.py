"""Tensors and operations whose shapes nobody can say beforehand.

A sparse or jagged tensor, and whatever an operation without a shape rule returns, is described by
its form: class, dtype, number of dimensions, order in memory. The graph checks that the form is the
same again. The sizes of a dense result are symbols that only the run knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch
from torch.fx.node import has_side_effect

from anyshape.capture.abort import AbortCapture
from anyshape.capture.value_kinds import TENSORS
from anyshape.ops.meta import Dense, Meta, contiguous, of_tensor
from anyshape.ops.runtime_checks import OtherForm, check, is_dense
from anyshape.symbolic import NATURAL, Size

Recorder = Any

_JAGGED: Final = "torch.nested._internal.nested_tensor"

_SPARSE: Final = frozenset(
    {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
)


def is_jagged(kind: type) -> bool:
    return kind.__module__ == _JAGGED and kind.__name__ == "NestedTensor"


def is_opaque(tensor: torch.Tensor) -> bool:
    """Whether shape rules do not apply to it."""
    return tensor.layout in _SPARSE or is_jagged(type(tensor))


class Form(NamedTuple):
    """What stays the same of a result, whatever its sizes."""

    # Plain values: they are written into the code of the graph.
    kind: str
    dtype: str
    device: str
    requires_grad: bool
    rank: int
    layout: str
    #: of a dense tensor, its dimensions from the outermost
    order: tuple[int, ...] | None
    #: of a jagged one, which dimension is
    ragged: int | None

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Form:
        kind = type(tensor)
        opaque = is_opaque(tensor)
        order = None
        if not opaque:
            layout = of_tensor(tensor).layout
            if not isinstance(layout, Dense):
                raise AbortCapture("the result of an operation without a shape rule is not dense")
            order = layout.order
        return cls(
            "Tensor" if kind in TENSORS else kind.__qualname__,
            str(tensor.dtype),
            str(tensor.device),
            tensor.requires_grad,
            tensor.dim(),
            str(tensor.layout),
            order,
            getattr(tensor, "_ragged_idx", None) if opaque else None,
        )

    def has(self, tensor: object) -> bool:
        if not isinstance(tensor, torch.Tensor) or is_opaque(tensor) != (self.order is None):
            return False
        if self.order is not None and tensor.layout is not torch.strided:
            return False
        mine = self._replace(order=None)
        try:
            theirs = Form.of(tensor)
        except AbortCapture:
            return False
        if theirs._replace(order=None) != mine:
            return False
        return self.order is None or is_dense(tensor, self.order)


class HasForm:
    """A guard: whether a tensor has a form."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def __call__(self, tensor: object) -> bool:
        # Attributes of a jagged tensor are read through a function of its class otherwise.
        with torch._C.DisableTorchFunctionSubclass():
            return self._form.has(tensor)


@check
def check_form(value: object, form: Any) -> None:
    """A node of the graph."""
    if form and type(form[0]) is str:
        with torch._C.DisableTorchFunctionSubclass():
            if not Form(*form).has(value):
                raise OtherForm
    elif form is None:
        if value is not None:
            raise OtherForm
    elif not isinstance(value, tuple | list) or len(value) != len(form):
        raise OtherForm
    else:
        for item, each in zip(value, form, strict=True):
            check_form(item, each)


@has_side_effect
def check_same(result: object, argument: object) -> None:
    """A node of the graph: the operation returned its argument when it was captured."""
    if result is not argument:
        raise OtherForm


def form_of(result: object) -> Any:
    if isinstance(result, torch.Tensor):
        return tuple(Form.of(result))
    if result is None:
        return None
    if isinstance(result, tuple | list):
        return tuple(map(form_of, result))
    raise AbortCapture(f"an operation without a shape rule returns a {type(result).__name__}")


def metas_of(recorder: Recorder, result: Any) -> object:
    """Metas for a result with sizes of its own."""
    if isinstance(result, tuple | list):
        return tuple(metas_of(recorder, item) for item in result)
    if result is None:
        return None
    return meta_of(recorder, result)


def meta_of(recorder: Recorder, tensor: torch.Tensor) -> Meta:
    if is_jagged(type(tensor)):
        # Nobody asks: its sizes are not all numbers.
        return Meta((), tensor.dtype, contiguous(0), tensor.device, 0, tensor.requires_grad)
    shape: tuple[Size, ...] = tuple(
        recorder.tracer.new_data_symbol(size, NATURAL) for size in tensor.shape
    )
    if is_opaque(tensor):
        layout: object = contiguous(len(shape))
        return Meta(shape, tensor.dtype, layout, tensor.device, 0, tensor.requires_grad)
    return of_tensor(tensor, shape)


def symbols_of_result(value: object) -> Iterator[Any]:
    if isinstance(value, Meta):
        yield from value.shape
    elif isinstance(value, tuple | list):
        for item in value:
            yield from symbols_of_result(item)


def is_jagged_method(function: object) -> bool:
    qualified = getattr(function, "__qualname__", "")
    return getattr(function, "__module__", None) == _JAGGED and qualified.startswith(
        "NestedTensor."
    )


def has_own_method(tensor: torch.Tensor, name: str) -> bool:
    """Whether it is a jagged tensor, whose class defines it."""
    return is_jagged(type(tensor)) and callable(vars(type(tensor)).get(name))
