"""Convolutions and transposed convolutions of 1 to 3 dimensions."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
