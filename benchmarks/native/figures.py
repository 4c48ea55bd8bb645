"""Ratios from the rounds of a record. Nothing here measures, and nothing here judges.

A peer's time is taken from the same rounds where they have it. Otherwise it comes from the stored
figures of peers, through eager, which both runs have: (torch / eager there) / (ours / eager here).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.native.steady import CLONE, COPY
from benchmarks.native.store import Record
from benchmarks.native.systems import CAPTURE, EAGER, OURS, PEERS, STATIC, TORCH_TRUE
from benchmarks.native.workload import SIZES

Key = TypeVar("Key")

#: Bytes that say nothing: numbers as tensors; pages, and blocks of the heap below 64 KiB.
_SLACK = {"allocator": 4096, "resident": 1 << 19}


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


@dataclass(frozen=True)
class Figures:
    """Questions about one run, with peers' stored figures beside it."""

    workloads: Record
    peers: Record

    def names(self) -> list[str]:
        return list(self.workloads)

    def models(self) -> list[str]:
        return [name for name, each in self.workloads.items() if each["kind"] == "model"]

    def functions(self) -> list[str]:
        return [name for name in self.workloads if name not in self.models()]

    # -- steady state ------------------------------------------------------------------------------

    def seconds(self, name: str, size: str, system: str) -> float:
        """The median of the rounds; a peer's is scaled to this run where it was stored."""
        rounds = _rounds(self.workloads, name, size)
        if system in rounds:
            return statistics.median(rounds[system])
        return self.seconds(name, size, EAGER) * self._stored(name, size, system)

    def faster(self, name: str, size: str, system: str, than: str) -> float:
        """How many times `system` is faster: the median over rounds, since they drift together."""
        rounds = _rounds(self.workloads, name, size)
        if system in rounds and than in rounds:
            return _median_ratio(rounds[than], rounds[system])
        ours, other = (
            _median_ratio(rounds[each], rounds[EAGER])
            if each in rounds and EAGER in rounds
            else self._stored(name, size, each)
            for each in (system, than)
        )
        return other / ours

    def _stored(self, name: str, size: str, system: str) -> float:
        """A peer's time over eager's, in the run that was stored."""
        rounds = _rounds(self.peers, name, size)
        if system not in rounds or EAGER not in rounds:
            return math.nan
        return _median_ratio(rounds[system], rounds[EAGER])

    def over(self, than: str, sizes: Iterable[str] = SIZES) -> dict[str, float]:
        """By workload: how many times we are faster, over its sizes."""
        wanted = list(sizes)
        return _known(
            {
                name: geometric_mean(_real(self.faster(name, size, OURS, than) for size in wanted))
                for name in self.names()
            }
        )

    def against_the_better(self) -> dict[tuple[str, str], float]:
        """By workload and size: our speed, where 1 is that of the better of eager and torch."""
        return _known(
            {
                (name, size): min(
                    _real(self.faster(name, size, OURS, than) for than in (EAGER, TORCH_TRUE)),
                    default=math.nan,
                )
                for name in self.names()
                for size in SIZES
            }
        )

    def tiny_call(self) -> dict[str, float]:
        """By workload: the time of our tiny call as a share of torch.compile's better one."""
        return _known(
            {
                name: max(
                    _real(1 / self.faster(name, "tiny", OURS, peer) for peer in PEERS),
                    default=math.nan,
                )
                for name in self.names()
            }
        )

    def dynamic_cost(self) -> dict[str, float]:
        """By workload: dynamic code's time over that of code for this size alone."""
        return _known(
            {
                name: geometric_mean(_real(self.faster(name, size, STATIC, OURS) for size in SIZES))
                for name in self.names()
            }
        )

    def copy_share(self, copy: str = COPY) -> dict[str, float]:
        """By memory-bound workload: the share of the bandwidth of a copy of as many bytes."""
        assert copy in (COPY, CLONE)
        return _known(
            {
                name: self.faster(name, "large", OURS, copy)
                for name in self.names()
                if self.workloads[name]["memory_bound"]
            }
        )

    # -- memory ------------------------------------------------------------------------------------

    def memory(self, kind: str) -> dict[tuple[str, str], float]:
        """By workload and size: our peak over eager's, less what is no buffer of ours."""
        found: dict[tuple[str, str], float] = {}
        for name in self.names():
            for size, peaks in self.workloads[name].get("memory", {}).items():
                ours, eagers = peaks[OURS][kind], peaks[EAGER][kind]
                found[name, size] = max(ours, _SLACK[kind]) / (eagers + _SLACK[kind])
        return found

    # -- first calls -------------------------------------------------------------------------------

    def start(self, name: str, kind: str, part: str = "first") -> float:
        """Seconds of a first call: `anyshape cold`, `anyshape warm`, `capture`, `torch True cold`,
        `torch None cold`."""
        for source in (self.workloads, self.peers):
            starts = source.get(name, {}).get("cold", {}).get(kind)
            if starts:
                return statistics.median(each[part] for each in starts)
        return math.nan

    def cold_ratio(self, peer: str) -> dict[str, float]:
        return _known(
            {
                name: self.start(name, f"{peer} cold") / self.start(name, "anyshape cold")
                for name in self.names()
            }
        )

    def warm_over_capture(self) -> dict[str, float]:
        return _known(
            {
                name: self.start(name, "anyshape warm") - self.start(name, "capture")
                for name in self.names()
            }
        )

    def compile_seconds(self, name: str, kind: str) -> float:
        """What a first call takes beyond a later one."""
        return self.start(name, kind) - self.start(name, kind, "third")

    def compile_ratio(self, peer: str) -> dict[str, float]:
        return _known(
            {
                name: self.compile_seconds(name, f"{peer} cold")
                / max(self.compile_seconds(name, "anyshape cold"), 1e-6)
                for name in self.models()
            }
        )

    def growth(self, less_capture: bool = False) -> dict[str, float]:
        """By model: compile time of 32 layers over that of 4; or of what follows capture alone."""
        found: dict[str, float] = {}
        for name in self.models():
            times = {
                key: statistics.median(values)
                for key, values in self.workloads[name].get("growth", {}).items()
            }
            if len(times) < 4:
                continue
            few, many = (
                times[f"{layers} {OURS}"] - less_capture * times[f"{layers} {CAPTURE}"]
                for layers in (4, 32)
            )
            if few > 0 and many > 0:
                found[name] = many / few
        return found

    # -- trust -------------------------------------------------------------------------------------

    def problems(self) -> dict[str, str]:
        return {
            f"{name}, {system}": text
            for name, each in self.workloads.items()
            for system, text in each["problems"].items()
        }

    def quiet(self) -> float:
        """The share of rounds in which no other process took the processor."""
        shares = [
            cell["quiet"]
            for each in self.workloads.values()
            for cell in each.get("sizes", {}).values()
        ]
        return statistics.fmean(shares) if shares else math.nan


def _rounds(workloads: Record, name: str, size: str) -> dict[str, list[float]]:
    return workloads.get(name, {}).get("sizes", {}).get(size, {}).get("rounds", {})


def _median_ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _real(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _known(values: dict[Key, float]) -> dict[Key, float]:
    return {key: value for key, value in values.items() if not math.isnan(value)}
