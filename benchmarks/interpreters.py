"""`python -m benchmarks.interpreters PYTHON ...`: guard checks under several interpreters that have
torch, in one run.

    python -m benchmarks.interpreters .venv/bin/python other/bin/python3.13

The interpreters take turns of some milliseconds, so that what else the machine does falls on all of
them alike; the least of many turns is taken, and the first interpreter is what the others are
compared with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
_TURNS = 40


def cases() -> dict[str, Callable[[], float]]:
    """What a worker measures, by name: nanoseconds of one call."""
    import torch

    from anyshape.guards.fast_path.tensor_impl_layout import tensor_memory
    from benchmarks.bench_dispatch import build, nanoseconds, stack, two_tensors

    found: dict[str, Callable[[], float]] = {"x + y, one dynamic size": two_tensors}
    memory = tensor_memory(torch.zeros, torch.nn.Parameter)
    x = torch.zeros(4, 8)
    for layers in (6, 24, 96):
        module, entry = stack(layers)
        stamped, looked_at = build(entry, memory), build(entry, None)
        name = f"{layers} linear layers, {len(entry.guards)} guards"

        def check(check=stamped, module=module) -> float:
            return nanoseconds(check, module, x, repeats=3)

        def look(check=looked_at, module=module) -> float:
            return nanoseconds(check, module, x, repeats=3)

        found[name] = check
        found[f"{name}, tensors looked at"] = look
    return found


def work() -> None:
    """Answer each line of the input, the name of a case, with a line."""
    found = cases()
    print(json.dumps([*found]), flush=True)
    for line in sys.stdin:
        print(found[line.rstrip("\n")](), flush=True)


class _Worker:
    def __init__(self, python: str) -> None:
        # Not resolved: the name of an environment's interpreter is what makes it that one's.
        command = [os.path.abspath(python), "-m", "benchmarks.interpreters", "--work"]
        paths = os.pathsep.join((str(HERE.parent / "src"), str(HERE.parent)))
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.names: list[str] = json.loads(self._line())
        version = "import platform; print(platform.python_version())"
        self.version = subprocess.check_output([python, "-c", version], text=True).strip()

    def measure(self, name: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def main(pythons: list[str]) -> int:
    if not pythons:
        print(__doc__)
        return 2
    workers = [_Worker(python) for python in pythons]
    names = workers[0].names
    least = [dict.fromkeys(names, float("inf")) for _ in workers]
    for _ in range(_TURNS):
        for name in names:
            for found, worker in zip(least, workers, strict=True):
                found[name] = min(found[name], worker.measure(name))
    width = max(map(len, names))
    print(f"{'nanoseconds':<{width}}", *(f"{worker.version:>16}" for worker in workers))
    for name in names:
        times = [found[name] for found in least]
        shown = (f"{time:>8,.0f} ({time / times[0]:.2f})" for time in times)
        print(f"{name:<{width}}", *(f"{each:>16}" for each in shown))
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        sys.exit(main(sys.argv[1:]))
