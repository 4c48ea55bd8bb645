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
theirs = {f"_orig_mod.{name}": value + 1 for name, value in compiled.state_dict().items()}
print(compiled.load_state_dict(theirs), torch.equal(model.weight, theirs["_orig_mod.weight"]))
""",
        "True ['weight', 'bias'] 1\n<All keys matched successfully> True",
    ),
    "a module whose original is set to itself": (
        """
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
compiled = torch.compile(model)
def check(what):
    assert [name for name, _ in compiled.named_modules()] == ["", "0"], what
    assert list(compiled.state_dict()) == ["0.weight", "0.bias"], what
    assert compiled.eval().train().cpu() is compiled, what
    inner, steps = compiled, 0
    while hasattr(inner, "_orig_mod"):
        inner, steps = inner._orig_mod, steps + 1
    assert (inner, steps) == (model, 1), what
check("before")
compiled._orig_mod = compiled._orig_mod
check("the original")
compiled._orig_mod = compiled
check("itself")
setattr(compiled, "_orig_mod", torch.compile(model))
check("another compiled one")
compiled.__dict__["_orig_mod"] = model
check("in the dictionary")
compiled.__dict__["_orig_mod"] = compiled
check("itself in the dictionary")
for size in (2, 3, 4):
    assert torch.equal(compiled(torch.ones(size, 2)), model(torch.ones(size, 2)))
for wrong in (None, 3):
    try:
        compiled._orig_mod = wrong
    except TypeError as error:
        print(error)
print(compiled.stats().graphs, type(compiled).__name__)
""",
        "_orig_mod takes a module, not None\n_orig_mod takes a module, not 3\n2 Sequential",
    ),
    "a module whose original is taken out of a wrapper": (
        """
import copy, pickle
class Wrapper(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, x): return self.module(x) + 1
class Net(torch.nn.Linear):
    def save(self): return list(self.state_dict())
net = Net(2, 2)
compiled = torch.compile(Wrapper(net))
@torch.compile
def step(x): return compiled(x) * 2
x = torch.ones(3, 2)
expected = net(x) + 1
compiled(x), step(x)
compiled._orig_mod = net
# As torch's own: attributes of the module, and calls of what was compiled.
is_compiled = isinstance(compiled, torch._dynamo.OptimizedModule)
print(compiled.save(), compiled._orig_mod is net, is_compiled)
print(*(torch.equal(compiled(x), expected) for _ in range(3)))
print(*(torch.equal(step(x), expected * 2) for _ in range(3)))
for copied in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
    print(type(copied).__name__, torch.equal(copied(x), net(x)))
compiled._orig_mod = compiled.__anyshape_original__()
print(list(compiled.state_dict()), torch.equal(compiled(x), expected))
hooked = []
net.register_forward_hook(lambda *_: hooked.append(1))
compiled._orig_mod = net
compiled(x), compiled(x)
print(len(hooked))
""",
        "['weight', 'bias'] True True\nTrue True True\nTrue True True\nNet True\nNet True\n"
        "['module.weight', 'module.bias'] True\n2",
    ),
    "other methods of a module": (
        """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def training_step(self, x, scale): return self.layer(x).sum() * scale
model = torch.compile(Net(), dynamic=True, fullgraph=True)
assert isinstance(model, torch._dynamo.OptimizedModule)
original = model._orig_mod
before = original.training_step
original.training_step = model.dynamo_ctx(original.training_step)
for size in (2, 3, 4):
    x = torch.ones(size, 2)
    assert torch.allclose(original.training_step(x, scale=3.0), before(x, 3.0))
print(original.training_step.stats().graphs, original.training_step.stats().eager_calls)
print(original.training_step._torchdynamo_orig_callable == before,
      model._torchdynamo_orig_callable is original)
