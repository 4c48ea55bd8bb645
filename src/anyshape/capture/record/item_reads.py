"""Reads of the data in a tensor: numbers that the graph computes, or decisions on them.

An integer is a symbol without a value of its own (`u0`), a float a traced one. Both stay in the
graph until the program asks something of them that nothing known answers. What Python must know at
once, a truth, ends the segment.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.symbolic import EVERYTHING, Range

Recorder = Any

#: A list of so many numbers is taken apart; a longer one is data, not a handful of sizes.
_MOST_LISTED: Final = 256

_RANGES: Final[dict[torch.dtype, Range]] = {
    torch.uint8: Range(0, 255),
    torch.int8: Range(-128, 127),
    torch.uint16: Range(0, 2**16 - 1),
    torch.int16: Range(-(2**15), 2**15 - 1),
    torch.uint32: Range(0, 2**32 - 1),
    torch.int32: Range(-(2**31), 2**31 - 1),
    torch.int64: Range(-(2**63), 2**63 - 1),
}


#: They make a tensor of their arguments alone.
_MAKERS: Final = frozenset(
    {torch.arange, torch.tensor, torch.zeros, torch.ones, torch.full, torch.eye, torch.linspace}
)


def is_constant(recorder: Recorder, args: tuple[Any, ...]) -> bool:
    """Whether a tensor that is read was made of constants, and nothing has taken it since: what is
    in it is no data."""
    if len(args) != 1:
        return False
    known = recorder.known(args[0])
    node = known.node
    if known.path is not None or type(node) is tuple or known.segment is not recorder.segment:
        return False
    return node.target in _MAKERS and not node.users and not node.all_input_nodes


def _item(recorder: Recorder, tensor: torch.Tensor) -> object:
    value = tensor.item()
    node = recorder.graph.call_method("item", (recorder.node(tensor),))
    return number_read(recorder, tensor.dtype, node, value)


def number_read(recorder: Recorder, dtype: torch.dtype, node: object, value: object) -> object:
    if type(value) is int:
        return recorder.new_integer(node, value, _RANGES.get(dtype, EVERYTHING))
    if type(value) is float:
        return recorder.new_float(node, value)
    if type(value) is bool:
        recorder.branch_on_number(node, value, "the program reads a bool from a tensor")
        return value
    raise AbortCapture(f"a {type(value).__name__} is read from a tensor")


def _converted(function: Callable[[Any], object]) -> Callable[..., object]:
    """`int(tensor)`, `float(tensor)`."""

    def read(recorder: Recorder, tensor: torch.Tensor) -> Any:
        if tensor.is_complex():
            raise AbortCapture("a complex number is read from a tensor")
        value = function(tensor)
        node = recorder.graph.call_function(function, (recorder.node(tensor),))
        return number_read(recorder, tensor.dtype, node, value)

    return read


def _index(recorder: Recorder, tensor: torch.Tensor) -> object:
    value = operator.index(tensor)
    node = recorder.graph.call_function(int, (recorder.node(tensor),))
    return number_read(recorder, tensor.dtype, node, value)


def _truth(recorder: Recorder, tensor: torch.Tensor) -> bool:
    value = bool(tensor)
    node = recorder.graph.call_function(bool, (recorder.node(tensor),))
    recorder.branch_on_number(node, value, "the program branches on a tensor's value")
    return value


def _answer(function: Callable[..., bool], name: str) -> Callable[..., Any]:
    """A function of tensors that gives a truth."""

    def read(recorder: Recorder, *args: object, **kwargs: object) -> bool:
        value = function(*args, **kwargs)
        nodes = [recorder.node(x) if isinstance(x, torch.Tensor) else _plain(x) for x in args]
        named = {key: _plain(x) for key, x in kwargs.items()}
        node = recorder.graph.call_function(function, tuple(nodes), named)
        recorder.branch_on_number(node, value, f"the program asks `{name}`")
        return value

    return read


def _plain(value: object) -> object:
    if type(value) in (int, float, bool, type(None)):
        return value
    raise AbortCapture(f"a {type(value).__name__} in a question about data")


def _contains(recorder: Recorder, tensor: torch.Tensor, item: object) -> bool:
    return _answer(operator.contains, "in")(recorder, tensor, item)


def _tolist(recorder: Recorder, tensor: torch.Tensor) -> object:
    if tensor.dim() == 0:
        return _item(recorder, tensor)
    if tensor.dtype is torch.bool or tensor.is_complex():
        raise AbortCapture(f"a list is made of a tensor of {tensor.dtype}")
    if tensor.numel() > _MOST_LISTED:
        raise AbortCapture(f"a list is made of a tensor of {tensor.numel()} elements")
    length = recorder.meta(tensor).shape[0]
    count = (
        recorder.tracer.specialize_size(length, "a list is made of a tensor") if tensor.dim() else 0
    )
    values = [recorder.run(torch.Tensor.__getitem__, (tensor, index), {}) for index in range(count)]
    return [_tolist(recorder, value) for value in values]


#: What gives a plain truth, which native code may have as well.
TRUTHS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    torch.Tensor.__bool__: _truth,
    torch.Tensor.is_nonzero: _truth,
    torch.is_nonzero: _truth,
    torch.Tensor.__contains__: _contains,
    torch.Tensor.equal: _answer(torch.equal, "equal"),
    torch.equal: _answer(torch.equal, "torch.equal"),
    torch.Tensor.allclose: _answer(torch.allclose, "allclose"),
    torch.allclose: _answer(torch.allclose, "torch.allclose"),
}

DATA_READERS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    torch.Tensor.item: _item,
    torch.Tensor.tolist: _tolist,
    torch.Tensor.__int__: _converted(int),
    torch.Tensor.__float__: _converted(float),
    torch.Tensor.__index__: _index,
    **TRUTHS,
}
