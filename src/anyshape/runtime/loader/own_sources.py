"""Which version of our own sources runs: code that others made is not taken for theirs.

Their contents count, so that machines agree. To read them takes longer than to load code: what came
of it is kept on disk, under the times and sizes of the files.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from anyshape.runtime.loader.disk_cache import DiskCache, key_of

_PACKAGE: Final = Path(__file__).parents[2]


def sources_hash(cache: DiskCache, *parts: str) -> str:
    """Of these folders and files of the package: what is in them."""
    return _kept_hash(cache, parts)


@functools.lru_cache(maxsize=32)
def _kept_hash(cache: DiskCache, parts: tuple[str, ...]) -> str:
    key = key_of("sources", str(_PACKAGE), *_files(parts))
    kept = cache.read(key)
    if kept is not None:
        return kept.decode()
    found = contents_hash(*parts)
    cache.write(key, found.encode())
    return found


@functools.cache
def contents_hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        place = _PACKAGE / part
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(str(file.relative_to(_PACKAGE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _files(parts: tuple[str, ...]) -> Iterator[str]:
    """Names, sizes and times. An edit changes it, and so does an upgrade; a new process does
    not."""
    for part in parts:
        place = os.path.join(_PACKAGE, part)
        if os.path.isdir(place):
            yield from sorted(_in_folder(place, part))
        else:
            yield _line(part, os.stat(place))


def _in_folder(place: str, name: str) -> Iterator[str]:
    """Not by `Path.rglob`, which takes five times as long: this runs in every first call."""
    with os.scandir(place) as entries:
        for entry in entries:
            inner = f"{name}/{entry.name}"
            if entry.name.endswith(".py"):
                yield _line(inner, entry.stat())
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _in_folder(entry.path, inner)


def _line(name: str, found: os.stat_result) -> str:
    # Installers set the time of a file as they like; when that was done, they do not.
    return f"{name} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
