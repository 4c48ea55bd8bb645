"""Events as lines for people, in the form that PyTorch users know:

    I1115 07:11:02.123456 4242 anyshape/capture/trace.py:81] [0/1] create_symbol s0 = 20 for ...
    V1115 07:11:02.123456 4242 anyshape/compiler/driver.py:40] [0/1] [__recompiles] Recompiling ...

One row for each pair of an event and a log: the level, and the text. Lines go through Python's
`logging`: the log `guards` is the logger `anyshape.guards`.
"""

from __future__ import annotations

import linecache
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from anyshape.events import extended, kinds
from anyshape.events.kinds import Event, Frame

ROOT: Final = "anyshape"
_PACKAGE_PARENT: Final = str(Path(__file__).parents[2]) + os.sep

# -- places -----------------------------------------------------------------------------------


def source_lines(file: str) -> list[str]:
    """All lines; none where there is no such file, or no file could have the name."""
    try:
        return linecache.getlines(file)
    except ValueError:  # a zero byte, or half a character
        return []


def code_of(frame: Frame) -> str:
    """The line of the program, as far as it can be read."""
    lines = source_lines(frame.filename)
    return lines[frame.line - 1].strip() if 1 <= frame.line <= len(lines) else ""


def place_of(frame: Frame) -> str:
    return f"{_short(frame.filename)}:{frame.line} in {frame.function}"


def _short(filename: str) -> str:
    here = os.getcwd() + os.sep
    return filename.removeprefix(here)


def _at(frame: Frame | None, reason: str = "") -> str:
    """` y = x * 2  # model.py:12 in forward (reason)`, as far as it is known."""
    where = "" if frame is None else f" {code_of(frame)}  # {place_of(frame)}"
    return where + (f" ({reason})" if reason else "")


def _traceback(frame: Frame) -> list[str]:
    head = f'  File "{frame.filename}", line {frame.line}, in {frame.function}'
    return [head, f"    {code_of(frame)}"]


# -- texts, one function for each row ---------------------------------------------------------


def _create_symbol(event: kinds.CreateSymbol) -> str:
    at = _at(event.user_frame, event.reason) + extended.about_symbol(event.symbol)
    if event.value is None:
        source = f" for {event.source}" if event.source else ""
        return f"create_unbacked_symint {event.symbol} {event.range}{source}{at}"
    return f"create_symbol {event.symbol} = {event.value} for {event.source} {event.range}{at}"


def _guard_added(event: kinds.GuardAdded) -> str:
    word = "runtime_assert" if event.at_run_time else "eval"
    at = _at(event.user_frame, event.reason) + extended.about_guard(event.expr)
    return f"{word} {event.expr} [guard added]{at}"


def _specialised(event: kinds.Specialised) -> str:
    value, sources = event.value, ", ".join(event.sources)
    return (
        f"set_replacement {event.symbol} = {value} (range_refined_to_singleton) "
        f"VR[{value}, {value}] for {sources}{_at(event.user_frame, event.reason)}"
    )


def _collective(event: kinds.CompilerCollective) -> str:
    missing = f", without {_ranks(event.missing)}" if event.missing else ""
    differ = "; ".join(f"{source}: {told}" for source, told in event.differing.items())
    return (
        f"compiler collective {event.round} of {event.function}: {_ranks(event.ranks)} agree"
        f" after {event.seconds:.3f} s{missing} [{differ or 'no differences'}]"
    )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(map(str, ranks))}"


def _profile_state(event: kinds.ProfileState) -> str:
    place = "remote" if event.remote else "local"
    return f"{event.action}_code_state ({place})\n{event.text}"


def _exported(event: kinds.ProgramExported) -> str:
    lines = [f"exported {event.function}", *event.constraints]
    return "\n".join((*lines, *(f"note: {note}" for note in event.notes)))


def _verification_failed(event: kinds.VerificationFailed) -> str:
    lines = [f"a compiled call of {event.function} differs from eager", *event.differences]
    return "\n".join((*lines, *([f"see {event.file}"] if event.file else [])))


def _recompile(event: kinds.Recompile) -> str:
    lines = [f"Recompiling function {event.function} in {event.file}:{event.line}"]
    lines.append("    triggered by the following guard failure(s):")
    for entry_id, text, frame, *_ in event.reasons:
        blame = "" if frame is None else f"  # {code_of(frame)}  # {place_of(frame)}"
        lines.append(f"    - {entry_id}: {text}{blame}")
        if frame is not None:
            lines += ["      User stack trace:", *(f"      {line}" for line in _traceback(frame))]
    return "\n".join(lines)


