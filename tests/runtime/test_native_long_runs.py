"""Many calls: from threads at once, and without leaving anything behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import anyshape.backends.native.source
from anyshape.config import config
from anyshape.loops.program import Launch
from anyshape.runtime.loader.errors import NativeFailed
from tests.runtime.native_samples import (
    ADD,
    FAIL,
    S0,
    S1,
    added,
    buffer,
    called,
    function,
    kernel_of,
    segment,
)
from tests.runtime.test_native_externs import convolved, whole


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grows(call: Callable[[], object], rounds: int) -> bool:
    """Whether the process grows by a megabyte, in each of three goes: what is left behind is left
    behind each time, what other tests of the process set going is not."""
    for _ in range(rounds // 10):
        call()
    return all(_growth(call, rounds) >= 1 << 20 for _ in range(3))


def _growth(call: Callable[[], object], rounds: int) -> int:
    gc.collect()
    before = resident()
    for _ in range(rounds):
        call()
    gc.collect()
    return resident() - before


def with_temporaries():
    add = kernel_of(ADD)
    buffers = [
        buffer("a", "input", S0),
        buffer("t", "temporary", S0),
        buffer("out", "output", S0),
        buffer("more", "output", S0),
    ]
    steps = [
        Launch(add, ("a", "a", "t"), (S0,), ()),
        Launch(add, ("t", "a", "out"), (S0,), ()),
        Launch(add, ("t", "t", "more"), (S0,), ()),
    ]
    return segment(buffers, steps)


def test_calls_leave_nothing_behind():
    run, a = function(with_temporaries()), torch.ones(300)
    count = sys.getrefcount(a)
    assert not grows(lambda: run(a, 300), 100_000)
    assert sys.getrefcount(a) == count


def test_large_integers_are_given_back():
    run, a, size = function(added()), torch.ones(1000), int("1000")
    count = sys.getrefcount(size)
    for _ in range(1000):
        run(a, a, size)
    assert sys.getrefcount(size) == count


def test_errors_leave_nothing_behind():
    kernel = kernel_of(FAIL, "wrong")
    buffers = [buffer("t", "temporary", S0 + 999), buffer("b0", "output", 300)]
    run = function(segment(buffers, [Launch(kernel, ("t",), (S0,), ())]))

    def call():
        with pytest.raises(NativeFailed):
            run(1)

    assert not grows(call, 20_000)


def test_c_functions_leave_nothing_behind():
    buffers = [buffer("x", "input", S0, S0), buffer("y", "output", S0, S0)]
    areas = whole("y", S0, S0), whole("x", S0, S0), whole("x", S0, S0)
    product = function(segment(buffers, [called("mm_out", *areas)]))
    square = torch.randn(6, 6)
    assert not grows(lambda: product(square, 6), 20_000)


@pytest.mark.parametrize("last", [1, 8], ids=["adopted", "copied"])
def test_their_results_are_given_back(last: int):
    strides = (8 * S1 * S1, S1 * S1, S1, 1) if last == 1 else (8 * S1 * S1, 1, 8 * S1, 8)
    run = function(convolved(strides))
    x, w, b = torch.randn(2, 3, 6, 6), torch.randn(8, 3, 3, 3), torch.randn(8)
    assert not grows(lambda: run(x, w, b, 2, 6), 5_000)


def test_functions_leave_nothing_behind():
    made = added()
    assert not grows(lambda: function(made), 300)


@pytest.mark.parametrize("size", [5, 20_000])
def test_many_threads(size: int):
    run = function(with_temporaries())
    wrong: list[str] = []

    def work(seed: int) -> None:
        a = torch.full((size,), float(seed))
        for _ in range(200):
            out, more = run(a, size)
            if not (torch.equal(out, a * 3) and torch.equal(more, a * 4)):
                wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


#: Says that it runs, and waits for somebody to answer, who can only be another thread of Python.
WAIT = """
define i32 @NAME(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch) {
  %a = load ptr, ptr %buffers
  %runs = getelementptr i32, ptr %a, i64 1
  store atomic volatile i32 1, ptr %runs monotonic, align 4
  br label %again
again:
  %x = load atomic volatile i32, ptr %a monotonic, align 4
  %still = icmp eq i32 %x, 0
  br i1 %still, label %again, label %done
done:
  ret i32 0
}
"""


def test_other_threads_run_meanwhile():
    buffers = [buffer("a", "input", S0, dtype="i32"), buffer("b", "output", 1)]
    run = function(segment(buffers, [Launch(kernel_of(WAIT), ("a",), (), ())]))
    shared = torch.zeros(10_000, dtype=torch.int32)

    def answer() -> None:
        while not shared[1]:
            pass
        shared[0] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    run(shared, 10_000)
    thread.join()
    assert shared[:2].tolist() == [1, 1]


PROGRAM = """
import sys
from tests.runtime.native_samples import added, function
import torch
a = torch.ones(3)
assert function(added())(a, a, 3).tolist() == [2, 2, 2]
print("llvmlite" in sys.modules)
"""


def started(folder: Path, count: int) -> list[str]:
    """What processes that start at once print: whether LLVM was needed."""
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "ANYSHAPE_CACHE_DIR": str(folder),
        "PYTHONPATH": f"{root / 'src'}:{root}",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    printed: list[str] = []
    for process in processes:
        out, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        printed.append(out.strip())
    return printed


@pytest.mark.slow
def test_later_processes_need_no_llvm(tmp_path: Path):
    assert "True" in started(tmp_path, 2)
    assert started(tmp_path, 1) == ["False"]
    for file in (tmp_path / "native").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert started(tmp_path, 1) == ["True"]
    assert started(tmp_path, 1) == ["False"]


def test_key_without_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By a key of its own, the code is found without making the text."""
    with config.patch(cache_dir=tmp_path):
        made = added()
        function(made, key="a plus b")

        def refuse(*_: object) -> None:
            raise AssertionError("the text was made")

        monkeypatch.setattr(anyshape.backends.native.source, "source_of", refuse)
        a = torch.ones(3)
        assert function(made, key="a plus b")(a, a, 3).tolist() == [2, 2, 2]
        with pytest.raises(AssertionError, match="the text was made"):
            function(made, key="a plus c")
