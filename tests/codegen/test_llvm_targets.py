"""Kernels become code of vectors on machines other than this one, and right code without masks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from anyshape.codegen.llvm.module import module_texts, scratch_bytes
from anyshape.codegen.llvm.plan import make_plan
from anyshape.codegen.target import Machine, Target
from anyshape.loops.expr import Axis, fresh_scope, load, operation, row
from anyshape.loops.kernels import Fold, Stage, Store
from anyshape.symbolic import as_symbol, minimum, symbol
from tests.codegen.kernel_samples import SAMPLES, kernel
from tests.codegen.llvm_jit import AVX2, NEON, assembly, host
from tests.codegen.one_module import module
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import check_kernel

AVX512 = Target("x86_64-unknown-linux-gnu", "sapphirerapids", "")
VECTORS = {"avx512": r"%zmm", "avx2": r"%ymm", "neon": r"\bv\d+\.(4s|2d|16b|8h)"}
TARGETS = {"avx512": AVX512, "avx2": AVX2, "neon": NEON}


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_vectors(sample: str, target: str) -> None:
    text = assembly(SAMPLES[sample](), TARGETS[target])
    assert re.search(VECTORS[target], text)


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_once(target: str) -> None:
    kernels = {f"f{i}": SAMPLES["softmax"]() for i in range(2)}
    text = module(kernels, TARGETS[target])
    assert text.count("define internal <16 x float> @as.exp.f32.v16") == 1
    assert text.count("define i32 @f") == 2


def test_equal_kernels_are_one_module() -> None:
    target = TARGETS["avx512"]
    one, two = (
        module_texts({f"f{place}": SAMPLES[name]() for place, name in enumerate(names)}, target)
        for names in (("softmax", "sum of all", "softmax"), ("sum of all", "softmax"))
    )
    # The third is what exp calls in rare cases.
    assert len(one.apart) == 3
    assert set(one.apart) == set(two.apart)
    assert one.beside.count("define i32 @f") == 3


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(100, 104))
def test_without_masks(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines that have no masked loads and stores."""
    bare = Machine(frozenset(), frozenset())
    monkeypatch.setattr(Machine, "of", staticmethod(lambda _: bare))
    check_kernel(kind, seed, host())


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(200, 203))
def test_avx2(kind: str, seed: int) -> None:
    check_kernel(kind, seed, AVX2)


def test_fewer_lanes_where_they_are_brought_together_one_by_one() -> None:
    """And the memory of a thread is enough for as many as there may be anywhere."""
    at, place, n = symbol("i0"), symbol("i1"), symbol("n0")
    axes = (Axis(as_symbol(at), 4), Axis(as_symbol(place), n))
    address = at * n + place
    strided = Stage((), (Store("k1", address, load("k0", address * 2, "f32")),))
    dense = Stage((), (Store("k1", address, load("k0", address, "f32")),))
    lanes = {
        (name, is_strided): make_plan(kernel(axes, stage), target).lanes
        for name, target in TARGETS.items()
        for is_strided, stage in ((True, strided), (False, dense))
    }
    assert {lanes[name, False] for name in TARGETS} == {16}
    assert [lanes[name, True] for name in ("avx512", "avx2", "neon")] == [16, 8, 4]
    summed = Stage(axes[1:], (), (Fold("r", "sum", load("k0", address * 2, "f32"), "f32"),))
    store = Stage((), (Store("k1", at, row("r", "f32", frozenset([as_symbol(at)]))),))
    folds = kernel(axes[:1], summed, store)
    for target in TARGETS.values():
        needed, given = make_plan(folds, target).bytes_for_a_thread(), scratch_bytes(folds)
        assert isinstance(needed, int)
        assert isinstance(given, int)
        assert 0 < needed <= given


def test_as_many_vectors_a_round_as_registers_allow() -> None:
    """One vector of several registers keeps a processor as busy as several of one."""
    at, place, n = symbol("i0"), symbol("i1"), symbol("n0")
    outer, inner = Axis(as_symbol(at), n), Axis(as_symbol(place), n)
    rows = load("k0", at * n + place, "f32")
    summed = Stage((inner,), (), (Fold("r", "sum", rows, "f32"),))
    store = Stage((), (Store("k1", at, row("r", "f32", frozenset([as_symbol(at)]))),))
    copies = {name: make_plan(kernel((outer,), summed, store), t) for name, t in TARGETS.items()}
    assert [copies[name].unroll[0] for name in ("avx512", "avx2", "neon")] == [4, 2, 1]
    # Across rows a strip is as wide everywhere, unless there is much to do for each element.
    columns = load("k0", place * n + at, "f32")
    across = Stage((inner,), (), (Fold("r", "sum", columns, "f32"),))
    assert {
        max(make_plan(kernel((outer,), across, store), t).unroll) for t in TARGETS.values()
    } == {4}
    for _ in range(4):
        columns = operation("exp", columns, dtype="f32")
    much = Stage((inner,), (Store("k2", place * n + at, columns),))
    long = {name: make_plan(kernel((outer,), across, much), t) for name, t in TARGETS.items()}
    assert [max(long[name].unroll) for name in ("avx512", "avx2", "neon")] == [4, 1, 1]


def test_threads_do_not_share_what_is_little() -> None:
    at, place, n = symbol("i0"), symbol("i1"), symbol("n0")
    for extent, shared in ((64, False), (minimum(n, 256), False), (n, True), (1 << 20, True)):
        inner = Axis(as_symbol(place), extent)
        summed = Stage((inner,), (), (Fold("r", "sum", load("k0", at * n + place, "f32"), "f32"),))
        store = Stage((), (Store("k1", at, row("r", "f32", frozenset([as_symbol(at)]))),))
        found = kernel((Axis(as_symbol(at), n),), summed, store)
        assert {make_plan(found, target).splits for target in TARGETS.values()} == {shared}
