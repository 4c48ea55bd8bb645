"""`anyshape watch DIR`: the trace of a job while it runs.

In a terminal, a view that is drawn anew each second; elsewhere, a line for each thing that happens.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from anyshape.cli.command import Failure
from anyshape.explain.advice import Advice, advise
from anyshape.explain.following import (
    FollowedTrace,
    Happening,
    clock,
    in_short,
    is_part,
    shown_place,
    state_of,
    under_way,
)
from anyshape.explain.report.analysis.differences import Comparison, Side, Tally, compare_sides
from anyshape.explain.trace_model import Process

_LOOK_SECONDS: Final = 1.0
#: Advice takes the whole trace: it may take this part of the time, and no more.
_ADVICE_SHARE: Final = 0.1
_MOST_FUNCTIONS: Final = 30
_MOST_RANKS: Final = 16
_MOST_LATEST: Final = 12
#: What is shown with its remedy; a compile that went well needs none.
_STYLES: Final = {
    "compiled": "green",
    "recompile": "yellow",
    "graph break": "yellow",
    "runs eagerly": "red",
    "failed": "bold red",
    "limit": "bold red",
    "wrong answer": "bold red",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what ANYSHAPE_TRACE of the job is set to")
    parser.add_argument("--once", action="store_true", help="print the state now, and exit")
    parser.add_argument(
        "--until-end", action="store_true", help="exit when all processes of the job have ended"
    )


def run(options: argparse.Namespace) -> int:
    watched = _Watched(Path(options.folder))
    if options.once:
        return _once(watched, options.folder)
    # Whoever interrupts has seen enough; the job goes on.
    with contextlib.suppress(KeyboardInterrupt), Interruptible():
        (_draw if sys.stdout.isatty() else _follow)(watched, options.until_end)
    return 0


class Interruptible:
    """What an interrupt ends, or that whoever reads has gone. The command is then about to end, and
    is not interrupted on its way: that would be shown as an error, up to the exit of Python."""

    def __init__(self) -> None:
        self._has_ended = False
        self._before: Any = signal.SIG_IGN

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:  # not one that nobody can interrupt
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        if not self._has_ended:
            raise KeyboardInterrupt

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_end = kind is not None and issubclass(kind, KeyboardInterrupt | BrokenPipeError)
        self._has_ended = is_end
        if not is_end and self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._before)


class _Watched:
    """A trace, what happened last in it, and what to do about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trace = FollowedTrace(folder)
        self.latest: deque[Happening] = deque(maxlen=200)
        self.advice: Sequence[Advice] = ()
        self._advise_after = 0.0
        self._is_advice_old = False

    def look(self) -> list[Happening]:
        new = self.trace.look()
        self.latest.extend(new)
        self._is_advice_old |= any(each.kind != "compiled" for each in new)
        if self._is_advice_old and time.monotonic() >= self._advise_after:
            self._advise()
        return new

    def _advise(self) -> None:
        started = time.monotonic()
        try:
            self.advice = advise(self.folder)
        except Exception:
            # A view without it is better than none.
            self.advice = ()
        ended = time.monotonic()
        self._advise_after = ended + (ended - started) / _ADVICE_SHARE
        self._is_advice_old = False

    def remedy(self, happening: Happening) -> str:
        """What to do about it; nothing about a compile that went well."""
        if happening.kind == "compiled":
            return ""
        for each in self.advice:
            if each.function == happening.function and happening.compile_id in each.compile_ids:
                return each.remedy
        return ""

    @property
    def is_over(self) -> bool:
        processes = self.trace.processes
        return bool(processes) and all(state_of(each) != "running" for each in processes)

    def compared(self) -> Comparison:
        """Each process as a side, so that what differs is seen."""
        return compare_sides([Side(name_of(p), [p]) for p in self.trace.processes])


def name_of(process: Process) -> str:
    return f"process {process.pid}" if process.rank is None else f"rank {process.rank}"


# -- as texts --------------------------------------------------------------------------------------

_WAITING: Final = "waiting for a trace in {folder}: start the job with ANYSHAPE_TRACE={folder}"


