"""One row a guard: the guards, arguments for which they hold, arguments for which they fail."""

from __future__ import annotations

import math
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.path import Path, constant
from anyshape.symbolic import (
    EVERYTHING,
    Range,
    as_symbol,
    eq,
    floordiv,
    ge,
    lt,
    maximum,
    minimum,
    ne,
    or_,
    symbol,
)
from tests.guards.verdicts import X, Y, guard


class RanUserCode(BaseException):
    """Not an `Exception`: a dispatcher lets it through."""


def _never(*args: object, **kwargs: object) -> Any:
    raise RanUserCode


class Foreign:
    """Every method that a careless guard might call."""

    __eq__ = __ne__ = __len__ = __bool__ = __iter__ = __getitem__ = __contains__ = _never
    __repr__ = __str__ = __index__ = __int__ = _never

    def __hash__(self) -> int:
        return hash("a")


class Listing(list[Any]):
    __len__ = __iter__ = __getitem__ = __eq__ = __bool__ = __contains__ = _never


class Pair(tuple[Any, ...]):
    __len__ = __iter__ = __getitem__ = __eq__ = __bool__ = _never
    __hash__ = tuple.__hash__


class Mapping(dict[Any, Any]):
    __len__ = __iter__ = __getitem__ = __eq__ = __bool__ = __contains__ = __missing__ = _never
    keys = get = _never


class Text(str):
    __eq__ = __len__ = _never
    __hash__ = str.__hash__


class Number(int):
    __eq__ = __ne__ = _never
    __hash__ = int.__hash__


class Color(Enum):
    RED = 1
    BLUE = 2


Point = namedtuple("Point", "a b")


class Plain:
    def __init__(self, **names: object) -> None:
        self.__dict__.update(names)


class Other(Plain):
    pass


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: object = None) -> None:
        if a is not None:
            self.a = a


class Watchful(Plain):
    """Reading any attribute of it is user code; its dictionary can still be read."""

    __getattribute__ = _never


class Pretender:
    """Its `__dict__` is a property that lies."""

    @property
    def __dict__(self) -> dict[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride] a trap
        return {"a": "a lie"}


class Disguised(Pretender, Plain):
    def __init__(self, **names: object) -> None:
        Plain.__dict__["__dict__"].__get__(self).update(names)


class Curious(type):
    __eq__ = _never
    __hash__ = type.__hash__


class OfCurious(metaclass=Curious):
    pass


def watchful(**names: object) -> Watchful:
    made = Watchful.__new__(Watchful)
    Plain.__dict__["__dict__"].__get__(made).update(names)
    return made


def with_odd_dictionary(**names: object) -> Plain:
    made = Plain()
    made.__dict__ = Mapping(names)
    return made


def cell(*values: object) -> types.CellType:
    return types.CellType(*values)


def ordered(*keys: str, last: str | None = None) -> OrderedDict[str, int]:
    made = OrderedDict.fromkeys(keys, 0)
    if last is not None:
        made.move_to_end(last)
    return made


@dataclass(frozen=True)
class Case:
    kind: Kind
    guards: Sequence[Guard]
    holds: Sequence[object]
    fails: Sequence[object]
    symbols: Sequence[SymbolSource] = ()
    inputs: Sequence[Any] = ()
    #: arguments are pairs (x, y)
    pairs: bool = False
    probe: Callable[[], object] | None = None

    def __str__(self) -> str:
        texts = [f"{g.path or ''} {g.kind.name} {type(g.value).__name__}" for g in self.guards]
        return "; ".join(texts)


def one(kind: Kind, value: object, holds: Sequence[object], fails: Sequence[object]) -> Case:
    """A guard on `x` alone."""
    return Case(kind, (guard(kind, X, value),), holds, fails)


def typed(
    kind: Kind, of: type, value: object, holds: Sequence[object], fails: Sequence[object]
) -> Case:
    """The same where the type is guarded before, so that the quick form is generated."""
    return Case(kind, (guard(kind, X, value), guard(Kind.TYPE, X, of)), holds, fails)


