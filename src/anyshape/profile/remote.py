"""The profile that machines share: one file behind any URL that fsspec opens.

Object stores have no locks. Two machines that write at the same moment may lose what one of them
wrote; since each always brings all that its own disk has, and merging twice changes nothing, the
next write heals it. All of this may take long, or for ever: callers set a limit.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from anyshape.profile import store
from anyshape.profile.profiles import MOST_BYTES_READ, Damaged, Profile, from_json
from anyshape.shared_cache import object_store
from anyshape.shared_cache.signature import BadSignature, signed, verified


def fetch(url: str, key: bytes | None = None) -> Profile:
    """What the URL has; nothing if there is none. With a key, raises `BadSignature` unless it was
    signed with it. Raises `TooNew`, and what fsspec raises."""
    local = _local_file(url)
    if local is not None and key is None:
        return store.read(local)
    data = object_store.read(file_at(url))
    if data is None:
        return Profile()
    if key is not None:
        data = verified(key, store.FILE_NAME, data)
    try:
        return from_json(data[: MOST_BYTES_READ + 1])
    except Damaged:
        return Profile()  # half of a write is seen where writes are not atomic


def send(url: str, known: Profile, key: bytes | None = None) -> None:
    """Merge what is known here into what the URL has."""
    local = _local_file(url)
    if local is not None and key is None:
        store.update(local, lambda before: before.united(known))
        return
    with suppress(BadSignature):  # what nobody with the key wrote is written over
        known = fetch(url, key).united(known)
    data = known.to_json().encode()
    object_store.write(file_at(url), data if key is None else signed(key, store.FILE_NAME, data))


def file_at(url: str) -> str:
    """The URL of the file itself: a URL without `.json` names a folder."""
    return url if url.endswith(".json") else object_store.below(url, store.FILE_NAME)


def _local_file(url: str) -> Path | None:
    return object_store.local_path(file_at(url))
