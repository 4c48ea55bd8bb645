"""The table of precedence: each row against the rows below it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from anyshape.config import Config
from anyshape.policy import decide
from anyshape.policy.decide import (
    Choice,
    Decision,
    Evidence,
    Mark,
    MarkKind,
    Source,
    decide_int,
    decide_sizes,
)
from anyshape.policy.observations import MANY, Observation, of_int, of_sizes
from anyshape.symbolic import EVERYTHING, NATURAL, Range

STATIC, DYNAMIC, UNBACKED = Choice.STATIC, Choice.DYNAMIC, Choice.UNBACKED
PARAMETER = Source(is_parameter=True)
PROPERTY = Source(is_module_property=True)


def settings(**changes: object) -> Config:
    made = Config({})
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def marked(
    kind: MarkKind, *, dim: int = 0, low: int | None = None, high: int | None = None
) -> Source:
    return Source(marks={dim: Mark(kind, low, high)})


def size(
    value: int,
    source: Source | None = None,
    *,
    seen: Observation | None = None,
    profile: Observation | None = None,
    ranks: Observation | None = None,
    dynamic: bool | None = None,
    is_again: bool = False,
    **changes: object,
) -> Decision:
    """The decision for `L['x']`, a vector."""
    evidence = Evidence(seen, profile, ranks, is_again=is_again)
    made = decide_sizes(
        "L['x']", (value,), source or Source(), evidence, settings(**changes), dynamic
    )
    return made[0]


def integer(
    value: int,
    source: Source | None = None,
    *,
    seen: Observation | None = None,
    dynamic: bool | None = None,
    **changes: object,
) -> Decision:
    evidence = Evidence(seen=seen)
    return decide_int("L['n']", value, source or Source(), evidence, settings(**changes), dynamic)


def said(decision: Decision) -> tuple[Choice, str]:
    return decision.choice, decision.reason


# -- what each row says alone -----------------------------------------------------------------

ALONE = [
    (size(20), STATIC, "nothing says that it changes"),
    (size(20, assume_static_by_default=False), DYNAMIC, "config.assume_static_by_default is off"),
    (size(20, seen=of_sizes((20,))), STATIC, "nothing says that it changes"),
    (size(20, seen=of_sizes((10,))), DYNAMIC, "it was seen as 10, and it is 20 now"),
    (size(20, seen=Observation(sizes=(MANY,))), DYNAMIC, "it was seen in different forms"),
    (size(20, seen=of_sizes((20, 1))), DYNAMIC, "it was seen in different forms"),
    (size(20, seen=of_int(20)), DYNAMIC, "it was seen in different forms"),
    (
        size(20, profile=of_sizes((10,))),
        DYNAMIC,
        "the profile of earlier runs has it as 10, and it is 20 now",
    ),
    (
        size(20, ranks=of_sizes((10,))),
        DYNAMIC,
        "the other ranks have it as 10, and it is 20 now",
    ),
    (
        size(20, seen=of_sizes((10,)), automatic_dynamic=False),
        STATIC,
        "nothing says that it changes",
    ),
    (size(20, automatic_dynamic="all"), STATIC, "nothing says that it changes"),
    (size(20, is_again=True), STATIC, "nothing says that it changes"),
    (
        size(20, is_again=True, automatic_dynamic="all"),
        DYNAMIC,
        "the function is recompiled, and config.automatic_dynamic is 'all'",
    ),
    (
        size(20, is_again=True, seen=of_sizes((10,)), automatic_dynamic="all"),
        DYNAMIC,
        "it was seen as 10, and it is 20 now",
    ),
    (
        size(20, marked(MarkKind.STATIC), is_again=True, automatic_dynamic="all"),
        STATIC,
        "the program says mark_static",
    ),
    (
        size(20, PARAMETER, is_again=True, automatic_dynamic="all"),
        STATIC,
        "it is a parameter, and config.force_parameter_static_shapes is on",
    ),
    (size(20, dynamic=True), DYNAMIC, "the function is compiled with dynamic=True"),
    (size(20, dynamic=False), STATIC, "the function is compiled with dynamic=False"),
    (size(20, marked(MarkKind.DYNAMIC)), DYNAMIC, "the program says mark_dynamic"),
    (size(20, marked(MarkKind.MAYBE_DYNAMIC)), DYNAMIC, "the program says maybe_mark_dynamic"),
    (size(20, marked(MarkKind.UNBACKED)), UNBACKED, "the program says mark_unbacked"),
    (size(20, marked(MarkKind.STATIC)), STATIC, "the program says mark_static"),
    (
        size(20, PARAMETER),
        STATIC,
        "it is a parameter, and config.force_parameter_static_shapes is on",
    ),
    (
        size(20, PROPERTY),
        STATIC,
        "it is on a module, and config.force_nn_module_property_static_shapes is on",
    ),
    (size(20, dynamic_sources="L['x']"), DYNAMIC, "config.dynamic_sources names it"),
    (integer(20), STATIC, "nothing says that it changes"),
    (integer(20, seen=of_int(10)), DYNAMIC, "it was seen as 10, and it is 20 now"),
    (integer(20, seen=of_int(20)), STATIC, "nothing says that it changes"),
    (integer(20, dynamic=True), DYNAMIC, "the function is compiled with dynamic=True"),
    (
        integer(20, PROPERTY, dynamic=True),
        STATIC,
        "it is an integer on a module, and config.allow_unspec_int_on_nn_module is off",
    ),
    (
        integer(20, specialize_int=True, dynamic=True),
        STATIC,
        "it is an integer, and config.specialize_int is on",
    ),
    (integer(20, dynamic_sources="L['n']"), DYNAMIC, "config.dynamic_sources names it"),
    (integer(20, marked(MarkKind.MAYBE_DYNAMIC)), DYNAMIC, "the program says maybe_mark_dynamic"),
    (integer(True, dynamic=True), STATIC, "it is a bool, and each value is compiled for"),
]


@pytest.mark.parametrize(("decision", "choice", "reason"), ALONE, ids=range(len(ALONE)))
def test_rows(decision: Decision, choice: Choice, reason: str):
    assert said(decision) == (choice, reason)


# -- who wins ---------------------------------------------------------------------------------

SEEN = of_sizes((10,))


def test_the_list_stands_above_everything():
    for source, dynamic in product((PARAMETER, PROPERTY, marked(MarkKind.STATIC)), (None, False)):
        assert size(20, source, dynamic=dynamic, dynamic_sources="L['x']").choice is DYNAMIC
    assert integer(20, PROPERTY, dynamic_sources="L['n']").choice is DYNAMIC
    assert integer(20, specialize_int=True, dynamic_sources="L['n']").choice is DYNAMIC


def test_the_list_may_name_one_dimension():
    made = decide_sizes(
        "L['x']", (20, 30), Source(), Evidence(), settings(dynamic_sources="L['x']:1"), None
    )
    assert [decision.choice for decision in made] == [STATIC, DYNAMIC]


@pytest.mark.parametrize("kind", MarkKind)
@pytest.mark.parametrize(
    ("where", "flag"),
    [
        ("is_parameter", "force_parameter_static_shapes"),
        ("is_module_property", "force_nn_module_property_static_shapes"),
    ],
)
def test_force_flags_stand_above_marks_and_say_so(kind: MarkKind, where: str, flag: str):
    source = Source(
        is_parameter=where == "is_parameter",
        is_module_property=where == "is_module_property",
        marks={0: Mark(kind)},
    )
    decision = size(20, source, dynamic=True, seen=SEEN)
    told = "" if kind is MarkKind.STATIC else f"{kind.value}: config.{flag} is on"
    assert (decision.choice, decision.ignored, decision.required) == (STATIC, told, False)
    changes: dict[str, Any] = {flag: False}
    free = size(20, source, dynamic=True, seen=SEEN, **changes)
    assert free.reason == f"the program says {kind.value}"


def test_without_the_flags_parameters_are_as_other_tensors():
    assert size(20, PARAMETER, dynamic=True, force_parameter_static_shapes=False).choice is DYNAMIC
    free = size(20, PROPERTY, seen=SEEN, force_nn_module_property_static_shapes=False)
    assert free.choice is DYNAMIC
    assert integer(20, PROPERTY, dynamic=True, allow_unspec_int_on_nn_module=True).choice is DYNAMIC


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_marks_stand_above_the_argument_and_evidence(dynamic: bool | None):
    assert size(20, marked(MarkKind.STATIC), dynamic=dynamic, seen=SEEN).choice is STATIC
    assert size(20, marked(MarkKind.DYNAMIC), dynamic=dynamic).choice is DYNAMIC
    assert size(20, marked(MarkKind.UNBACKED), dynamic=dynamic).choice is UNBACKED


def test_the_argument_stands_above_evidence():
    assert size(20, dynamic=False, seen=SEEN, profile=SEEN, ranks=SEEN).choice is STATIC
    assert size(20, dynamic=True, seen=of_sizes((20,))).reason.endswith("dynamic=True")


def test_profile_stands_above_ranks_above_seen():
    assert size(20, profile=SEEN, ranks=SEEN, seen=SEEN).reason.startswith("the profile")
    assert size(20, ranks=SEEN, seen=SEEN).reason.startswith("the other ranks")
    assert size(20, profile=of_sizes((20,)), seen=SEEN).reason.startswith("it was seen")


def test_dimensions_are_decided_one_by_one():
    made = decide_sizes(
        "L['x']",
        (20, 4, 7),
        marked(MarkKind.UNBACKED, dim=2),
        Evidence(seen=of_sizes((10, 4, 7))),
        settings(),
        None,
    )
    assert [decision.choice for decision in made] == [DYNAMIC, STATIC, UNBACKED]
    assert decide_sizes("L['x']", (), Source(), Evidence(), settings(), True) == ()


# -- ranges and requirements ------------------------------------------------------------------

FROM_MARKS = [
    (marked(MarkKind.DYNAMIC), DYNAMIC, NATURAL, True),
    (marked(MarkKind.DYNAMIC, low=4, high=64), DYNAMIC, Range(4, 64), True),
    (marked(MarkKind.DYNAMIC, low=-3), DYNAMIC, NATURAL, True),
    (marked(MarkKind.MAYBE_DYNAMIC, high=64), DYNAMIC, Range(0, 64), False),
    (marked(MarkKind.UNBACKED, low=2), UNBACKED, Range(2, None), True),
    (marked(MarkKind.STATIC), STATIC, NATURAL, False),
]


@pytest.mark.parametrize(("source", "choice", "declared", "required"), FROM_MARKS)
def test_marks_give_ranges(source: Source, choice: Choice, declared: Range, required: bool):
    decision = size(20, source)
    assert (decision.choice, decision.range, decision.required) == (choice, declared, required)


@pytest.mark.parametrize("kind", [MarkKind.DYNAMIC, MarkKind.UNBACKED])
def test_a_value_outside_of_the_marked_range_breaks_the_requirement(kind: MarkKind):
    decision = size(20, marked(kind, low=32))
    assert (decision.choice, decision.required) == (STATIC, True)
    assert decision.reason == "its value 20 is not what the mark says: size >= 32"


def test_an_integer_may_be_negative():
    assert integer(-3, dynamic=True).range == EVERYTHING
    assert integer(-3, marked(MarkKind.MAYBE_DYNAMIC)).range == EVERYTHING
    assert integer(3, marked(MarkKind.MAYBE_DYNAMIC, low=1)).range == Range(1, None)
    assert size(3, dynamic=True).range == NATURAL


# -- specialize_zero_one ----------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1])
def test_zero_and_one_are_ordinary_by_default(value: int):
    assert said(size(value, dynamic=True))[0] is DYNAMIC
    assert size(value, dynamic=True).range == NATURAL


@pytest.mark.parametrize("value", [0, 1])
def test_specialize_zero_one(value: int):
    reason = f"config.specialize_zero_one is on, and it is {value}"
    for decision in (
        size(value, dynamic=True, specialize_zero_one=True),
        size(value, seen=SEEN, specialize_zero_one=True),
        size(value, dynamic_sources="L['x']", specialize_zero_one=True),
        size(value, marked(MarkKind.MAYBE_DYNAMIC), specialize_zero_one=True),
        integer(value, dynamic=True, specialize_zero_one=True),
    ):
        assert said(decision) == (STATIC, reason)
        assert not decision.required
    required = size(value, marked(MarkKind.DYNAMIC), specialize_zero_one=True)
    assert (required.choice, required.required) == (STATIC, True)
    assert required.ignored == "the program says mark_dynamic"
    assert size(value, marked(MarkKind.UNBACKED), specialize_zero_one=True).choice is UNBACKED


def test_other_sizes_are_at_least_two_then():
    assert size(5, dynamic=True, specialize_zero_one=True).range == Range(2, None)
    bounded = size(5, marked(MarkKind.DYNAMIC, low=4, high=8), specialize_zero_one=True)
    assert bounded.range == Range(4, 8)
    assert size(5, marked(MarkKind.UNBACKED), specialize_zero_one=True).range == NATURAL
    assert integer(5, dynamic=True, specialize_zero_one=True).range == EVERYTHING


# -- whatever the inputs ----------------------------------------------------------------------


def test_every_decision_has_a_reason_and_its_value_in_range():
    sources = [Source(), PARAMETER, PROPERTY, *(marked(k, low=2, high=9) for k in MarkKind)]
    for value, source, seen, dynamic, zero_one in product(
        (0, 1, 2, 5, 20), sources, (None, SEEN, of_sizes((5,))), (None, True, False), (True, False)
    ):
        decision = size(value, source, seen=seen, dynamic=dynamic, specialize_zero_one=zero_one)
        assert decision.reason
        assert decision.choice is STATIC or decision.range.contains(value)


@pytest.mark.parametrize("given", ["dynamic", True, Choice.DYNAMIC])
def test_a_rule_that_gives_something_else(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_mine(question: decide.Question) -> Any:
        return given

    monkeypatch.setattr(decide, "SIZE_RULES", (of_mine, *decide.SIZE_RULES))
    with pytest.raises(TypeError, match=r"of_mine.* not a Decision or None"):
        decide_sizes("L['x']", (3,), Source(), Evidence(), settings(), None)
