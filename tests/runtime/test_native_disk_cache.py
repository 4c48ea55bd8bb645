"""What is kept on disk: private, whole, bounded, shared by processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anyshape.runtime.loader.disk_cache import DiskCache, key_of

KEY = key_of("one")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "native"


def cache(folder: Path, most_bytes: int = 1 << 20) -> DiskCache:
    return DiskCache(folder, most_bytes)


def test_what_is_written_is_read(folder: Path):
    assert cache(folder).read(KEY) is None
    assert cache(folder).write(KEY, b"payload")
    assert cache(folder).read(KEY) == b"payload"
    assert cache(folder).read(key_of("another")) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600


def test_keys_tell_texts_apart():
    keys = {key_of("a", "bc"), key_of("ab", "c"), key_of("abc"), key_of("a", "bc", "")}
    assert len(keys) == 4


DAMAGES = {
    "cut": lambda data: data[:-3],
    "longer": lambda data: data + b"!",
    "changed": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "empty": lambda data: b"",
    "foreign": lambda data: b"something else altogether",
    "checksum": lambda data: data[:20] + b"x" + data[21:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_files_are_removed(folder: Path, damage):
    cache(folder).write(KEY, b"payload")
    file = folder / KEY
    file.write_bytes(damage(file.read_bytes()))
    assert cache(folder).read(KEY) is None
    assert not file.exists()
    assert cache(folder).write(KEY, b"again")
    assert cache(folder).read(KEY) == b"again"


def test_file_under_another_name_is_damaged(folder: Path):
    cache(folder).write(KEY, b"payload")
    other = key_of("other")
    os.rename(folder / KEY, folder / other)
    assert cache(folder).read(other) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o701])
def test_open_folders_are_not_used(folder: Path, mode: int):
    cache(folder).write(KEY, b"payload")
    folder.chmod(mode)
    assert cache(folder).read(KEY) is None
    assert not cache(folder).write(KEY, b"payload")


def test_links_are_not_followed(folder: Path, tmp_path: Path):
    cache(folder).write(KEY, b"payload")
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert cache(link).read(KEY) is None
    (folder / key_of("other")).symlink_to(folder / KEY)
    assert cache(folder).read(key_of("other")) is None


def test_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch):
    cache(folder).write(KEY, b"payload")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert cache(folder).read(KEY) is None


def test_no_folder_can_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert not cache(tmp_path / "file" / "native").write(KEY, b"payload")
    assert cache(tmp_path / "file" / "native").read(KEY) is None


def test_least_recently_used_goes_first(folder: Path):
    kept = cache(folder, 10_000)
    keys = [key_of(str(k)) for k in range(12)]
    for age, key in enumerate(keys[:9]):
        kept.write(key, bytes(1000))
        os.utime(folder / key, (age, age))
    kept.read(keys[0])  # used now
    kept.write(keys[10], bytes(1000))
    left = {file.name for file in folder.iterdir()}
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 10_000
    assert {keys[0], keys[10]} <= left
    assert keys[1] not in left


def test_forgotten_files_are_removed(folder: Path):
    cache(folder).write(KEY, b"payload")
    forgotten, recent = folder / ".abc.1.ff", folder / ".abc.2.ff"
    for file in (forgotten, recent):
        file.write_bytes(b"half")
    long_ago = time.time() - 7200
    os.utime(forgotten, (long_ago, long_ago))
    cache(folder).write(key_of("other"), b"payload")
    assert not forgotten.exists()
    assert recent.exists()


PROGRAM = """
import sys
from pathlib import Path
from anyshape.runtime.loader.disk_cache import DiskCache, key_of
cache = DiskCache(Path(sys.argv[1]), 30_000)
for round in range(150):
    key = key_of(str(round % 40))
    found = cache.read(key)
    assert found is None or found == key.encode() * 20, found
    if found is None:
        cache.write(key, key.encode() * 20)
"""


def test_processes_share_it(folder: Path):
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    assert not [file.name for file in folder.iterdir() if file.name.startswith(".")]
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 30_000


def test_the_folder_is_looked_through_now_and_then(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """It may have many files: not at every write, and never too late."""
    looks: list[object] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda *args: looks.append(args) or scan(*args))
    held = cache(folder, 1 << 20)
    for index in range(32):
        assert held.write(key_of("small", str(index)), b"x" * 1000)
    assert len(looks) == 1
    for index in range(40):
        assert held.write(key_of("large", str(index)), b"x" * 60_000)
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 1 << 20
