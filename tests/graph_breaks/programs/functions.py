"""Closures, decorators, methods, classes, recursion and coroutines with calls that cannot be
traced in them."""

from __future__ import annotations

import copy
import enum
import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.graph_breaks.opaque import note, opaque, opaque_number, opaque_raise, opaque_true
from tests.graph_breaks.table import (
    SEEDS,
    Built,
    built,
    leaf,
    program,
    quarters,
    rows,
    rows_and_number,
    two,
)


@program()
def nested_function(x: Tensor) -> Tensor:
    def scaled(t: Tensor) -> Tensor:
        t = t * 2
        opaque("inside", t)
        return t - 1

    y = x + 1
    return scaled(y).relu() + scaled(y * 2)


@program()
def nonlocal_name(x: Tensor) -> tuple[int, Tensor]:
    count = 0

    def step(t: Tensor) -> Tensor:
        nonlocal count
        count += 1
        opaque("count", count)
        return t * 2 - count

    y = step(x + 1)
    y = step(y.relu())
    return count, y * count


@program()
def closure_cell_rebound(x: Tensor) -> Tensor:
    factor = 2
    y = x * factor + 1

    def scaled(t: Tensor) -> Tensor:
        return t * factor - 1

    z = scaled(y)
    factor = opaque("factor", 5)
    return scaled(z).relu() + factor


@program()
def tensor_in_a_closure(x: Tensor) -> Tensor:
    y = x * 2 + 1

    def add(number: int) -> None:
        nonlocal y
        y = y + opaque("number", number)

    add(1)
    y = y.relu() * 2
    add(2)
    return y - 1


@program()
def closure_made_in_a_loop(x: Tensor) -> Tensor:
    steps: list[Callable[[Tensor], Tensor]] = []
    for number in range(3):

        def step(t: Tensor, n: int = number) -> Tensor:
            opaque("n", (n, number))  # noqa: B023 what is tested
            return t * 2 - n

        steps.append(step)
    y = x + 1
    for each in steps:
        y = each(y).clamp(-9, 9)
    return y.relu()


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        opaque("call", function.__name__)
        result = function(*args, **kwargs)
        opaque("result", result)
        return result

    return wrapper


@traced
def decorated_helper(x: Tensor, scale: int = 2) -> Tensor:
    y = x * scale + 1
    return y.relu() - scale


@program()
def decorated_function(x: Tensor) -> Tensor:
    y = decorated_helper(x + 1)
    z = decorated_helper(y, scale=3)
    return z * 2 - y


@program()
@traced
def is_decorated(x: Tensor) -> Tensor:
    y = x * 2 + 1
    note("body", y)
    return y.relu() - 1


@functools.lru_cache(maxsize=8)
def cached(number: int) -> int:
    return len(struct.pack(f"<{number}i", *range(number)))


@program(before=lambda call: cached.cache_clear())
def cached_function(x: Tensor) -> tuple[int, Tensor]:
    y = x * 2 + 1
    size = cached(len(y)) + cached(len(y))
    return cached.cache_info().hits, (y - size).relu()


@program()
def partial_function(x: Tensor) -> Tensor:
    clamp = functools.partial(opaque, "partial")
    y = x * 2 + 1
    z = clamp(y - 1)
    return z.relu() * 2


def default_is_shared(x: Tensor, seen: list[int] = []) -> tuple[list[int], Tensor]:  # noqa: B006 what is tested
    y = x * 2 + 1
    seen.append(opaque("rows", len(y)))
    return list(seen[-1:]), y.relu() * 2


@built()
def default_argument_mutated() -> Built:
    def function(x: Tensor, kept: list[int] = []) -> Tensor:  # noqa: B006 what is tested
        y = x * 2 + 1
        kept.append(opaque("rows", len(y)))
        if len(kept) > 2:
            kept.clear()
        return y.relu() * len(kept)

    return Built(function, lambda: function.__defaults__)


@program(two)
def keyword_only_and_defaults(x: Tensor, y: Tensor, *, scale: int = 2, bias: Any = None) -> Tensor:
    z = x * scale + y
    opaque("bias", bias)
    z = z - (1 if bias is None else bias)
    return z.relu()


