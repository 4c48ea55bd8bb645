"""Pooling of 1 to 3 dimensions, fixed and adaptive."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
