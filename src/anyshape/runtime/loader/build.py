"""From text to code in this process: found on disk, or built and kept there."""

from __future__ import annotations

import functools
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol

import torch

from anyshape.config import config
from anyshape.events.native_counts import count
from anyshape.runtime.loader.code_bundle import open_bundle
from anyshape.runtime.loader.disk_cache import FOLDER, DiskCache, key_of
from anyshape.runtime.loader.engine import begun_object
from anyshape.runtime.loader.host_target import HostTarget, llvmlite_version
from anyshape.runtime.loader.image import Built, Image, from_bytes
from anyshape.runtime.loader.key_lock import LOOK_SECONDS, KeyLock, patience
from anyshape.runtime.loader.link import CannotLink, link_image
from anyshape.runtime.loader.symbols import address_of
from anyshape.runtime.loader.workers import Task, when_all, workers
from anyshape.shared_cache.team_cache import shared
from anyshape.support.lazy_dataclass import dataclass
from anyshape.support.worker import at_end_of_program

#: Change it when the same text becomes other code, or when what is kept looks otherwise.
_VERSION: Final = "3"


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
    key: str, source: Callable[[], Source], target: HostTarget, cache: DiskCache
) -> Built | Future[Built]:
    """The code that goes by `key`, a text that says all that the source depends on, or what threads
    make it by. The source is asked for only if the code is not on disk, nor in the bundle that is
    open, nor where the team keeps it."""
    name = code_name(key, target)
    shelf = open_bundle()
    kept = cache.read(name)
    built = _parsed(kept)
    if built is not None and kept is not None:
        count("local_hits")
        _share(name, kept, cache, is_offer=True)
    elif shelf is not None:
        built = _parsed(shelf.given.get(name))
    if built is None:
        begun = _made_once(name, source, target, cache)
        if shelf is None:
            return begun
        built = begun if isinstance(begun, Built) else begun.result()
    if shelf is not None:
        shelf.used[name] = built.to_bytes()
    return built


def _parsed(data: bytes | None) -> Built | None:
    try:
        return None if data is None else from_bytes(data)
    except (KeyError, TypeError, ValueError):
        return None  # damaged: it is built as if it were missing


def _made_once(
    name: str, source: Callable[[], Source], target: HostTarget, cache: DiskCache
) -> Built | Future[Built]:
    """Code that is not on disk: from the team, or made, by one of the processes that share the
    folder."""
    with _lock:
        begun = _segments.get((cache, name))
    if begun is not None:
        return begun
    kept, lock = _claimed(name, cache)
    try:
        built = _parsed(kept)
        if built is None:
            built = _fetched(name, cache)
        begun = begin(source(), target, cache, name) if built is None else built
    except BaseException:
        lock.release()
        raise
    if isinstance(begun, Built):
        lock.release()
        return begun

    def ended(_: Future[Built]) -> None:
        lock.release()
        with _lock:
            _segments.pop((cache, name), None)

    with _lock:
        _segments[cache, name] = begun
    begun.add_done_callback(ended)
    return begun


def _claimed(name: str, cache: DiskCache) -> tuple[bytes | None, KeyLock]:
    """What others have made meanwhile, and the lock of who has to make it otherwise."""
    deadline = patience.deadline()
    while True:
        lock = cache.try_lock(name)
        kept = cache.read(name)
        if kept is not None:
            count("waited_for")
        if kept is not None or lock is not None or patience.is_over(deadline):
            return kept, lock or KeyLock()
        time.sleep(LOOK_SECONDS)


def _fetched(name: str, cache: DiskCache) -> Built | None:
    data = shared.fetch("native", name)
    built = _parsed(data)
    if built is not None and data is not None:
        cache.write(name, data)
        mark = shared.mark(name)
        if mark is not None:
            cache.write(mark, b"")
    return built


def _share(name: str, data: bytes, cache: DiskCache, *, is_offer: bool = False) -> None:
    """Let the team have the code, once: also what was made before there was a URL."""
    mark = shared.mark(name)
    if mark is not None and (not is_offer or cache.read(mark) is None):
        note = partial(cache.write, mark, b"")
        shared.send("native", name, data, note, is_offer=is_offer)


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


def code_name(key: str, target: HostTarget) -> str:
    """What code is called on disk, in packages and where a team keeps it."""
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
            # At once: other processes wait for it.
            data = built.to_bytes()
            cache.write(name, data)
            _share(name, data, cache)
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
    name = code_name(f"object\n{text}", target)
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
    lock = KeyLock() if cache is None else cache.try_lock(name)
    if lock is None:
        assert cache is not None
        task = Task(partial(_object_of_another, name, text, target, cache))
    else:
        kept = None if cache is None else cache.read(name)
        task = Task(begun_object(text, *target[:3]) if kept is None else partial(bytes, kept))
    with _lock:
        begun = _unfinished.get(name)  # another thread may have been faster
        if begun is None and lock is not None:
            # In this order: nobody waits for what is not going to be done.
            tasks.append(task)
        if begun is None:
            _unfinished[name] = task.future
    if begun is not None:
        if lock is not None:
            lock.release()
        return begun
    task.future.add_done_callback(lambda made: _keep(name, made, cache, lock))
    if lock is None:
        workers.do_apart(task)
    return task.future


def _object_of_another(name: str, text: str, target: HostTarget, cache: DiskCache) -> bytes:
    """What another process makes, or is made here if that does not."""
    kept, lock = _claimed(name, cache)
    try:
        if kept is None:
            kept = begun_object(text, *target[:3])()
            cache.write(name, kept)
        return kept
    finally:
        lock.release()


def _keep(
    name: str, made: Future[bytes], cache: DiskCache | None, lock: KeyLock | None = None
) -> None:
    is_made = made.exception() is None
    with _lock:
        _unfinished.pop(name, None)
        if is_made:
            _objects[name] = made.result()
        while len(_objects) > _MOST_OBJECTS:
            del _objects[next(iter(_objects))]
    if lock is None:
        return  # another process has kept it
    if is_made and cache is not None:
        cache.write(name, made.result())
    lock.release()


#: A signal's handler may compile as well.
_lock: Final = threading.RLock()
#: by name, those used last at the end
_objects: Final[dict[str, bytes]] = {}
_unfinished: Final[dict[str, Future[bytes]]] = {}
#: of segments that this process makes
_segments: Final[dict[tuple[DiskCache, str], Future[Built]]] = {}
_MOST_OBJECTS: Final = 256


# Before uploads are finished: some of them are of what is made now.
at_end_of_program(workers.finish)


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
