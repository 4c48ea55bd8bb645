"""`anyshape cache info|key|export|import|trim|clear`."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from anyshape.cli.command import Command, Failure, add_commands
from anyshape.config import config
from anyshape.profile import store
from anyshape.profile.profiles import Damaged, TooNew, from_json
from anyshape.shared_cache import bundle, object_store
from anyshape.shared_cache.object_store import StoredObject, below, shown
from anyshape.shared_cache.signature import NoKey, signing_key
from anyshape.support.worker import within

T = TypeVar("T")
_MB: Final = 1 << 20
#: The network is what these commands are about: they wait longer than programs do.
_LIMIT_SECONDS: Final = 60.0


def add(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, "action", ACTIONS)


def run(options: argparse.Namespace) -> int:
    return options.action(options)


def _native() -> Any:
    """What knows of machine code, which loads torch."""
    from anyshape.backends.native import build

    return build


def _key() -> bytes:
    try:
        return signing_key()
    except NoKey as error:
        raise Failure(f"{error}. Code without a signature is never loaded.") from None


def _size(count: int) -> str:
    return f"{count / _MB:.1f} MB"


# -- what is there --------------------------------------------------------------------------------


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    pass


def _info(options: argparse.Namespace) -> int:
    entries = _native().disk_cache().listed()
    total = sum(each.size for each in entries)
    print(f"folder      {config.cache_dir}")
    print(
        f"native code {len(entries)} files, {_size(total)} of {config.cache_size_mb} MB"
        " (config.cache_size_mb)"
    )
    functions = _functions()
    print(f"profile     {functions} function{'s' * (functions != 1)}")
    url = config.cache_url
    if url is None:
        print("shared      with nobody: config.cache_url is not set")
        return 0
    try:
        signing_key()
        key = "there is a key"
    except NoKey as error:
        key = f"not used: {error}"
    print(f"shared      {shown(url)} ({key})")
    found = _in_time(url, lambda: object_store.listed(below(url, "native")))
    print(f"            {len(found)} files, {_size(sum(each.size for each in found))}")
    return 0


def _functions() -> int:
    try:
        return len(store.read_exactly(store.file_in(config.cache_dir)))
    except (Damaged, TooNew, OSError):
        return 0


def _in_time(url: str, request: Any) -> Any:
    try:
        object_store.load_support(url)
        return within(_LIMIT_SECONDS, request, "anyshape-cache")
    except Exception as error:
        # Any kind: each of fsspec's file systems has errors of its own.
        raise Failure(f"{shown(url)} cannot be used: {type(error).__name__}: {error}") from None


def _new_key(options: argparse.Namespace) -> int:
    print(secrets.token_hex(32))
    return 0


# -- bundles --------------------------------------------------------------------------------------


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path)


def _export(options: argparse.Namespace) -> int:
    key = _key()
    cache = _native().disk_cache()

    def code() -> Iterator[tuple[str, bytes]]:
        for entry in cache.listed():
            payload = cache.read(entry.name)
            if payload is not None:
                yield entry.name, payload

    try:
        profile = store.file_in(config.cache_dir)
        known = profile.read_bytes() if profile.exists() else b""
        pieces = bundle.write(options.file, key, _native().native_identity(), known, code())
    except OSError as error:
        raise Failure(f"{options.file} cannot be written: {error}") from None
    print(f"{pieces} files of native code, signed, in {options.file}")
    if not pieces:
        print(f"{config.cache_dir} has none: run your program once before")
    return 0


def _import(options: argparse.Namespace) -> int:
    try:
        found = bundle.read(options.file, _key())
    except (bundle.CannotRead, OSError) as error:
        raise Failure(f"{options.file} is not imported: {error}") from None
    cache = _native().disk_cache()
    for name, payload in found.code.items():
        if not cache.write(name, payload):
            raise Failure(
                f"{config.cache_dir} cannot be written: it must be yours, open to nobody else"
                " (chmod 700), with room left"
            )
    if found.profile:
        _unite_profile(found.profile)
    print(f"{len(found.code)} files of native code imported into {config.cache_dir}")
    others = _differences(found.about, _native().native_identity())
    if others:
        print(f"They are for another {', '.join(others)}: programs here will not use them.")
    return 0


def _unite_profile(data: bytes) -> None:
    try:
        known = from_json(data)
        store.update(store.file_in(config.cache_dir), lambda before: before.united(known))
    except (Damaged, TooNew, OSError) as error:
        print(f"the profile in it is not imported: {error}")


def _differences(made_for: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return [name for name in here if made_for.get(name) != here[name]]


# -- removing -------------------------------------------------------------------------------------


def _add_clear(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shared", action="store_true", help="what is at config.cache_url, not what is here"
    )


def _clear(options: argparse.Namespace) -> int:
    if options.shared:
        return _remove_shared(0)
    removed = _native().disk_cache().clear()
    print(
        f"{removed} files removed from {config.cache_dir}; `anyshape profile clear` forgets sizes"
    )
    return 0


def _add_trim(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "megabytes", type=_megabytes, help="what may stay of native code, the newest"
    )


def _megabytes(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of megabytes, 0 or more")
    return int(text)


def _trim(options: argparse.Namespace) -> int:
    return _remove_shared(options.megabytes * _MB)


def _remove_shared(most: int) -> int:
    """Remove the oldest code at config.cache_url until no more is left than this."""
    if config.cache_url is None:
        raise Failure("config.cache_url is not set")
    url = below(config.cache_url, "native")
    found: list[StoredObject] = _in_time(url, lambda: object_store.listed(url))
    total = sum(each.size for each in found)
    removed = 0
    for each in sorted(found, key=lambda each: each.written):
        if total <= most:
            break
        _in_time(url, lambda each=each: object_store.remove(below(url, each.path)))
        total -= each.size
        removed += 1
    print(f"{removed} files removed from {shown(config.cache_url)}, {_size(total)} left")
    return 0


ACTIONS: Final = (
    Command("info", "what is kept here, and what a team shares", _add_nothing, _info),
    Command("key", "print a new key, for config.cache_key", _add_nothing, _new_key),
    Command("export", "write the cache into one signed file", _add_file, _export),
    Command("import", "take what such a file has, if its signature is right", _add_file, _import),
    Command("trim", "remove the oldest code at config.cache_url", _add_trim, _trim),
    Command("clear", "remove all compiled code", _add_clear, _clear),
)
