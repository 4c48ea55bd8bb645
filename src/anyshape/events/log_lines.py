"""Events as lines for people, in the form that PyTorch users know:

    I1115 07:11:02.123456 4242 anyshape/capture/trace.py:81] [0/1] create_symbol s0 = 20 for ...
    V1115 07:11:02.123456 4242 anyshape/compiler/driver.py:40] [0/1] [__recompiles] Recompiling ...

One row for each pair of an event and a log: the level, and the text. Lines go through Python's
`logging`: the log `guards` is the logger `anyshape.guards`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from anyshape.events import extended
from anyshape.events.kinds import (
    Compiled,
    CompileFailed,
    CompilerCollective,
    CreateSymbol,
    Defect,
    Event,
    Frame,
    FrameStart,
    GraphBreak,
    GraphCompiled,
    GuardAdded,
    MarkedDynamic,
    MarkIgnored,
    NotVerified,
    OutputCode,
    ProfileState,
    ProgramExported,
    RangeUpdated,
    Recompile,
    RecompileLimit,
    Replaced,
    RunsEagerly,
    Schedule,
    Specialised,
    SymbolShared,
    VerificationFailed,
)
from anyshape.events.source_lines import source_line

ROOT: Final = "anyshape"
_PACKAGE_PARENT: Final = str(Path(__file__).parents[2]) + os.sep

# -- places -----------------------------------------------------------------------------------


def code_of(frame: Frame) -> str:
    """The line of the program, as far as it can be read."""
    return source_line(frame.filename, frame.line)


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


def _create_symbol(event: CreateSymbol) -> str:
    at = _at(event.user_frame, event.reason) + extended.about_symbol(event.symbol)
    if event.value is None:
        source = f" for {event.source}" if event.source else ""
        return f"create_unbacked_symint {event.symbol} {event.range}{source}{at}"
    return f"create_symbol {event.symbol} = {event.value} for {event.source} {event.range}{at}"


def _symbol_shared(event: SymbolShared) -> str:
    return f"create_symbol {event.symbol} duck sized {event.source}{_at(event.user_frame)}"


def _guard_added(event: GuardAdded) -> str:
    word = "runtime_assert" if event.at_run_time else "eval"
    at = _at(event.user_frame, event.reason) + extended.about_guard(event.expr)
    return f"{word} {event.expr} [guard added]{at}"


def _range_updated(event: RangeUpdated) -> str:
    return f"_update_var_to_range {event.symbol} = VR{event.range} (update)"


def _replaced(event: Replaced) -> str:
    return f"set_replacement {event.symbol} = {event.by} (solve) VR{event.range}"


def _specialised(event: Specialised) -> str:
    value, sources = event.value, ", ".join(event.sources)
    return (
        f"set_replacement {event.symbol} = {value} (range_refined_to_singleton) "
        f"VR[{value}, {value}] for {sources}{_at(event.user_frame, event.reason)}"
    )


def _marked(event: MarkedDynamic) -> str:
    return f"marking {event.source} as dynamic ({event.reason})"


def _ignored(event: MarkIgnored) -> str:
    return f"not dynamic: {event.source} ({event.reason})"


def _collective(event: CompilerCollective) -> str:
    missing = f", without {_ranks(event.missing)}" if event.missing else ""
    differ = "; ".join(f"{source}: {told}" for source, told in event.differing.items())
    return (
        f"compiler collective {event.round} of {event.function}: {_ranks(event.ranks)} agree"
        f" after {event.seconds:.3f} s{missing} [{differ or 'no differences'}]"
    )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(map(str, ranks))}"


def _compiled(event: Compiled) -> str:
    return f"compiled in {event.seconds:.3f} s: {event.graphs} graphs, {event.guards} guards"


def _failed(event: CompileFailed) -> str:
    return f"compile failed: {event.error}: {event.text}{_at(event.user_frame)}"


def _profile_state(event: ProfileState) -> str:
    place = "remote" if event.remote else "local"
    return f"{event.action}_code_state ({place})\n{event.text}"


def _exported(event: ProgramExported) -> str:
    lines = [f"exported {event.function}", *event.constraints]
    return "\n".join((*lines, *(f"note: {note}" for note in event.notes)))


def _not_verified(event: NotVerified) -> str:
    return f"calls of {event.function} are not verified: {event.reason}"


def _verification_failed(event: VerificationFailed) -> str:
    lines = [f"a compiled call of {event.function} differs from eager", *event.differences]
    return "\n".join((*lines, *([f"see {event.file}"] if event.file else [])))


def _guards(event: Compiled) -> str:
    return "\n".join(("GUARDS:", *(guard.text for guard in event.guard_lines)))


def _recompile(event: Recompile) -> str:
    lines = [f"Recompiling function {event.function} in {event.file}:{event.line}"]
    lines.append("    triggered by the following guard failure(s):")
    for entry_id, text, frame in event.reasons:
        blame = "" if frame is None else f"  # {code_of(frame)}  # {place_of(frame)}"
        lines.append(f"    - {entry_id}: {text}{blame}")
        if frame is not None:
            lines += ["      User stack trace:", *(f"      {line}" for line in _traceback(frame))]
    return "\n".join(lines)


def _recompile_limit(event: RecompileLimit) -> str:
    return "\n".join(
        (
            f"anyshape hit config.recompile_limit ({event.limit})",
            f"   function: '{event.function}' ({event.file}:{event.line})",
            f"   last reason: {event.last_reason}",
            "The function runs eagerly from now on.",
            'To log all recompilation reasons, use ANYSHAPE_LOGS="recompiles".',
        )
    )


def _stopped(title: str, reason: str, frame: Frame | None, hints: Sequence[str]) -> str:
    where = "" if frame is None else f" at {frame.filename}:{frame.line}"
    lines = [f"{title} in user code{where}", f"Graph Break Reason: {reason}"]
    lines += [f"  Hint: {hint}" for hint in hints]
    if frame is not None:
        lines += ["User code traceback:", *_traceback(frame)]
    return "\n".join(lines)


def _graph_break(event: GraphBreak) -> str:
    return _stopped("Graph break", event.reason, event.user_frame, event.hints)


def _runs_eagerly(event: RunsEagerly) -> str:
    title = f"{event.function or 'A call'} runs eagerly: stopped"
    return _stopped(title, event.reason, event.user_frame, event.hints)


def _graph_code(event: GraphCompiled) -> str:
    return f"TRACED GRAPH\n ===== {event.name or 'graph'} =====\n {event.code}"


def _graph_sizes(event: GraphCompiled) -> str:
    sizes = (f"{name}: ({', '.join(map(str, dims))})" for name, dims in event.sizes.items())
    lines = ("TRACED GRAPH TENSOR SIZES", f"===== {event.name or 'graph'} =====", *sizes)
    return "\n".join(lines)


def _output_code(event: OutputCode) -> str:
    return f"Output code: {event.filename}\n{event.code}"


# -- the table --------------------------------------------------------------------------------

#: Not a log that can be chosen: shown beside any.
DEFECTS: Final = "defects"


class Row(NamedTuple):
    kind: type[Event]
    log: str
    level: int
    text: Callable[[Event], str]


_E = TypeVar("_E", bound=Event)


def _row(kind: type[_E], log: str, level: int, text: Callable[[_E], str]) -> Row:
    def checked(event: Event) -> str:
        assert isinstance(event, kind), f"the row of {kind.__name__} got {event!r}"
        return text(event)

    return Row(kind, log, level, checked)


ROWS: Final = (
    _row(FrameStart, "dynamic", logging.INFO, lambda event: "create_env"),
    _row(CreateSymbol, "dynamic", logging.INFO, _create_symbol),
    _row(SymbolShared, "dynamic", logging.DEBUG, _symbol_shared),
    _row(GuardAdded, "dynamic", logging.INFO, _guard_added),
    _row(RangeUpdated, "dynamic", logging.DEBUG, _range_updated),
    _row(Replaced, "dynamic", logging.DEBUG, _replaced),
    _row(Specialised, "dynamic", logging.DEBUG, _specialised),
    _row(MarkedDynamic, "dynamic", logging.INFO, _marked),
    _row(MarkIgnored, "dynamic", logging.WARNING, _ignored),
    _row(CompilerCollective, "dynamic", logging.INFO, _collective),
    _row(Compiled, "dynamic", logging.DEBUG, _compiled),
    _row(CompileFailed, "dynamic", logging.DEBUG, _failed),
    _row(ProfileState, "dynamic", logging.DEBUG, _profile_state),
    _row(ProgramExported, "dynamic", logging.INFO, _exported),
    _row(Compiled, "guards", logging.DEBUG, _guards),
    _row(Recompile, "recompiles", logging.DEBUG, _recompile),
    _row(RecompileLimit, "recompiles", logging.WARNING, _recompile_limit),
    _row(GraphBreak, "graph_breaks", logging.DEBUG, _graph_break),
    _row(RunsEagerly, "graph_breaks", logging.DEBUG, _runs_eagerly),
    _row(GraphCompiled, "graph_code", logging.DEBUG, _graph_code),
    _row(GraphCompiled, "graph_sizes", logging.DEBUG, _graph_sizes),
    _row(OutputCode, "output_code", logging.DEBUG, _output_code),
    _row(Schedule, "schedule", logging.DEBUG, lambda event: event.text),
    _row(NotVerified, "dynamic", logging.WARNING, _not_verified),
    _row(VerificationFailed, DEFECTS, logging.ERROR, _verification_failed),
    _row(Defect, DEFECTS, logging.WARNING, lambda e: f"defect in {e.stage}: {e.text}"),
)

LOGS: Final = tuple(dict.fromkeys(row.log for row in ROWS if row.log != DEFECTS))
#: Tells the story of a compile line by line; the others are artefacts, and say which one.
COMPONENT: Final = "dynamic"


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
                extra = {"compile_id": event.compile_id, "artifact": row.log}
                # The place in the line is that of the code that emitted: behind this and `emit`.
                logger.log(row.level, "%s", row.text(event), extra=extra, stacklevel=3)


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
