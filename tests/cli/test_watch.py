"""`anyshape watch DIR` beside a real process that writes its trace."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshape.cli import main
from anyshape.cli.watch import Interruptible
from tests.report.recordings import FOLDER

JOB = """
import sys, warnings
import torch
import anyshape

warnings.simplefilter("ignore")

@anyshape.compile(dynamic=False)
def pad(x):
    return torch.nn.functional.pad(x, (0, 1))

@anyshape.compile
def total(x):
    return x.numpy().sum()

for line in sys.stdin:
    for _ in range(10):
        pad(torch.rand(int(line)))
        total(torch.rand(3))
    print("done", flush=True)
"""


class Job:
    """A program that makes ten calls for each number that it is given."""

    def __init__(self, folder: Path) -> None:
        (folder / "job.py").write_text(JOB, encoding="utf-8")
        self.trace = folder / "trace"
        variables = {"ANYSHAPE_TRACE": str(self.trace), "ANYSHAPE_PROFILE": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "job.py"],
            cwd=folder,
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def call(self, size: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with Job(tmp_path) as made:
        yield made


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_how_things_stand(job: Job, capsys: pytest.CaptureFixture[str]):
    def said() -> str:
        assert main(["watch", str(job.trace), "--once"]) == 0
        return capsys.readouterr().out

    job.call(2)
    until(job.trace.exists)
    # Calls that entries serve are told while the program runs.
    until(lambda: "hits 9, eager calls 10" in said())
    assert "(running): compiles" in said()
    job.call(3)
    until(lambda: "recompiles 1" in said() and "eager calls 20" in said())
    assert re.search(r"pad \(job.py:\d+\) +2 +1 +0 +18 +0", said())
    assert "Drop dynamic=False" in said()
    job.end()
    assert "(ended): compiles" in said()


def test_a_job_that_is_killed(job: Job, capsys: pytest.CaptureFixture[str]):
    job.call(2)
    until(lambda: bool(list(job.trace.glob("*.jsonl"))))
    job.process.kill()
    job.process.wait(60)
    assert main(["watch", str(job.trace), "--once"]) == 0
    assert "(gone): " in capsys.readouterr().out
    assert main(["watch", str(job.trace), "--until-end"]) == 0


def watching(trace: Path, *options: str, **how: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "anyshape", "watch", str(trace), *options]
    view: Any = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=_interruptible, **how)
    return view


def _interruptible() -> None:
    """What a shell runs in the background ignores interrupts, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _errors(view: subprocess.Popen[bytes]) -> bytes:
    # Not `communicate`: it would lose what was read ahead with the first lines.
    assert view.stderr is not None
    return view.stderr.read()


def test_lines_as_things_happen(tmp_path: Path):
    """The view is there before the job is, and ends with it."""
    with watching(tmp_path / "trace", "--until-end", stdout=subprocess.PIPE) as view:
        assert view.stdout is not None
        assert b"waiting for a trace" in view.stdout.readline()
        with Job(tmp_path) as job:
            for size in (2, 3, 4):
                job.call(size)
            lines = [view.stdout.readline().decode() for _ in range(3)]
            assert any("compiled: pad [0/0]" in line for line in lines), lines
            job.end()
        rest, wrong = view.stdout.read(), _errors(view)
    said = "".join(lines) + rest.decode()
    assert "recompile: pad [0/2] tensor 'x' size mismatch at index 0. expected 3, actual 4" in said
    assert said.count("    do: Drop dynamic=False") == 2  # when it happened, and at the end
    assert "runs eagerly: total [1/0] `numpy` reads the data of a tensor (job.py:14)" in said
    assert "(ended): compiles" in said
    assert (view.returncode, wrong) == (0, b"")


def test_an_interrupt_ends_it_well():
    with watching(FOLDER / "ranks", stdout=subprocess.PIPE) as view:
        assert view.stdout is not None
        assert view.stdout.readline()
        view.send_signal(signal.SIGINT)
        view.stdout.read()
        wrong = _errors(view)
    assert (view.returncode, wrong) == (0, b"")


def test_a_reader_that_has_seen_enough():
    with watching(FOLDER / "ranks", stdout=subprocess.PIPE) as view:
        assert view.stdout is not None
        view.stdout.readline()
        view.stdout.close()
        view.send_signal(signal.SIGINT)
        # It may end of the one or of the other, or be interrupted while it ends.
        view.wait(60)
        assert b"Traceback" not in _errors(view)


@pytest.mark.parametrize("end", [BrokenPipeError, KeyboardInterrupt])
def test_nothing_interrupts_the_way_out(end: type[BaseException]):
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with contextlib.suppress(end), Interruptible():
            raise end
        signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt), Interruptible():
            signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Interruptible():
            pass
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_a_terminal():
    mine, its = pty.openpty()
    size = {"COLUMNS": "100", "LINES": "40"}
    with watching(FOLDER / "ranks", stdout=its, env=os.environ | size) as view:
        os.close(its)
        shown = ""
        while "rank 1" not in shown or "recompile: loss" not in shown:
            shown += os.read(mine, 65536).decode("utf-8", "replace")
        view.send_signal(signal.SIGINT)
        assert view.wait(60) == 0
    os.close(mine)
    assert "step (train.py:7)" in shown
    assert "Ctrl-C ends the view" in shown


def test_once_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["watch", str(tmp_path / "nowhere"), "--once"]) == 2
    assert "ANYSHAPE_TRACE=" in capsys.readouterr().err
