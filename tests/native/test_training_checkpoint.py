"""`torch.utils.checkpoint` in compiled functions: computed again in the backward, and not kept."""

from __future__ import annotations

import copy
import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

import anyshape
from anyshape.backends.native import small_graphs
from benchmarks.native.memory import allocator_peak

WIDTH: Final = 16
ROWS: Final = (5, 7, 1, 0, 33, 7)


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


class Block(nn.Module):
    def __init__(self, width: int = WIDTH, share: float = 0.0, in_place: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop, self.act = nn.Dropout(share), nn.ReLU(inplace=in_place)

    def forward(self, x: Tensor, scale: Any = 1.0) -> Tensor:
        return x + self.drop(self.down(self.act(self.up(self.norm(x))))) * scale


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.share = nn.Linear(WIDTH, 3 * WIDTH), 0.2

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(1, -1, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=self.share, is_causal=True)
        return x + found.transpose(1, 2).reshape(-1, WIDTH)


class Stack(nn.Module):
    """Layers, each called by checkpoint."""

    def __init__(self, make: Callable[[], nn.Module], **options: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(4))
        self.head, self.options = nn.Linear(WIDTH, 3), options

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, **self.options)
        return self.head(x)


class Sequence(Stack):
    def forward(self, x: Tensor) -> Tensor:
        reentrant = self.options["use_reentrant"]
        return self.head(checkpoint_sequential(list(self.layers), 2, x, use_reentrant=reentrant))


