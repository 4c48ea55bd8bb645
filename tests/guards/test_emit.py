"""Generated code and interpreter give the same verdict, and the right one; each kind of guard is
missed when it is not generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from anyshape.guards import emit
from anyshape.guards.fast_path import version_check
from anyshape.guards.guard import Kind
from anyshape.guards.kinds import KINDS
from anyshape.support.lazy_dataclass import replace
from tests.guards.cases import CASES, Case, RanUserCode
from tests.guards.verdicts import Verdicts, plan


def verdicts_of(case: Case) -> Verdicts:
    return Verdicts(plan(case.guards, case.symbols, case.inputs), case.probe)


def arguments(case: Case) -> Iterator[tuple[tuple[Any, ...], bool]]:
    for expected, states in ((True, case.holds), (False, case.fails)):
        for state in states:
            yield (state if case.pairs else (state,)), expected  # pyright: ignore[reportReturnType] pairs are tuples


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_give_the_right_verdict(case: Case):
    verdicts = verdicts_of(case)
    for number, (values, expected) in enumerate(arguments(case)):
        assert verdicts.both(*values) is expected, (number, verdicts.dispatcher.anyshape_source)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_give_the_right_verdict_with_stamps(case: Case, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(emit, "_WORTH_A_STAMP", 1)
    monkeypatch.setattr(version_check, "_SHARE", 1e9)
    verdicts = verdicts_of(case)
    for _ in range(2):
        for values, expected in arguments(case):
            for _ in range(2):
                assert verdicts.both(*values) is expected


def test_every_kind_has_a_case():
    assert {case.kind for case in CASES} == set(Kind) == set(KINDS)


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_that_is_not_generated_is_missed(kind: Kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(KINDS, kind, replace(KINDS[kind], emit=lambda walk, guard: None))
    wrong = 0
    for case in CASES:
        if kind not in {guard.kind for guard in case.guards}:
            continue
        verdicts = verdicts_of(case)
        for values, expected in arguments(case):
            wrong += expected is False and _lets_pass(verdicts, values)
    assert wrong


def _lets_pass(verdicts: Verdicts, values: tuple[Any, ...]) -> bool:
    try:
        return verdicts.emitted(*values)
    except RanUserCode:  # without its type guard, user code of a trap may run
        return True