def below(path: Path, value: object, holds: Sequence[object], fails: Sequence[object]) -> Case:
    """A step: what it leads to has to be `value`."""
    return Case(Kind.EQUALS, (guard(Kind.EQUALS, path, value),), holds, fails)


def below_typed(
    of: type, path: Path, value: object, holds: Sequence[object], fails: Sequence[object]
) -> Case:
    guards = (guard(Kind.EQUALS, path, value), guard(Kind.TYPE, X, of))
    return Case(Kind.EQUALS, guards, holds, fails)


def function() -> None: ...


NAN, OTHER_NAN = float("nan"), -float("nan")
HELD = Foreign()
FOREIGN = [Foreign(), OfCurious(), OfCurious, Text("a"), Number(3), Listing([1]), Mapping(a=1)]

VALUES = [
    one(Kind.TYPE, list, [[], [1]], [(), Listing(), None, list, *FOREIGN]),
    one(Kind.TYPE, Foreign, [Foreign()], [None, Foreign, *FOREIGN[1:]]),
    one(Kind.TYPE, OfCurious, [OfCurious()], [OfCurious, *FOREIGN[2:]]),
    one(Kind.TYPE, type(None), [None], [0, Foreign()]),
    one(Kind.EQUALS, None, [None], [0, False, "", Foreign()]),
    one(Kind.EQUALS, True, [True], [1, 1.0, False, None, Foreign()]),
    one(Kind.EQUALS, 1, [1], [True, 1.0, 2, "1", Number(1), *FOREIGN]),
    one(Kind.EQUALS, 10**30, [10**30, 10**29 * 10], [10**30 + 1, 1e30, Foreign()]),
    one(Kind.EQUALS, "a", ["a", "".join(["a"])], ["b", b"a", Text("a"), None, *FOREIGN]),
    one(Kind.EQUALS, b"a", [b"a"], ["a", bytearray(b"a"), Foreign()]),
    one(Kind.EQUALS, 1.5, [1.5, 3 / 2], [1.25, 1, NAN, -1.5, "1.5", Foreign()]),
    one(Kind.EQUALS, 2.0, [2.0], [2, True, 2 + 0j]),
    one(Kind.EQUALS, 0.0, [0.0], [-0.0, 0, False, NAN, 1.0, Foreign()]),
    one(Kind.EQUALS, -0.0, [-0.0], [0.0, 0, False, NAN]),
    one(Kind.EQUALS, NAN, [NAN, OTHER_NAN, math.nan], [0.0, math.inf, 0, Foreign()]),
    one(Kind.EQUALS, math.inf, [math.inf], [-math.inf, NAN]),
    one(Kind.EQUALS, 1 + 0j, [1 + 0j], [complex(1, -0.0), 1.0, 1, Foreign()]),
    one(Kind.EQUALS, complex(NAN, 0), [complex(NAN, 0)], [complex(0, NAN), complex(NAN, -0.0)]),
    one(Kind.EQUALS, ..., [...], [None, NotImplemented, Foreign()]),
    one(Kind.EQUALS, (), [()], [[], Pair(), None]),
    one(Kind.EQUALS, (1, "a"), [(1, "a")], [(True, "a"), (1, "b"), (1,), [1, "a"], Pair((1, "a"))]),
    one(Kind.EQUALS, (1, (NAN, -0.0)), [(1, (NAN, -0.0))], [(1, (NAN, 0.0)), (1, [NAN, -0.0])]),
    one(Kind.EQUALS, ("a",), [("a",)], [(Foreign(),), (Text("a"),), (Number(1),)]),
    one(
        Kind.EQUALS, frozenset((1, "a")), [frozenset(("a", 1))], [frozenset((True, "a")), {1, "a"}]
    ),
    one(Kind.EQUALS, frozenset("a"), [frozenset("a")], [frozenset((Foreign(),)), frozenset("b")]),
    one(Kind.EQUALS, slice(1, None), [slice(1, None)], [slice(True, None), slice(1), (1, None)]),
    one(Kind.EQUALS, range(0), [range(0)], [range(1, 1), range(1), ()]),
    one(Kind.EQUALS, torch.Size((2, 3)), [torch.Size((2, 3))], [(2, 3), torch.Size((2, 4))]),
    one(Kind.EQUALS, Point(1, 2), [Point(1, 2)], [(1, 2), Point(1, 2.0)]),
    one(Kind.EQUALS, torch.device("cpu"), [torch.device("cpu")], ["cpu", torch.device("meta")]),
    one(Kind.IDENTITY, function, [function], [_never, None, *FOREIGN]),
    one(Kind.IDENTITY, HELD, [HELD], [*FOREIGN, None]),
    one(Kind.IDENTITY, OfCurious, [OfCurious], [Curious, None]),
    one(Kind.IDENTITY, Color.RED, [Color.RED], [Color.BLUE, 1]),
    one(Kind.IDENTITY, torch.float32, [torch.float32], [torch.float64, "torch.float32"]),
]

