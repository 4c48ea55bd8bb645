"""A long run is thinned out; compiles stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.events.kinds import CallRun, CallsServed
from anyshape.explain.report.analysis import timeline as module
from anyshape.explain.report.analysis.timeline import timeline_of
from anyshape.explain.trace_model import read_trace
from tests.report.made import compile_of, written


def test_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_POINTS", 10)
    calls = [CallRun(2e9 + n, 2e9 + n, 1, [[n + 2, 4]]) for n in range(1000)]
    served = CallsServed("f", ["L['x']"], calls, 7, compile_id="0/0")
    events = [*compile_of("f", 0, 0, size=3, dynamic=True)[:-1], served]
    (process,), _ = read_trace(written(tmp_path, events))
    found = timeline_of(process.functions[0])
    hits = [point for point in found.points if point.what == "hit"]
    assert len(hits) == 200
    assert found.left_out == 807
    assert sum(point.what == "compiled" for point in found.points) == 1
