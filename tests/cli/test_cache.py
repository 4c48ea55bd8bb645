"""`anyshape cache`: what is kept, what is shared, and bundles."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import anyshape
from anyshape.backends.native.build import disk_cache
from anyshape.cli import main
from anyshape.config import config
from anyshape.events.native_counts import counts
from anyshape.profile import store
from anyshape.runtime.loader import build as building
from anyshape.runtime.loader.workers import workers
from anyshape.shared_cache import bundle, object_store
from anyshape.shared_cache.signature import signed
from tests.profile.samples import TWO_SIZES, profile

KEY = "a key of the team, long enough"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(building, "_objects", {})
    with config.patch(cache_dir=str(tmp_path / "cache"), cache_key=KEY, cache_url=None):
        yield


def function(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() + 3).sin() * 2


def builds() -> int:
    """Of a program that asks for code."""
    before = counts.builds
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for size in (3, 7):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), function(x))
    workers.finish()
    return counts.builds - before


def test_a_key_is_one(capsys: pytest.CaptureFixture[str]):
    assert main(["cache", "key"]) == 0
    first = capsys.readouterr().out.strip()
    assert main(["cache", "key"]) == 0
    assert len(first) == 64 != capsys.readouterr().out.strip()


def test_what_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert builds()
    with config.patch(cache_url=str(tmp_path / "team")):
        assert main(["cache", "info"]) == 0
    out = capsys.readouterr().out
    assert f"native code {len(disk_cache().listed())} files" in out
    assert "there is a key" in out
    assert KEY not in out
    assert main(["cache", "clear"]) == 0
    assert disk_cache().listed() == []
    assert "removed" in capsys.readouterr().out


@pytest.fixture(name="file")
def _file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A bundle of what the program needs."""
    file = tmp_path / "bundle.zip"
    assert builds()
    store.update(store.file_in(config.cache_dir), lambda _: profile(f=TWO_SIZES))
    assert main(["cache", "export", str(file)]) == 0
    assert "signed" in capsys.readouterr().out
    return file


def test_with_a_bundle_nothing_is_built(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(building, "_objects", {})
    with config.patch(cache_dir=str(tmp_path / "image"), cache_key=None):
        assert main(["cache", "import", str(file)]) == 2, "there is no key"
    with config.patch(cache_dir=str(tmp_path / "image")):
        assert main(["cache", "import", str(file)]) == 0
        assert dict(store.read(store.file_in(config.cache_dir))) == {"f": TWO_SIZES}
        assert builds() == 0


def rewritten(file: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def _code(parts: dict[str, bytes]) -> str:
    return next(name for name in parts if name.startswith("native/"))


def _flipped(parts: dict[str, bytes]) -> None:
    parts[_code(parts)] = parts[_code(parts)][:-1] + b"\x90"


def _swapped(parts: dict[str, bytes]) -> None:
    first, second, *_ = (name for name in parts if name.startswith("native/"))
    parts[first], parts[second] = parts[second], parts[first]


def _outside(parts: dict[str, bytes]) -> None:
    name = "native/../../evil"
    parts[name] = signed(KEY.encode(), name, b"code")


BAD: dict[str, Callable[[dict[str, bytes]], object]] = {
    "changed": _flipped,
    "swapped": _swapped,
    "outside": _outside,
    "unsigned": lambda parts: parts.update({"native/" + "ab" * 32: b"code"}),
    "no table": lambda parts: parts.pop(bundle.ABOUT),
    "another key": lambda parts: parts.update(
        {n: signed(b"another key, long enough", n, b"x") for n in parts}
    ),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_nothing_of_a_bundle_that_was_changed_is_used(
    file: Path,
    tmp_path: Path,
    change: Callable[[dict[str, bytes]], object],
    capsys: pytest.CaptureFixture[str],
):
    rewritten(file, change)
    with config.patch(cache_dir=str(tmp_path / "image")):
        assert main(["cache", "import", str(file)]) == 2
        assert "is not imported" in capsys.readouterr().err
        assert disk_cache().listed() == []


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive at all"])
def test_files_that_are_no_bundles(tmp_path: Path, data: bytes):
    (tmp_path / "x").write_bytes(data)
    assert main(["cache", "import", str(tmp_path / "x")]) == 2
    assert main(["cache", "import", str(tmp_path / "missing")]) == 2


def test_a_truncated_bundle(file: Path):
    file.write_bytes(file.read_bytes()[:-40])
    assert main(["cache", "import", str(file)]) == 2


def test_a_bundle_for_others_is_said_to_be(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def other(parts: dict[str, bytes]) -> None:
        about = json.dumps({"torch": "1.0"}).encode()
        parts[bundle.ABOUT] = signed(KEY.encode(), bundle.ABOUT, about)

    rewritten(file, other)
    with config.patch(cache_dir=str(tmp_path / "image")):
        assert main(["cache", "import", str(file)]) == 0
    assert "for another machine, processor, llvmlite, torch" in capsys.readouterr().out


def test_the_oldest_goes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    url = str(tmp_path / "team")
    assert main(["cache", "trim", "1"]) == 2, "there is no URL"
    for number in range(4):
        object_store.write(f"{url}/native/{number}", bytes(600_000))
        file = Path(url, "native", str(number))

        os.utime(file, (1000 + number, 1000 + number))
    object_store.write(f"{url}/profile.json", bytes(600_000))
    with config.patch(cache_url=url):
        assert main(["cache", "trim", "1"]) == 0
        assert sorted(each.path for each in object_store.listed(f"{url}/native")) == ["3"]
        assert main(["cache", "clear", "--shared"]) == 0
        assert object_store.listed(f"{url}/native") == []
    assert Path(url, "profile.json").exists()


@pytest.mark.parametrize("given", ["-5", "1.5", "many", ""])
def test_what_is_no_size(given: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(["cache", "trim", "--", given])
    assert "is not a whole number of megabytes, 0 or more" in capsys.readouterr().err