_MANY = tuple(range(10**6, 10**6 + 30))
CONTAINERS = [
    one(
        Kind.LENGTH, 2, [[1, 2], (1, 2), {1, 2}, {1: 1, 2: 2}, "ab"], [[], [1], 2, None, Foreign()]
    ),
    one(Kind.LENGTH, 1, [Listing([1]), Pair((1,)), Mapping(a=1), Text("a")], [Listing(), Pair()]),
    typed(Kind.LENGTH, list, 2, [[1, 2]], [[], [1], [1, 2, 3], (1, 2), Listing([1, 2])]),
    typed(Kind.LENGTH, list, 0, [[]], [[0], (), Listing()]),
    typed(Kind.LENGTH, dict, 0, [{}], [{1: 1}, Mapping(), OrderedDict()]),
    typed(Kind.LENGTH, OrderedDict, 0, [OrderedDict()], [ordered("a"), {}]),
    typed(Kind.LENGTH, Listing, 1, [Listing([1])], [Listing(), [1]]),
    typed(Kind.LENGTH, Foreign, 1, [], [Foreign()]),
    typed(Kind.LENGTH, deque, 1, [deque((1,))], [deque(), [1]]),
    one(Kind.KEYS, ("a", "b"), [{"a": 1, "b": 2}, ordered("a", "b")], [{"b": 1, "a": 2}, {"a": 1}]),
    one(Kind.KEYS, ("a", "b"), [ordered("b", "a", last="b")], [ordered("a", "b", last="a")]),
    one(Kind.KEYS, ("a",), [Mapping(a=1)], [Mapping(), ("a",), ["a"], "a", None, Foreign()]),
    one(Kind.KEYS, (), [{}, Mapping()], [{1: 1}, (), None]),
    typed(Kind.KEYS, dict, ("a",), [{"a": 1}, {"".join("a"): 1}], [{}, {"b": 1}, {Foreign(): 1}]),
    typed(Kind.KEYS, dict, (1, "a"), [{1: 1, "a": 1}], [{True: 1, "a": 1}, {1.0: 1, "a": 1}]),
    typed(Kind.KEYS, dict, (10**20,), [{10**20: 1}], [{10**20 + 1: 1}, {1e20: 1}]),
    typed(Kind.KEYS, dict, (), [{}], [{"a": 1}, Mapping()]),
    typed(Kind.KEYS, dict, _MANY, [dict.fromkeys(_MANY)], [dict.fromkeys(_MANY[::-1]), {}]),
    typed(
        Kind.KEYS, dict, _MANY, [{int(f"{i}"): 0 for i in _MANY}], [{float(i): 0 for i in _MANY}]
    ),
    typed(Kind.KEYS, dict, ("a",), [], [{Text("a"): 1}, {OfCurious: 1}, {OfCurious(): 1}]),
    one(Kind.MEMBERS, frozenset((1, "a")), [{1, "a"}, frozenset((1, "a"))], [{True, "a"}, {1}]),
    one(Kind.MEMBERS, frozenset(), [set(), frozenset()], [{1}, (), {}, None, Foreign()]),
    one(Kind.MEMBERS, frozenset("a"), [{"a"}], [{Foreign()}, {Text("a")}, ["a"], {"a", "b"}]),
    one(Kind.CONTAINS, ("a", True), [{"a": 1}, Mapping(a=1), {"a"}], [{}, ("a",), None, "a"]),
    one(Kind.CONTAINS, ("a", False), [{}, Mapping(b=1), defaultdict(_never)], [{"a": 1}, [], None]),
    typed(Kind.CONTAINS, dict, ("a", True), [{"a": 1}], [{}, Mapping(a=1)]),
    typed(Kind.CONTAINS, dict, ("a", False), [{}], [{"a": 1}, Mapping()]),
    typed(Kind.CONTAINS, set, (dict, True), [{dict}, {1, dict}], [{list}, {dict: 1}]),
    typed(Kind.CONTAINS, frozenset, (dict, False), [frozenset()], [frozenset({dict}), set()]),
    typed(Kind.CONTAINS, defaultdict, ("a", False), [defaultdict(_never)], [{}]),
    one(Kind.TRUTH, True, [[0], {0}, "a", Listing([1])], [[], (), "", Listing(), None, 1, True]),
    one(Kind.TRUTH, False, [[], (), "", Listing(), {}], [[0], Listing([1]), None, 0, Foreign()]),
    typed(Kind.TRUTH, list, True, [[0]], [[], [*()], (0,)]),
    typed(Kind.TRUTH, list, False, [[]], [[0], ()]),
    typed(Kind.TRUTH, Mapping, True, [Mapping(a=1)], [Mapping()]),
]

