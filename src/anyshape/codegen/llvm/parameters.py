"""What the function of a part of a kernel is given."""

from __future__ import annotations

from typing import Final

PARAMETERS: Final = (
    "ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch, i64 %lo, i64 %hi, i64 %thread, i64 %team"
)
