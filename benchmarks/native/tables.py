"""The figures on a terminal."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from benchmarks.native.aims import outcomes
from benchmarks.native.figures import Figures
from benchmarks.native.systems import EAGER, OURS, SYSTEMS, TORCH_NONE, TORCH_TRUE
from benchmarks.native.wording import duration, ratio
from benchmarks.native.workload import SIZES

_MARKS = {True: "[green]met[/]", False: "[red]missed[/]", None: "[dim]not measured[/]"}
_SHOWN_IN_ORDER = ("tiny", "medium", "large", "odd")
assert set(_SHOWN_IN_ORDER) == set(SIZES)


def show(figures: Figures, console: Console) -> None:
    console.print(_steady(figures), _starts(figures), _aims(figures))
    console.print(f"quiet rounds: {figures.quiet():.0%}", style="dim")
    if figures.quiet() < 0.5:
        console.print(
            "Other processes had the processor most of the time: with several threads the figures "
            "say little. Try again on a quiet machine, or with --threads 1.",
            style="yellow",
        )
    for where, problem in figures.problems().items():
        console.print(f"{where}: {problem}", style="bold red")


def _coloured(value: float) -> str:
    colour = "dim" if math.isnan(value) else "green" if value >= 0.95 else "red"
    return f"[{colour}]{ratio(value)}[/]"


def _steady(figures: Figures) -> Table:
    table = Table(title="steady state: time of a call, and how many times faster anyshape is")
    timed = (EAGER, OURS, TORCH_TRUE, TORCH_NONE)
    slower = (EAGER, TORCH_TRUE, TORCH_NONE)
    for column in ("workload", "size", *timed, *(f"> {each}" for each in slower)):
        table.add_column(column, justify="left" if column in ("workload", "size") else "right")
    for name in figures.names():
        for size in _SHOWN_IN_ORDER:
            faster = (figures.faster(name, size, OURS, than) for than in slower)
            table.add_row(
                name if size == _SHOWN_IN_ORDER[0] else "",
                size,
                *(duration(figures.seconds(name, size, system)) for system in timed),
                *map(_coloured, faster),
                end_section=size == _SHOWN_IN_ORDER[-1],
            )
    return table


STARTS = ("anyshape cold", "anyshape warm", "capture", "torch True cold", "torch None cold")


def _starts(figures: Figures) -> Table:
    table = Table(title=f"first call of a process, seconds ({SYSTEMS[OURS].title} and torch)")
    for column in ("workload", *STARTS, "cold, times faster"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    faster = figures.cold_ratio(TORCH_TRUE)
    for name in figures.names():
        times = (figures.start(name, kind) for kind in STARTS)
        table.add_row(name, *map(duration, times), ratio(faster.get(name, math.nan)))
    return table


def _aims(figures: Figures) -> Table:
    table = Table(title="aims")
    for column in ("aim", "wanted", "found", "", "short of it"):
        table.add_column(column)
    for outcome in outcomes(figures):
        table.add_row(
            outcome.aim.text, outcome.wanted(), outcome.shown(), _MARKS[outcome.met],
            outcome.worst(),
        )  # fmt: skip
    return table