OBJECTS = [
    one(
        Kind.NO_INSTANCE_ATTRIBUTE,
        "a",
        [Plain(b=1), 3, Slotted(1), None, watchful(b=1), Disguised(b=1), Foreign()],
        [Plain(a=1), watchful(a=1), Disguised(a=1), with_odd_dictionary(b=1)],
    ),
    typed(Kind.NO_INSTANCE_ATTRIBUTE, Plain, "a", [Plain()], [Plain(a=None), Other()]),
    typed(Kind.NO_INSTANCE_ATTRIBUTE, Plain, "a", [Plain()], [with_odd_dictionary()]),
    typed(Kind.NO_INSTANCE_ATTRIBUTE, Slotted, "a", [Slotted(), Slotted(1)], [Plain()]),
    typed(Kind.NO_INSTANCE_ATTRIBUTE, Watchful, "a", [watchful()], [watchful(a=1)]),
    typed(Kind.NO_INSTANCE_ATTRIBUTE, Disguised, "a", [Disguised()], [Disguised(a=1)]),
    one(Kind.NO_ATTRIBUTE, "a", [Plain(b=1), 3, Slotted()], [Plain(a=1), Slotted(1), Point(1, 2)]),
    below(X.attribute("a"), 1, [Plain(a=1), Point(1, 2), Slotted(1)], [Plain(), Slotted(), None]),
    below(X.attribute("class"), 1, [Plain(**{"class": 1})], [Plain(), Plain(**{"class": 2})]),
    below(X.attribute("é"), 1, [Plain(é=1)], [Plain(), Plain(é=2)]),
    below(
        X.instance("a"),
        1,
        [Plain(a=1), watchful(a=1), Disguised(a=1)],
        [Plain(), Plain(a=2), Slotted(1), 3, Pretender(), with_odd_dictionary(a=1)],
    ),
    below_typed(Plain, X.instance("a"), 1, [Plain(a=1)], [Plain(), Other(a=1), Plain(a=2)]),
    below_typed(Plain, X.instance("a"), 1, [], [with_odd_dictionary(a=1)]),
    below_typed(Watchful, X.instance("a"), 1, [watchful(a=1)], [watchful(a=2), watchful()]),
    below_typed(Disguised, X.instance("a"), 1, [Disguised(a=1)], [Disguised(a=2), Disguised()]),
    below_typed(Slotted, X.instance("a"), 1, [], [Slotted(1)]),
    below_typed(type, X.instance("LETTER"), "a", [type("T", (), {"LETTER": "a"})], [Plain, int]),
    below(X.item(0), 1, [[1], (1,), {0: 1}, Listing([1]), Pair((1,))], [[], [2], Foreign(), "1"]),
    below(X.item("a"), 1, [{"a": 1}, Mapping(a=1)], [{}, Mapping(), defaultdict(_never), [1]]),
    below_typed(list, X.item(1), 1, [[0, 1]], [[1], [0, 2], (0, 1)]),
    below_typed(tuple, X.item(-1), 1, [(0, 1)], [(), (1, 0), [0, 1]]),
    below_typed(dict, X.item("a"), 1, [{"a": 1}], [{}, {"a": 2}, Mapping(a=1)]),
    below_typed(defaultdict, X.item("a"), 1, [defaultdict(_never, a=1)], [defaultdict(_never)]),
    below_typed(Mapping, X.item("a"), 1, [Mapping(a=1)], [Mapping(a=2), Mapping(), {"a": 1}]),
    below_typed(Listing, X.item(0), 1, [Listing([1])], [Listing(), [1]]),
    below_typed(Foreign, X.item(0), 1, [], [Foreign()]),
    below(X.item((1, "a")), 1, [{(1, "a"): 1}], [{1: 1}, {(1, "b"): 1}]),
    below(X.cell(), 1, [cell(1)], [cell(), cell(2), cell(Foreign()), 1]),
    below(X.item("a").instance("b").item(2), 1, [{"a": Plain(b=[0, 0, 1])}], [{"a": Plain(b=[1])}]),
]

