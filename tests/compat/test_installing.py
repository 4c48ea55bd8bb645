"""What scripts use of PyTorch's compiler, with anyshape behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.scripts import python, run

HEAD = "import torch, sys, anyshape\n"

#: name -> a script, and what it prints
SCRIPTS: dict[str, tuple[str, str]] = {
    "compile": (
        """
@torch.compile
def f(x): return x * 2

@torch.compile(dynamic=True, fullgraph=True)
def g(x): return x * x.shape[0]

for size in (2, 3, 4):
    f(torch.rand(size)), g(torch.rand(size))
print(f.stats().graphs, g.stats().graphs, f(torch.ones(1)))
""",
        "2 1 tensor([2.])",
    ),
    "a module": (
        """
model = torch.nn.Linear(2, 2)
compiled = torch.compile(model)
compiled(torch.rand(3, 2))
print(compiled._orig_mod is model, list(compiled.state_dict()), compiled.stats().graphs)
""",
        "True ['weight', 'bias'] 1",
    ),
    "a module in place": (
        """
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
model.compile()
for size in (2, 3, 4):
    model(torch.rand(size, 2))
print(anyshape.stats().graphs, anyshape.stats().eager_calls)
""",
        "2 0",
    ),
    "training": (
        """
model = torch.compile(torch.nn.Linear(2, 2))
optimizer = torch.optim.Adam(model.parameters())
for size in (2, 3, 4):
    optimizer.zero_grad()
    model(torch.rand(size, 2)).sum().backward()
    optimizer.step()
print(model.stats().graphs, any(name.startswith("torch._dynamo.") and "anyshape" not in
    type(module).__module__ for name, module in sys.modules.items()))
""",
        "2 False",
    ),
    "disabled": (
        "f = lambda x: x\nprint(torch.compile(f, disable=True) is f)",
        "True",
    ),
    "backends": (
        """
seen = []
def backend(graph, inputs):
    seen.append(type(graph).__name__)
    return graph.forward
torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
torch.compile(lambda x: x + 1, backend="inductor")(torch.ones(1))
print(seen)
""",
        "['GraphModule']",
    ),
    "marks under both names": (
        """
def graphs(mark, *dims, **options):
    f = torch.compile(lambda x: x * 2)
    for size in (5, 6, 7):
        x = torch.rand(size, 3)
        mark(x, *dims, **options)
        f(x)
    return f.stats().graphs
d = torch._dynamo
print(graphs(d.mark_dynamic, 0), graphs(d.decorators.mark_dynamic, [0]),
      graphs(d.maybe_mark_dynamic, 0), graphs(d.mark_unbacked, 0), graphs(d.mark_static, 0),
      graphs(d.mark_dynamic, 0, min=2, max=10), graphs(d.decorators.mark_static))
""",
        "1 1 1 1 3 1 3",
    ),
    "settings": (
        """
from torch._dynamo import config
import torch._dynamo.config as again
print(config is again is torch._dynamo.config, config.automatic_dynamic_shapes)
with config.patch(automatic_dynamic_shapes=False):
    with config.patch("specialize_int", True), config.patch({"cache_size_limit": 3}):
        settings = anyshape.config
        print(settings.automatic_dynamic, settings.specialize_int, settings.recompile_limit)
print(anyshape.config.automatic_dynamic, anyshape.config.specialize_int)
torch._dynamo.config.error_on_recompile = True
print(anyshape.config.error_on_recompile)

@config.patch(capture_scalar_outputs=False)
def f():
    return anyshape.config.capture_scalar_outputs
print(f(), anyshape.config.capture_scalar_outputs)
""",
        "True True\nFalse True 3\nTrue False\nTrue\nFalse True",
    ),
    "settings of shapes": (
        """
import torch.fx.experimental._config as shapes
from torch.fx.experimental import _config
print(shapes is _config, shapes.use_duck_shape, shapes.backed_size_oblivious)
with shapes.patch(use_duck_shape=True, backed_size_oblivious=False):
    print(anyshape.config.duck_shape, anyshape.config.backed_size_oblivious)
