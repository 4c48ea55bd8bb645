"""The line on a terminal while a compile takes long: a real terminal, as far as the line knows."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
import torch

import anyshape
from anyshape.config import config
from anyshape.events import progress as module
from anyshape.events.progress import Progress

_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\r")


class Terminal:
    """A pair of ends; what is written to `file` can be read."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.file: TextIO = os.fdopen(slave, "w", encoding="utf-8")

    def read(self, until: str = "") -> str:
        """What was written; with a text that has to come, all up to it."""
        said = ""
        while select.select([self._master], [], [], 10 if until not in said else 0.01)[0]:
            said += os.read(self._master, 65536).decode()
        return said

    def close(self) -> None:
        self.file.close()
        os.close(self._master)


class Clock:
    """Time that passes when a test says so, for the thread that draws."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._passed, self._wakes, self._asleep, self._ended = 0.0, 0, False, False

    def monotonic(self) -> float:
        return time.monotonic() + self._passed

    def sleep(self, seconds: float) -> None:
        with self._turn:
            self._asleep, woken = True, self._wakes
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._ended or self._wakes > woken)

    def tick(self) -> None:
        """A long time passes. Who slept has looked at what there is, and sleeps again."""
        with self._turn:
            assert self._turn.wait_for(lambda: self._asleep, 60)
            self._passed, self._wakes, self._asleep = self._passed + 10, self._wakes + 1, False
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: self._asleep, 60)

    def end(self) -> None:
        with self._turn:
            self._ended = True
            self._turn.notify_all()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    yield made
    made.end()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    # Pytest sets the real one anew after the fixtures.
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=made.file))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    yield made
    made.close()


def test_a_long_compile_shows_where_it_is(terminal: Terminal, clock: Clock):
    said: list[str] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        clock.tick()
        said.append(terminal.read("compiling"))
        return graph.forward

    function = anyshape.compile(lambda x: x + 1, name="addition", backend=backend)
    function(torch.ones(3))
    said.append(terminal.read("\x1b[2K"))
    text = "".join(said)
    shown = _CODES.sub("", text)
    assert re.search(r"anyshape: compiling \S+ \[\d+/0\]  backend, \d+\.\d s", shown)
    # Nothing is left of it.
    assert text.endswith("\r\x1b[2K")
    assert "\n" not in text


def test_graphs_and_kernels(terminal: Terminal, clock: Clock):
    watched = Progress()
    with watched.compiling("f", "0/1"):
        watched.stage("backend")
        watched.graph()
        for _ in range(5):
            watched.kernel()
        clock.tick()
        text = terminal.read("kernels")
    assert re.search(r"f \[0/1\]  backend, 1 graph, 5 kernels, 1\d\.\d s", _CODES.sub("", text))


def test_without_rich(terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    watched = Progress()
    with watched.compiling("f" * 500, "0/1"):
        watched.stage("backend")
        clock.tick()
        text = terminal.read("compiling")
    text += terminal.read("\x1b[2K")
    assert "anyshape: compiling fff" in text
    assert text.endswith("\r\x1b[2K")
    # One line, cut off at the edge.
    assert len(_CODES.sub("", text.split("\x1b[2K")[1])) < 100


def _nothing(watched: Progress, terminal: Terminal) -> None:
    with watched.compiling("f", "0/1"):
        assert watched.now is None
        watched.stage("backend")
        watched.graph()
        watched.kernel()
    assert terminal.read() == ""
    assert watched._thread is None


def test_silent_where_nobody_looks(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "sys", SimpleNamespace(stderr=io.StringIO()))
        _nothing(Progress(), terminal)
        patch.setattr(module, "sys", SimpleNamespace(stderr=None))
        _nothing(Progress(), terminal)
    with config.patch(progress=False):
        _nothing(Progress(), terminal)
    monkeypatch.setenv("TERM", "dumb")
    _nothing(Progress(), terminal)


def test_silent_while_compiles_are_short(terminal: Terminal, clock: Clock):
    watched = Progress()
    for _ in range(50):
        with watched.compiling("f", "0/1"):
            watched.stage("backend")
    # Whatever the thread was about to do with them, it has done in this one, which shows nothing.
    with watched.compiling("f", "0/2"):
        clock.tick()
        clock.tick()
        assert terminal.read() == ""


def test_silent_while_the_program_runs(terminal: Terminal, clock: Clock):
    watched = Progress()
    with watched.compiling("f", "0/1"):
        watched.stage("capture")
        clock.tick()
        assert terminal.read() == ""
        watched.stage("backend")
        clock.tick()
        assert "compiling" in terminal.read("compiling")
        watched.stage("capture")
        assert terminal.read("\x1b[2K").endswith("\r\x1b[2K")
        clock.tick()
        assert terminal.read() == ""


def test_a_compile_within_a_compile_is_part_of_it(terminal: Terminal):
    watched = Progress()
    with watched.compiling("outer", "0/0"):
        outer = watched.now
        with watched.compiling("inner", "1/0"):
            assert watched.now is outer
        assert watched.now is outer
    assert watched.now is None


def test_each_thread_has_its_own(terminal: Terminal):
    watched = Progress()
    inside: list[object] = []
    with watched.compiling("f", "0/0"):
        thread = threading.Thread(target=lambda: inside.append(watched.now))
        thread.start()
        thread.join()
    assert inside == [None]


def test_a_terminal_that_is_gone_disturbs_nobody(terminal: Terminal, clock: Clock):
    watched = Progress()
    with watched.compiling("f", "0/0"):
        watched.stage("backend")
        clock.tick()
        assert "compiling" in terminal.read("compiling")
        terminal.file.close()
        clock.tick()
    assert watched._thread is not None
    assert watched._thread.is_alive()


def test_silent_while_python_ends(terminal: Terminal, clock: Clock):
    watched = Progress()
    with watched.compiling("f", "0/0"):
        watched.stage("backend")
        watched._end()
        clock.tick()
        clock.tick()
        assert terminal.read() == ""


def test_an_error_ends_it(terminal: Terminal):
    watched = Progress()
    with pytest.raises(ZeroDivisionError), watched.compiling("f", "0/0"):
        raise ZeroDivisionError
    assert watched.now is None
    assert watched._active == []