def _once(watched: _Watched, folder: str) -> int:
    watched.look()
    if not watched.trace.processes:
        raise Failure(f"there is no trace in {folder}: start the job with ANYSHAPE_TRACE={folder}")
    for line in _standing(watched):
        print(line)
    return 0


def _follow(watched: _Watched, until_end: bool) -> None:
    """A line for each thing that happens, and how things stand when the job has ended."""
    told_waiting = False
    remedies: set[str] = set()
    while True:
        for each in watched.look():
            for line in _lines_of(each, watched, remedies):
                print(line, flush=True)
        if not watched.trace.processes and not told_waiting:
            told_waiting = True
            print(_WAITING.format(folder=watched.folder), flush=True)
        if until_end and watched.is_over:
            for line in _standing(watched):
                print(line, flush=True)
            return
        time.sleep(_LOOK_SECONDS)


def _lines_of(happening: Happening, watched: _Watched, remedies: set[str]) -> Iterator[str]:
    """A line, and another with what to do about it if that is not among the remedies told."""
    several = len(watched.trace.processes) > 1
    rank = f"{name_of(happening.process)} " if several else ""
    at = f" ({place})" if (place := shown_place(happening.place)) else ""
    text = in_short(" ".join(happening.text.split()))
    who = f"{happening.function} [{happening.compile_id}]"
    yield f"{clock(happening.time)} {rank}{happening.kind}: {who} {text}{at}"
    remedy = watched.remedy(happening)
    if remedy and remedy not in remedies:
        remedies.add(remedy)
        yield f"    do: {remedy}"


