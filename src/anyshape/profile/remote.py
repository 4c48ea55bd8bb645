"""The profile that machines share: one file behind any URL that fsspec opens.

Object stores have no locks. Two machines that write at the same moment may lose what one of them
wrote; since each always brings all that its own disk has, and merging twice changes nothing, the
next write heals it. All of this may take long, or for ever: callers set a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from anyshape.profile import store
from anyshape.profile.profiles import MOST_BYTES_READ, Damaged, Profile, from_json

#: Where files are on this machine, or mounted: written like any local profile, under a lock.
_LOCAL: Final = ("file://", "local://")


def fetch(url: str) -> Profile:
    """What the URL has; nothing if there is none. Raises `TooNew`, and what fsspec raises."""
    local = _local_file(url)
    if local is not None:
        return store.read(local)
    files, path = _opened(url)
    try:
        return from_json(files.cat_file(path, 0, MOST_BYTES_READ + 1))
    except (FileNotFoundError, Damaged):
        return Profile()  # half of a write is seen where writes are not atomic


def send(url: str, known: Profile) -> None:
    """Merge what is known here into what the URL has."""
    local = _local_file(url)
    if local is not None:
        store.update(local, lambda before: before.united(known))
        return
    text = fetch(url).united(known).to_json()
    files, path = _opened(url)
    parent = path.rpartition("/")[0]
    if parent:
        files.makedirs(parent, exist_ok=True)
    files.pipe_file(path, text.encode())


def file_at(url: str) -> str:
    """The URL of the file itself: a URL without `.json` names a folder."""
    if url.endswith(".json"):
        return url
    return url + ("" if url.endswith("/") else "/") + store.FILE_NAME


def _local_file(url: str) -> Path | None:
    for scheme in _LOCAL:
        if url.startswith(scheme):
            return Path(file_at(url).removeprefix(scheme))
    return None


def _opened(url: str) -> tuple[Any, str]:
    # Many programs never share a profile, and loading it takes longer than all of this package.
    import fsspec.core  # pyright: ignore[reportMissingTypeStubs] it has none

    open_url = cast("Callable[[str], tuple[Any, str]]", fsspec.core.url_to_fs)  # pyright: ignore[reportUnknownMemberType] untyped
    return open_url(file_at(url))
