"""Products that host code asks of the library itself, without one: a function of Python multiplies
what it is told by addresses, and says what it was asked."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

import anyshape
from anyshape.codegen.host.branches import branches_of
from anyshape.codegen.host.products import product_of
from anyshape.codegen.nvptx.choice import GpuChoice
from anyshape.graph.materialize import Materialize
from anyshape.loops.expr import Dtype
from anyshape.loops.product_plan import ADDS, HAS_BIAS, IS_FLOAT16, KEY
from anyshape.loops.program import Area, Buffer, Extern, Repeated, Segment
from anyshape.runtime.cuda import product_plans
from anyshape.runtime.cuda.blas import Algorithm, Operation, alignment, factors, key_of
from anyshape.runtime.cuda.product_plans import ProductPlans
from anyshape.support.lazy_dataclass import replace
from tests.codegen.test_gpu_host import Backend

_POINTER = ctypes.c_void_p
_MULTIPLY = ctypes.CFUNCTYPE(ctypes.c_int, *[_POINTER] * 14, ctypes.c_size_t, _POINTER)
_SET = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int, _POINTER, ctypes.c_size_t)


class Library:
    """`refuses`: it has no product of this key. `workspace`: what its algorithms want."""

    handle = 7

    def __init__(
        self,
        refuses: Callable[[Mapping[str, int]], bool] = lambda key: False,
        workspace: int = 0,
        fails: bool = False,
    ) -> None:
        self.asked: list[dict[str, int]] = []
        self.keys: list[dict[str, int]] = []
        self.calls: list[dict[str, int]] = []
        self._refuses, self._workspace, self._fails = refuses, workspace, fails
        self._biases: dict[int, int] = {}
        self._kept = _MULTIPLY(self._multiplied), _SET(self._told)
        self.multiply, self.set = (ctypes.cast(f, _POINTER).value or 0 for f in self._kept)

    def operation(self, key: Mapping[str, int]) -> Operation | None:
        self.asked.append(dict(key))
        if key["rows"] < 1 or self._refuses(key):
            return None
        self.keys.append(dict(key))
        number = len(self.keys)
        return Operation(number, 1, 2, 3)

    def proposed(self, key: Mapping[str, int], own: Operation) -> Algorithm | None:
        return Algorithm(struct.pack("8q", *range(8)), self._workspace)

    def _told(self, operation: int, attribute: int, where: int, size: int) -> int:
        assert (attribute, size) == (8, 8)
        self._biases[operation] = _POINTER.from_address(where).value or 0
        return 0

    def _multiplied(self, handle: int, operation: int, alpha: int, b: int, *rest: Any) -> int:
        b_layout, a, a_layout, beta, c, c_layout, d, d_layout, algorithm, memory, size, _ = rest
        if self._fails:
            return 1
        assert (handle, b_layout, a_layout, d_layout, c_layout) == (self.handle, 2, 1, 3, 3)
        assert c == d
        assert bool(memory) == bool(size)
        assert size == self._workspace
        assert struct.unpack("8q", ctypes.string_at(algorithm, 64)) == tuple(range(8))
        key = self.keys[operation - 1]
        for name, address in zip("abd", (a, b, d), strict=True):
            assert address % alignment(key, name) == 0
        one, before = (ctypes.c_float.from_address(each).value for each in (alpha, beta))
        assert (one, before) == factors(key)
        target = _shown(key, "d", d, "rows", "columns")
        left, right = _shown(key, "a", a, "rows", "depth"), _shown(key, "b", b, "depth", "columns")
        made = left.float() @ right.float()
        if before:  # what is there may be anything otherwise
            made = made + before * target
        if key["kind"] & HAS_BIAS:
            bias = self._biases[operation]
            made += _of_memory(key, bias, (key["batch"], 1, key["columns"]), ("bias.batch", "", 1))
        target.copy_(made)
        self.calls.append(key)
        return 0


def _shown(key: Mapping[str, int], name: str, address: int, rows: str, columns: str) -> Tensor:
    strides = f"{name}.batch", f"{name}.row", f"{name}.column"
    return _of_memory(key, address, (key["batch"], key[rows], key[columns]), strides)


def _of_memory(
    key: Mapping[str, int], address: int, sizes: tuple[int, ...], names: tuple[Any, ...]
) -> Tensor:
    strides = [name if isinstance(name, int) else key.get(name, 0) for name in names]
    extent = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    words = np.ctypeslib.as_array((ctypes.c_int16 * extent).from_address(address))
    dtype = torch.float16 if key["kind"] & IS_FLOAT16 else torch.bfloat16
    return torch.from_numpy(words).view(dtype).as_strided(sizes, strides)


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Materialize, "on_gpu", property(lambda self: True))


WIDTH = 16
#: Four weights at equal distances, as parameters of a model often lie, and their biases.
MANY = torch.linspace(-1, 1, 4 * WIDTH * WIDTH).reshape(4, WIDTH, WIDTH).sin().bfloat16()
BIASES = torch.linspace(-1, 1, 4 * WIDTH).reshape(4, WIDTH).bfloat16()
W = [Parameter(each, requires_grad=False) for each in MANY]
B = [Parameter(each, requires_grad=False) for each in BIASES]
PLAIN = BIASES[1].clone()
ONE = torch.ones(1).bfloat16()
WIDE = torch.linspace(-1, 1, 3 * WIDTH * WIDTH).reshape(3 * WIDTH, WIDTH).cos().bfloat16()
#: At other distances.
APART = [
    Parameter(torch.randn(WIDTH * n, WIDTH).bfloat16()[:WIDTH], requires_grad=False)
    for n in (1, 5, 2)
]


def _each(
    weights: Sequence[Tensor], biases: Sequence[Tensor] | None = None
) -> Callable[[Tensor], Any]:
    given = biases or [None] * len(weights)
    return lambda x: [F.linear(x, w, b).sin() for w, b in zip(weights, given, strict=True)]


def _layers(x: Tensor) -> Tensor:
    for _ in range(5):
        q, k, v = (F.linear(x, w, b) for w, b in zip(W[:3], B[:3], strict=True))
        x = x + F.linear((q * k + v).tanh(), W[3])
    return x


#: A program, and the batches of the products it makes of a call.
PROGRAMS: dict[str, tuple[Callable[[Tensor], Any], list[int]]] = {
    "one": (lambda x: F.linear(x, W[0]) + 1, [1]),
    "a bias": (lambda x: F.linear(x, W[0], B[0]).relu(), [1]),
    "a bias of any size": (lambda x: F.linear(x, W[0], PLAIN).relu(), [1]),
    "one element": (lambda x: F.linear(x, W[0], ONE).relu(), []),
    "not transposed": (lambda x: x @ W[1], [1]),
    "a column": (lambda x: x @ W[1][:, :1], [1]),
    "three": (_each(W[:3]), [3]),
    "three with biases": (_each(W[:3], B[:3]), [3]),
    "one bias for all": (_each(W[:3], [B[0]] * 3), [3]),
    "downwards": (_each(W[2::-1]), [3]),
    "downwards with biases": (_each(W[2::-1], B[2::-1]), [3]),
    "biases against weights": (_each(W[:3], B[2::-1]), [1, 1, 1]),
    "two and two": (_each([W[0], W[3], W[1], W[2]]), [2, 2]),
    "one weight twice": (_each([W[0], W[0]]), [1, 1]),
    "with one that differs": (_each([WIDE, W[0], W[1]]), [1, 2]),
    "one without a bias": (
        lambda x: (
            F.linear(x, W[0], B[0]).sin(),
            F.linear(x, W[1]).sin(),
            F.linear(x, W[2], B[2]).sin(),
        ),
        [2, 1],
    ),
    "one after the other": (lambda x: F.linear(F.linear(x, W[0]).sin(), W[1]) * 1, [1, 1]),
    "results": (lambda x: (F.linear(x, W[0]), F.linear(x, W[1])), []),
    "layers": (_layers, [3, 1] * 5),
}
#: Where results of the products lie is not said.
SOMEWHERE = ("results", "layers")


def _compared(function: Callable[[Tensor], Any], library: Library, dtype: torch.dtype) -> list[int]:
    plans = ProductPlans(library)
    compiled = anyshape.compile(function, dynamic=True, backend=Backend(products=plans.head))
    batches: list[int] = []
    with torch.no_grad():
        for rows in (3, 8, 1, 5, 0, 8):
            x = torch.randn(rows, WIDTH).to(dtype)
            before = len(library.calls)
            got, want = compiled(x), function(x)
            torch.testing.assert_close(got, want, rtol=2e-2, atol=4e-2)
            batches = [key["batch"] for key in library.calls[before:]]
    assert compiled.stats().graphs == 1
    return batches


@pytest.mark.parametrize("name", PROGRAMS)
def test_products(name: str) -> None:
    function, batches = PROGRAMS[name]
    library = Library()
    found = _compared(function, library, torch.bfloat16)
    if name not in SOMEWHERE:
        assert sorted(found) == sorted(batches)
    assert sum(found) == sum(batches) or name == "results"
    assert max(found, default=1) == max(batches, default=1) or name == "results"
    asked = [tuple(key.values()) for key in library.asked]
    assert len(asked) == len(set(asked)), "each is asked for once, also if it is refused"


def test_weights_anywhere() -> None:
    """Any two are at an equal distance."""
    library = Library()
    assert sum(_compared(_each(APART), library, torch.bfloat16)) == 3


def _in_order(order: Sequence[int], lasting: str) -> Callable[[Tensor], Any]:
    """Layers whose weights lie in this order; some results last."""

    def function(x: Tensor) -> Any:
        before = q = v = x
        for _ in range(5):
            q, k, v = (F.linear(x, W[place]) for place in order)
            x = x + F.linear((q * k + v.sin()).tanh(), W[3])
            if lasting == "into the next layer":
                x = x + before * 0.5
                before = k
        return (x, q, v.sin()) if lasting == "to the end" else x

    return function


@pytest.mark.parametrize("lasting", ["", "into the next layer", "to the end"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_results_in_the_order_of_weights(order: tuple[int, ...], lasting: str) -> None:
    """They change places, with what takes theirs."""
    library = Library()
    found = _compared(_in_order(order, lasting), library, torch.bfloat16)
    assert sum(found) == 20
    if not lasting and order in ((0, 1, 2), (2, 1, 0)):
        assert max(found) >= 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_two_are_always_one(order: tuple[int, ...]) -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range(4):
            gate, up = (F.linear(x, W[place], B[place]) for place in order)
            x = F.linear(F.silu(gate) * up, W[2])
        return x.relu()

    assert sorted(_compared(function, Library(), torch.bfloat16)) == [1] * 4 + [2] * 4


@pytest.mark.parametrize(
    "library",
    [
        Library(refuses=lambda key: True),
        Library(refuses=lambda key: key["batch"] > 1),
        Library(refuses=lambda key: key["rows"] % 2 == 0),
        Library(fails=True),
        Library(workspace=4096),
    ],
    ids=["nothing", "no batches", "odd sizes", "it fails", "with memory"],
)
@pytest.mark.parametrize("name", ["a bias", "three with biases", "with one that differs", "layers"])
def test_what_is_left_is_torchs(name: str, library: Library) -> None:
    _compared(PROGRAMS[name][0], library, torch.bfloat16)


def test_float16() -> None:
    weights = [Parameter(each, requires_grad=False) for each in MANY[:2].half()]
    library = Library()
    assert _compared(_each(weights), library, torch.float16) == [2]


def test_float32_is_torchs() -> None:
    library = Library()
    assert _compared(lambda x: x @ W[0].float(), library, torch.float32) == []
    assert not library.asked


def test_batches() -> None:
    library = Library()
    plans = ProductPlans(library)

    def function(x: Tensor) -> Tensor:
        return (x @ x.mT).relu() @ x

    compiled = anyshape.compile(function, dynamic=True, backend=Backend(products=plans.head))
    for shape in ((3, 5, 8), (2, 1, 8), (4, 7, 16), (1, 5, 8)):
        x = torch.randn(shape).bfloat16()
        torch.testing.assert_close(compiled(x), function(x), rtol=2e-2, atol=2e-2)
    assert len(library.calls) == 6


def test_many_shapes_have_their_plans() -> None:
    """The table grows."""
    library = Library()
    plans = ProductPlans(library)
    function = _each(W[:1])
    compiled = anyshape.compile(function, dynamic=True, backend=Backend(products=plans.head))
    with torch.no_grad():
        for _ in range(2):
            for rows in range(2, 200):
                x = torch.randn(rows, WIDTH).bfloat16()
                torch.testing.assert_close(compiled(x), function(x), rtol=2e-2, atol=4e-2)
    assert len(library.asked) == 198
    assert len(library.calls) == 2 * 198 - 1, "the first call captures"


def test_weights_that_are_elsewhere_at_each_call() -> None:
    """Plans for their distances are bounded; then each is a product by itself."""
    library = Library()
    plans = ProductPlans(library)

    def function(x: Tensor, one: Tensor, other: Tensor) -> Tensor:
        return F.linear(x, one).sin() * F.linear(x, other)

    compiled = anyshape.compile(function, dynamic=False, backend=Backend(products=plans.head))
    whole = torch.randn(200 * WIDTH, WIDTH).bfloat16()
    x = torch.randn(5, WIDTH).bfloat16()
    for away in range(1, 101):
        one, other = whole[:WIDTH], whole[WIDTH * away :][:WIDTH]
        want = function(x, one, other)
        torch.testing.assert_close(compiled(x, one, other), want, rtol=2e-2, atol=8e-2)
    batches = [key["batch"] for key in library.calls]
    assert batches.count(2) == 32
    assert batches.count(1) == 2 * (99 - 32)
    assert len(library.asked) == 33


def test_an_error_of_ours_is_torchs_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found once, since what is made before it stays, and told."""
    told: list[str] = []
    monkeypatch.setattr(product_plans._notices, "tell", told.append)

    class Broken(Library):
        def operation(self, key: Mapping[str, int]) -> Operation | None:
            super().operation(key)
            raise RuntimeError("no")

    library = Broken()
    _compared(_each(W[:2]), library, torch.bfloat16)
    asked = [tuple(key.values()) for key in library.asked]
    assert asked
    assert len(asked) == len(set(asked)) == len(told)
    assert set(told) == {"products on GPUs are torch's: RuntimeError: no"}


