"""What `make dist` makes: the files in it, and the README's program in an environment that has the
wheel and what it asks for, and nothing else."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.snippets import Page

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "anyshape"


@pytest.fixture(scope="module", name="dist")
def _dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel is made of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module", name="wheel")
def _wheel(dist: Path) -> Path:
    [found] = dist.glob("*.whl")
    return found


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    package = {
        f"anyshape/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"anyshape/py.typed", "anyshape/explain/report/page/page.html.jinja"} <= package
    assert {name for name in found if not name.startswith("anyshape-")} == package
    assert wheel.name.endswith("-py3-none-any.whl")
    assert any(name.endswith("licenses/LICENSE") for name in found)


def test_the_sdist_has_all_that_its_makefile_needs(dist: Path):
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "pyproject.toml", "constraints.txt", "mkdocs.yml", "README.md"} <= found
    for folder in ("tests", "benchmarks", "examples", "scripts", "docs"):
        files = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py")}
        assert files <= found
    assert not [name for name in found if "__pycache__" in name or name.startswith(".venv")]


def test_extras(wheel: Path):
    about = _about(wheel)
    assert {"dev", "gpu", "onnx", "remote", "site"} <= set(about.get_all("Provides-Extra") or ())
    assert about["Requires-Python"] == ">=3.11"


def _about(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module", name="python")
def _python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and of what is installed here the requirements alone: not
    downloaded again, but by links."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    [packages] = folder.glob("lib/python*/site-packages")
    for name in _required(_about(wheel).get_all("Requires-Dist") or ()):
        _link(metadata.distribution(name), packages)
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    install = ["install", "--quiet", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True, timeout=300)
    subprocess.run([*pip, "check"], check=True, timeout=100)
    return python


def _required(asked: list[str] | tuple[str, ...]) -> set[str]:
    """Names of all that is needed, without extras of ours."""
    found: set[str] = set()
    waiting = [(Requirement(each), "") for each in asked]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        extras = ["", *requirement.extras]
        if requirement.name in found and len(extras) == 1:
            continue
        found.add(requirement.name)
        needs = metadata.distribution(requirement.name).requires or ()
        waiting += [(Requirement(each), extra) for each in needs for extra in extras]
    return found


def _link(distribution: metadata.Distribution, packages: Path) -> None:
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
    for top in tops - {"__pycache__"}:
        place = packages / top
        if not place.exists():
            place.symlink_to(Path(str(distribution.locate_file(top))))


def _run(command: list[str], folder: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command,
        cwd=folder,
        env=variables | {"ANYSHAPE_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_no_tool_is_importable(python: Path, tmp_path: Path):
    """What is tested below does without them."""
    tools = ["pytest", "hypothesis", "transformers", "scipy", "z3", "selenium", "onnx", "rich"]
    script = f"import importlib.util as u; print([n for n in {tools} if u.find_spec(n)])"
    assert _run([str(python), "-c", script], tmp_path).strip() == "[]"
    where = _run([str(python), "-c", "import anyshape; print(anyshape.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(python.parents[1])


def test_the_program_of_the_readme(python: Path, tmp_path: Path):
    program = Page((ROOT / "README.md").read_text(encoding="utf-8")).program
    checked = list(_checked(program))
    assert sum(line.startswith("assert ") for line in checked) >= 3
    (tmp_path / "first.py").write_text("\n".join(checked))
    assert _run([str(python), "first.py"], tmp_path) == ""


def _checked(program: str) -> Iterator[str]:
    """The program, with an assertion where a comment says what an expression gives."""
    lines = program.splitlines()
    for each in ast.parse(program).body:
        _, found, said = lines[(each.end_lineno or 0) - 1].partition("  # ")
        is_said = isinstance(each, ast.Expr) and found
        text = ast.unparse(each)
        yield f"assert {said!r}.startswith(str({text})), {said!r}" if is_said else text


def test_the_commands(python: Path, tmp_path: Path):
    anyshape = str(python.with_name("anyshape"))
    said = _run([anyshape, "--version"], tmp_path)
    assert said.startswith(f"anyshape {metadata.version('anyshape')}")
    (tmp_path / "sizes.py").write_text(
        "import torch\n"
        "f = torch.compile(lambda x: x * x.size(0))\n"
        "print([f(torch.ones(n)).sum().item() for n in (2, 3, 4)])\n"
    )
    assert _run([anyshape, "run", "sizes.py"], tmp_path) == "[4.0, 9.0, 16.0]\n"


def test_the_report(python: Path, tmp_path: Path):
    """Its page is made of files beside the code."""
    (tmp_path / "f.py").write_text(
        "import torch, anyshape\n"
        "f = anyshape.compile(lambda x: x * 2)\n"
        "[f(torch.ones(n)) for n in (2, 3, 4)]\n"
    )
    script = "import os, runpy; os.environ['ANYSHAPE_TRACE'] = 'trace'; runpy.run_path('f.py')"
    _run([str(python), "-c", script], tmp_path)
    _run([str(python.with_name("anyshape")), "report", "trace"], tmp_path)
    page = (tmp_path / "trace" / "report.html").read_text()
    assert "<script" in page
    assert "<style" in page
