"""Similar as the reference says: same operators, same tensors; sizes and integers aside."""

from __future__ import annotations

import pytest

from anyshape.events.kinds import GraphCompiled
from anyshape.explain.report.analysis.graphs import key_of, similar_graphs
from tests.report.recordings import processes_of


def graph(operators: str, **inputs: str) -> GraphCompiled:
    return GraphCompiled("", operators=operators.split(), inputs=inputs)


BASE = graph("relu mul", x="f32[10, 4]")
SIMILAR = [graph("relu mul", x="f32[s0, 4]", s0="Sym(s0)"), graph("relu mul", x="f32[20, s3*2]")]
OTHERS = [
    graph("mul relu", x="f32[10, 4]"),
    graph("relu mul add", x="f32[10, 4]"),
    graph("relu mul", x="f16[10, 4]"),
    graph("relu mul", x="f32[10]"),
    graph("relu mul", y="f32[10, 4]"),
    graph("relu mul", x="f32[10, 4]", y="f32[]"),
]


@pytest.mark.parametrize("other", SIMILAR)
def test_similar(other: GraphCompiled):
    assert key_of(other) == key_of(BASE)


@pytest.mark.parametrize("other", OTHERS)
def test_not_similar(other: GraphCompiled):
    assert key_of(other) != key_of(BASE)


def test_groups_of_a_trace():
    (process,) = processes_of("specialised")
    (group,) = similar_graphs(process)
    assert [member.entry.id for member in group] == ["0/0", "0/1", "0/2"]
    (process,) = processes_of("broken_mark")
    assert similar_graphs(process) == []