""",
        "1 0\nTrue True",
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
    "an optimizer": (
        """
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
@torch.compile
def step(rate):
    for group in optimizer.param_groups: group["lr"] = rate
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
for rate in (0.1, 0.2, 0.3, 0.4, 0.5):
    optimizer.zero_grad()
    model(torch.rand(2, 2)).sum().backward()
    step(rate)
print(step.stats().in_parts, step.stats().boundaries)
""",
        "False 0",
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
@torch._dynamo.register_backend
def own(graph, inputs):
    return backend(graph, inputs)
torch.compile(lambda x: x + 1, backend="own")(torch.ones(1))
print(seen)
""",
        "['GraphModule', 'GraphModule']",
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
for _ in range(4): found = f(torch.zeros(2))
print(found, f.stats().graphs, f.stats().boundaries, f.stats().eager_calls)
""",
        "tensor([2., 2.]) 1 2 2",
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
    "stances": (
        """
x, y = torch.rand(2), torch.rand(3)
f = torch.compile(lambda x: x * 2)
def counts(): return f.stats().graphs, f.stats().eager_calls
with torch.compiler.set_stance("force_eager"):
    g = torch.compile(lambda x: x + 1)
    f(x), g(x)
print(counts(), g.stats().graphs)
f(x), g(x)
print(counts(), g.stats().graphs)
with torch.compiler.set_stance("fail_on_recompile"):
    f(x)
    try:
        f(y)
    except RuntimeError as error:
        print(error.code, "size mismatch" in str(error))
@torch.compiler.set_stance("eager_on_recompile")
def calls():
    f(x), f(y)
calls()
print(counts(), f.stats().hits)
torch.compiler.set_stance("eager_then_compile")
h = torch.compile(lambda x: x + 1)
h(x), h(x)
print(h.stats().graphs, h.stats().eager_calls)
torch.compiler.set_stance("default")
f(y)
print(counts())
""",
        "(0, 1) 0\n(1, 1) 1\nAS105 True\n(1, 2) 2\n1 1\n(2, 2)",
    ),
    "what torch.compiler has": (
        """
@torch.compiler.nested_compile_region
def region(x): return x + 1

@torch.compiler.allow_in_graph
def allowed(x): return x * 2

@torch.compiler.assume_constant_result
def constant(): return 3

@torch.compile
def f(x):
    return allowed(region(x)) * constant()
torch.compiler.cudagraph_mark_step_begin()
print(f(torch.zeros(2)), f.stats().graphs, "inductor" in torch.compiler.list_backends())
torch.compiler.set_default_backend("eager")
print(torch.compiler.get_default_backend(), torch.compile(lambda x: x)(torch.ones(1)))
module = torch.compile(torch.nn.Linear(1, 1))
print(isinstance(module, torch._dynamo.eval_frame.OptimizedModule),
      isinstance(module._orig_mod, torch._dynamo.OptimizedModule))
""",
        "tensor([6., 6.]) 1 True\neager tensor([1.])\nTrue False",
    ),
    "what torch compiles for itself": (
        """
f = lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
print(f(torch.ones(2)), torch.compile(f)(-torch.ones(2)), anyshape.stats().graphs > 0)
print(torch._dynamo.mark_dynamic.__module__, torch._dynamo.config.recompile_limit)
""",
        "tensor([2., 2.]) tensor([-2., -2.]) True\nanyshape.compat.compiling 64",
    ),
    "what scripts catch": (
        """
from torch._dynamo.exc import Unsupported
f = torch.compile(lambda x: x + 1, dynamic=False)
g = torch.compile(lambda x: (part for part in x), fullgraph=True)
with torch._dynamo.config.patch(error_on_recompile=True):
    for size in (2, 3):
        try:
            f(torch.rand(size))
        except torch._dynamo.exc.RecompileError as error:
            print(error.code)
try:
    g(torch.rand(2))
except Unsupported as error:
    print(error.code)
""",
        "AS105\nAS104",
    ),
    "export": (
        """
