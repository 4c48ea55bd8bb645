"""Compiles of this process as rank 0, with other ranks played by threads."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import HashStore

import anyshape
from anyshape.events import CompilerCollective, Event, stream
from anyshape.policy.observations import MANY, Observation, of_int, of_sizes
from anyshape.ranks import agree
from anyshape.ranks.agreement_protocol import AgreementProtocol, Patience
from anyshape.ranks.group import Current, Group

HERE = __file__.rpartition("/")[2]


class OurGroup(Current):
    """As `Current`, without a process group of torch."""

    def __init__(self, store: Any, world: int) -> None:
        self.store = store  # held, as torch holds its own
        self.made = Group(0, world, weakref.ref(store))

    def group(self) -> Group | None:
        return self.made


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with anyshape.config.patch(
        enable_compiler_collectives=True, collective_timeout_seconds=20.0, profile=False
    ):
        yield
    anyshape.reset()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def make(store: Any = None, world: int = 2) -> Any:
        store = store or HashStore()
        monkeypatch.setattr(agree, "current", OurGroup(store, world))
        return store

    return make


def peer(store: Any, function: Any, seen: dict[str, Observation]) -> threading.Thread:
    """Rank 1, which has seen this, comes to compile the function."""
    code = function.__code__
    name = f"anyshape/1/1/{HERE}:{code.co_firstlineno}:{function.__qualname__}#0"
    rounds = AgreementProtocol(store, name, 1, 2, Patience())
    thread = threading.Thread(target=lambda: rounds.agree(seen, 20.0))
    thread.start()
    return thread


def double(x, n=2):
    return x * 2 + n


def dynamic(compiled: Any) -> list[set[str]]:
    return [{each.source for each in entry.dynamic} for entry in compiled.explain().entries]


def test_what_another_rank_has_seen_is_dynamic_in_the_first_compile(group: Any):
    other = peer(group(), double, {"L['x']": of_sizes((16, 4)), "L['n']": of_int(3)})
    compiled = anyshape.compile(double)
    compiled(torch.ones(8, 4))
    other.join()
    assert dynamic(compiled) == [{"L['x'].size()[0]", "L['n']"}]
    [x, n] = sorted(compiled.explain().entries[0].dynamic, key=lambda each: each.source)[::-1]
    assert x.reason == (
        "the other ranks have it in different forms"
        " (rank 0: tensor size=[8, 4], rank 1: tensor size=[16, 4])"
    )
    assert n.reason.endswith("(rank 0: scalar 2, rank 1: scalar 3)")
    stand = {each.source: each for each in compiled.explain().entries[0].sizes}
    assert {stand[x.source].by, stand[n.source].by} == {"rank 0 and rank 1"}
    assert stand[x.source].change.endswith("or config.enable_compiler_collectives = False")
    assert stand["L['x'].size()[1]"].by == "the default"
    assert torch.equal(compiled(torch.ones(5, 4), 7), torch.full((5, 4), 9.0))
    assert len(compiled.entries) == 1


OTHERS: list[tuple[str, dict[str, Observation], set[str]]] = [
    ("the same", {"L['x']": of_sizes((8, 4))}, set()),
    ("source missing", {"L['y']": of_sizes((9,))}, set()),
    ("another rank", {"L['x']": of_sizes((8, 4, 2))}, {"L['x'].size()[0]", "L['x'].size()[1]"}),
    ("another type", {"L['x']": of_int(8)}, {"L['x'].size()[0]", "L['x'].size()[1]"}),
    ("seen before", {"L['x']": Observation(sizes=(8, MANY))}, {"L['x'].size()[1]"}),
]


@pytest.mark.parametrize(("name", "seen", "expected"), OTHERS)
def test_what_the_other_has(group: Any, name: str, seen: Any, expected: set[str]):
    other = peer(group(), double, seen)
    compiled = anyshape.compile(double)
    assert torch.equal(compiled(torch.ones(8, 4)), torch.full((8, 4), 4.0))
    other.join()
    assert dynamic(compiled) == [expected], name


def test_marks_and_settings_stand_above_the_ranks(group: Any):
    other = peer(group(), double, {"L['x']": of_sizes((16, 5))})
    compiled = anyshape.compile(double)
    x = torch.ones(8, 4)
    anyshape.mark_static(x, 0)
    compiled(x)
    other.join()
    assert dynamic(compiled) == [{"L['x'].size()[1]"}]


def test_a_missing_rank_is_named_once(group: Any):
    group(world=3)
    compiled = anyshape.compile(double)
    with anyshape.config.patch(collective_timeout_seconds=0.3):
        with pytest.warns(UserWarning, match="ranks 1, 2 did not come to compile double") as found:
            compiled(torch.ones(8, 4))
        assert found[0].filename == __file__
        with warnings.catch_warnings(action="error"):
            compiled(torch.ones(9, 4))
    assert dynamic(compiled) == [set(), {"L['x'].size()[0]"}]


def test_modules_and_what_they_hold(group: Any):
    """What is found on a module is known to others from the second compile on; parameters are
    static anyway, and stay at home."""
    store = group()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("table", torch.ones(4))

        def forward(self, x):
            return self.linear(x) + self.table

    compiled = anyshape.compile(Net())
    x = torch.ones(8, 4)
    with anyshape.config.patch(collective_timeout_seconds=0.2):
        with pytest.warns(UserWarning, match="rank 1"):
            compiled(x)
        compiled(torch.ones(9, 4))
    line = Net.forward.__code__.co_firstlineno
    told = store.get(f"anyshape/1/1/{HERE}:{line}:Net#0/seen/0").decode()
    assert "table" in told
    assert "weight" not in told


class Failing(HashStore):
    """A store whose machine is gone."""

    asked = 0

    def clone(self) -> Any:
        return self

    def add(self, key: str, value: int) -> int:
        return 1

    def set(self, key: str, value: str) -> None:
        self.asked += 1
        self.fail()

    def fail(self) -> None:
        raise RuntimeError("connection reset")


class Hanging(Failing):
    """A store whose machine does not answer."""

    def fail(self) -> None:
        time.sleep(60)


@pytest.mark.parametrize(
    ("kind", "why"), [(Failing, "connection reset"), (Hanging, "did not answer")]
)
def test_a_store_that_does_not_work_is_left(group: Any, kind: Any, why: str):
    store = group(kind())
    compiled = anyshape.compile(double)
    started = time.monotonic()
    with anyshape.config.patch(collective_timeout_seconds=0.2):
        with pytest.warns(UserWarning, match=f"rank 0 cannot reach the store .*{why}"):
            compiled(torch.ones(8, 4))
        with warnings.catch_warnings(action="error"):
            compiled(torch.ones(9, 4))
    assert time.monotonic() - started < 10
    assert store.asked == 1
    assert len(compiled.entries) == 2


SILENT = [
    ({"enable_compiler_collectives": False}, {}),
    ({"automatic_dynamic": False}, {}),
    ({}, {"dynamic": True}),
    ({}, {"dynamic": False}),
]


@pytest.mark.parametrize(("changes", "options"), SILENT)
def test_nobody_is_asked_where_nobody_would_listen(group: Any, changes: Any, options: Any):
    store = group(Failing())
    with anyshape.config.patch(**changes):
        anyshape.compile(double, **options)(torch.ones(8, 4))
    assert store.asked == 0


def test_without_a_process_group_nothing_happens():
    compiled = anyshape.compile(double)
    compiled(torch.ones(8, 4))
    assert dynamic(compiled) == [set()]


def test_the_event(group: Any):
    events: list[Event] = []
    other = peer(group(), double, {"L['x']": of_sizes((16, 4))})
    unsubscribe = stream.subscribe(events.append, [CompilerCollective])
    try:
        anyshape.compile(double)(torch.ones(8, 4))
    finally:
        unsubscribe()
    other.join()
    [event] = events
    assert isinstance(event, CompilerCollective)
    assert (event.function, event.round, event.ranks, event.missing) == ("double", 0, (0, 1), ())
    assert list(event.differing) == ["L['x']"]