STATE = {"grad": True}
GLOBALS = {"scale": 3}
_LETTERS = [Foreign() for _ in range(6)]
SEVERAL = [
    Case(
        Kind.SAME_OBJECT,
        (guard(Kind.SAME_OBJECT, X.item(0), Y),),
        [([HELD], HELD), ((1,), 1)],
        [([HELD], Foreign()), ([], HELD), ([1.5], float("1.5"))],
        pairs=True,
    ),
    Case(
        Kind.SAME_OBJECT,
        (guard(Kind.SAME_OBJECT, X, X.item(0)), guard(Kind.TYPE, X, list)),
        [],
        [([1], 1), (HELD, 1)],
        pairs=True,
    ),
    Case(
        Kind.DISTINCT,
        (guard(Kind.DISTINCT, None, (X, Y)),),
        [(HELD, Foreign()), (1, 2)],
        [(HELD, HELD), (None, None)],
        pairs=True,
    ),
    Case(
        Kind.DISTINCT,
        (guard(Kind.DISTINCT, None, tuple(X.item(i) for i in range(6))),),
        [_LETTERS, tuple(_LETTERS)],
        [[*_LETTERS[:5], _LETTERS[0]], [*_LETTERS[:4], *_LETTERS[3:5]], _LETTERS[:5]],
    ),
    Case(Kind.DISTINCT, (guard(Kind.DISTINCT, None, (X, X)),), [1], []),
    Case(
        Kind.STATE,
        (guard(Kind.STATE, None, (True, 0)),),
        [1],
        [],
        probe=lambda: (STATE["grad"], 0),
    ),
    Case(Kind.STATE, (guard(Kind.STATE, None, (False, 0)),), [], [1], probe=lambda: (True, 0)),
    one(Kind.PREDICATE, callable, [len, Plain], [1, None]),
    one(Kind.PREDICATE, lambda x: x.a, [Plain(a=1)], [Plain(a=0), Plain(), None]),
    Case(Kind.PREDICATE, (guard(Kind.PREDICATE, None, lambda: False),), [], [1]),
    below(constant(GLOBALS, "G").item("scale"), 3, [None], []),
    below(constant(GLOBALS, "G").item("other"), 3, [], [None]),
    below(constant(math, "math").instance("pi"), math.pi, [None], []),
    Case(
        Kind.IDENTITY,
        (guard(Kind.IDENTITY, X, math), guard(Kind.EQUALS, X.instance("pi"), math.pi)),
        [math],
        [torch, types.ModuleType("math"), None],
    ),
]


# -- tensors and sizes --------------------------------------------------------------------------


