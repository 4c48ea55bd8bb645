"""`anyshape doctor`, `anyshape config`, `anyshape --version`, and words that are misspelt."""

from __future__ import annotations

import errno
import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from anyshape import cli
from anyshape.cli import doctor, machine
from anyshape.config import config
from anyshape.runtime.loader import disk_cache


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(arguments)
    return status, capsys.readouterr().out


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the self-test, which has a test of its own."""
    monkeypatch.setattr(machine, "problems", lambda device: iter(()))


def states(text: str) -> dict[str, str]:
    found = json.loads(text)
    assert found["ok"] == all(each["state"] != "broken" for each in found["findings"])
    return {each["about"]: each["state"] for each in found["findings"]}


def texts(text: str) -> str:
    return "\n".join(f"{each['about']}: {each['text']}" for each in json.loads(text)["findings"])


# -- doctor ----------------------------------------------------------------------------------------


def test_files_that_go_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "stays").write_bytes(b"12345")
    gone = tmp_path / "gone"
    monkeypatch.setattr(Path, "rglob", lambda *_: iter([gone, tmp_path, tmp_path / "stays"]))
    assert list(doctor._sizes(tmp_path)) == [5]


def test_all_is_well(capsys: pytest.CaptureFixture[str]):
    status, out = said(capsys, "doctor")
    assert status == 0, out
    assert out.splitlines()[-1] == "all is well"
    for about in ("anyshape", "Python", "torch", "llvmlite", "cache", "CPU", "GPU"):
        assert f"ok     {about}: " in out
    assert "self-test on cpu: 3 programs at 6 sizes agree with eager" in out


def test_as_json(capsys: pytest.CaptureFixture[str], untried: None):
    status, out = said(capsys, "doctor", "--json")
    assert status == 0
    assert "broken" not in states(out).values()
    assert metadata.version("torch") in texts(out)


def test_code_that_gives_another_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """By a program that is not the same when it is compiled."""

    def changes(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x

    monkeypatch.setattr(machine, "PROGRAMS", {"a wrong one": changes})
    status, out = said(capsys, "doctor")
    assert status == 1
    assert "another answer than eager at 64 rows" in out


def test_code_that_is_not_native(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def eager(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    monkeypatch.setattr(machine, "PROGRAMS", {"numpy's": eager})
    monkeypatch.setattr(machine, "NATIVE", {"numpy's": eager})
    status, out = said(capsys, "doctor")
    assert status == 1
    assert "operator by operator" in out


def test_code_that_cannot_be_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def fails(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(machine.api, "compile", fails)
    status, out = said(capsys, "doctor")
    assert status == 1
    assert "broken self-test on cpu: gradients: RuntimeError: no such thing" in out


def test_variables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, untried: None
):
    for name, value in {
        "RECOMPILE_LIMT": "3",
        "PORT": "80",
        "SPECIALIZE_INT": "maybe",
        "LOGS": "dynamic",
    }.items():
        monkeypatch.setenv(f"ANYSHAPE_{name}", value)
    monkeypatch.setenv("SECRET_OF_OTHERS", "hidden")
    with config.patch(specialize_int=False):
        pass
    status, out = said(capsys, "doctor", "--json")
    found = states(out)
    assert status == 1
    assert found["ANYSHAPE_RECOMPILE_LIMT"] == "broken"
    assert "did you mean ANYSHAPE_RECOMPILE_LIMIT?" in texts(out)
    assert found["ANYSHAPE_PORT"] == "note"
    assert found["ANYSHAPE_LOGS"] == "ok"
    assert found["self-test"] == "note"
    assert "hidden" not in out


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_cache_that_cannot_be_written_to(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, untried: None
):
    (tmp_path / "file").write_text("in the way")
    with config.patch(cache_dir=str(tmp_path / name)):
        status, out = said(capsys, "doctor", "--json")
    assert (status, states(out)["cache"]) == (1, "broken")


def _full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("mode", [0o700, 0o701, 0o704, 0o720, 0o750, 0o770, 0o2770, 0o777, 0o1777])
def test_a_cache_that_is_open_to_others(
    mode: int, capsys: pytest.CaptureFixture[str], tmp_path: Path, untried: None
):
    """As volumes of containers are made: code is not read from there, and who asks is told."""
    (tmp_path / disk_cache.FOLDER).mkdir()
    (tmp_path / disk_cache.FOLDER).chmod(mode)
    with config.patch(cache_dir=str(tmp_path)):
        status, out = said(capsys, "doctor", "--json")
    cache = disk_cache.DiskCache(tmp_path / disk_cache.FOLDER, 1 << 20)
    is_used = cache.write(disk_cache.key_of("a"), b"code")
    assert is_used == (mode == 0o700)
    assert (status, states(out)["cache"]) == ((0, "ok") if is_used else (1, "broken"))
    assert is_used or f"its mode is {mode:o}, and should be 700" in texts(out)


def test_a_cache_of_somebody_else(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    untried: None,
):
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with config.patch(cache_dir=str(tmp_path)):
        status, out = said(capsys, "doctor", "--json")
    assert (status, states(out)["cache"]) == (1, "broken")
    assert f"belongs to user {me}, and this is user {me + 1}" in texts(out)


def test_a_cache_without_room(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    untried: None,
):
    """Files without content can be made on a disk that is full."""
    with config.patch(cache_dir=str(tmp_path)):
        assert states(said(capsys, "doctor", "--json")[1])["cache"] == "ok"
        assert not list(tmp_path.rglob(".tried*"))
        monkeypatch.setattr(disk_cache, "_write", _full)
        status, out = said(capsys, "doctor", "--json")
    assert (status, states(out)["cache"]) == (1, "broken")
    assert "No space left on device" in texts(out)


def test_the_size_of_a_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path, untried: None):
    (tmp_path / "code").write_bytes(bytes(3 << 20))
    with config.patch(cache_dir=str(tmp_path)):
        _, out = said(capsys, "doctor")
    assert f"{tmp_path}, 3.0 MB of {config.cache_size_mb} in 1 files" in out


@pytest.mark.parametrize(
    ("versions", "about", "text"),
    [
        (
            {"torch": "2.3.1"},
            "torch",
            "anyshape needs torch 2.11 or later, and this is torch 2.3.1",
        ),
        ({"torch": None}, "torch", "not installed"),
        ({"llvmlite": None}, "llvmlite", "pip install llvmlite"),
    ],
)
def test_packages(
    versions: dict[str, str | None],
    about: str,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    untried: None,
):
    real = doctor.installed
    monkeypatch.setattr(
        doctor, "installed", lambda name: versions[name] if name in versions else real(name)
    )
    status, out = said(capsys, "doctor", "--json")
    assert (status, states(out)[about]) == (1, "broken")
    assert text in texts(out)


def test_what_a_team_shares(capsys: pytest.CaptureFixture[str], untried: None, tmp_path: Path):
    """Nothing is written: a store may be there to be read alone."""

    def finding(**settings: Any) -> str:
        with config.patch(**settings):
            _, out = said(capsys, "doctor", "--json")
        return next((line for line in texts(out).splitlines() if line.startswith("shared")), "")

    url, key = str(tmp_path / "store"), "a secret of the team, long enough"
    assert finding() == ""
    assert finding(cache_url=url, cache_key=key) == (
        f"shared cache: {url} answers, and there is a key"
    )
    assert "is not used: there is no key" in finding(cache_url=url)
    nowhere = "http://user:password@127.0.0.1:9/store"
    told = finding(cache_url=nowhere, cache_key=key)
    assert "shared cache: http://...@127.0.0.1:9/store cannot be read: " in told
    assert "cannot be read: " in finding(profile_url="nothing-like-it://store")
    assert not (tmp_path / "store").exists()


# -- config ----------------------------------------------------------------------------------------


def test_all_settings(capsys: pytest.CaptureFixture[str]):
    status, out = said(capsys, "config", "--json")
    found = {each["name"]: each for each in json.loads(out)}
    assert status == 0
    assert sorted(found) == sorted(set(dir(config)) - {"patch"})
    for each in found.values():
        assert each["description"].endswith(".")
        assert each["variable"] == f"ANYSHAPE_{each['name'].upper()}"
        assert each["group"]
        assert each["accepted"]


def test_some_settings(capsys: pytest.CaptureFixture[str]):
    with config.patch(recompile_limit=8):
        status, out = said(capsys, "config", "recompile_limit")
    assert status == 0
    assert "recompile_limit = 8  (default: 64)" in out
    assert "ANYSHAPE_RECOMPILE_LIMIT" in out
    assert "duck_shape" not in out


def test_keys_are_not_shown(capsys: pytest.CaptureFixture[str]):
    with config.patch(cache_key="hidden"):
        for more in ((), ("--json",)):
            _, out = said(capsys, "config", *more)
            assert "hidden" not in out
            assert "(set)" in out


def test_a_setting_that_does_not_exist(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["config", "duckshape"]) == 2
    assert "there is no setting duckshape; did you mean 'duck_shape'?" in capsys.readouterr().err


def test_a_variable_that_does_not_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANYSHAPE_DUCKSHAPE", "1")
    assert cli.main(["config"]) == 2
    assert "ANYSHAPE_DUCK_SHAPE" in capsys.readouterr().err


# -- words that are misspelt -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["docter"], "doctor"),
        (["reprot", "x"], "report"),
        (["doctor", "--jsno"], "--json"),
        (["profile", "shwo"], "show"),
        (["--verson"], "--version"),
        (["explain", "--verfy", "x.py"], "--verify"),
        (["config", "--hlp"], "--help"),
    ],
)
def test_words_that_are_misspelt(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert f"did you mean '{meant}'?" in capsys.readouterr().err


def test_an_option_like_none(capsys: pytest.CaptureFixture[str]):
    """Options have dashes in common, and are not alike for that."""
    with pytest.raises(SystemExit):
        cli.main(["run", "--backend", "x.py"])
    assert capsys.readouterr().err.endswith("error: unrecognized arguments: --backend\n")
