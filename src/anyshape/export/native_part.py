"""The native code in a package: a table of what it is for, and one file for each part of it.

    native/about.json       target, versions, checksums
    native/<name>           machine code

It is read only for those who trust it, and used only where it was made for exactly this machine and
these versions. In all other cases the code is made again, of the graph.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from anyshape.backends.native.build import native_identity
from anyshape.runtime.loader.errors import NativeUnavailable

FOLDER: Final = "native/"
_ABOUT: Final = f"{FOLDER}about.json"
_NAME: Final = re.compile("[0-9a-f]{64}")


def parts(code: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of some code, by name."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in code.items()}
    about = {"for": native_identity(), "sums": sums}
    yield _ABOUT, json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
    for name, data in sorted(code.items()):
        yield f"{FOLDER}{name}", data


def is_in(archive: zipfile.ZipFile) -> bool:
    """Whether there is any, by the names of files alone."""
    return _ABOUT in archive.namelist()


def read(archive: zipfile.ZipFile) -> tuple[dict[str, bytes], list[str]]:
    """The code of a package that can be used here, and what there is to say if there is none."""
    if not is_in(archive):
        return {}, ["the package has no native code: it is made of the graph"]
    try:
        about = json.loads(archive.read(_ABOUT))
        other = _differences(about["for"])
        if other:
            return {}, [f"the native code is for another {', '.join(other)}: it is made anew"]
        return dict(_code(archive, about["sums"])), []
    except NativeUnavailable as error:
        return {}, [f"there is no native code on this machine: {error}"]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError) as error:
        return {}, [f"the native code is damaged ({error}): it is made anew"]
    except (ValueError, TypeError, AttributeError) as error:
        return {}, [f"the native code is damaged ({error}): it is made anew"]


def _differences(made_for: Mapping[str, object]) -> list[str]:
    here = native_identity()
    return [key for key in here if made_for.get(key) != here[key]]


def _code(archive: zipfile.ZipFile, sums: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    for name, expected in sums.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"the name {name[:80]!r}")
        data = archive.read(f"{FOLDER}{name}")
        if hashlib.sha256(data).hexdigest() != expected:
            raise ValueError(f"{name} has another checksum")
        yield name, data
