"""The package keeps its layers: who may import whom, and what is imported nowhere.

The rules are data at the top. The checker reads source text only, so a broken module is still
checked, and it is itself tested on small trees that break each rule.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# A line may import the lines below it, never its own neighbours or what is above.
LAYERS = (
    ("__init__", "__main__"),
    ("cli",),
    ("compat",),
    ("api",),
    ("export", "process_metrics"),
    ("compiler",),
    ("dispatch",),
    ("explain", "backends", "marks"),
    ("capture", "graph", "codegen", "runtime", "ranks"),
    ("profile",),
    ("shapes",),
    ("ops", "guards", "policy"),
    ("loops",),
    ("symbolic",),
    ("shared_cache",),
    ("events",),
    ("config",),
    ("boundary_markers",),
    ("arguments",),
    ("errors",),
    ("support",),
)

# These must load without torch, also through what they import.
TORCH_FREE = (
    *("symbolic", "policy", "profile", "shapes", "events", "errors", "config", "arguments"),
    *("shared_cache",),
    *("explain.advice", "explain.report", "explain.trace_model"),
    *("support.lazy_dataclass", "support.requirements"),
)

# Compared with in tests and benchmarks, used nowhere in the package.
PEERS = (
    "sympy",
    "torch.compile",
    "torch._dynamo",
    "torch._inductor",
    "torch.export",
    "torch._export",
    "torch._subclasses",
    "torch.fx.experimental.symbolic_shapes",
)

# At the edge, for those who ask for it: (importing module, peer).
BRIDGES = {("anyshape.export.torch_bridge", "torch.export")}

# Optional toolchains: only in `runtime`, and only inside functions, so that the package imports
# on a machine that lacks them.
TOOLCHAINS = ("llvmlite", "triton")

# (importing module, imported module) -> why this import may stand inside a function.
LAZY_IMPORTS = {
    (
        "anyshape.backends.native.attention_variants",
        "anyshape.codegen.host.externs",
    ): "where code is loaded and not made, nobody else needs it",
    ("anyshape.cli.run", "anyshape.compat"): "it loads torch, which acts on the environment then",
    ("anyshape.compat.children", "anyshape.compat"): "once the process has loaded torch itself",
    ("anyshape.ops", "torch._meta_registrations"): "loading it takes longer than all our own rules",
    (
        "anyshape.backends.native.build",
        "anyshape.backends.native.source",
    ): "code that is found on disk needs no text",
    (
        "anyshape.backends.native.segment_functions",
        "anyshape.backends.native.cuda_segment",
    ): "only for graphs with tensors on a GPU",
    (
        "anyshape.backends.native.listing",
        "anyshape.backends.native.cuda_segment",
    ): "only for graphs with tensors on a GPU",
    (
        "anyshape.backends.native.backend",
        "anyshape.backends.native.cuda_graphs",
    ): "only for graphs with tensors on a GPU",
    (
        "anyshape.backends.native.backend",
        "anyshape.backends.native.paired_graphs",
    ): "only for graphs with tensors on a GPU",
    (
        "anyshape.backends.native.placed",
        "anyshape.backends.native.cuda_graphs",
    ): "only for graphs with tensors on a GPU",
    (
        "anyshape.backends.native.segment_functions",
        "anyshape.backends.native.autotune",
    ): "only where kernels are tuned or measured",
    ("anyshape.capture.numbers.quotients", "fractions"): "it loads `decimal`; few divide sizes",
    ("anyshape.ops.float_scale", "fractions"): "it loads `decimal`; few scale a size by a float",
    ("anyshape.shared_cache.object_store", "fsspec"): "only for those who share a cache",
    ("anyshape.cli.cache", "anyshape.backends"): "it loads torch, and other commands do without",
    ("anyshape.cli.doctor", "anyshape.cli.machine"): "it loads torch, and that may fail",
    ("anyshape.cli.export", "anyshape.export"): "it loads torch, and other commands do without",
    ("anyshape.export.torch_bridge", "torch.export"): "a peer: only for those who ask for it",
    ("anyshape.explain.report.page.html", "jinja2"): "only for those who ask for a report",
    ("anyshape.explain.report.page.html", "markupsafe"): "it comes with jinja2",
    ("anyshape.events.progress", "rich"): "optional: only for compiles that take long",
    ("anyshape.cli.advice_text", "rich"): "optional: only for those who look at a terminal",
    ("anyshape.cli.watch", "rich"): "optional: only for those who look at a terminal",
    ("anyshape.export.onnx.writer", "onnx"): "optional: only for those who ask for it",
    ("anyshape.export.tensors_file", "safetensors.torch"): "only for those who save and load",
}

BANNED_NAMES = {"utils.py", "misc.py", "common.py"}


@dataclass(frozen=True)
class Import:
    """One import in one module. A string given to `import_module` counts as well."""

    importer: str
    target: str
    line: int
    function: str | None

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    source: str
    tree: ast.Module


def read_package(root: Path) -> dict[str, Module]:
    """The modules below `root/anyshape` by dotted name."""
    modules: dict[str, Module] = {}
    for path in sorted((root / "anyshape").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, source, ast.parse(source, str(path)))
    return modules


def imports_of(module: Module, names: set[str]) -> Iterator[Import]:
    """Every import in the module, with the function that it stands in; `names` are our modules."""
    # Most modules import by statements alone: there expressions need not be looked at.
    calls = any(name in module.source for name in IMPORTING)
    children = ast.iter_child_nodes if calls else statements_of
    todo: list[tuple[ast.AST, str | None]] = [(module.tree, None)]
    while todo:
        node, function = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            for target in targets_of(node, module, names):
                yield Import(module.name, target, node.lineno, function)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        elif isinstance(node, ast.Lambda):
            function = "<lambda>"
        todo += [(child, function) for child in children(node)]


#: Functions that import what they are given the name of.
IMPORTING = frozenset({"import_module", "__import__"})


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside of a statement, and what else has statements in it."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inside = getattr(node, field, None)
        if isinstance(inside, list):
            yield from inside


def targets_of(node: ast.AST, module: Module, names: set[str]) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            base = absolute(node, module)
            full = [f"{base}.{alias.name}" for alias in node.names]
            # `from package import thing`: the thing is a module of ours, or a name in the package.
            # For other packages the long form is kept, since peers may be reached either way.
            return [
                name if name in names or not is_within(base, "anyshape") else base for name in full
            ]
        case ast.Call(func=func, args=[ast.Constant(value=str(text)), *_]):
            called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            return [text] if called in IMPORTING else []
        case _:
            return []


def absolute(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    drop = node.level - (module.path.name == "__init__.py")
    return ".".join(parts[: len(parts) - drop] + ([node.module] if node.module else []))


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def part_of(name: str) -> str:
    """The row entry that a module of ours belongs to: `anyshape.ops.views` -> `ops`."""
    return [*name.split("."), "__init__"][1]


def is_torch_free(name: str) -> bool:
    return any(is_within(name, f"anyshape.{part}") for part in TORCH_FREE)


def layer_of(part: str) -> int | None:
    return next((row for row, parts in enumerate(LAYERS) if part in parts), None)


# -- the rules: each yields one line for each violation -----------------------------------------


def wrong_direction(imports: list[Import]) -> Iterator[str]:
    for item in imports:
        if not is_within(item.target, "anyshape"):
            continue
        source, target = part_of(item.importer), part_of(item.target)
        above, below = layer_of(source), layer_of(target)
        # Names missing in the table are reported once, by `unlisted`.
        if source != target and above is not None and below is not None and above >= below:
            yield f"{item}: `{source}` may not import `{target}`"


def unlisted(modules: dict[str, Module]) -> Iterator[str]:
    for part in sorted({part_of(name) for name in modules}):
        if layer_of(part) is None:
            yield f"anyshape.{part} has no place in the table of layers"


def torch_where_it_must_not_be(imports: list[Import]) -> Iterator[str]:
    edges: dict[str, list[Import]] = {}
    for item in imports:
        edges.setdefault(item.importer, []).append(item)
    for start in sorted(filter(is_torch_free, edges)):
        seen, todo = {start}, [start]
        while todo:
            for item in edges.get(todo.pop(), []):
                if is_within(item.target, "torch"):
                    yield f"{start} must load without torch, but {item}"
                elif item.target not in seen:
                    seen.add(item.target)
                    todo.append(item.target)


def peers(modules: dict[str, Module], imports: list[Import]) -> Iterator[str]:
    for item in imports:
        bridge = (item.importer, item.target) in BRIDGES
        if not bridge and any(is_within(item.target, peer) for peer in PEERS):
            yield f"{item}, a peer"
    last = {peer.rpartition(".")[2] for peer in PEERS}
    for module in modules.values():
        named = any(name in module.source for name in last)
        for node in ast.walk(module.tree) if named else ():
            if not isinstance(node, ast.Attribute) or node.attr not in last:
                continue
            # Exact match: the chain `torch._dynamo.reset` contains the node `torch._dynamo` once.
            if ast.unparse(node) in PEERS:
                yield f"{module.name}:{node.lineno} uses {ast.unparse(node)}, a peer"


def toolchains(imports: list[Import]) -> Iterator[str]:
    for item in imports:
        if not any(is_within(item.target, tool) for tool in TOOLCHAINS):
            continue
        if part_of(item.importer) != "runtime":
            yield f"{item}, which belongs in runtime"
        elif item.function is None:
            yield f"{item} at the top of the module; it is optional, import it in a function"


def inside_functions(modules: dict[str, Module], imports: list[Import]) -> Iterator[str]:
    for item in imports:
        if item.function is None:
            continue
        lazy_package = (
            item.function == "__getattr__" and modules[item.importer].path.name == "__init__.py"
        )
        optional = any(is_within(item.target, tool) for tool in TOOLCHAINS)
        listed = any(
            is_within(item.importer, importer) and is_within(item.target, target)
            for importer, target in LAZY_IMPORTS
        )
        if not (lazy_package or optional or listed):
            yield f"{item} inside `{item.function}`"


def vague_names(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        if module.path.name in BANNED_NAMES or f"{module.path.parent.name}.py" in BANNED_NAMES:
            yield f"{module.name}: a file is named after what it holds"


def slow_to_load(imports: list[Import]) -> Iterator[str]:
    """The library's `dataclass` writes all methods of a class when it is defined: 0.5 ms each."""
    for item in imports:
        if (
            item.target == "dataclasses.dataclass"
            and item.importer != "anyshape.support.lazy_dataclass"
        ):
            yield f"{item}: `anyshape.support.lazy_dataclass` has one that loads in less time"