def _standing(watched: _Watched) -> Iterator[str]:
    """All of it in a few lines: processes, functions, and what to do."""
    compared = watched.compared()
    for process, total in zip(watched.trace.processes, compared.totals, strict=True):
        numbers = ", ".join(f"{name} {said}" for name, said in _numbers(total))
        said = f"{name_of(process)} ({state_of(process)}): {numbers}"
        yield f"{said}, eager calls {_eager_calls(process)}"
        for function, attempt in under_way(process):
            yield f"  compiling {function.name} since {clock(attempt.time)}"
    rows = [_HEAD, *_function_rows(watched, compared)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *cells in rows:
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield f"  {first.ljust(widths[0])}  {'  '.join(aligned)}"
    for advice in watched.advice[:5]:
        yield f"{advice.title}\n    do: {advice.remedy}"


def _eager_calls(process: Process) -> int:
    """A part of a function belongs to a call that is counted already."""
    return sum(each.eager_calls for each in process.functions if not is_part(each))


def _numbers(tally: Tally) -> Iterator[tuple[str, str]]:
    yield "compiles", str(tally.compiles)
    yield "recompiles", str(tally.recompiles)
    yield "graph breaks", str(tally.breaks)
    yield "compile time", f"{tally.seconds:.1f} s"
    yield "hits", str(tally.hits)


#: Of a table of functions.
_HEAD: Final = ("function", "entries", "recompiles", "breaks", "hits", "eager", "time", "state")


def _function_rows(watched: _Watched, compared: Comparison) -> Iterator[tuple[str, ...]]:
    functions = {f.key: f for p in watched.trace.processes for f in p.functions}
    compiling = {f.key: a for p in watched.trace.processes for f, a in under_way(p)}
    # What changed last stands where it is looked for: at the top.
    for each in sorted(compared.functions, key=lambda each: not each.differing)[:_MOST_FUNCTIONS]:
        held = [functions[key] for keys in each.keys for key in keys]
        tallies = [tally for tally in each.tallies if tally is not None]
        since = [compiling[f.key].time for f in held if f.key in compiling]
        yield (
            f"{each.name} ({Path(each.file).name}:{each.line})",
            _range([len(f.entries) for f in held]),
            _range([tally.recompiles for tally in tallies]),
            _range([tally.breaks for tally in tallies]),
            _range([tally.hits for tally in tallies]),
            _range([f.eager_calls for f in held]),
            f"{max(tally.seconds for tally in tallies):.1f} s",
            f"compiling for {max(time.time() - min(since), 0):.0f} s" if since else _state(held),
        )


def _state(functions: Iterable[Any]) -> str:
    found = list(functions)
    if any(each.limit for each in found):
        return "gave up"
    statuses = {entry.status for each in found for entry in each.entries}
    return next((s for s in ("failed", "eager", "compiled") if s in statuses), "")


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


# -- in a terminal ---------------------------------------------------------------------------------


def _draw(watched: _Watched, until_end: bool) -> None:
    """A view that is drawn anew."""
    try:
        from rich.live import Live
    except ImportError:
        return _follow(watched, until_end)
    with Live(auto_refresh=False) as live:
        while True:
            watched.look()
            live.update(_picture(watched, *live.console.size), refresh=True)
            if until_end and watched.is_over:
                return None
            time.sleep(_LOOK_SECONDS)


def _picture(watched: _Watched, width: int, height: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    processes = watched.trace.processes
    if not processes:
        return Text(_WAITING.format(folder=watched.folder), style="dim")
    compared = watched.compared()
    parts: list[Any] = [_title(watched, processes)]
    if len(processes) > 1:
        parts.append(_process_table(processes, compared))
    rows = list(_function_rows(watched, compared))
    # What happened last gets what is left of the screen, and never less than three lines.
    used = 5 + len(rows) + (min(len(processes), _MOST_RANKS) + 3 if len(processes) > 1 else 0)
    parts += [_function_table(rows), *_latest(watched, width, max(height - used - 2, 3))]
    return Group(*parts)


def _title(watched: _Watched, processes: Sequence[Process]) -> Any:
    from rich.text import Text

    states = Counter(map(state_of, processes))
    said = ", ".join(f"{count} {state}" for state, count in states.items())
    return Text.assemble(
        (f"{said}  {clock(time.time())}  Ctrl-C ends the view  ", "dim"),
        (str(watched.folder), "bold"),
        no_wrap=True,
    )


def _table(head: Sequence[str]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0), expand=True)
    for number, name in enumerate(head):
        is_number = 0 < number < len(head) - 1
        table.add_column(
            name,
            justify="right" if is_number else "left",
            overflow="ellipsis" if number == 0 else "fold",
            no_wrap=True,
            ratio=1 if number == 0 else None,
            min_width=16 if number == 0 else None,
        )
    return table


def _process_table(processes: Sequence[Process], compared: Comparison) -> Any:
    table = _table(
        ["process", "compiles", "recompiles", "breaks", "time", "hits", "eager", "state"]
    )
    for process, total in list(zip(processes, compared.totals, strict=True))[:_MOST_RANKS]:
        now = [f"compiling {function.name}" for function, _ in under_way(process)]
        state = now[0] if now else state_of(process)
        said = [said for _, said in _numbers(total)]
        table.add_row(name_of(process), *said, str(_eager_calls(process)), state)
    return table


def _function_table(rows: Sequence[Sequence[str]]) -> Any:
    from rich.text import Text

    table = _table(_HEAD)
    styles = {"compiled": "green", "gave up": "bold red", "failed": "bold red", "eager": "red"}
    for row in rows:
        *cells, state = row
        # The texts are the program's own: nothing in them is markup.
        shown = [Text(cell) for cell in cells]
        for number in (2, 3, 5):
            if cells[number] != "0":
                shown[number].stylize("yellow")
        table.add_row(*shown, Text(state, style=styles.get(state, "cyan")))
    return table


def _latest(watched: _Watched, width: int, height: int) -> list[Any]:
    """As much as there is room for, the latest at the bottom."""
    from rich.text import Text

    shown: list[Any] = []
    room = min(height, 2 * _MOST_LATEST)
    remedies: set[str] = set()
    for each in reversed(watched.latest):
        if each.kind == "compiled" and not each.compile_id.endswith("/0"):
            continue  # what was compiled again is told by the reason
        told, *remedy = _lines_of(each, watched, remedies)
        room -= 1 + sum(1 + len(line) // width for line in remedy)
        if room < 0:
            break
        line = Text(told, style=_STYLES[each.kind], no_wrap=True, overflow="ellipsis")
        shown = [line, *(Text(each, style="bold") for each in remedy), *shown]
    return shown
