"""Operators that copy, cast or move: the same values elsewhere or in another dtype."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
