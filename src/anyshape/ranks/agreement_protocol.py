"""The protocol: how ranks that compile the same function come to the same knowledge.

The compiles of a function are numbered rounds. In the store, below the name of the function:

    seen/R      all that rank R has seen of it, up to now
    K/R         rank R has come to round K
    K/count     how many have
    K/result    what came out of round K; written once, by whoever is first

A rank writes `seen/R` and `K/R`, then waits until there is a result, until all expected ranks have
come, or until it has lost patience with those that have not. In the latter two cases it merges what
everybody has seen and offers that as the result. The first offer counts, for all (`compare_set`),
hence the same evidence on each rank of the round, whoever came when.

Who is expected:

- in the first round everybody;
- then those who came to the last round; and for a moment only those who were waited for there in
  vain, or came to it after its end: they may have come for this round, and have found the last one.
- A rank that was missing is waited for half as long the next time, in any function, until it comes.
  So one that died costs twice the limit at most, in the whole life of the program.

A rank that comes after the end of a round takes its result, unless somebody is in the next round by
then, or comes to it within a moment: then it goes there. So a rank that did not compile once, since
an entry of its own served the call, is among the others again at their next compile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from anyshape.policy.observations import Observation, Observations, OtherRanks
from anyshape.ranks import wire
from anyshape.support.lazy_dataclass import dataclass, field, replace

#: In seconds: more than ranks are apart that compile at the same step of a program.
_MOMENT: Final = 0.5
_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.05
#: How often somebody who waits looks himself whether all have come. Who comes last does it at once;
#: but it may die of that.
_LOOKS: Final = 0.5


class Store(Protocol):
    """The part of `torch.distributed.Store` that is used. None of it waits for another rank:
    `get` is only asked for what is there."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...
    def check(self, keys: list[str], /) -> bool: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What came out of a round."""

    round: int
    ranks: OtherRanks
    #: who came in time
    came: tuple[int, ...]
    #: who was waited for in vain
    missing: tuple[int, ...]
    #: how long this rank has waited
    seconds: float = 0.0


@dataclass(slots=True)
class Patience:
    """How long each rank is waited for; one for all functions of the process."""

    _misses: dict[int, int] = field(default_factory=dict[int, int])

    def of(self, rank: int, limit: float) -> float:
        return limit / 2.0 ** min(self._misses.get(rank, 0), 30)

    def learn(self, result: Result) -> None:
        for rank in result.came:
            self._misses.pop(rank, None)
        for rank in result.missing:
            self._misses[rank] = self._misses.get(rank, 0) + 1


@dataclass(frozen=True, slots=True)
class _Expected:
    """Who is waited for in a round, and how long."""

    surely: Mapping[int, float]
    #: was missing in the last round, or came late to it
    perhaps: Mapping[int, float] = field(default_factory=dict[int, float])

    def after(self, waited: float) -> list[int]:
        """Who is still waited for then."""
        both = (*self.surely.items(), *self.perhaps.items())
        return [rank for rank, seconds in both if seconds > waited]


@dataclass(slots=True)
class AgreementProtocol:
    """The rounds of one function, as one rank goes through them."""

    store: Store
    #: of the function, in the store
    name: str
    rank: int
    world: int
    patience: Patience
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    #: the next one for this rank
    _round: int = 0

    def agree(self, seen: Mapping[str, Observation], limit: float) -> Result:
        self.store.set(self._key(f"seen/{self.rank}"), wire.dumps(wire.as_json(seen)))
        started = self.clock()
        last = self._catch_up()
        if last is not None and not self._opens(min(limit, _MOMENT)):
            return replace(last, seconds=self.clock() - started)
        number = self._round
        count = self._come_to(number)
        result = self._wait(number, self._expected(limit), count)
        self._round = number + 1
        self.patience.learn(result)
        return replace(result, seconds=self.clock() - started)

    # -- rounds ------------------------------------------------------------------------------------

    def _catch_up(self) -> Result | None:
        """Go past the rounds that are over; the result of the last of them."""
        last = None
        while self._has(f"{self._round}/result"):
            self._come_to(self._round)
            last = self._round
            self._round += 1
        return None if last is None else self._result(last)

    def _opens(self, seconds: float) -> bool:
        """Whether somebody comes to the next round in this time."""
        started, pause = self.clock(), _FIRST_PAUSE
        while not (found := self._has(f"{self._round}/count")):
            if self.clock() - started >= seconds:
                break
            self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return found

    def _come_to(self, number: int) -> int:
        """How many have come, this rank among them."""
        self.store.set(self._key(f"{number}/{self.rank}"), "")
        return self.store.add(self._key(f"{number}/count"), 1)

    def _expected(self, limit: float) -> _Expected:
        patience = {rank: self.patience.of(rank, limit) for rank in range(self.world)}
        last = self._round - 1
        if last < 0 or not self._has(f"{last}/result"):
            return _Expected(patience)
        before = self._result(last)
        others = [rank for rank in patience if rank not in before.came]
        return _Expected(
            {rank: patience[rank] for rank in before.came},
            {
                rank: min(patience[rank], _MOMENT)
                for rank in others
                if rank in before.missing or self._has(f"{last}/{rank}")
            },
        )

    def _wait(self, number: int, expected: _Expected, count: int) -> Result:
        started, pause = self.clock(), _FIRST_PAUSE
        # To ask for everybody is costly where many ranks do: only who may be the last does at once.
        look_at = 0.0 if count >= len(expected.surely) else _LOOKS
        before = len(expected.after(0.0))
        while not self._has(f"{number}/result"):
            waited = self.clock() - started
            wanted = expected.after(waited)
            if not wanted:
                return self._offer(number, expected)
            if waited >= look_at or len(wanted) < before:
                if self._has(*(f"{number}/{rank}" for rank in wanted)):
                    return self._offer(number, expected)
                look_at, before = waited + _LOOKS, len(wanted)
            self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return self._result(number)

    def _offer(self, number: int, expected: _Expected) -> Result:
        came = self._those_with(f"{number}/")
        missing = [rank for rank in expected.surely if rank not in came]
        ranks = together(self._seen_by(self._those_with("seen/")))
        offer: dict[str, Any] = {
            "came": came,
            "missing": missing,
            "seen": wire.as_json(ranks.seen),
            "told": dict(ranks.told),
        }
        key = self._key(f"{number}/result")
        return _parse(number, self.store.compare_set(key, "", wire.dumps(offer)))

    # -- the store ---------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return f"{self.name}/{name}"

    def _has(self, *names: str) -> bool:
        return self.store.check([self._key(name) for name in names])

    def _result(self, number: int) -> Result:
        return _parse(number, self.store.get(self._key(f"{number}/result")))

    def _those_with(self, prefix: str) -> list[int]:
        """The ranks that have written a key."""
        names = [f"{prefix}{rank}" for rank in range(self.world)]
        # Mostly all have, and many ranks are many questions.
        everybody = self._has(*names)
        return [rank for rank, name in enumerate(names) if everybody or self._has(name)]

    def _seen_by(self, ranks: list[int]) -> dict[int, dict[str, Observation]]:
        texts = self.store.multi_get([self._key(f"seen/{rank}") for rank in ranks])
        return {rank: _seen(text) for rank, text in zip(ranks, texts, strict=True)}


def _seen(text: bytes) -> dict[str, Observation]:
    try:
        return wire.from_json(wire.loads(text))
    except wire.Damaged:
        return {}


def _parse(number: int, text: bytes) -> Result:
    value = wire.loads(text)
    try:
        ranks = OtherRanks(wire.from_json(value["seen"]), dict(value["told"]))
        return Result(number, ranks, tuple(value["came"]), tuple(value["missing"]))
    except (KeyError, TypeError) as error:
        raise wire.Damaged(f"no result of a round: {error!r}") from error


def together(by_rank: Mapping[int, Mapping[str, Observation]]) -> OtherRanks:
    """What all have seen, and for each source that two of them saw differently, who those are."""
    seen = Observations()
    first: dict[str, tuple[int, Observation]] = {}
    told: dict[str, str] = {}
    for rank, sources in sorted(by_rank.items()):
        seen.add_all(sources)
        for source, observation in sources.items():
            at, before = first.setdefault(source, (rank, observation))
            if before != observation and source not in told:
                told[source] = f"rank {at}: {before}, rank {rank}: {observation}"
    return OtherRanks(seen, told)
