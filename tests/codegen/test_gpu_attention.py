"""Attention with gradients as on GPUs, without one: native calls of torch's kernels, forward and
backward, which are emulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.backends.native import (
    attention_variants,
    backend,
    cuda_graphs,
    paired_graphs,
    placed,
    small_graphs,
    source,
)
from anyshape.capture.record import result_metas
from anyshape.graph import attention_choice, attention_logsumexp
from anyshape.graph.materialize import Materialize
from anyshape.ops.families.attention_kernels import KERNELS
from tests.codegen.emulated_graphs import EmulatedDevice
from tests.codegen.test_gpu_host import Backend

WIDE = torch.linspace(-0.3, 0.3, 8 * 48).reshape(48, 8).requires_grad_()
NUMBERS = {name: number for number, name in KERNELS.items()}


class Emulated:
    """What torch would take, by the length of queries, and what was asked."""

    def __init__(self, kernel: str, at_one: int) -> None:
        self.kernel, self.at_one = NUMBERS[kernel], at_one
        self.asked: list[int] = []
        #: whether it was asked with a mask, and with a causal one
        self.masks: set[tuple[bool, bool]] = set()
        self.gpu = Backend()

    def choose(self, metas: Any, given: Any, values: Any) -> int:
        rows = metas[0].shape[2]
        size = rows if isinstance(rows, int) else rows_of(rows, values)
        self.asked.append(size)
        mask = metas[3]
        self.masks.add((mask is not None, given["is_causal"]))
        if mask is not None and mask.strides[-1] == 0:
            return 0
        return 0 if size == 0 else self.at_one if size == 1 else self.kernel


def rows_of(size: Any, values: Any) -> int:
    return attention_choice.evaluate(size, values)


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Emulated]:
    def made(kernel: str, at_one: int = 0) -> Emulated:
        own = Emulated(kernel, at_one)
        monkeypatch.setattr(anyshape.config, "native_training", True)
        monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")
        monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
        monkeypatch.setattr(Materialize, "on_gpu", property(lambda self: True))
        monkeypatch.setattr(source, "_check_externs", lambda segment, device: None)
        monkeypatch.setattr(result_metas, "WITH_MANY_KERNELS", {"cpu"})
        monkeypatch.setattr(attention_logsumexp, "_ON_CPU", ())
        monkeypatch.setattr(attention_choice, "DEVICES", ("cpu",))
        monkeypatch.setattr(attention_choice, "asked", own.choose)
        monkeypatch.setattr(attention_variants, "is_as_known", lambda *given: True)
        monkeypatch.setattr(backend, "segment_functions", lambda *given: own.gpu._function)
        return own

    return made


def _attention(x: Tensor, kind: str) -> Tensor:
    """Two layers. In groups, two heads of the query share the others'."""
    rows = x.shape[1]
    mask = None
    if kind == "masked":
        mask = (torch.arange(rows)[:, None] * 3 + torch.arange(rows)) % 5 != 1
    elif kind == "causal mask":
        mask = torch.arange(rows)[:, None] >= torch.arange(rows)
    elif kind == "added":
        mask = (torch.arange(rows) % 3).to(x.dtype).expand(x.shape[0], 1, rows, rows)
    for _ in range(2):
        parts = F.linear(x, WIDE.to(x.dtype)).split(16, -1)
        q, k, v = (each.reshape(len(x), rows, 2, 8).transpose(1, 2) for each in parts)
        if kind == "in order":
            q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        if kind == "groups":
            k, v = k[:, :1], v[:, :1]
        named = {"is_causal": kind == "causal", "enable_gqa": kind == "groups"}
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, **named)
        x = x + y.transpose(1, 2).reshape(len(x), rows, 16)[..., :8]
    return x


