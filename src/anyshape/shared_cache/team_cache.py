"""What a team shares, in a process that must not wait for it.

A request has `config.cache_timeout_seconds`. After one that failed, nobody asks again for a minute.
Uploads are done by a thread; the end of the program waits for them no longer than that. Each kind
of trouble is told once.
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeVar

from anyshape.config import config
from anyshape.events.native_counts import count
from anyshape.events.notices import Notices
from anyshape.shared_cache import object_store
from anyshape.shared_cache.object_store import shown
from anyshape.shared_cache.signature import BadSignature, NoKey, signed, signing_key, verified
from anyshape.support.worker import Worker, at_end_of_program, within

T = TypeVar("T")

Kind = Literal["native"]
Doing = Literal["read", "write"]

#: Web servers give, and take nothing.
_READ_ONLY: Final = ("http://", "https://")
#: How long a store that failed is left alone.
REST_SECONDS: Final = 60.0


class _Upload(NamedTuple):
    url: str
    data: bytes
    then: Callable[[], object] | None
    is_offer: bool


def place_of(kind: Kind, name: str) -> str:
    """Below the URL; also what is signed. By folders, which some stores list slowly when full."""
    return f"{kind}/{name[:2]}/{name}"


class TeamCache:
    """The store behind `config.cache_url`, as far as it answers."""

    def __init__(self) -> None:
        self._notices = Notices("shared cache")
        self._start()

    def _start(self) -> None:
        """Also in a forked process, where the thread is not, and uploads are the parent's."""
        self._hangs = False
        #: by what is done ("read", "write"): not before this moment
        self._rests: dict[str, float] = {}
        self._uploads = Worker[_Upload]("anyshape-cache-upload", self._upload)

    forget_parent = _start

    def fetch(self, kind: Kind, name: str) -> bytes | None:
        """What somebody with the key wrote, or None."""
        url = config.cache_url
        key = None if url is None else self._key()
        if url is None or key is None:
            return None
        place = place_of(kind, name)

        def read() -> bytes | None:
            found = object_store.read(object_store.below(url, place))
            if found is None:
                count("remote_misses")
            return found

        data = self.ask("read", url, read)
        if data is None:
            return None
        try:
            payload = verified(key, place, data)
        except BadSignature as error:
            count("refused")
            self._notices.tell(
                f"{place} at {shown(url)} is not loaded: {error}. It is made here instead, as is"
                " everything else there that has no right signature.",
                "signature",
            )
            return None
        count("remote_hits")
        return payload

    def mark(self, name: str) -> str | None:
        """Under what a machine may note that the others have this; None if nothing is shared."""
        url = config.cache_url
        key = None if url is None else self._key()
        if url is None or key is None:
            return None
        return hmac.digest(key, f"{url}\0{name}".encode(), "sha256").hex()

    def send(
        self,
        kind: Kind,
        name: str,
        payload: bytes,
        then: Callable[[], object] | None = None,
        *,
        is_offer: bool = False,
    ) -> None:
        """Let the others have it, some time, and do something then. An offer that cannot be taken
        is nothing to tell anybody about."""
        url = config.cache_url
        key = None if url is None else self._key()
        if url is None or key is None or self._is_resting("write"):
            return
        place = place_of(kind, name)
        try:
            data = signed(key, place, payload)
            self._uploads.ask(_Upload(object_store.below(url, place), data, then, is_offer))
        except RuntimeError:
            return  # no thread can be started any more: the program ends

    def finish(self, limit: float) -> bool:
        """Wait for uploads; False if that takes too long."""
        return self._uploads.finish(limit)

    def end(self) -> None:
        """Finish within the limit."""
        # Called twice: nobody has to wait twice for a store that hangs.
        self._hangs = self._hangs or not self.finish(config.cache_timeout_seconds)

    def _key(self) -> bytes | None:
        try:
            return signing_key()
        except NoKey as error:
            self._notices.tell(f"nothing is shared through config.cache_url: {error}.", "key")
            return None

    # -- requests ----------------------------------------------------------------------------------

    def _upload(self, upload: _Upload) -> None:
        def write() -> bool:
            object_store.write(upload.url, upload.data)
            return True

        if self.ask("write", upload.url, write, quietly=upload.is_offer):
            count("uploads")
            if upload.then is not None:
                upload.then()

    def _is_resting(self, doing: Doing) -> bool:
        return time.monotonic() < self._rests.get(doing, 0.0)

    def ask(
        self, doing: Doing, url: str, request: Callable[[], T], *, quietly: bool = False
    ) -> T | None:
        """The answer, or None if there is none in time. Raises `BadSignature` alone."""
        if self._is_resting(doing) or (doing == "write" and url.startswith(_READ_ONLY)):
            return None
        try:
            # Not within the limit: a machine that starts many processes takes seconds for it.
            object_store.load_support(url)
            return within(config.cache_timeout_seconds, request, f"anyshape-cache-{doing}")
        except BadSignature:
            raise
        except Exception as error:  # each of fsspec's file systems has errors of its own
            self._failed(doing, url, error, quietly)
            return None

    def _failed(self, doing: Doing, url: str, error: Exception, quietly: bool) -> None:
        count("remote_failures")
        # Some stores say so of what is not there, to those who may not list it.
        is_refusal = isinstance(error, PermissionError) and doing == "read"
        if isinstance(error, ImportError | NotImplementedError):
            self._rests[doing] = float("inf")
        elif not is_refusal:
            self._rests[doing] = time.monotonic() + REST_SECONDS
        if quietly:
            return
        done = "read" if doing == "read" else "written"
        remedy = " (pip install 'anyshape[remote]')" if isinstance(error, ImportError) else ""
        self._notices.tell(
            shown(
                f"{url} cannot be {done}, and the program goes on without it:"
                f" {type(error).__name__}: {error}{remedy}"
            ),
            doing,
        )


shared: Final = TeamCache()
at_end_of_program(shared.end)
os.register_at_fork(after_in_child=shared.forget_parent)
