"""A profile in a file that many processes write.

A write takes the lock, reads what is there, merges, writes a file beside it and puts that in its
place. So whoever reads finds a whole file without a lock, and a process that is killed loses what
it was about to write, nothing else: the system frees its lock, and the next write replaces the file
it left behind.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from anyshape.profile.profiles import MOST_BYTES_READ, Damaged, Profile, TooNew, from_json

FILE_NAME: Final = "profile.json"


def file_in(cache_dir: str) -> Path:
    return Path(cache_dir) / FILE_NAME


def read_exactly(file: Path) -> Profile:
    """What the file has; nothing if there is none. Raises `Damaged` and `TooNew`."""
    try:
        with file.open("rb") as opened:
            return from_json(opened.read(MOST_BYTES_READ + 1))
    except FileNotFoundError:
        return Profile()


def read(file: Path) -> Profile:
    """The same, but a damaged file is set aside, with a warning."""
    try:
        return read_exactly(file)
    except Damaged:
        with _locked(file):
            # Somebody else may have set it aside meanwhile.
            return _read_or_set_aside(file)


def update(file: Path, change: Callable[[Profile], Profile]) -> Profile:
    """Change what the file has, as the only one who does; returns what it has now. Raises `TooNew`,
    and leaves such a file alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file):
        before = _read_or_set_aside(file)
        after = change(before)
        if after is not before:
            _replace(file, after.to_json())
    return after


@contextmanager
def _locked(file: Path) -> Generator[None]:
    # A file of its own, that stays: the profile is replaced by another file while the lock is held.
    descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _replace(file: Path, text: str) -> None:
    # Only who holds the lock writes here: one name is enough, and nothing piles up.
    beside = file.with_suffix(".new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, file)
    except OSError:  # a full disk: what was begun is of no use
        with suppress(OSError):
            beside.unlink()
        raise


def _read_or_set_aside(file: Path) -> Profile:
    try:
        return read_exactly(file)
    except Damaged as error:
        aside = file.with_suffix(".damaged")
        with suppress(FileNotFoundError):
            os.replace(file, aside)
        warnings.warn(
            f"anyshape: the profile {file} is damaged ({error}). It was renamed to {aside.name}, "
            "and sizes are learned anew.",
            stacklevel=2,
        )
        return Profile()


__all__ = ["FILE_NAME", "Damaged", "TooNew", "file_in", "read", "read_exactly", "update"]
