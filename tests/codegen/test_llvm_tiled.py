"""Transposed copies in tiles, for all sizes of the edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.target import Target
from anyshape.loops.canonical import canonical
from anyshape.loops.expr import Axis, constant, fresh_scope, index, load
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.loops.program import Launch
from anyshape.loops.tiled import tiled
from anyshape.symbolic import Size, as_symbol, evaluate, symbol
from tests.codegen.kernel_samples import kernel, op
from tests.codegen.llvm_jit import AVX2, NUMPY, compiled, host, runs
from tests.loops.oracle.interpret import run_kernel
from tests.loops.verify import problems

AT, ROW, COLUMN, N0, N1, N2 = (symbol(name) for name in ("i0", "i1", "i2", "n0", "n1", "n2"))
PLACE, TRANSPOSED = (AT * N1 + ROW) * N2 + COLUMN, (AT * N2 + COLUMN) * N1 + ROW
SIZES = [(1, 1, 1), (2, 64, 64), (1, 65, 63), (3, 7, 130), (1, 129, 3), (0, 4, 3), (2, 0, 70)]
SIZES += [(2, 70, 0), (1, 100, 100)]


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def made(*stores: Store) -> Kernel:
    axes = (Axis(as_symbol(AT), N0), Axis(as_symbol(ROW), N1), Axis(as_symbol(COLUMN), N2))
    return kernel(axes, Stage((), stores))


def in_tiles(given: Kernel, seen: int = 100) -> Launch:
    bound = canonical(given, lambda a, b: a == b, lambda size: seen)
    assert [*bound.buffers] == [f"k{n}" for n in range(len(bound.buffers))]
    assert not list(problems(bound.kernel))
    return bound


def passed(bound: Launch, sizes: Sequence[int]) -> list[int]:
    """What a kernel is called with if these are n0, n1 ... of the program."""
    return [evaluate(size, runs(bound.kernel, sizes)) for size in bound.sizes]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i64", "u8", "b1", "i16"])
def test_a_copy(dtype: Any) -> None:
    found = in_tiles(made(Store("k1", PLACE, load("k0", TRANSPOSED, dtype))))
    assert len(found.kernel.stages) == 2
    runner = compiled(found.kernel)
    for a, b, c in SIZES:
        values = np.random.default_rng(0).normal(0, 20, (a, c, b))
        x = (values > 0 if dtype == "b1" else np.abs(values)).astype(NUMPY[dtype])
        result = np.ones(a * b * c + 1, NUMPY[dtype])
        # Names go by the order of use: what is stored comes second.
        assert runner([x, result], passed(found, (a, b, c))) == 0
        np.testing.assert_array_equal(result[:-1].reshape(a, b, c), x.transpose(0, 2, 1))
        assert result[-1] == 1


def masked() -> Kernel:
    """Two transposed loads, one under a mask, one in order, and the point itself."""
    inside = op("lt", index(ROW + COLUMN), index(N1), dtype="b1")
    first = load("k0", TRANSPOSED, "f32")
    second = load("k1", TRANSPOSED, "f32", inside, constant(3.0, "f32"))
    total = op("add", op("mul", first, second), load("k2", PLACE, "f32"))
    total = op("add", total, op("cast", index(COLUMN), dtype="f32"))
    return made(Store("k3", PLACE, total))


@pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("sizes", [(1, 3, 5), (2, 65, 66)])
def test_more_than_a_copy(target: Target, sizes: tuple[int, int, int]) -> None:
    bound = canonical(masked(), lambda a, b: a == b, lambda size: 100)
    assert len(bound.kernel.stages) == 2
    count = sizes[0] * sizes[1] * sizes[2]
    rng = np.random.default_rng(0)
    by_name = {f"k{n}": rng.normal(0, 1, count).astype(np.float32) for n in range(4)}
    lists = {name: buffer.tolist() for name, buffer in by_name.items()}
    run_kernel(masked(), lists, runs(bound.kernel, sizes))
    given = [by_name[name] for name in bound.buffers]
    assert compiled(bound.kernel, target)(given, passed(bound, sizes)) == 0
    np.testing.assert_allclose(by_name["k3"], lists["k3"], rtol=1e-6, atol=1e-6)


def unchanged(given: Kernel, seen: int = 100) -> bool:
    return tiled(given, lambda size: seen) is given


def test_what_is_not_worth_it_or_not_allowed() -> None:
    def store(address: Size, buffer: str = "k1") -> Kernel:
        return made(Store(buffer, PLACE, load("k0", address, "f32")))

    assert not unchanged(store(TRANSPOSED))
    assert unchanged(store(TRANSPOSED), seen=8)
    assert unchanged(store(PLACE))
    # Dense along no axis; in place.
    assert unchanged(store(2 * TRANSPOSED))
    assert unchanged(store(TRANSPOSED, "k0"))
    many = load("k0", TRANSPOSED, "f32")
    for number in range(2, 5):
        many = op("add", many, load(f"k{number}", TRANSPOSED, "f32"))
    assert unchanged(made(Store("k1", PLACE, many)))
