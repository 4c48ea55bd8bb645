"""Programs of users as type checkers see them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).parent / "user_idioms.py"

pytestmark = pytest.mark.slow  # a checker reads all of torch first

#: What a checker says of the same lines if somebody asks it.
REVEALED = {
    "anyshape.compile(scaled)": "Compiled",
    "compiled": "Compiled",
    "bare": "Compiled",
    "anyshape.compile(other)": "Net",
    "plain.encode": "CompiledMethod",
    "later": "Compiled",
    "exported": "Exported",
    "compiled(x)": "Tensor",
    "anyshape.compile(both)(x, 2)": "tuple",
    "with_arguments(x, flag=True)": "int",
    "net": "Net",
    "net.linear": "Linear",
    "anyshape.compile(dynamic=True)(Net())": "Net",
    "other.encode(x)": "Tensor",
    "plain.encode(x)": "Tensor",
    "Net.norm(x)": "float",
    "anyshape.compile(other.forward)(x)": "Tensor",
    "anyshape.compile(functools.partial(scaled, by=2.0))(x)": "Tensor",
    "anyshape.compile(torch.relu)(x)": "Tensor",
    "save(x, 'p')": "int",
    "limited(x)": "Tensor",
    "compiled.stats()": "Stats",
    "compiled.entries[0]": "Entry",
    "compiled.explain()": "Explanation",
    "anyshape.metrics().functions['f'].hits": "int",
    "exported.graph_signature": "GraphSignature",
}


def checked(checker: str, path: Path) -> str:
    commands = {
        "pyright": ["-m", "pyright", "--project", str(ROOT), str(path)],
        "mypy": ["-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(path)],
    }
    ran = subprocess.run(
        [sys.executable, *commands[checker]], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return f"{ran.stdout}{ran.stderr}\nexit status {ran.returncode}"


def test_there_are_enough():
    text = FILE.read_text(encoding="utf-8")
    assert text.count("assert_type(") + text.count("as it must") >= 40
    assert len(REVEALED) >= 20


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_a_checker_agrees(checker: str):
    said = checked(checker, FILE)
    assert said.endswith("exit status 0"), said


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_what_it_reveals(checker: str, tmp_path: Path):
    """Not by way of `assert_type`, which `Any` would satisfy in some places."""
    lines = [FILE.read_text(encoding="utf-8"), *(f"reveal_type({each})" for each in REVEALED)]
    path = tmp_path / "revealed.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    said = checked(checker, path)
    # What was narrowed is `<subclass of Net and ...>`; mypy puts names in it into quotes.
    name = r'"(?:(?:[\w.]+\.)?<subclass of "?)?(?:[\w.]+\.)?(\w+)'
    found = re.findall(rf'(?:Type of ".*" is|Revealed type is) {name}', said)
    assert found == list(REVEALED.values()), said


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_a_checker_would_say_so(checker: str, tmp_path: Path):
    wrong = FILE.read_text(encoding="utf-8").replace(
        "assert_type(bare(x), Tensor)", "assert_type(bare(x), int)"
    )
    path = tmp_path / "wrong.py"
    path.write_text(wrong, encoding="utf-8")
    assert not checked(checker, path).endswith("exit status 0")
