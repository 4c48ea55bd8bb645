"""What is kept: the record of the last run, and the figures of peers by machine and torch."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.__main__ import machine

HERE: Final = Path(__file__).parents[1]
RECORD: Final = HERE / "results" / "native.json"
PEERS: Final = HERE / "results" / "peers.json"

Record = dict[str, Any]


def described_machine(threads: int) -> dict[str, Any]:
    return {**machine(), "processor": _processor(), "threads": threads}


def peers_key(threads: int) -> str:
    """Peers' figures hold for a processor, a number of threads and a version of torch."""
    return f"{_processor()}, {threads} threads, torch {version('torch')}"


def read(path: Path) -> Record:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path: Path, record: Record) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(_rounded(record), indent=1) + "\n", encoding="utf-8")


def stored_peers(threads: int) -> Record:
    """By workload, as `run.measured` made them."""
    return read(PEERS).get(peers_key(threads), {})


def keep_peers(threads: int, workloads: Record) -> None:
    kept = read(PEERS)
    kept.setdefault(peers_key(threads), {}).update(workloads)
    write(PEERS, kept)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    found = {name.strip(): value.strip() for name, value in fields.items()}
    model = found.get("model name", platform.machine())
    return f"{model} ({'AVX-512' if 'avx512f' in found.get('flags', '') else platform.machine()})"


def _rounded(value: Any) -> Any:
    """Six digits: more is noise, and makes the file hard to read."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return value