def _gradients(call: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    x = x.detach().requires_grad_()
    result = call(x)
    weight = torch.linspace(-1, 1, max(result.numel(), 1))[: result.numel()].view(result.shape)
    return [result.detach(), *torch.autograd.grad((result * weight).sum(), [x, WIDE])]


def _check(function: Callable[[Tensor], Tensor], compiled: Any, x: Tensor) -> None:
    close = 3e-2 if x.dtype is torch.bfloat16 else 1e-5
    for own, other in zip(_gradients(compiled, x), _gradients(function, x), strict=True):
        largest = float(other.abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(own, other, atol=close * largest, rtol=0)


KINDS = ("plain", "in order", "causal", "masked", "causal mask", "added", "groups")
#: What eager code does not take them for.
_NEVER = {("flash", "masked"), ("flash", "added")}
_CASES = [(k, kind) for k in NUMBERS for kind in KINDS if (k, kind) not in _NEVER]


@pytest.mark.parametrize(("kernel", "kind"), _CASES)
def test_kernel(kernel: str, kind: str, emulate: Callable[..., Emulated]) -> None:
    emulated = emulate(kernel)

    def function(x: Tensor) -> Tensor:
        return _attention(x, kind)

    dtype = torch.float32 if kernel == "efficient" else torch.bfloat16
    compiled = anyshape.compile(function, dynamic=True)
    for batch, rows in ((2, 5), (3, 8), (1, 33), (0, 4)):
        _check(function, compiled, torch.randn(batch, rows, 8).to(dtype))
    assert compiled.stats().graphs == 1
    assert emulated.asked
    if (kernel, kind) == ("efficient", "groups"):
        return  # by torch's autograd
    said = str(compiled.explain())
    assert "autograd does" not in said
    assert "torch is called for `attention" not in said


def test_other_kernels_at_other_sizes(emulate: Callable[..., Emulated]) -> None:
    """Each is asked for once, and so is that there is none."""
    emulated = emulate("efficient", at_one=NUMBERS["flash"])

    def function(x: Tensor) -> Tensor:
        return _attention(x, "plain")

    compiled = anyshape.compile(function, dynamic=True)
    rows = (5, 7, 1, 5, 1, 7, 0)
    for each in rows:
        _check(function, compiled, torch.randn(2, each, 8))
    assert compiled.stats().graphs == 1
    segments = len(emulated.gpu.gpus)
    asked = len(emulated.asked)
    for each in rows:
        _check(function, compiled, torch.randn(2, each, 8))
    assert (segments, asked) == (len(emulated.gpu.gpus), len(emulated.asked))


def test_switches_of_torch(emulate: Callable[..., Emulated]) -> None:
    """What a program allows is not what it was: torch is asked again."""
    emulated = emulate("efficient")

    def function(x: Tensor) -> Tensor:
        return _attention(x, "plain")

    compiled = anyshape.compile(function, dynamic=True)
    x = torch.randn(2, 5, 8)
    _check(function, compiled, x)
    _check(function, compiled, x)
    asked = len(emulated.asked)
    was = torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(not was)
    try:
        emulated.kernel = NUMBERS["flash"]
        _check(function, compiled, x)
    finally:
        torch.backends.cuda.enable_flash_sdp(was)
    assert len(emulated.asked) > asked


def test_dropout_is_torchs(emulate: Callable[..., Emulated]) -> None:
    """Which draws numbers in the order of the program."""
    emulated = emulate("efficient")

    def function(x: Tensor) -> Tensor:
        heads = F.linear(x, WIDE[:16]).view(len(x), -1, 2, 8).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.5)
        return F.dropout(y.transpose(1, 2).reshape(*x.shape[:2], 16), 0.3)

    compiled = anyshape.compile(function, dynamic=True)
    for rows in (5, 8, 3):
        x = torch.randn(2, rows, 8)
        torch.manual_seed(rows)
        ours = _gradients(compiled, x)
        torch.manual_seed(rows)
        torch.testing.assert_close(ours, _gradients(function, x))
    assert not emulated.asked


def test_asking_takes_no_memory() -> None:
    """Tensors of a terabyte."""
    found: list[int] = []

    def function(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x).sin()

    def kept(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        from anyshape.ops.node_meta import FACTS

        for call in calls(graph.graph, graph.meta[FACTS]):
            rows = call.given["query"].shape[2].symbols
            values = {each: 1 << 36 if each in rows else 8 for each in call.symbols}
            found.append(attention_choice.asked(call.metas, call.given, values))
        return graph.forward

    def calls(graph: torch.fx.Graph, facts: Any) -> list[attention_choice.AttentionCall]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention_choice, "DEVICES", ("cpu",))
            return attention_choice.attention_calls(graph, facts)

    compiled = anyshape.compile(function, backend=kept, dynamic=True)
    compiled(torch.randn(1, 1, 5, 8, requires_grad=True))
    assert found == [1]


@pytest.mark.parametrize("kernel", NUMBERS)
def test_heads_that_are_given(kernel: str, emulate: Callable[..., Emulated]) -> None:
    emulate(kernel)

    def function(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(-1, (3, 2, 8)).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).sin() * WIDE.square().sum()

    compiled = anyshape.compile(function, dynamic=True)
    for rows in (5, 9, 12):
        _check(function, compiled, torch.randn(2, rows, 48))


# -- masks of sizes alone --------------------------------------------------------------------------

Mask = Callable[[Tensor, int, int], Any]
MINUS = float("-inf")


def _rows(n: int) -> Tensor:
    return torch.arange(n)[:, None]


def _shown(x: Tensor, b: int, n: int) -> Tensor:
    """As transformers makes it: of one column, stretched."""
    return ((torch.arange(n) + 0)[None, None, :, None] >= 0).expand(b, -1, n, n)


def _packed(x: Tensor, b: int, n: int) -> Tensor:
    """Of several sequences in a row, of which there is one."""
    positions = (torch.arange(n) + 0).unsqueeze(0).expand(b, -1)
    starts = torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1
    number = starts.cumsum(-1)
    batch = torch.arange(b)[:, None, None, None]
    rows, columns = torch.arange(n)[None, None, :, None], torch.arange(n)[None, None, None, :]
    return (columns <= rows) & (number[batch, rows] == number[batch, columns])


SHOWN: dict[str, Mask] = {
    "stretched": _shown,
    "stretched after all": lambda x, b, n: torch.ones(n, 1, dtype=torch.bool).expand(n, n),
    "of a tensor's sizes": lambda x, b, n: torch.ones_like(x[:, :, :1]).bool()[:, None],
    "added": lambda x, b, n: torch.zeros(n, n, dtype=x.dtype),
    "of a condition": lambda x, b, n: torch.where(_rows(n) < n, 0.0, MINUS).to(x.dtype),
}
CAUSAL: dict[str, Mask] = {
    "compared": lambda x, b, n: torch.arange(n) <= _rows(n),
    "tril": lambda x, b, n: (
        torch.ones(n, n, dtype=torch.bool).tril()[None, None].expand(b, 1, n, n)
    ),
    "packed": _packed,
    "in place": lambda x, b, n: torch.full((n, n), MINUS, dtype=x.dtype).triu_(1),
}
HIDING: dict[str, Mask] = {
    "the first hidden": lambda x, b, n: (_rows(n) > 0).expand(b, 1, n, n) | (torch.arange(n) < 1),
    "by data": lambda x, b, n: (x[:, None, :, :1] < 99).expand(b, 1, n, n),
    "causal, by data": lambda x, b, n: (
        torch.ones(n, n, dtype=torch.bool).tril() & (x[:, None, :, 0, None] < 99)
    ),
    "written to": lambda x, b, n: _with_one_hidden(n),
    "nearly nothing": lambda x, b, n: torch.full((n, n), 0.5, dtype=x.dtype),
}


def _with_one_hidden(n: int) -> Tensor:
    mask = torch.ones(n, n, dtype=torch.bool)
    mask[:, -1:] = torch.arange(n)[:, None] < 1
    return mask


def _masked(mask: Mask, x: Tensor, layers: int = 2, **named: Any) -> Tensor:
    rows = x.shape[1]
    made = mask(x, x.shape[0], rows)
    for _ in range(layers):
        parts = F.linear(x, WIDE.to(x.dtype)).split(16, -1)
        q, k, v = (each.reshape(len(x), rows, 2, 8).transpose(1, 2) for each in parts)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=made, **named)
        x = x + y.transpose(1, 2).reshape(len(x), rows, 16)[..., :8]
    return x