import io
from torch.export import export, Dim, dims, ShapesCollection, AdditionalInputs
class Foo(torch.nn.Module):
    def forward(self, x, y):
        return x + y[1:]
batch, other = dims("batch", "other", min=2, max=9)
x, y = torch.rand(4, 3), torch.rand(5, 3)
ep = torch.export.export(Foo(), (x, y), dynamic_shapes={"x": {0: batch}, "y": {0: batch + 1}},
    strict=True)
print(ep.constraints)
spec = ({0: Dim.DYNAMIC(min=2, max=9)}, {0: Dim.AUTO})
print(export(Foo(), (x, y), dynamic_shapes=spec).symbols.keys())
shapes = ShapesCollection()
shapes[x], shapes[y] = (Dim.AUTO, Dim.STATIC), {0: Dim.AUTO}
print(len(export(Foo(), (x, y), dynamic_shapes=shapes).symbols))
more = AdditionalInputs()
more.add((torch.rand(7, 3), torch.rand(8, 3)))
print(len(export(Foo(), (x, y), dynamic_shapes=more).symbols))
file = io.BytesIO()
torch.export.save(ep, file)
file.seek(0)
print(torch.export.load(file)(torch.ones(2, 3), torch.ones(3, 3)).sum())
torch.export.save(ep.to_torch(), "theirs.pt2")
print(type(torch.export.load("theirs.pt2")).__name__)
""",
        "('batch = x.shape[0], from 2 to 9', 'y.shape[0] = batch + 1')\n"
        "dict_keys(['dim_0', 's0'])\n2\n2\ntensor(12.)\nExportedProgram",
    ),
    "explain": (
        """
said = torch._dynamo.explain(lambda x: x + 1)(torch.rand(2))
print(said.graph_count, said.graph_break_count, said.op_count, said.entries[0].id)
""",
        "1 0 1 0/0",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(tmp_path: Path, name: str):
    source, printed = SCRIPTS[name]
    ran = run(tmp_path, HEAD + source)
    assert (ran.status, ran.out.strip()) == (0, printed)
    # Modules of torch are loaded, and count nothing of what anyshape does.
    assert ran.log == "" or ran.log.endswith("does: torch._dynamo.utils\n")


_TRAINED = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x): return self.layer(x)
    def training_step(self, x): return self.layer(x).sum()
def train(model, step, clears):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        step(torch.ones(3, 2)).sum().backward()
        optimizer.step()
        if clears: optimizer.zero_grad()
"""

#: what is done with a module, and whether it is told that the compiled one is never called
UNCALLED: dict[str, tuple[str, bool]] = {
    "another method": ("c = anyshape.compile(Net()); train(c, c.training_step, False)", True),
    "gradients that are gone": (
        "c = anyshape.compile(Net()); train(c, c.training_step, True)",
        True,
    ),
    "a module that is gone": (
        "def main(): c = anyshape.compile(Net()); train(c, c.training_step, True)\nmain()",
        True,
    ),
    "the original": ("n = Net(); c = anyshape.compile(n); train(n, n, True)", True),
    "itself": ("c = anyshape.compile(Net()); train(c, c, True)", False),
    "itself, in another": (
        "c = anyshape.compile(Net()); train(c, anyshape.compile(lambda x: c(x)), True)",
        False,
    ),
    "a compiled method": (
        "c = anyshape.compile(Net()); train(c, anyshape.compile(c.training_step), True)",
        False,
    ),
    "nothing": ("c = anyshape.compile(Net())", False),
    "before a reset": ("c = anyshape.compile(Net()); train(c, c, True); anyshape.reset()", False),
}


@pytest.mark.parametrize("name", UNCALLED)
def test_a_module_that_is_trained_and_never_called_is_told(tmp_path: Path, name: str):
    source, is_told = UNCALLED[name]
    ran = run(tmp_path, HEAD + _TRAINED + source)
    assert ran.status == 0
    assert ran.count("Net: compiled and never called") == is_told, ran.log
    assert not run(tmp_path, HEAD + _TRAINED + source, ANYSHAPE_REPORT_EAGER="0").log