def tensor(*sizes: int, **options: Any) -> torch.Tensor:
    return torch.zeros(sizes, **options)


def spec(*sizes: int | None, **changes: Any) -> TensorSpec:
    names: dict[str, Any] = {
        "type": torch.Tensor,
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "requires_grad": False,
        "sizes": sizes,
    }
    return TensorSpec(**(names | changes))


class Subclass(torch.Tensor):
    pass


def in_order(*sizes: int, order: Sequence[int]) -> torch.Tensor:
    made = torch.empty([sizes[dim] for dim in order])
    return made.permute([list(order).index(dim) for dim in range(len(sizes))])


def strided(sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    return torch.zeros(4096).as_strided(sizes, strides)


LAST = (0, 2, 3, 1)
TENSORS = [
    one(
        Kind.TENSOR,
        spec(2, 3),
        [tensor(2, 3), tensor(3, 2).t()],
        [
            *(tensor(2, 4), tensor(3, 3), tensor(2), tensor(2, 3, 1), tensor()),
            *(tensor(2, 3, dtype=torch.float64), tensor(2, 3, device="meta")),
            *(tensor(2, 3, requires_grad=True), torch.nn.Parameter(tensor(2, 3))),
            *(tensor(2, 3).as_subclass(Subclass), None, [2, 3], Foreign(), torch.Size((2, 3))),
        ],
    ),
    one(Kind.TENSOR, spec(), [tensor()], [tensor(1), tensor(0), 0.0]),
    one(
        Kind.TENSOR,
        spec(4, type=torch.nn.Parameter, requires_grad=True),
        [torch.nn.Parameter(tensor(4))],
        [tensor(4, requires_grad=True), torch.nn.Parameter(tensor(4), requires_grad=False)],
    ),
    one(
        Kind.TENSOR,
        spec(2, device=torch.device("meta")),
        [tensor(2, device="meta")],
        [tensor(2), tensor(3, device="meta")],
    ),
    one(
        Kind.TENSOR,
        spec(None, 3),
        [tensor(0, 3), tensor(7, 3)],
        [tensor(7, 4), tensor(7), tensor()],
    ),
    one(Kind.TENSOR, spec(None), [tensor(0), tensor(1)], [tensor(), tensor(1, 1)]),
    one(
        Kind.TENSOR,
        spec(2, 3, layout=torch.strided),
        [tensor(2, 3), tensor(3, 2).t()],
        [tensor(2, 3).to_sparse(), tensor(2, 3).to_mkldnn()],
    ),
    one(
        Kind.TENSOR,
        spec(2, 3, strides=(3, 1)),
        [tensor(2, 3)],
        [tensor(3, 2).t(), tensor(2, 6)[:, ::2]],
    ),
    one(
        Kind.TENSOR,
        spec(None, None, order=(0, 1)),
        [tensor(2, 3), tensor(3, 1).t(), strided((1, 3), (7, 1)), strided((0, 3), (1, 5))],
        [tensor(3, 2).t(), tensor(2, 6)[:, ::2], strided((2, 1), (2, 1)), tensor(2)],
    ),
    one(
        Kind.TENSOR,
        spec(None, None, order=(1, 0)),
        [
            tensor(3, 2).t(),
            tensor(1, 3),
            strided((0, 3), (9, 5)),
            strided((3, 1), (1, 9)),
            tensor(0, 2),
        ],
        [tensor(2, 3), strided((2, 3), (1, 3)), tensor(2)],
    ),
    one(
        Kind.TENSOR,
        spec(None, 3, None, None, order=LAST),
        [
            *(
                in_order(n, 3, h, w, order=LAST)
                for n in (0, 1, 2)
                for h in (0, 1, 2)
                for w in (1, 3)
            ),
            *(tensor(2, 3, 1, 1), tensor(0, 3, 2, 2), tensor(1, 3, 1, 1)),
        ],
        [tensor(2, 3, 2, 2), tensor(2, 3, 1, 2), tensor(1, 3, 2, 1), tensor(2, 3, 2)],
    ),
    one(
        Kind.TENSOR,
        spec(2, 3, 1, 4, order=LAST),
        [in_order(2, 3, 1, 4, order=LAST), strided((2, 3, 1, 4), (12, 1, 99, 3))],
        [
            tensor(2, 3, 1, 4),
            strided((2, 3, 1, 4), (12, 1, 12, 4)),
            strided((2, 3, 1, 4), (9, 1, 12, 3)),
        ],
    ),
    one(
        Kind.TENSOR,
        spec(0, 3, order=(1, 0)),
        [tensor(0, 3), strided((0, 3), (7, 9))],
        [tensor(1, 3)],
    ),
    one(Kind.TENSOR, spec(1, 1, order=(1, 0)), [strided((1, 1), (7, 9))], [tensor(1, 2)]),
    one(Kind.TENSOR, spec(order=()), [tensor()], [tensor(1)]),
]

s0, s1, n, m = symbol("s0"), symbol("s1"), symbol("n", EVERYTHING), symbol("m", Range(2, 5))
S0, S1 = SymbolSource(as_symbol(s0), X, 0), SymbolSource(as_symbol(s1), X, 1)
N, M = SymbolSource(as_symbol(n), Y, None), SymbolSource(as_symbol(m), Y, None)


def sizes(
    fact: Any, symbols: Sequence[SymbolSource], holds: Sequence[object], fails: Sequence[object]
) -> Case:
    guards = [guard(Kind.SIZES, None, fact)]
    if any(source.path is X for source in symbols):
        guards.append(guard(Kind.TENSOR, X, spec(None, None)))
    return Case(Kind.SIZES, guards, holds, fails, symbols, pairs=True)


SIZES = [
    sizes(
        lt(s0, 10), [S0], [(tensor(9, 1), 0), (tensor(0, 1), 0)], [(tensor(10, 1), 0), (None, 0)]
    ),
    sizes(eq(s0, s1), [S0, S1], [(tensor(3, 3), 0), (tensor(0, 0), 0)], [(tensor(3, 4), 0)]),
    sizes(
        ne(n, 0), [N], [(0, 1), (0, -1)], [(0, 0), (0, True), (0, 1.0), (0, Number(1)), (0, None)]
    ),
    sizes(ge(floordiv(10, n), 3), [N], [(0, 3), (0, 1)], [(0, 0), (0, 4), (0, -1)]),
    sizes(or_(eq(n, 0), ge(floordiv(10, n), 3)), [N], [(0, 0), (0, 3)], [(0, 4), (0, -1)]),
    sizes(
        lt(maximum(s0, n), 5), [S0, N], [(tensor(4, 1), -9)], [(tensor(5, 1), 0), (tensor(1, 1), 5)]
    ),
    sizes(
        eq(minimum(s0, n), 2), [S0, N], [(tensor(2, 1), 9)], [(tensor(3, 1), 9), (tensor(1, 1), 2)]
    ),
    sizes(lt(m, 5), [M], [(0, 2), (0, 4)], [(0, 1), (0, 5), (0, -3), (0, 6)]),
    # a declared range is a guard by itself, and so is that an integer is one
    Case(Kind.SIZES, [], [(0, 2), (0, 5)], [(0, 1), (0, 6), (0, True)], [M], pairs=True),
    Case(Kind.TYPE, [], [(0, -5)], [(0, True), (0, Number(3)), (0, Foreign())], [N], pairs=True),
    # one symbol, two places
    Case(
        Kind.SIZES,
        [guard(Kind.TENSOR, X, spec(None, None))],
        [(tensor(3, 1), 3)],
        [(tensor(3, 1), 4), (tensor(1, 1), True)],
        [S0, SymbolSource(as_symbol(s0), Y, None)],
        pairs=True,
    ),
    # inputs have to be there, and to have values
    Case(Kind.TYPE, [], [([1], 2)], [([], 2), ([1], 0)], [N], [X.item(0), floordiv(8, n)], True),
]

CASES = [*VALUES, *CONTAINERS, *OBJECTS, *SEVERAL, *TENSORS, *SIZES]
