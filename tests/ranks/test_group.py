"""The group of the process, and talks with its store."""

from __future__ import annotations

import time
import weakref

import pytest
from torch._C._distributed_c10d import HashStore

from anyshape.ranks.group import Current, Group, Silent, within


def group(store: HashStore, rank: int = 0) -> Group:
    return Group(rank, 2, weakref.ref(store))


def test_functions_of_one_name_are_numbered():
    store = HashStore()
    made = group(store)
    names = [made.rounds("f").name, made.rounds("g").name, made.rounds("f").name]
    assert names == ["anyshape/1/1/f#0", "anyshape/1/1/g#0", "anyshape/1/1/f#1"]


def test_groups_that_share_a_store_do_not_meet():
    store = HashStore()
    assert group(store).rounds("f").name == "anyshape/1/1/f#0"
    assert group(store, 1).rounds("f").name == "anyshape/1/1/f#0"
    assert group(store).rounds("f").name == "anyshape/1/2/f#0"


def test_a_group_does_not_keep_its_store():
    store = HashStore()
    made = group(store)
    assert made.is_of(store)
    del store
    with pytest.raises(Silent, match="is gone"):
        made.rounds("f")


def test_without_torch_distributed_there_is_no_group():
    assert Current().group() is None


def test_a_talk_gives_its_result_and_its_error():
    assert within(1, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(1, lambda: 1 // 0)


def test_a_talk_ends():
    started = time.monotonic()
    with pytest.raises(Silent, match="did not answer"):
        within(0.01, lambda: time.sleep(30))
    assert time.monotonic() - started < 10