def test_float16_sums_are_torchs_as_long_as_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library, wants = Library(), True
    monkeypatch.setattr(product_plans, "_wants_float16_sums", lambda: wants)
    plans = product_plans.ProductPlans(library)
    function = _each(W[:1])
    compiled = anyshape.compile(function, dynamic=True, backend=Backend(products=plans.head))
    with torch.no_grad():
        for wants in (True, True, False, False):
            x = torch.ones(3, WIDTH).bfloat16()
            torch.testing.assert_close(compiled(x), function(x), rtol=2e-2, atol=4e-2)
            assert bool(library.calls) is not wants


class InRounds(Backend):
    """`length` steps from `first` on come again and again, to the last product of an odd number."""

    first, length = 1, 2

    def made(self, segment: Segment, choice: GpuChoice) -> Callable[..., Any]:
        rounds = (len(segment.steps) - self.first) // self.length
        while not _is_again(segment, repeated := Repeated(self.first, self.length, rounds)):
            rounds -= 1
        self.rounds = rounds
        return super().made(replace(segment, repeated=repeated), choice)


def _is_again(segment: Segment, repeated: Repeated) -> bool:
    kinds = [type(step) for step in segment.steps]
    first, length, rounds = repeated
    return kinds[first:][: length * rounds] == kinds[first:][:length] * rounds


