"""Bytes behind a URL: files, and whatever fsspec opens. All of this may take long, or for ever:
callers set a limit."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

#: Where files are on this machine, or mounted.
_LOCAL: Final = ("file://", "local://")


class StoredObject(NamedTuple):
    #: below the URL
    path: str
    size: int
    #: seconds since 1970; 0 where the store does not say
    written: float


def shown(url: str) -> str:
    """Without a password."""
    return re.sub(r"//[^/@]*@", "//...@", url)


def below(url: str, path: str) -> str:
    return url + ("" if url.endswith("/") else "/") + path


def local_path(url: str) -> Path | None:
    """The file of a URL that names one; also of a plain path."""
    for scheme in _LOCAL:
        if url.startswith(scheme):
            return Path(url.removeprefix(scheme))
    return None if "://" in url else Path(url).expanduser()


def load_support(url: str) -> None:
    """Import what opens such a URL, which takes long and asks nobody; ImportError or ValueError if
    it is not installed or not known."""
    if local_path(url) is None:
        # Many programs share nothing, and loading it takes longer than all of this package.
        import fsspec  # pyright: ignore[reportMissingTypeStubs] it has none

        fsspec.get_filesystem_class(url.partition("://")[0])  # pyright: ignore[reportUnknownMemberType] untyped


def opened(url: str) -> tuple[Any, str]:
    """fsspec's file system and the path in it. Asked for each time: a fork needs another one."""
    import fsspec.core  # pyright: ignore[reportMissingTypeStubs] it has none

    open_url = cast("Callable[[str], tuple[Any, str]]", fsspec.core.url_to_fs)  # pyright: ignore[reportUnknownMemberType] untyped
    return open_url(url)


def read(url: str) -> bytes | None:
    """None if there is nothing."""
    local = local_path(url)
    try:
        if local is not None:
            return local.read_bytes()
        files, path = opened(url)
        return files.cat_file(path)
    except FileNotFoundError:
        return None


def write(url: str, data: bytes) -> None:
    """Whoever reads meanwhile finds what was there before, where the store is able to."""
    local = local_path(url)
    if local is not None:
        _replace(local, data)
        return
    files, path = opened(url)
    parent = path.rpartition("/")[0]
    # The "folder" of an object store is a bucket, which not everybody may make or look at.
    if parent and not getattr(files, "async_impl", False):
        files.makedirs(parent, exist_ok=True)
    files.pipe_file(path, data)


def _replace(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name[:16]}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        beside.write_bytes(data)
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def listed(url: str) -> list[StoredObject]:
    """All that is below the URL."""
    local = local_path(url)
    files, path = opened(url if local is None else f"file://{local.absolute()}")
    with suppress(FileNotFoundError):
        files.invalidate_cache()
        found: dict[str, dict[str, Any]] = files.find(path, detail=True)
        return [
            StoredObject(name.removeprefix(path).lstrip("/"), int(each["size"]), _written(each))
            for name, each in found.items()
        ]
    return []


def _written(about: dict[str, Any]) -> float:
    for name in ("mtime", "LastModified", "created", "updated"):
        found = about.get(name)
        if isinstance(found, int | float):
            return float(found)
        if hasattr(found, "timestamp"):
            return cast("Any", found).timestamp()
    return 0.0


def remove(url: str) -> None:
    local = local_path(url)
    with suppress(FileNotFoundError):
        if local is not None:
            local.unlink()
        else:
            files, path = opened(url)
            files.rm_file(path)
