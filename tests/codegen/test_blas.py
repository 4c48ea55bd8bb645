"""Products as they are told to cuBLASLt, without it (`fake_blas.py`): of any sizes, strides and
addresses."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.graph.materialize import Materialize
from anyshape.loops.product_plan import ADDS, ALIGNMENT_BITS, ALIGNMENTS, HAS_BIAS, KEY
from anyshape.runtime.cuda.blas import Blas, factors
from anyshape.runtime.cuda.product_plans import ProductPlans
from tests.codegen.fake_blas import Lt
from tests.codegen.test_gpu_host import Backend
from tests.codegen.test_products import APART, MANY, PROGRAMS, WIDE, WIDTH, B, W


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Materialize, "on_gpu", property(lambda self: True))


#: What native code has the addresses of.
_KEPT: list[Any] = []


def _compiled(function: Callable[..., Any], lt: Lt) -> Callable[..., Any]:
    plans = ProductPlans(Blas(lt))
    _KEPT.append((lt, plans))
    return anyshape.compile(function, dynamic=True, backend=Backend(products=plans.head))


def _same(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=2e-2, atol=4e-2)


@pytest.mark.parametrize(
    "name",
    ["one element", "a column", "downwards with biases", "one bias for all", "two and two"],
)
def test_programs(name: str) -> None:
    function, batches = PROGRAMS[name]
    lt = Lt(workspace=4096)
    compiled = _compiled(function, lt)
    before = 0
    with torch.no_grad():
        for rows in (3, 8, 1, 0, 8):
            x = torch.randn(rows, WIDTH).bfloat16()
            before = len(lt.batches)
            _same(compiled(x), function(x))
    assert sorted(lt.batches[before:]) == sorted(batches)


def test_biases_at_odd_distances() -> None:
    """All of a batch are at the addresses that it was proposed for."""
    lt = Lt()
    whole = torch.randn(60).bfloat16()
    biases = [whole[19 * n :][:WIDTH] for n in range(3)]

    def function(x: Tensor, *biases: Tensor) -> list[Tensor]:
        return [F.linear(x, w, b).sin() for w, b in zip(W[:3], biases, strict=True)]

    compiled = _compiled(function, lt)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, WIDTH).bfloat16()
            _same(compiled(x, *biases), function(x, *biases))
    assert max(lt.batches) == 3
    assert {each.bias for each in lt.algorithms} == {2}


#: A matrix of these rows and columns as it may lie: plain, transposed, with rows or columns
#: between, behind an odd address, expanded.
LAYOUTS: dict[str, Callable[[int, int], Tensor]] = {
    "plain": lambda rows, columns: torch.randn(rows, columns),
    "transposed": lambda rows, columns: torch.randn(columns, rows).t(),
    "in wider rows": lambda rows, columns: torch.randn(rows, columns + 3)[:, :columns],
    "in wider columns": lambda rows, columns: torch.randn(columns, rows + 5).t()[:rows],
    "odd": lambda rows, columns: torch.randn(rows, columns + 1)[:, 1:],
    "by two": lambda rows, columns: torch.randn(rows, 2 * columns)[:, ::2],
    "rows by two": lambda rows, columns: torch.randn(2 * rows, columns)[::2],
    "one row": lambda rows, columns: torch.randn(1, columns).expand(rows, columns),
    "one column": lambda rows, columns: torch.randn(rows, 1).expand(rows, columns),
}
SIZES = [(4, 5, 6), (1, 5, 6), (4, 1, 6), (4, 5, 1), (1, 1, 3), (3, 1, 1), (8, 16, 8), (4, 0, 6)]


def _bfloat16(value: Tensor) -> Tensor:
    """As it lies, at an address that is no better."""
    storage = value.untyped_storage().nbytes() // 4
    whole = torch.empty(storage, dtype=torch.bfloat16)
    made = whole.as_strided(value.shape, value.stride(), value.storage_offset())
    return made.copy_(value) if 0 not in value.stride() else _expanded(made, value)


def _expanded(made: Tensor, value: Tensor) -> Tensor:
    own = [slice(0, 1) if step == 0 else slice(None) for step in value.stride()]
    made[tuple(own)] = value[tuple(own)]
    return made


def _multiplied(lt: Lt, blas: Blas, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor | None:
    """As native code does it; None if it is torch's."""
    made = torch.full((x.shape[0], w.shape[1]), torch.nan, dtype=torch.bfloat16)
    key = dict.fromkeys(KEY, 0) | {"batch": 1, "kind": 0 if bias is None else HAS_BIAS}
    for place, (name, each) in enumerate((("a", x), ("b", w), ("d", made), ("bias", bias))):
        if each is not None:
            key["kind"] |= each.data_ptr() % 16 << ALIGNMENTS + ALIGNMENT_BITS * place
            if name != "bias":
                key[f"{name}.row"], key[f"{name}.column"] = each.stride()
    key |= {"rows": x.shape[0], "columns": w.shape[1], "depth": x.shape[1]}
    own = blas.operation(key)
    if own is None:
        return None
    chosen = blas.proposed(key, own)
    assert chosen is not None
    if bias is not None:
        where = ctypes.c_void_p(bias.data_ptr())
        lt["cublasLtMatmulDescSetAttribute"](own.operation, 8, ctypes.byref(where), 8)
    one, before = (ctypes.byref(ctypes.c_float(each)) for each in factors(key))
    a, b, d = (each.data_ptr() for each in (x, w, made))
    given = one, b, own.b, a, own.a, before, d, own.d, d, own.d
    words = ctypes.create_string_buffer(chosen.words, 64)
    assert not lt["cublasLtMatmul"](blas.handle, own.operation, *given, words, None, 0, None)
    return made


