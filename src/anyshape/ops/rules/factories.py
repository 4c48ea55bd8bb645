"""Tensors from nothing: factories and their `*_like` and `new_*` forms."""

from __future__ import annotations

from anyshape.ops.op import Op

ROWS: tuple[Op, ...] = ()
