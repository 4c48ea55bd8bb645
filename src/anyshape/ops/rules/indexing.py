"""`x[...]` and `x[...] = y`: basic, advanced and boolean indexing."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
