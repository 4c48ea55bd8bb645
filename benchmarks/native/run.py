"""All measurements of one workload, in their order, each in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.native.child import ChildFailed, in_child
from benchmarks.native.cold import first_call
from benchmarks.native.memory import memory
from benchmarks.native.models import LAYERS
from benchmarks.native.steady import Effort, steady
from benchmarks.native.store import Record
from benchmarks.native.systems import CAPTURE, EAGER, OURS, PEERS, STATIC, SYSTEMS
from benchmarks.native.workload import Workload

_DEEP: Final = 32
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to measure, and how thoroughly."""

    effort: Effort
    #: how many processes start cold, warm and with capture alone; 0 for no starts of any system
    starts: int
    ours: tuple[str, ...] = (OURS, STATIC)
    peers: tuple[str, ...] = PEERS
    #: whether peak memory and deeper models are measured too
    more: bool = True
    #: peers' cold starts that are known, by workload: they take most of the time
    known_cold: Record | None = None
    #: seconds for one steady measurement, and for one start
    limit: float = 1200
    start_limit: float = 600


def measured(workload: Workload, plan: Plan, tell: Tell) -> Record:
    """Everything about one workload; `problems` names the systems that failed, and how."""
    record: Record = {"kind": workload.kind, "memory_bound": workload.memory_bound, "problems": {}}
    with tempfile.TemporaryDirectory(prefix="anyshape-bench-") as folder:
        caches = Path(folder)
        record["cold"] = _starts(workload, plan, caches, record["problems"], tell)
        tell(f"{workload.name}: steady state")
        # What the cold starts have left on disk spares the peers to compile again.
        environment = {
            "ANYSHAPE_CACHE_DIR": str(_folder(caches, OURS) / "anyshape"),
            "TORCHINDUCTOR_CACHE_DIR": str(_folder(caches, PEERS[0]) / "inductor"),
            "TRITON_CACHE_DIR": str(_folder(caches, PEERS[0]) / "triton"),
        }
        try:
            found = in_child(
                steady,
                workload,
                (EAGER, *plan.ours, *plan.peers),
                plan.effort,
                environment=environment,
                limit=plan.limit,
            )
            record["problems"].update(found.pop("problems"))
            record.update(found)
        except ChildFailed as error:
            record["problems"]["steady"] = str(error)
        if plan.ours and plan.more:
            record["memory"] = _memory(workload, plan, record["problems"], environment, tell)
        if plan.ours and plan.more and workload.with_layers:
            record["growth"] = _growth(workload, plan, caches, record["problems"], tell)
    return record


def _starts(workload: Workload, plan: Plan, caches: Path, problems: Record, tell: Tell) -> Record:
    """First calls of each system: lists of {first, third}."""
    found: Record = {}
    if not plan.starts:
        return found

    def take(key: str, system: str, folders: Sequence[Path]) -> None:
        tell(f"{workload.name}: first call, {SYSTEMS[system].title} ({key})")
        try:
            found[key] = [
                first_call(workload, system, folder, plan.effort.threads, limit=plan.start_limit)
                for folder in folders
            ]
        except ChildFailed as error:
            problems[key] = str(error)

    if plan.ours:
        used = _folder(caches, OURS)
        take("anyshape cold", OURS, [used, *_folders(caches, OURS, plan.starts - 1)])
        take("anyshape warm", OURS, [used] * plan.starts)
        take("capture", CAPTURE, _folders(caches, CAPTURE, plan.starts))
    known = (plan.known_cold or {}).get(workload.name, {}).get("cold", {})
    for peer in plan.peers:
        if f"{peer} cold" in known:
            found[f"{peer} cold"] = known[f"{peer} cold"]
        else:
            take(f"{peer} cold", peer, [_folder(caches, peer)])
    return found


def _memory(
    workload: Workload, plan: Plan, problems: Record, environment: Mapping[str, str], tell: Tell
) -> Record:
    tell(f"{workload.name}: memory")
    try:
        threads = plan.effort.threads
        return in_child(memory, workload, (EAGER, OURS), threads, environment=environment)
    except ChildFailed as error:
        problems["memory"] = str(error)
        return {}


def _growth(
    workload: Workload, plan: Plan, caches: Path, problems: Record, tell: Tell
) -> dict[str, Any]:
    """Seconds of compiling by depth: the first call less a later one; and capture's part of it."""
    found: dict[str, Any] = {}
    for layers in (LAYERS, _DEEP):
        for system in (OURS, CAPTURE):
            tell(f"{workload.name}: {layers} layers, {SYSTEMS[system].title}")
            folders = _folders(caches, f"{layers} layers {system}", plan.starts)
            try:
                starts = [
                    first_call(workload, system, folder, plan.effort.threads, layers)
                    for folder in folders
                ]
            except ChildFailed as error:
                problems[f"{layers} layers"] = str(error)
            else:
                found[f"{layers} {system}"] = [each["first"] - each["third"] for each in starts]
    return found


def _folders(caches: Path, name: str, count: int) -> list[Path]:
    return [_folder(caches, f"{name} {number}") for number in range(count)]


def _folder(caches: Path, name: str) -> Path:
    """Without blanks: Inductor's command lines do not quote them."""
    return caches / name.replace(" ", "-")