@program(rows, keywords=lambda call: {"scale": call + 1, "extra": quarters(1, 4)})
def star_args_and_kwargs(*args: Tensor, **kwargs: Any) -> Tensor:
    y = args[0] * kwargs["scale"] + kwargs["extra"]
    opaque("names", sorted(kwargs))
    kwargs["scale"] = 100
    return (y - len(args)).relu() * len(kwargs)


@program(lambda call: (quarters(SEEDS[call] + 2, 4), [1, 2][: SEEDS[call] % 2 + 1]))
def passed_on_with_stars(x: Tensor, numbers: list[int]) -> Tensor:
    def inner(t: Tensor, *more: int, last: int = 0) -> Tensor:
        t = t * len(more) + last
        opaque("more", list(more))
        return t - 1

    y = inner(x + 1, *numbers, last=3)
    return y.relu() + inner(y, *numbers, *numbers)


def countdown(x: Tensor, n: int) -> Tensor:
    y = x * 2 - n
    opaque("depth", n)
    if n == 0:
        return y.relu()
    return countdown(y.clamp(-4, 4), n - 1) + y


@program(rows_and_number)
def recursion(x: Tensor, n: int) -> Tensor:
    return countdown(x + 1, n % 4) * 2 - 1


@program()
def recursion_on_halves(x: Tensor) -> Tensor:
    def total(t: Tensor) -> Tensor:
        if len(t) <= 1:
            opaque("leaf", t)
            return t.sum(0)
        middle = len(t) // 2
        return total(t[:middle]) * 2 - total(t[middle:])

    y = x * 2 + 1
    return total(y).relu() + 1


@program(one_side="each step of a coroutine is a call of its own")
async def coroutine(x: Tensor) -> Tensor:
    async def inner(t: Tensor) -> Tensor:
        opaque("awaited", t)
        return t * 2

    y = x * 2 + 1
    z = await inner(y - 1)
    return z.relu() + y


class Shape:
    """A class with everything that methods have."""

    kind = "shape"
    made = 0

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.__hidden = 1
        self.log: list[Any] = []

    def apply(self, x: Tensor) -> Tensor:
        y = x * self.scale + 1
        self.log.append(opaque("apply", len(y)))
        self.__hidden += 1
        return y - self.__hidden

    @property
    def twice(self) -> int:
        opaque("property")
        return self.scale * 2

    @classmethod
    def named(cls, x: Tensor) -> Tensor:
        y = x + len(cls.kind)
        opaque(cls.kind, y)
        cls.made += 1
        return y * 2

    @staticmethod
    def plain(x: Tensor, by: int) -> Tensor:
        y = x * by
        opaque("static", by)
        return y - 1

    def __call__(self, x: Tensor) -> Tensor:
        return self.apply(x) * 2

    def __getattr__(self, name: str) -> Any:
        opaque("missing", name)
        if name.startswith("made_"):
            return len(name)
        raise AttributeError(name)


class Square(Shape):
    kind = "square"

    def apply(self, x: Tensor) -> Tensor:
        y = super().apply(x) + 1
        opaque("square", y)
        return y.relu() * self.scale


def _with_shape(kind: type[Shape], call: Callable[[Shape, Tensor], Tensor]) -> Callable[[], Built]:
    def build() -> Built:
        shape = kind(3)
        kind.made = 0

        def function(x: Tensor) -> Tensor:
            return call(shape, x)

        return Built(function, lambda: (vars(shape), kind.made))

    return build


@built()
def bound_method() -> Built:
    shape = Shape(3)
    return Built(shape.apply, lambda: vars(shape))


@built()
def super_call() -> Built:
    shape = Square(2)
    return Built(shape.apply, lambda: vars(shape))


@built()
def callable_object() -> Built:
    shape = Square(2)
    return Built(shape, lambda: vars(shape))


@built()
def property_in_between() -> Built:
    shape = Shape(3)

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        z = y * shape.twice
        return z.relu() - shape.twice

    return Built(function, lambda: vars(shape))


@built()
def missing_attribute() -> Built:
    shape = Shape(3)

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        z = y * shape.made_up
        return z.relu() - getattr(shape, "absent", 3)

    return Built(function, lambda: vars(shape))


