"""The profile in this process: read at the first compile, written in the background.

What earlier runs knew is read once, so that a run behaves the same from its start to its end,
whatever other processes write meanwhile. What this run learns is on disk about a second later, and
at the latest when Python exits; a call never waits for that.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple

from anyshape.config import config
from anyshape.events import kinds
from anyshape.events.notices import Notices
from anyshape.events.stream import stream
from anyshape.policy.observations import Observation
from anyshape.profile import remote, store
from anyshape.profile.histogram import added
from anyshape.profile.identity import Identity
from anyshape.profile.profiles import Profile
from anyshape.profile.records import (
    NOTHING,
    FunctionRecord,
    combine,
    is_worth_keeping,
    record_of_call,
)
from anyshape.shared_cache.object_store import below, shown
from anyshape.shared_cache.signature import NoKey, signing_key
from anyshape.shared_cache.team_cache import shared
from anyshape.support.worker import Worker, at_end_of_program, within

#: Compiles come in bursts: one write for those of a second.
_DELAY_SECONDS: Final = 1.0
#: How long the first compile waits for `config.profile_url`.
READ_LIMIT_SECONDS: Final = 5.0
#: How long the end of the program waits for the disk, and then for `config.profile_url`.
EXIT_LIMIT_SECONDS: Final = 5.0

_SECONDS_OF_A_DAY: Final = 24 * 60 * 60


class ProfileLocation(NamedTuple):
    """Where a profile is kept, by the settings at the time of a compile."""

    cache_dir: str
    url: str | None
    #: what it is signed with there, if it is one of several things that a team shares
    key: bytes | None = None


def _location() -> ProfileLocation:
    if config.profile_url is not None or config.cache_url is None:
        return ProfileLocation(config.cache_dir, config.profile_url)
    try:
        url = below(config.cache_url, store.FILE_NAME)
        return ProfileLocation(config.cache_dir, url, signing_key())
    except NoKey:  # who shares native code is told
        return ProfileLocation(config.cache_dir, None)


class Session:
    """What earlier runs knew, and what this one has learned and not written yet."""

    def __init__(self, read_limit: float = READ_LIMIT_SECONDS) -> None:
        self._read_limit = read_limit
        self._lock = threading.RLock()
        self._known: dict[ProfileLocation, Profile] = {}
        self._news: dict[ProfileLocation, dict[str, FunctionRecord]] = {}
        self._notices = Notices("profile")
        self._ends_with_python = False
        self._hangs = False
        self._start()

    def _start(self) -> None:
        self._saver = Worker("anyshape-profile", self._save, _DELAY_SECONDS)
        self._sender = Worker("anyshape-profile-url", self._send)

    def forget_parent(self) -> None:
        """In a forked process: the threads are not here, and the news are the parent's to write."""
        self._lock = threading.RLock()
        self._news = {}
        self._ends_with_python = False
        self._start()

    # -- reading -----------------------------------------------------------------------------------

    def known(self, key: str) -> FunctionRecord:
        """What earlier runs knew of a function."""
        place = _location()
        with self._lock:
            if place not in self._known:
                self._known[place] = self._read(place)
            return self._known[place].get(key, NOTHING)

    def _read(self, place: ProfileLocation) -> Profile:
        known = Profile()
        try:
            known = store.read(store.file_in(place.cache_dir))
        except (OSError, ValueError) as error:
            self._notices.tell(f"the profile in {place.cache_dir} is not used: {error}")
        if place.url is None:
            return known
        url, key = place.url, place.key
        try:
            if key is not None:
                signed = shared.ask("read", url, lambda: remote.fetch(url, key))
                return known if signed is None else known.united(signed)
            fetched = within(self._read_limit, lambda: remote.fetch(url), "anyshape-profile-read")
            return known.united(fetched)
        except Exception as error:
            # Any kind: each of fsspec's file systems has errors of its own.
            self._notices.tell(f"the profile at {shown(url)} is not used: {_text(error)}")
            return known

    # -- learning ----------------------------------------------------------------------------------

    def learn(
        self,
        identity: Identity,
        observed: Mapping[str, Observation],
        written: frozenset[str] = frozenset(),
        of_modules: Set[str] = frozenset(),
    ) -> None:
        """Remember what a compile has seen for the next run."""
        record = FunctionRecord(
            identity.name,
            identity.file,
            identity.line,
            int(time.time() // _SECONDS_OF_A_DAY),
            {
                source: record_of_call(each, source in of_modules)
                for source, each in observed.items()
                if is_worth_keeping(source)
            },
            frozenset(filter(is_worth_keeping, written)),
        )
        place = _location()
        with self._lock:
            news = self._news.setdefault(place, {})
            before = news.get(identity.key)
            news[identity.key] = record if before is None else combine(before, record, added)
            if not self._ends_with_python:
                self._ends_with_python = True
                at_end_of_program(self._end)
        self._saver.ask(place)

    def finish(self, limit: float = EXIT_LIMIT_SECONDS) -> bool:
        """Write what was learned, now; False if that takes too long."""
        saved = self._saver.finish(limit)
        return self._sender.finish(limit) and saved

    def _end(self) -> None:
        # Called twice: before threads end, and for what is learned after that. Nobody has to wait
        # twice for a disk that hangs.
        self._hangs = self._hangs or not self.finish()

    def start_again(self) -> None:
        """As a new process would: what was learned is what earlier runs knew."""
        self.finish()
        with self._lock:
            self._known = {}

    def _save(self, place: ProfileLocation) -> None:
        with self._lock:
            news = self._news.pop(place, None)
        if news is None:
            return
        try:
            store.update(
                store.file_in(place.cache_dir), lambda before: before.with_records(news, added)
            )
        except Exception as error:
            self._notices.tell(
                f"the profile in {place.cache_dir} cannot be written: {error}. Set"
                " config.cache_dir to a folder that can, or config.profile to False."
            )
            return
        if place.url is not None:
            self._sender.ask(place)

    def _send(self, place: ProfileLocation) -> None:
        url, key = place.url, place.key
        assert url is not None
        try:
            known = store.read(store.file_in(place.cache_dir))
            if key is None:
                remote.send(url, known)
            else:
                # A store that may only be read is told of where code is made.
                shared.ask("write", url, lambda: remote.send(url, known, key), quietly=True)
        except Exception as error:
            self._notices.tell(f"the profile at {shown(url)} was not written: {_text(error)}")


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


session: Final = Session()
os.register_at_fork(after_in_child=session.forget_parent)


class FunctionProfile:
    """The share of one compiled function. Nothing is asked or read before its first compile, and
    nothing that goes wrong here stops a compile."""

    __slots__ = ("_identify", "_identity")

    def __init__(self, identify: Callable[[], Identity | None]) -> None:
        self._identify = identify
        self._identity: Identity | None = None

    def known(self) -> FunctionRecord:
        """What earlier runs have seen; nothing if `config.profile` is off."""
        if not config.profile:
            return NOTHING
        try:
            identity = self._found()
            return NOTHING if identity is None else session.known(identity.key)
        except Exception as error:
            stream.emit(kinds.Defect("profile", _text(error)))
            return NOTHING

    def learn(
        self,
        observed: Mapping[str, Observation],
        written: frozenset[str] = frozenset(),
        of_modules: Set[str] = frozenset(),
    ) -> None:
        """Tell the next run what a compile has seen."""
        if not config.profile:
            return
        try:
            identity = self._found()
            if identity is not None:
                session.learn(identity, observed, written, of_modules)
        except Exception as error:
            stream.emit(kinds.Defect("profile", _text(error)))

    def _found(self) -> Identity | None:
        if self._identity is None:
            self._identity = self._identify()
        return self._identity
