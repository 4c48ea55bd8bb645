"""`anyshape profile …`: what it prints, and what it does to files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyshape.cli import COMMANDS, main
from anyshape.config import config
from anyshape.policy.observations import of_int, of_sizes
from anyshape.policy.sources import names_source
from anyshape.profile import store
from anyshape.profile.profiles import Profile
from anyshape.profile.show import dynamic_sources, environment_line
from tests.profile.samples import TWO_SIZES, function, profile

MIXED = function(
    [
        {"L['m']": of_int(3), "L['x']": of_sizes((10,), (1,)), "L['y']": of_sizes((2, 3), (3, 1))},
        {"L['m']": of_sizes((3,)), "L['x']": of_sizes((20,), (1,))},
        {"L['self']._parameters['weight']": of_sizes((2, 2), (2, 1))},
        {"L['self']._parameters['weight']": of_sizes((4, 2), (2, 1))},
    ],
    "func",
    file="/data/r2.py",
    of_modules=frozenset({"L['self']._parameters['weight']"}),
)


@pytest.fixture(autouse=True)
def own(tmp_path: Path) -> Iterator[Path]:
    """The profile of the user."""
    with config.patch(cache_dir=tmp_path):
        yield store.file_in(str(tmp_path))


def write(file: Path, known: Profile) -> str:
    store.update(file, lambda before: before.united(known))
    return str(file)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    out, err = capsys.readouterr()
    return err if status == 2 else out


SHOWN = """\
/data/r2.py:2:func:
L['m']: fully dynamic scalar or tensor
L['self']._parameters['weight']: tensor size=[?, 2] stride=[2, 1]
L['x']: tensor size=[?] stride=[1]
L['y']: tensor size=[2, 3] stride=[3, 1]

/home/me/model.py:2:f:
L['n']: scalar 3
L['x']: tensor size=[?, 4] stride=[4, 1]

