"""Workloads side by side, each in a process with cores of its own: a machine with many cores takes
the whole table in the time of its longest workload.

What is compared runs within one process and takes turns there, so ratios hold; absolute times of
what is bound by memory share the machine's bandwidth."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.native.store import Record, read


def side_by_side(names: Sequence[str], threads: int, options: Sequence[str]) -> Record:
    """The records of all workloads, each from its own run of `python -m benchmarks.native`."""
    lanes: queue.SimpleQueue[tuple[int, ...]] = queue.SimpleQueue()
    cores = sorted(os.sched_getaffinity(0))
    groups = [tuple(cores[at : at + threads]) for at in range(0, len(cores), threads)]
    groups = [group for group in groups if len(group) == threads]
    for group in groups:
        lanes.put(group)
    with tempfile.TemporaryDirectory(prefix="anyshape-lanes-") as folder:

        def measured(name: str) -> Record:
            lane = lanes.get()
            try:
                return _one(name, lane, Path(folder), options)
            finally:
                lanes.put(lane)

        with ThreadPoolExecutor(len(groups)) as pool:
            # The last ones of the table are whole models, which take longest.
            found = dict(zip(reversed(names), pool.map(measured, reversed(names)), strict=True))
    return {name: found[name] for name in names if found[name]}


def _one(name: str, lane: Sequence[int], folder: Path, options: Sequence[str]) -> Record:
    record = folder / f"{lane[0]}.json"
    record.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.native", "--exactly", name, "--no-docs"]
    command += ["--threads", str(len(lane)), "--record", str(record), *options]
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, lane),
    )
    found = read(record).get("workloads", {})
    if name not in found:
        print(f"{name}: no figures: {done.stderr[-500:]}", file=sys.stderr)
    else:
        print(f"{name}: measured on cores {', '.join(map(str, lane))}", file=sys.stderr)
    return found.get(name, {})