class Closure(Stack):
    """Functions that are made by each call, over tensors of the graph and sizes."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y, n = x * 2, x.size(0)

            def inner(x: Tensor, layer: nn.Module = layer, y: Tensor = y, n: int = n) -> Tensor:
                return layer(x).sin() * y / (n + 1)

            x = checkpoint(inner, x, **self.options)
        return self.head(x)


class Several(Stack):
    """What several results of a call have in common, and names of arguments."""

    def forward(self, x: Tensor) -> Tensor:
        def two(x: Tensor, layer: nn.Module, scale: float) -> tuple[Tensor, Tensor]:
            y = layer(x, scale)
            return y, y.exp()

        for layer in self.layers:
            x, more = checkpoint(two, x, layer, scale=0.5, **self.options)
            x = torch.tanh(x + more.sum(-1, keepdim=True) * x)
        return self.head(x)


class Nested(Stack):
    def forward(self, x: Tensor) -> Tensor:
        def outer(x: Tensor) -> Tensor:
            for layer in self.layers[:2]:
                x = checkpoint(layer, x, **self.options)
            return x.sin()

        return self.head(self.layers[2](checkpoint(outer, x, **self.options)))


DROPS: Final = functools.partial(Block, share=0.3)
MODELS: Final[dict[str, Callable[[], nn.Module]]] = {
    "blocks": lambda: Stack(Block, use_reentrant=False),
    "reentrant": lambda: Stack(Block, use_reentrant=True),
    "dropout": lambda: Stack(DROPS, use_reentrant=False),
    "dropout, reentrant": lambda: Stack(DROPS, use_reentrant=True),
    "in place": lambda: Stack(functools.partial(Block, in_place=True), use_reentrant=False),
    "attention": lambda: Stack(Attention, use_reentrant=False),
    "no check": lambda: Stack(DROPS, use_reentrant=False, determinism_check="none"),
    "no early stop": lambda: Stack(DROPS, use_reentrant=False, early_stop=False),
    "random state as it is": lambda: Stack(Block, use_reentrant=False, preserve_rng_state=False),
    "sequential": lambda: Sequence(DROPS, use_reentrant=False),
    "sequential, reentrant": lambda: Sequence(DROPS, use_reentrant=True),
    "closure": lambda: Closure(DROPS, use_reentrant=False),
    "several": lambda: Several(Block, use_reentrant=False),
    "nested": lambda: Nested(DROPS, use_reentrant=False),
}


def _step(run: Any, model: nn.Module, x: Tensor, draw: int) -> list[Any]:
    torch.manual_seed(draw)
    x = x.clone().requires_grad_()
    model.zero_grad()
    result = run(x)
    (result.square().sum() + result.sum()).backward()
    grads = [None if each.grad is None else each.grad.clone() for each in model.parameters()]
    return [
        result.detach(),
        x.grad,
        grads,
        torch.get_rng_state(),
        *map(torch.clone, model.buffers()),
    ]


def _compare(make: Callable[[], nn.Module], rows: Any = ROWS, **options: Any) -> Any:
    torch.manual_seed(0)
    eager = make()
    own = copy.deepcopy(eager)
    run: Any = anyshape.compile(own, dynamic=True, **options)
    for draw, n in enumerate(rows):
        x = torch.randn(n, WIDTH)
        expected = _step(eager, eager, x, draw)
        torch.testing.assert_close(_step(run, own, x, draw), expected, rtol=1e-3, atol=1e-5)
    return run


@pytest.mark.parametrize("name", MODELS)
def test_as_eager(name: str) -> None:
    # Of nothing, dropout gives what it is given: another graph.
    run = _compare(MODELS[name])
    stats = run.stats()
    assert not stats.eager_calls
    assert not stats.graph_breaks
    assert stats.graphs <= 2
    assert "recomputed" in str(run.explain())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_operator_by_operator(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", False)
    assert not _compare(MODELS[name], backend=backend).stats().eager_calls


def test_without_gradients_it_is_a_call() -> None:
    for name in ("blocks", "closure", "sequential"):
        model = MODELS[name]().eval()
        run: Any = anyshape.compile(model, dynamic=True, fullgraph=True)
        for n in ROWS:
            x = torch.randn(n, WIDTH)
            with torch.no_grad():
                torch.testing.assert_close(run(x), model(x))
        assert run.stats().graphs == 1


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ["blocks", "dropout", "reentrant", "sequential"])
def test_memory_is_that_of_eager_checkpoints(
    name: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", native)
    x = torch.randn(4096, WIDTH)
    peaks: list[int] = []
    kept: list[int] = []
    for compiles in (False, True, None):
        model: Any = MODELS[name]()
        if compiles is None:
            model.options = dict(model.options)
            monkeypatch.setattr(f"{__name__}.checkpoint", lambda f, *a, **_: f(*a))
            monkeypatch.setattr(
                f"{__name__}.checkpoint_sequential", lambda f, _, x, **__: nn.Sequential(*f)(x)
            )
        run: Any = anyshape.compile(model) if compiles else model
        for given in (x[:2], x[:3], x):
            run(given.requires_grad_()).sum().backward()
        model.zero_grad()
        results: list[Tensor] = []
        kept.append(allocator_peak(lambda r=run, o=results: o.append(r(x))))
        peaks.append(allocator_peak(lambda r=run: r(x).sum().backward()))
    for eager, own, plain in (peaks, kept):
        assert own <= 1.1 * eager, (peaks, kept)
        assert own < 0.8 * plain, (peaks, kept)


def test_memory_of_the_call_that_compiles() -> None:
    x = torch.randn(4096, WIDTH, requires_grad=True)
    peaks: list[int] = []
    for compiles in (False, True):
        model = MODELS["blocks"]()
        run: Any = anyshape.compile(model) if compiles else model
        peaks.append(allocator_peak(lambda r=run: r(x).sum().backward()))
    assert peaks[1] <= 1.3 * peaks[0], peaks


def test_tensors_of_the_call_that_compiles_are_let_go() -> None:
    run: Any = anyshape.compile(MODELS["closure"]())
    x = torch.randn(5, WIDTH, requires_grad=True)
    alive = weakref.ref(x)
    run(x).sum().backward()
    del x
    gc.collect()
    assert alive() is None


class Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.line = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(self.norm(x)).relu()


class Counting(Block):
    """Eager code does it once more in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor, scale: Any = 1.0) -> Tensor:
        self.seen += 1
        return super().forward(x)