_KNOWN = [("efficient", name) for name in (*SHOWN, *CAUSAL)]
_KNOWN += [("flash", "stretched"), ("flash", "tril")]


@pytest.mark.parametrize(("kernel", "name"), _KNOWN)
def test_known_masks(kernel: str, name: str, emulate: Callable[..., Emulated]) -> None:
    """Torch is asked without them, and computes nothing of them."""
    emulated = emulate(kernel)

    def function(x: Tensor) -> Tensor:
        return _masked((SHOWN | CAUSAL)[name], x, scale=0.3)

    dtype = torch.float32 if kernel == "efficient" else torch.bfloat16
    compiled = anyshape.compile(function, dynamic=True)
    for batch, rows in ((2, 5), (1, 33), (0, 4), (2, 1)):
        _check(function, compiled, torch.randn(batch, rows, 8).to(dtype))
    assert emulated.masks == {(False, name in CAUSAL)}
    said = str(compiled.explain())
    assert "autograd does" not in said
    assert "torch is called for" not in said


@pytest.mark.parametrize("name", HIDING)
def test_other_masks_stay(name: str, emulate: Callable[..., Emulated]) -> None:
    emulated = emulate("efficient")

    def function(x: Tensor) -> Tensor:
        return _masked(HIDING[name], x)

    compiled = anyshape.compile(function, dynamic=True)
    for batch, rows in ((2, 5), (1, 9)):
        _check(function, compiled, torch.randn(batch, rows, 8))
    assert emulated.masks == {(True, False)}


@pytest.mark.parametrize("name", ["stretched", "tril"])
def test_known_masks_are_recorded(
    name: str, emulate: Callable[..., Emulated], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pairs of CUDA graphs, which steps of torch's autograd are not."""
    emulate("efficient")
    device = EmulatedDevice()
    monkeypatch.setattr(backend, "_is_by_shape", lambda graph, _: placed.wants_cuda_graphs(graph))
    monkeypatch.setattr(cuda_graphs, "_why_not_on", lambda devices: "")
    for module in (cuda_graphs, paired_graphs):
        monkeypatch.setattr(module, "graph_device", lambda _: device)

    def function(x: Tensor) -> Tensor:
        return _masked((SHOWN | CAUSAL)[name], x)

    compiled = anyshape.compile(function, dynamic=True, mode="reduce-overhead")
    for _ in range(6):
        for rows in (5, 8):
            _check(function, compiled, torch.randn(2, rows, 8))
    (line,) = [line for line in str(compiled.explain()).splitlines() if "CUDA graphs" in line]
    assert "CUDA graphs: 2 shapes" in line
    assert "replayed 0 times" not in line
