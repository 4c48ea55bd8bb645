"""The call that compiles does not wait for machine code; the next one does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape.config import config
from anyshape.runtime.loader import build as building
from anyshape.runtime.loader import engine
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.workers import workers
from tests import forks


def function(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() + 1).softmax(-1) * 2


class Emission:
    """Machine code that is made when the test says so."""

    def __init__(self) -> None:
        self.usual = engine._emitted
        self.go = threading.Event()
        self.error: Exception | None = None

    def __call__(self, module: Any, machine: Any, kind: int) -> bytes:
        assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return self.usual(module, machine, kind)


@pytest.fixture
def emission(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Emission]:
    monkeypatch.setattr(building, "available_cores", lambda: 2)
    monkeypatch.setattr(building, "_objects", {})
    x = torch.randn(3)
    anyshape.compile(lambda x: x + 1)(x)  # helpers are there
    workers.finish()
    made = Emission()
    monkeypatch.setattr(engine, "_emitted", made)
    with config.patch(cache_dir=str(tmp_path), on_compile_error="warn"), torch.no_grad():
        # Of another cache folder; they are not what is waited for.
        made.go.set()
        anyshape.compile(lambda x: x - 1)(x)
        workers.finish()
        made.go.clear()
        yield made
        made.go.set()
        workers.finish()


def test_only_the_next_call_waits(emission: Emission) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(x), function(x))
    before = compiled.stats().compile_seconds
    results: list[torch.Tensor] = []

    def call() -> None:
        with torch.no_grad():
            results.append(compiled(x))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert not results
    emission.go.set()
    for thread in threads:
        thread.join(60)
    assert len(results) == 3
    for each in results:
        torch.testing.assert_close(each, function(x))
    assert compiled.stats().compile_seconds >= before + 0.05
    after = compiled.stats().compile_seconds
    torch.testing.assert_close(compiled(torch.ones(7, 2)), function(torch.ones(7, 2)))
    assert compiled.stats().compile_seconds == after
    assert compiled.stats().graphs == 1


@pytest.mark.filterwarnings("ignore:anyshape. no native code")
@pytest.mark.parametrize("error", [NativeUnavailable("no"), ValueError("a defect")])
def test_what_cannot_be_made_runs_as_it_is(emission: Emission, error: Exception) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    x = torch.randn(3, 5)
    compiled(x)
    emission.error = error
    emission.go.set()
    for size in (3, 3, 4):
        x = torch.randn(size, 5)
        torch.testing.assert_close(compiled(x), function(x))
    assert compiled.stats().graphs == 1
    # Nothing is left of it: the next function of the same kernels is native.
    emission.error = None
    other = anyshape.compile(function, dynamic=True)
    for _ in range(3):
        torch.testing.assert_close(other(x), function(x))


def branching(x: torch.Tensor) -> torch.Tensor:
    y = (x.softmax(-1) * 2).sum(-1).exp() + 1
    return (y * 3).cumsum(0) if y.sum() > 0 else y.sin() * y.cos()


@pytest.mark.parametrize("program", [function, branching])
def test_it_is_an_error_if_that_is_wanted(emission: Emission, program: Any) -> None:
    with config.patch(on_compile_error="raise"):
        compiled: Any = anyshape.compile(program, dynamic=True)
        x = torch.randn(3, 5)
        compiled(x)
        emission.error = ValueError("a defect")
        emission.go.set()
        for _ in range(3):
            with pytest.raises(anyshape.errors.InternalError, match="a defect"):
                compiled(x)


def test_nothing_waits_for_a_compile_in_the_background(emission: Emission) -> None:
    with config.patch(background_compile=True):
        compiled = anyshape.compile(function, dynamic=True)
        for size in (3, 4, 5):
            x = torch.randn(size, 5)
            torch.testing.assert_close(compiled(x), function(x))
        assert not emission.go.is_set()


def test_in_the_calling_thread(emission: Emission) -> None:
    emission.go.set()
    with config.patch(compile_threads=1):
        compiled = anyshape.compile(function, dynamic=True)
        x = torch.randn(3, 5)
        compiled(x)
        emission.go.clear()  # nothing is left to be made
        torch.testing.assert_close(compiled(x), function(x))


SCRIPT = """
import sys, torch, anyshape
@anyshape.compile(dynamic=True)
def compiled(x):
    return (x.sin() + 1).softmax(-1) * 3
with torch.no_grad():
    compiled(torch.ones(3, 4))
print("llvmlite" in sys.modules)
"""


def test_a_process_that_calls_once_leaves_its_code(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def run() -> str:
        variables = {"ANYSHAPE_CACHE_DIR": str(tmp_path / "cache"), "ANYSHAPE_PROFILE": "0"}
        ran = forks.run([str(script)], tmp_path, variables, bare=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    assert run() == "True"
    assert run() == "False"