class Noted(Block):
    calls = 0

    def forward(self, x: Tensor, scale: Any = 1.0) -> Tensor:
        self.calls += 1
        return super().forward(x)


@pytest.mark.parametrize("make", [Statistics, Counting, Noted])
def test_what_has_effects_is_torchs(make: Callable[[], nn.Module]) -> None:
    """Twice, since the backward calls it again; what is around it is compiled."""
    run = _compare(lambda: Stack(make, use_reentrant=False), (5, 7, 3, 5))
    assert run.stats().graph_breaks
    counts = [layer.calls for layer in run.layers if isinstance(layer, Noted)]
    assert counts in ([], [8] * 4)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class OwnGradient(Block):
    def forward(self, x: Tensor, scale: Any = 1.0) -> Tensor:
        return super().forward(Swish.apply(x))


class Counted(Block):
    def forward(self, x: Tensor, scale: Any = 1.0) -> Tensor:
        return super().forward(x) * (x > 0).sum().item()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Noted, "`checkpoint` calls a function with effects"),
        (OwnGradient, "by `return super().forward(Swish.apply(x))` at "),
        (Counted, "by `return super().forward(x) * (x > 0).sum().item()` at "),
    ],
)
def test_why_it_is_a_boundary(make: Callable[[], nn.Module], why: str) -> None:
    run = _compare(lambda: Stack(make, use_reentrant=False), (5, 7, 3, 5))
    assert why in str(run.explain())


def _matmuls_are_kept(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    is_product = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize(
    "options",
    [
        {
            "use_reentrant": False,
            "context_fn": functools.partial(
                create_selective_checkpoint_contexts, _matmuls_are_kept
            ),
        },
        {"use_reentrant": False, "preserve_rng_state": False, "determinism_check": "none"},
    ],
    ids=["selective", "other numbers"],
)
def test_what_cannot_be_held_is_a_boundary(options: Any) -> None:
    draws = "context_fn" not in options
    run = _compare(lambda: Stack(DROPS if draws else Block, **options), (5, 7, 3, 5))
    assert run.stats().graph_breaks
    assert run.stats().graphs


def test_errors_are_the_programs() -> None:
    def broken(x: Tensor) -> Tensor:
        if x.size(0) == 3:
            raise KeyError("three")
        return x.sin()

    def run(x: Tensor) -> Tensor:
        try:
            return checkpoint(broken, x, use_reentrant=False)
        except KeyError:
            return x.cos()

    compiled = anyshape.compile(run, dynamic=True)
    for n in (5, 3, 4, 3):
        x = torch.randn(n, requires_grad=True)
        torch.testing.assert_close(compiled(x), run(x))
    with pytest.raises(ValueError, match="Unexpected keyword"):
        anyshape.compile(lambda x: checkpoint(torch.sin, x, use_reentrant=True, out=None))(x)


def test_gradients_of_gradients_and_twice() -> None:
    model = MODELS["dropout"]()
    own = copy.deepcopy(model)
    run: Any = anyshape.compile(own, dynamic=True)
    for n in (4, 6, 6):
        found: list[Any] = []
        for each in (model, run):
            torch.manual_seed(n)
            x = torch.randn(n, WIDTH, requires_grad=True)
            result = each(x).sin().sum()
            (first,) = torch.autograd.grad(result, x, create_graph=True)
            (second,) = torch.autograd.grad(first.square().sum(), x, retain_graph=True)
            (again,) = torch.autograd.grad(result, x, retain_graph=True)
            found.append([first.detach(), second, again, torch.get_rng_state()])
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
def test_under_autocast() -> None:
    model = MODELS["blocks"]()
    own = copy.deepcopy(model)
    run: Any = anyshape.compile(own, dynamic=True)
    for n in (4, 6, 9):
        found: list[Any] = []
        for each, module in ((model, model), (run, own)):
            torch.manual_seed(n)
            x = torch.randn(n, WIDTH, requires_grad=True)
            module.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                result = each(x)
            result.float().square().sum().backward()
            found.append([result.detach(), x.grad, [p.grad for p in module.parameters()]])
        torch.testing.assert_close(*found, rtol=0.05, atol=0.05)
    assert not run.stats().eager_calls


SMALL: Final = {"vocab_size": 64, "use_cache": False}
TEXTS: Final[dict[str, Callable[[Any], nn.Module]]] = {
    "gpt2": lambda t: t.GPT2LMHeadModel(
        t.GPT2Config(n_embd=32, n_layer=3, n_head=2, n_positions=64, **SMALL)
    ),
    "llama": lambda t: t.LlamaForCausalLM(
        t.LlamaConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=2,
            **SMALL,
        )
    ),
    "bert": lambda t: t.BertForMaskedLM(
        t.BertConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=2,
            **SMALL,
        )
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_models_of_transformers(name: str, reentrant: bool) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    eager: Any = TEXTS[name](transformers).train()
    eager.gradient_checkpointing_enable({"use_reentrant": reentrant})
    own = copy.deepcopy(eager)
    run: Any = anyshape.compile(own, dynamic=True)
    for draw, size in enumerate(((2, 5), (3, 9), (1, 7), (2, 5))):
        ids = torch.randint(0, 64, size)
        found: list[Any] = []
        for call, model in ((eager, eager), (run, own)):
            torch.manual_seed(draw)
            model.zero_grad()
            result = call(input_ids=ids, labels=ids)
            result.loss.backward()
            grads = [each.grad for each in model.parameters()]
            found.append([result.loss.detach(), result.logits.detach(), grads])
            found[-1].append(torch.get_rng_state())
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)
    assert not run.stats().eager_calls
    assert not run.stats().graph_breaks
    assert run.stats().graphs <= 2
    assert "recomputed" in str(run.explain())


