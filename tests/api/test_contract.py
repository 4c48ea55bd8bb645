"""`compile(shapes=...)`: one program for all that the contract allows, an error for the rest."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import random
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import Dim, DynamicInt, Shapes
from anyshape.errors import BadShapeSpec, ConstraintViolation, ShapeContractViolation
from anyshape.shapes import Contract


class Block(nn.Module):
    """A transformer block, with a mask."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, seq, width = x.shape
        head = width // self.heads
        packed = self.qkv(self.before(x)).view(batch, seq, 3, self.heads, head)
        q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) / head**0.5
        scores = scores.masked_fill(~mask[:, None, None, :], -1e4).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))


BLOCK = Shapes({"x": "batch seq 16", "mask": "batch seq"}, "0 <= batch <= 4096", "1 <= seq <= 8192")


@pytest.mark.parametrize("first", [(3, 5), (0, 1), (1, 1), (0, 9), (1, 4), (4096, 1), (1, 300)])
def test_a_block_over_its_whole_contract(first: tuple[int, int]):
    module = Block().eval()
    compiled: Any = anyshape.compile(module, shapes=BLOCK, fullgraph=True)
    chance = random.Random(0)
    sizes = [first, (0, 1), (1, 1), (0, 300), (1, 300), (4096, 1)]
    calls = 500 if first == (3, 5) else 20
    while len(sizes) < calls:
        batch = chance.choice((0, 1, 2, 3, chance.randint(0, 40), chance.randint(0, 400)))
        seq = chance.randint(1, max(1, min(8192, 400 // max(batch, 1))))
        sizes.append((batch, seq))
    with torch.no_grad():
        for batch, seq in sizes:
            x, mask = torch.randn(batch, seq, 16), torch.rand(batch, seq) > 0.3
            torch.testing.assert_close(compiled(x, mask), module(x, mask))
    stats = compiled.stats()
    assert (stats.graphs, stats.recompiles, stats.captures) == (1, 0, 1)
    assert (stats.hits, stats.eager_calls) == (len(sizes) - 1, 0)


@pytest.mark.parametrize(
    ("x", "mask", "says"),
    [
        ((4097, 1, 16), (4097, 1), "x.shape[0] is 4097, where batch <= 4096 is declared"),
        ((2, 0, 16), (2, 0), "x.shape[1] is 0, where 1 <= seq <= 8192 is declared"),
        ((2, 3, 17), (2, 3), "x.shape[2] is 17, where the contract has 16"),
        ((2, 3, 16), (2, 4), "mask.shape[1] is 4, where seq is 3 (x.shape[1])"),
        ((2, 3, 16), (1, 3), "mask.shape[0] is 1, where batch is 2 (x.shape[0])"),
        ((2, 3), (2, 3), "x has 2 dimensions"),
    ],
)
@pytest.mark.parametrize("compiled_before", [False, True])
def test_a_call_outside(
    x: tuple[int, ...], mask: tuple[int, ...], says: str, compiled_before: bool
):
    compiled: Any = anyshape.compile(Block(), shapes=BLOCK)
    if compiled_before:
        compiled(torch.randn(2, 3, 16), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ShapeContractViolation) as caught:
        compiled(torch.randn(x), torch.ones(mask, dtype=torch.bool))
    assert says in str(caught.value)
    assert compiled.stats().recompiles == 0


# -- programs and contracts: served by one graph ---------------------------------------------------


def ones(*sizes: int) -> Tensor:
    return torch.ones(sizes)


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def doubled(x: Tensor, y: Tensor) -> Tensor:
    return x.repeat(2) + y[1:]


def halved(x: Tensor, y: Tensor) -> Tensor:
    return x[: x.shape[0] // 2] + y


def by_eight(x: Tensor) -> Tensor:
    return x.view(8, -1).sum(0)


def first_n(x: Tensor, n: int) -> Tensor:
    return x[:n] * n


def of_tree(tree: dict[str, Any]) -> Tensor:
    return tree["a"][0] + tree["b"]


def starred(*xs: Tensor, **named: Tensor) -> Tensor:
    return xs[0] + xs[1] + named["z"]


def one_is_not_read(x: Tensor, mask: Tensor) -> Tensor:
    return x * 2


def optional(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return x if mask is None else x + mask


def scaled(x: Tensor) -> Tensor:
    return x * x.shape[0]


@dataclass
class Pair:
    a: Tensor
    b: Tensor


def of_pair(pair: Pair) -> Tensor:
    return pair.a + pair.b


seq = Dim("seq", max=50)
tens = Dim("b", max=800)
odd = 2 * seq + 1
Args = tuple[Any, ...]

SERVED: list[tuple[Callable[..., Any], Any, list[Args], list[Args]]] = [
    (add, {"x": "n", "y": "n"}, [(ones(n), ones(n)) for n in (3, 0, 1, 7)], [(ones(3), ones(1))]),
    (
        add,
        ("n m", "n m"),
        [(ones(n, 2), ones(n, 2)) for n in (1, 0, 7)],
        [(ones(3, 1), ones(3, 2))],
    ),
    (
        doubled,
        {"x": (seq,), "y": (odd,)},
        [(ones(n), ones(2 * n + 1)) for n in (3, 0, 1, 50)],
        [(ones(3), ones(6)), (ones(51), ones(103))],
    ),
    (doubled, {"y": "2*n+1", "x": "n"}, [(ones(n), ones(2 * n + 1)) for n in (1, 0, 5)], []),
    (scaled, {"x": (odd,)}, [(ones(n),) for n in (7, 1, 101)], [(ones(8),), (ones(103),)]),
    (
        halved,
        {"x": "d", "y": "d//2"},
        [(ones(7), ones(3)), (ones(8), ones(4)), (ones(0), ones(0)), (ones(1), ones(0))],
        [(ones(8), ones(3))],
    ),
    (
        by_eight,
        Shapes({"x": (tens,)}, tens % 8 == 0),
        [(ones(n),) for n in (16, 0, 8, 800)],
        [(ones(12),), (ones(808),)],
    ),
    (
        first_n,
        Shapes({"x": "k", "n": "n"}, "0 <= n <= k"),
        [(ones(6), 3), (ones(6), 6), (ones(1), 0), (ones(0), 0)],
        [(ones(3), 4)],
    ),
    (
        of_tree,
        {"tree": {"a": ["n"], "b": ("n",)}},
        [({"a": [ones(n)], "b": ones(n)},) for n in (3, 0, 1)],
        [({"a": [ones(2)], "b": ones(1)},)],
    ),
    (
        of_pair,
        {"pair": {"a": "n", "b": "n"}},
        [(Pair(ones(n), ones(n)),) for n in (3, 0, 1)],
        [(Pair(ones(2), ones(1)),)],
    ),
    (
        one_is_not_read,
        {"x": "n", "mask": "n 3"},
        [(ones(n), ones(n, 3)) for n in (2, 0, 1)],
        [(ones(2), ones(3, 3)), (ones(2), ones(2, 4)), (ones(2), ones(2)), (ones(2), 5)],
    ),
    (optional, {"x": "n", "mask": "n"}, [(ones(n),) for n in (2, 0, 1)], []),
    (
        add,
        {"x": (Dim.AUTO,), "y": {0: Dim("dx", min=3, max=6)}},
        [(ones(n), ones(n)) for n in (6, 3, 4)],
        [(ones(7), ones(7)), (ones(2), ones(2))],
    ),
    (scaled, {"x": (Dim.DYNAMIC,)}, [(ones(n),) for n in (6, 0, 1)], []),
    (scaled, {"x": Dim.AUTO}, [(ones(n),) for n in (6, 0, 1)], []),
]


@pytest.mark.parametrize(
    ("function", "shapes", "inside", "outside"),
    SERVED,
    ids=[f"{index}-{row[0].__name__}" for index, row in enumerate(SERVED)],
)
def test_one_graph_inside_and_an_error_outside(
    function: Callable[..., Any], shapes: Any, inside: list[Args], outside: list[Args]
):
    for start in range(len(inside)):
        compiled = anyshape.compile(function, shapes=shapes)
        for args in (*inside[start:], *inside[:start]):
            torch.testing.assert_close(compiled(*args), function(*args))
        for args in outside:
            with pytest.raises(ShapeContractViolation):
                compiled(*args)
        stats = compiled.stats()
        assert (stats.graphs, stats.recompiles, stats.eager_calls) == (1, 0, 0)
        assert stats.hits == len(inside) - 1


def test_by_call_name():
    compiled = anyshape.compile(starred, shapes={0: "n", 1: "n", "z": "n"})
    for n in (3, 0, 1, 5):
        compiled(ones(n), ones(n), z=ones(n))
    assert compiled.stats().recompiles == 0
    with pytest.raises(ShapeContractViolation, match=r"named\['z'\].shape\[0\] is 2"):
        compiled(ones(1), ones(1), z=ones(2))


def test_what_is_not_named_follows_the_ordinary_policy():
    compiled = anyshape.compile(scaled, shapes={"x": "n _"})
    for n, m in ((2, 3), (4, 3), (5, 4), (6, 5)):
        compiled(ones(n, m))
    assert compiled.stats().graphs == 2
    assert compiled.stats().recompiles == 1


def test_static_and_numbers():
    compiled = anyshape.compile(scaled, shapes={"x": (Dim.STATIC, 3)}, dynamic=True)
    compiled(ones(2, 3))
    compiled(ones(4, 3))
    assert compiled.stats().graphs == 2, "static: another size is another program"
    with pytest.raises(ShapeContractViolation, match="is 4, where the contract has 3"):
        compiled(ones(2, 4))


def test_one_tensor_at_two_places():
    compiled = anyshape.compile(add, shapes={"x": "a b", "y": "b a"})
    for n in (3, 4, 5):
        x = ones(n, n)
        compiled(x, x)
    assert compiled.stats().recompiles == 0
    with pytest.raises(ShapeContractViolation):
        compiled(x := ones(3, 4), x)


WORDS = ("a", "b", "c", "a", "b", "2*a+1", "a+b", "a//2", "b%3", "max(a,b)", "3", "_")


@pytest.mark.parametrize("seed", range(12))
def test_entries_admit_what_the_contract_admits(seed: int):
    """Whatever was compiled before, and whatever of it the program looks at."""
    chance = random.Random(seed)
    names = ["x", "y", "z"]
    while True:
        words = {name: [chance.choice(WORDS) for _ in range(2)] for name in names}
        where = chance.sample(["a <= 7", "b % 2 == 0", "a <= b", "1 <= b <= 9"], 2)
        try:
            shapes = Shapes({name: " ".join(each) for name, each in words.items()}, *where)
            judge = Contract(shapes, inspect.signature(three), "three")
            compiled = anyshape.compile(three, shapes=shapes, dynamic=True)
        except BadShapeSpec:
            continue  # a dim that nothing tells
        break
    for _ in range(60):
        values = {name: chance.randint(0, 6) for name in "abc"}
        values["_"] = chance.randint(0, 3)
        sizes = {
            name: [eval(word, {"max": max}, values) for word in each]
            for name, each in words.items()
        }
        if chance.random() < 0.3:
            sizes[chance.choice(names)][chance.randint(0, 1)] = chance.randint(0, 6)
        args = {name: torch.rand(each) for name, each in sizes.items()}
        try:
            judge.match(args, lambda value: isinstance(value, Tensor))
        except ShapeContractViolation:
            with pytest.raises(ShapeContractViolation):
                compiled(**args)
        else:
            torch.testing.assert_close(compiled(**args), three(**args))
    assert compiled.stats().graphs <= 1


def three(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x.sum() * x.shape[0] + y.sum() * y.shape[1]


# -- the program breaks the contract ---------------------------------------------------------------


def breaks_in_three_lines(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[0] > 10:
        x = x + 1
    z = x.reshape(-1, 4)
    if x.shape[1] == 8:
        z = z * 2
    return z.sum() + y.sum()


def line_of(function: Callable[..., Any], code: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if code in line)


def test_every_line_that_breaks_it_is_named():
    compiled = anyshape.compile(breaks_in_three_lines, shapes={"x": "a b", "y": "_"})
    with pytest.raises(ConstraintViolation) as caught:
        compiled(ones(3, 8), ones(5))
    violations = caught.value.violations
    asked = ["x.shape[0] > 10", "x.reshape(-1, 4)", "x.shape[1] == 8"]
    assert len(violations) == len(asked)
    for violation, needed, code in zip(
        violations, ["a < 11", "(a*b) % 4 == 0", "b == 8"], asked, strict=True
    ):
        assert violation.startswith(f"`{needed}` is needed")
        assert f"{__file__}:{line_of(breaks_in_three_lines, code)} in" in violation
        assert code in violation
        assert "it is not so for" in violation
    with pytest.raises(ConstraintViolation):
        compiled(ones(4, 8), ones(5))
    assert compiled.stats().captures == 1, "it is known to be broken"


def in_another_way(x: Tensor, y: Any = None, how: str = "") -> Tensor:
    if how.startswith("flat"):
        return x.view(3, -1)
    if x.dtype == torch.float64:
        return x.view(3, -1) + 1
    return x * 2 if y is None else x * y


@pytest.mark.parametrize(
    ("bad", "again"),
    [
        ((ones(6), ones(6)), (ones(6), ones(6))),
        ((ones(6), None, "flat"), (ones(9), None, "flat")),
        ((ones(6).double(),), (ones(12).double(),)),
    ],
    ids=["an argument that the spec does not name", "a value", "a dtype"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_way_that_breaks_it_says_nothing_of_other_ways(bad: Any, again: Any, is_first: bool):
    compiled = anyshape.compile(in_another_way, shapes={"x": "n"})
    if not is_first:
        compiled(ones(4))
    for args in (bad, again):
        with pytest.raises(ConstraintViolation):
            compiled(*args)
    assert compiled.stats().captures == 2 - is_first, "the way is known to break it"
    fine: list[Any] = [(ones(5),), (ones(0),), (ones(5), 3), (ones(5), ones(1)), (ones(5).half(),)]
    for args in fine:
        torch.testing.assert_close(compiled(*args), in_another_way(*args))
    with pytest.raises(ConstraintViolation):
        compiled(*again)


def test_a_size_beside_the_contract_chooses_the_way():
    def tied_if_short(x: Tensor, y: Tensor) -> Tensor:
        return x + y if y.shape[0] < 5 else x * y.sum()

    compiled = anyshape.compile(tied_if_short, shapes={"x": "n", "y": (Dim.AUTO,)})
    for n in (3, 4):
        with pytest.raises(ConstraintViolation):
            compiled(ones(n), ones(n))
    assert compiled.stats().captures == 1
    for n, m in ((3, 6), (4, 9), (2, 1)):
        torch.testing.assert_close(compiled(ones(n), ones(m)), tied_if_short(ones(n), ones(m)))


def test_a_call_that_breaks_it_is_not_kept():
    compiled = anyshape.compile(in_another_way, shapes={"x": "n"})

    def argument_of_a_call() -> weakref.ref[Tensor]:
        x = ones(6)
        with pytest.raises(ConstraintViolation):
            compiled(x, None, "flat")
        return weakref.ref(x)

    for _ in ("captured", "known"):
        argument = argument_of_a_call()
        gc.collect()
        assert argument() is None


def test_ways_that_break_it_are_not_kept_without_end():
    compiled = anyshape.compile(in_another_way, shapes={"x": "n"})
    for number in range(12):
        with pytest.raises(ConstraintViolation):
            compiled(ones(6), None, f"flat {number}")
    assert len(compiled._function.broken_contracts) <= 8


def test_a_narrower_contract_is_honoured():
    spec = Shapes({"x": "a 8", "y": "_"}, "a <= 10")
    compiled = anyshape.compile(breaks_in_three_lines, shapes=spec)
    for n in (3, 0, 10):
        compiled(ones(n, 8), ones(5))
    assert compiled.stats().graphs == 1


def test_a_size_that_the_spec_does_not_name_is_hinted_at():
    compiled = anyshape.compile(add, shapes={"x": "n"})
    with pytest.raises(ConstraintViolation, match=r"y.shape\[0\] is 6, and the spec does not"):
        compiled(ones(6), ones(6))


class Seen:
    def __init__(self, count: int) -> None:
        self.counts = [count, 0]


def test_an_integer_that_the_spec_does_not_name_is_hinted_at():
    def masked(x: Tensor, seen: Seen) -> Tensor:
        return x + ones(seen.counts[0])

    compiled = anyshape.compile(masked, shapes={"x": "n"})
    with pytest.raises(
        ConstraintViolation, match=r"\(seen.counts\[0\] is 6, and the spec does not"
    ):
        compiled(ones(6), Seen(6))


def test_a_range_that_another_size_narrows():
    def tied(x: Tensor, y: Tensor) -> Tensor:
        if y.shape[0] < 5:
            return x + y
        return x - y

    compiled = anyshape.compile(tied, shapes={"x": (Dim("n"),), "y": (Dim.AUTO,)})
    with pytest.raises(ConstraintViolation, match=r"return x \+ y"):
        compiled(ones(3), ones(3))


def test_auto_is_never_an_error():
    compiled = anyshape.compile(breaks_in_three_lines, shapes={"x": Dim.AUTO})
    compiled(ones(3, 8), ones(5))
    compiled(ones(4, 8), ones(5))
    assert compiled.stats().graphs == 1


def test_dynamic_is_strict():
    compiled = anyshape.compile(breaks_in_three_lines, shapes={"x": (Dim.DYNAMIC, None)})
    with pytest.raises(ConstraintViolation, match=r"x.shape\[0\] > 10"):
        compiled(ones(3, 8), ones(5))


def test_marks_beside_a_contract_mean_what_they_mean_without():
    def bounded(x: Tensor, y: Tensor) -> Tensor:
        return x * 2 + (1 if y.shape[0] < 10 else 2)

    compiled = anyshape.compile(bounded, shapes={"x": "n"})
    y = ones(3)
    anyshape.mark_dynamic(y, 0)
    compiled(ones(3), y)
    compiled(ones(4), ones(5))
    assert compiled.stats().graphs == 1


def test_a_setting_above_the_contract_is_named():
    compiled = anyshape.compile(scaled, shapes={"x": "n"})
    with pytest.raises(ConstraintViolation, match="force_parameter_static_shapes"):
        compiled(nn.Parameter(ones(3)))
    with anyshape.config.patch(force_parameter_static_shapes=False):
        compiled = anyshape.compile(scaled, shapes={"x": "n"})
        for n in (3, 0, 1):
            compiled(nn.Parameter(ones(n)))
        assert compiled.stats().graphs == 1


@pytest.mark.parametrize("said", [Dim("k"), Dim.DYNAMIC])
def test_a_setting_above_an_integer_of_the_contract_is_named(said: Any):
    def times(x: Tensor, held: dict[str, int]) -> Tensor:
        return x * held["n"]

    compiled = anyshape.compile(times, shapes={"held": {"n": said}})
    with (
        anyshape.config.patch(specialize_int=True),
        pytest.raises(ConstraintViolation, match="specialize_int"),
    ):
        compiled(ones(3), {"n": 4})
    compiled = anyshape.compile(times, shapes={"held": {"n": said}})
    for n in (4, 0, DynamicInt(7), 1):
        torch.testing.assert_close(compiled(ones(3), {"n": n}), ones(3) * n)
    assert compiled.stats().graphs == 1


def test_a_setting_above_what_is_dynamic_without_a_name():
    compiled = anyshape.compile(scaled, shapes={"x": Dim.DYNAMIC})
    with pytest.raises(ConstraintViolation, match="force_parameter_static_shapes"):
        compiled(nn.Parameter(ones(3)))
    compiled = anyshape.compile(scaled, shapes={"x": Dim.AUTO})
    compiled(nn.Parameter(ones(3)))


# -- what else there is ----------------------------------------------------------------------------


def test_ways_that_depend_on_data():
    def branching(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * x.shape[0]
        return x - 1

    compiled = anyshape.compile(branching, shapes={"x": "n"})
    for n in (3, 4, 1, 7):
        for x in (ones(n), -ones(n)):
            torch.testing.assert_close(compiled(x), branching(x))
    assert len(compiled.entries) == 1
    assert compiled.stats().recompiles == 0


def test_a_later_way_that_breaks_the_contract():
    def branching(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x.view(2, -1).sum(0)

    compiled = anyshape.compile(branching, shapes={"x": "n"})
    compiled(ones(4))
    with pytest.raises(ConstraintViolation, match=r"x.view\(2, -1\)"):
        compiled(-ones(4))


def test_a_module_with_hooks():
    module = Block().eval()
    compiled = anyshape.compile(module, shapes=BLOCK)

    def plus_one(module: Any, args: Any, result: Any) -> Any:
        return result + 1

    module.register_forward_hook(plus_one)
    mask = torch.ones(2, 3, dtype=torch.bool)
    for n in (2, 1, 0):
        compiled(torch.randn(n, 3, 16), mask[:n])
        compiled(torch.randn(n, 3, 16), mask=mask[:n])
    with pytest.raises(ShapeContractViolation, match="is 3, where batch is 1"):
        compiled(torch.randn(1, 3, 16), torch.ones(3, 3, dtype=torch.bool))


def test_a_wrapped_function():
    @functools.wraps(add)
    def wrapped(*args: Any, **kwargs: Any) -> Tensor:
        return add(*args, **kwargs)

    compiled = anyshape.compile(wrapped, shapes={"x": "n", "y": "n"})
    for n in (3, 0, 1):
        compiled(ones(n), ones(n))
    assert compiled.stats().graphs == 1
    with pytest.raises(ShapeContractViolation):
        compiled(ones(3), y=ones(1))


def test_copies_and_pickles_keep_the_contract():
    compiled = anyshape.compile(Block(), shapes=BLOCK)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        with pytest.raises(ShapeContractViolation):
            other(torch.randn(2, 0, 16), torch.ones(2, 0, dtype=torch.bool))


def test_wrong_specs_are_told_when_compiling():
    with pytest.raises(BadShapeSpec, match="no parameter 'z'"):
        anyshape.compile(add, shapes={"z": "n"})
    with pytest.raises(BadShapeSpec, match=r"shapes\['x'\]"):
        anyshape.compile(add, shapes={"x": 3.5})


def test_other_dtypes_and_layouts_are_other_programs():
    compiled = anyshape.compile(scaled, shapes={"x": "n m"})
    for n in (3, 1, 0):
        compiled(ones(n, 2))
        compiled(ones(n, 2).double())
    assert compiled.stats().graphs == 2
    assert all(range_of(entry) == "[0, int_oo]" for entry in compiled.entries)


def range_of(entry: Any) -> str:
    return str(entry.symbols["s0"].range)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_is_outside(layout: torch.layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one layout is a prototype, the other is deprecated
        nested = torch.nested.nested_tensor([ones(3, 4)] * 2, layout=layout)
    compiled = anyshape.compile(scaled, shapes={"x": "n m"})
    with pytest.raises(ShapeContractViolation, match=r"x is a nested tensor, where shapes\['x'\]"):
        compiled(nested)


def test_explain_says_it_is_the_contract():
    compiled = anyshape.compile(doubled, shapes={"x": "seq", "y": "2*seq+1"})
    text = str(compiled.explain(ones(3), ones(7)))
    assert "dynamic: any L['x'].size()[0]: the shape contract has it as seq" in text
    assert "2*L['x'].size()[0] + 1 == L['y'].size()[0]: the shape contract" in text


def unread(x: Tensor, y: Tensor, n: int) -> Tensor:
    return x.sum() * n


def test_explain_says_of_everything_that_the_contract_has_it():
    shapes = {"x": ("batch", 4, Dim.STATIC, None), "y": ("batch", Dim.DYNAMIC), "n": Dim("n")}
    compiled = anyshape.compile(unread, shapes=shapes)
    compiled(ones(3, 4, 5, 6), ones(3, 7), anyshape.DynamicInt(2))
    compiled(ones(2, 4, 5, 6), ones(2, 7), anyshape.DynamicInt(0))
    explained = compiled.explain()
    (entry,) = explained.entries
    stand = {each.source: (each.state, each.values, each.by) for each in entry.sizes}
    ours = "the shape contract"
    assert stand == {
        "L['x'].size()[0]": ("dynamic", "[0, int_oo]", ours),
        "L['x'].size()[1]": ("static", "4", ours),
        "L['x'].size()[2]": ("static", "5", ours),
        "L['x'].size()[3]": ("static", "6", "the default"),
        # The program does not look at it, and its guards do.
        "L['y'].size()[0]": ("dynamic", "[0, int_oo]", ours),
        "L['n']": ("dynamic", "[0, int_oo]", ours),
    }
    assert "L['x'].size()[1] = 4: the shape contract has it as 4" in str(explained)
    assert "what would change it: a number for it in shapes=" in str(explained)
    assert "what would change it: a name for it in shapes=" in str(explained)


@pytest.mark.parametrize("value", [True, 2.0])
def test_a_number_of_another_kind_is_no_integer_of_the_contract(value: Any):
    compiled = anyshape.compile(unread, shapes={"n": Dim("n")})
    compiled(ones(3), ones(3), 1)
    with pytest.raises(ShapeContractViolation):
        compiled(ones(3), ones(3), value)


def test_a_marked_size_that_the_contract_names_is_the_contracts():
    compiled = anyshape.compile(breaks_in_three_lines, shapes={"x": "a b"})
    x = ones(3, 8)
    anyshape.mark_dynamic(x, (0, 1))
    with pytest.raises(ConstraintViolation):
        compiled(x, ones(5))


@pytest.mark.parametrize("setting", ["duck_shape", "specialize_zero_one"])
def test_settings_that_would_split_it(setting: str):
    with anyshape.config.patch(**{setting: True}):
        compiled = anyshape.compile(scaled, shapes={"x": "n m"})
        for n, m in ((3, 3), (3, 4), (1, 0), (0, 1)):
            torch.testing.assert_close(compiled(ones(n, m)), scaled(ones(n, m)))
    assert compiled.stats().graphs == 1


def test_reset_forgets_that_it_is_broken():
    compiled = anyshape.compile(breaks_in_three_lines, shapes={"x": "a b"})
    for _ in range(2):
        with pytest.raises(ConstraintViolation):
            compiled(ones(3, 8), ones(5))
        anyshape.reset()
    assert compiled.stats().captures == 0


@pytest.mark.parametrize("reads", [True, False])
def test_as_many_items_as_the_contract_has(reads: bool):
    def first(x: Tensor, items: Any) -> Tensor:
        return x + items[0] if reads and items[0] is not None else x

    compiled = anyshape.compile(first, shapes={"x": "n", "items": ["n"]})
    for inside in ([ones(3)], (ones(3),), [None]):
        compiled(ones(3), inside)
    graphs = compiled.stats().graphs
    for outside in ([], [ones(3), ones(3)], (), [None, None], [ones(4)], (5,)):
        with pytest.raises(ShapeContractViolation):
            compiled(ones(3), outside)
    for size in (4, 5):
        for inside in ([ones(size)], (ones(size),), [None]):
            compiled(ones(size), inside)
    assert compiled.stats().graphs == graphs


def test_arguments_that_are_not_given():
    def total(x: Tensor, *more: Tensor, **named: Tensor) -> Tensor:
        return x + sum(each.sum() for each in (*more, *named.values()))

    compiled = anyshape.compile(total, shapes={0: "n", 1: "n", "z": "m"})
    for size in (3, 4, 5):
        compiled(ones(size))
        compiled(ones(size), ones(size))
        compiled(ones(size), z=ones(size + 1))
    assert compiled.stats().graphs == 3
    with pytest.raises(ShapeContractViolation):
        compiled(ones(3), ones(4))


class Held(nn.Module):
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(size))
        self.inner = nn.Linear(size, 2)


def test_what_a_module_answers_to_by_name():
    def f(module: Held, x: Tensor) -> Tensor:
        return module.inner(x * module.scale)

    spec = {"module": {"scale": "n", "inner": {"weight": "_ n"}}, "x": "b n"}
    compiled = anyshape.compile(f, shapes=spec)
    with pytest.raises(ConstraintViolation, match="force_parameter_static_shapes"):
        compiled(Held(3), ones(2, 3))
    with anyshape.config.patch(
        force_parameter_static_shapes=False, force_nn_module_property_static_shapes=False
    ):
        compiled = anyshape.compile(f, shapes=spec)
        for size in (3, 4, 1):
            compiled(Held(size), ones(2, size))
        assert compiled.stats().graphs == 1
        with pytest.raises(ShapeContractViolation, match="scale"):
            compiled(Held(3), ones(2, 4))
