"""Whole graphs by the host code for GPUs, without one: tensors are the CPU's, kernels are emulated
thread by thread, and the driver is a function of Python."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.backends.eager import run_graph
from anyshape.backends.native import cuda_segment, source
from anyshape.backends.native.python_host import python_host
from anyshape.backends.native.source import gpu_source_of
from anyshape.capture.record import result_metas
from anyshape.codegen.nvptx.choice import USUAL, GpuChoice
from anyshape.codegen.nvptx.launch import TABLE, TABLE_NAME
from anyshape.codegen.nvptx.module import functions_of, module_text, nvptx_target
from anyshape.graph import lowering
from anyshape.graph.aliasing import Foreign
from anyshape.graph.lowered import lowered
from anyshape.graph.lowering import Lowering
from anyshape.graph.materialize import Materialize
from anyshape.loops import expr
from anyshape.loops.canonical import own_names
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Launch, Segment
from anyshape.loops.text import segment_text
from anyshape.runtime.cuda.code import GpuTarget
from anyshape.runtime.loader.build import build, disk_cache
from anyshape.runtime.loader.errors import NativeFailed
from anyshape.runtime.loader.host_target import host_target
from anyshape.runtime.loader.load import python_function
from anyshape.support.lazy_dataclass import replace
from tests.codegen.gpu_emulator import Gpu, emulated_abi
from tests.gpu.test_bad_cases import SMALL


class Backend:
    """A backend of `anyshape.compile` that emulates a GPU."""

    def __init__(
        self, fails: int = 0, choice: GpuChoice = USUAL, products: int | None = None
    ) -> None:
        self._choice = choice
        #: the head of plans of products, if these are asked of a library
        self._products = products
        self.gpus: list[Gpu] = []
        self.functions: list[Callable[..., Any]] = []
        self.segments: list[Segment] = []
        self.called: list[str] = []
        self._fails = fails

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        with expr.fresh_scope():
            plan, made = lowered(graph)
            self.called += plan.called
            assert any(isinstance(part, Segment) for part in made.parts)
            return python_host(made, self._function, run_graph(graph, examples)).run

    def _function(self, segment: Segment) -> Callable[..., Any]:
        return self.made(own_names(segment), self._choice)

    def made(self, segment: Segment, choice: GpuChoice) -> Callable[..., Any]:
        self.segments.append(segment)
        counts: dict[Kernel, tuple[int, int, int]] = {}
        for step in segment.steps:
            if isinstance(step, Launch):
                own = (len(step.buffers), len(step.sizes), len(step.numbers))
                counts[step.kernel] = own
        gpu = Gpu(
            list(counts.items()), fails=self._fails, choice=choice, products=self._products or 0
        )
        self.gpus.append(gpu)
        rules = {
            kernel: (own, counts[kernel]) for kernel, own in zip(counts, gpu.rules, strict=True)
        }
        abi = replace(emulated_abi(), products=self._products is not None)
        source = gpu_source_of(segment, rules, abi)
        built = build(source, host_target(disk_cache()))
        self.functions.append(python_function(built, segment, gpu.helpers()))
        return self.functions[-1]

    @property
    def launches(self) -> int:
        return sum(len(gpu.started) for gpu in self.gpus)


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Materialize, "on_gpu", property(lambda self: True))


W = torch.linspace(-1, 1, 12 * 12).reshape(12, 12)
B = torch.linspace(0, 1, 12)


def _stack(x: Tensor) -> Tensor:
    for _ in range(4):
        x = x + F.gelu(F.linear(F.layer_norm(x, (12,)), W, B))
    return x


def _written(x: Tensor) -> Tensor:
    y = x.clone()
    y.add_(1)
    y[1:] *= 2
    return y


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "flat": lambda x: (x.sin() * 2 + 1).exp(),
    "rows": lambda x: F.gelu(F.layer_norm(x, (12,))).softmax(-1),
    "product": lambda x: F.linear(x, W, B).relu(),
    "product without a bias": lambda x: (x @ W).tanh() + x,
    "a stack": _stack,
    "several": lambda x: (x + 1, x.sum(-1), x.amax(-1, keepdim=True) - x),
    "from one to the next": lambda x: ((x.softmax(-1) @ W).softmax(-1) @ W).softmax(-1),
    "written": _written,
    "turned halves": lambda x: (
        torch.cat((-x[:, x.shape[1] // 3 :], x[:, : x.shape[1] // 3]), 1) * x
    ),
    "joined and padded": lambda x: F.pad(torch.cat((x[:, :8], x), 1), (4, 8)).sin(),
    "halves": lambda x: (x.bfloat16() * 2).float().sum(-1),
    "integers": lambda x: ((x * 10).int() % 3).float(),
    "everything": lambda x: (x.sum(), F.mse_loss(x, x * 2), x / x.norm(), x.mean() + x),
    "a loss": lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % 12),
    "indexed": lambda x: x[torch.arange(x.shape[0]) % 2],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function = PROGRAMS[name]
    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (3, 8, 2, 5):
            x = torch.randn(rows, 12)
            want, got = function(x), compiled(x)
            torch.testing.assert_close(got, want)
    assert compiled.stats().graphs == 1
    assert backend.launches >= 3, "all calls but the first, which captures"


OTHER_PLANS = (
    GpuChoice(access=8, threads=128, held=8, each=4, share=1),
    GpuChoice(access=32, threads=512, held=32, each=16, share=0),
    GpuChoice(held=0, each=2, share=1),
)


@pytest.mark.parametrize("choice", OTHER_PLANS, ids=str)
@pytest.mark.parametrize("name", ["flat", "rows", "several", "halves", "everything"])
def test_program_with_other_plans(name: str, choice: GpuChoice) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True, backend=Backend(choice=choice))
    with torch.no_grad():
        for rows in (3, 2, 5):
            x = torch.randn(rows, 12)
            torch.testing.assert_close(compiled(x), function(x))


def test_products_are_called_in_the_same_foreign_call() -> None:
    backend = Backend()
    with torch.no_grad():
        anyshape.compile(_stack, dynamic=True, backend=backend)(torch.randn(3, 12))
    assert len(backend.gpus) == 1
    assert not backend.called


def test_a_kernel_behind_another_begins_early() -> None:
    """And waits for it. What is behind a call of torch is started as always."""

    def function(x: Tensor) -> Tensor:
        y = (x.softmax(-1) * 2).cumsum(0).softmax(0)
        y = (y @ W).softmax(-1).cumsum(0)
        return y + y.sum()

    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (3, 5, 0, 40):
            x = torch.randn(rows, 12)
            torch.testing.assert_close(compiled(x), function(x))
    (gpu,) = backend.gpus
    early = [each.early for each in gpu.started if not each.together]
    assert early.count(True) > early.count(False) > 0
    names = {each.name for each in gpu.started if each.early}
    assert len(names) > 1


def test_older_gpus_have_no_such_kernels() -> None:
    backend = Backend()
    anyshape.compile(lambda x: x.softmax(-1) * 2, dynamic=True, backend=backend)(torch.randn(3, 12))
    launches = [step for segment in backend.segments for step in segment.steps]
    for step in launches:
        assert isinstance(step, Launch)
        counts = len(step.buffers), len(step.sizes), len(step.numbers)
        for each in functions_of("kernel", step.kernel):
            for capability, waits in (((8, 9), False), ((9, 0), True), ((12, 0), True)):
                text = module_text(each, counts, nvptx_target(capability, 78))
                assert ("griddepcontrol.wait" in text) == waits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8])
def test_transposes(dtype: torch.dtype) -> None:
    """By tiles, of which some are not full, and rows that are no multiple of a vector."""
    backend = Backend()
    compiled = anyshape.compile(lambda x, y: x * 2 + y.mT, dynamic=True, backend=backend)
    for shape in ((2, 64, 100), (1, 65, 67), (3, 130, 68), (2, 1, 9), (1, 64, 64)):
        x, y = (torch.randn(shape) * 9, torch.randn(shape).mT.contiguous() * 9)
        x, y = x.abs().to(dtype), y.abs().to(dtype)
        torch.testing.assert_close(compiled(x, y), x * 2 + y.mT)
    names = {each.name for gpu in backend.gpus for each in gpu.started}
    assert any(each.block == (256, 1) for gpu in backend.gpus for each in gpu.started)
    assert len(names) == 2, "whole vectors, and single elements"


FLOAT8: dict[str, Callable[[Tensor], Any]] = {
    "by rows": lambda x: (x / (x.abs().amax(-1, keepdim=True) / 448)).to(torch.float8_e4m3fn),
    "too large": lambda x: (x * 1e3).to(torch.float8_e4m3fn),
    "there and back": lambda x: x.to(torch.float8_e5m2).float() * 3 + 1,
    "joined": lambda x: torch.cat([x.to(torch.float8_e5m2), x.to(torch.float8_e5m2)[1:]]),
    "transposed": lambda x: x.to(torch.float8_e4m3fn).t().clone(memory_format=_DENSE),
    "halves": lambda x: x.bfloat16().to(torch.float8_e4m3fnuz).to(torch.bfloat16),
    "filled": lambda x: F.pad(x.to(torch.float8_e5m2fnuz), (1, 2), value=3),
}
_DENSE = torch.contiguous_format


@pytest.mark.parametrize("name", FLOAT8)
def test_floats_of_eight_bits(name: str) -> None:
    """Bit by bit."""
    function, backend = FLOAT8[name], Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    for shape in ((80, 67), (3, 12), (17, 64), (1, 1), (2, 1000)):
        x = torch.randn(shape) * 3
        got, want = compiled(x), function(x)
        assert got.dtype == want.dtype
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))
    assert not backend.called
    assert backend.launches


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.sum(), (400, 400)),
        (lambda x: x.sum(-1), (4, 150000)),
        (lambda x: x.argmax(-1), (2, 150000)),
        (lambda x: x.sum(0), (4, 12)),
    ],
)
def test_folds_that_blocks_share(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    """One block would take too long for them, or a thread for a column."""
    backend = Backend()
    x = torch.randn(shape)
    compiled = anyshape.compile(
        lambda x: function(x) + (x * 2)[0, 0], dynamic=True, backend=backend
    )
    torch.testing.assert_close(compiled(x), function(x) + x[0, 0] * 2, rtol=1e-4, atol=1e-3)
    assert not backend.called


RUNNING: dict[str, Callable[[Tensor], Any]] = {
    "sums": lambda x: (x.cumsum(-1) * 2, (x + 1).cumsum(0)),
    "products": lambda x: (x.sign().cumprod(-1), x.sign().double().cumprod(0)),
    "extremes": lambda x: (*x.cummax(-1), *x.cummin(0)),
    "the largest first": lambda x: x.softmax(-1).flip(-1).cumsum(-1).flip(-1),
    "integers": lambda x: ((x > 0).cumsum(-1), (x * 9).int().cumsum(0)),
    "halves": lambda x: x.bfloat16().cumsum(-1),
    "positions": lambda x: (x[:, 0] > 0).cumsum(0) - 1,
    "a share": lambda x: (x.exp().cumsum(-1) / x.exp().sum(-1, keepdim=True)) < 0.5,
    "the middle": lambda x: x.reshape(-1, 3, 4).cumsum(1).relu(),
    "in place": lambda x: x.clone().cumsum_(-1),
}


@pytest.mark.parametrize("name", RUNNING)
def test_running_folds(name: str) -> None:
    """Threads of a block share a row, or take neighbouring columns."""
    function, backend = RUNNING[name], Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    for rows in (3, 8, 5, 0, 1, 40):
        x = torch.randn(rows, 12)
        torch.testing.assert_close(compiled(x), function(x))
    assert not backend.called
    assert backend.launches


def test_running_sums_of_many_lengths() -> None:
    backend = Backend()
    compiled = anyshape.compile(lambda x: x.cumsum(-1) + 1, dynamic=True, backend=backend)
    for shape in ((2, 64), (3, 100), (2, 33), (0, 8), (7, 3), (1, 1040), (4, 0), (5, 1)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), x.cumsum(-1) + 1)
    names = {each.name for gpu in backend.gpus for each in gpu.started}
    assert {"kernel_w4", "kernel_w1"} <= names, "whole vectors, and single elements"


def _spread_of_a_spread(y: Tensor) -> Any:
    v3 = torch.where(y.abs() > 3, y * 0.1, y)
    v4 = v3.std(-1)
    v3.copy_(v3.cumsum(0) * 0.1)
    return v3, v4.std(-2), v3.cos().mean(-2)


def _mean_of_a_norm(x: Tensor) -> Any:
    v1 = F.rms_norm(x, x.shape[-1:])
    return x * x.sin(), torch.log_softmax(v1.tanh().mean(1, keepdim=True), 0) * 0.1


@pytest.mark.parametrize("function", [_spread_of_a_spread, _mean_of_a_norm])
def test_reductions_of_reductions(function: Callable[[Tensor], Any]) -> None:
    """Inner ones that cannot be part of the kernel are stored, however long ago they were made."""
    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for sizes in ((3, 4, 2), (2, 3, 5), (4, 6, 17)):
            x = torch.randn(sizes)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)
    assert backend.launches


def test_a_launch_that_fails() -> None:
    """The call runs eagerly, which gives the answer or the error of torch."""
    backend = Backend(fails=719)
    compiled = anyshape.compile(lambda x: x.sin() + 1, dynamic=True, backend=backend)
    for size in (8, 9):
        x = torch.ones(size)
        torch.testing.assert_close(compiled(x), x.sin() + 1)
    assert compiled.stats().eager_calls == 1
    (function,) = backend.functions
    with pytest.raises(NativeFailed, match="kernel kernel_w4 could not be started"):
        function(torch.ones(8))


WIDE = torch.linspace(-1, 1, 8 * 48).reshape(48, 8)


def _attention(x: Tensor, kind: str) -> Tensor:
    """Three layers, with one mask for all. In groups, two heads of the query share the others'."""
    rows = x.shape[0]
    mask = torch.arange(rows)[:, None] >= torch.arange(rows) if "masked" in kind else None
    for _ in range(3):
        parts = F.linear(x, WIDE.to(x.dtype)).split(16, -1)
        q, k, v = (each.reshape(1, rows, 2, 8).transpose(1, 2) for each in parts)
        if "groups" in kind:
            k, v = k[:, :1], v[:, :1]
        named = {"is_causal": kind == "causal", "enable_gqa": "groups" in kind}
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, **named)
        x = x + y.transpose(1, 2).reshape(rows, 16)[:, :8]
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["plain", "masked", "causal", "groups", "masked groups"])
def test_attention(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same foreign call as all the rest."""
    monkeypatch.setattr(source, "_check_externs", lambda segment, device: None)
    monkeypatch.setattr(result_metas, "WITH_MANY_KERNELS", {"cpu"})
    backend = Backend()

    def function(x: Tensor) -> Tensor:
        return _attention(x, kind)

    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (5, 8, 2, 9, 1):
            x = torch.randn(rows, 8).to(dtype)
            torch.testing.assert_close(compiled(x), function(x))
    assert compiled.stats().graphs == 1
    assert not backend.called
    assert len(backend.gpus) == 1


def test_attention_of_one_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured there, too, where a mask has one column."""
    monkeypatch.setattr(source, "_check_externs", lambda segment, device: None)
    backend = Backend()
    compiled = anyshape.compile(lambda x: _attention(x, "masked"), backend=backend)
    with torch.no_grad():
        x = torch.randn(1, 8)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), _attention(x, "masked"))
    assert not backend.called


