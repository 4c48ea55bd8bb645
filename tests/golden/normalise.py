"""Text without what differs from one machine, process or checkout to the next."""

from __future__ import annotations

import bisect
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_SECONDS = re.compile(r"\bin \d+\.\d+ s\b")
#: `V1116 19:49:12.077983 23663 anyshape/module.py:153] `: when, who, where.
_STAMP = re.compile(r"^([VIWEC])\d{4} [\d:.]+ \d+ \S+:\d+\] ?", re.MULTILINE)
#: Messages have paths in full, from the folder that they are written in, or without any folder.
_OWN_LINE = re.compile(r"(?:[^\s\"'()]*/)?\b(functions|models)\.py(:|\", line )(\d+)")
_TORCH_LINE = re.compile(r"[^\s\"'()]*/site-packages/(torch/[\w/.]+\.py)(:|\", line )\d+")
#: The line of code that follows the place of a frame, or goes before it.
_TORCH_CODE = re.compile(r"(torch/[\w/.]+\.py:N in \w+), code: .*")
#: `f (lines 284-286)`: a part of a function that is compiled by itself.
_REGION = re.compile(r"\blines (\d+)-(\d+)")
#: The last number says how often functions of torch have been replaced in this process.
_STATE = re.compile(r"(global state == \(.*), \d+\)")
_ADVICE = re.compile(r", for more info run with ANYSHAPE_.*")
_DOTTED = re.compile(r"\banyshape(?:\.\w+)+")
_KERNEL = re.compile(r"as\.kernel\.[0-9a-f]{16,}")
_LINE = re.compile(r"([VIWEC](?: \[\d+/\d+\])?(?: \[__\w+\])?) ?(.*)")
_HEAD = re.compile(r"^[VIWEC] \[(\d+)/\d+\]", re.MULTILINE)


def places(text: str, file: str) -> str:
    """Files by what they are, lines counted from the first one of the program, which is in `file`;
    a line of torch has no number. Neither addresses nor times, nor in which of our modules
    something is."""
    text = _OWN_LINE.sub(lambda m: f"{_own_place(m[1], int(m[3]), m[2])}", text)
    text = _REGION.sub(
        lambda m: f"lines +{_after(file, int(m[1]))}-+{_after(file, int(m[2]))}", text
    )
    text = _TORCH_LINE.sub(r"\1\2N", text)
    text = _STATE.sub(r"\1, N)", _TORCH_CODE.sub(r"\1", text))
    text = _DOTTED.sub(lambda m: _without_module(m[0]), _ADVICE.sub("", text))
    return _SECONDS.sub("in N s", _ADDRESS.sub("0x", text))


def _without_module(name: str) -> str:
    """`anyshape.api.check` is `anyshape.*.check`, wherever it moves to."""
    module = name
    while module not in sys.modules:
        module = module.rpartition(".")[0]
    return name if module == "anyshape" else f"anyshape.*{name.removeprefix(module)}"


def _own_place(file: str, line: int, between: str) -> str:
    return f"{file}.{_around(file, line)[1]}{between}+{_after(file, line)}"


def _after(file: str, line: int) -> int:
    return line - _around(file, line)[0]


def _around(file: str, line: int) -> tuple[int, str]:
    """Where the function or class begins that the line is in, and its name."""
    starts = _starts(file)
    index = bisect.bisect_right([start for start, _ in starts], line) - 1
    return starts[max(index, 0)]


@cache
def _starts(file: str) -> list[tuple[int, str]]:
    """Where functions and classes of a file begin: what is added to it moves no other's lines."""
    lines = (HERE / f"{file}.py").read_text().splitlines()
    named = (re.match(r"(?:def|class) (\w+)", line) for line in lines)
    return [(at + 1, found[1]) for at, found in enumerate(named) if found] or [(0, "")]


def log_lines(text: str) -> str:
    """Logs with one head for all lines in a row that have it; functions numbered from 0 on. Guards
    of a compile that is not the first are those that differ from the one before."""
    text = _STAMP.sub(r"\1 ", text)
    lines: list[str] = []
    guards: dict[str, list[str]] = {}
    for head, block in _blocks(renumbered(text, _HEAD.findall(text))):
        lines.append(head)
        if head.endswith("[__guards]"):
            frame = head.split("/")[0]
            before, guards[frame] = guards.get(frame, []), block
            block = list(_changes(before, block)) if before else block
        lines += (f"    {line}".rstrip() for line in block)
    return "\n".join(lines)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Lines in a row that have the same head."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    parts = (("", "") if each is None else (each[1], each[2]) for each in found)
    for head, block in itertools.groupby(parts, lambda part: part[0]):
        yield head, [line for _, line in block]


def _changes(before: list[str], now: list[str]) -> Iterator[str]:
    gone, new = set(before) - set(now), set(now) - set(before)
    yield from (f"- {line}" for line in before if line in gone)
    yield from (f"+ {line}" for line in now if line in new)
    yield f"and {len(now) - sum(line in new for line in now)} as before"


def renumbered(text: str, frames: Iterable[str]) -> str:
    """Compile ids (`12/0`) by the order in which the functions were met."""
    numbers = {frame: str(at) for at, frame in enumerate(dict.fromkeys(frames))}
    return re.sub(
        r"(?<![\w/.])(\d+)/(\d+)(?![\w/.])",
        lambda m: f"{numbers[m[1]]}/{m[2]}" if m[1] in numbers else m[0],
        text,
    )


def kernel_names(text: str) -> str:
    """Kernels by their order: their names are digests of their text."""
    numbers: dict[str, int] = {}
    return _KERNEL.sub(lambda m: f"as.kernel.{numbers.setdefault(m[0], len(numbers))}", text)
