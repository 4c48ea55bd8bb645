"""Many tensors compared with what guards say of them in one call of native code.

What native code compares with is a table of the words of memory that tensors had for which the
guards held when each was looked at (`tensor_impl_layout.py` says which words those are). So it says
yes for tensors that are the same in all of them, and nothing about others: the guards are looked at
again then, and the table is written anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final, cast

from anyshape.guards.fast_path.memory_watch import word_at
from anyshape.guards.fast_path.tensor_impl_layout import (
    AUTOGRAD,
    CHANGES,
    MADE_BY,
    VARIANTS,
    TensorMemory,
    Zeros,
)

#: `alike(address of a table, *tensors)`: see `codegen/host/tensor_match.py`
Alike = Callable[..., bool]

_WORD: Final = 8
#: Words of the table before the first row, and of a row; where sizes and strides begin in it.
HEADER, ROW, SIZES, STRIDES = 8, 16, 5, 10

#: Bits of a word that mean something: the last of dtype and device is padding, which the library
#: leaves as it finds it in memory.
MEANT: Final = {"rank": -1, "dtype": 2**63 - 1, "keys": -1}

_MOST_LEARNT: Final = 32


class TensorMatch:
    """The tensors of one entry, in order."""

    def __init__(self, memory: TensorMemory, alike: Alike, count: int) -> None:
        self._memory = memory
        layout = memory.layout
        places = (layout.rank, layout.sizes, layout.strides, layout.dtype_and_device, layout.keys)
        words = [*places, AUTOGRAD, MADE_BY, layout.requires_grad]
        self._table = array("q", [_WORD * word for word in words])
        self._table.extend([0] * (ROW * count))  # No type is at address 0: nothing is alike.
        #: what generated code calls `alike` with
        self.address: Final = self._table.buffer_info()[0]
        self.alike: Final = alike
        self._learnt = 0

    def learn(self, *tensors: Any) -> None:
        """The guards hold for these."""
        self._learnt += 1
        if self._learnt > _MOST_LEARNT:
            return  # Their words differ in what guards do not ask for.
        rows = [row for tensor in tensors if (row := self._row(tensor)) is not None]
        if len(rows) < len(tensors):
            self._table[HEADER] = 0
            return
        self._table[HEADER:] = array("q", [word for row in rows for word in row])

    def _row(self, tensor: Any) -> list[int] | None:
        if self._memory(tensor) is None:
            return None
        kind = cast("type[object]", type(tensor))
        layout, start = self._memory.layout, tensor._cdata
        dtype, keys = (
            word_at(start + _WORD * place) for place in (layout.dtype_and_device, layout.keys)
        )
        sizes, strides = list(tensor.shape), list(tensor.stride())
        rank = len(sizes)
        row = [id(kind), rank, dtype & MEANT["dtype"], _signed(keys), int(tensor.requires_grad)]
        room = [0] * (STRIDES - SIZES - rank)
        row += [*sizes, *room, *strides, *room]
        return row + [0] * (ROW - len(row))


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def match_sees_all(
    memory: TensorMemory,
    alike: Alike,
    zeros: Callable[..., object],
    parameter: Callable[..., Any],
) -> bool:
    """Whether native code sees every change of a tensor that guards must not overlook."""
    make = cast("Zeros", zeros)
    for variant in (*VARIANTS, parameter):
        for change in CHANGES.values():
            tensor = variant(make(2, 3))
            match = TensorMatch(memory, alike, 1)
            match.learn(tensor)
            if not alike(match.address, tensor):
                return False
            try:
                changes = change(tensor, make)
            except RuntimeError:
                continue  # The library does not allow it: so it does not happen.
            if changes and alike(match.address, tensor):
                return False
    return True
