"""What each entry makes of each size."""

from __future__ import annotations

from anyshape.explain.report.analysis.sizes import changing_sources, table_of
from anyshape.explain.report.analysis.timeline import sizes_served, timeline_of
from anyshape.explain.trace_model import values_seen
from tests.report.recordings import function_of

X = "L['x'].size()[0]"


def test_values_by_dimension():
    seen = {
        "L['x']": "tensor size=[10, 4] stride=[4, 1]",
        "L['n']": "scalar -3",
        "L['t']": "tensor size=[]",
        "L['y']": "fully dynamic scalar or tensor",
        "L['z']": "tensor size=[?, 4]",
    }
    assert values_seen(seen) == {X: 10, "L['x'].size()[1]": 4, "L['n']": -3}


def test_states():
    rows = table_of(function_of("module"))
    assert list(rows) == [X]
    states = [(state.state, state.value, state.symbol) for state in rows[X]]
    assert states == [
        ("static", 3, ""),
        ("dynamic", 5, "s0"),
        ("specialised", 33, "s0"),
        ("dynamic", 9, "s0"),
    ]
    ranges = [state.range for state in table_of(function_of("specialised"))[X]]
    assert ranges == ["", "[0, 30]", "[31, int_oo]"]


def test_sizes_that_never_change_are_left_out():
    assert changing_sources(function_of("automatic")) == [X]


def test_the_calls_in_order():
    timeline = timeline_of(function_of("automatic"))
    assert list(timeline.sources) == [X]
    assert [(p.what, p.values[0]) for p in timeline.points] == [
        ("compiled", 10),
        ("compiled", 20),
        ("hit", 30),
        ("hit", 40),
    ]
    assert timeline.left_out == 0


def test_which_sizes_an_entry_served():
    served = sizes_served(function_of("automatic").entries[1])
    assert [(sizes[X], count) for sizes, count in served] == [(20, 1), (30, 1), (40, 1)]
