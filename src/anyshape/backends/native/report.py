"""What became of a graph: what is native code, for what torch is called, and why.

`explain()` shows the lines of it, `Stats` the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Protocol

from anyshape.support.lazy_dataclass import dataclass, field


class Lines(Protocol):
    """What has something to say to people."""

    def lines(self) -> Sequence[str]: ...


class RecordedShapes(Lines, Protocol):
    """What became of CUDA graphs."""

    @property
    def recorded(self) -> int: ...


@dataclass(frozen=True, slots=True)
class NativeReport:
    #: operators by name: how many are in native code
    native: Mapping[str, int] = field(default_factory=dict[str, int])
    #: operators that torch is called for, and why
    called: Mapping[str, str] = field(default_factory=dict[str, str])
    #: runs of native code in one foreign call each, and calls of Python between them
    segments: int = 0
    calls: int = 0
    #: why the graph as a whole runs operator by operator, if it does
    whole: str = ""
    #: what became of CUDA graphs, if they were asked for
    cuda_graphs: RecordedShapes | None = None
    #: what became of tuning, likewise
    tuning: Lines | None = None
    #: what is one kernel though the program spells it out, and why it is not
    fused: Set[str] = frozenset()
    unfused: Mapping[str, str] = field(default_factory=dict[str, str])

    def made(self) -> Counter[str]:
        """How many backward graphs and CUDA graphs there are, as `Stats` names them."""
        return Counter(cuda_graphs=0 if self.cuda_graphs is None else self.cuda_graphs.recorded)

    def lines(self) -> Sequence[str]:
        if self.whole:
            return [f"no native code: {self.whole}"]
        total = sum(self.native.values())
        calls = _counted(self.segments, "native call")
        lines = [f"native code: {_counted(total, 'operator')} in {calls}"]
        lines += [f"torch is called for `{name}`: {why}" for name, why in self.called.items()]
        lines += [f"{name} is one kernel" for name in sorted(self.fused)]
        lines += [f"{name} is not one kernel: {why}" for name, why in self.unfused.items()]
        more = [each.lines() for each in (self.cuda_graphs, self.tuning) if each is not None]
        return [*lines, *chain.from_iterable(more)]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _few(least: int) -> list[str]:
    return [f"few operators: runs eagerly unless a tensor has {least} elements"] if least else []


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Of a graph with gradients."""

    forward: NativeReport
    #: by the outputs that gradients came back for
    backward: dict[tuple[int, ...], NativeReport]
    #: operators whose gradients torch's autograd computes, and why
    by_torch: Mapping[str, str]
    #: what the backward graph needs of the forward one
    kept: str
    #: what became of CUDA graphs, if they were asked for
    cuda_graphs: RecordedShapes | None = None
    #: how many elements a tensor has at least, where it is used
    least: int = 0

    def made(self) -> Counter[str]:
        found = Counter(backward_graphs=len(self.backward))
        for each in (self.forward, *list(self.backward.values())):
            found.update(each.made())
        if self.cuda_graphs is not None:
            found["cuda_graphs"] += self.cuda_graphs.recorded
        return found

    def lines(self) -> Sequence[str]:
        lines = [] if self.cuda_graphs is None else [*self.cuda_graphs.lines()]
        lines += _few(self.least) + [f"forward: {line}" for line in self.forward.lines()]
        lines.append(f"backward: {self.kept}")
        lines += [f"backward: {line}" for each in self.backward.values() for line in each.lines()]
        return lines + [f"autograd does `{name}`: {why}" for name, why in self.by_torch.items()]


@dataclass(frozen=True, slots=True)
class StagedReport:
    """Of a graph whose results are computed of each other."""

    stages: Sequence[TrainingReport | NativeReport]
    least: int = 0

    def made(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for each in self.stages:
            found.update(each.made())
        return found

    def lines(self) -> Sequence[str]:
        return _few(self.least) + [
            f"stage {number}: {line}"
            for number, each in enumerate(self.stages)
            for line in each.lines()
        ]
