"""`anyshape doctor`: is all there that anyshape needs, and does it work here?

Each finding is fine, worth knowing, or broken; one that is broken makes the exit status 1. Nothing
is changed but what the self-test leaves in the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from anyshape.config import OTHER_VARIABLES, config, known_variables, meant_variable
from anyshape.errors import AnyshapeError
from anyshape.runtime.loader.disk_cache import FOLDER, DiskCache
from anyshape.shared_cache import object_store
from anyshape.shared_cache.object_store import shown
from anyshape.shared_cache.signature import NoKey, signing_key
from anyshape.support.requirements import TooOld, require_torch
from anyshape.support.worker import within

_NEWEST_PYTHON = (3, 14)


class State(Enum):
    FINE = "ok"
    KNOW = "note"
    BROKEN = "broken"


class Finding(NamedTuple):
    about: str
    state: State
    text: str


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs: an object")


def run(options: argparse.Namespace) -> int:
    found: list[Finding] = []
    for finding in findings():
        found.append(finding)
        if not options.json:
            print(f"{finding.state.value:7}{finding.about}: {finding.text}", flush=True)
    broken = [each for each in found if each.state is State.BROKEN]
    if options.json:
        rows = [{**each._asdict(), "state": each.state.value} for each in found]
        print(json.dumps({"ok": not broken, "findings": rows}, indent=2))
    else:
        print("all is well" if not broken else f"{len(broken)} broken")
    return int(bool(broken))


def findings() -> Iterator[Finding]:
    yield from _versions()
    variables = list(_variables())
    yield from variables
    yield from _caches()
    yield from _shared()
    if any(each.state is State.BROKEN for each in variables):
        yield Finding("self-test", State.KNOW, "not run: fix the environment variables first")
    else:
        yield from _machine()


# -- versions --------------------------------------------------------------------------------------


def installed(name: str) -> str | None:
    """The version of a package, without loading it; a checkout on the path is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> Iterator[Finding]:
    yield Finding("anyshape", State.FINE, installed("anyshape") or "a checkout, not installed")
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    is_newer = sys.version_info[:2] > _NEWEST_PYTHON
    if platform.python_implementation() != "CPython" or not hasattr(sys, "_getframe"):
        yield Finding("Python", State.BROKEN, f"{python}; only CPython is supported")
    elif is_newer:
        yield Finding("Python", State.KNOW, f"{python}; newer than the versions that are tested")
    else:
        yield Finding("Python", State.FINE, python)
    yield _torch()
    llvmlite = installed("llvmlite")
    if llvmlite is None:
        text = "not installed: graphs run operator by operator; pip install llvmlite"
        yield Finding("llvmlite", State.BROKEN, text)
    else:
        yield Finding("llvmlite", State.FINE, llvmlite)


def _torch() -> Finding:
    version = installed("torch")
    if version is None:
        return Finding("torch", State.BROKEN, "not installed: pip install torch")
    try:
        require_torch(version)
    except TooOld as error:
        return Finding("torch", State.BROKEN, str(error))
    return Finding("torch", State.FINE, version)


# -- the environment -------------------------------------------------------------------------------


def _variables() -> Iterator[Finding]:
    for name in sorted(each for each in os.environ if each.startswith("ANYSHAPE_")):
        yield _variable(name)


def _variable(name: str) -> Finding:
    if name not in known_variables():
        if meant := meant_variable(name):
            return Finding(name, State.BROKEN, f"there is no such variable; did you mean {meant}?")
        return Finding(name, State.KNOW, "not a variable of anyshape's")
    if name in OTHER_VARIABLES:
        return Finding(name, State.FINE, repr(os.environ[name]))
    try:
        return Finding(name, State.FINE, config.shown(name.removeprefix("ANYSHAPE_").lower()))
    except AnyshapeError as error:
        return Finding(name, State.BROKEN, str(error).replace("\n", ";"))


# -- caches ----------------------------------------------------------------------------------------


def _caches() -> Iterator[Finding]:
    try:
        folder = Path(config.cache_dir)
    except AnyshapeError:
        return  # told with the variables
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = DiskCache(folder / FOLDER, config.cache_size_mb << 20).problem()
    except OSError as error:
        text = f"{folder} cannot be written to ({error.strerror}): every process compiles anew"
        yield Finding("cache", State.BROKEN, text)
        return
    try:
        sizes = list(_sizes(folder))
    except OSError as error:
        yield Finding("cache", State.BROKEN, f"{folder} cannot be read: {error.strerror}")
        return
    room = f"{sum(sizes) / 2**20:.1f} MB of {config.cache_size_mb} in {len(sizes)} files"
    if problem is not None:
        text = f"{folder} keeps no code: {problem}; every process compiles anew"
        yield Finding("cache", State.BROKEN, text)
    else:
        yield Finding("cache", State.FINE, f"{folder}, {room}")


def _sizes(folder: Path) -> Iterator[int]:
    for each in folder.rglob("*"):
        # Other processes write and remove meanwhile.
        with suppress(FileNotFoundError):
            found = each.stat()
            if stat.S_ISREG(found.st_mode):
                yield found.st_size


def _shared() -> Iterator[Finding]:
    """What is behind URLs is asked for something that is not there: nothing is written."""
    try:
        cache_url, profile_url = config.cache_url, config.profile_url
    except AnyshapeError:
        return  # told with the variables
    if cache_url is not None:
        try:
            signing_key()
        except NoKey as error:
            text = f"{shown(cache_url)} is not used: {error}"
            yield Finding("shared cache", State.BROKEN, text)
        else:
            yield _answers("shared cache", cache_url, ", and there is a key")
    if profile_url is not None:
        yield _answers("shared profile", profile_url)


def _answers(about: str, url: str, also: str = "") -> Finding:
    place = object_store.below(url, "doctor")
    try:
        object_store.load_support(url)
        within(config.cache_timeout_seconds, lambda: object_store.read(place), "anyshape-doctor")
    except Exception as error:
        # Any kind: each of fsspec's file systems has errors of its own.
        hint = "; pip install 'anyshape[remote]'" if isinstance(error, ImportError) else ""
        text = f"{shown(url)} cannot be read: {type(error).__name__}: {error}{hint}"
        return Finding(about, State.BROKEN, text.replace("\n", " "))
    return Finding(about, State.FINE, f"{shown(url)} answers{also}")


# -- the machine -----------------------------------------------------------------------------------


def _machine() -> Iterator[Finding]:
    """What is known of processors, and whether native code gives eager's answers. It loads torch,
    and all that may go wrong with that is a finding."""
    try:
        from anyshape.cli import machine
    except Exception as error:
        text = f"anyshape cannot be loaded: {type(error).__name__}: {error}"
        yield Finding("self-test", State.BROKEN, text.replace("\n", " "))
        return
    for about, is_fine, text in machine.described():
        yield Finding(about, State.FINE if is_fine else State.KNOW, text)
    with config.patch(report_eager=False):
        yield from _tried(machine)


def _tried(machine: Any) -> Iterator[Finding]:
    for device in machine.devices():
        wrong = list(machine.problems(device))
        for each in wrong:
            yield Finding(f"self-test on {device}", State.BROKEN, each)
        if not wrong:
            text = (
                f"{len(machine.PROGRAMS)} programs at {len(machine.SIZES)} sizes agree with eager"
            )
            yield Finding(f"self-test on {device}", State.FINE, text)
