"""The cache of a team in one process: believed if signed, and never in the way."""

from __future__ import annotations

import os
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from anyshape.config import config
from anyshape.events.native_counts import counts
from anyshape.shared_cache import object_store
from anyshape.shared_cache.signature import signed
from anyshape.shared_cache.team_cache import TeamCache, place_of

KEY = "a key of the team, long enough"
NAME = "ab" * 32


@pytest.fixture(params=["memory", "file", "path"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    place = {
        "memory": f"memory://{uuid.uuid4().hex}/team",
        "file": f"file://{tmp_path}/team",
        "path": f"{tmp_path}/team",
    }[request.param]
    with config.patch(cache_url=place, cache_key=KEY):
        yield place


def stored(url: str) -> str:
    return object_store.below(url, place_of("native", NAME))


def told(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in caught]


def test_one_sends_and_another_finds(url: str):
    first, second = TeamCache(), TeamCache()
    assert second.fetch("native", NAME) is None
    first.send("native", NAME, b"code")
    assert first.finish(10)
    assert second.fetch("native", NAME) == b"code"
    assert second.fetch("native", NAME[:-1] + "c") is None
    (entry,) = object_store.listed(url)
    assert entry.path == place_of("native", NAME)
    assert abs(entry.written - time.time()) < 3600
    object_store.remove(stored(url))
    object_store.remove(stored(url))
    assert not object_store.listed(url)


BAD = {
    "unsigned": b"code",
    "empty": b"",
    "of another key": signed(b"another key, long enough", place_of("native", NAME), b"code"),
    "of another name": signed(KEY.encode(), place_of("native", "cd" * 32), b"code"),
    "truncated": signed(KEY.encode(), place_of("native", NAME), b"code")[:-1],
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_has_no_right_signature_is_never_given_out(url: str, data: bytes):
    object_store.write(stored(url), data)
    cache, before = TeamCache(), counts.refused

    def fetch() -> None:
        for _ in range(3):
            assert cache.fetch("native", NAME) is None

    (message,) = told(fetch)
    assert "is not loaded" in message
    assert counts.refused == before + 3
    # And it is put right by who makes it.
    cache.send("native", NAME, b"good")
    assert cache.finish(10)
    assert TeamCache().fetch("native", NAME) == b"good"


def test_without_a_key_nothing_is_shared(url: str):
    object_store.write(stored(url), b"code")
    with config.patch(cache_key=None):
        cache = TeamCache()
        messages = told(lambda: [cache.fetch("native", NAME), cache.send("native", NAME, b"x")])
    assert len(messages) == 1
    assert "no key" in messages[0]
    assert object_store.read(stored(url)) == b"code"


def test_warnings_as_errors_stop_nothing(url: str):
    object_store.write(stored(url), b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TeamCache().fetch("native", NAME) is None


# -- stores that do not work -----------------------------------------------------------------------


class InMemory(MemoryFileSystem):
    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.rpartition("://")[2])


class Hanging(InMemory):
    protocol = "hanging"
    asked = 0

    def cat_file(self, *args: Any, **kwargs: Any) -> Any:
        type(self).asked += 1
        threading.Event().wait(30)

    def pipe_file(self, *args: Any, **kwargs: Any) -> Any:
        self.cat_file()


class ReadOnly(InMemory):
    protocol = "readonly"

    def pipe_file(self, *args: Any, **kwargs: Any) -> Any:
        raise PermissionError("you may only read")


class Refusing(InMemory):
    """As object stores do of what is not there, to those who may not list it."""

    protocol = "refusing"

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        if NAME not in path:
            raise PermissionError("403")
        return super().cat_file(path, *args, **kwargs)


class Failing(InMemory):
    protocol = "failing"
    asked = 0

    def cat_file(self, *args: Any, **kwargs: Any) -> Any:
        type(self).asked += 1
        raise RuntimeError("the store is on fire")


for kind in (Hanging, ReadOnly, Refusing, Failing):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)


def test_a_store_that_hangs_is_asked_once():
    cache = TeamCache()
    Hanging.asked = 0

    def fetch() -> None:
        for _ in range(50):
            assert cache.fetch("native", NAME) is None

    start = time.monotonic()
    with config.patch(cache_url="hanging://x", cache_key=KEY, cache_timeout_seconds=0.3):
        (message,) = told(fetch)
        assert Hanging.asked == 1
        (other,) = told(lambda: [cache.send("native", NAME, b"x"), cache.finish(5)])
    assert "cannot be read" in message
    assert "TimeoutError" in message
    assert "cannot be written" in other
    assert time.monotonic() - start < 5


def test_a_store_that_fails_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch):
    cache = TeamCache()
    Failing.asked = 0
    with config.patch(cache_url="failing://x", cache_key=KEY):
        messages = told(lambda: [cache.fetch("native", NAME) for _ in range(5)])
        assert len(messages) == Failing.asked == 1
        assert "on fire" in messages[0]
        later = time.monotonic() + 100
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert not told(lambda: cache.fetch("native", NAME))
    assert Failing.asked == 2


def test_a_store_that_may_only_be_read_is_read():
    name = uuid.uuid4().hex
    with config.patch(cache_url=f"memory://{name}", cache_key=KEY):
        cache = TeamCache()
        cache.send("native", NAME, b"code")
        assert cache.finish(5)
    with config.patch(cache_url=f"readonly://{name}", cache_key=KEY):
        cache = TeamCache()

        def send() -> None:
            for name in ("cd" * 32, "ef" * 32):
                cache.send("native", name, b"more")
                assert cache.finish(5)

        messages = told(send)
        assert len(messages) == 1
        assert "you may only read" in messages[0]
        assert cache.fetch("native", NAME) == b"code"


def test_what_may_not_be_listed_is_missing_and_the_rest_is_found():
    name = uuid.uuid4().hex
    with config.patch(cache_url=f"memory://{name}", cache_key=KEY):
        cache = TeamCache()
        cache.send("native", NAME, b"code")
        assert cache.finish(5)
    with config.patch(cache_url=f"refusing://{name}", cache_key=KEY):
        cache = TeamCache()
        assert len(told(lambda: cache.fetch("native", "cd" * 32))) == 1
        assert cache.fetch("native", NAME) == b"code"


@pytest.mark.parametrize("url", ["nosuchscheme://x", "http://127.0.0.1:9/x"])
def test_urls_that_lead_nowhere(url: str):
    with config.patch(cache_url=url, cache_key=KEY):
        cache = TeamCache()
        (message,) = told(lambda: [cache.fetch("native", NAME) for _ in range(3)])
    assert url in message


def test_passwords_in_urls_are_not_told():
    with config.patch(cache_url="failing://me:geheim@x/y", cache_key=KEY):
        cache = TeamCache()
        (message,) = told(lambda: cache.fetch("native", NAME))
    assert "geheim" not in message


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*args: Any) -> Any:
        raise OSError(28, os.strerror(28))

    with config.patch(cache_url=str(tmp_path), cache_key=KEY):
        cache = TeamCache()
        monkeypatch.setattr(Path, "write_bytes", full)
        messages = told(lambda: [cache.send("native", NAME, b"code"), cache.finish(5)])
        assert len(messages) == 1
        assert cache.fetch("native", NAME) is None
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
