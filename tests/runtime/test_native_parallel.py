"""Machine code is made by several threads at once, and is the same as by one."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from anyshape.config import config
from anyshape.runtime.loader import build as building
from anyshape.runtime.loader import engine
from anyshape.runtime.loader.build import Source, build, load
from anyshape.runtime.loader.disk_cache import DiskCache
from anyshape.runtime.loader.errors import InvalidCode, NativeUnavailable
from anyshape.runtime.loader.host_target import HostTarget, host_target
from anyshape.runtime.loader.workers import Task, Workers, when_all, workers

COUNT = 24


@pytest.fixture
def target(tmp_path: Path) -> HostTarget:
    return host_target(DiskCache(tmp_path / "native", 1 << 20))


def function(number: int) -> str:
    """A module with a function that is long enough to take a while."""
    count = 40 + 10 * (number % 5)
    lines = [f"  %v{n + 1} = mul i64 %v{n}, {2 * number + n + 3}" for n in range(count)]
    head = f"define i64 @part{number}(i64 %v0) {{"
    return "\n".join([head, *lines, f"  ret i64 %v{count}", "}", ""])


def source() -> Source:
    calls = [
        f"  %r{n} = call i64 @part{n}(i64 %x)\n  %s{n + 1} = xor i64 %s{n}, %r{n}"
        for n in range(COUNT)
    ]
    declared = [f"declare i64 @part{n}(i64)" for n in range(COUNT)]
    body = ["define i64 @all(i64 %x) {", "  %s0 = add i64 %x, 0", *calls, f"  ret i64 %s{COUNT}"]
    text = "\n".join([*declared, *body, "}", ""])
    return Source(text, "all", apart=[function(n) for n in range(COUNT)])


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_objects", {})
    monkeypatch.setattr(building, "available_cores", lambda: 16)


def built_by(threads: int, target: HostTarget, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(building, "_objects", {})
    with config.patch(compile_threads=threads):
        return build(source(), target).to_bytes()


def test_the_same_code(target: HostTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = built_by(1, target, monkeypatch)
    for threads in (2, 3, 8):
        assert built_by(threads, target, monkeypatch) == alone


def test_as_many_threads_as_are_allowed(
    target: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    interval = sys.getswitchinterval()
    usual = engine._emitted

    def emitted(module: object, machine: object, kind: int) -> bytes:
        seen.add(threading.get_ident())
        return usual(module, machine, kind)

    monkeypatch.setattr(engine, "_emitted", emitted)
    built_by(1, target, monkeypatch)
    assert seen == {threading.get_ident()}
    seen.clear()
    built_by(4, target, monkeypatch)
    workers.finish()
    assert threading.get_ident() not in seen
    assert 1 < len(seen) <= 4
    assert sys.getswitchinterval() == interval


def test_several_builds_at_once(target: HostTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = built_by(1, target, monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: build(source(), target).to_bytes(), range(8)))
    assert all(each == alone for each in made)


def test_a_module_that_is_wrong_is_told(target: HostTarget) -> None:
    wrong = Source(source().text, "all", apart=[*source().apart, "define nonsense"])
    with pytest.raises(InvalidCode, match="cannot read"):
        build(wrong, target)
    assert load(build(source(), target)).address("all")


def test_without_the_function_behind_the_lock(
    target: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another llvmlite may have no way past its lock: then it goes through it."""
    alone = built_by(1, target, monkeypatch)
    library = engine.llvm().ffi.lib
    wrapped = library.LLVMPY_TargetMachineEmitToMemory
    plain = lambda *given: wrapped(*given)  # noqa: E731
    monkeypatch.setitem(library._fntab, "LLVMPY_TargetMachineEmitToMemory", plain)
    assert built_by(4, target, monkeypatch) == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_is_forked_builds_too(
    target: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = built_by(4, target, monkeypatch)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if built_by(4, target, monkeypatch) == alone else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_was_asked_for_last_comes_first() -> None:
    begun, go = threading.Event(), threading.Event()
    order: list[str] = []
    own = Workers()
    own.do([lambda: (begun.set(), go.wait(60), order.append("a"))[0]], 1)
    begun.wait(60)
    own.do([lambda: order.append("b"), lambda: order.append("c")], 1)
    own.do([lambda: order.append("d"), lambda: order.append("e")], 1)
    own.do_last(lambda: order.append("f"))
    go.set()
    own.finish()
    own.do_last(lambda: order.append("g"))
    assert order == ["a", "d", "e", "b", "c", "f", "g"]


def test_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a process there are no new ones."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    own = Workers()
    own.do([lambda: done.append(1), lambda: done.append(2)], 4)
    assert done == [1, 2]
    own.finish()


def test_interrupted_while_a_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        start(self)
        raise KeyboardInterrupt

    own, done = Workers(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            own.do([done.set], 2)
    assert done.wait(60)
    own.finish()


@pytest.mark.parametrize("alone", [True, False])
def test_others_go_on_after_a_task_that_raises(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong() -> None:
        raise SystemExit  # which a thread does not tell of

    own, done = Workers(), threading.Event()
    start = threading.Thread.start
    starts: list[bool] = []

    def refused(self: threading.Thread) -> None:
        starts.append(True)
        if alone and len(starts) == 1:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(SystemExit) if alone else nullcontext():
        own.do([wrong, done.set], 1)
    assert done.wait(60)
    own.finish()


def test_what_is_interrupted_is_not_there() -> None:
    def wrong() -> int:
        raise KeyboardInterrupt

    task = Task(wrong)
    with pytest.raises(KeyboardInterrupt):
        task()
    with pytest.raises(NativeUnavailable):
        task.future.result()


def test_interrupted_between_two_objects(
    target: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for what nobody makes."""
    alone = built_by(1, target, monkeypatch)
    begun, calls = building._begun_object, [0]

    def interrupted(*given: Any) -> Any:
        made = begun(*given)
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        return made

    with monkeypatch.context() as patch:
        patch.setattr(building, "_begun_object", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(source(), target)
    assert build(source(), target).to_bytes() == alone


def test_results_are_not_kept(target: HostTarget) -> None:
    """The objects are, for other segments; not what was made of them."""

    class Made:
        pass

    parts = [Task(lambda: 1), Task(lambda: 2)]
    future = when_all([part.future for part in parts], lambda _: Made())
    for part in parts:
        part()
    kept = weakref.ref(future.result())
    del future
    gc.collect()
    assert kept() is None
