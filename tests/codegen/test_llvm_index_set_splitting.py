"""Axes in pieces: what lies on either side of a seam, wherever the seam is; and nothing is read
that a piece has no part in."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.target import Target
from anyshape.loops.expr import Axis, Scalar, constant, fresh_scope, index, load
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.symbolic import Size, as_symbol, symbol
from tests.codegen.kernel_samples import kernel, op
from tests.codegen.llvm_jit import AVX2, NEON, assembly, compiled, host, runs
from tests.codegen.one_module import module
from tests.loops.oracle.interpret import run_kernel

ROW, COLUMN, CHANNEL = (symbol(name) for name in ("i0", "i1", "i2"))
N0, N1, N2, N3 = (symbol(name) for name in ("n0", "n1", "n2", "n3"))
ZERO = constant(0.0, "f32")


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def compared(name: str, a: Size, b: Size) -> Scalar:
    return op(name, index(a), index(b), dtype="b1")


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    return op("where", condition, a, b, dtype="f32")


def both(a: Scalar, b: Scalar) -> Scalar:
    return op("and", a, b, dtype="b1")


def joined() -> Kernel:
    """k1 (n0, n1), k2 (n0, n2) and k3 (n0, n3) side by side, each row plus one of k4."""
    width = N1 + N2 + N3
    first, second = compared("lt", COLUMN, N1), compared("lt", COLUMN, N1 + N2)
    middle = both(compared("ge", COLUMN, N1), second)
    last = compared("gt", COLUMN, N1 + N2 - 1)
    parts = [
        load("k1", ROW * N1 + COLUMN, "f32", first, ZERO),
        load("k2", ROW * N2 + COLUMN - N1, "f32", middle, ZERO),
        load("k3", ROW * N3 + COLUMN - N1 - N2, "f32", last, ZERO),
    ]
    value = where(first, parts[0], where(second, parts[1], parts[2]))
    store = Store("k0", ROW * width + COLUMN, op("add", value, load("k4", ROW, "f32")))
    return kernel((Axis(as_symbol(ROW), N0), Axis(as_symbol(COLUMN), width)), Stage((), (store,)))


def padded(front: int = 2) -> Kernel:
    """k1 (n0, n1), a number of each row (k2) added to it, with zeros around."""
    inside = both(compared("ge", ROW, front), compared("lt", ROW - front, N0))
    inside = both(inside, both(compared("le", front, COLUMN), compared("lt", COLUMN - front, N1)))
    element = load("k1", (ROW - front) * N1 + COLUMN - front, "f32", inside, ZERO)
    # It does not move with the vectors: it must not be read before the piece.
    own = load("k2", ROW - front, "f32", inside, ZERO)
    value = where(inside, op("add", element, own), ZERO)
    height, width = N0 + 2 * front, N1 + 2 * front + N2
    axes = (Axis(as_symbol(ROW), height), Axis(as_symbol(COLUMN), width))
    return kernel(axes, Stage((), (Store("k0", ROW * width + COLUMN, value),)))


def triangle() -> Kernel:
    """Of k1 (n0, n1) what is on the diagonal n2 or below it; the seam moves from row to row."""
    value = where(compared("le", COLUMN - ROW, N2), load("k1", ROW * N1 + COLUMN, "f32"), ZERO)
    axes = (Axis(as_symbol(ROW), N0), Axis(as_symbol(COLUMN), N1))
    return kernel(axes, Stage((), (Store("k0", ROW * N1 + COLUMN, value),)))


def short_padded() -> Kernel:
    """k1 (n0, n1, n2) times a number of each channel, with n3 columns of zeros behind."""
    inside = compared("lt", COLUMN, N1)
    element = load("k1", (ROW * N1 + COLUMN) * N2 + CHANNEL, "f32", inside, ZERO)
    scaled = op("mul", element, load("k2", CHANNEL, "f32"))
    width = N1 + N3
    axes = ((ROW, N0), (COLUMN, width), (CHANNEL, N2))
    store = Store("k0", (ROW * width + COLUMN) * N2 + CHANNEL, where(inside, scaled, ZERO))
    made = kernel(tuple(Axis(as_symbol(a), n) for a, n in axes), Stage((), (store,)))
    return replace(made, short=True)


class Fenced:
    """Arrays that end where memory does: to read beyond is to crash."""

    def __init__(self) -> None:
        self._kept: list[mmap.mmap] = []

    def array(self, values: Any) -> Any:
        pages = -(-values.nbytes // mmap.PAGESIZE)
        memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        self._kept.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        end = start + pages * mmap.PAGESIZE
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        place = (ctypes.c_char * values.nbytes).from_address(end - values.nbytes)
        made = np.frombuffer(place, values.dtype)
        made[:] = values
        return made


def check(made: Kernel, target: Target, sizes: tuple[int, ...], counts: list[int]) -> None:
    rng = np.random.default_rng(0)
    fenced = Fenced()
    arrays = [fenced.array(rng.normal(0, 1, count).astype(np.float32)) for count in counts]
    lists = {f"k{n}": array.tolist() for n, array in enumerate(arrays)}
    run_kernel(made, lists, runs(made, sizes))
    assert compiled(made, target)(arrays, sizes) == 0
    np.testing.assert_array_equal(arrays[0], np.array(lists["k0"], np.float32))


TARGETS = pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
WIDTHS = [(0, 5, 0), (5, 0, 40), (0, 0, 1), (1, 1, 1), (16, 16, 16), (15, 17, 33), (64, 3, 130)]
WIDTHS += [(100, 0, 0), (0, 0, 0)]


@TARGETS
def test_side_by_side(target: Target) -> None:
    for rows in (0, 1, 3):
        for a, b, c in WIDTHS:
            counts = [rows * (a + b + c), rows * a, rows * b, rows * c, rows]
            check(joined(), target, (rows, a, b, c), counts)


@TARGETS
@pytest.mark.parametrize("front", [0, 2])
def test_zeros_around(target: Target, front: int) -> None:
    for rows, width, more in [(0, 3, 1), (1, 1, 0), (3, 14, 2), (2, 64, 0), (5, 33, 50), (2, 0, 4)]:
        counts = [(rows + 2 * front) * (width + 2 * front + more), rows * width, rows]
        check(padded(front), target, (rows, width, more), counts)


@TARGETS
def test_a_triangle(target: Target) -> None:
    for rows, width, diagonal in [(7, 40, 3), (40, 7, 0), (20, 20, -5), (3, 50, 99), (3, 50, -99)]:
        check(triangle(), target, (rows, width, diagonal), [rows * width] * 2)


@TARGETS
def test_two_axes_as_one(target: Target) -> None:
    for sizes in [(1, 1, 3, 0), (2, 8, 3, 24), (3, 40, 3, 0), (2, 5, 1, 3), (2, 3, 20, 4)]:
        a, b, c, d = sizes
        check(short_padded(), target, sizes, [a * (b + d) * c, a * b * c, c])


@pytest.mark.parametrize(("target", "ends"), [(AVX2, 0), (NEON, 3)], ids=["avx2", "neon"])
def test_nothing_is_asked_in_a_piece(target: Target, ends: int) -> None:
    """Each of three pieces is read once; without masked loads the end of each is another load."""
    text = module({"f": joined()}, target).split("@f.part(")[1]
    assert text.count("load <16 x float>") == 3 + ends
    assert text.count("@llvm.masked.load") == 3 - ends
    assert "select" not in text


def test_nothing_is_read_before_a_piece() -> None:
    """The number of a row is read where it is known that the row has one, not in each round."""
    text = module({"f": padded()}, host())
    before = text[: text.index("load float")].rsplit("\nL", 1)[1]
    assert "phi" not in before
    assert "select" not in text.split("@f.part(")[1]


@pytest.mark.parametrize("make", [joined, padded, triangle, short_padded])
def test_other_machines(make: Callable[[], Kernel]) -> None:
    for target in (AVX2, NEON):
        assert assembly(make(), target)
