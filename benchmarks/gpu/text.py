"""The figures as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.native.figures import Figures, geometric_mean
from benchmarks.native.steady import CLONE
from benchmarks.native.systems import EAGER, OURS, TORCH_NONE, TORCH_TRUE
from benchmarks.native.wording import aligned, duration, ratio

_SYSTEMS = (EAGER, OURS, TORCH_TRUE, TORCH_NONE)
_OTHERS = (EAGER, TORCH_TRUE, TORCH_NONE)
_STARTS = ("anyshape cold", "anyshape warm", "capture", "torch True cold", "torch None cold")


def lines(figures: Figures) -> Iterator[str]:
    """Tables of calls and of first calls, means, and what went wrong."""
    yield "time of a call; how many times faster anyshape is"
    heads = ("workload", "size", *_SYSTEMS, *(f"> {each}" for each in _OTHERS), "copy")
    yield from aligned([heads, *_calls(figures)])
    yield ""
    yield "first calls of processes, and graphs for all sizes"
    yield from aligned([("workload", *_STARTS, "graphs", "eager calls"), *_starts(figures)])
    yield ""
    yield from aligned([("geometric means", *_OTHERS), *_means(figures)])
    for where, problem in figures.problems().items():
        yield f"{where}: {problem}"


def _sizes(figures: Figures, name: str) -> list[str]:
    return list(figures.workloads[name].get("sizes", {}))


def _calls(figures: Figures) -> Iterator[Sequence[str]]:
    for name in figures.names():
        for number, size in enumerate(_sizes(figures, name)):
            times = (figures.seconds(name, size, system) for system in _SYSTEMS)
            faster = (figures.faster(name, size, OURS, other) for other in _OTHERS)
            # Of the bandwidth of a copy, where that is the limit.
            share = figures.faster(name, size, OURS, CLONE)
            yield (
                "" if number else name,
                size,
                *map(duration, times),
                *map(ratio, faster),
                ratio(share),
            )


def _starts(figures: Figures) -> Iterator[Sequence[str]]:
    for name in figures.names():
        ours = figures.workloads[name].get("ours", {})
        times = (figures.start(name, kind) for kind in _STARTS)
        counts = (str(ours.get(key, "-")) for key in ("graphs", "eager_calls"))
        yield (name, *map(duration, times), *counts)


def _means(figures: Figures) -> Iterator[Sequence[str]]:
    """How many times faster anyshape is, over cells of workloads and sizes."""
    cells = [(name, size) for name in figures.names() for size in _sizes(figures, name)]
    groups = {
        "all": cells,
        **{
            kind: [cell for cell in cells if cell[1] == kind]
            for kind in ("tiny", "medium", "large", "odd")
        },
        "shapes of models": [cell for cell in cells if "x" in cell[1]],
    }
    for title, chosen in groups.items():
        if chosen:
            means = (_mean(figures, chosen, other) for other in _OTHERS)
            yield (f"{title} ({len(chosen)})", *map(ratio, means))


def _mean(figures: Figures, cells: Iterable[tuple[str, str]], other: str) -> float:
    found = (figures.faster(name, size, OURS, other) for name, size in cells)
    return geometric_mean(value for value in found if not math.isnan(value))
