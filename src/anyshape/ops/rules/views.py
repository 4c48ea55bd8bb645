"""Views: the same storage seen with other sizes and strides."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
