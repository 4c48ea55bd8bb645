"""Joining, splitting and rearranging: cat, stack, split, chunk, pad, roll, flip, repeat."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
