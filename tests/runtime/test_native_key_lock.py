"""Code of a key is made once, and nobody waits for long for who does not make it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshape.config import config
from anyshape.events.native_counts import counts
from anyshape.runtime.loader import build as building
from anyshape.runtime.loader import key_lock
from anyshape.runtime.loader.build import Source, build, found_or_begun, load
from anyshape.runtime.loader.disk_cache import DiskCache, key_of
from anyshape.runtime.loader.host_target import host_target
from anyshape.runtime.loader.image import Built

KEY = key_of("one")

HOLDER = """
import sys, time
from pathlib import Path
from anyshape.runtime.loader.disk_cache import DiskCache
held = DiskCache(Path(sys.argv[1]), 1 << 20).try_lock(sys.argv[2])
assert held is not None
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setattr(key_lock, "patience", key_lock.Patience())
    monkeypatch.setattr(building, "patience", key_lock.Patience())
    monkeypatch.setattr(building, "_objects", {})
    return DiskCache(tmp_path / "native", 1 << 20)


@pytest.fixture
def holder(cache: DiskCache, tmp_path: Path) -> Iterator[Any]:
    """Starts processes that hold locks."""
    started: list[subprocess.Popen[str]] = []

    def hold(key: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "native"), key]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def test_one_has_it_at_a_time(cache: DiskCache, tmp_path: Path):
    first = cache.try_lock(KEY)
    assert first is not None
    assert cache.try_lock(KEY) is None
    other = cache.try_lock(key_of("another"))
    assert other is not None
    first.release()
    first.release()
    again = cache.try_lock(KEY)
    assert again is not None
    again.release()
    other.release()
    assert os.listdir(tmp_path / "native") == []


def test_many_threads_and_one_lock(cache: DiskCache):
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(50):
            lock = cache.try_lock(KEY)
            if lock is not None:
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                lock.release()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}


def test_a_dead_holder_blocks_nobody(cache: DiskCache, holder: Any):
    process = holder(KEY)
    assert cache.try_lock(KEY) is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    lock = cache.try_lock(KEY)
    assert lock is not None
    lock.release()


def text_of(number: int) -> str:
    return f"define i32 @f() {{ ret i32 {number} }}"


def made(cache: DiskCache, key: str) -> Built:
    target = host_target(cache)
    found = found_or_begun(key, lambda: Source(text_of(7), run="f"), target, cache)
    return found if isinstance(found, Built) else found.result()


def test_a_holder_that_hangs_is_waited_for_once(
    cache: DiskCache, holder: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key_lock, "MOST_SECONDS", 0.5)
    target = host_target(cache)
    for key in ("a", "b", "c"):
        holder(building.code_name(key, target)).send_signal(signal.SIGSTOP)
    start = time.monotonic()
    for key in ("a", "b", "c"):
        assert load(made(cache, key)).address("f")
    assert time.monotonic() - start < 3
    assert cache.read(building.code_name("a", target)) is not None


def test_what_another_has_made_meanwhile_is_taken(cache: DiskCache):
    target = host_target(cache)
    name = building.code_name("a", target)
    lock = cache.try_lock(name)
    assert lock is not None
    other = build(Source(text_of(8), run="f"), target).to_bytes()
    before = counts.builds

    def other_ends() -> None:
        time.sleep(0.2)
        cache.write(name, other)
        lock.release()

    threading.Thread(target=other_ends).start()
    assert made(cache, "a").to_bytes() == other
    assert counts.builds == before


def test_objects_of_others_are_waited_for(cache: DiskCache):
    """Of kernels that several segments have."""
    target = host_target(cache)
    apart = "define i32 @g() { ret i32 3 }"
    name = building.code_name(f"object\n{apart}", target)
    other = build(Source(apart, run="g"), target)
    lock = cache.try_lock(name)
    assert lock is not None
    before = counts.builds
    source = Source("declare i32 @g()\n" + text_of(7), run="f", apart=[apart])
    with config.patch(compile_threads=2), pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "available_cores", lambda: 2)
        begun = found_or_begun("b", lambda: source, target, cache)
        assert not isinstance(begun, Built)
        time.sleep(0.2)
        assert not begun.done()
        cache.write(name, building.begun_object(apart, *target[:3])())
        lock.release()
        assert load(begun.result(30)).address("f")
    assert counts.builds == before + 2, "the segment's own module, and the one of this test"
    assert other.run == "g"


def test_without_a_folder_there_is_no_lock(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "native", 1 << 20)
    first, second = cache.try_lock(KEY), cache.try_lock(KEY)
    assert first is not None
    assert second is not None
    first.release()
    second.release()
