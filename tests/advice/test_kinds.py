"""Every row says what happened and what to do, and names nothing that there is not."""

from __future__ import annotations

import string

import pytest
import torch

from anyshape.capture.record.torch_state import read_state
from anyshape.config import config
from anyshape.explain.advice.kinds import KINDS, STATE
from anyshape.explain.advice.patches import ROWS

KNOWN = {
    *(
        "names",
        "values",
        "seen",
        "detail",
        "code",
        "condition",
        "expected",
        "actual",
        "text",
        "call",
    ),
    *("mode", "mode_remedy", "state", "flipped", "branch", "hints", "source_kind"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_row(kind: str):
    row = KINDS[kind]
    assert row.title
    assert row.cause
    assert row.remedy
    for text in (row.title, row.cause, row.remedy):
        assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= KNOWN
    assert not row.patch or row.patch in ROWS
    for name, _ in row.settings:
        assert hasattr(config, name)


def test_the_parts_of_the_state_are_those_that_are_compared():
    usual = read_state()
    assert len(usual) == len(STATE)
    with torch.no_grad():
        assert _changed(usual) == ["grad mode"]
    with torch.inference_mode():
        assert "inference mode" in _changed(usual)
    with torch.autocast("cpu"):
        assert _changed(usual) == ["autocast"]
    torch.set_default_dtype(torch.float64)
    try:
        assert _changed(usual) == ["the default dtype"]
    finally:
        torch.set_default_dtype(torch.float32)


def _changed(usual: tuple[object, ...]) -> list[str]:
    now = read_state()
    return [name for (name, _), a, b in zip(STATE, usual, now, strict=True) if a != b]
