"""With a listener, entries note the sizes of the calls that they serve; without one, nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import anyshape
from anyshape.dispatch import call_log
from anyshape.events.kinds import CallsServed, Event
from anyshape.events.stream import stream


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    events: list[Event] = []
    monkeypatch.setattr(call_log, "_all", [])
    stop = stream.subscribe(events.append, [CallsServed])
    yield events
    stop()


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def test_sizes_and_integers_of_calls(told: list[Event]):
    function = anyshape.compile(scaled, dynamic=True)
    for size, n in ((3, 2), (4, 2), (4, 2), (5, 7)):
        assert torch.equal(function(torch.ones(size, 2), n), torch.ones(size, 2) * n)
    call_log.emit_all()
    (event,) = told
    assert isinstance(event, CallsServed)
    assert event.sources == ("L['x']", "L['n']")
    assert [call[2:] for call in event.calls] == [(2, [[4, 2], 2]), (1, [[5, 2], 7])]
    assert all(isinstance(c[0], float) and isinstance(c[1], float) for c in event.calls)


def test_calls_of_other_entries_in_between(told: list[Event]):
    function = anyshape.compile(scaled, dynamic=False)
    x, y = torch.ones(2), torch.ones(3)
    for given in (x, y, x, x, y, x):
        function(given, 2)
    call_log.emit_all()
    by_entry = {e.compile_id: [c[2] for c in e.calls] for e in told if isinstance(e, CallsServed)}
    assert list(by_entry.values()) == [[2, 1], [1]]


def test_notes_have_an_end(told: list[Event], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_log, "MOST_NOTES", 3)
    function = anyshape.compile(scaled, dynamic=True)
    for size in range(2, 10):
        function(torch.ones(size), 2)
    call_log.emit_all()
    (event,) = told
    assert isinstance(event, CallsServed)
    assert (len(event.calls), event.left_out) == (3, 4)


def test_nobody_listens():
    function = anyshape.compile(scaled, dynamic=True)
    function(torch.ones(3), 2)
    (entry,) = function.entries
    assert "served_calls" not in entry.plan.run.__code__.co_filename
