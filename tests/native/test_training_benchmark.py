"""The benchmark of training: what it measures, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import anyshape
from benchmarks.native.functions import FUNCTIONS
from benchmarks.native.steady import Effort
from benchmarks.native.systems import EAGER, OURS
from benchmarks.training.measure import steady
from benchmarks.training.text import lines
from benchmarks.training.workloads import WORKLOADS

EFFORT = Effort(0, 3, 1, limit=120)


@pytest.fixture(autouse=True)
def setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark turns it on for its process."""
    monkeypatch.setattr(anyshape.config, "native_training", False)


def test_workloads() -> None:
    assert [*WORKLOADS][: len(FUNCTIONS)] == [each.name for each in FUNCTIONS]
    models = [name for name, each in WORKLOADS.items() if each.kind == "model"]
    assert models[:4] == ["MLP", "ResNet-mini", "U-Net step", "LSTM loop"]
    for each in WORKLOADS.values():
        assert set(each.sizes) == {"tiny", "medium", "large", "odd"}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("rms_norm", {"tiny": (2, 64), "odd": (31, 27)}),
        ("MLP", {"tiny": (2,), "odd": (5,)}),
    ],
)
def test_tables(name: str, sizes: dict[str, Any]) -> None:
    workload = replace(WORKLOADS[name], sizes=sizes)
    found = steady(workload, (EAGER, OURS), EFFORT)
    assert not found["problems"]
    assert found["ours"]["native"]
    assert found["graphs"][OURS] == 1
    assert set(found["steps"]) == (set(sizes) if workload.kind == "model" else set())
    record = {"kind": workload.kind, "memory_bound": False, "cold": {}, **found}
    text = "\n".join(lines({name: record}))
    assert any(line.split()[:2] == [name, "tiny"] for line in text.splitlines())
    assert "all (2)" in text


def test_a_wrong_gradient_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes a gradient of something else is found out."""
    workload = replace(WORKLOADS["rms_norm"], sizes={"tiny": (2, 64)})
    compile = anyshape.compile
    monkeypatch.setattr(
        anyshape, "compile", lambda f, **k: compile(lambda x, w: f(x, w) + x * 1e-2, **k)
    )
    found = steady(workload, (EAGER, OURS), EFFORT)
    assert "WRONG at tiny" in found["problems"][OURS]
    assert OURS not in found["sizes"]["tiny"]["rounds"]
    assert isinstance(found["memory"]["tiny"][EAGER], int)
    assert torch.get_num_threads() == 1
