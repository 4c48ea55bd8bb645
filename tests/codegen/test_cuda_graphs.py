"""What runs by CUDA graphs, without a GPU: `emulated_graphs.py`."""

from __future__ import annotations

import functools
import math
import operator
import threading
import time
import types
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.distributed
import torch.fx
import torch.nn.functional as F
import torch.utils.checkpoint

import anyshape
from anyshape.backends.native import cuda_graphs
from anyshape.backends.native.backend import NativeReport
from anyshape.backends.native.cuda_graphs import (
    Inputs,
    ShapeGraphs,
    Variants,
    only_starts_kernels,
)
from anyshape.backends.native.variant import Variant
from anyshape.config import config
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.ops.kernel_launch import KernelLaunch
from anyshape.ops.node_meta import RESULT, SYMBOL
from anyshape.runtime.cuda.graph_pool import CannotRecord
from anyshape.symbolic.expr import of_atom
from tests.codegen.emulated_graphs import EmulatedDevice, EmulatedPool

NONE = frozenset[int]()


@pytest.fixture
def gpu() -> EmulatedDevice:
    return EmulatedDevice()


def recorded(gpu: EmulatedDevice) -> int:
    return sum(len(pool.graphs) for pool in gpu.pools.values())


def test_a_shape_is_recorded_when_it_is_hot(gpu: EmulatedDevice) -> None:
    calls: list[int] = []

    def run(x: torch.Tensor) -> tuple[torch.Tensor]:
        calls.append(x.shape[0])
        return (x * 2,)

    graphs = ShapeGraphs(run, Inputs(NONE, NONE, NONE), gpu)
    held = []
    for step in range(6):
        for n in (3, 0, 1, 7):
            x = torch.full((n,), float(step))
            (y,) = graphs(x)
            held.append((y, x * 2))
    assert all(torch.equal(*pair) for pair in held), "a later call has changed a result"
    assert recorded(gpu) == 4
    assert len(graphs._graphs) == 4
    assert any("4 shapes" in line for line in graphs.lines())
    assert NativeReport(cuda_graphs=graphs).made() == {"cuda_graphs": 4}


def test_recordings_are_told(gpu: EmulatedDevice) -> None:
    """With the shapes of what may change, what is copied at each replay, and why there is none."""
    told: list[Any] = []
    pool = gpu.pool(gpu.stream() or 0)
    pool.refuses, pool.allows = "two are enough", 2
    stop = stream.subscribe(told.append, [kinds.GraphRecorded])
    try:
        inputs = Inputs(frozenset({0}), frozenset({0}), NONE)
        weight = torch.ones(3)
        graphs = ShapeGraphs(lambda w, x: (w * x,), inputs, gpu, compile_id="3/1")
        for _ in range(5):
            for rows in (2, 4, 9):
                graphs(weight, torch.ones(rows, 3))
    finally:
        stop()
    assert [each.shapes for each in told] == ["2x3", "4x3", "9x3"]
    assert [bool(each.copied) for each in told] == [True, True, False]
    # What is read and what is given, of four bytes each.
    assert told[1].copied - told[0].copied == 2 * 4 * (12 - 6)
    assert [each.why_not for each in told] == ["", "", "two are enough"]
    assert {each.compile_id for each in told} == {"3/1"}


def test_parameters_stay_and_their_addresses_are_part_of_the_key(gpu: EmulatedDevice) -> None:
    weight, other = torch.ones(3), torch.full((3,), 5.0)
    graphs = ShapeGraphs(lambda x, w: (x * w,), Inputs(frozenset({1}), frozenset({1}), NONE), gpu)
    for _ in range(5):
        assert torch.equal(graphs(torch.ones(2, 3), weight)[0], torch.ones(2, 3))
    weight.fill_(2.0)
    assert torch.equal(graphs(torch.ones(2, 3), weight)[0], torch.full((2, 3), 2.0))
    for _ in range(5):
        assert torch.equal(graphs(torch.ones(2, 3), other)[0], torch.full((2, 3), 5.0))
    assert recorded(gpu) == 2


