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

    def read(self) -> str:
        is_something = select.select([self._master], [], [], 0.05)[0]
        return os.read(self._master, 65536).decode() if is_something else ""

    def close(self) -> None:
        self.file.close()
        os.close(self._master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    # Pytest sets the real one anew after the fixtures.
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=made.file))
    monkeypatch.setattr(module, "LONG_SECONDS", 0.1)
    monkeypatch.setattr(module, "_REDRAW_SECONDS", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    yield made
    made.close()


def wait_for(said: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not said() and time.monotonic() < ends:
        time.sleep(0.02)


def slow(seen: Callable[[], bool]) -> Callable[..., Any]:
    """A backend that takes until something was seen."""

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        wait_for(seen)
        return graph.forward

    return backend


def test_a_long_compile_shows_where_it_is(terminal: Terminal):
    said: list[str] = []

    def is_shown() -> bool:
        said.append(terminal.read())
        return "compiling" in "".join(said)

    function = anyshape.compile(lambda x: x + 1, name="addition", backend=slow(is_shown))
    function(torch.ones(3))
    said.append(terminal.read())
    text = "".join(said)
    shown = _CODES.sub("", text)
    assert re.search(r"anyshape: compiling \S+ \[\d+/0\]  backend, \d+\.\d s", shown)
    # Nothing is left of it.
    assert text.endswith("\r\x1b[2K")
    assert "\n" not in text


def test_graphs_and_kernels(terminal: Terminal):
    watched = Progress()
    with watched.compiling("f", "0/1"):
        watched.stage("backend")
        watched.graph()
        for _ in range(5):
            watched.kernel()
        text = ""
        for _ in range(100):
            text += terminal.read()
            if "kernels" in text:
                break
    assert "f [0/1]  backend, 1 graph, 5 kernels, 0." in _CODES.sub("", text)


def test_without_rich(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    watched, text = Progress(), ""
    with watched.compiling("f" * 500, "0/1"):
        watched.stage("backend")
        for _ in range(100):
            text += terminal.read()
            if "compiling" in text:
                break
    text += terminal.read()
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
        time.sleep(0.2)
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


def test_silent_while_compiles_are_short(terminal: Terminal):
    watched = Progress()
    for _ in range(50):
        with watched.compiling("f", "0/1"):
            pass
    time.sleep(0.3)
    assert terminal.read() == ""


def test_silent_while_the_program_runs(terminal: Terminal):
    watched = Progress()
    with watched.compiling("f", "0/1"):
        watched.stage("capture")
        time.sleep(0.3)
        assert terminal.read() == ""
        watched.stage("backend")
        wait_for(lambda: "compiling" in terminal.read())
        watched.stage("capture")
        time.sleep(0.1)
        assert terminal.read().endswith("\r\x1b[2K")
        time.sleep(0.2)
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


def test_a_terminal_that_is_gone_disturbs_nobody(terminal: Terminal):
    watched = Progress()
    with watched.compiling("f", "0/0"):
        watched.stage("backend")
        wait_for(lambda: "compiling" in terminal.read())
        terminal.file.close()
        time.sleep(0.2)
    assert watched._thread is not None
    assert watched._thread.is_alive()


def test_an_error_ends_it(terminal: Terminal):
    watched = Progress()
    with pytest.raises(ZeroDivisionError), watched.compiling("f", "0/0"):
        raise ZeroDivisionError
    assert watched.now is None
    assert watched._active == []