To make the same dynamic without this profile:
ANYSHAPE_DYNAMIC_SOURCES="L['m'],L['x'],L['x']:0"
"""


def test_show(own: Path, capsys: pytest.CaptureFixture[str]):
    write(own, profile(a=TWO_SIZES, b=MIXED))
    assert said(capsys, "profile", "show") == SHOWN
    assert said(capsys, "profile", "show", "--file", str(own.parent)) == SHOWN
    only = said(capsys, "profile", "show", "model.py", "--sizes")
    assert "r2.py" not in only
    assert "    size[0]: 10 (1x), 20 (1x)\n" in only
    assert "    values: 3 (2x)\n" in only


def test_show_without_a_profile(capsys: pytest.CaptureFixture[str], own: Path):
    assert said(capsys, "profile", "show") == f"No function is known in {own}.\n"
    write(own, profile(f=function([{"L['x']": of_int(1)}])))
    assert said(capsys, "profile", "show").endswith("Nothing was seen to change.\n")


def test_export_sources(own: Path, capsys: pytest.CaptureFixture[str]):
    write(own, profile(b=MIXED))
    export = "profile", "export-sources"
    assert said(capsys, *export) == """ANYSHAPE_DYNAMIC_SOURCES="L['m'],L['x']"\n"""
    assert "L['self']._parameters['weight']:0" in said(capsys, *export, "--all")
    assert said(capsys, *export, "nothing") == 'ANYSHAPE_DYNAMIC_SOURCES=""\n'


NAMES = ["L['x']", "L['a,b']", "L['self'].layers[0].n", "L['d']['$k`']", "L['d']['it\\'s \"q\"']"]


@pytest.mark.parametrize("name", NAMES)
def test_the_line_means_in_a_shell_what_was_learned(name: str):
    changing = function([{name: of_sizes((1, 5))}, {name: of_sizes((2, 5))}])
    line = environment_line(dynamic_sources([changing]))
    script = f'{line} exec "$0" -c "import os; print(os.environ[\'ANYSHAPE_DYNAMIC_SOURCES\'])"'
    run = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True)
    text = run.stdout.removesuffix("\n")
    assert names_source(text, name, 0), run.stderr
    assert not names_source(text, name, 1)
    assert not names_source(text, "L['other']", 0)


def test_diff(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old = write(tmp_path / "old.json", profile(f=function([{"L['x']": of_int(1)}])))
    new = write(own, profile(f=function([{"L['x']": of_int(1)}, {"L['x']": of_int(2)}]), b=MIXED))
    expected = "/home/me/model.py:2:f:\n- L['x']: scalar 1\n+ L['x']: scalar ?\n"
    found = said(capsys, "profile", "diff", old, new, status=1)
    assert found.startswith(expected)
    assert "/data/r2.py:2:func:\n+ L['m']: fully dynamic" in found
    assert said(capsys, "profile", "diff", old, status=1) == found, "with the own one"
    assert said(capsys, "profile", "diff", new, new) == ""


def test_merge(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    one = write(tmp_path / "one.json", profile(a=TWO_SIZES))
    two = write(tmp_path / "two.json", profile(b=MIXED))
    target = tmp_path / "both.json"
    for output in (target, own):
        arguments = ["-o", str(output)] if output == target else []
        for _ in range(2):
            found = said(capsys, "profile", "merge", one, two, *arguments)
            assert found == f"2 functions merged into {output}\n"
            assert dict(store.read(output)) == {"a": TWO_SIZES, "b": MIXED}
    assert said(capsys, "profile", "merge", one, "-o", "memory://merged") != ""
    assert "model.py" in said(capsys, "profile", "show", "--file", "memory://merged")


def test_clear_means_the_name_if_there_is_one(own: Path, capsys: pytest.CaptureFixture[str]):
    names = ("f", "Block.f", "Block.forward")
    write(own, profile(**{name: function([{"L['x']": of_sizes((2,))}], name) for name in names}))
    said(capsys, "profile", "clear", "f")
    assert [record.name for record in store.read_exactly(own).values()] == ["Block.forward"]
    said(capsys, "profile", "clear", "for")
    assert not store.read_exactly(own)


def test_clear(own: Path, capsys: pytest.CaptureFixture[str]):
    write(own, profile(a=TWO_SIZES, b=MIXED))
    assert said(capsys, "profile", "clear", "func") == f"1 functions removed from {own}\n"
    assert set(store.read(own)) == {"a"}
    said(capsys, "profile", "clear")
    assert not store.read(own)
    own.unlink()
    assert said(capsys, "profile", "clear").startswith("0 functions")


FAILURES = [
    (("show", "--file", "/no/such"), "there is no profile at /no/such"),
    (("show", "--file", "{bad}"), "cannot be read as a profile"),
    (("diff", "{bad}"), "cannot be read as a profile"),
    (("merge", "{bad}"), "cannot be read as a profile"),
    (("show", "--file", "nosuch://x"), "cannot be read: "),
    (("merge", "{good}", "-o", "{bad}/x"), "cannot be written: "),
    (("clear", "--file", "memory://x"), "is shared"),
]


@pytest.mark.parametrize(("arguments", "message"), FAILURES)
def test_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
):
    bad = tmp_path / "bad.json"
    bad.write_text("no")
    good = write(tmp_path / "good.json", profile(a=TWO_SIZES))
    filled = [each.format(bad=bad, good=good) for each in arguments]
    assert message in said(capsys, "profile", *filled, status=2)
    assert bad.read_text() == "no", "what is only looked at stays"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]):
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command.name, "--help"])
        assert command.help in capsys.readouterr().out


def test_as_a_module_and_into_a_closed_pipe(own: Path):
    many = function([{f"L['x{i}']": of_int(1)} for i in range(400)])
    write(own, profile(**{f"f{i}": many for i in range(30)}))
    script = f"{sys.executable} -m anyshape profile show --file {own} | head -n 1"
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout == "/home/me/model.py:2:f:\n"
    assert run.stderr == ""
