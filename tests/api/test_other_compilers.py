"""Programs that call torch's own compiler, captured: what it has compiled is followed as it is."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn

import anyshape

compiled: Any = functools.partial(torch.compile, backend="eager")
disabled: Any = torch.compiler.disable


def double(x: Tensor, by: float = 2.0) -> Tensor:
    return x.sin() * by


@compiled
def decorated(x: Tensor) -> Tensor:
    return x * 2 + x.size(0)


class Program:
    def __init__(self) -> None:
        self.by = 3.0

    @compiled
    def method(self, x: Tensor) -> Tensor:
        return x * self.by

    def plain(self, x: Tensor) -> Tensor:
        return x - self.by

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.by


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner: Any = compiled(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).sum(-1)


program = Program()
outer = Outer()
outside = compiled(double)
bound = compiled(program.plain)
instance = compiled(program)


def made_inside(x: Tensor) -> Tensor:
    inner: Any = torch.compile(lambda y: y * x.size(0), dynamic=True, backend="eager")
    decorate: Any = torch.compile(backend="eager")
    return inner(x) + decorate(double)(x, by=0.5)


def marked(x: Tensor) -> Tensor:
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    torch._dynamo.mark_static(x, 1)
    return x * 2


PROGRAMS: Final[tuple[Callable[[Tensor], Tensor], ...]] = (
    lambda x: outside(x) + outside(x, by=4.0),
    lambda x: decorated(x).cos(),
    lambda x: program.method(x) + bound(x) + instance(x),
    outer,
    made_inside,
    marked,
)


@pytest.mark.parametrize("run", PROGRAMS, ids=range(len(PROGRAMS)))
def test_one_graph(run: Any) -> None:
    # What torch's compiler loads when it is used first may change what is guarded.
    disabled(run)(torch.randn(3, 3))
    mine: Any = anyshape.compile(run, dynamic=True, fullgraph=True)
    for n in (2, 5, 0, 1, 7, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(mine(x), disabled(run)(x))
    assert mine.stats().graphs == 1, mine.explain()


def test_what_is_behind_may_change() -> None:
    def run(x: Tensor) -> Tensor:
        return program.method(x)

    mine, own = anyshape.compile(run), Outer()
    module: Any = anyshape.compile(own, dynamic=True)
    x = torch.randn(4, 3)
    try:
        for program.by in (3.0, 5.0):
            torch.testing.assert_close(mine(x), x * program.by)
    finally:
        program.by = 3.0
    first = module(x)
    torch.testing.assert_close(module(x), first)
    own.inner._modules["_orig_mod"] = nn.Linear(3, 2)
    torch.testing.assert_close(module(x), own.inner._orig_mod(x).sum(-1))
    seen: list[int] = []
    own.inner.register_forward_hook(lambda *_: seen.append(1))
    module(x)
    module(x)
    assert len(seen) == 2


def test_disabled_functions_are_boundaries() -> None:
    seen: list[int] = []

    @disabled
    def apart(x: Tensor) -> Tensor:
        seen.append(x.size(0))
        return x.sin()

    def run(x: Tensor) -> Tensor:
        return (apart(x * 2) + 1).cos()

    mine = anyshape.compile(run, dynamic=True)
    for n in (2, 3, 5, 1):
        x = torch.randn(n, 3)
        torch.testing.assert_close(mine(x), ((x * 2).sin() + 1).cos())
    assert seen == [2, 3, 5, 1]
    assert mine.stats().graphs
    assert mine.stats().graph_breaks


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    settings = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        use_cache=False,
        attn_implementation="flex_attention",
    )
    model = transformers.LlamaForCausalLM(settings).eval()
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("sdpa")
    mine: Any = anyshape.compile(model, dynamic=True)
    with torch.no_grad():
        for size in ((2, 5), (3, 7), (2, 130), (2, 5)):
            ids = torch.randint(0, 64, size)
            found, expected = mine(input_ids=ids).logits, eager(input_ids=ids).logits
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert mine.stats().graphs == 1
    assert not mine.stats().graph_breaks
