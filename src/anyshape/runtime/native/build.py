"""From text to code in this process: found on disk, or built and kept there."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol

import torch

from anyshape.config import config
from anyshape.records import dataclass
from anyshape.runtime.native.disk_cache import DiskCache, key_of
from anyshape.runtime.native.engine import build_object
from anyshape.runtime.native.host_target import HostTarget, llvmlite_version
from anyshape.runtime.native.image import LoadedImage
from anyshape.runtime.native.link import CannotLink, link_image
from anyshape.runtime.native.linked_by_llvm import LoadedByLlvm
from anyshape.runtime.native.shelf import Shelf, open_shelf
from anyshape.runtime.native.stored import Built, from_bytes
from anyshape.runtime.native.symbols import address_of

#: Change it when the same text becomes other code, or when what is kept looks otherwise.
_VERSION: Final = "3"

FOLDER: Final = "native"


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text, the names of its functions, and words for the numbers that it fails with."""

    text: str
    entry: str | None = None
    run: str | None = None
    reasons: Sequence[str] = ()
    #: modules of their own, with most of the work
    apart: Sequence[str] = ()
    #: little is done by this module itself: less time is spent on making it fast
    quick: bool = False


class Loaded(Protocol):
    def address(self, name: str) -> int | None: ...


def disk_cache() -> DiskCache:
    return _disk_cache(str(config.cache_dir), config.cache_size_mb)


@functools.lru_cache(maxsize=8)
def _disk_cache(folder: str, most_mb: int) -> DiskCache:
    """One for all that is built: it knows how much it has written."""
    return DiskCache(Path(folder) / FOLDER, most_mb << 20)


def found_or_built(
    key: str,
    source: Callable[[], Source],
    target: HostTarget,
    cache: DiskCache,
    key_on_shelves: Callable[[], str] | None = None,
) -> Built:
    """The code that goes by `key`, a text that says all that the source depends on. The source is
    asked for only if the code is not on disk, nor on the shelf that is open."""
    name = _name(key, target)
    shelf = open_shelf()
    on_shelf = "" if shelf is None else _name((key_on_shelves or (lambda: key))(), target)
    kept = cache.read(name)
    built = None if kept is None else from_bytes(kept)
    if built is None and shelf is not None:
        built = _given(shelf, on_shelf)
    if built is None:
        built = build(source(), target, cache)
        cache.write(name, built.to_bytes())
    if shelf is not None:
        shelf.used[on_shelf] = built.to_bytes()
    return built


def _given(shelf: Shelf, name: str) -> Built | None:
    found = shelf.given.get(name)
    if found is None:
        return None
    try:
        return from_bytes(found)
    except (KeyError, TypeError, ValueError):
        return None  # damaged: it is built as if it were missing


def identity(target: HostTarget) -> dict[str, str]:
    """What code is made for and by, in words."""
    return {
        "machine": f"{target.triple} {platform.machine()}",
        "processor": f"{target.cpu} {target.features} {target.lanes}",
        "llvmlite": llvmlite_version(),
        "torch": str(torch.__version__),
        "python": str(sys.implementation.cache_tag),
        "form": _VERSION,
    }


def _name(key: str, target: HostTarget) -> str:
    return key_of(
        _VERSION,
        key,
        *map(str, target),
        llvmlite_version(),
        torch.__version__,
        f"{sys.implementation.cache_tag} {platform.machine()}",
    )


def build(source: Source, target: HostTarget, cache: DiskCache | None = None) -> Built:
    # The longest first: the others fill the time that it takes.
    apart = sorted(source.apart, key=len, reverse=True)
    objects = _in_parallel(
        [
            lambda: build_object(source.text, *target[:3], quick=source.quick),
            *(functools.partial(_object_of_many, text, target, cache) for text in apart),
        ]
    )
    reasons = tuple(source.reasons)
    try:
        image = link_image(*objects)
    except CannotLink:
        ends = tuple(accumulate(map(len, objects)))
        code = b"".join(objects)
        return Built(source.entry, source.run, reasons, "object", code, ends=ends)
    return Built(
        source.entry,
        source.run,
        reasons,
        "image",
        image.code,
        image.slots,
        image.rebased,
        image.exports,
    )


def _in_parallel(builds: Sequence[Callable[[], bytes]]) -> list[bytes]:
    """The objects that these make, by as many threads as may be used. The threads end with it: a
    child that is forked later misses none."""
    most = min(len(builds), config.compile_threads, available_cores())
    if most <= 1:
        return [each() for each in builds]
    with ThreadPoolExecutor(most, thread_name_prefix="anyshape native") as threads:
        return list(threads.map(lambda each: each(), builds))


def available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _object_of_many(text: str, target: HostTarget, cache: DiskCache | None) -> bytes:
    """The object of a module that other segments may have as well, of this process or others: a
    program that is changed a little has most of its kernels still."""
    name = _name(f"object\n{text}", target)
    found = _objects.pop(name, None)
    if found is None and cache is not None:
        found = cache.read(name)
    if found is None:
        found = build_object(text, *target[:3])
        if cache is not None:
            cache.write(name, found)
    _objects[name] = found
    if len(_objects) > _MOST_OBJECTS:
        with suppress(KeyError, StopIteration, RuntimeError):  # threads may do the same
            del _objects[next(iter(_objects))]
    return found


#: by name, those used last at the end
_objects: Final[dict[str, bytes]] = {}
_MOST_OBJECTS: Final = 256


def load(built: Built, others: Loaded | None = None) -> Loaded:
    """Put the code into memory. Its functions live as long as the result. `others`: where to look
    for functions first; they have to live as long."""

    def resolve(name: str) -> int:
        found = None if others is None else others.address(name)
        return _resolve(name) if found is None else found

    if built.kind == "image":
        return LoadedImage(built.image(), resolve)
    return LoadedByLlvm(built.objects(), resolve)


#: Objects that the text knows by name: their addresses are of this process alone.
_OBJECTS: Final[dict[str, object]] = {
    "anyshape_type_Tensor": torch.Tensor,
    "anyshape_type_Parameter": torch.nn.Parameter,
}


def _resolve(name: str) -> int:
    return id(_OBJECTS[name]) if name in _OBJECTS else address_of(name)