_COMPILED: Final = "compiled in {0.seconds:.3f} s: {0.graphs} graphs, {0.guards} guards"
_OUTPUT_CODE: Final = "Output code: {0.filename}\n{0.code}"
_KERNEL: Final = "kernel {0.text}; reads {0.reads} bytes, writes {0.writes}"
_RECOMPILE_LIMIT: Final = """\
anyshape hit config.recompile_limit ({0.limit})
   function: '{0.function}' ({0.file}:{0.line})
   last reason: {0.last_reason}
The function runs eagerly from now on.
To log all recompilation reasons, use ANYSHAPE_LOGS="recompiles"."""


def stopped_lines(event: kinds.GraphBreak | kinds.RunsEagerly) -> list[str]:
    """Why a graph ends, or a call is not compiled, and what would help."""
    return [f"Graph Break Reason: {event.reason}", *(f"  Hint: {hint}" for hint in event.hints)]


def _stopped(event: kinds.GraphBreak | kinds.RunsEagerly) -> str:
    title, frame = "Graph break", event.user_frame
    if isinstance(event, kinds.RunsEagerly):
        title = f"{event.function or 'A call'} runs eagerly: stopped"
    where = "" if frame is None else f" at {frame.filename}:{frame.line}"
    lines = [f"{title} in user code{where}", *stopped_lines(event)]
    if frame is not None:
        lines += ["User code traceback:", *_traceback(frame)]
    return "\n".join(lines)


def _graph_sizes(event: kinds.GraphCompiled) -> str:
    sizes = (f"{name}: ({', '.join(map(str, dims))})" for name, dims in event.sizes.items())
    lines = ("TRACED GRAPH TENSOR SIZES", f"===== {event.name or 'graph'} =====", *sizes)
    return "\n".join(lines)


# -- the table --------------------------------------------------------------------------------

#: Tells the story of a compile line by line; the others are artefacts, and say which one.
COMPONENT: Final = "dynamic"
#: Not a log that can be chosen: shown beside any.
DEFECTS: Final = "defects"


class Row(NamedTuple):
    kind: type[Event]
    log: str
    level: int
    text: Callable[[Event], str]


_E = TypeVar("_E", bound=Event)


def _row(kind: type[_E], level: int, text: str | Callable[[_E], str], log: str = COMPONENT) -> Row:
    """`text` is a template, of the event as `{0}`, where it is not a function."""
    if isinstance(text, str):
        return Row(kind, log, level, text.format)

    def checked(event: Event) -> str:
        assert isinstance(event, kind), f"the row of {kind.__name__} got {event!r}"
        return text(event)

    return Row(kind, log, level, checked)


_DEBUG, _INFO, _WARNING, _ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

