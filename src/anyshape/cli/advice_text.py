"""Advice for people: with colours on a terminal where there is rich, as plain text elsewhere."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from anyshape.explain.advice import Advice, Summary, environment_of
from anyshape.explain.advice.advice import Setting
from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the program."""

    status: int
    summary: Summary
    #: the end of what it printed, where that was not shown
    output: str = ""


class Line(NamedTuple):
    text: str
    #: a style of rich
    style: str = ""


Print = Callable[[Line], None]


def show(
    summary: Summary,
    settings: Mapping[str, Setting],
    status: int,
    verify: bool,
    second: Run | None,
) -> None:
    # The program's own lines may have letters that the terminal, or the file, has not.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    write = _printer()
    write(Line(""))
    for line in _lines(summary, settings, status):
        write(line)
    for line in _verified(summary, second) if second is not None else _no_second(settings, verify):
        write(line)


def _printer() -> Print:
    console = _console() if sys.stdout.isatty() else None
    if console is None:
        return lambda line: print(line.text)

    def styled(line: Line) -> None:
        # The text is the program's own: nothing in it is markup.
        console.print(line.text, style=line.style or None, markup=False, highlight=False)

    return styled


def _console() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(soft_wrap=True)


# -- the advice ------------------------------------------------------------------------------------


def _lines(summary: Summary, settings: Mapping[str, Setting], status: int) -> Iterator[Line]:
    yield Line("─── anyshape explain ───", "bold")
    if status:
        yield Line(
            f"The program ended with status {status}: this is what it did until then.", "red"
        )
    if not summary.compiles and not summary.advice:
        yield Line(
            "The program compiled nothing: no function under torch.compile or anyshape.compile was"
            " called."
        )
        return
    by_setting = sum(advice.saves for advice in summary.advice if advice.settings)
    by_change = sum(advice.saves for advice in summary.advice if not advice.settings)
    compiles, functions = summary.compiles, len(summary.functions)
    yield Line(
        f"{_count(compiles, 'compile')} of {_count(functions, 'function')}. To spare:"
        f" {by_setting} by settings, {by_change} more by changes of the program."
    )
    for number, advice in enumerate(summary.advice, 1):
        yield Line("")
        yield from _advice(number, advice)
    if settings:
        yield Line("")
        yield Line("All settings together:", "bold")
        yield Line(f"  {shell_text(settings)}", "green")


def _advice(number: int, advice: Advice) -> Iterator[Line]:
    saves = f" (saves {_count(advice.saves, 'compile')})" if advice.saves else ""
    yield Line(f"{number}. {advice.title}{saves}", "bold")
    if advice.ranks:
        yield Line(f"   on rank {', '.join(map(str, advice.ranks))}")
    if advice.file:
        yield Line(f"   {_shown(advice.file)}:{advice.line}", "cyan")
    for line, text in advice.excerpt.items():
        mark = ">" if line == advice.line else " "
        yield Line(f"   {mark} {line:4} | {text}", "yellow" if mark == ">" else "dim")
    yield Line(f"   why: {advice.cause}")
    yield Line(f"   do:  {advice.remedy}")
    if advice.settings:
        yield Line(f"   as settings:  {shell_text(advice.settings)}", "green")
    if advice.patch:
        yield Line("   as a patch:")
        for text in advice.patch.splitlines():
            yield Line(f"     {text}", _PATCH.get(text[:1], "dim"))


_PATCH: Final = {"+": "green", "-": "red", "@": "cyan"}


def shell_text(settings: Mapping[str, Setting]) -> str:
    """Ready to be put before a command."""
    return " ".join(f"{name}={_quoted(text)}" for name, text in environment_of(settings).items())


def _quoted(text: str) -> str:
    if text.isalnum():
        return text
    for letter in '\\"$`':
        text = text.replace(letter, f"\\{letter}")
    return f'"{text}"'


def _shown(file: str) -> str:
    """Below the current folder without it, as people name their files."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return file if relative.startswith("..") else relative


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# -- the second run --------------------------------------------------------------------------------


def _no_second(settings: Mapping[str, Setting], verify: bool) -> Iterator[Line]:
    if verify and not settings:
        yield Line("")
        yield Line("Nothing to verify: no setting is advised.")


def _verified(summary: Summary, second: Run) -> Iterator[Line]:
    yield Line("")
    if second.status:
        yield Line(f"With these settings the program ended with status {second.status}:", "red")
        yield from (Line(f"  {text}") for text in second.output.splitlines())
        return
    before, after = summary.compiles, second.summary.compiles
    less = before - after
    verdict = f"{_count(less, 'compile')} less" if less > 0 else "no compile less"
    yield Line(
        f"Verified: {before} → {after} compiles, {verdict}.", "bold green" if less else "bold"
    )
    for function in dict.fromkeys([*summary.functions, *second.summary.functions]):
        counts = (each.functions.get(function, 0) for each in (summary, second.summary))
        yield Line(f"  {function}: {' → '.join(map(str, counts))}")
    if summary.first_calls != second.summary.first_calls:
        yield Line(
            "The two runs did not do the same (other functions, or other sizes): the numbers are"
            " of different programs.",
            "yellow",
        )