def test_a_gradient_is_required_twice() -> None:
    """What has a gradient stays in the graph, of which gradients do not end there."""

    def run(x: Tensor, w: Tensor) -> Tensor:
        return ((x * w).sin().requires_grad_(True) * w).requires_grad_()

    compiled = anyshape.compile(run, dynamic=True)
    for n in (3, 5, 0, 1):
        found: list[Any] = []
        for call in (run, compiled):
            x = torch.linspace(0, 1, n)
            w = torch.ones(n, requires_grad=True)
            call(x, w).sum().backward()
            found.append(w.grad)
        torch.testing.assert_close(*found)
    assert "no native code" not in str(compiled.explain())
    # Of tensors without one it is as before.
    x = torch.randn(3)
    result = anyshape.compile(lambda x: (x * 2).requires_grad_())(x)
    assert result.requires_grad
    assert result.is_leaf


def _doubled(x: Tensor) -> Tensor:
    return (x * 2).tanh() * x


def _of_a_tensor(x: Tensor) -> Tensor:
    y = x.sin() * x
    if x.sum() > 0:
        y = y * 2
    return checkpoint(_doubled, y, use_reentrant=False)


def _of_a_number(x: Tensor) -> Tensor:
    y, count = x * 2, int((x > 0).sum().item())
    if count > 4:
        y = y.exp()
    return checkpoint(lambda z: _doubled(z * count) + y, x.cos(), use_reentrant=False)


@pytest.mark.parametrize("run", [_of_a_tensor, _of_a_number])
def test_behind_a_decision_on_data(run: Callable[[Tensor], Tensor]) -> None:
    """The call that compiles has what an earlier graph hands on at hand in its backward, too."""
    compiled = anyshape.compile(run, dynamic=True)
    for n in (3, 5, 3, 0, 1, 7):
        found: list[Tensor | None] = []
        for call in (run, compiled):
            torch.manual_seed(n)
            x = torch.randn(n, 4, requires_grad=True)
            call(x).sum().backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)
