"""The figures as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.native.figures import Figures, geometric_mean
from benchmarks.native.store import Record
from benchmarks.native.systems import EAGER, OURS, TORCH_NONE, TORCH_TRUE
from benchmarks.native.wording import aligned, duration, ratio

_SYSTEMS = (EAGER, OURS, TORCH_TRUE, TORCH_NONE)
_OTHERS = (EAGER, TORCH_TRUE, TORCH_NONE)
_SHOWN_IN_ORDER = ("tiny", "medium", "large", "odd")


def lines(record: Record) -> Iterator[str]:
    """Tables of gradients, of whole steps, of memory and of first steps; means; what went wrong."""
    both = Figures(record, {})
    stepped = {name: {**each, "sizes": each["steps"]} for name, each in record.items()
               if each.get("steps")}  # fmt: skip
    steps = Figures(stepped, {})
    heads = ("workload", "size", *_SYSTEMS, *(f"> {each}" for each in _OTHERS))
    yield "forward and backward; how many times faster anyshape is"
    yield from aligned([(*heads, "peak", "of eager's"), *_calls(both, with_memory=True)])
    if steps.names():
        yield ""
        yield "a whole step, with clipping and AdamW; how many times faster anyshape is"
        yield from aligned([heads, *_calls(steps, with_memory=False)])
    yield ""
    yield "first gradients of a process, the first step in brackets; graphs for all sizes"
    heads = ("workload", "native", *_SYSTEMS, "graphs", "eager calls", "torch's graphs")
    yield from aligned([heads, *_starts(both)])
    yield ""
    heads = ("geometric means", "of", *_OTHERS)
    yield from aligned([heads, *_means("gradients", both), *_means("steps", steps)])
    for name, each in record.items():
        for line in each.get("ours", {}).get("told", ()):
            yield f"{name}: {line}"
    for where, problem in both.problems().items():
        yield f"{where}: {problem}"


def _sizes(figures: Figures, name: str) -> list[str]:
    found = figures.workloads[name].get("sizes", {})
    return [size for size in _SHOWN_IN_ORDER if size in found]


def _calls(figures: Figures, *, with_memory: bool) -> Iterator[Sequence[str]]:
    for name in figures.names():
        for number, size in enumerate(_sizes(figures, name)):
            times = (figures.seconds(name, size, system) for system in _SYSTEMS)
            faster = (figures.faster(name, size, OURS, other) for other in _OTHERS)
            peaks = figures.workloads[name].get("memory", {}).get(size, {})
            yield (
                "" if number else name,
                size,
                *map(duration, times),
                *map(ratio, faster),
                *(_memory(peaks) if with_memory else ()),
            )


def _memory(peaks: dict[str, int]) -> tuple[str, str]:
    """What is allocated at most, beyond arguments and parameters; and over that of eager."""
    if OURS not in peaks:
        return "-", "-"
    share = peaks[OURS] / peaks[EAGER] if peaks.get(EAGER) else math.nan
    return f"{peaks[OURS] / 1e6:.3g} MB", ratio(share)


def _starts(figures: Figures) -> Iterator[Sequence[str]]:
    for name in figures.names():
        own = figures.workloads[name]
        ours, graphs = own.get("ours", {}), own.get("graphs", {})
        of_torch = "/".join(str(graphs.get(each, "-")) for each in (TORCH_TRUE, TORCH_NONE))
        native = {True: "yes", False: "NO"}.get(ours.get("native"), "-")
        counts = (str(ours.get(key, "-")) for key in ("graphs", "eager_calls"))
        yield (name, native, *(_start(figures, name, each) for each in _SYSTEMS), *counts, of_torch)


def _start(figures: Figures, name: str, system: str) -> str:
    first, step = (figures.start(name, f"{system} cold", part) for part in ("first", "step"))
    if figures.workloads[name]["kind"] != "model":
        return duration(first)
    return f"{duration(first)} ({duration(step)})"


def _means(title: str, figures: Figures) -> Iterator[Sequence[str]]:
    """How many times faster anyshape is, over cells of workloads and sizes."""
    cells = [(name, size) for name in figures.names() for size in _sizes(figures, name)]
    models = set(figures.models())
    groups = {
        "all": cells,
        "functions": [cell for cell in cells if cell[0] not in models],
        "models": [cell for cell in cells if cell[0] in models],
        **{size: [cell for cell in cells if cell[1] == size] for size in _SHOWN_IN_ORDER},
    }
    for group, chosen in groups.items():
        if chosen:
            means = (_mean(figures, chosen, other) for other in _OTHERS)
            yield (f"{group} ({len(chosen)})", title, *means)


def _mean(figures: Figures, cells: Sequence[tuple[str, str]], other: str) -> str:
    """With the number of cells in brackets where the other system has not been in all of them."""
    faster = [figures.faster(*cell, OURS, other) for cell in cells]
    known = [value for value in faster if not math.isnan(value)]
    count = f" ({len(known)})" if 0 < len(known) < len(cells) else ""
    return f"{ratio(geometric_mean(known))}{count}"