@pytest.mark.parametrize("kinds", list(itertools.product(LAYOUTS, LAYOUTS)), ids=" by ".join)
def test_layouts(kinds: tuple[str, str]) -> None:
    blas = Blas(lt := Lt())
    for rows, depth, columns in SIZES:
        sizes = (rows, depth), (depth, columns)
        x, w = (_bfloat16(LAYOUTS[kind](*own)) for kind, own in zip(kinds, sizes, strict=True))
        bias = torch.randn(columns + 1).bfloat16()[1:]
        for each in (None, bias):
            got = _multiplied(lt, blas, x, w, each)
            if got is not None:
                _same(got, x @ w if each is None else torch.addmm(each, x, w))
            is_plain = set(kinds) <= {"plain", "transposed", "in wider rows", "rows by two"}
            assert got is not None or not depth or not is_plain


@pytest.mark.parametrize(
    "kinds", [("odd", "transposed"), ("by two", "plain"), ("plain", "one row")], ids=" by ".join
)
def test_layouts_in_programs(kinds: tuple[str, str]) -> None:
    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.addmm(b, x, w).relu()

    compiled = _compiled(function, Lt())
    for rows, depth, columns in SIZES:
        sizes = (rows, depth), (depth, columns)
        x, w = (_bfloat16(LAYOUTS[kind](*own)) for kind, own in zip(kinds, sizes, strict=True))
        b = torch.randn(columns + 1).bfloat16()[1:]
        _same(compiled(x, w, b), function(x, w, b))


@pytest.mark.parametrize("kinds", [("plain", "plain"), ("odd", "transposed")], ids=" by ".join)
def test_batches(kinds: tuple[str, str]) -> None:
    lt = Lt()
    compiled = _compiled(lambda x, w: (x @ w).relu(), lt)
    for count, rows, depth, columns in ((2, 4, 5, 6), (1, 4, 5, 6), (3, 1, 8, 8), (2, 3, 0, 2)):
        x, w = (
            _bfloat16(torch.stack([LAYOUTS[kind](*sizes) for _ in range(count)]))
            for kind, sizes in zip(kinds, ((rows, depth), (depth, columns)), strict=True)
        )
        for one, other in ((x, w), (x[:1].expand(count, -1, -1), w), (x.mT.contiguous().mT, w)):
            _same(compiled(one, other), (one @ other).relu())
    assert max(lt.batches) == 3


