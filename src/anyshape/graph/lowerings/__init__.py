"""What operators are at an index: one row an operator, one file a family.

A row is a function of the lowering and of the operator's arguments by the names of its signature
(`ops/signature.py`), with a `Value` for each tensor, a size for each integer and a `NumberRef` for
each float that the graph computes. It takes those that it has code for, or all of them by `**_`:
calls that give another one are torch's. It gives the value of the result, or values nested as the
result is; or it raises `NotLowered`. What it gives is compared with the meta that the capture has:
another dtype or other sizes, and torch is called.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from anyshape.graph.lowerings.table import ROWS, VIEWS, VIEWS_OF_EACH, WRITES, for_row

#: A new family is a new file beside this one.
FAMILIES: Final = tuple(
    import_module(f"{__name__}.{module.name}")
    for module in iter_modules(__path__)
    if module.name != "table"
)

__all__ = ["FAMILIES", "ROWS", "VIEWS", "VIEWS_OF_EACH", "WRITES", "for_row"]
