"""Texts of guards, taken apart."""

from __future__ import annotations

import pytest

from anyshape.events.kinds import GuardFailure, GuardSaid
from anyshape.explain.guard_texts import split, tensor_fields, with_fields
from anyshape.explain.report.analysis.conditions import condition
from anyshape.explain.report.analysis.graphs import share_of
from anyshape.explain.report.analysis.sizes import profile_change
from anyshape.explain.report.analysis.wording import in_words, is_about_sizes
from tests.report.recordings import function_of

STATE = "global state == ({}, 0, 0, torch.float32, None, False, False, True, True, True, True)"
NOW = ", actual ({}, 0, 0, torch.float32, None, False, False, True, True, True, True)"


def failure(text: str, kind: str = "EQUALS_MATCH") -> GuardFailure:
    """As it is read from a trace that has the sentence alone."""
    return with_fields(GuardFailure("0/0", text), [GuardSaid(kind, text.partition(", actual")[0])])


def test_a_state_with_many_fields():
    text = STATE.format("True") + NOW.format("False")

    def said(text: str) -> str:
        return in_words(failure(text, "GLOBAL_STATE"))

    assert said(text) == "grad mode was on, and is off now"
    assert said(text.replace("True)", "True, -1)")) == "grad mode was on, and is off now"
    assert said(text.replace("True)", "True, -1, 2, 3)")).startswith("global state was")
    assert said("anything else") == "anything else"


def test_fields_of_a_tensor():
    text = "tensor 'x': type=Tensor, dtype=torch.float32, size=[?, 4], contiguous"
    assert tensor_fields(text, "layout class") == {
        "type": "Tensor",
        "dtype": "torch.float32",
        "size": "[?, 4]",
        "layout class": "contiguous",
    }
    assert split("a, (b, c), [d, e]") == ["a", "(b, c)", "[d, e]"]


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("x == 3", "x == 3", True),
        ("x != 3", "x == 3", False),
        ("x < 3", "x < 3", True),
        ("x >= 3", "x < 3", False),
        ("x <= 3", "x <= 3", True),
        ("x > 3", "x <= 3", False),
        ("anything", "anything", True),
    ],
)
def test_questions(text: str, question: str, answer: bool):
    assert condition(text, None, "").key == (question, answer)


def test_shares():
    share = share_of(function_of("module"))
    assert (share.graphs, share.operators, share.native) == (4, 16, 4)
    assert list(share.without) == ["a result requires grad"]


def test_profile_before_and_after():
    (change,) = profile_change(function_of("automatic"))
    assert change == ("L['x']", "", "tensor size=[?, 4] stride=[4, 1]")


@pytest.mark.parametrize(
    ("text", "kind", "is_size"),
    [
        ("tensor 'x' size mismatch at index 0. expected 3, actual 4", "TENSOR_MATCH", True),
        ("L['x'].size()[0] < 31, actual 40", "SHAPE_GUARD", True),
        ("L['n'] < 4, actual 5", "SHAPE_GUARD", True),
        ("L['n'] == 4, actual 5", "EQUALS_MATCH", True),
        ("L['self'].mode == 'a', actual 'b'", "EQUALS_MATCH", False),
        ("L['flag'] == True, actual False", "EQUALS_MATCH", False),
        ("L['p'] == 0.5, actual 0.25", "EQUALS_MATCH", False),
        (STATE.format("True") + NOW.format("False"), "GLOBAL_STATE", False),
    ],
)
def test_what_dynamic_sizes_can_help_with(text: str, kind: str, is_size: bool):
    assert is_about_sizes(failure(text, kind)) is is_size


def test_fields_that_are_told_need_no_sentence():
    told = GuardFailure("0/0", "words", None, "EQUALS_MATCH", "L['n']", "4", "5")
    assert with_fields(told, ()) == told._replace(kind="equals")
    assert with_fields(GuardFailure("0/0", "words"), ()).kind == "unknown"
