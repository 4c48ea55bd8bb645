"""The profile in a process: read once, written in the background, and never in the way."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from anyshape.config import config
from anyshape.policy.observations import of_int, of_sizes
from anyshape.profile import store
from anyshape.profile.identity import Identity
from anyshape.profile.records import NOTHING
from anyshape.profile.session import FunctionProfile, Session
from tests.profile.samples import python

F = Identity("f#1", "f", "model.py", 2)


def test_this_run_is_what_the_next_knows(tmp_path: Path):
    first, second = Session(), Session()
    with config.patch(cache_dir=tmp_path):
        assert first.known(F.key) is NOTHING
        first.learn(F, {"L['x']": of_sizes((10,), (1,)), "L['n']": of_int(1)}, frozenset())
        first.learn(F, {"L['x']": of_sizes((20,), (1,))}, frozenset({"L['self'].n"}))
        assert first.finish()
        assert first.known(F.key) is NOTHING, "a run knows the same from its start to its end"
        known = second.known(F.key)
        assert str(known.seen("L['x']")) == "tensor size=[?] stride=[1]"
        assert known.seen("L['n']") == of_int(1)
        assert known.written == {"L['self'].n"}
        first.start_again()
        assert first.known(F.key) == known


def test_without_a_word_it_is_written_after_a_while(tmp_path: Path):
    session, written = Session(), threading.Event()
    with config.patch(cache_dir=tmp_path):
        session.learn(F, {"L['x']": of_sizes((10,))}, frozenset())
        for _ in range(100):
            if store.file_in(str(tmp_path)).exists():
                break
            written.wait(0.1)
        assert set(store.read(store.file_in(str(tmp_path)))) == {"f#1"}


def test_threads_lose_nothing(tmp_path: Path):
    session = Session()

    def learn(number: int) -> None:
        for i in range(50):
            session.learn(F, {f"L['x{number}_{i}']": of_int(i)}, frozenset())

    with config.patch(cache_dir=tmp_path):
        threads = [threading.Thread(target=learn, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            session.finish()
            thread.join()
        assert session.finish()
    assert len(store.read(store.file_in(str(tmp_path)))["f#1"].sources) == 200


def test_a_place_that_cannot_be_written_is_said_once(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    session = Session()
    with config.patch(cache_dir=blocked / "cache"):
        session.learn(F, {"L['x']": of_int(1)}, frozenset())
        with pytest.warns(UserWarning, match=r"cannot be written: .* config\.profile to False"):
            assert session.finish()
        session.learn(F, {"L['x']": of_int(1)}, frozenset())
        assert session.finish()


def test_nothing_happens_when_it_is_off(tmp_path: Path):
    def identify() -> Identity:
        raise AssertionError("not asked for")

    share = FunctionProfile(identify)
    with config.patch(profile=False, cache_dir=tmp_path):
        assert share.known() is NOTHING
        share.learn({"L['x']": of_int(1)}, frozenset())
    assert not list(tmp_path.iterdir())


def test_a_mistake_of_ours_stops_no_compile(tmp_path: Path):
    def identify() -> Identity:
        raise AssertionError("a mistake")

    share = FunctionProfile(identify)
    with config.patch(profile=True, cache_dir=tmp_path):
        assert share.known() is NOTHING
        share.learn({"L['x']": of_int(1)}, frozenset())


ENDINGS = {
    "the end": "",
    "sys.exit": "import sys; sys.exit(0)",
    "an error": "raise SystemExit(1)",
    "a forked process": (
        "import multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=learn, args=('child',))\n"
        "child.start(); child.join()"
    ),
    "at exit": "import atexit; atexit.register(learn, 'late')",
}
PROGRAM = """
from anyshape.policy.observations import of_int
from anyshape.profile.identity import Identity
from anyshape.profile.session import session

def learn(name):
    session.learn(Identity(name, name, "", 1), {"L['n']": of_int(1)}, frozenset())

learn("parent")
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_it_is_on_disk_when_the_program_is_over(tmp_path: Path, ending: str):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + ENDINGS[ending])
    python(script, tmp_path / "cache", check=ending != "an error")
    found = store.read(store.file_in(str(tmp_path / "cache")))
    also = {"a forked process": {"child"}, "at exit": {"late"}}.get(ending, set())
    assert set(found) == {"parent", *also}
    # A child has a copy of its parent's memory, and must not tell it again.
    assert all(record.sources["L['n']"].counts == {-1: {1: 1}} for record in found.values())
