"""A cache in one file, for images of containers and machines without a network.

A zip archive: `about.json` says what the code is for, `profile.json` has the sizes seen, and
`native/<name>` are pieces of code. Each is signed by itself, together with its name.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from anyshape.shared_cache.signature import BadSignature, signed, verified

ABOUT: Final = "about.json"
PROFILE: Final = "profile.json"
_FOLDER: Final = "native/"
_NAME: Final = re.compile("[0-9a-f]{64}")
#: What is unpacked of a file that nobody has vouched for yet.
_MOST_BYTES: Final = 1 << 32


class CannotRead(Exception):
    """The file is not a bundle, or not one that can be believed."""


class Bundle(NamedTuple):
    #: what the code is for and made by, in words
    about: Mapping[str, str]
    #: JSON, or nothing
    profile: bytes
    code: Mapping[str, bytes]


def write(
    file: Path,
    key: bytes,
    about: Mapping[str, str],
    profile: bytes,
    code: Iterable[tuple[str, bytes]],
) -> int:
    """Write a bundle, or leave what was there; how many pieces of code it has."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    pieces = 0
    try:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
            head = json.dumps(dict(about), sort_keys=True).encode()
            archive.writestr(ABOUT, signed(key, ABOUT, head))
            archive.writestr(PROFILE, signed(key, PROFILE, profile))
            for name, payload in code:
                path = _FOLDER + name
                archive.writestr(path, signed(key, path, payload))
                pieces += 1
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    return pieces


def read(file: Path, key: bytes) -> Bundle:
    """All of a bundle, if all of it is signed with the key; raises `CannotRead`, and OSError."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(archive, key)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        raise CannotRead(f"it is damaged, or no bundle: {error}") from None
    except (ValueError, RuntimeError) as error:
        raise CannotRead(f"it is damaged: {error}") from None


def _read(archive: zipfile.ZipFile, key: bytes) -> Bundle:
    if sum(each.file_size for each in archive.infolist()) > _MOST_BYTES:
        raise CannotRead("it is too large")
    parts: dict[str, bytes] = {}
    for name in archive.namelist():
        try:
            parts[name] = verified(key, name, archive.read(name))
        except BadSignature as error:
            raise CannotRead(f"nothing of it is used, because of {name}: {error}") from None
    about, profile = json.loads(parts.pop(ABOUT)), parts.pop(PROFILE)
    code = {name.removeprefix(_FOLDER): payload for name, payload in parts.items()}
    if not all(map(_NAME.fullmatch, code)):
        raise CannotRead("it has parts that this version does not know")
    return Bundle(about, profile, code)
