"""Values that are elements of a buffer as they are: views that torch copies, and that the library
can read where they lie."""

from __future__ import annotations

from anyshape.loops.expr import position_scalar
from anyshape.loops.linear import coefficient
from anyshape.ops.lowering.values import Lowering, Memory, Value
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import symbols_of, terms_of


def memory_read(c: Lowering, value: Value) -> Memory | None:
    """Where all elements of a value are now, if they need not be stored for that: its own memory,
    or what a copy would be made of (`attention.transpose(1, 2).contiguous()`)."""
    if value.memory is not None:
        return value.memory
    index = c.probe(value)
    element = value.at(index)
    if element.op != "load" or element.args or element.dtype != value.dtype:
        return None
    buffer, rest = element.data
    strides: list[Size] = []
    for position in index:
        stride = _stride(rest, position)
        # torch has no tensors that go backwards.
        if stride is None or not _is_no_less_than_0(stride):
            return None
        strides.append(stride)
        rest = rest - stride * position
    # What is left is the same for all elements, and made of sizes: no index that a tensor has.
    axes = frozenset[Symbol]().union(*map(symbols_of, index)) & c.values.extents.keys()
    left = symbols_of(rest)
    if left & axes or any(position_scalar(each) is not None for each in left):
        return None
    return Memory(buffer, tuple(strides), rest)


def _stride(address: Size, position: Size) -> Size | None:
    """How far apart neighbours of a dimension are, if that is the same everywhere."""
    # One that is made of several axes has neighbours along the innermost.
    inner = [each for each in symbols_of(position) if _factor(position, each) == 1]
    return 0 if isinstance(position, int) else _factor(address, inner[0]) if inner else None


def _is_no_less_than_0(size: Size) -> bool:
    """Sizes are not, so what adds them up is not."""
    return all(number >= 0 for _, number in terms_of(size))


def _factor(size: Size, axis: Symbol) -> Size | None:
    found = coefficient(size, axis)
    return None if found is None else found[0]
