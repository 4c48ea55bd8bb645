"""Events reach those who listen for their kind, and only them."""

from __future__ import annotations

import dataclasses

import pytest

from anyshape.events import Defect, Event, MarkedDynamic, Schedule, Stream, stream

MARKED = MarkedDynamic("L['x']", "seen to change", compile_id="0/1")
DEFECT = Defect("graph", "lost a node")


def test_events_are_values():
    assert MarkedDynamic("L['x']", "seen to change", compile_id="0/1") == MARKED
    assert MARKED.compile_id == "0/1"
    assert DEFECT.compile_id == ""
    with pytest.raises(dataclasses.FrozenInstanceError):
        MARKED.source = "L['y']"  # pyright: ignore[reportAttributeAccessIssue] refused


def test_a_sink_gets_its_kinds_in_order():
    events, got = Stream(), list[Event]()
    events.subscribe(got.append, [MarkedDynamic])
    for event in (MARKED, DEFECT, MARKED):
        events.emit(event)
    assert got == [MARKED, MARKED]


def test_a_sink_without_kinds_gets_everything():
    events, got, some = Stream(), list[Event](), list[Event]()
    events.subscribe(some.append, [Defect])
    events.subscribe(got.append)
    events.emit(MARKED)
    events.emit(DEFECT)
    assert (got, some) == ([MARKED, DEFECT], [DEFECT])


def test_listening():
    events = Stream()
    assert not events.listening(Defect)
    stop_one = events.subscribe(lambda event: None, [Defect])
    assert events.listening(Defect)
    assert not events.listening(Schedule)
    stop_all = events.subscribe(lambda event: None)
    assert events.listening(Schedule)
    stop_all()
    stop_one()
    assert not events.listening(Defect)
    assert not events.listening(Schedule)


def test_unsubscribing_one_of_two_equal_subscriptions():
    events, got = Stream(), list[Event]()
    stop, _ = events.subscribe(got.append, [Defect]), events.subscribe(got.append, [Defect])
    stop()
    stop()
    events.emit(DEFECT)
    assert got == [DEFECT]


def test_a_failing_sink_does_not_stop_the_program_or_the_others():
    events, got = Stream(), list[Event]()

    def fail(event: Event) -> None:
        raise KeyError("oops")

    events.subscribe(fail)
    events.subscribe(got.append)
    with pytest.warns(RuntimeWarning, match="a listener failed on Defect: KeyError: 'oops'"):
        events.emit(DEFECT)
    assert got == [DEFECT]


def test_a_sink_may_subscribe_another():
    events, got = Stream(), list[Event]()
    events.subscribe(lambda event: (events.subscribe(got.append), None)[1], [Defect])
    events.emit(DEFECT)
    events.emit(MARKED)
    assert got == [MARKED]


def test_nobody_listens_to_the_stream_of_the_process_by_itself():
    assert not any(stream.listening(kind) for kind in (Defect, MarkedDynamic, Schedule))
