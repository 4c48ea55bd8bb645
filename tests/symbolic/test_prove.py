"""What the engine decides: one line a question. Truth is checked against Python on all small
integers."""

from __future__ import annotations

import pytest

from anyshape.symbolic import Answer, Facts, parse_fact
from tests.symbolic.small_integers import SYMBOLS, assignments, names_in, python_value

#: (question, facts that are given …); s…, t… are sizes, p… positive sizes, u… unbacked sizes,
#: others any integers
YES: list[tuple[str, ...]] = [
    # products of sizes, contiguity
    ("s*t >= 0",),
    ("s0*s1*s2 == s2*s1*s0",),
    ("s*t >= s", "t >= 1"),
    ("max(1, s)*t >= t",),
    ("max(1, s) == s", "s >= 1"),
    ("max(1, s)*max(1, t) == s*t", "s >= 1", "t >= 1"),
    ("s*t != 0", "s >= 1", "t != 0"),
    ("s*t == 0", "t == 0"),
    ("s >= 1", "s*t >= 1"),
    ("s*s >= s",),
    ("s*t <= s*t*p",),
    # views: splits and merges
    ("s0*s1*p // p == s0*s1",),
    ("(s0*s1*p) % p == 0",),
    ("s0*s1*s2 == s0*s1*4*(s2//4)", "s2 % 4 == 0"),
    ("s//8*8 == s", "s % 8 == 0"),
    ("s % 4 == 0", "s % 8 == 0"),
    ("(s//16)*(t//16)*256 == s*t", "s % 16 == 0", "t % 16 == 0"),
    ("(s*t//p)*p == s*t", "s*t % p == 0"),
    ("t//2 == s", "t == 2*s"),
    ("s % 2 == 0", "2*t == 3*s"),
    ("(s + t) // 8 * 8 == s + t", "(s + t) % 8 == 0"),
    # rounding
    ("ceildiv(s, 8)*8 >= s",),
    ("ceildiv(s, 8)*8 < s + 8",),
    ("(s + 7)//8*8 == s", "s % 8 == 0"),
    ("s % 8 == 0", "(s + 7)//8*8 == s"),
    ("(s//2)*2 <= s",),
    ("s//2 + (s + 1)//2 == s",),
    ("s//3 + (s + 1)//3 + (s + 2)//3 == s",),
    ("ceildiv(s, 8) == s//8 + 1", "s % 8 != 0"),
    ("a//3*3 + a % 3 == a",),
    ("a % 3 >= 0",),
    ("a % -3 <= 0",),
    ("a % b < b", "b >= 1"),
    ("s*(s + 1) % 2 == 0",),
    # convolutions and pools
    ("(s - 3)//2 + 1 >= 1", "s >= 3"),
    ("(s + 2*1 - 3)//1 + 1 == s",),
    ("(s - 1)//2 + 1 == (s + 1)//2",),
    ("(s0 + 2*s1 - s2 - 1)//p + 1 >= 1", "s0 + 2*s1 >= s2 + 1"),
    ("((s - 1)//2 + 1 - 1)//2 + 1 == (s + 3)//4",),
    # slices
    ("min(max(s - 3, 0), s) >= 0",),
    ("s - min(s, 3) == max(s - 3, 0)",),
    ("s - min(max(s - 3, 0), s) == min(s, 3)",),
    ("max(min(t, s) - min(k, s), 0) <= s", "k >= 0"),
    ("max(min(1, s) - min(3, s), 0) == 0",),
    ("max(s, t) + min(s, t) == s + t",),
    ("min(s, t) == s", "s <= t"),
    # chains
    ("s <= s2", "s <= s1", "s1 <= s2"),
    ("s0*s1 <= s0*s2", "s1 <= s2"),
    ("s <= 100", "s + t <= 100"),
    ("u0 <= s", "u0 == s//2"),
    ("k == 2", "k > 1", "k < 3"),
    ("(4*n + k) % 4 == k", "0 <= k", "k < 4"),
    ("s == 2", "3*s == 2*t", "t < 6", "t > 0"),
    # logic
    ("s < t or t <= s",),
    ("s >= 2 or s == 0 or s == 1",),
    ("not (s == 5 and t == 2)", "s != 5"),
    ("s == 1 or t == 1", "s == 1 or t == 1"),
    ("t == 1", "s == 1 or t == 1", "s != 1"),
    ("s == 1 and t == 1", "s*t == 1"),
    ("s*t != 1 or (s == 1 and t == 1)",),
]
NO: list[tuple[str, ...]] = [
    ("s < 0",),
    ("s == 3", "s % 2 == 0"),
    ("s*t == 1", "s >= 2"),
    ("max(s, 1) == 0",),
    ("s == t", "s < t"),
    ("s*t == 0", "s >= 1", "t >= 1"),
    ("s % 2 == 1", "s % 4 == 0"),
    ("ceildiv(s, 4)*4 < s",),
    ("s*s % 4 == 2",),
    ("s == 5 and t == 2", "t != 2"),
]
UNKNOWN: list[tuple[str, ...]] = [
    ("s == 5",),
    ("s < t",),
    ("s % 8 == 0",),
    ("s % 8 == 0", "s % 4 == 0"),
    ("s*t == t",),
    ("max(s, t) == s",),
    ("a >= 0",),
    ("u0 == 1",),
    ("a // b == 0", "b != 0"),
]


def prove(question: str, *given: str) -> Answer:
    facts = Facts()
    for text in given:
        facts = facts.assume(parse_fact(text, SYMBOLS), "given")
    return facts.prove(parse_fact(question, SYMBOLS))


def _id(case: tuple[str, ...]) -> str:
    return case[0] + (" given " + ", ".join(case[1:]) if case[1:] else "")


@pytest.mark.parametrize("case", YES, ids=_id)
def test_yes(case):
    assert prove(*case) is Answer.YES


@pytest.mark.parametrize("case", NO, ids=_id)
def test_no(case):
    assert prove(*case) is Answer.NO


@pytest.mark.parametrize("case", UNKNOWN, ids=_id)
def test_unknown(case):
    assert prove(*case) is Answer.UNKNOWN


@pytest.mark.parametrize("case", [*YES, *NO, *UNKNOWN], ids=_id)
def test_python_agrees(case):
    answer = prove(*case)
    names = sorted({name for text in case for name in names_in(text)})
    seen: set[bool] = set()
    for values in assignments(names, most=4000):
        if all(python_value(text, values) for text in case[1:]):
            said = python_value(case[0], values)
            if said is not None:
                seen.add(bool(said))
    expected = {Answer.YES: {True}, Answer.NO: {False}, Answer.UNKNOWN: {True, False}}
    assert seen == expected[answer]
