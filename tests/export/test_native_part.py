"""Native code: made at the first call, stored in packages, used only by those who trust it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import Dim
from anyshape.errors import BadOption, CannotExport
from anyshape.export import native_part
from anyshape.runtime.loader import build
from anyshape.runtime.loader.code_bundle import CodeBundle, open_bundle, opened
from tests import forks


class Model(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 4))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return ((x * self.scale).sin() + x.cos()).sum(1) * 2


@pytest.fixture(name="exported")
def _exported() -> anyshape.Exported:
    spec = {"x": (Dim("n", min=1), None)}
    with torch.no_grad():
        return anyshape.export(Model(), (torch.ones(2, 4),), dynamic_shapes=spec)


@pytest.fixture(name="package")
def _package(exported: anyshape.Exported, tmp_path: Path) -> Path:
    file = tmp_path / "model.zip"
    exported.save(file, native_code=True)
    return file


@pytest.fixture(name="built")
def _built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is built from now on; the disk cache is empty, and the process has built nothing."""
    calls: list[Any] = []
    original = build.begin

    def counted(source: Any, *args: Any) -> Any:
        calls.append(source.entry or source.run)
        return original(source, *args)

    monkeypatch.setattr(build, "begin", counted)
    with anyshape.config.patch(cache_dir=str(tmp_path / "cache")):
        yield calls


def segments(calls: list[Any]) -> list[Any]:
    """Without the helpers, which all programs share."""
    return [each for each in calls if each is not None]


def check(program: anyshape.Exported) -> None:
    for size in (1, 3, 8):
        x = torch.randn(size, 4)
        with torch.no_grad():
            torch.testing.assert_close(program(x), Model()(x))


def test_one_entry_with_native_code_for_all_sizes(exported: anyshape.Exported):
    assert exported.entries == []
    check(exported)
    (entry,) = exported.entries
    (graph,) = entry.graphs
    assert graph.meta["report"].native
    assert entry.hits == 2


def test_operator_by_operator(exported: anyshape.Exported, tmp_path: Path):
    exported.save(tmp_path / "plain.zip")
    program = anyshape.load(tmp_path / "plain.zip", backend="eager")
    check(program)
    assert program.entries == []
    with pytest.raises(BadOption, match="backend"):
        anyshape.load(tmp_path / "plain.zip", backend="cuda")


def test_saving_makes_the_code_and_changes_nothing(package: Path, exported: anyshape.Exported):
    assert exported.state_dict()["calls"] == 0
    with zipfile.ZipFile(package) as archive:
        names = [name for name in archive.namelist() if name.startswith("native/")]
        about = json.loads(archive.read("native/about.json"))
    assert len(names) == len(about["sums"]) + 1 > 1
    assert about["for"]["torch"] == torch.__version__