def test_numbers_are_not_rounded_first() -> None:
    """As torch does on GPUs with operands of two bytes; on the processor it rounds them."""
    backend = Backend()
    compiled = anyshape.compile(lambda x: (x - 257, x + 0.7, x * 0.7), backend=backend)
    x = torch.arange(-40, 40).to(torch.bfloat16)
    compiled(x)
    found, wide = compiled(x), x.float()
    for got, want in zip(found, (wide - 257, wide + 0.7, wide * 0.7), strict=True):
        torch.testing.assert_close(got, want.to(torch.bfloat16), rtol=0, atol=0)
    assert backend.launches


def test_a_sum_that_is_a_result_and_normalized_beside() -> None:
    """It stays in registers, and is not read back from memory."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total = x + y
        return total, F.rms_norm(total, (x.shape[-1],))

    for dtype in (torch.float32, torch.bfloat16):
        backend = Backend()
        compiled = anyshape.compile(function, dynamic=True, backend=backend)
        for shape in ((5, 64), (3, 100), (0, 8), (7, 3), (2, 1000), (4, 0)):
            x, y = (torch.randn(shape).to(dtype) for _ in range(2))
            for got, want in zip(compiled(x, y), function(x, y), strict=True):
                torch.testing.assert_close(got, want, equal_nan=True)
        names = {each.name for gpu in backend.gpus for each in gpu.started}
        assert any("x" in name for name in names)


def test_vectors_that_begin_anywhere_in_rows() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([F.pad(x, (1, 2)), y], -1) * 2

    for dtype in (torch.float32, torch.bfloat16, torch.uint8):
        backend = Backend()
        compiled = anyshape.compile(function, dynamic=True, backend=backend)
        for rows, left, right in ((3, 20, 10), (5, 101, 33), (1, 4, 40), (2, 3, 2), (0, 30, 9)):
            x, y = ((torch.randn(rows, n) * 20).to(dtype) for n in (left, right))
            torch.testing.assert_close(compiled(x, y), function(x, y), rtol=0, atol=0)
        names = {each.name for gpu in backend.gpus for each in gpu.started}
        assert any(name.startswith(f"kernel_u{16 // dtype.itemsize}") for name in names)
        assert any(name.startswith("kernel_w1") for name in names), "short rows"


ROWS_BY_INDEX: dict[str, tuple[Callable[..., Any], bool]] = {
    "norm": (lambda t, i: F.layer_norm(F.embedding(i, t), (t.shape[1],)), True),
    "sum of two": (lambda t, i: t[i] + t[i.flip(0)] * 2, True),
    "from the end": (lambda t, i: (t[i - 9] * 2).softmax(-1), True),
    "in the middle": (lambda t, i: t.view(3, 3, -1)[:, 1][i % 3] * 2, True),
    "columns": (lambda t, i: t.T[i] * 2, False),
    "elements": (lambda t, i: t[i, i] * 2, False),
    "a column that moves": (lambda t, i: t[i].gather(1, i[:, None] % t.shape[1]) + t[i], False),
    "written": (lambda t, i: t.index_copy(0, i.unique(), t[i.unique()] * 3).exp(), False),
}


@pytest.mark.parametrize("name", ROWS_BY_INDEX)
def test_rows_by_index_are_read_in_vectors(name: str) -> None:
    """Where rows begin at multiples of vectors, those that are chosen by data do as well."""
    (function, is_wide), backend = ROWS_BY_INDEX[name], Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    columns = (16, 24, 17, 2, 64, 8)
    with torch.no_grad():
        for rows, width in zip((4, 5, 1, 0, 33, 7), columns, strict=True):
            table = torch.randn(9, width)
            index = torch.randint(0, min(9, width), (rows,))
            torch.testing.assert_close(compiled(table, index), function(table, index))
            # A view whose rows do not begin there.
            if width == 16:
                part = torch.randn(9 * 20 + 1)[1:].as_strided((9, 16), (20, 1))
                torch.testing.assert_close(compiled(part, index), function(part, index))
    names = {each.name for gpu in backend.gpus for each in gpu.started}
    if is_wide:
        assert any("_w4" in each for each in names), names


def test_products_of_parts_without_elements() -> None:
    """They begin where there is no memory."""

    def function(x: Tensor) -> Tensor:
        part = x[1:]
        return part @ part.transpose(-1, -2) * 2

    compiled = anyshape.compile(function, dynamic=True, backend=Backend())
    for shape in ((3, 4, 2), (1, 2, 3), (0, 2, 3), (4, 0, 2), (2, 3, 0), (5, 1, 1)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), function(x))


SHORT_COLUMNS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: torch.stack([x, x * 2, x * 3]).sum(0) * 2,
    "logsumexp": lambda x: torch.stack([x, x * 2, x + 1]).logsumexp(0),
    "softmax": lambda x: torch.stack([x, x * 2, x + 1], 1).softmax(1),
    "largest": lambda x: x.reshape(-1, 4, 3).amax(1),
    "variance": lambda x: x.reshape(-1, 4, 3).var(1),
    "and a norm": lambda x: F.layer_norm(torch.stack([x, x * 2]).sum(0), (12,)),
}


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("name", SHORT_COLUMNS)
def test_folds_of_short_columns(name: str) -> None:
    """A thread has a column, where its length is known and small."""
    function, backend = SHORT_COLUMNS[name], Backend()
    compiled = anyshape.compile(function, backend=backend)
    with torch.no_grad():
        for rows in (3, 4, 5, 0, 1, 7):
            x = torch.randn(rows, 12)
            torch.testing.assert_close(compiled(x), function(x))
    assert not backend.called
    assert backend.launches


def test_the_text_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTX of all functions, and the host function."""
    monkeypatch.setattr(cuda_segment, "gpu_target", lambda index: GpuTarget((9, 0), 78, 200_000))
    monkeypatch.setattr(source, "_check_externs", lambda segment, device: None)
    texts: list[str] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        with expr.fresh_scope():
            for part in lowered(graph)[1].parts:
                assert isinstance(part, Segment)
                texts.append(cuda_segment.cuda_source(own_names(part), torch.device("cuda", 0)))
        return run_graph(graph, examples)

    with torch.no_grad():
        anyshape.compile(lambda x: (x.softmax(-1) @ W) + 1, backend=backend)(torch.randn(3, 12))
    (text,) = texts
    assert ".target sm_90" in text
    assert text.count(".visible .entry kernel_") >= 2
    assert "@aoti_torch_cuda_mm_out" in text


