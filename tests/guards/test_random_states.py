"""Random states: guards recorded from one, checked on another; code, interpreter and a plain
comparison of both states have to agree."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyshape.guards.minimise import minimise
from tests.guards.cases import Other, Plain
from tests.guards.recorded import recorded, same
from tests.guards.verdicts import Verdicts, X, Y, plan

NAN = float("nan")
LEAVES = st.sampled_from(
    [None, True, False, 0, 1, 2, -1, 0.0, -0.0, 1.0, NAN, "", "a", "1", b"a", 1 + 0j, ..., 10**20]
)
KEYS = st.sampled_from(["a", "b", 0, 1, True, 1.0, None])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    return st.builds(lambda kind, names: kind(**names), st.sampled_from([Plain, Other]), names)


STATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.sets(KEYS, max_size=3),
        _objects(inner),
    ),
    max_leaves=8,
)


@st.composite
def changed(draw: st.DrawFn, state: Any) -> Any:
    """The state, copied, with one place of it drawn anew, or with none."""
    choice = draw(st.integers(0, 4))
    if choice == 0 or isinstance(state, set):
        return draw(STATES)
    if isinstance(state, list | tuple) and state:
        at = draw(st.integers(0, len(state) - 1))
        return type(state)(draw(changed(v)) if i == at else v for i, v in enumerate(state))
    if isinstance(state, dict) and state:
        at = draw(st.sampled_from([*state]))
        return {k: draw(changed(v)) if k == at else v for k, v in state.items()}
    if isinstance(state, Plain):
        names = vars(state)
        at = draw(st.sampled_from("abc"))
        return type(state)(**{k: draw(changed(v)) if k == at else v for k, v in names.items()})
    return state


PAIRS = STATES.flatmap(lambda state: st.tuples(st.just(state), st.one_of(changed(state), STATES)))


@settings(max_examples=200, deadline=None)
@given(PAIRS, PAIRS)
@example(([0.0], [-0.0]), (1, 1))
@example(({1: 0}, {True: 0}), (1, 1))
def test_guards_recorded_from_one_state_on_another(x: tuple[Any, Any], y: tuple[Any, Any]):
    guards = [*recorded(X, x[0]), *recorded(Y, y[0])]
    verdicts = Verdicts(plan(minimise(guards)))
    assert verdicts.both(x[0], y[0]) is True
    assert verdicts.both(x[1], y[1]) is (same(x[0], x[1]) and same(y[0], y[1]))
