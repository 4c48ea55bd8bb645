"""Python as people write it: one small world for each feature of the language or of torch.

A world is built twice, so everything that it may change is made inside its function.
"""

# The functions below are what users write, not what we would: unused names, broad excepts, lambdas.
# ruff: noqa: B010, B012, B018, B023, E731, E741, F841, RET505, RUF005, RUF012, RUF015, SIM105, SIM115
# ruff: noqa: SIM117, C419, PIE810, PT015, PT017, TRY002, UP007

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import logging
import operator
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.api.twins import World

FEATURES: dict[str, Callable[[], World]] = {}
COUNT = 0
ITEMS: list[Any] = []
SETTINGS: dict[str, Any] = {"scale": 2.0}


def feature(make: Callable[[], World]) -> Callable[[], World]:
    FEATURES[make.__name__] = make
    return make


@dataclasses.dataclass
class Point:
    place: Tensor
    weight: int = 3

    def __post_init__(self) -> None:
        self.after = self.weight + 1


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    scale: float
    shift: int = 1


class Named(typing.NamedTuple):
    first: Tensor
    second: int


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


# -- functions and closures ----------------------------------------------------------------------


@feature
def inner_nonlocal() -> World:
    def f(x: Tensor) -> Any:
        n = 0

        def g(y: Tensor) -> Tensor:
            nonlocal n
            n += 1
            return y * n

        return g(g(x)), n

    return World(f)