def test_addresses_are_part_of_what_is_proposed() -> None:
    """The same sizes and strides at other addresses are another product."""
    lt = Lt()
    compiled = _compiled(lambda x, w: (x @ w).relu(), lt)
    whole, w = torch.randn(400).bfloat16(), torch.randn(8, 8).bfloat16()
    for start in (0, 1, 2, 4, 8, 3, 16):
        x = whole[start : start + 40].view(5, 8)
        _same(compiled(x, w), (x @ w).relu())
    assert {each.alignments[1] for each in lt.algorithms} == {2, 4, 8, 16}


@pytest.mark.parametrize("distance", [8, 24, 136])
def test_weights_that_overlap_or_are_near(distance: int) -> None:
    """Distances of weights that are no whole matrices."""
    lt = Lt()
    whole = torch.randn(WIDTH * WIDTH + 2 * distance).bfloat16()
    own = [whole[distance * n :][: WIDTH * WIDTH].view(WIDTH, WIDTH) for n in (1, 0, 2)]

    def function(x: Tensor, *weights: Tensor) -> list[Tensor]:
        return [(x @ each).sin() for each in weights]

    compiled = _compiled(function, lt)
    for weights in (own, own[::-1], [own[0], own[2], own[1]], [own[1], own[1], own[0]]):
        x = torch.randn(5, WIDTH).bfloat16()
        _same(compiled(x, *weights), function(x, *weights))


def test_nothing_proposed_is_asked_for_once() -> None:
    """What was described for it stays."""
    lt = Lt(has=lambda: False)
    compiled = _compiled(lambda x: [F.linear(x, each).sin() for each in (W[0], APART[1])], lt)
    sizes: list[int] = []
    with torch.no_grad():
        for _ in range(5):
            x = torch.ones(3, WIDTH).bfloat16()
            compiled(x)
            sizes.append(len(lt.made))
    assert sizes[1:] == [sizes[1]] * 4
    assert not lt.kinds("preference")
    assert not lt.batches


def test_float16_and_what_is_added_to() -> None:
    lt = Lt()
    weight, bias = MANY[0].half(), B[0].half()
    compiled = _compiled(lambda x: x + F.linear(F.linear(x, weight, bias).sin(), weight), lt)
    with torch.no_grad():
        for rows in (3, 5):
            x = torch.randn(rows, WIDTH).half()
            want = x + F.linear(F.linear(x, weight, bias).sin(), weight)
            _same(compiled(x), want)
    assert lt.batches


def test_what_is_there_is_added_or_overwritten() -> None:
    """Also what is no number."""
    blas = Blas(lt := Lt())
    x, w = torch.randn(3, 4).bfloat16(), torch.randn(4, 5).bfloat16()
    for kind in (0, ADDS, HAS_BIAS):
        words = {"kind": kind, "rows": 3, "columns": 5, "depth": 4, "batch": 1}
        strides = {"a.row": 4, "a.column": 1, "b.row": 5, "b.column": 1, "d.row": 5, "d.column": 1}
        key = dict.fromkeys(KEY, 0) | words | strides
        assert blas.operation(key | {"d.row": 1, "d.column": 3}) is None
        assert blas.operation(key | {"a.row": 0}) is None
        assert blas.operation(key | {"depth": 0}) is None
        own = blas.operation(key)
        assert own is not None
        assert blas.proposed(key, own) is not None
    assert len(lt.algorithms) == 3
    compiled = _compiled(lambda x, w: (x @ w).relu(), Lt())
    for _ in range(3):
        junk = [torch.full((3, 5), torch.nan, dtype=torch.bfloat16) for _ in range(20)]
        del junk
        _same(compiled(x, w), (x @ w).relu())


def test_a_wide_weight_and_its_parts() -> None:
    lt = Lt()
    parts = WIDE.split(WIDTH)
    compiled = _compiled(lambda x: [F.linear(x, each).sin() for each in (WIDE, *parts)], lt)
    x = torch.randn(7, WIDTH).bfloat16()
    for _ in range(2):
        _same(compiled(x), [F.linear(x, each).sin() for each in (WIDE, *parts)])
