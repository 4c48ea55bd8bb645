"""What became of the operators of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.support.lazy_dataclass import dataclass, field


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

    def lines(self) -> Sequence[str]:
        if self.whole:
            return [f"no native code: {self.whole}"]
        total = sum(self.native.values())
        lines = [f"native code: {total} operators in {self.segments} foreign calls"]
        return lines + [f"torch is called for `{name}`: {why}" for name, why in self.called.items()]
