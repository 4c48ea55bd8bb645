"""`python -m benchmarks.training`: measure training, print tables, keep JSON.

    --workloads A,B   workloads whose name contains one of these; `functions`, `models` for a kind
    --systems A,B     of anyshape, eager, torch-dynamic (dynamic=True), torch-default; eager is
                      always there, since gradients are compared with its own
    --sizes A,B       of tiny, medium, large, odd
    --starts N        how many processes take a first step; 0 for none
    --rounds N        at most so many rounds of each size
    --budget S        seconds for the rounds of one size
    --limit S         seconds that a system has to compile a workload, all sizes
    --threads N       torch's threads; with one, times are processor time
    --json FILE       every round that was taken; what it has of the same processor, threads, torch
                      and systems stays as it is, so that a run can be done in pieces
    --again           measure what the file has, too

torch.compile needs a C++ compiler. A wrong gradient ends with exit code 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.native.steady import Effort
from benchmarks.native.store import Record, described_machine, peers_key, read, write
from benchmarks.native.systems import EAGER, NAMED, PEERS
from benchmarks.native.workload import Workload
from benchmarks.training.measure import measured
from benchmarks.training.text import lines
from benchmarks.training.workloads import WORKLOADS


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    names = options.systems.split(",")
    systems = [EAGER, *(NAMED[name] for name in names if NAMED[name] != EAGER)]
    if not set(systems).isdisjoint(PEERS) and shutil.which("c++") is None:
        print("torch.compile is left out: there is no C++ compiler", file=sys.stderr)
        systems = [system for system in systems if system not in PEERS]
    effort = Effort(options.budget, options.rounds, options.threads, options.limit)
    chosen = _chosen(options.workloads.split(",") if options.workloads else None)
    if not chosen:
        print(f"no such workload; there are: {', '.join(WORKLOADS)}")
        return 2
    kept = _Kept(options.json, systems, options.threads, options.starts)
    for workload in chosen:
        at = workload.at(options.sizes.split(",") if options.sizes else None)
        if at is None or (kept.has(at) and not options.again):
            continue
        begun = time.monotonic()
        kept.add(at.name, measured(at, systems, effort, options.starts))
        print(f"{at.name}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    found = {each.name: kept.found[each.name] for each in chosen if each.name in kept.found}
    print("\n".join(lines(found)))
    problems = [text for each in found.values() for text in each["problems"].values()]
    return int(any("WRONG" in problem for problem in problems))


class _Kept:
    """What has been measured, in a file if there is one: a run may be stopped and taken up."""

    def __init__(
        self, path: Path | None, systems: Sequence[str], threads: int, starts: int
    ) -> None:
        self._path = path
        self._how: dict[str, Any] = {
            "on": peers_key(threads),
            "systems": list(systems),
            "starts": starts,
        }
        self._machine = described_machine(threads)
        record = read(path) if path else {}
        self.found: Record = {
            name: each
            for name, each in record.get("workloads", {}).items()
            if each["how"] == self._how
        }

    def has(self, workload: Workload) -> bool:
        return set(workload.sizes) == set(self.found.get(workload.name, {}).get("sizes", ()))

    def add(self, name: str, record: Record) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.found[name] = {**record, "how": self._how, "at": at}
        if self._path:
            write(self._path, {"machine": self._machine, "workloads": self.found})


def _chosen(parts: Sequence[str] | None) -> list[Workload]:
    return [
        workload
        for name, workload in WORKLOADS.items()
        if parts is None
        or any(part == f"{workload.kind}s" or part.lower() in name.lower() for part in parts)
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.training", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workloads", default="", metavar="A,B")
    parser.add_argument("--systems", default=",".join(NAMED), metavar="A,B")
    parser.add_argument("--sizes", default="", metavar="A,B")
    parser.add_argument("--starts", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=11, metavar="N")
    parser.add_argument("--budget", type=float, default=1.0, metavar="S")
    parser.add_argument("--limit", type=float, default=300, metavar="S")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args(arguments)
    unknown = set(options.systems.split(",")) - set(NAMED)
    if unknown:
        parser.error(f"no such system: {', '.join(unknown)}; there are: {', '.join(NAMED)}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