@pytest.mark.parametrize("first", [1, 2], ids=["behind products", "behind kernels"])
def test_products_of_one_matrix_within_rounds_and_without(first: int) -> None:
    """Where rounds begin and end, groups do."""

    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        begun = x = F.linear(x.sin(), W[2])
        h = x
        for weight in [W[0], W[1]] * 4:
            h = x.sin()
            x = F.linear(h, weight)
        return F.linear(h, W[2]).sin(), x.cos(), begun.cos()

    class Rounds(InRounds):
        pass

    Rounds.first = first + 1
    library = Library()
    plans = ProductPlans(library)
    backend = Rounds(products=plans.head)
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (3, 8, 5):
            x = torch.randn(rows, WIDTH).bfloat16()
            torch.testing.assert_close(compiled(x), function(x), rtol=2e-2, atol=4e-2)
    assert backend.rounds >= 7


def area(name: str, sizes: tuple[int, ...] = (8, 8), strides: tuple[int, ...] = (8, 1)) -> Area:
    return Area(name, sizes, strides)


def found(step: Extern, dtype: Dtype = "bf16") -> int | None:
    names = {each.buffer for each in step.arguments if isinstance(each, Area)}
    buffers = {n: Buffer(n, dtype, (8, 8), (8, 1), "temporary") for n in names}
    product = product_of(step, buffers)
    if product is not None:
        assert len(product.words) == len(KEY) - 1, "all but the kind"
        assert not branches_of([step], buffers)
    return None if product is None else product.kind