@program(before=lambda call: setattr(Square, "made", 0))
def class_method(x: Tensor) -> tuple[int, Tensor]:
    y = Square.named(x * 2 + 1)
    z = y.relu() - 1
    return Square.made, z


@program()
def static_method(x: Tensor) -> Tensor:
    y = Shape.plain(x + 1, 3)
    return y.relu() + Shape(1).plain(y, 2)


class Vector:
    """Operators of the program."""

    def __init__(self, data: Tensor) -> None:
        self.data = data

    def __add__(self, other: Any) -> Vector:
        opaque("add", self.data)
        return Vector(self.data + getattr(other, "data", other))

    def __radd__(self, other: Any) -> Vector:
        return Vector(self.data * 2 + other)

    def __getitem__(self, index: Any) -> Tensor:
        opaque("item", index)
        return self.data[index] * 2

    def __bool__(self) -> bool:
        return opaque_true(self.data)

    def __len__(self) -> int:
        return opaque("len", len(self.data))

    def __contains__(self, number: Any) -> bool:
        return opaque("contains", number) > 2


@program()
def operators_of_a_class(x: Tensor) -> Tensor:
    vector = Vector(x * 2 + 1)
    total = vector + Vector(x - 1) + 1
    y = total.data.relu() if total else total.data.abs()
    return (3 + total).data - y[0] + total[0] * (5 in total) * len(total)


@dataclass
class Record:
    tensor: Tensor
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tags.append(opaque("made", "new"))


class Pair(NamedTuple):
    first: Tensor
    second: int


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


@program()
def record_made_inside(x: Tensor) -> Record:
    record = Record(x * 2 + 1)
    record.tensor = record.tensor.relu() - 1
    record.tags.append(opaque("tag", "end"))
    return record


@program()
def named_tuple_across(x: Tensor) -> Pair:
    pair = Pair(x * 2 + 1, len(x))
    pair = opaque("pair", pair)._replace(second=opaque("second", 7))
    return Pair(pair.first.relu() - pair.second, pair.second)


@program(rows_and_number)
def enum_chosen_by_a_boundary(x: Tensor, n: int) -> tuple[Mode, Tensor]:
    y = x * n + 1
    mode = Mode(opaque("mode", n % 2 + 1))
    z = y.relu() if mode is Mode.FAST else y.abs()
    return mode, z * mode.value - 1


@program()
def class_made_inside(x: Tensor) -> Tensor:
    y = x * 2 + 1

    class Local:
        scale = opaque("body", 3)

        def apply(self, t: Tensor) -> Tensor:
            return opaque("method", t * self.scale)

    z = Local().apply(y) - 1
    return z.relu()


@built(leaf)
def returned_closure() -> Built:
    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1

        def later(t: Tensor) -> Tensor:
            opaque("later", t)
            return t * y

        return later(y.relu()) + later(y - 1)

    return Built(function)


@program()
def copied_across(x: Tensor) -> tuple[Any, Tensor]:
    state = {"tensor": x * 2 + 1, "numbers": [1, 2]}
    other = copy.deepcopy(state)
    other["numbers"].append(opaque("more", 3))
    y = state["tensor"].add_(1) - other["tensor"]
    return (state["numbers"], other["numbers"]), y.relu() + other["tensor"]


@program()
def dispatch_on_type(x: Tensor) -> Tensor:
    @functools.singledispatch
    def show(value: Any) -> Tensor:
        return opaque("any", torch.zeros(1))

    @show.register
    def _(value: int) -> Tensor:
        return opaque("int", torch.ones(1)) * value

    y = x * 2 + 1
    y = y + show(3) - show("a")
    return y.relu() * 2


@program()
def helper_raises_after_an_effect(x: Tensor) -> Tensor:
    def helper(t: Tensor) -> Tensor:
        t.add_(1)
        opaque_raise("helper", len(t) % 2 == 0)
        return t * 2

    y = x * 2 + 1
    z = helper(x)
    return y.relu() - z


@program()
def functions_in_a_table(x: Tensor) -> Tensor:
    table: dict[str, Callable[[Tensor], Any]] = {
        "relu": torch.relu,
        "opaque": functools.partial(opaque, "table"),
        "number": opaque_number,
    }
    y = x * 2 + 1
    for function in table.values():
        y = y + function(y) * 2
    return y - 1
