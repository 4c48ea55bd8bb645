"""reshape, view and flatten: a view where the strides allow it, else a copy."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