def cycles(modules: dict[str, Module], imports: list[Import]) -> Iterator[str]:
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for item in imports:
        # `__getattr__` of a package runs long after the modules are loaded.
        if item.target in modules and item.function != "__getattr__":
            graph[item.importer].add(item.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # graphlib lists a cycle from the imported to the importing module.
        yield "import cycle: " + " -> ".join(reversed(error.args[1]))


def bare_todos(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        if "TODO" not in module.source:
            continue
        for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
            if token.type == tokenize.COMMENT and re.search(r"\bTODO\b(?!\(\d+\))", token.string):
                yield f"{module.name}:{token.start[0]}: TODO without an issue number, TODO(123)"


def violations(root: Path) -> list[str]:
    modules = read_package(root)
    names = set(modules)
    imports = [item for module in modules.values() for item in imports_of(module, names)]
    return [
        *unlisted(modules),
        *wrong_direction(imports),
        *torch_where_it_must_not_be(imports),
        *peers(modules, imports),
        *toolchains(imports),
        *inside_functions(modules, imports),
        *vague_names(modules),
        *slow_to_load(imports),
        *cycles(modules, imports),
        *bare_todos(modules),
    ]


# -- the package --------------------------------------------------------------------------------


def test_package_keeps_the_rules():
    assert (SOURCE / "anyshape" / "api.py").exists(), "the test looks in the wrong place"
    assert violations(SOURCE) == []


def loaded_by(module: str) -> set[str]:
    """Top-level packages in `sys.modules` of a fresh interpreter that imported `module`."""
    script = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("module", ["anyshape", *(f"anyshape.{part}" for part in TORCH_FREE)])
def test_import_is_light(module: str):
    loaded = loaded_by(module)
    assert "anyshape" in loaded
    assert loaded.isdisjoint({"torch", "sympy", "z3", "numpy"})


# -- the checker, on trees that break one rule each ---------------------------------------------

GOOD = {
    "__init__.py": (
        "from anyshape.errors import E\n"
        "def __getattr__(name):\n    from anyshape.api import compile\n    return compile\n"
    ),
    "errors.py": "class E(Exception): ...\n",
    "api.py": "import anyshape.capture.trace\nfrom anyshape.ops import views\n",
    "symbolic/__init__.py": "from anyshape.symbolic.expr import Expr\n",
    "symbolic/expr.py": "from anyshape.errors import E\nclass Expr: ...\n",
    "symbolic/facts.py": "from . import expr\nfrom .expr import Expr  # TODO(7): ranges\n",
    "ops/__init__.py": "",
    "ops/views.py": (
        "import torch\nfrom anyshape.symbolic import Expr\n"
        "def meta():\n    import torch._meta_registrations\n"
    ),
    "capture/__init__.py": "",
    "capture/trace.py": "import torch.fx\nimport torch.compiler\nfrom anyshape.ops import views\n",
    "runtime/__init__.py": "",
    "runtime/build.py": "def build():\n    import llvmlite.binding\n    from triton import jit\n",
}

BAD = [
    # direction
    ("errors.py", "import anyshape.symbolic", "`errors` may not import `symbolic`"),
    ("symbolic/expr.py", "from anyshape.ops import views", "`symbolic` may not import `ops`"),
    ("symbolic/expr.py", "from ..ops.views import meta", "`symbolic` may not import `ops`"),
    ("symbolic/expr.py", "from anyshape import ops", "`symbolic` may not import `ops`"),
    ("symbolic/expr.py", "from anyshape import E", "`symbolic` may not import `__init__`"),
    ("runtime/build.py", "import anyshape.capture.trace", "`runtime` may not import `capture`"),
    ("capture/trace.py", "from .. import runtime", "`capture` may not import `runtime`"),
    ("errors.py", "import anyshape.config", "`errors` may not import `config`"),
    ("ops/views.py", "import anyshape.guards.emit", "`ops` may not import `guards`"),
    ("helpers/text.py", "", "anyshape.helpers has no place"),
    ("helpers.py", "", "anyshape.helpers has no place"),
    # torch
    ("symbolic/expr.py", "import torch", "symbolic.expr must load without torch"),
    ("symbolic/expr.py", "from torch import SymInt", "symbolic.expr must load without torch"),
    (
        "symbolic/expr.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
        "symbolic.expr must load without torch",
    ),
    ("explain/report/html.py", "import anyshape.ops.views", "report.html must load without torch"),
    # peers
    ("api.py", "import torch._dynamo", "imports torch._dynamo, a peer"),
    ("api.py", "from torch._dynamo.config import x", "imports torch._dynamo.config.x, a peer"),
    ("api.py", "from torch import _inductor", "imports torch._inductor, a peer"),
    ("api.py", "from torch import export as e", "imports torch.export, a peer"),
    ("api.py", "from torch._subclasses import FakeTensorMode", "a peer"),
    ("api.py", "import sympy.core", "imports sympy.core, a peer"),
    (
        "api.py",
        "import importlib\nimportlib.import_module('torch._dynamo')",
        "torch._dynamo, a peer",
    ),
    ("api.py", "m = __import__('sympy')", "imports sympy, a peer"),
    ("api.py", "import torch\ntorch._dynamo.reset()", "uses torch._dynamo, a peer"),
    ("api.py", "import torch\n@torch.compile\ndef f(): ...", "uses torch.compile, a peer"),
    # toolchains
    ("codegen/gpu.py", "def f():\n    import triton", "imports triton, which belongs in runtime"),
    ("runtime/build.py", "import llvmlite.binding", "llvmlite.binding at the top of the module"),
    # imports inside functions
    ("api.py", "def f():\n    import json", "imports json inside `f`"),
    ("api.py", "class C:\n    def f(self):\n        from json import loads", "inside `f`"),
    ("api.py", "def __getattr__(name):\n    import json", "inside `__getattr__`"),
    ("api.py", "def f():\n    import torch._meta_registrations", "inside `f`"),
    ("symbolic/expr.py", "f = lambda: __import__('json')", "imports json inside `<lambda>`"),
    # names, cycles, notes
    ("api.py", "from dataclasses import dataclass", "`anyshape.support.lazy_dataclass` has one"),
    ("ops/utils.py", "", "anyshape.ops.utils: a file is named"),
    ("ops/common/__init__.py", "", "anyshape.ops.common: a file is named"),
    ("symbolic/expr.py", "import anyshape.symbolic.facts", "import cycle: "),
    ("symbolic/expr.py", "from anyshape.symbolic import Expr", "import cycle: "),
    ("api.py", "x = 1  # TODO: later", "TODO without an issue number"),
    ("api.py", "# TODO(someone): later", "TODO without an issue number"),
]


def write_package(root: Path, files: dict[str, str]) -> None:
    for name, source in files.items():
        path = root / "anyshape" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")


def test_a_good_tree_passes(tmp_path: Path):
    write_package(tmp_path, GOOD)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(("file", "source", "expected"), BAD)
def test_a_bad_tree_fails(tmp_path: Path, file: str, source: str, expected: str):
    write_package(tmp_path, GOOD | {file: source + "\n" + GOOD.get(file, "")})
    found = violations(tmp_path)
    assert any(expected in line for line in found), found


def test_a_cycle_is_told_in_import_order(tmp_path: Path):
    ring = {"a": "b", "b": "c", "c": "a"}
    files = {f"ops/{name}.py": f"import anyshape.ops.{after}" for name, after in ring.items()}
    write_package(tmp_path, GOOD | files)
    [line] = violations(tmp_path)
    told = [name[-1] for name in line.removeprefix("import cycle: ").split(" -> ")]
    assert len(told) == 4
    assert all(ring[name] == after for name, after in pairwise(told))