@feature
def outer_nonlocal() -> World:
    n = 0

    def f(x: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return x + n

    return World(f, watch=lambda: n)


@feature
def two_functions_share_a_cell() -> World:
    n = 1

    def bump() -> None:
        nonlocal n
        n *= 2

    def f(x: Tensor) -> Tensor:
        bump()
        return x * n

    return World(f, watch=lambda: n)


@feature
def global_counter() -> World:
    def f(x: Tensor) -> Tensor:
        global COUNT
        COUNT += 1
        ITEMS.append(COUNT)
        return x * SETTINGS["scale"] + COUNT

    start = {"COUNT": 0, "ITEMS": [], "SETTINGS": {"scale": 2.0}}
    return World(f, globals=start)


@feature
def returned_closure() -> World:
    def f(x: Tensor) -> Callable[[Tensor], Tensor]:
        y = x * 2

        def g(z: Tensor) -> Tensor:
            return z + y.sum()

        return g

    return World(f)


@feature
def returned_closure_called() -> World:
    def f(x: Tensor, k: int) -> Any:
        y = x * k
        return lambda z: z + y, [lambda i=i: i * y for i in range(2)]

    return World(lambda x: (lambda g, hs: [g(x), *[h() for h in hs]])(*f(x, 3)))


@feature
def arguments_of_every_kind() -> World:
    def g(a: Any, /, b: Any, *rest: Any, k: int = 1, **more: Any) -> Any:
        return a * k + b + len(rest) + more["z"], sorted(more)

    def f(x: Tensor, *rest: Any, **more: Any) -> Any:
        return g(x, *rest, **more)

    return World(f, lambda x: (x, 1, 2, 3), lambda x: {"z": 3, "k": 5})


@feature
def default_arguments() -> World:
    def f(x: Tensor, scale: float = 2.0, items: list[int] = [1, 2], *, shift: int = 1) -> Tensor:  # noqa: B006
        items.append(len(items))
        return x * scale + shift + len(items)

    return World(f, watch=lambda: f.__defaults__)


@feature
def default_changed_between_calls() -> World:
    def f(x: Tensor, scale: float = 2.0, *, shift: int = 1) -> Tensor:
        return x * scale + shift

    def before(step: int) -> None:
        f.__defaults__ = (float(step),)
        f.__kwdefaults__["shift"] = step

    return World(f, before=before)


@feature
def function_attribute() -> World:
    def f(x: Tensor) -> Tensor:
        f.calls += 1
        return x * f.calls

    f.calls = 0
    return World(f, watch=lambda: f.calls)


@feature
def decorated() -> World:
    def times(n: int) -> Any:
        def wrap(function: Any) -> Any:
            @functools.wraps(function)
            def inner(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs) * n

            return inner

        return wrap

    @times(3)
    @times(2)
    def g(x: Tensor) -> Tensor:
        return x + 1

    return World(lambda x: (g(x), g.__name__, functools.partial(g)(x)))


@feature
def memoised_size() -> World:
    @functools.lru_cache
    def tenfold(n: int) -> int:
        return n * 10

    return World(lambda x: x + tenfold(x.shape[0]), watch=lambda: tenfold.cache_info().currsize)


@feature
def memoised_module_level_state() -> World:
    state = {"k": 1}

    @functools.cache
    def read() -> int:
        return state["k"]

    return World(lambda x: x * read(), before=lambda step: state.update(k=step + 1))


@feature
def partial_of_function() -> World:
    def f(scale: float, x: Tensor, shift: int = 0) -> Tensor:
        return x * scale + shift

    return World(functools.partial(f, 2.0, shift=3))


@feature
def bound_method() -> World:
    class Scaler:
        def __init__(self) -> None:
            self.scale, self.calls = 2.0, 0

        def apply(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.scale + self.calls

    scaler = Scaler()

    def before(step: int) -> None:
        scaler.scale = float(step % 3)

    return World(scaler.apply, before=before, watch=lambda: scaler)


@feature
def callable_object() -> World:
    class Adder:
        def __init__(self, k: int) -> None:
            self.k = k

        def __call__(self, x: Tensor) -> Tensor:
            return x + self.k

    adder = Adder(1)
    return World(adder, before=lambda step: setattr(adder, "k", step // 2), watch=lambda: adder.k)


@feature
def static_and_class_methods() -> World:
    class Base:
        scale = 3

        @staticmethod
        def double(x: Tensor) -> Tensor:
            return x * 2

        @classmethod
        def scaled(cls, x: Tensor) -> Tensor:
            return cls.double(x) * cls.scale

    class Child(Base):
        scale = 5

    return World(
        lambda x: (Base.scaled(x), Child.scaled(x), Child().scaled(x)),
        before=lambda step: setattr(Child, "scale", 5 + step % 2),
    )


@feature
def recursion() -> World:
    def down(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else down(x + 1, n - 1)

    return World(lambda x: down(x, 100))


@feature
def mutual_recursion() -> World:
    def even(n: int) -> bool:
        return True if n == 0 else odd(n - 1)

    def odd(n: int) -> bool:
        return False if n == 0 else even(n - 1)

    return World(lambda x: x * 2 if even(x.shape[0]) else x * 3)


@feature
def lambda_in_lambda() -> World:
    return World(lambda x: (lambda f: f(f(x)))(lambda y: (lambda z: z + y)(y * 2)))


# -- generators, iteration, comprehensions -------------------------------------------------------


@feature
def generators() -> World:
    def numbers(x: Tensor) -> Any:
        for i in range(3):
            sent = yield x * i
            x = x + (sent or 0)

    def f(x: Tensor) -> Any:
        g = numbers(x)
        a = next(g)
        b = g.send(1.0)
        return a + b + sum(t for t in numbers(x)), [*numbers(x)]

    return World(f)


@feature
def yield_from_and_return() -> World:
    def inner(x: Tensor) -> Any:
        yield x
        return x * 2

    def outer(x: Tensor) -> Any:
        last = yield from inner(x)
        yield last + 1

    return World(lambda x: list(outer(x)))


@feature
def generator_closed_and_thrown() -> World:
    log: list[str] = []

    def g(x: Tensor) -> Any:
        try:
            yield x
            yield x * 2
        except ValueError:
            log.append("value")
            yield x * 3
        finally:
            log.append("closed")

    def f(x: Tensor) -> Any:
        one, two = g(x), g(x)
        a, b = next(one), next(two)
        one.close()
        c = two.throw(ValueError())
        two.close()
        return a, b, c

    return World(f, watch=lambda: len(log))


@feature
def comprehensions() -> World:
    def f(x: Tensor, values: list[int]) -> Any:
        doubled = [y for v in values if (y := v * 2) > 2]
        table = {k: x * k for k in doubled}
        nested = [[i * j for j in range(i)] for i in values]
        return table, {a for a in doubled}, nested, [row for row in x.unbind(1) if len(values) > 1]

    return World(f, lambda x: (x, [1, 2, 3]))


@feature
def own_iterator() -> World:
    class Countdown:
        def __init__(self, n: int) -> None:
            self.n = n

        def __iter__(self) -> Countdown:
            return self

        def __next__(self) -> int:
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x: Tensor) -> Tensor:
        for k in Countdown(x.shape[0]):
            x = x + k
        return x

    return World(f)


@feature
def zip_enumerate_reversed() -> World:
    def f(x: Tensor, names: dict[str, int]) -> Any:
        out = {}
        for i, (name, value) in enumerate(zip(names, reversed([*names.values()]), strict=True)):
            out[name] = x * value + i
        return out, [*map(operator.mul, names.values(), itertools.count(1))]

    return World(f, lambda x: (x, {"a": 1, "b": 2}))


@feature
def loops_with_break_and_else() -> World:
    def f(x: Tensor, limit: int) -> Tensor:
        k = 0
        while True:
            k += 1
            if k == 2:
                continue
            if k > limit:
                break
            x = x + k
        else:
            x = x * 100
        for i in range(3):
            if i == limit:
                break
        else:
            x = x * 2
        return x

    limits = itertools.cycle((2, 5, 1))
    return World(f, lambda x: (x, next(limits)))


@feature
def unpacking() -> World:
    def f(x: Tensor) -> Any:
        a, (b, *c), d = x, [1, 2, 3], x * 2
        e = f2 = x + 1
        [g, h] = a, d
        first, *_ = {**{"p": a}, "q": b}.items()
        return a, b, c, d, e is f2, g, h, first

    return World(f)


# -- exceptions and contexts ---------------------------------------------------------------------


@feature
def try_everything() -> World:
    def f(x: Tensor, table: dict[str, int]) -> Any:
        try:
            y = table["missing"]
        except KeyError as error:
            y = len(error.args)
        else:
            y = 7
        finally:
            x = x + 1
        try:
            raise RuntimeError("a") from None
        except (ValueError, RuntimeError) as error:
            text = str(error)
        return x + y, text

    return World(f, lambda x: (x, {"a": 1}))


@feature
def exception_of_the_user() -> World:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        if x.shape[0] == 3:
            raise ValueError(f"boom at {x.shape[0]}")
        return y

    return World(f)


@feature
def exception_after_effects() -> World:
    log: list[int] = []

    def f(x: Tensor) -> Tensor:
        log.append(x.shape[0])
        x.add_(1)
        if x.shape[0] > 4:
            raise KeyError("late")
        log.append(-1)
        return x

    return World(f, watch=lambda: log)


@feature
def exception_with_cause() -> World:
    def f(x: Tensor) -> Tensor:
        try:
            return {}[x.shape[0]]
        except KeyError as error:
            raise LookupError("no such size") from error

    return World(f)


@feature
def exception_in_torch_is_caught() -> World:
    def f(x: Tensor) -> Tensor:
        try:
            return x @ torch.ones(3, 2)
        except RuntimeError as error:
            return x + len(type(error).__name__)

    return World(f)


@feature
def shape_error_passes_through() -> World:
    return World(lambda x: x.view(3, 4) @ torch.ones(4, 2))


@feature
def finally_overrides_return() -> World:
    def f(x: Tensor) -> Tensor:
        for _ in range(2):
            try:
                return x * 2
            finally:
                x = x + 1
                continue
        return x

    return World(f)


@feature
def exception_groups() -> World:
    def f(x: Tensor) -> Any:
        try:
            raise ExceptionGroup("both", [ValueError("a"), TypeError("b")])
        except* ValueError as group:
            n = len(group.exceptions)
        except* TypeError:
            n = 10
        return x * n

    return World(f)


@feature
def context_managers() -> World:
    @contextlib.contextmanager
    def logged(log: list[str]) -> Iterator[float]:
        log.append("in")
        try:
            yield 3.0
        finally:
            log.append("out")

    def f(x: Tensor) -> Any:
        log: list[str] = []
        with logged(log) as s, contextlib.suppress(ValueError), contextlib.ExitStack() as stack:
            stack.enter_context(logged(log))
            x = x * s
            raise ValueError
        return x, log

    return World(f)


@feature
def context_manager_class() -> World:
    class Scope:
        depth = 0

        def __enter__(self) -> Scope:
            type(self).depth += 1
            return self

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            type(self).depth -= 1
            return kind is ZeroDivisionError

    def f(x: Tensor) -> Any:
        with Scope() as scope, Scope():
            x = x * scope.depth
            1 // 0
        return x + Scope.depth

    return World(f, watch=lambda: Scope.depth)


@feature
def match_statement() -> World:
    def f(x: Tensor, values: Any) -> Any:
        match values:
            case [1, *rest]:
                return x + sum(rest)
            case {"k": int(k), **others}:
                return x * k + len(others)
            case Point(weight=w):
                return x * w
            case str() | None:
                return x - 1
            case _:
                return x

    values = itertools.cycle(([1, 2, 3], {"k": 4, "l": 1}, None, Point(torch.ones(1), 2), 5))
    return World(f, lambda x: (x, next(values)))


@feature
def assertions() -> World:
    def f(x: Tensor) -> Tensor:
        assert x.dim() == 2, "two dims"
        assert x.shape[0] != 7, f"not {x.shape[0]}"
        return x * 2

    return World(f)


@feature
def warnings_caught() -> World:
    def f(x: Tensor) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn(f"size {x.shape[0]}", stacklevel=1)
        return x + 1, [str(w.message) for w in caught]

    return World(f)


# -- objects and classes -------------------------------------------------------------------------


@feature
def properties_and_getattr() -> World:
    class Reader:
        def __init__(self) -> None:
            self._v = 3

        @property
        def v(self) -> int:
            return self._v * 2

        @v.setter
        def v(self, value: int) -> None:
            self._v = value

        def __getattr__(self, name: str) -> int:
            if name.startswith("dyn_"):
                return len(name) + self._v
            raise AttributeError(name)

    reader = Reader()

    def f(x: Tensor) -> Any:
        reader.v = reader.v + 1
        return x * reader.v + reader.dyn_abc, hasattr(reader, "z"), getattr(reader, "z", 9)

    return World(f, watch=lambda: reader._v)


@feature
def dataclasses_made_and_replaced() -> World:
    def f(x: Tensor, point: Point) -> Any:
        named = Named(x * point.weight, 2)
        other = dataclasses.replace(point, weight=7)
        return (
            named,
            other,
            Point(named.first, *[other.after]),
            named._replace(second=3),
            Fixed(2.5),
        )

    return World(f, lambda x: (x, Point(x)))


@feature
def classes_made_inside() -> World:
    def f(x: Tensor) -> Tensor:
        class Wrapped:
            z = 3

            def __init__(self, value: Tensor) -> None:
                self.value = value

            def __add__(self, other: Any) -> Any:
                return Wrapped(self.value + other.value * self.z)

        return (Wrapped(x) + Wrapped(x)).value

    return World(f)


@feature
def inheritance_and_super() -> World:
    class A(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(4))
            self.__private = 5

        def forward(self, x: Tensor) -> Tensor:
            return x * self.w + self.__private

    class B(A):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y + [super(B, self).forward(x) for _ in range(1)][0]

    return World(B())


@feature
def abstract_and_multiple_inheritance() -> World:
    class Left:
        def scale(self) -> int:
            return 2

    class Base(abc.ABC):
        @abc.abstractmethod
        def apply(self, x: Tensor) -> Tensor: ...

        def scale(self) -> int:
            return 3

    class Both(Left, Base):
        def apply(self, x: Tensor) -> Tensor:
            return x * self.scale() * super().scale()

    return World(lambda x: (Both().apply(x), isinstance(Both(), Base), issubclass(Both, Left)))


@feature
def own_operators() -> World:
    class Vector:
        def __init__(self, t: Tensor, k: int) -> None:
            self.t, self.k = t, k

        def __add__(self, other: Vector) -> Vector:
            return Vector(self.t + other.t * self.k, self.k)

        def __iadd__(self, other: Vector) -> Vector:
            self.t = self.t + other.t
            return self

        def __len__(self) -> int:
            return self.k

        def __contains__(self, z: int) -> bool:
            return z == self.k

        def __iter__(self) -> Iterator[Any]:
            yield self.t
            yield self.k

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Vector) and self.k == other.k

        def __hash__(self) -> int:
            return 3

        def __bool__(self) -> bool:
            return self.k > 1

        def __getitem__(self, i: int) -> Tensor:
            return self.t[i]

    def f(v: Vector) -> Any:
        w = v + v
        a, b = v
        v += w
        return w.t * len(v) + b if v else a, 2 in v, v == w, {v: 1}[w], v[:1]

    numbers = itertools.cycle((2, 3, 1))
    return World(f, lambda x: (Vector(x, next(numbers)),))


@feature
def slots_and_descriptors() -> World:
    class Twice:
        def __get__(self, instance: Any, owner: Any) -> Any:
            return instance.z * 2 if instance else self

        def __set__(self, instance: Any, value: int) -> None:
            instance.z = value // 2

    class Slotted:
        __slots__ = ("z",)
        twice = Twice()

        def __init__(self) -> None:
            self.z = 4

    slotted = Slotted()

    def f(x: Tensor) -> Tensor:
        slotted.twice = slotted.twice + 2
        return x * slotted.z + slotted.twice

    return World(f, watch=lambda: slotted.z)


@feature
def own_setattr() -> World:
    class Logged:
        def __init__(self) -> None:
            object.__setattr__(self, "log", [])

        def __setattr__(self, name: str, value: Any) -> None:
            self.log.append(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            self.log.append(f"-{name}")
            object.__delattr__(self, name)

    logged = Logged()

    def f(x: Tensor) -> Tensor:
        logged.a = x.shape[0]
        logged.b = 2
        del logged.b
        return x * logged.a + len(logged.log)

    return World(f, watch=lambda: logged.log)


@feature
def class_attribute_changed() -> World:
    class Scale:
        value = 2

    def f(x: Tensor) -> Tensor:
        Scale.value += 1
        return x * Scale.value + Scale().value

    return World(f, watch=lambda: Scale.value)


@feature
def instance_hides_class_attribute() -> World:
    class Scale:
        value = 2

    scale = Scale()

    def before(step: int) -> None:
        if step % 2:
            scale.value = 5
        else:
            vars(scale).pop("value", None)

    return World(lambda x: x * scale.value, before=before)


@feature
def type_of_object_changes() -> World:
    class One:
        def value(self) -> int:
            return 1

    class Two(One):
        def value(self) -> int:
            return 2

    holder = types.SimpleNamespace(it=One())

    def before(step: int) -> None:
        holder.it = (One, Two)[step % 2]()

    return World(lambda x: x * holder.it.value(), before=before)


@feature
def method_replaced_on_class() -> World:
    class Scale:
        def value(self) -> int:
            return 1

    scale = Scale()

    def before(step: int) -> None:
        if step == 2:
            Scale.value = lambda self: 7
        if step == 4:
            scale.value = lambda: 9

    return World(lambda x: x * scale.value(), before=before)


@feature
def enums() -> World:
    def f(x: Tensor, mode: Mode) -> Any:
        table = {Mode.SUM: torch.sum, Mode.MEAN: torch.mean}
        return table[mode](x), mode is Mode.SUM, mode.value, Mode("sum").name

    modes = itertools.cycle(Mode)
    return World(f, lambda x: (x, next(modes)))


@feature
def type_checks() -> World:
    def f(x: Tensor, n: int) -> Any:
        right = isinstance(x, Tensor) and type(x) is Tensor and type(n) is int
        right = right and isinstance(x.shape, torch.Size) and type(x.shape[0]) is int
        right = right and x.dtype.is_floating_point and isinstance(n, int | str)
        return x + (1 if right else 2), {int: 1}[type(n)], x.shape == (3, 4), callable(f)

    return World(f, lambda x: (x, len(x)))


@feature
def singleton_and_identity() -> World:
    marker = object()
    state = {"value": marker}

    def f(x: Tensor) -> Any:
        value = state["value"]
        return x * (1 if value is marker else 2 if value is None else 3), x is x

    def before(step: int) -> None:
        state["value"] = (marker, None, object())[step % 3]

    return World(f, before=before)


# -- effects -------------------------------------------------------------------------------------


@feature
def containers_given_and_changed() -> World:
    def f(x: Tensor, items: list[Any], table: dict[str, Any]) -> Any:
        items.append(x * 2)
        table["k"] = x + 1
        table.setdefault("n", []).append(3)
        items[0] = 5
        del table["old"]
        first, *rest = items
        return len(items), sorted(table), first

    return World(f, lambda x: (x, [1, 2], {"old": 1}))


@feature
def container_kept_between_calls() -> World:
    history: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        history.append(x.sum())
        if len(history) > 3:
            history.pop(0)
        return sum(history) + len(history)

    return World(f, watch=lambda: history)


@feature
def size_kept_between_calls() -> World:
    state = types.SimpleNamespace(largest=0, last=None)

    def f(x: Tensor) -> Tensor:
        state.largest = max(state.largest, x.shape[0])
        previous, state.last = state.last, x.shape
        return x * state.largest + (0 if previous is None else previous[0])

    return World(f, watch=lambda: (vars(state), type(state.largest), type(state.last)))


@feature
def cache_by_size() -> World:
    tables: dict[int, Tensor] = {}

    def f(x: Tensor) -> Tensor:
        n = x.shape[0]
        if n not in tables:
            tables[n] = torch.arange(n).float()
        return x + tables[n][:, None]

    return World(f, watch=lambda: (tables, [type(key) for key in tables]))


@feature
def grown_buffer() -> World:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.longest = 2
            self.register_buffer("table", torch.arange(2.0), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] > self.longest:
                self.longest = x.shape[0]
                self.table = torch.arange(float(self.longest))
            return x + self.table[: x.shape[0], None]

    rotary = Rotary()
    return World(rotary, watch=lambda: (rotary.longest, rotary.table))


@feature
def module_with_state() -> World:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.history, self.last = 0, [], None
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = x * self.calls
            self.history.append(self.calls)
            self.total += x.sum(0)
            self.total = self.total * 2
            return self.last + self.total

    counter = Counter()
    return World(counter, watch=lambda: counter)


@feature
def printing() -> World:
    def f(x: Tensor) -> Tensor:
        print("hi", x.shape, 3, end="!\n")
        y = x * 2
        print(f"{x.shape[0]:03d} {y.dtype}", file=sys.stdout, flush=True)
        return y + 1

    return World(f)


@feature
def printing_values() -> World:
    def f(x: Tensor) -> Tensor:
        y = x.add_(1)
        print(x, y.sum().item())
        x.mul_(2)
        print(x[:1])
        return x

    return World(f)


@feature
def logging_calls() -> World:
    seen: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    logger = logging.Logger("feature")
    logger.addHandler(Keep())

    def f(x: Tensor) -> Tensor:
        logger.warning("size %d", x.shape[0])
        return x + 1

    return World(f, watch=lambda: seen)


@feature
def in_place_operations() -> World:
    def f(x: Tensor) -> Any:
        y = x.view(-1)
        x.add_(1)
        y[:1] = 5
        x[1:] *= 2
        z = x.clone()
        z += 1
        z.data.mul_(2)
        return z, y

    return World(f)


@feature
def results_that_alias_inputs() -> World:
    def f(x: Tensor, y: Tensor) -> Any:
        kept = [x, x[1:], y.T, x.detach(), y.unsqueeze(0)]
        return kept, {"again": kept[0], "list": kept}, kept[1]

    return World(f, lambda x: (x, x + 1))


@feature
def same_tensor_twice() -> World:
    def f(x: Tensor, y: Tensor) -> Any:
        x.add_(1)
        return x * y, x is y

    turn = itertools.cycle((True, False))
    return World(f, lambda x: (x, x if next(turn) else x.clone()))


@feature
def overlapping_inputs() -> World:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x.sum() + y.sum()

    turn = itertools.cycle((True, False))
    return World(f, lambda x: (x, x[:1] if next(turn) else x[:1].clone()))


@feature
def aliasing_inside_the_result() -> World:
    def f(x: Tensor) -> Any:
        shared: list[Any] = [x * 2]
        shared.append(shared[0])
        return {"a": shared, "b": shared, "c": (shared[0],)}

    def g(x: Tensor) -> Any:
        result = f(x)
        return result, result["a"] is result["b"], result["a"][0] is result["c"][0]

    return World(g)


@feature
def result_refers_to_itself() -> World:
    def f(x: Tensor) -> Any:
        items: list[Any] = [x + 1]
        items.append(items)
        return items

    return World(f)


@feature
def result_is_an_argument() -> World:
    def f(x: Tensor, items: list[int], point: Point) -> Any:
        return items, point, (items, x)

    def called(x: Tensor) -> Any:
        items, point = [1], Point(x)
        result = f(x, items, point)
        return result[0] is items, result[1] is point, result[2][0] is items

    return World(called)


@feature
def no_tensor_result() -> World:
    return World(lambda x: (None, 1, "a", 2.5, x.shape, x.dtype, [x.device], {"n": x.shape[0]}))


@feature
def strided_inputs() -> World:
    layouts = itertools.cycle(
        (lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x.t().t())
    )
    return World(
        lambda x: (x.reshape(-1), x.contiguous().view(-1), x.is_contiguous(), x + 1, x.stride()),
        lambda x: (next(layouts)(x),),
    )


@feature
def dtypes_change() -> World:
    kinds = itertools.cycle((torch.float32, torch.float64, torch.int64, torch.bool))
    return World(lambda x: (x.to(torch.float32) * 2, x.dtype), lambda x: (x.to(next(kinds)),))


@feature
def arguments_change_their_type() -> World:
    values = itertools.cycle((1, 1.0, True, None, "a", [1], (1,), 2))

    def f(x: Tensor, value: Any) -> Any:
        if value is None:
            return x
        if isinstance(value, str | list | tuple):
            return x + len(value)
        return x * value, type(value).__name__

    return World(f, lambda x: (x, next(values)))


@feature
def floats_and_bools_change() -> World:
    values = itertools.cycle(((0.5, True), (0.25, False), (-0.0, True), (float("nan"), False)))

    def f(x: Tensor, scale: float, flag: bool) -> Any:
        return x * scale + scale if flag else (x - scale, scale)

    return World(f, lambda x: (x, *next(values)))


@feature
def structure_changes() -> World:
    lengths = itertools.cycle((1, 3, 2, 0))

    def f(x: Tensor, items: list[Tensor], table: dict[str, Any]) -> Any:
        total = x
        for i, item in enumerate(items):
            total = total + item * i
        return total, {name: value * 2 for name, value in table.items()}

    def arguments(x: Tensor) -> tuple[Any, ...]:
        n = next(lengths)
        return x, [x + i for i in range(n)], {f"k{i}": i for i in range(n)}

    return World(f, arguments)


@feature
def order_of_keys_changes() -> World:
    orders = itertools.cycle((("a", "b"), ("b", "a")))

    def f(x: Tensor, table: dict[str, int]) -> Tensor:
        for value in table.values():
            x = (x + value) * 2
        return x

    return World(f, lambda x: (x, {key: ord(key) for key in next(orders)}))


# -- torch ---------------------------------------------------------------------------------------


@feature
def gradient_modes() -> World:
    @torch.no_grad()
    def g(x: Tensor) -> Tensor:
        return x * 2

    @torch.inference_mode()
    def h(x: Tensor) -> Tensor:
        return x * 3

    def f(x: Tensor) -> Any:
        w = torch.ones(4, requires_grad=True)
        a = g(w)
        with torch.no_grad():
            b = x * w
        with torch.enable_grad():
            c = x * w
        with torch.set_grad_enabled(False):
            d = x * w
        return a, b, c, d, h(x), torch.is_grad_enabled()

    return World(f)


@feature
def gradient_mode_left_changed() -> World:
    def f(x: Tensor) -> Any:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = x * torch.ones(4, requires_grad=True)
        torch.set_grad_enabled(before)
        return y, before

    return World(f)


@feature
def autocast() -> World:
    def f(x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
            with torch.autocast("cpu", enabled=False):
                z = x @ x.T
        return y, z, y.dtype

    return World(f)


@feature
def default_dtype_inside() -> World:
    def f(x: Tensor) -> Any:
        torch.set_default_dtype(torch.float64)
        try:
            return torch.ones(2), x + torch.tensor(1.5)
        finally:
            torch.set_default_dtype(torch.float32)

    return World(f)


@feature
def default_dtype_outside() -> World:
    def around(x: Tensor, inner: Callable[[Tensor], Tensor], dtype: torch.dtype) -> Tensor:
        torch.set_default_dtype(dtype)
        try:
            return inner(x)
        finally:
            torch.set_default_dtype(torch.float32)

    kinds = itertools.cycle((torch.float32, torch.float64))
    return World(lambda x, k: around(x, lambda y: y + torch.ones(4), k), lambda x: (x, next(kinds)))


@feature
def random_numbers() -> World:
    return World(lambda x: (x + torch.rand_like(x), torch.randn(x.shape[0]), F.dropout(x, 0.5)))


@feature
def random_generator_given() -> World:
    generator = torch.Generator().manual_seed(3)
    return World(
        lambda x: x + torch.rand(x.shape, generator=generator),
        watch=lambda: generator.get_state(),
    )


@feature
def seeded_inside() -> World:
    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return x + torch.rand(4)

    return World(f)


@feature
def dropout_module() -> World:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.1)
    return World(net, before=lambda step: net.train(step % 3 != 2) and None)


@feature
def module_hooks() -> World:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    seen: list[tuple[int, ...]] = []
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.1)
    net[0].register_forward_hook(lambda module, args, result: result * 2)
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net[1].register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))

    def before(step: int) -> None:
        if step == 3:
            net[1].register_forward_hook(lambda module, args, result: result + 10)

    return World(net, before=before, watch=lambda: seen)


@feature
def module_containers() -> World:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.d = nn.ModuleDict({"p": nn.ReLU(), "q": nn.Tanh()})
            self.s = nn.Sequential(*[nn.Linear(4, 4)] * 2)
            self.p = nn.ParameterList([nn.Parameter(torch.ones(4))])
            self.t = nn.ParameterDict({"w": nn.Parameter(torch.ones(4))})

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.a[1:]:
                x = layer(x)
            for (name, module), layer in zip(self.d.items(), self.a, strict=False):
                x = module(layer(x)) + len(name)
            for _, parameter in self.named_parameters():
                x = x + parameter.sum()
            for parameter in self.p:
                x = x * parameter
            x = x * self.t["w"] + len(self.a) + self.a[-1](x)
            return self.s(x) + next(self.parameters()).sum() + len(list(self.modules()))

    torch.default_generator.manual_seed(0)
    return World(Many())


@feature
def custom_autograd_function() -> World:
    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Tensor:
            return grads[0] * 2

    def f(x: Tensor) -> Any:
        w = torch.ones(4, requires_grad=True)
        y = Doubling.apply(x * w)
        return y, torch.autograd.grad(y.sum(), w)[0]

    return World(f)


@feature
def backward_inside() -> World:
    def f(x: Tensor) -> Any:
        w = torch.ones(4, requires_grad=True)
        (x * w).sum().backward()
        return w.grad, torch.autograd.grad((w * x).sum(), w)[0]

    return World(f)


@feature
def gradients_of_inputs() -> World:
    def f(x: Tensor) -> Any:
        y = (x * 2).sin()
        return y, y.requires_grad

    def called(x: Tensor) -> Any:
        x.requires_grad_(x.shape[0] % 2 == 1)
        y, flag = f(x)
        if flag:
            y.sum().backward()
        return x.grad, flag

    return World(called)


@feature
def detach_and_requires_grad() -> World:
    def f(x: Tensor) -> Any:
        y = x.detach().requires_grad_()
        z = (y * 3).sum()
        return y, z, z.detach(), y.is_leaf

    return World(f)


@feature
def functional_transforms() -> World:
    def f(x: Tensor) -> Any:
        rows = torch.func.vmap(lambda row: row.sum() * row)(x) if x.shape[0] else x
        return rows, torch.func.grad(lambda z: (z**2).sum())(x)

    return World(f)


@feature
def tensors_made_by_hand() -> World:
    def f(x: Tensor) -> Any:
        array = np.ones(4, dtype=np.float32)
        y = x + torch.Tensor([1.0, 2.0]).sum() + torch.tensor(x.shape).sum()
        return y + torch.from_numpy(array) + nn.Parameter(x).sum(), torch.as_tensor(x.tolist())

    return World(f)


@feature
def tensors_in_globals_and_closures() -> World:
    weights = {"w": torch.ones(4)}
    bias = torch.zeros(4)

    def before(step: int) -> None:
        weights["w"] = torch.full((4,), float(step))
        bias.add_(1)

    return World(lambda x: x * weights["w"] + bias, before=before, watch=lambda: (weights, bias))


@feature
def data_dependent_branch() -> World:
    def f(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        if x.numel() and x.max().item() > 1:
            return x * 3
        return x - 1

    return World(f)


@feature
def data_dependent_loop() -> World:
    def f(x: Tensor) -> Tensor:
        total = x.abs().sum()
        while total > 1:
            total = total / 2
            x = x + 1
        return x

    return World(f)


@feature
def data_dependent_shape() -> World:
    return World(lambda x: (x[x > 0], x.nonzero(), x.round().unique(), torch.where(x > 0)))


@feature
def data_dependent_item() -> World:
    def f(x: Tensor) -> Any:
        n = int((x > 0).sum())
        return torch.zeros(n), x[:, : n % 3], n, float(x.sum()), bool((x > 5).any())

    return World(f)


@feature
def python_of_tensors() -> World:
    def f(x: Tensor) -> Any:
        largest = max([float(v) for v in x.flatten()], default=0.0)
        return [1.0 in x, len(x), list(x.shape), x.tolist(), largest, f"{x.sum():.2f}", repr(x)]

    return World(f)


@feature
def tensor_attributes_of_users() -> World:
    def f(x: Tensor) -> Any:
        x.note = x.shape[0]
        y = x * 2
        y.label = "a"
        return y, getattr(x, "note", None), hasattr(x, "other")

    return World(f, watch=lambda: None)


@feature
def tensor_subclass() -> World:
    class Tagged(Tensor):
        pass

    return World(lambda x: (x * 2, type(x).__name__), lambda x: (x.as_subclass(Tagged),))


@feature
def numpy_round_trip() -> World:
    return World(lambda x: torch.from_numpy(np.sin(x.numpy())) + x)


@feature
def mixed_views_and_writes() -> World:
    def f(x: Tensor, out: Tensor) -> Any:
        rows = x.unbind(1)
        rows[0].zero_()
        out[: x.shape[0]].copy_(rows[1])
        torch.add(rows[2], 1, out=rows[3])
        return x.sum(0), out

    return World(f, lambda x: (x, torch.zeros(x.shape[0] + 2)))


@feature
def resizing_in_place() -> World:
    def f(x: Tensor) -> Any:
        y = torch.empty(0)
        y.resize_(x.shape).copy_(x)
        y.t_()
        x.unsqueeze_(0)
        return y, x.shape

    return World(f)


@feature
def set_data_and_swap() -> World:
    def f(x: Tensor, w: Tensor) -> Any:
        w.data = x * 2
        return w + 1, w.shape

    return World(f, lambda x: (x, torch.zeros(2)))


@feature
def optimizer_step_inside() -> World:
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.fill_(0.5)
        net.bias.fill_(0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def f(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return World(f, watch=lambda: (net.weight, net.bias, net.weight.grad))


@feature
def calls_compiled_function() -> World:
    import anyshape

    @anyshape.compile(dynamic=True)
    def inner(x: Tensor, k: int) -> Tensor:
        return x * k

    def f(x: Tensor) -> Tensor:
        return inner(x, 2) + inner(x[:1], x.shape[0]).sum()

    return World(f)


@feature
def is_compiling_is_read() -> World:
    def f(x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return x + 1
        return x + 1.0

    return World(f)


@feature
def torch_check() -> World:
    def f(x: Tensor) -> Tensor:
        torch._check(x.shape[0] != 5, lambda: f"not {x.shape[0]}")
        return x * 2

    return World(f)


# -- the interpreter -----------------------------------------------------------------------------


@feature
def frames_and_names() -> World:
    def f(x: Tensor) -> Any:
        a = 1
        b = sorted(locals())
        return x + len(b), sys._getframe(0).f_code.co_name, b, f.__name__, f.__qualname__

    return World(f)


@feature
def imports_inside() -> World:
    def f(x: Tensor) -> Any:
        import math as mathematics
        from collections import OrderedDict

        return x * mathematics.pi, OrderedDict(a=x)

    return World(f)


@feature
def delete_names() -> World:
    def f(x: Tensor) -> Any:
        y = x * 2
        del x
        try:
            return x
        except UnboundLocalError as error:
            return y, type(error).__name__

    return World(f)


@feature
def undefined_name() -> World:
    def f(x: Tensor) -> Tensor:
        return x + undefined_anywhere  # noqa: F821  # pyright: ignore[reportUndefinedVariable] because that is the case

    return World(f)


@feature
def annotations_kept() -> World:
    def f(x: Tensor) -> Any:
        def g(y: int, z: str = "a") -> float:
            w: int = y
            return w * 1.0

        return x * g(2), sorted(g.__annotations__), g.__defaults__

    return World(f)


@feature
def ternaries_and_short_circuit() -> World:
    log: list[int] = []

    def noted(k: int) -> int:
        log.append(k)
        return k

    def f(x: Tensor) -> Any:
        a = noted(0) or noted(2) or noted(3)
        b = noted(1) and noted(0) and noted(5)
        c = noted(7) if x.shape[0] > 3 else noted(8)
        return x * a + b + c, noted(1) < noted(2) < noted(1) < noted(9)

    return World(f, watch=lambda: log)


@feature
def evaluation_order() -> World:
    log: list[str] = []

    def say(name: str, value: Any) -> Any:
        log.append(name)
        return value

    def f(x: Tensor) -> Any:
        table: dict[Any, Any] = {}
        table[say("key", 1)] = say("value", x)
        say("left", x)[say("from", 0) : say("to", 2)] = say("right", 3.0)
        return say("f", lambda *a, **k: a[0])(say("a", x), *say("star", [1]), k=say("k", 2))

    return World(f, watch=lambda: log)


@feature
def augmented_assignment_targets() -> World:
    class Holder:
        value = 1

    def f(x: Tensor) -> Any:
        holder, items, table = Holder(), [1, 2], {"a": 1}
        holder.value += 2
        items[0] -= 3
        items += [4]
        table["a"] **= 2
        table["b"] = table.get("b", 0) | 4
        x = x.clone()
        x *= 2
        x[:1] += 1
        x @= torch.eye(4)
        return x, holder.value, items, table

    return World(f)


@feature
def chained_comparisons_of_tensors() -> World:
    return World(lambda x: ((x > 0) & (x < 1), x == x, (x != 0).any(), ~(x > 0)))


@feature
def string_building() -> World:
    def f(x: Tensor) -> Any:
        name = f"{x.shape[0]}x{x.shape[1]}:{x.dtype!s:>15}{'' if x.shape[0] else 'empty'}"
        return x + len(name), name, "{}-{}".format(*x.shape), "%s" % (tuple(x.shape),)  # noqa: UP031

    return World(f)


@feature
def named_tuple_and_deque() -> World:
    Pair = collections.namedtuple("Pair", "a b")

    def f(x: Tensor) -> Any:
        window = collections.deque(maxlen=2)
        for i in range(3):
            window.append(x + i)
        return Pair(*window), Pair(a=1, b=x)._asdict(), collections.defaultdict(list, k=[x])

    return World(f)


@feature
def keyword_only_call_order() -> World:
    def f(*, b: Tensor, a: Tensor) -> Tensor:
        return a - b

    orders = itertools.cycle((("a", "b"), ("b", "a")))
    return World(f, lambda x: (), lambda x: {k: x * ord(k) for k in next(orders)})
