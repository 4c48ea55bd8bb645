"""The benchmark for GPUs, on the processor: what it measures, and what it says."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.gpu.text import lines
from benchmarks.gpu.workloads import workloads
from benchmarks.native.figures import Figures
from benchmarks.native.registry import WORKLOADS
from benchmarks.native.steady import Effort, steady
from benchmarks.native.systems import EAGER, OURS


def test_workloads() -> None:
    found = workloads("cpu")
    assert [*found][: len(WORKLOADS)] == [*WORKLOADS]
    assert len(found) == len(WORKLOADS) + 2
    assert found["llama8, bfloat16"].order[:2] == ("1x64", "1x1")
    assert found["rope"].order == ("medium", "odd", "large", "tiny")


def test_tables() -> None:
    workload = workloads("cpu")["rms_norm"]
    workload = replace(workload, sizes={"tiny": (2, 64), "odd": (31, 27)}, settle=lambda: None)
    found = steady(workload, (EAGER, OURS), Effort(0, 3, 1, limit=60))
    assert found["ours"] == {"graphs": 1, "captures": 1, "eager_calls": 0}
    record = {"kind": "function", "memory_bound": True, "problems": {}, "cold": {}, **found}
    text = "\n".join(lines(Figures({workload.name: record}, {})))
    assert "rms_norm  odd" in text
    assert "all (2)" in text
