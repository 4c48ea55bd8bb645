"""`python -m benchmarks [name ...]`: run `benchmarks/bench_<name>.py`, print a table, keep JSON.

A benchmark is a module with `run() -> dict`: metric names (with their unit, `median_us`) to values;
a dict inside groups metrics. All of them run when no name is given.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
LATEST = HERE / "results" / "latest.json"


def main(names: list[str]) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
        return 2
    results: dict[str, Mapping[str, object]] = {}
    for name in names or known:
        started = time.perf_counter()
        results[name] = importlib.import_module(f"benchmarks.bench_{name}").run()
        print_table(name, time.perf_counter() - started, results[name])
    LATEST.parent.mkdir(exist_ok=True)
    record = {"machine": machine(), "results": results}
    LATEST.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"written: {LATEST.relative_to(HERE.parent)}")
    return 0


def machine() -> dict[str, str]:
    """What a figure depends on besides the code."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "torch": version("torch"),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def print_table(name: str, seconds: float, metrics: Mapping[str, object]) -> None:
    rows = list(flatten(metrics))
    width = max((len(key) for key, _ in rows), default=0)
    print(f"{name}  ({seconds:.1f} s)")
    for key, value in rows:
        shown = f"{value:,.4g}" if isinstance(value, float) else f"{value}"
        print(f"    {key:<{width}}  {shown:>12}")
    print()


def flatten(metrics: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