def test_without_trust_it_is_not_even_read(
    package: Path, built: list[Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(native_part, "read", lambda archive: pytest.fail("it was read"))
    program = anyshape.load(package)
    check(program)
    assert segments(built)
    assert 'load(path, native_code="trusted") takes it' in program.notes[0]


class Cache:
    """An argument that is none of Python's own containers."""

    def __init__(self, size: int) -> None:
        self.layers = [{"keys": torch.randn(size, 4)}, Slots(torch.randn(size, 4))]


class Slots:
    __slots__ = ("values",)

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values


def test_objects_among_the_arguments(tmp_path: Path, built: list[Any]):
    def program(x: torch.Tensor, cache: Any) -> torch.Tensor:
        return torch.softmax(x + cache.layers[0]["keys"], 1) * cache.layers[1].values.sin()

    spec = {"x": "n 4", "cache": {"layers": [{"keys": "n 4"}, {"values": "n 4"}]}}
    made = anyshape.export(program, (torch.randn(3, 4), Cache(3)), dynamic_shapes=spec)
    made.save(tmp_path / "objects.zip", native_code=True)
    built.clear()
    loaded = anyshape.load(tmp_path / "objects.zip", native_code="trusted")
    for size in (0, 1, 5, 8):
        x, cache = torch.randn(size, 4), Cache(size)
        with torch.no_grad():
            torch.testing.assert_close(loaded(x, cache), program(x, cache))
    assert loaded.entries[0].graphs[0].meta["report"].native
    assert segments(built) == []


def test_with_trust_nothing_is_built(package: Path, built: list[Any]):
    program = anyshape.load(package, native_code="trusted")
    assert program.notes == ()
    check(program)
    assert program.entries[0].graphs[0].meta["report"].native
    assert segments(built) == []


def test_the_disk_cache_is_used(package: Path, built: list[Any]):
    check(anyshape.load(package))
    first = len(segments(built))
    assert first
    check(anyshape.load(package))
    assert len(segments(built)) == first


# -- damaged, or for others ------------------------------------------------------------------------


def changed(package: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    with zipfile.ZipFile(package) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(package, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return package


def _other(key: str, value: Any) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        about = json.loads(parts["native/about.json"])
        about["for"][key] = value
        parts["native/about.json"] = json.dumps(about).encode()

    return change


def _code(parts: dict[str, bytes]) -> str:
    return next(name for name in parts if name.startswith("native/") and "about" not in name)


def _flipped(parts: dict[str, bytes]) -> None:
    name = _code(parts)
    parts[name] = parts[name][:-1] + bytes([parts[name][-1] ^ 1])


def _with_sum_of(data: bytes) -> Callable[[dict[str, bytes]], None]:
    """Other code, and a table that agrees: it is not what it should be, and nobody can tell."""

    def change(parts: dict[str, bytes]) -> None:
        name = _code(parts)
        parts[name] = data
        code = {each.removeprefix("native/"): parts[each] for each in parts if each == name}
        parts.update(dict(native_part.parts(code)))

    return change


BAD: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "processor": (_other("processor", "z80"), "for another processor"),
    "machine": (_other("machine", "aarch64-linux-gnu"), "for another machine"),
    "torch": (_other("torch", "1.0"), "for another torch"),
    "anyshape": (_other("anyshape", "0"), "for another anyshape"),
    "flipped": (_flipped, "damaged"),
    "missing": (lambda parts: parts.pop(_code(parts)), "damaged"),
    "no table": (lambda parts: parts.pop("native/about.json"), "no native code"),
    "no JSON": (lambda parts: parts.update({"native/about.json": b"{"}), "damaged"),
    "no object": (lambda parts: parts.update({"native/about.json": b"[]"}), "damaged"),
    "name": (
        lambda parts: parts.update(
            {
                "native/about.json": json.dumps(
                    {"for": native_part.native_identity(), "sums": {"../x": ""}}
                ).encode()
            }
        ),
        "damaged",
    ),
    "no code": (_with_sum_of(b"\x90" * 64), ""),
}


@pytest.mark.parametrize("case", BAD)
def test_code_that_cannot_be_used_is_made_anew(package: Path, built: list[Any], case: str):
    change, says = BAD[case]
    program = anyshape.load(changed(package, change), native_code="trusted")
    assert says in "".join(program.notes)
    if case in ("processor", "flipped", "no code"):  # a second each
        check(program)
        assert segments(built)


def test_another_process_with_another_copy_of_the_package(
    exported: anyshape.Exported, tmp_path: Path
):
    """Names in packages do not depend on when or where our sources were installed, and a package
    has all of its code: also what the process that made it had loaded for another program."""
    anyshape.compile(lambda x: x.sin() * 2)(torch.ones(3))
    package = tmp_path / "model.zip"
    exported.save(package, native_code=True)
    script = f"""
import torch, anyshape
anyshape.config.cache_dir = {str(tmp_path / "cache")!r}
program = anyshape.load({str(package)!r}, native_code="trusted")
with torch.no_grad():
    print(program(torch.ones(3, 4)).sum().item(), len(program.entries), *program.notes)
assert program.entries[0].graphs[0].meta["report"].native
assert anyshape.metrics().native.builds == 0
"""
    (tmp_path / "script.py").write_text(script)
    run = forks.run(["script.py"], tmp_path)
    assert run.returncode == 0, run.stderr
    value, entries = run.stdout.split()
    assert float(value) == pytest.approx(Model()(torch.ones(3, 4)).sum().item(), rel=1e-5)
    assert entries == "1"


def test_an_example_that_fails(tmp_path: Path):
    def program(x: Tensor) -> Tensor:
        torch._check(x.sum().item() > 1)
        return x.sin() * 2

    exported = anyshape.export(program, (torch.ones(3),), dynamic_shapes={"x": ("n",)})
    with pytest.raises(CannotExport, match="fails on zeros"):
        exported.save(tmp_path / "x.zip", native_code=True)
    with torch.no_grad():
        exported(torch.ones(4))
    exported.save(tmp_path / "x.zip", native_code=True)


def test_a_shelf_is_open_for_a_while():
    shelf = CodeBundle()
    with opened(shelf):
        assert open_bundle() is shelf
    assert open_bundle() is None