def test_what_is_not_mapped_is_named_once(tmp_path: Path):
    source = """
torch._dynamo.config.accumulated_recompile_limit = 5
torch._dynamo.config.accumulated_recompile_limit = 6
torch._inductor.config.max_autotune_gemm = True
torch._logging.set_logs(perf_hints=True, graph_breaks=True)
torch.compile(lambda x: x, options={"max_autotune_gemm": True})(torch.rand(2))
torch.compile(lambda x: x, options={"trace.enabled": True})(torch.rand(2))
"""
    ran = run(tmp_path, HEAD + source, TORCH_LOGS="+inductor,recompiles")
    assert ran.status == 0
    (line,) = [line for line in ran.log.splitlines() if "not mapped" in line]
    assert line.endswith(
        "TORCH_LOGS=inductor, torch._dynamo.config.accumulated_recompile_limit,"
        " torch._inductor.config.max_autotune_gemm, torch._logging.set_logs(perf_hints=...),"
        " torch.compile(options=...)"
    )


MISTAKES = {
    'torch.compile(f, backend="inductr")': "did you mean 'inductor'?",
    'torch.compile(f, mode="reduce_overhead")': "did you mean 'reduce-overhead'?",
    'torch.compile(f, options={"max_autotun": True})': "did you mean 'max_autotune'?",
    'torch.compile(f, options={"triton.cudagraph": True})': "did you mean 'triton.cudagraphs'?",
    'torch.compile(f, mode="default", options={})': "one of the two",
    "torch.compile(f, dynamci=True)": "did you mean 'dynamic'?",
    'torch.compile(mode="fast")(f)': "the modes are",
    "torch._dynamo.config.recompile_limt = 3": "did you mean 'recompile_limit'?",
    "torch._dynamo.config.patch(verbos=True).__enter__()": "did you mean 'verbose'?",
    "torch._inductor.config.max_autotun = True": "did you mean 'max_autotune'?",
    'torch.compiler.set_stance("force_eagr")': "did you mean 'force_eager'?",
}


def test_mistakes_are_told(tmp_path: Path):
    lines = ["f = lambda x: x * 2"]
    for line in MISTAKES:
        lines += [
            "try:",
            f"    {line}",
            "except Exception as error:",
            "    print(*str(error).split())",
        ]
    lines += [
        "print(torch.compile(f, backend='tvm')(torch.ones(1)))",
        "print(torch.compile(f, backend='anyshape')(torch.ones(1)))",
        "print(torch.compile(f, options={'triton.cudagraphs': True}, fullgraph=1)(torch.ones(1)))",
    ]
    ran = run(tmp_path, HEAD + "\n".join(lines))
    *told, tvm, ours, option = ran.out.splitlines()
    assert [tvm, ours, option] == ["tensor([2.])"] * 3
    wrong = [line for line, said in zip(told, MISTAKES.values(), strict=True) if said not in line]
    assert not wrong
    assert "torch.compile(backend='tvm')" in ran.log


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


@pytest.mark.slow
def test_processes_that_the_program_starts(tmp_path: Path):
    source = """
import subprocess
import torch.multiprocessing

def work(rank):
    f = torch.compile(lambda x: x * 2)
    f(torch.rand(2))
    print("spawned", f.stats().graphs, flush=True)

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=1)
    of_torch = "import torch; print(torch.compile.__module__)"
    of_nothing = "import sys; print([name for name in sys.modules if name == 'anyshape.api'])"
    for program in (of_torch, of_nothing):
        subprocess.run([sys.executable, "-c", program])
"""
    ran = python(tmp_path, HEAD + source, "-m", "anyshape", "run")
    assert (ran.status, ran.log) == (0, "")
    assert ran.out.splitlines() == ["spawned 1", "anyshape.compat.compiling", "[]"]