print(shapes.translation_validation)
torch.compiler.config.dynamic_sources = "L['x']"
print(anyshape.config.dynamic_sources)
""",
        "True False True\nTrue False\nFalse\nL['x']",
    ),
    "reset": (
        """
f = torch.compile(lambda x: x * 2)
f(torch.rand(3))
torch._dynamo.reset()
print(f.stats().graphs)
f(torch.rand(3))
torch.compiler.reset()
print(f.stats().graphs)
""",
        "0\n0",
    ),
    "in compiled code": (
        """
@torch.compiler.disable
def g(x): return x * 2

@torch.compile
def f(x):
    torch._dynamo.graph_break()
    if torch.compiler.is_compiling() and torch._dynamo.is_compiling():
        x = x + 1
    return g(x)
print(f(torch.zeros(2)), f.stats().graphs, f.stats().eager_calls)
""",
        "tensor([2., 2.]) 1 0",
    ),
    "modules of torch below a stand-in": (
        """
from torch._dynamo.testing import CompileCounter
import torch._dynamo.utils
counter = CompileCounter()
f = torch.compile(lambda x: x + 1, backend=counter, dynamic=False)
for size in (2, 3, 4):
    f(torch.rand(size))
print(counter.frame_count, torch._dynamo.utils.counters is not None, torch._dynamo.mark_dynamic)
""".replace(", torch._dynamo.mark_dynamic)", ",\n      torch._dynamo.mark_dynamic.__module__)"),
        "3 True anyshape.compat.compiling",
    ),
    "explain": (
        """
said = torch._dynamo.explain(lambda x: x + 1)(torch.rand(2))
print(type(said).__name__)
""",
        "Explanation",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(tmp_path: Path, name: str):
    source, printed = SCRIPTS[name]
    ran = run(tmp_path, HEAD + source)
    assert (ran.status, ran.out.strip()) == (0, printed)
    # Modules of torch are loaded, and count nothing of what anyshape does.
    assert ran.log == "" or ran.log.endswith("does: torch._dynamo.utils\n")


def test_what_is_not_mapped_is_named_once(tmp_path: Path):
    source = """
torch._dynamo.config.accumulated_recompile_limit = 5
torch._dynamo.config.accumulated_recompile_limit = 6
torch._logging.set_logs(aot_graphs=True, graph_breaks=True)
f = torch.compile(lambda x: x, mode="reduce-overhead", options={"trace.enabled": True})
f(torch.rand(2))
"""
    ran = run(tmp_path, HEAD + source, TORCH_LOGS="+inductor,recompiles")
    assert ran.status == 0
    (line,) = [line for line in ran.log.splitlines() if "not mapped" in line]
    assert line.endswith(
        "TORCH_LOGS=inductor, torch._dynamo.config.accumulated_recompile_limit,"
        " torch._logging.set_logs(aot_graphs=...), torch.compile(mode=...),"
        " torch.compile(options=...)"
    )


def test_install_from_a_program(tmp_path: Path):
    source = """
import anyshape.compat
anyshape.compat.install()
anyshape.compat.install()
f = torch.compile(lambda x: x * 2)
f(torch.rand(2))
print(type(f).__module__, anyshape.compat.not_mapped())
"""
    trace = tmp_path / "trace"
    ran = python(tmp_path, HEAD + source, TORCH_LOGS="graph_code", TORCH_TRACE=str(trace))
    assert (ran.status, ran.out.strip()) == (0, "anyshape.api []")
    assert "TRACED GRAPH" in ran.log
    (events,) = trace.glob("anyshape_events_*")
    assert '"event": "run_count"' in events.read_text(encoding="utf-8")


def test_disabled_from_outside(tmp_path: Path):
    source = "f = lambda x: x\nprint(torch.compile(f) is f)\n"
    assert run(tmp_path, HEAD + source, TORCH_COMPILE_DISABLE="1").out == "True\n"
