"""`python -m benchmarks.gpu`: measure on a GPU, print tables, keep JSON.

    --only NAME       workloads whose name contains it (may be repeated)
    --systems A,B     of anyshape, eager, torch-dynamic (dynamic=True), torch-default
    --sizes A,B       of tiny, medium, large, odd, and shapes of models such as 1x64
    --starts N        how many processes start cold, warm and with capture alone; 0 for none
    --rounds N        at most so many rounds of each size
    --limit S         seconds that a system has to compile a workload, all sizes
    --seconds S       no workload is begun after so many, and none goes on for much longer
    --json FILE       every round that was taken

A wrong answer ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.__main__ import machine
from benchmarks.gpu.text import lines
from benchmarks.gpu.workloads import workloads
from benchmarks.native.child import in_child
from benchmarks.native.figures import Figures
from benchmarks.native.models import load
from benchmarks.native.run import Plan, measured
from benchmarks.native.steady import Effort
from benchmarks.native.store import Record
from benchmarks.native.systems import NAMED, OURS, TORCH_NONE, TORCH_TRUE

#: Seconds for the rounds of one size.
_BUDGET: Final = 0.6


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    started = time.monotonic()
    systems = [NAMED[name] for name in options.systems.split(",")]
    peers = tuple(system for system in (TORCH_TRUE, TORCH_NONE) if system in systems)
    plan = Plan(
        Effort(_BUDGET, options.rounds, torch.get_num_threads(), options.limit),
        options.starts,
        ours=(OURS,) if OURS in systems else (),
        peers=peers,
        more=False,
        start_limit=options.limit or 600,
    )
    found: Record = {}
    left: list[str] = []
    for name, workload in workloads(options.device).items():
        if options.only and not any(part.lower() in name.lower() for part in options.only):
            continue
        chosen = workload.at(options.sizes.split(",") if options.sizes else None)
        if chosen is None:
            continue
        seconds = options.seconds - (time.monotonic() - started)
        if seconds <= 0:
            left.append(name)
            continue
        if chosen.kind == "model":
            load()
        begun, most = time.monotonic(), min(600, seconds + 30)
        own = replace(plan, limit=most, start_limit=min(plan.start_limit, most))
        found[name] = measured(chosen, own, _quiet)
        print(f"{name}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
        if options.json:
            _keep(options.json, found, options.device)
    figures = Figures(found, {})
    print("\n".join(lines(figures)))
    if left:
        print(f"no time was left for: {', '.join(left)}")
    return int(any("WRONG" in problem for problem in figures.problems().values()))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--systems", default=",".join(NAMED), metavar="A,B")
    parser.add_argument("--sizes", default="", metavar="A,B")
    parser.add_argument("--starts", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=11, metavar="N")
    parser.add_argument("--limit", type=float, default=180, metavar="S")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S")
    parser.add_argument("--json", type=Path, metavar="FILE")
    # To try it without a GPU.
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.systems.split(",")) - set(NAMED)
    if unknown:
        parser.error(f"no such system: {', '.join(unknown)}; there are: {', '.join(NAMED)}")
    return options


def _keep(path: Path, found: Record, device: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": {**machine(), **in_child(_gpu, device)}, "workloads": found}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _gpu(device: str) -> dict[str, Any]:
    """In a child: whoever has asked a GPU can fork no process that uses it."""
    if device != "cuda":
        return {"gpu": "none"}
    return {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}


def _quiet(_: str) -> None:
    """Nothing is told meanwhile."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