class _Module:
    """Stands for code on a GPU."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def function(self, device: int, name: str, shared: int) -> int:
        assert (device, name, shared) == (0, self.name, 200_000)
        assert f"@{name}(" in self.text
        return 7


class _Plans:
    """Stands for plans of products."""

    head = 96


@pytest.mark.parametrize("deterministic", [False, True], ids=["", "deterministic"])
def test_what_is_loaded(deterministic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All functions of all kernels, in the order of the table, and a host function. In
    deterministic mode products are torch's, which may refuse them."""
    given: list[Any] = []
    modules: list[_Module] = []
    plans: list[weakref.ref[_Plans]] = []

    def made_plans(index: int) -> _Plans:
        made = _Plans()
        plans.append(weakref.ref(made))
        return made

    def module_of(key: str, text: Callable[[], str], target: GpuTarget, is_rare: bool) -> _Module:
        modules.append(_Module(key.split()[0], text()))
        return modules[-1]

    replaced: dict[str, Any] = {
        "gpu_target": lambda index: GpuTarget((9, 0), 78, 200_000),
        "module_of": module_of,
        "driver": lambda: SimpleNamespace(
            resident_blocks=lambda *_: 528, address=lambda name: len(name)
        ),
        "product_plans": made_plans,
        "host_helpers": lambda *_: SimpleNamespace(code=SimpleNamespace(address=lambda name: 9)),
        "python_function": lambda *arguments: given.append(arguments),
    }
    for name, function in replaced.items():
        monkeypatch.setattr(cuda_segment, name, function)
    monkeypatch.setattr(cuda_segment, "_codes", {})
    monkeypatch.setattr(source, "_check_externs", lambda segment, device: None)
    monkeypatch.setattr(torch.cuda, "device", lambda index: nullcontext())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: deterministic)

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        with expr.fresh_scope():
            (part,) = lowered(graph)[1].parts
            assert isinstance(part, Segment)
            key = f"{segment_text(part)} {os.urandom(8).hex()}"
            cuda_segment.cuda_function(own_names(part), key, torch.device("cuda", 0))
        return run_graph(graph, examples)

    with torch.no_grad():
        program = lambda x: (x.softmax(-1).sin() @ W).cos() + 1  # noqa: E731
        anyshape.compile(program, backend=backend)(torch.randn(5, 12))
    ((built, segment, table, device, _),) = given
    assert modules
    assert built.image
    assert (len(segment.outputs), device) == (1, torch.device("cuda", 0))
    assert table.address("cuLaunchKernel") == 9
    count = len(TABLE) + 2 * len(modules)
    words = (ctypes.c_int64 * count).from_address(table.address(TABLE_NAME))
    assert list(words[: len(TABLE)])[:3] == [200_000 - 4096, 0, 0]
    assert words[TABLE.index("products")] == (0 if deterministic else _Plans.head)
    assert words[TABLE.index("early")] == len("cuLaunchKernelEx")
    assert deterministic or plans[0]() is not None, "native code has their address"
    assert not any(words[len(TABLE) :]), "nothing is loaded before it is needed"
    load = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(words[TABLE.index("load")])
    for place in range(len(TABLE), count, 2):
        assert load(place) == 7
    assert list(words[len(TABLE) :: 2]) == [7] * len(modules)
    assert set(words[len(TABLE) + 1 :: 2]) == {0, 528}, "of blocks that may share rows, and others"


