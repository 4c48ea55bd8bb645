"""Figures in words, for terminals and pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale or unit == "us":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError("the last unit takes all")


def ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines; the first two columns are words."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if number > 1 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
