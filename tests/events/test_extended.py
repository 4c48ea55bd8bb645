"""More on one symbol or guard, for those who ask by its name."""

from __future__ import annotations

import pytest

from anyshape.events.extended import about_guard, about_symbol


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEBUG_CREATE_SYMBOL", "DEBUG_GUARD_ADDED", "ADVICE"):
        monkeypatch.delenv(f"ANYSHAPE_EXTENDED_{name}", raising=False)


def test_advice_says_how_to_ask():
    assert about_guard("Eq(s0, 5)") == (
        ', for more info run with ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED="Eq(s0, 5)"'
    )
    assert about_symbol("s0") == (
        ', for more info run with ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL="s0"'
        ' or to suppress this message run with ANYSHAPE_EXTENDED_ADVICE="0"'
    )


def test_advice_can_be_suppressed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANYSHAPE_EXTENDED_ADVICE", "0")
    assert about_guard("Eq(s0, 5)") == about_symbol("s0") == ""


@pytest.mark.parametrize(("chosen", "is_shown"), [("Eq(s0, 5)", True), ("Eq(s0, 6)", False)])
def test_the_stack_of_a_guard(monkeypatch: pytest.MonkeyPatch, chosen: str, is_shown: bool):
    monkeypatch.setenv("ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED", chosen)
    text = about_guard("Eq(s0, 5)")
    assert ("User Stack (most recent call last):" in text) is is_shown
    assert ("in test_the_stack_of_a_guard" in text) is is_shown


def test_the_stacks_of_several_symbols(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL", "s0, s2")
    assert "Framework stack" in about_symbol("s0")
    assert "Framework stack" not in about_symbol("s1")
    assert "Framework stack" in about_symbol("s2")
