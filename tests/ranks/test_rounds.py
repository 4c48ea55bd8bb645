"""The protocol, with a thread for each rank, on stores of torch."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore, TCPStore

from anyshape.policy.observations import MANY, Observation, of_int, of_sizes
from anyshape.ranks.agreement_protocol import AgreementProtocol, Patience, Result, together

X = "L['x']"
#: Longer than any machine takes when nobody is missing, and what a test waits in vain.
LONG, SHORT = 60.0, 0.4


def sizes(*numbers: int) -> dict[str, Observation]:
    return {X: of_sizes(numbers)}


def members(world: int, make: Callable[[], Any], name: str = "f") -> list[AgreementProtocol]:
    return [AgreementProtocol(make(), name, rank, world, Patience()) for rank in range(world)]


@pytest.fixture(params=["hash", "tcp"])
def make_store(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    if request.param == "hash":
        store = HashStore()
        yield lambda: store
        return
    server: Any = TCPStore(
        "127.0.0.1", 0, None, True, timeout=timedelta(seconds=30), wait_for_workers=False
    )
    yield lambda: server.clone()


def at_once(*work: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(each) for each in work]]


def has_come(store: Any, number: int, who: AgreementProtocol) -> None:
    """Wait until a rank has come to a round."""
    store.wait([f"f/{number}/{who.rank}"], timedelta(seconds=LONG))


def test_all_come(make_store: Callable[[], Any]):
    ranks = members(4, make_store)
    results = at_once(*(lambda r=r: r.agree(sizes(8 + r.rank, 4), LONG) for r in ranks))
    assert {str(result.ranks.seen) for result in results} == {str(results[0].ranks.seen)}
    for result in results:
        assert result.ranks.seen[X] == Observation(sizes=(MANY, 4))
        assert result.came == (0, 1, 2, 3)
        assert result.missing == ()
    [told] = {result.ranks.told[X] for result in results}
    assert told == "rank 0: tensor size=[8, 4], rank 1: tensor size=[9, 4]"


def test_one_does_not_come(make_store: Callable[[], Any]):
    ranks = members(3, make_store)
    started = time.monotonic()
    results = at_once(*(lambda r=r: r.agree(sizes(8), SHORT) for r in ranks[:2]))
    assert SHORT <= time.monotonic() - started < SHORT + 5
    assert {result.missing for result in results} == {(2,)}
    # The next compile of the function waits a moment for it, one of another function less long.
    results = at_once(*(lambda r=r: r.agree(sizes(9), LONG) for r in ranks[:2]))
    assert {(result.round, result.came, result.missing) for result in results} == {(1, (0, 1), ())}
    assert ranks[0].patience.of(2, LONG) == LONG / 2
    assert ranks[0].patience.of(1, LONG) == LONG


def test_who_comes_late_does_not_wait_and_gets_the_same():
    store = HashStore()
    first, late = members(2, lambda: store)
    before = first.agree(sizes(8, 4), SHORT)
    after = late.agree(sizes(9, 4), LONG)
    assert after.ranks.seen == before.ranks.seen == {X: of_sizes((8, 4))}
    assert after.seconds < 10, "a moment, not the limit"
    # What it brought is known from then on, and it is expected again.
    results = at_once(
        lambda: first.agree(sizes(8, 4), LONG),
        lambda: (has_come(store, 1, first), late.agree(sizes(9, 4), LONG))[1],
    )
    assert [result.came for result in results] == [(0, 1), (0, 1)]
    assert results[0].ranks.seen[X] == results[1].ranks.seen[X] == Observation(sizes=(MANY, 4))


def test_who_was_late_is_waited_for_a_moment_only():
    store = HashStore()
    first, late = members(2, lambda: store)
    first.agree(sizes(8), SHORT)
    late.agree(sizes(9), LONG)
    started = time.monotonic()
    result = first.agree(sizes(8), LONG)
    assert time.monotonic() - started < 10
    assert (result.came, result.missing) == ((0,), ())
    assert result.ranks.seen[X] == Observation(sizes=(MANY,))


def test_who_compiles_more_often_waits_once():
    store = HashStore()
    busy, idle = members(2, lambda: store)
    at_once(lambda: busy.agree(sizes(8), LONG), lambda: idle.agree(sizes(8), LONG))
    assert busy.agree(sizes(9), SHORT).missing == (1,)
    started = time.monotonic()
    for size in range(10, 20):
        assert busy.agree(sizes(size), LONG).missing == ()
    assert time.monotonic() - started < 10
    # The other one catches up without waiting, with all of it, and then they meet again.
    result = idle.agree(sizes(8), LONG)
    assert (result.round, result.ranks.seen[X]) == (11, Observation(sizes=(MANY,)))
    results = at_once(lambda: idle.agree(sizes(8), LONG), lambda: busy.agree(sizes(8), LONG))
    assert {(each.round, each.came) for each in results} == {(12, (0, 1))}


def test_who_has_missed_a_round_is_among_the_others_in_the_next():
    """Whoever of them is the first."""
    for first in range(3):
        store = HashStore()
        ranks = members(3, lambda store=store: store)
        at_once(*(lambda r=r: r.agree(sizes(8), LONG) for r in ranks))
        at_once(*(lambda r=r: r.agree(sizes(9), SHORT) for r in ranks[:2]))

        def come(rounds: AgreementProtocol, first: int = first, ranks: Any = ranks) -> Result:
            if rounds.rank != first:
                # Who has missed a round goes past it, and looks whether somebody opens another.
                has_come(rounds.store, 1 if first == 2 else 2, ranks[first])
            return rounds.agree(sizes(8, rounds.rank), LONG)

        results = at_once(*(lambda r=r: come(r) for r in ranks))
        assert {(result.round, result.came) for result in results} == {(2, (0, 1, 2))}


def test_a_dead_rank_costs_twice_the_limit_in_all():
    store, patience = HashStore(), Patience()
    started = time.monotonic()
    for number in range(12):
        result = AgreementProtocol(store, f"f{number}", 0, 2, patience).agree(sizes(8), SHORT)
        assert result.missing == (1,)
    assert time.monotonic() - started < 2 * SHORT + 5
    patience.learn(Result(0, together({}), (0, 1), ()))
    assert patience.of(1, LONG) == LONG


DIFFERENT = [
    ("missing source", {X: of_sizes((8,))}, {}, Observation(sizes=(8,))),
    ("another rank", sizes(8), sizes(8, 4), Observation(sizes=MANY)),
    ("another type", sizes(8), {X: of_int(8)}, Observation(MANY, MANY)),
    ("the same", sizes(8), sizes(8), of_sizes((8,))),
    ("many", {X: Observation(sizes=(MANY, 2))}, sizes(4, 2), Observation(sizes=(MANY, 2))),
]


@pytest.mark.parametrize(("name", "a", "b", "both"), DIFFERENT)
def test_what_ranks_have_differs(name: str, a: Any, b: Any, both: Observation):
    store = HashStore()
    one, other = members(2, lambda: store)
    results = at_once(lambda: one.agree(a, LONG), lambda: other.agree(b, LONG))
    assert [result.ranks.seen[X] for result in results] == [both, both], name


def test_a_damaged_rank_counts_as_one_that_has_seen_nothing():
    store = HashStore()
    one, other = members(2, lambda: store)
    store.set("f/seen/1", "{")
    assert one.agree(sizes(8), SHORT).ranks.seen == sizes(8)
    assert other.agree(sizes(8), SHORT).ranks.seen == sizes(8)


def test_functions_do_not_meet():
    store = HashStore()
    f, g = (
        AgreementProtocol(store, "f", 0, 2, Patience()),
        AgreementProtocol(store, "g", 1, 2, Patience()),
    )
    results = at_once(lambda: f.agree(sizes(8), SHORT), lambda: g.agree(sizes(9), SHORT))
    assert [result.missing for result in results] == [(1,), (0,)]


@pytest.mark.parametrize("seed", range(8))
def test_results_of_a_round_are_the_same_whatever_the_order(seed: int):
    """Ranks come when they like, some not at all, with little patience."""
    chance, store, world = random.Random(seed), HashStore(), 4
    plans = [
        [(chance.random() * 0.03, chance.choice([4, 8])) for _ in range(chance.randint(2, 6))]
        for _ in range(world)
    ]
    by_round: dict[int, set[str]] = {}

    def go(rounds: AgreementProtocol) -> None:
        for pause, size in plans[rounds.rank]:
            time.sleep(pause)
            result = rounds.agree(sizes(size, rounds.rank), 0.02)
            by_round.setdefault(result.round, set()).add(str((result.ranks, result.came)))

    started = time.monotonic()
    at_once(*(lambda r=r: go(r) for r in members(world, lambda: store)))
    assert time.monotonic() - started < 10
    assert all(len(results) == 1 for results in by_round.values())


def test_who_differs_is_told_once_for_each_source():
    by_rank = {2: sizes(8) | {"n": of_int(1)}, 0: sizes(8), 1: sizes(9) | {"n": of_int(1)}}
    ranks = together(by_rank)
    assert ranks.told == {X: "rank 0: tensor size=[8], rank 1: tensor size=[9]"}
    assert ranks.seen["n"] == of_int(1)
