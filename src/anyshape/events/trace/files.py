"""The files of a trace: one pair for each process and rank, opened when there is something to say.

A process may learn its rank late, and may be forked: whoever writes asks for the files of the
moment.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

#: The rank of this process among others, if there are others.
Rank = Callable[[], int | None]


def file_name(prefix: str, rank: int | None, ending: str) -> str:
    """Names of ranks are found by `tlparse --all-ranks-html` in this form."""
    of_rank = "" if rank is None else f"rank_{rank}_"
    return f"{prefix}_{of_rank}{secrets.token_hex(4)}.{ending}"


class LazyFile:
    """A text file that appears with its first line."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._file: TextIO | None = None
        self._waiting: list[str] = []
        self._process = os.getpid()

    @property
    def is_mine(self) -> bool:
        """False in a forked process: the file belongs to the parent."""
        return self._process == os.getpid()

    @property
    def write(self) -> Callable[[str], None]:
        """Takes a text, for the next flush."""
        return self._waiting.append

    def flush(self) -> None:
        """Put what was written on disk: a program that crashes leaves all that it said."""
        if not self._waiting:
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Never into a file that is there: two processes may have drawn the same name.
            self._file = self._path.open(
                "x", encoding="utf-8", errors="backslashreplace", newline=""
            )
        text = "".join(self._waiting)
        self._waiting.clear()
        self._file.write(text)
        self._file.flush()

    def close(self) -> None:
        if self._file is not None and self.is_mine:
            self.flush()
            self._file.close()
        self._file = None
