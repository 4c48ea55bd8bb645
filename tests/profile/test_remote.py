"""The shared profile: any URL, merged both ways, within a time limit."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest

from anyshape.config import config
from anyshape.policy.observations import of_sizes
from anyshape.profile import remote, store
from anyshape.profile.identity import Identity
from anyshape.profile.profiles import Profile
from anyshape.profile.session import Session
from tests.profile.samples import TWO_SIZES, profile

F = Identity("f#1", "f", "model.py", 2)


def urls(tmp_path: Path) -> list[str]:
    name = uuid.uuid4().hex
    return [
        f"memory://{name}/profile.json",
        f"memory://{name}/folder",
        f"file://{tmp_path}/shared",
        f"local://{tmp_path}/shared/other.json",
    ]


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("s3://bucket", "s3://bucket/profile.json"),
        ("s3://bucket/team/", "s3://bucket/team/profile.json"),
        ("s3://bucket/mine.json", "s3://bucket/mine.json"),
        ("memory://", "memory://profile.json"),
    ],
)
def test_a_url_without_json_names_a_folder(url: str, file: str):
    assert remote.file_at(url) == file


def test_what_is_sent_is_merged(tmp_path: Path):
    for url in urls(tmp_path):
        assert not remote.fetch(url)
        remote.send(url, profile(f=TWO_SIZES))
        remote.send(url, profile(g=TWO_SIZES))
        remote.send(url, profile(g=TWO_SIZES))
        assert dict(remote.fetch(url)) == {"f": TWO_SIZES, "g": TWO_SIZES}, url


def test_half_a_file_is_nothing_and_is_written_over():
    url = f"memory://{uuid.uuid4().hex}/profile.json"
    with fsspec.open(url, "w") as file:
        file.write('{"anyshape_pro')  # pyright: ignore[reportAttributeAccessIssue] a file
    assert not remote.fetch(url)
    remote.send(url, profile(f=TWO_SIZES))
    assert set(remote.fetch(url)) == {"f"}


def test_machines_learn_from_each_other(tmp_path: Path):
    for i, url in enumerate(urls(tmp_path)):
        here, there = Session(), Session()
        with config.patch(profile_url=url, cache_dir=tmp_path / f"here{i}"):
            here.learn(F, {"L['x']": of_sizes((10,))}, frozenset())
            here.learn(F, {"L['x']": of_sizes((20,))}, frozenset())
            assert here.finish()
        with config.patch(profile_url=url, cache_dir=tmp_path / f"there{i}"):
            assert str(there.known("f#1").seen("L['x']")) == "tensor size=[?]"
            there.learn(F, {"L['x']": of_sizes((30,))}, frozenset())
            assert there.finish()
            own = store.read(store.file_in(config.cache_dir))
            # What others have seen is theirs to tell, so that nothing is counted twice.
            assert own["f#1"].typical("L['x'].size()[0]") == (30,)
        assert remote.fetch(url)["f#1"].typical("L['x'].size()[0]") == (10, 20, 30)


def test_a_url_that_hangs_costs_the_limit_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    over = threading.Event()

    def hang(*_: Any) -> Profile:
        over.wait(30)
        return Profile()

    monkeypatch.setattr(remote, "fetch", hang)
    session = Session(read_limit=0.1)
    started = time.perf_counter()
    with config.patch(profile_url="memory://hangs", cache_dir=tmp_path):
        with pytest.warns(UserWarning, match=r"memory://hangs is not used: TimeoutError"):
            session.known("f#1")
        session.known("f#1")  # not asked again
        session.learn(F, {"L['x']": of_sizes((10,))}, frozenset())
        assert not session.finish(limit=0.5)
        assert time.perf_counter() - started < 5
        over.set()
    # What is on this machine's disk does not wait for it.
    assert set(store.read(store.file_in(str(tmp_path)))) == {"f#1"}


@pytest.mark.parametrize("url", ["nosuchprotocol://x", "http://[bad"])
@pytest.mark.filterwarnings("ignore:anyshape. the profile at")
def test_a_url_that_cannot_be_opened_stops_nothing(tmp_path: Path, url: str):
    session = Session()
    with config.patch(profile_url=url, cache_dir=tmp_path):
        session.known("f#1")
        session.learn(F, {"L['x']": of_sizes((10,))}, frozenset())
        assert session.finish()
    assert set(store.read(store.file_in(str(tmp_path)))) == {"f#1"}
