"""Texts of guards, taken apart."""

from __future__ import annotations

import pytest

from anyshape.explain.report.analysis.conditions import condition
from anyshape.explain.report.analysis.operators import share_of
from anyshape.explain.report.analysis.profile_change import profile_change
from anyshape.explain.report.analysis.wording import in_words, is_about_sizes, split, tensor_fields
from tests.report.recordings import function_of

STATE = "global state == ({}, 0, 0, torch.float32, None, False, False, True, True, True, True)"
NOW = ", actual ({}, 0, 0, torch.float32, None, False, False, True, True, True, True)"


def test_a_state_with_many_fields():
    text = STATE.format("True") + NOW.format("False")
    assert in_words(text) == "grad mode was on, and is off now"
    later = text.replace("True)", "True, -1)")
    assert in_words(later) == "grad mode was on, and is off now"
    assert in_words(text.replace("True)", "True, -1, 2, 3)")).startswith("global state was")
    assert in_words("anything else") == "anything else"


def test_fields_of_a_tensor():
    text = "tensor 'x': type=Tensor, dtype=torch.float32, size=[?, 4], contiguous"
    assert tensor_fields(text) == {
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
    ("text", "is_size"),
    [
        ("tensor 'x' size mismatch at index 0. expected 3, actual 4", True),
        ("L['x'].size()[0] < 31, actual 40", True),
        ("L['n'] == 4, actual 5", True),
        ("L['self'].mode == 'a', actual 'b'", False),
        ("L['flag'] == True, actual False", False),
        ("L['p'] == 0.5, actual 0.25", False),
        (STATE.format("True") + NOW.format("False"), False),
    ],
)
def test_what_dynamic_sizes_can_help_with(text: str, is_size: bool):
    assert is_about_sizes(text) is is_size
