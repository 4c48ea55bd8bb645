"""Bytes by key in a private folder that processes share: what was built once is found again.

Who reads takes no lock: a file appears under its name only when it is whole, and says its own
checksum. A damaged one is removed and counts as missing. Nothing is read from a folder that another
user owns or may write to: it becomes machine code in this process.

All failures of the disk mean "not there" and "not kept", never an error.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from anyshape.runtime.loader.key_lock import KeyLock, try_lock

_MAGIC: Final = b"anyshape native 1\n"
_CHECKSUM: Final = 32
#: what a trim leaves, so that not every write trims
_LEFT_BY_TRIM: Final = 0.8
#: the part of all room that a process fills before it looks what others have written
_LOOKS: Final = 16
_FORGOTTEN_SECONDS: Final = 3600
#: the bytes that are written to find out whether there is room for code
_TRIED: Final = 1 << 16
#: where code is kept in `config.cache_dir`
FOLDER: Final = "native"


def key_of(*parts: str) -> str:
    """One name for these texts, whatever is in them."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class CacheEntry(NamedTuple):
    used: float
    size: int
    name: str


class DiskCache:
    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        #: what may be written before the folder is looked through: it may have many files
        self._room = 0

    def read(self, key: str) -> bytes | None:
        """What was kept under the key; it counts as used now."""
        try:
            with self._opened(make=False) as folder:
                return _read(folder, key)
        except OSError:
            return None

    def write(self, key: str, payload: bytes) -> bool:
        """Keep it, and remove what has not been used for longest if there is too much."""
        try:
            with self._opened(make=True) as folder:
                self._room -= _write(folder, key, payload)
                if self._room < 0:
                    self._trim(folder)
        except OSError:
            return False
        return True

    def try_lock(self, key: str) -> KeyLock | None:
        """The right to make what belongs under the key; None if another has it."""
        try:
            with self._opened(make=True) as folder:
                return try_lock(folder, key)
        except OSError:
            return KeyLock()

    def listed(self) -> list[CacheEntry]:
        """What is kept, that which was not used for longest first."""
        try:
            with self._opened(make=False) as folder:
                return _kept(_files(folder))
        except OSError:
            return []

    def clear(self) -> int:
        """Remove everything; how many there were."""
        try:
            with self._opened(make=False) as folder:
                files = _files(folder)
                for file in files:
                    _remove(folder, file.name)
                return len(_kept(files))
        except OSError:
            return 0

    def problem(self) -> str | None:
        """Why nothing is kept here or read from here; None if it works. Tried with a file."""
        try:
            with self._opened(make=True) as folder:
                name = f".tried.{os.getpid()}"
                _write(folder, name, bytes(_TRIED))
                _remove(folder, name)
        except OSError as error:
            return error.strerror or str(error)
        return None

    @contextmanager
    def _opened(self, *, make: bool) -> Iterator[int]:
        """The folder by a descriptor: what is checked is what is used, whatever is renamed."""
        if make:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid():
                owners = f"user {found.st_uid}, and this is user {os.geteuid()}"
                raise PermissionError(f"{self._folder} belongs to {owners}")
            if found.st_mode & 0o077:
                mode = f"its mode is {stat.S_IMODE(found.st_mode):o}, and should be 700"
                raise PermissionError(f"{self._folder} is open to others ({mode})")
            yield descriptor
        finally:
            os.close(descriptor)

    def _trim(self, folder: int) -> None:
        now = time.time()
        files = _files(folder)
        for file in files:
            if file.name.startswith(".") and now - file.used > _FORGOTTEN_SECONDS:
                _remove(folder, file.name)
        kept = _kept(files)
        total = sum(file.size for file in kept)
        if total > self._most_bytes:
            for file in kept:
                if total <= self._most_bytes * _LEFT_BY_TRIM:
                    break
                _remove(folder, file.name)
                total -= file.size
        self._room = min(self._most_bytes - total, self._most_bytes // _LOOKS)


def _files(folder: int) -> list[CacheEntry]:
    found: list[CacheEntry] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process trims too
                about = entry.stat(follow_symlinks=False)
                found.append(CacheEntry(about.st_mtime, about.st_size, entry.name))
    return found


def _kept(files: list[CacheEntry]) -> list[CacheEntry]:
    return sorted(file for file in files if not file.name.startswith("."))


def _read(folder: int, key: str) -> bytes | None:
    descriptor = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        data = file.read()
    payload = data[len(_MAGIC) + _CHECKSUM :]
    if data[: len(_MAGIC) + _CHECKSUM] != _MAGIC + _checksum(key, payload):
        _remove(folder, key)
        return None
    with suppress(OSError):  # a cache that may only be read is still of use
        os.utime(key, dir_fd=folder, follow_symlinks=False)
    return payload


def _write(folder: int, key: str, payload: bytes) -> int:
    """Write a file under its name; how many bytes it has."""
    beside = f".{key[:16]}.{os.getpid()}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            written = file.write(_MAGIC + _checksum(key, payload) + payload)
        os.replace(beside, key, src_dir_fd=folder, dst_dir_fd=folder)
        return written
    except BaseException:
        _remove(folder, beside)
        raise


def _checksum(key: str, payload: bytes) -> bytes:
    """Of the key too: a file under another's name is damaged."""
    return hashlib.sha256(key.encode() + b"\0" + payload).digest()


def _remove(folder: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)
