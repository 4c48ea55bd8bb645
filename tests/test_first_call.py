"""What the first call in a process loads, and what it does without: loading is most of its time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forks

#: Prints the modules that a first call has loaded beside torch's own.
_PROGRAM = """
import sys
import torch
before = set(sys.modules)

import anyshape

def layer(x, y):
    return torch.relu(x * 2 + y).sum(-1)

x, y = torch.randn(5, 7), torch.randn(7)
compiled = anyshape.compile(layer, dynamic=True, backend=sys.argv[1])
assert torch.allclose(compiled(x, y), layer(x, y))
assert torch.allclose(compiled(x[:3], y), layer(x[:3], y))
assert compiled.stats().graphs == 1, compiled.explain()
print(*sorted(set(sys.modules) - before))
"""


def _loaded(path: Path, backend: str) -> set[str]:
    program = path / "program.py"
    program.write_text(_PROGRAM)
    own = {name: None for name in os.environ if name.startswith("ANYSHAPE_")}
    variables = {**own, "ANYSHAPE_CACHE_DIR": str(path / "cache")}
    ran = forks.run([str(program), backend], path, variables, bare=True)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Of three processes: one that runs graphs eagerly, one that builds code, one that finds it."""
    path = tmp_path_factory.mktemp("first_call")
    return {
        "eager": _loaded(path, "eager"),
        "cold": _loaded(path, "native"),
        "warm": _loaded(path, "native"),
    }


def _has(loaded: set[str], name: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for module in loaded)


#: Module or package, and the calls that need it.
NEEDED = {
    "anyshape.capture": {"eager", "cold", "warm"},
    "anyshape.runtime.loader.image": {"eager", "cold", "warm"},
    "llvmlite": {"cold"},
    "anyshape.backends.native.source": {"cold"},
    "anyshape.codegen.host": {"cold"},
    "anyshape.codegen.llvm.module": {"cold"},
    "anyshape.codegen.vector_math": {"cold"},
    "anyshape.export": set[str](),
    "anyshape.explain.report": set[str](),
    "anyshape.explain.advice": set[str](),
    "anyshape.cli": set[str](),
    "anyshape.compat": set[str](),
    "anyshape.events.trace.sink": set[str](),
    "fractions": set[str](),
    "rich": set[str](),
    "jinja2": set[str](),
    "onnx": set[str](),
    "fsspec": set[str](),
    "torch._dynamo": set[str](),
    "torch._inductor": set[str](),
    "sympy": set[str](),
}


@pytest.mark.parametrize("name", NEEDED)
def test_is_loaded_where_it_is_needed(calls: dict[str, set[str]], name: str):
    assert {call for call, loaded in calls.items() if _has(loaded, name)} == NEEDED[name]
