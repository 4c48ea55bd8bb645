"""Which logs are shown: `set_logs(...)` and the environment variable ANYSHAPE_LOGS.

    ANYSHAPE_LOGS="+dynamic,guards,recompiles"      + all detail, - errors only
    set_logs(dynamic=True, recompiles=True)

Nothing is installed in Python's `logging` before somebody asks. Lines go to stderr.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final, TextIO

from anyshape.arguments import spelled
from anyshape.errors import BadSetting, UnknownLog
from anyshape.events.log_lines import COMPONENT, DEFECTS, LOGS, ROOT, LineFormatter, LogLines
from anyshape.events.stream import Stream, stream

VARIABLE: Final = "ANYSHAPE_LOGS"

#: What a log shows when it is just switched on: an artefact is one text, and has no finer levels.
_ON: Final = {log: logging.INFO if log == COMPONENT else logging.DEBUG for log in LOGS}


def parse_logs(text: str, origin: str = VARIABLE) -> dict[str, int]:
    """The level of each log that the text names."""
    levels: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name = part.lstrip("+-")
        if name not in LOGS or len(part) - len(name) > 1:
            raise UnknownLog(origin=origin, log=part, known=LOGS)
        signs = {"+": logging.DEBUG, "-": logging.ERROR}
        levels[name] = signs.get(part[0], _ON[name])
    return levels


class _ToStderr(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at that moment: notebooks and tests replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(LineFormatter())

    @property
    def stream(self) -> TextIO:  # pyright: ignore[reportIncompatibleVariableOverride] the base keeps one
        return sys.stderr


class LogState:
    """The logs that are on, and what was installed for them."""

    def __init__(self, events: Stream, handler: logging.Handler | None = None) -> None:
        self._events = events
        self._handler = handler or _ToStderr()
        self._lock = Lock()
        self._chosen: dict[str, int] = {}
        #: from the environment: it wins over the program, since whoever sets it looks right now
        self._forced: dict[str, int] = {}
        self._unsubscribe: Callable[[], None] | None = None

    def choose(self, levels: Mapping[str, int]) -> None:
        with self._lock:
            self._chosen = dict(levels)
            self._install()

    def force(self, levels: Mapping[str, int]) -> None:
        with self._lock:
            self._forced = dict(levels)
            self._install()

    def _install(self) -> None:
        levels = self._chosen | self._forced
        root = logging.getLogger(ROOT)
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        root.removeHandler(self._handler)
        root.propagate = not levels
        for log in LOGS:
            logging.getLogger(f"{ROOT}.{log}").setLevel(levels.get(log, logging.NOTSET))
        if not levels:
            return
        logging.getLogger(f"{ROOT}.{DEFECTS}").setLevel(logging.WARNING)
        root.addHandler(self._handler)
        sink = LogLines(levels)
        self._unsubscribe = self._events.subscribe(sink, sink.kinds)


_STATE: Final = LogState(stream)


def set_logs_from_environment(environment: Mapping[str, str] | None = None) -> None:
    """Show the logs that ANYSHAPE_LOGS names."""
    given = os.environ if environment is None else environment
    _STATE.force(parse_logs(given.get(VARIABLE, "")))


@spelled
def set_logs(
    *,
    dynamic: bool | int | None = None,
    guards: bool | int | None = None,
    recompiles: bool | int | None = None,
    graph_breaks: bool | int | None = None,
    graph_code: bool | int | None = None,
    graph_sizes: bool | int | None = None,
    output_code: bool | int | None = None,
    backward_code: bool | int | None = None,
    schedule: bool | int | None = None,
    aot_graphs: bool | int | None = None,
    aot_joint_graph: bool | int | None = None,
) -> None:
    """Show these logs beside those of ANYSHAPE_LOGS, no others: True, or a level of `logging`.

    Lines go to stderr, by Python's `logging` under the name `anyshape`.

    >>> anyshape.set_logs(recompiles=True, graph_breaks=True)
    >>> anyshape.set_logs()  # none but those of ANYSHAPE_LOGS
    """
    given = {
        "dynamic": dynamic,
        "guards": guards,
        "recompiles": recompiles,
        "graph_breaks": graph_breaks,
        "graph_code": graph_code,
        "graph_sizes": graph_sizes,
        "output_code": output_code,
        "backward_code": backward_code,
        "schedule": schedule,
        "aot_graphs": aot_graphs,
        "aot_joint_graph": aot_joint_graph,
    }
    _STATE.choose(levels_of(given))


def levels_of(given: Mapping[str, bool | int | None]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for log, value in given.items():
        if value is None or value is False:
            continue
        if not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
            raise BadSetting(
                origin=f"set_logs({log}=...)",
                value=repr(value),
                accepted="True, False or a level of `logging`",
            )
        levels[log] = _ON[log] if value is True else value
    return levels
