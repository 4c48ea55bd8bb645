"""Choosing logs: by text, by arguments, and what is installed for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from anyshape.errors import BadSetting, UnknownLog
from anyshape.events import GuardAdded, MarkedDynamic, Recompile, Specialised, stream
from anyshape.events.log_lines import LOGS
from anyshape.events.settings import parse_logs, set_logs, set_logs_from_environment

INFO, DEBUG, ERROR = logging.INFO, logging.DEBUG, logging.ERROR


@pytest.fixture(autouse=True)
def no_logs() -> Iterator[None]:
    yield
    set_logs_from_environment({})
    set_logs()


PARSED = [
    ("", {}),
    ("dynamic", {"dynamic": INFO}),
    ("+dynamic", {"dynamic": DEBUG}),
    ("-dynamic", {"dynamic": ERROR}),
    ("+dynamic,guards,recompiles", {"dynamic": DEBUG, "guards": DEBUG, "recompiles": DEBUG}),
    (" graph_code , -guards ,", {"graph_code": DEBUG, "guards": ERROR}),
    ("dynamic,+dynamic", {"dynamic": DEBUG}),
]


@pytest.mark.parametrize(("text", "levels"), PARSED)
def test_parse(text: str, levels: dict[str, int]):
    assert parse_logs(text) == levels


@pytest.mark.parametrize("text", ["dynamics", "dynamic;guards", "++dynamic", "+", "Dynamic"])
def test_unknown_names_are_listed(text: str):
    with pytest.raises(UnknownLog) as caught:
        parse_logs(text)
    message = str(caught.value)
    assert f"ANYSHAPE_LOGS names the log `{text}`" in message
    assert all(f"`{name}`" in message for name in LOGS)


@pytest.mark.parametrize(("text", "meant"), [("+recompile", "recompiles"), ("dynamc", "dynamic")])
def test_a_misspelt_log(text: str, meant: str):
    with pytest.raises(UnknownLog, match=f"did you mean '{meant}'"):
        parse_logs(text)


def test_set_logs_takes_every_log():
    set_logs(**dict.fromkeys(LOGS, True))
    assert all(logging.getLogger(f"anyshape.{log}").level for log in LOGS)


def test_a_wrong_level_is_refused():
    wrong: Any = "debug"
    with pytest.raises(BadSetting, match=r"set_logs\(dynamic=...\) cannot be 'debug'"):
        set_logs(dynamic=wrong)


def test_levels(capsys: pytest.CaptureFixture[str]):
    set_logs(dynamic=True)
    stream.emit(GuardAdded("s0 < 2"))
    stream.emit(Specialised("s0", ["L['n']"], 2))
    assert [line[0] for line in capsys.readouterr().err.splitlines()] == ["I"]
    set_logs(dynamic=DEBUG)
    stream.emit(GuardAdded("s0 < 2"))
    stream.emit(Specialised("s0", ["L['n']"], 2))
    assert [line[0] for line in capsys.readouterr().err.splitlines()] == ["I", "V"]
    set_logs(dynamic=ERROR)
    stream.emit(GuardAdded("s0 < 2"))
    assert capsys.readouterr().err == ""


def test_set_logs_replaces_what_was_set_before(capsys: pytest.CaptureFixture[str]):
    set_logs(dynamic=True)
    set_logs(recompiles=True)
    assert not stream.listening(GuardAdded)
    stream.emit(GuardAdded("s0 < 2"))
    stream.emit(Recompile("f", "f.py", 1, []))
    assert capsys.readouterr().err.count("\n") == 2
    set_logs(recompiles=False)
    assert not stream.listening(Recompile)


def test_the_environment_stays_in_force(capsys: pytest.CaptureFixture[str]):
    set_logs_from_environment({"ANYSHAPE_LOGS": "+dynamic"})
    set_logs(recompiles=True, dynamic=ERROR)
    stream.emit(MarkedDynamic("L['x']", "seen"))
    assert "marking L['x'] as dynamic (seen)" in capsys.readouterr().err
    assert stream.listening(Recompile)


def test_nothing_is_installed_unless_asked(capsys: pytest.CaptureFixture[str]):
    root = logging.getLogger("anyshape")
    assert (root.handlers, root.propagate) == ([], True)
    set_logs(guards=True)
    set_logs(guards=True)
    assert (len(root.handlers), root.propagate) == (1, False)
    set_logs()
    assert (root.handlers, root.propagate) == ([], True)
