"""Functions that a watched program has made, as the program has written them.

They look into hooks at each operation. To call them that is all the same; a compiler that reads
their code is to read the program's.
"""

from __future__ import annotations

import copy
import functools
import types
from typing import Any, Final

from torch.nn.attention import flex_attention as flex

from anyshape.capture.rewrite.instrument import Watched, is_instrumented, own_cells, own_code

#: What has the code of functions read that it is given, or that a mask is made of.
_READERS: Final = frozenset({flex.flex_attention})


def given_to(
    function: object, args: tuple[Any, ...], kwargs: dict[str, Any], watched: Watched
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call that nobody watches."""
    if type(function) is not types.FunctionType or function not in _READERS:
        return args, kwargs
    made = _AsWritten(watched)
    return tuple(map(made.of, args)), {name: made.of(value) for name, value in kwargs.items()}


class _AsWritten:
    """Of the values of one call; what is not made anew is what it was."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        #: by identity: itself, which is kept, and what stands for it
        self._made: dict[int, tuple[object, Any]] = {}

    def of(self, value: Any) -> Any:
        if id(value) not in self._made:
            self._made[id(value)] = value, value
            self._made[id(value)] = value, self._of(value)
        return self._made[id(value)][1]

    def _of(self, value: Any) -> Any:
        if type(value) is functools.partial:
            own = self.of(value.func)
            if own is value.func:
                return value
            return functools.partial(own, *value.args, **value.keywords)
        if type(value) is tuple:
            parts = tuple(map(self.of, value))
            return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
        if type(value) is flex.BlockMask:
            own = self.of(value.mask_mod)
            if own is value.mask_mod:
                return value
            made = copy.copy(value)
            made.mask_mod = own
            return made
        return self._function(value) if type(value) is types.FunctionType else value

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        code, cells = function.__code__, own_cells(function)
        if is_instrumented(code):
            found = own_code(self._watched, function)
            if found is None or set(found.co_freevars) != set(cells):
                return function
            code = found
        inner = {name: self._cell(cell) for name, cell in cells.items()}
        if code is function.__code__ and all(inner[name] is cells[name] for name in cells):
            return function
        closure = tuple(inner[name] for name in code.co_freevars)
        made = types.FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, closure
        )
        made.__kwdefaults__, made.__dict__ = function.__kwdefaults__, dict(function.__dict__)
        return made

    def _cell(self, cell: types.CellType) -> types.CellType:
        """With functions in it as they were written; such a one is none that is written to."""
        try:
            held = cell.cell_contents
        except ValueError:  # empty
            return cell
        own = self.of(held)
        return cell if own is held else types.CellType(own)
