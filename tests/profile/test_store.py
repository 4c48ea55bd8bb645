"""The file: whole at any time, damaged ones set aside, newer ones left alone."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

import pytest

from anyshape.profile import store
from anyshape.profile.histogram import added
from anyshape.profile.profiles import Profile, TooNew
from tests.profile.samples import TWO_SIZES, profile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "profile.json"


def learn(file: Path, **records: object) -> Profile:
    return store.update(file, lambda before: before.with_records(records, added))  # pyright: ignore[reportArgumentType] records


def test_nothing_is_known_where_no_file_is(file: Path):
    assert not store.read(file)
    assert not file.parent.exists()


def test_writes_are_merged(file: Path):
    learn(file, f=TWO_SIZES)
    learn(file, g=TWO_SIZES)
    learn(file, g=TWO_SIZES)
    found = store.read(file)
    assert set(found) == {"f", "g"}
    assert found["f"] == TWO_SIZES
    assert found["g"].sources["L['n']"].counts == {-1: {3: 4}}
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{", '{"anyshape_profile": 1}', "\x00" * 100])
def test_a_damaged_file_is_set_aside(file: Path, text: str):
    learn(file, f=TWO_SIZES)
    file.write_text(text)
    with pytest.warns(UserWarning, match=r"is damaged .* renamed to profile\.damaged"):
        assert not store.read(file)
    assert not file.exists()
    assert file.with_suffix(".damaged").read_text() == text
    with warnings.catch_warnings():
        assert not store.read(file)  # said once
    learn(file, f=TWO_SIZES)
    assert store.read(file)["f"] == TWO_SIZES


def test_a_damaged_file_is_set_aside_by_a_write(file: Path):
    learn(file, f=TWO_SIZES)
    file.write_text("half of")
    with pytest.warns(UserWarning, match="is damaged"):
        learn(file, g=TWO_SIZES)
    assert set(store.read(file)) == {"g"}


def test_a_later_version_is_left_alone(file: Path):
    learn(file, f=TWO_SIZES)
    later = '{"anyshape_profile": 2}'
    file.write_text(later)
    with pytest.raises(TooNew):
        store.read(file)
    with pytest.raises(TooNew):
        learn(file, f=TWO_SIZES)
    assert file.read_text() == later


def test_what_a_killed_writer_left_is_replaced(file: Path):
    learn(file, f=TWO_SIZES)
    file.with_suffix(".new").write_text('{"anyshape_prof')
    assert store.read(file)["f"] == TWO_SIZES
    learn(file, g=TWO_SIZES)
    assert sorted(each.name for each in file.parent.iterdir()) == ["profile.json", "profile.lock"]


def test_no_change_is_no_write(file: Path):
    learn(file, f=TWO_SIZES)
    before = file.stat().st_ino
    store.update(file, lambda known: known)
    assert file.stat().st_ino == before


def test_uniting_files(file: Path):
    learn(file, f=TWO_SIZES)
    other = profile(g=TWO_SIZES)
    assert set(store.update(file, lambda known: known.united(other))) == {"f", "g"}


@pytest.mark.parametrize("step", ["write", "rename"])
def test_a_disk_that_is_full(step: str, file: Path, monkeypatch: pytest.MonkeyPatch):
    """What was known is still there, and nothing that was begun."""
    learn(file, f=TWO_SIZES)
    before, names = file.read_text(), {each.name for each in file.parent.iterdir()}

    def fails(path: Path, *_: object, **__: object) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((Path, "write_text") if step == "write" else (os, "replace")), fails)
    with pytest.raises(OSError, match="No space left"):
        learn(file, g=TWO_SIZES)
    assert file.read_text() == before
    assert {each.name for each in file.parent.iterdir()} == names
