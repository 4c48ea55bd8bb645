"""From text to code in this process: found on disk, or built and kept there."""

from __future__ import annotations

import functools
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol

import torch

from anyshape.config import config
from anyshape.runtime.loader.code_bundle import CodeBundle, open_bundle
from anyshape.runtime.loader.disk_cache import DiskCache, key_of
from anyshape.runtime.loader.engine import begun_object
from anyshape.runtime.loader.host_target import HostTarget, llvmlite_version
from anyshape.runtime.loader.image import Built, Image, from_bytes
from anyshape.runtime.loader.link import CannotLink, link_image
from anyshape.runtime.loader.symbols import address_of
from anyshape.runtime.loader.workers import Task, when_all, workers
from anyshape.support.lazy_dataclass import dataclass

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


def found_or_begun(
    key: str,
    source: Callable[[], Source],
    target: HostTarget,
    cache: DiskCache,
    key_on_shelves: Callable[[], str],
) -> Built | Future[Built]:
    """The code that goes by `key`, a text that says all that the source depends on, or what threads
    make it by. The source is asked for only if the code is not on disk, nor in the bundle that is
    open, where it goes by another key."""
    name = _name(key, target)
    shelf = open_bundle()
    on_shelf = "" if shelf is None else _name(key_on_shelves(), target)
    kept = cache.read(name)
    built = None if kept is None else from_bytes(kept)
    if built is None and shelf is not None:
        built = _given(shelf, on_shelf)
    if built is None:
        begun = begin(source(), target, cache, name)
        if shelf is None:
            return begun
        built = begun if isinstance(begun, Built) else begun.result()
    if shelf is not None:
        shelf.used[on_shelf] = built.to_bytes()
    return built


def _given(shelf: CodeBundle, name: str) -> Built | None:
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
    begun = begin(source, target, cache)
    return begun if isinstance(begun, Built) else begun.result()


def begin(
    source: Source, target: HostTarget, cache: DiskCache | None, name: str | None = None
) -> Built | Future[Built]:
    """The code of a source, by threads if there are several objects to be made. It is kept under
    the name."""

    def finished(objects: Sequence[bytes]) -> Built:
        built = _linked(source, objects)
        if cache is not None and name is not None:
            workers.do_last(partial(cache.write, name, built.to_bytes()))
        return built

    # The longest first: the others fill the time that it takes.
    texts = sorted(source.apart, key=len, reverse=True)
    most = min(config.compile_threads, available_cores())
    main = partial(begun_object, source.text, *target[:3], quick=source.quick)
    if most <= 1 or not texts:
        return finished([main()(), *(_object(text, target, cache) for text in texts)])
    tasks: list[Task[bytes]] = []
    objects: list[Future[bytes]] = []
    try:
        for text in texts:
            objects.append(_begun_object(text, target, cache, tasks))
    finally:
        # Others may wait for some of them already.
        workers.do(tasks, most)
    # What calls them all takes longest to read: threads are busy meanwhile.
    caller = Task(main())
    workers.do([caller], most)
    return when_all([caller.future, *objects], finished)


def available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _linked(source: Source, objects: Sequence[bytes]) -> Built:
    ends: tuple[int, ...] = ()
    try:
        image = link_image(*objects)
    except CannotLink:
        image, ends = Image(b"".join(objects)), tuple(accumulate(map(len, objects)))
    return Built(source.entry, source.run, tuple(source.reasons), image, ends)


# -- objects that several segments have, of this process or others: a program that is changed a
# -- little has most of its kernels still


def _object(text: str, target: HostTarget, cache: DiskCache | None) -> bytes:
    tasks: list[Task[bytes]] = []
    found = _begun_object(text, target, cache, tasks)
    for task in tasks:
        task()
    return found.result()


def _begun_object(
    text: str, target: HostTarget, cache: DiskCache | None, tasks: list[Task[bytes]]
) -> Future[bytes]:
    """The object of a module. If it has to be made, that is among the tasks from now on."""
    name = _name(f"object\n{text}", target)
    with _lock:
        kept = _objects.pop(name, None)
        if kept is not None:
            _objects[name] = kept
        begun = _unfinished.get(name)
    if kept is None and begun is None and cache is not None:
        kept = cache.read(name)
    if kept is not None:
        found: Future[bytes] = Future()
        found.set_result(kept)
        return found
    if begun is not None:
        return begun
    task = Task(begun_object(text, *target[:3]))
    with _lock:
        begun = _unfinished.get(name)  # another thread may have been faster
        if begun is not None:
            return begun
        # In this order: nobody waits for what is not going to be done.
        tasks.append(task)
        _unfinished[name] = task.future
    task.future.add_done_callback(lambda made: _keep(name, made, cache))
    return task.future


def _keep(name: str, made: Future[bytes], cache: DiskCache | None) -> None:
    is_made = made.exception() is None
    with _lock:
        _unfinished.pop(name, None)
        if is_made:
            _objects[name] = made.result()
        while len(_objects) > _MOST_OBJECTS:
            del _objects[next(iter(_objects))]
    if is_made and cache is not None:
        workers.do_last(partial(cache.write, name, made.result()))


#: A signal's handler may compile as well.
_lock: Final = threading.RLock()
#: by name, those used last at the end
_objects: Final[dict[str, bytes]] = {}
_unfinished: Final[dict[str, Future[bytes]]] = {}
_MOST_OBJECTS: Final = 256


def load(built: Built, others: Loaded | None = None) -> Loaded:
    """Put the code into memory. Its functions live as long as the result. `others`: where to look
    for functions first; they have to live as long."""

    def resolve(name: str) -> int:
        found = None if others is None else others.address(name)
        return _resolve(name) if found is None else found

    return built.load(resolve)


#: Objects that the text knows by name: their addresses are of this process alone.
_OBJECTS: Final[dict[str, object]] = {
    "anyshape_type_Tensor": torch.Tensor,
    "anyshape_type_Parameter": torch.nn.Parameter,
}


def _resolve(name: str) -> int:
    return id(_OBJECTS[name]) if name in _OBJECTS else address_of(name)
