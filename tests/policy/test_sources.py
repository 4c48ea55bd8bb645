"""Which sources a list names."""

from __future__ import annotations

import pytest

from anyshape.policy.sources import names_source

WEIGHT = "L['self']._parameters['weight']"

CASES = [
    ("", "L['x']", None, False),
    ("L['x']", "L['x']", None, True),
    ("L['x']", "L['x']", 3, True),
    ("L['x']", "L['y']", None, False),
    ("L['x']", "L['xy']", None, False),
    ("L['y'], L['x'] ,", "L['x']", 0, True),
    ("L['x']:1", "L['x']", 1, True),
    ("L['x']:1", "L['x']", 0, False),
    ("L['x']:1", "L['x']", None, False),
    ("L['x']:1,L['x']:0", "L['x']", 0, True),
    (r"L['self']._parameters\['w.*'\]", WEIGHT, 0, True),
    (r"L['self']._parameters\['v.*'\]", WEIGHT, 0, False),
    ("L['self']._parameters['w.*']", WEIGHT, 0, True),
    ('L["self"].w[12]', 'L["self"].w2', 0, True),
    (r"L\['self'\]._parameters\['w.*'\]", WEIGHT, 0, True),
    (r"L\['self'\]._parameters\['w.*'\]:1", WEIGHT, 0, False),
    (r"L\['self'\]._parameters\['w.*'\]:1", WEIGHT, 1, True),
    (r"L\['self'\]", WEIGHT, 0, True),  # the beginning is enough
    (".*weight", WEIGHT, 0, True),
    ("weight", WEIGHT, 0, False),
    ("L[('x']", "L[('x']", None, True),  # no regular expression: taken literally
    ("*", "L['x']", None, False),
]


@pytest.mark.parametrize(("text", "source", "dim", "named"), CASES)
def test_names_source(text: str, source: str, dim: int | None, named: bool):
    assert names_source(text, source, dim) is named
