"""Every pair of ways to say what a size or integer is: the one that stands higher wins."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import pytest

from anyshape.config import Config
from anyshape.policy.decide import (
    By,
    Choice,
    Decision,
    Evidence,
    Mark,
    MarkKind,
    Source,
    decide_int,
    decide_sizes,
)
from anyshape.policy.hints import what_changes
from anyshape.policy.observations import of_int, of_sizes

STATIC, DYNAMIC, UNBACKED = Choice.STATIC, Choice.DYNAMIC, Choice.UNBACKED


@dataclass(frozen=True)
class Way:
    """One way to say something, and what comes of it alone."""

    name: str
    by: By
    choice: Choice
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])
    dynamic: bool | None = None


def mark(kind: MarkKind, choice: Choice, by: By = By.MARK) -> Way:
    made = Mark(kind, by=by)
    return Way(made.name, by, choice, source={"marks": {0: made}})


def seen_by(what: str, by: By, observed: Any) -> Way:
    return Way(what, by, DYNAMIC, evidence={what: observed})


# From the highest to the lowest. Ways of one row contradict each other and are never paired.
SIZES = [
    [Way("list", By.LIST, DYNAMIC, settings={"dynamic_sources": "L['x']"})],
    [
        Way("parameter", By.FLAG, STATIC, source={"is_parameter": True}),
        Way("property", By.FLAG, STATIC, source={"is_module_property": True}),
    ],
    [
        mark(MarkKind.DYNAMIC, DYNAMIC),
        mark(MarkKind.MAYBE_DYNAMIC, DYNAMIC),
        mark(MarkKind.UNBACKED, UNBACKED),
        mark(MarkKind.STATIC, STATIC),
        mark(MarkKind.MAYBE_DYNAMIC, DYNAMIC, By.CONTRACT),
        mark(MarkKind.STATIC, STATIC, By.CONTRACT),
    ],
    [
        Way("dynamic=True", By.ARGUMENT, DYNAMIC, dynamic=True),
        Way("dynamic=False", By.ARGUMENT, STATIC, dynamic=False),
    ],
    [seen_by("profile", By.PROFILE, of_sizes((10,)))],
    [seen_by("ranks", By.RANKS, of_sizes((10,)))],
    [seen_by("seen", By.SEEN, of_sizes((10,)))],
    [
        Way("not static", By.DEFAULT, DYNAMIC, settings={"assume_static_by_default": False}),
        Way("default", By.DEFAULT, STATIC),
    ],
]
INTEGERS = [
    [Way("list", By.LIST, DYNAMIC, settings={"dynamic_sources": "L['x']"})],
    [
        Way("specialize_int", By.FLAG, STATIC, settings={"specialize_int": True}),
        Way("property", By.FLAG, STATIC, source={"is_module_property": True}),
    ],
    [
        mark(MarkKind.INTEGER, DYNAMIC),
        mark(MarkKind.STATIC, STATIC),
        mark(MarkKind.MAYBE_DYNAMIC, DYNAMIC, By.CONTRACT),
    ],
    SIZES[3],
    [seen_by("profile", By.PROFILE, of_int(10))],
    [seen_by("ranks", By.RANKS, of_int(10))],
    [seen_by("seen", By.SEEN, of_int(10))],
    SIZES[7],
]


def decide(integer: bool, *ways: Way) -> Decision:
    settings = Config({})
    source: dict[str, Any] = {}
    evidence: dict[str, Any] = {}
    dynamic: bool | None = None
    for way in ways:
        for name, value in way.settings.items():
            setattr(settings, name, value)
        source |= way.source
        evidence |= way.evidence
        dynamic = way.dynamic if dynamic is None else dynamic
    known = Source(**source), Evidence(**evidence), settings, dynamic
    if integer:
        return decide_int("L['x']", 20, *known)
    return decide_sizes("L['x']", (20,), *known)[0]


PAIRS = [
    (integer, higher, lower)
    for integer, rows in ((False, SIZES), (True, INTEGERS))
    for above, below in combinations(rows, 2)
    for higher, lower in product(above, below)
]


def named(value: object) -> str:
    return value.name if isinstance(value, Way) else "int" if value else "size"


@pytest.mark.parametrize(("integer", "higher", "lower"), PAIRS, ids=named)
def test_the_higher_one_wins(integer: bool, higher: Way, lower: Way) -> None:
    for ways in ((higher,), (higher, lower)):
        decision = decide(integer, *ways)
        assert (decision.by, decision.choice) == (higher.by, higher.choice)
    is_wish = "marks" in lower.source and lower.choice is not STATIC
    told = decide(integer, higher, lower).ignored
    assert bool(told) == (is_wish and higher.by is By.FLAG)


@pytest.mark.parametrize("integer", [False, True])
def test_all_at_once(integer: bool) -> None:
    rows = INTEGERS if integer else SIZES
    while rows:
        decision = decide(integer, *(row[0] for row in rows))
        assert decision.by is rows[0][0].by
        rows = rows[1:]


@pytest.mark.parametrize(
    ("flag", "source", "integer"),
    [
        ("force_parameter_static_shapes", {"is_parameter": True}, False),
        ("force_nn_module_property_static_shapes", {"is_module_property": True}, False),
    ],
)
def test_a_flag_that_is_off_has_no_word(flag: str, source: dict[str, Any], integer: bool) -> None:
    free = Way("off", By.MARK, DYNAMIC, settings={flag: False}, source=source)
    wish = mark(MarkKind.DYNAMIC, DYNAMIC)
    assert decide(integer, free, wish).by is By.MARK


def test_integers_on_modules_when_they_are_allowed() -> None:
    allowed = {"allow_unspec_int_on_nn_module": True}
    free = Way("off", By.SEEN, DYNAMIC, settings=allowed, source={"is_module_property": True})
    assert decide(True, free, seen_by("seen", By.SEEN, of_int(10))).by is By.SEEN


def test_ranks_are_named() -> None:
    told = "rank 0: tensor size=[10], rank 3: tensor size=[20]"
    ranks = Way("ranks", By.RANKS, DYNAMIC, evidence={"ranks": of_sizes((10,)), "told": told})
    decision = decide(False, ranks)
    assert (decision.by, decision.who) == (By.RANKS, "rank 0 and rank 3")
    assert decision.reason.endswith(f"({told})")
    assert decide(False, seen_by("seen", By.SEEN, of_sizes((10,)))).who == ""


def test_a_flag_above_a_contract_names_both() -> None:
    flag, contract = SIZES[1][0], mark(MarkKind.MAYBE_DYNAMIC, DYNAMIC, By.CONTRACT)
    ignored = "the shape contract: config.force_parameter_static_shapes is on"
    assert decide(False, flag, contract).ignored == ignored


def test_everything_says_what_would_change_it() -> None:
    for integer, rows in ((False, SIZES), (True, INTEGERS)):
        for way in (way for row in rows for way in row):
            text = what_changes(decide(integer, way), "int" if integer else "size")
            assert text
            assert "{" not in text