def test_code_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host function says so, and the reason is told."""

    class Broken:
        def function(self, device: int, name: str, shared: int) -> int:
            raise NativeFailed("no room")

    rule = SimpleNamespace(name="kernel_w4", checks=(), part_bytes=0)
    code = SimpleNamespace(modules=(Broken(),), rules=(rule,))
    made: Any = cuda_segment._Table([code], 0, GpuTarget((8, 9), 78, 200_000))  # pyright: ignore[reportArgumentType]
    assert made._loaded(len(TABLE)) == 0
    assert made.said("cuda: kernel could not be started") == "kernel_w4: no room"


def _counted(x: Tensor, step: Tensor) -> tuple[Tensor, ...]:
    scale = 1 - 0.9**step
    y = x / scale
    y.addcdiv_(x, x * x + 1, value=-0.1)
    y *= step
    return y, y.bfloat16() * scale, torch.where(x > 0, x, scale.float())


@pytest.fixture
def scalars_are_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Lowering._given

    def elsewhere(self: Any, name: str, meta: Any, layout: Any = None) -> Any:
        if meta is not None and not meta.shape:
            return Foreign(name, meta)
        return given(self, name, meta, layout)

    def is_elsewhere(node: torch.fx.Node, device: torch.device) -> bool:
        meta = node.meta.get("result")
        return meta is not None and not meta.shape

    monkeypatch.setattr(Lowering, "_given", elsewhere)
    monkeypatch.setattr(lowering, "_is_elsewhere", is_elsewhere)


@pytest.mark.usefixtures("scalars_are_elsewhere")
def test_many_numbers_of_the_processor() -> None:
    """As an optimizer has them: each of equal parts has its own, and native steps stay together."""

    def program(states: list[Tensor], counts: list[Tensor]) -> None:
        for state, count in zip(states, counts, strict=True):
            state.mul_(0.9)
            state.div_(count)
            state.add_(count)

    backend = Backend()
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for rows in (5, 1, 12):
        mine = [torch.randn(rows) for _ in range(9)]
        counts = [torch.tensor(2.0 + n, dtype=torch.float64) for n in range(9)]
        twin = [each.clone() for each in mine], [each.clone() for each in counts]
        for _ in range(2):
            compiled(mine, counts)
            program(*twin)
        torch.testing.assert_close((mine, counts), twin)
    assert len(backend.functions) == 1


@pytest.mark.usefixtures("scalars_are_elsewhere")
@pytest.mark.parametrize("function", [torch.Tensor.addcdiv_, torch.Tensor.addcmul_])
def test_factors_of_the_processor(function: Any) -> None:
    """torch reads a factor as a number: one that the dtype does not have is an error."""

    def program(x: Tensor, a: Tensor, factor: Tensor) -> None:
        function(x, a, a + 2, value=factor)

    backend = Backend()
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for rows in (5, 1, 12):
        x, a = torch.randn(rows), torch.rand(rows)
        for factor in (0.1, -3.0, float("inf"), 1e39):
            twin, number = x.clone(), torch.tensor(factor, dtype=torch.float64)
            if factor == 1e39:
                for call in (program, compiled):
                    with pytest.raises(RuntimeError, match="without overflow"):
                        call(x, a, number)
            else:
                program(twin, a, number)
                compiled(x, a, number)
            torch.testing.assert_close(x, twin)
    assert not {"addcdiv", "addcmul"} & {*backend.called}, backend.called
    assert backend.launches


CHECKED: dict[str, Callable[[Tensor, float], object]] = {
    "fill": lambda x, f: x.fill_(f),
    "full": lambda x, f: x.mul_(torch.full((), f)),
    "full as it is": lambda x, f: x.mul_(torch.full_like(x, f)),
    "a computed one": lambda x, f: x.masked_fill_(x > 0, f * 2),
    "where": lambda x, f: x.copy_(torch.where(x > 0, x, f)),
    "a factor": lambda x, f: x.addcmul_(x, x, value=f),
    "of data": lambda x, f: x.fill_((x[0].double() * f).item()),
}


@pytest.mark.parametrize("name", CHECKED)
def test_numbers_are_checked_on_the_host(name: str) -> None:
    """A kernel that fails ends all that the process does on the GPU."""
    program, backend = CHECKED[name], Backend()
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for number in (0.5, 0.25, 1e39, 2.0, -1e39, float("inf"), float("nan")):
        x = torch.linspace(0.5, 1, 5)
        twin = x.clone()
        if number in (1e39, -1e39):
            for call in (program, compiled):
                with pytest.raises(RuntimeError, match="without overflow"):
                    call(twin if call is program else x, number)
        else:
            program(twin, number)
            compiled(x, number)
        torch.testing.assert_close(x, twin, equal_nan=True)
    assert backend.launches
    launched = [step for part in backend.segments for step in part.steps if type(step) is Launch]
    messages = {
        check.message for each in launched for s in each.kernel.stages for check in s.checks
    }
    assert messages <= expr.BAD_POSITIONS


def test_zero_points_are_left_to_torch() -> None:
    """It looks at them on the host, and raises there."""

    def program(x: Tensor, zero: Tensor) -> Tensor:
        made: Any = torch
        return made.fake_quantize_per_channel_affine(x * 2, torch.ones(3), zero, 1, -8, 7) + 1

    backend = Backend()
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    x, zero = torch.randn(4, 3), torch.tensor([0, 3, 7], dtype=torch.int32)
    torch.testing.assert_close(compiled(x, zero), program(x, zero))
    with pytest.raises(RuntimeError, match="zero_point"):
        compiled(x, zero + 1)
    assert backend.called == ["fake_quantize_per_channel_affine"]
    assert backend.launches


@pytest.mark.usefixtures("scalars_are_elsewhere")
def test_tensors_of_one_element_on_the_processor_are_numbers() -> None:
    """Operators on a GPU take them; others are torch's. The step is written to between reads."""
    backend = Backend()
    compiled = anyshape.compile(_counted, dynamic=True, backend=backend)
    for rows in (5, 1, 12):
        x, step = torch.randn(rows, 12), torch.tensor(2.0, dtype=torch.float64)
        for _ in range(2):
            torch.testing.assert_close(compiled(x, step), _counted(x, step))
            step += 1
    assert set(backend.called) <= {"pow", "rsub", "to", "sub", "rpow", "float"}, backend.called
    assert backend.launches


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (1, 5), (5, 1), (0, 0)], ids=str)
@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"turned"}))
def test_sizes_0_and_1(name: str, shape: tuple[int, int]) -> None:
    """A tensor of nothing is at no address: what is read of it ends the process."""
    function = SMALL[name]
    for shapes in (((3, 4), shape, shape, (6, 2)), (shape, shape, (3, 4))):
        compiled = anyshape.compile(function, dynamic=True, backend=Backend())
        for each in shapes:
            x = torch.randn(*each)
            torch.testing.assert_close(
                compiled(x), function(x), rtol=1e-4, atol=1e-4, equal_nan=True
            )