ROWS: Final = (
    _row(kinds.FrameStart, _INFO, "create_env"),
    _row(kinds.CreateSymbol, _INFO, _create_symbol),
    _row(
        kinds.SymbolShared,
        _DEBUG,
        lambda e: f"create_symbol {e.symbol} duck sized {e.source}{_at(e.user_frame)}",
    ),
    _row(kinds.GuardAdded, _INFO, _guard_added),
    _row(kinds.RangeUpdated, _DEBUG, "_update_var_to_range {0.symbol} = VR{0.range} (update)"),
    _row(kinds.Replaced, _DEBUG, "set_replacement {0.symbol} = {0.by} (solve) VR{0.range}"),
    _row(kinds.Specialised, _DEBUG, _specialised),
    _row(kinds.MarkedDynamic, _INFO, "marking {0.source} as dynamic ({0.reason})"),
    _row(kinds.MarkIgnored, _WARNING, "not dynamic: {0.source} ({0.reason})"),
    _row(kinds.CompilerCollective, _INFO, _collective),
    _row(kinds.Compiled, _DEBUG, _COMPILED),
    _row(
        kinds.CompileFailed,
        _DEBUG,
        lambda e: f"compile failed: {e.error}: {e.text}{_at(e.user_frame)}",
    ),
    _row(kinds.ProfileState, _DEBUG, _profile_state),
    _row(kinds.ProgramExported, _INFO, _exported),
    _row(
        kinds.Compiled,
        _DEBUG,
        lambda e: "\n".join(("GUARDS:", *(guard.text for guard in e.guard_lines))),
        "guards",
    ),
    _row(kinds.Recompile, _DEBUG, _recompile, "recompiles"),
    _row(kinds.RecompileLimit, _WARNING, _RECOMPILE_LIMIT, "recompiles"),
    _row(kinds.GraphBreak, _DEBUG, _stopped, "graph_breaks"),
    _row(kinds.RunsEagerly, _DEBUG, _stopped, "graph_breaks"),
    _row(
        kinds.GraphCompiled,
        _DEBUG,
        lambda e: f"TRACED GRAPH\n ===== {e.name or 'graph'} =====\n {e.code}",
        "graph_code",
    ),
    _row(kinds.GraphCompiled, _DEBUG, _graph_sizes, "graph_sizes"),
    _row(kinds.OutputCode, _DEBUG, _OUTPUT_CODE, "output_code"),
    _row(
        kinds.OutputCode,
        _DEBUG,
        lambda e: _OUTPUT_CODE.format(e) if e.is_backward else "",
        "backward_code",
    ),
    _row(kinds.Schedule, _DEBUG, "{0.text}", "schedule"),
    _row(kinds.KernelMeasured, _DEBUG, _KERNEL, "schedule"),
    _row(kinds.GraphRecorded, _DEBUG, "{0.text}", "schedule"),
    _row(kinds.TrainingGraphs, _DEBUG, "Joint graph\n{0.joint}", "aot_joint_graph"),
    _row(
        kinds.TrainingGraphs,
        _DEBUG,
        "Forward graph\n{0.forward}\nBackward graph\n{0.backward}",
        "aot_graphs",
    ),
    _row(kinds.NotVerified, _WARNING, "calls of {0.function} are not verified: {0.reason}"),
    _row(kinds.VerificationFailed, _ERROR, _verification_failed, DEFECTS),
    _row(kinds.Defect, _WARNING, "defect in {0.stage}: {0.text}", DEFECTS),
)

LOGS: Final = tuple(dict.fromkeys(row.log for row in ROWS if row.log != DEFECTS))


class LogLines:
    """The sink: gives each event to the loggers of the chosen logs."""

    def __init__(self, logs: Iterable[str]) -> None:
        chosen = {*logs, DEFECTS}
        self._rows: dict[type[Event], list[tuple[Row, logging.Logger]]] = {}
        for row in ROWS:
            if row.log in chosen:
                logger = logging.getLogger(f"{ROOT}.{row.log}")
                self._rows.setdefault(row.kind, []).append((row, logger))

    @property
    def kinds(self) -> Iterable[type[Event]]:
        return self._rows.keys()

    def __call__(self, event: Event) -> None:
        for row, logger in self._rows[type(event)]:
            if logger.isEnabledFor(row.level):
                if not (text := row.text(event)):
                    continue
                extra = {"compile_id": event.compile_id, "artifact": row.log}
                # The place in the line is that of the code that emitted: behind this and `emit`.
                logger.log(row.level, "%s", text, extra=extra, stacklevel=3)


# -- lines ------------------------------------------------------------------------------------

_LETTERS: Final[Mapping[int, str]] = {
    logging.DEBUG: "V",
    logging.INFO: "I",
    logging.WARNING: "W",
    logging.ERROR: "E",
    logging.CRITICAL: "C",
}


def stamp_of(record: logging.LogRecord) -> str:
    """`1115 07:11:02.123456 4242 anyshape/capture/trace.py:81`: when, who, where."""
    when = datetime.fromtimestamp(record.created).strftime("%m%d %H:%M:%S.%f")
    path = record.pathname.removeprefix(_PACKAGE_PARENT)
    return f"{when} {record.process} {path}:{record.lineno}"


class LineFormatter(logging.Formatter):
    """The head goes before every line of a text, so that tools which take lines still find it."""

    def __init__(self, stamp: Callable[[logging.LogRecord], str] = stamp_of) -> None:
        super().__init__()
        self._stamp = stamp

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_LETTERS.get(record.levelno, 'I')}{self._stamp(record)}]"
        compile_id = getattr(record, "compile_id", "")
        artifact = getattr(record, "artifact", COMPONENT)
        if compile_id:
            head += f" [{compile_id}]"
        if artifact != COMPONENT:
            head += f" [__{artifact}]"
        return "\n".join(f"{head} {line}" for line in record.getMessage().split("\n"))
