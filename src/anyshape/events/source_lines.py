"""Lines of the program, as far as they can be read."""

from __future__ import annotations

import linecache


def source_lines(file: str) -> list[str]:
    """All lines; none where there is no such file, or no file could have the name."""
    try:
        return linecache.getlines(file)
    except ValueError:  # a zero byte, or half a character
        return []


def source_line(file: str, line: int) -> str:
    lines = source_lines(file)
    return lines[line - 1].strip() if 1 <= line <= len(lines) else ""
