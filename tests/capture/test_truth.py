"""Every tree of `and`, `or`, `not` and `if`: rewritten code gives the operand that Python gives,
and asks the same operands in the same order, whatever they answer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.capture.observed import under_hooks
from tests.capture.test_rewrite import compiled

_NAMES = "abcdef"


class Asked:
    """An operand that writes down when it is asked for its truth."""

    def __init__(self, name: str, answer: bool, log: list[str]) -> None:
        self.name, self.answer, self.log = name, answer, log

    def __bool__(self) -> bool:
        # One that is asked twice in a row is asked once: versions of Python differ in that.
        if self.log[-1:] != [self.name]:
            self.log.append(self.name)
        return self.answer


def _trees(first: int, leaves: int) -> Iterator[str]:
    """All trees of `and` and `or` over so many operands."""
    if leaves == 1:
        yield _NAMES[first]
        return
    for left in range(1, leaves):
        for one, other in itertools.product(
            _trees(first, left), _trees(first + left, leaves - left)
        ):
            yield f"({one} and {other})"
            yield f"({one} or {other})"


def _mixed(made: random.Random, depth: int) -> str:
    """A tree with every kind of node that tests."""
    if depth == 0:
        return made.choice(_NAMES[:4])
    parts = [_mixed(made, made.randrange(depth)) for _ in range(3)]
    form = made.choice(
        [
            *("({0} and {1})", "({0} or {1})", "({0} and {1} or {2})", "({0} or {1} and {2})"),
            *("(not {0})", "({0} if {1} else {2})", "(n := {0})", "({0} is {1})"),
        ]
    )
    return form.format(*parts)


def _check(tree: str, leaves: str) -> None:
    for form in ("return {}", "if {}: return 1", "while {}: return 2", "assert {}"):
        function = compiled(f"def f({', '.join(leaves)}):\n    {form.format(tree)}\n")
        hooked = under_hooks(function)
        for answers in itertools.product((False, True), repeat=len(leaves)):
            assert _done(hooked, leaves, answers) == _done(function, leaves, answers), (
                f"{form.format(tree)} for {answers}"
            )


def _done(function: Any, leaves: str, answers: tuple[bool, ...]) -> tuple[Any, list[str]]:
    log: list[str] = []
    given = [Asked(name, answer, log) for name, answer in zip(leaves, answers, strict=True)]
    try:
        result = function(*given)
    except AssertionError:
        result = "fails"
    return (result.name if isinstance(result, Asked) else result), log


@pytest.mark.parametrize("leaves", [1, 2, 3, 4])
def test_trees_of_and_and_or(leaves: int) -> None:
    for tree in _trees(0, leaves):
        _check(tree, _NAMES[:leaves])


@pytest.mark.parametrize("seed", range(8))
def test_trees_of_all_that_tests(seed: int) -> None:
    made = random.Random(seed)
    for _ in range(40):
        _check(_mixed(made, 4), _NAMES[:4])