def test_which_calls_are_products() -> None:
    a, b, d = area("a"), area("b"), area("d")
    assert found(Extern("mm_out", (d, a, b))) == 0
    assert found(Extern("mm_out", (d, a, b)), "f16") == IS_FLOAT16
    assert found(Extern("mm_out", (d, a, b)), "f32") is None
    bias = area("bias", (8,), (1,))
    assert found(Extern("addmm_out", (d, bias, a, b, 1.0, 1.0))) == HAS_BIAS
    assert found(Extern("addmm_out", (d, d, a, b, 1.0, 1.0))) == ADDS
    assert found(Extern("addmm_out", (d, bias, a, b, 0.5, 1.0))) is None
    assert found(Extern("addmm_out", (d, area("c"), a, b, 1.0, 1.0))) is None
    for odd in (area("bias", (8,), (2,)), area("bias", (8,), (0,)), area("bias", (1, 8))):
        assert found(Extern("addmm_out", (d, odd, a, b, 1.0, 1.0))) is None
    assert found(Extern("convolution", (d, a, b))) is None


def test_alignment() -> None:
    words = dict.fromkeys(KEY, 0)
    assert alignment(words, "a") == 16
    assert alignment(words | {"b.batch": 12}, "b") == 8
    assert alignment(words | {"kind": 2 << 8}, "a") == 2
    assert alignment(words | {"kind": 8 << 12}, "b") == 8
    assert alignment(words | {"kind": 8 << 12}, "d") == 16
    assert key_of(range(len(KEY))) == {name: place for place, name in enumerate(KEY)}
