"""The figures as a picture: speed over eager by workload, and first calls, on logarithmic axes.

SVG is text, and two rows of bars need no plotting library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from benchmarks.native.figures import Figures, geometric_mean
from benchmarks.native.systems import EAGER, OURS, PEERS, SYSTEMS, TORCH_NONE, TORCH_TRUE
from benchmarks.native.workload import SIZES

_COLOURS: Final = {OURS: "#1f77b4", TORCH_TRUE: "#ff7f0e", TORCH_NONE: "#c7a27c"}
_LEFT, _WIDTH, _RIGHT = 190, 560, 60
_BAR, _GAP, _TITLE = 7, 8, 46
_STYLE: Final = "font-family='sans-serif' font-size='11'"


@dataclass(frozen=True)
class _Panel:
    title: str
    ticks: Sequence[float]
    unit: str
    #: (workload, system) -> value; NaN draws nothing
    value: Callable[[str, str], float]
    #: where bars start
    origin: float


def picture(figures: Figures) -> str:
    """The text of an SVG file."""
    panels = (
        _Panel(
            "steady state: times faster than eager, geometric mean over the sizes",
            (0.25, 0.5, 1, 2, 4, 8),
            "x",
            lambda name, system: geometric_mean(
                value
                for size in SIZES
                if not math.isnan(value := figures.faster(name, size, system, EAGER))
            ),
            1,
        ),
        _Panel(
            "first call of a process, caches empty: seconds",
            (0.01, 0.1, 1, 10, 100),
            "s",
            lambda name, system: figures.start(name, f"{system} cold"),
            0.01,
        ),
    )
    systems = (OURS, *PEERS)
    parts: list[str] = []
    top = 30
    for panel in panels:
        drawn, top = _drawn(panel, figures.names(), systems, top)
        parts += drawn
    legend = [
        f"<rect x='{_LEFT + 200 * i}' y='8' width='10' height='10' fill='{_COLOURS[system]}'/>"
        f"<text x='{_LEFT + 200 * i + 14}' y='17'>{escape(SYSTEMS[system].title)}</text>"
        for i, system in enumerate(systems)
    ]
    width = _LEFT + _WIDTH + _RIGHT
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{top}' {_STYLE}>",
            f"<rect width='{width}' height='{top}' fill='white'/>",
            *legend,
            *parts,
            "</svg>\n",
        ]
    )


def _drawn(
    panel: _Panel, names: Sequence[str], systems: Sequence[str], top: int
) -> tuple[list[str], int]:
    """The lines of one panel, and where the next one starts."""
    row = _BAR * len(systems) + _GAP
    first, bottom = top + _TITLE, top + _TITLE + row * len(names)
    parts = [f"<text x='{_LEFT}' y='{top + 22}' font-weight='bold'>{escape(panel.title)}</text>"]
    for tick in panel.ticks:
        x = _x(panel, tick)
        colour = "#555" if tick == panel.origin else "#ddd"
        parts += [
            f"<line x1='{x}' x2='{x}' y1='{first - 4}' y2='{bottom}' stroke='{colour}'/>",
            f"<text x='{x}' y='{first - 8}' text-anchor='middle'>{tick:g}{panel.unit}</text>",
        ]
    for number, name in enumerate(names):
        y = first + number * row
        middle = y + _BAR * len(systems) / 2 + 4
        parts.append(f"<text x='{_LEFT - 8}' y='{middle}' text-anchor='end'>{escape(name)}</text>")
        for place, system in enumerate(systems):
            parts += _bar(panel, panel.value(name, system), y + place * _BAR, _COLOURS[system])
    return parts, bottom + 16


def _bar(panel: _Panel, value: float, y: int, colour: str) -> list[str]:
    if math.isnan(value):
        return []
    start, end = sorted((_x(panel, panel.origin), _x(panel, value)))
    return [
        f"<rect x='{start}' y='{y}' width='{max(end - start, 1):.1f}' height='{_BAR - 1}'"
        f" fill='{colour}'><title>{value:.3g}{panel.unit}</title></rect>"
    ]


def _x(panel: _Panel, value: float) -> float:
    low, high = math.log(panel.ticks[0]), math.log(panel.ticks[-1])
    share = (math.log(max(value, 1e-9)) - low) / (high - low)
    return round(_LEFT + _WIDTH * min(max(share, 0), 1), 1)
