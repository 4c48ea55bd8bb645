"""`python -m benchmarks.native`: measure, print, keep JSON, a picture and docs/benchmarks.md.

    --quick              fewer rounds and starts
    --only NAME          workloads whose name contains it (may be repeated)
    --no-torch-compile   without the peers; their stored figures are used where there are any
    --peers-only         eager and the peers alone, into benchmarks/results/peers.json
    --again              measure again what is stored of the peers: with --peers-only everything,
                         otherwise their cold starts, which take most of the time
    --side-by-side       each workload in a process with cores of its own, all at once
    --threads N          torch's threads; 1 gives steadier figures on a busy machine
    --add                to the record of the last run, in place of what it has of these workloads
    --no-docs            leave docs/benchmarks.md alone

A wrong answer ends with exit code 1, and is printed in red. Aims that are missed do not.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.native import store
from benchmarks.native.docs import write_docs
from benchmarks.native.figures import Figures
from benchmarks.native.lanes import side_by_side
from benchmarks.native.models import load
from benchmarks.native.plot import picture
from benchmarks.native.registry import WORKLOADS
from benchmarks.native.run import Plan, measured
from benchmarks.native.steady import Effort
from benchmarks.native.store import Record
from benchmarks.native.systems import OURS, PEERS, STATIC
from benchmarks.native.tables import show
from benchmarks.native.workload import Workload

THOROUGH, QUICK = (5.0, 21, 3), (0.6, 9, 2)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    chosen = [
        workload
        for name, workload in WORKLOADS.items()
        if (name == options.exactly if options.exactly else _wanted(name, options.only))
    ]
    if not chosen:
        print(f"no such workload; there are: {', '.join(WORKLOADS)}")
        return 2
    _compile_bytecode()
    stored = {} if options.again else store.stored_peers(options.threads)
    if options.peers_only:
        chosen = [workload for workload in chosen if workload.name not in stored]
    budget, rounds, starts = QUICK if options.quick else THOROUGH
    plan = Plan(
        Effort(budget, rounds, options.threads),
        starts,
        ours=() if options.peers_only else (OURS, STATIC),
        peers=() if options.no_torch_compile else PEERS,
        known_cold=stored,
    )
    earlier = store.read(options.record).get("workloads", {}) if options.add else {}

    def record_of(found: Record) -> Record:
        measured = {**earlier, **found}
        return {
            "machine": store.described_machine(options.threads),
            "settings": {"quick": options.quick, "peers": bool(plan.peers), "only": options.only},
            "workloads": {name: measured[name] for name in WORKLOADS if name in measured},
            "peers": {} if plan.peers else {name: stored[name] for name in found if name in stored},
        }

    def keep(found: Record) -> None:
        if not options.peers_only:
            store.write(options.record, record_of(found))

    if options.side_by_side:
        flags = [flag for flag in ("--quick", "--no-torch-compile", "--again") if flag in arguments]
        found = side_by_side([workload.name for workload in chosen], options.threads, flags)
    else:
        found = _all(chosen, plan, keep, Console(stderr=True))
    record = record_of(found)
    figures = Figures(record["workloads"], record["peers"])
    show(figures, Console(width=max(Console().width, 130)))
    if not options.peers_only:
        store.write(options.record, record)
        options.record.with_suffix(".svg").write_text(picture(figures), encoding="utf-8")
        print(f"written: {options.record.name}, and a picture beside it")
        # A part of the workloads is for a developer's eyes.
        if not options.only and not options.no_docs:
            write_docs(record)
    return int(any("WRONG" in problem for problem in figures.problems().values()))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.native", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    flags = ("--quick", "--no-torch-compile", "--peers-only", "--again", "--no-docs")
    for flag in (*flags, "--side-by-side", "--add"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--exactly", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, default=store.RECORD, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args(arguments)
    if options.no_torch_compile and options.peers_only:
        parser.error("--peers-only without torch.compile leaves nothing to measure")
    return options


def _wanted(name: str, parts: list[str]) -> bool:
    return not parts or any(part.lower() in name.lower() for part in parts)


def _all(
    chosen: list[Workload], plan: Plan, keep: Callable[[Record], None], console: Console
) -> Record:
    found: Record = {}
    with console.status("") as status:
        for workload in chosen:
            if workload.kind == "model":
                # Only now: it brings parts of torch.compile into this process, and so into the
                # children. Functions are measured without them.
                load()
            started = time.perf_counter()
            found[workload.name] = measured(workload, plan, status.update)
            if plan.peers:
                # At once: a run of the peers takes long, and goes on where it was stopped.
                kept = {workload.name: _of_peers(found[workload.name])}
                store.keep_peers(plan.effort.threads, kept)
            # A run may be stopped: what has been measured stays.
            keep(found)
            seconds = time.perf_counter() - started
            console.print(f"{workload.name}: {seconds:.0f} s", style="dim")
            for system, problem in found[workload.name]["problems"].items():
                console.print(f"  {system}: {problem}", style="bold red")
    return found


def _of_peers(record: Record) -> Record:
    """What does not depend on anyshape."""
    kept = {key: record[key] for key in ("kind", "memory_bound", "problems")}
    kept["cold"] = {key: value for key, value in record["cold"].items() if "torch" in key}
    kept["sizes"] = {
        size: {
            "quiet": cell["quiet"],
            "rounds": {
                system: seconds
                for system, seconds in cell["rounds"].items()
                if system not in (OURS, STATIC)
            },
        }
        for size, cell in record.get("sizes", {}).items()
    }
    return kept


def _compile_bytecode() -> None:
    """As pip does when it installs a package: a first call does not parse our sources."""
    found = importlib.util.find_spec("anyshape")
    if found is None or found.origin is None:
        raise SystemExit("anyshape is not installed")
    compileall.compile_dir(str(Path(found.origin).parent), quiet=2)


if __name__ == "__main__":
    # Profiles and caches of the user's own runs stay out of it.
    os.environ.pop("ANYSHAPE_CACHE_DIR", None)
    sys.exit(main(sys.argv[1:]))