def test_static_inputs_that_move_are_copied(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(frozenset({0}), NONE, NONE), gpu)
    kept = [torch.full((4,), float(step)) for step in range(12)]
    for x in kept:
        assert torch.equal(graphs(x)[0], x + 1)
    assert recorded(gpu) == 1


def test_writes_go_to_the_callers_memory(gpu: EmulatedDevice) -> None:
    def run(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache.add_(x)
        return (cache * 1, cache, cache[1:])

    graphs = ShapeGraphs(run, Inputs(NONE, NONE, frozenset({0})), gpu)
    cache, other = torch.zeros(3), torch.zeros(3)
    for step in range(1, 8):
        before = cache._version
        product, same, view = graphs(cache, torch.ones(3))
        assert cache.tolist() == [step] * 3
        assert product.tolist() == [step] * 3
        assert same is cache
        assert view.data_ptr() == cache[1:].data_ptr()
        assert cache._version == before + 1
        graphs(other, torch.ones(3))
        assert other.tolist() == [step] * 3
    assert recorded(gpu) == 2


def test_results_that_share_memory_do_so(gpu: EmulatedDevice) -> None:
    def run(x: torch.Tensor) -> tuple[Any, ...]:
        y = x * 2
        return y, y[1:], y.view(2, -1).t(), x.view(2, -1), 7, None, x.expand(2, -1)

    graphs = ShapeGraphs(run, Inputs(NONE, NONE, NONE), gpu)
    for _ in range(5):
        x = torch.arange(4.0)
        y, tail, turned, seen, seven, none, wide = graphs(x)
        assert y.tolist() == [0, 2, 4, 6]
        y[1] = 9
        assert tail[0] == 9
        assert turned.tolist() == [[0, 4], [9, 6]]
        x[0] = 5
        assert seen[0, 0] == 5
        assert wide.stride() == (0, 1)
        assert (seven, none) == (7, None)
    assert recorded(gpu) == 1


def test_strided_inputs(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    for _ in range(5):
        base = torch.rand(6, 8)
        for x in (base[:, 2:5], base.t(), base[::2], base[0].expand(3, 8), base[3:3]):
            assert torch.equal(graphs(x)[0], x + 1)
    assert recorded(gpu) == 5


def test_floats_and_integers_are_part_of_the_key(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x, f, n: (x * f + n,), Inputs(NONE, NONE, NONE), gpu)
    x = torch.ones(3)
    for _ in range(4):
        for f in (0.0, -0.0, 2.5):
            for n in (0, 1):
                (y,) = graphs(x, f, n)
                assert y.tolist() == (x * f + n).tolist()
                assert str(y.tolist()) == str((x * f + n).tolist())


class Wrapped(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "odd",
    [torch.ones(3).as_subclass(Wrapped), torch.eye(3).to_sparse(), torch.Generator(), [1]],
    ids=lambda odd: type(odd).__name__,
)
def test_inputs_without_an_address_are_not_recorded(gpu: EmulatedDevice, odd: Any) -> None:
    graphs = ShapeGraphs(lambda x, _: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    for _ in range(6):
        assert graphs(torch.ones(2), odd)[0].tolist() == [2.0, 2.0]
    assert recorded(gpu) == 0
    assert "an input is a" in graphs.lines()[0]


def test_streams_have_graphs_of_their_own(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    for _ in range(5):
        for gpu.current in (0, 1):
            graphs(torch.ones(2))
    assert {stream: len(pool.graphs) for stream, pool in gpu.pools.items()} == {0: 1, 1: 1}
    gpu.current = None  # somebody records
    assert graphs(torch.ones(9))[0].tolist() == [2.0] * 9
    assert recorded(gpu) == 2


def test_flags_of_torch_are_part_of_the_key(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "medium") * 5:
            torch.set_float32_matmul_precision(precision)
            graphs(torch.ones(2))
    finally:
        torch.set_float32_matmul_precision(before)
    assert recorded(gpu) == 2


@pytest.mark.parametrize("part", ["cuda.matmul", "cudnn.conv", "cudnn.rnn"])
def test_precisions_may_be_set_in_the_new_way(gpu: EmulatedDevice, part: str) -> None:
    """Torch's older functions raise from there on."""
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    owner = operator.attrgetter(part)(torch.backends)
    before = owner.fp32_precision
    try:
        for owner.fp32_precision in ("ieee", "tf32") * 5:
            assert graphs(torch.ones(2))[0].tolist() == [2.0, 2.0]
    finally:
        owner.fp32_precision = before
    assert recorded(gpu) == 2


def test_few_shapes_are_kept(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    with config.patch(cuda_graph_limit=3):
        for n in range(10):
            for _ in range(30):
                assert graphs(torch.ones(n))[0].tolist() == [2.0] * n
    assert len(graphs._graphs) == 3
    assert recorded(gpu) == 10


def test_shapes_by_turns_do_not_push_each_other_out(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    with config.patch(cuda_graph_limit=8):
        for _ in range(50):
            for n in range(20):
                assert graphs(torch.ones(n))[0].tolist() == [2.0] * n
    assert recorded(gpu) < 150


def test_memory_is_bounded(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    with config.patch(cuda_graph_memory_mb=1):
        gpu.pool(0).taken = 2 << 20
        for _ in range(5):
            graphs(torch.ones(3))
    assert recorded(gpu) == 0
    assert any("cuda_graph_memory_mb" in line for line in graphs.lines())


def test_refusals_are_forgotten_with_the_calls(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "_MOST_COUNTED", 16)
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    with config.patch(cuda_graph_memory_mb=1):
        gpu.pool(0).taken = 2 << 20
        for n in range(200):
            for _ in range(5):
                graphs(torch.ones(n))
    assert len(graphs._refused) <= 16


def test_where_nothing_can_be_recorded_calls_run(gpu: EmulatedDevice) -> None:
    def pool(stream: int) -> EmulatedPool:
        raise CannotRecord("out of memory")

    gpu.pool = pool
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    for _ in range(6):
        assert graphs(torch.ones(2))[0].tolist() == [2.0, 2.0]
    assert graphs.lines() == ["no CUDA graphs: out of memory"]


def test_what_cannot_be_recorded_runs_and_says_why(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x + 1,), Inputs(NONE, NONE, NONE), gpu)
    gpu.pool(0).refuses = "operation not permitted when stream is capturing"
    for n in range(20):
        for _ in range(4):
            assert graphs(torch.ones(n))[0].tolist() == [2.0] * n
    assert any("not permitted" in line for line in graphs.lines())


def test_memory_that_is_shared_in_one_call_is_seen(gpu: EmulatedDevice) -> None:
    """What is written to may be part of an input that is copied: eager reads what was written."""

    def run(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache.add_(1)
        return (x * 1,)

    graphs = ShapeGraphs(run, Inputs(NONE, NONE, frozenset({0})), gpu)
    cache = torch.zeros(2)
    for _ in range(5):
        graphs(cache, torch.ones(2))
    assert recorded(gpu) == 1
    assert graphs(cache, cache[:])[0].tolist() == [6.0, 6.0]


def test_threads_of_one_stream(gpu: EmulatedDevice) -> None:
    graphs = ShapeGraphs(lambda x: (x * 2,), Inputs(NONE, NONE, NONE), gpu)
    wrong: list[float] = []

    def work(first: int) -> None:
        for step in range(200):
            x = torch.full((5,), float(first * 1000 + step))
            if not torch.equal(graphs(x)[0], x * 2):
                wrong.append(float(x[0]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- what may be recorded --------------------------------------------------------------------------


@torch.library.custom_op("anyshape_tests::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Applied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def own(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@pytest.mark.parametrize(
    "function",
    [
        *(torch.add, torch.geqrf, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.index_copy_),
        *(torch.nn.functional.linear, torch.nn.functional.scaled_dot_product_attention),
        *(torch.nn.functional.gelu, torch.einsum, torch.ops.aten.add.Tensor, torch.ops.aten.mul),
        *(operator.getitem, operator.add, math.sqrt, min, int, torch._C._set_grad_enabled),
        vars(torch._C.TensorBase)["T"].__get__,
    ],
)
def test_functions_of_torch_and_of_numbers_start_kernels(function: Any) -> None:
    assert only_starts_kernels(function)


@pytest.mark.parametrize(
    "function",
    [
        *(counted, torch.ops.anyshape_tests.counted, torch.ops.anyshape_tests.counted.default),
        *(own, Applied.apply, print, functools.partial(torch.add, 1), torch.distributed.all_reduce),
        KernelLaunch(types.SimpleNamespace(fn=own), (), {}, {}),
        *(torch.cond, torch.utils.checkpoint.checkpoint, torch.cuda.synchronize, time.sleep),
    ],
)
def test_what_may_do_more_does_not(function: Any) -> None:
    """A replay would leave out what they do in Python."""
    assert not only_starts_kernels(function)


ATTENTION: Final[dict[str, tuple[Callable[..., Any], Callable[[int, int], bool]]]] = {
    "two": (lambda x, y: F.scaled_dot_product_attention(x, y, y), lambda a, b: b <= 128),
    "one tensor": (lambda x, y: F.scaled_dot_product_attention(x, x, x), lambda a, b: a <= 128),
    "by name": (
        lambda x, y: F.scaled_dot_product_attention(value=y, key=y, query=x),
        lambda a, b: b <= 128,
    ),
    "several": (
        lambda x, y: (
            F.scaled_dot_product_attention(y, y, y),
            F.scaled_dot_product_attention(x, x, x),
        ),
        lambda a, b: max(a, b) <= 128,
    ),
    "none": (lambda x, y: (x * 2, y), lambda a, b: False),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_code_for_few_keys(name: str) -> None:
    """Only where each attention of the graph has few, and few scores."""
    function, expected = ATTENTION[name]
    found: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        found.append((graph, list(examples)))
        return graph

    anyshape.compile(function, dynamic=True, backend=backend)(
        torch.ones(2, 3, 5, 8), torch.ones(2, 3, 7, 8)
    )
    ((graph, examples),) = found
    variants = Variants(graph.graph, lambda chosen: lambda: chosen)
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for rows, columns in ((5, 7), (128, 128), (129, 5), (5, 129), (1, 1), (0, 4), (90, 3)):
        for batch in (1, 2, 400):
            x, y = torch.ones(batch, 3, rows, 8), torch.ones(batch, 3, columns, 8)
            given = [None if type(e) is int else x if e.shape[2] == 5 else y for e in examples]
            own = variants.run_for(_args_of(places, given))
            chosen = Variant() if own is None else own()
            if 3 * batch * max(rows, columns) ** 2 <= 1 << 21 and rows:
                assert chosen.few_keys == expected(rows, columns), (batch, rows, columns)
            if min(rows, columns) == 128 and batch == 400:
                assert not chosen.few_keys, "of many scores"


def _args_of(places: list[torch.fx.Node], given: list[torch.Tensor | None]) -> list[Any]:
    """With the sizes of these tensors."""
    values: dict[Any, int] = {}
    for node, tensor in zip(places, given, strict=True):
        if tensor is not None:
            values |= zip(node.meta[RESULT].shape, tensor.shape, strict=True)
    return [
        values[of_atom(node.meta[SYMBOL])] if tensor is None else tensor
        for node, tensor in zip(places, given, strict=True)
    ]
