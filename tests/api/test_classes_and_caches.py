"""Descriptors, generated classes, enumerations and cached functions: followed, and told from eager.

Every case runs next to its eager twin; those that need not leave the capture must not.
"""

# The functions below are what users write, not what we would.
# ruff: noqa: B024, E731, RUF012
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportFunctionMemberAccess=false, reportGeneralTypeIssues=false, reportOptionalCall=false

from __future__ import annotations

import abc
import collections.abc
import copy
import dataclasses
import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.api.twins import World, check

NS = types.SimpleNamespace


def followed(make: Callable[[], World]) -> Any:
    """A case in which no call may run eagerly."""

    @pytest.mark.parametrize("dynamic", [None, True])
    def test(dynamic: bool | None) -> None:
        assert check(make, dynamic).stats().eager_calls == 0

    return test


def agreed(make: Callable[[], World]) -> Any:
    """A case in which eager calls are allowed."""

    @pytest.mark.parametrize("dynamic", [None, True])
    def test(dynamic: bool | None) -> None:
        check(make, dynamic)

    return test


def later(step: int, change: Callable[[], Any]) -> Callable[[int], None]:
    return lambda now: change() if now == step else None


# -- enumerations ----------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 2
    BLUE = (1.5, "b")


class Weight(enum.IntEnum):
    HEAVY = 3


class Planet(enum.Enum):
    EARTH = (5.0, [1.0])

    def __init__(self, mass, items):
        self.mass = mass
        self.items = items

    @property
    def double(self):
        return self.mass * 2


@followed
def test_value_and_name_of_a_member():
    state = NS(colour=Colour.RED)
    f = lambda x: (x * state.colour.value, state.colour.name, Colour.BLUE.value[0])
    return World(f)


@followed
def test_member_replaced():
    state = NS(weight=Weight.HEAVY)

    def f(x):
        return x * state.weight.value if state.weight is Weight.HEAVY else x

    return World(f, before=later(3, lambda: vars(state).update(weight=None)))


@followed
def test_attributes_of_a_member():
    return World(lambda x: x * Planet.EARTH.double + Planet.EARTH.mass)


@agreed
def test_state_in_a_member():
    class Kept(enum.Enum):
        ITEMS = [1.0]

        def __init__(self, first):
            self.items = [first]

    def before(step):
        Kept.ITEMS.value.append(1.0)
        Kept.ITEMS.items.append(1.0)

    return World(
        lambda x: x * len(Kept.ITEMS.value) + len(Kept.ITEMS.items),
        before=before,
    )


@followed
def test_member_by_value():
    return World(lambda x: x * Colour(2).value)


# -- dataclasses -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: float = 2.0
    total: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self):
        object.__setattr__(self, "total", self.a * self.b)


@followed
def test_frozen_dataclass():
    return World(lambda x: Frozen(x).total + Frozen(x, 3.0).b)


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    items: list[float] = dataclasses.field(default_factory=lambda: [1.0])
    k: float = dataclasses.field(init=False, default=4.0)


@followed
def test_slotted_dataclass():
    return World(lambda x: Slotted(x).a * Slotted(x).k + Slotted(x, [2.0]).items[0])


class Inherits(Frozen):
    pass


@followed
def test_init_of_a_base_that_is_a_dataclass():
    return World(lambda x: Inherits(x).total)


@dataclasses.dataclass
class WithInitVar:
    a: Any
    scale: dataclasses.InitVar[float] = 3.0
    _: dataclasses.KW_ONLY
    shift: float = 1.0

    def __post_init__(self, scale):
        self.a = self.a * scale + self.shift


@followed
def test_dataclass_with_init_only_and_keyword_only_fields():
    return World(lambda x: (WithInitVar(x).a, WithInitVar(x, 2.0, shift=0.5).a))


@agreed
def test_mutable_default_of_a_dataclass():
    state = NS(k=1.0)

    @dataclasses.dataclass
    class P:
        a: Any
        state: Any = dataclasses.field(default_factory=lambda: state)

    return World(
        lambda x: P(x).a * P(x).state.k, before=lambda step: vars(state).update(k=float(step))
    )


# -- methods and descriptors -----------------------------------------------------------------------


@followed
def test_partial_method():
    class A:
        def scaled(self, k, x, shift):
            return x * k + shift

        doubled = functools.partialmethod(scaled, 2.0, shift=1.0)

    a = A()
    return World(lambda x: a.doubled(x))


@followed
def test_state_of_a_descriptor_that_sets():
    class Checked:
        low = 0.0

        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, kind=None):
            return self if obj is None else getattr(obj, self.name)

        def __set__(self, obj, value):
            setattr(obj, self.name, max(value, self.low))

    class A:
        v = Checked()

    def f(x):
        a = A()
        a.v = 2.0
        return x * a.v

    return World(f, before=later(3, lambda: setattr(A.v, "low", 5.0)))


class ClassProperty(property):
    def __get__(self, obj, kind=None):
        return self.fget(kind)


class Loud(property):
    pass


@followed
def test_subclasses_of_property():
    class A:
        scale = 2.0

        @ClassProperty
        def double(cls):
            return cls.scale * 2

        @Loud
        def triple(self):
            return self.scale * 3

    a = A()
    f = lambda x: (x * A.double, x * a.double, x * a.triple)
    return World(f, before=later(3, lambda: setattr(A, "scale", 5.0)))


class Bound:
    def __init__(self, value):
        self.value = value

    def __get__(self, obj, kind=None):
        return 7.0


@followed
def test_class_of_descriptors_as_a_class_attribute():
    class A:
        kind = Bound

    a = A()
    return World(lambda x: (x + a.kind(2.0).value, x + A.kind(3.0).value))


@agreed
def test_property_of_a_class_method():
    class A:
        scale = 2.0

        @classmethod
        @property
        def double(cls):
            return cls.scale * 2

    a = A()
    return World(lambda x: x * a.double, before=later(3, lambda: setattr(A, "scale", 5.0)))


@agreed
def test_subclasses_of_built_in_types():
    class Count(int):
        pass

    class Pair(tuple):
        pass

    items = [1.0, 2.0]
    f = lambda x: (x * Count(x.shape[0]), x + sum(Pair(items)))
    return World(f, before=lambda step: items.append(float(step)))


@agreed
def test_dataclass_called_wrongly():
    def f(x):
        try:
            return x, Frozen()
        except TypeError as error:
            return x, str(error)

    return World(f)


@agreed
def test_super_in_a_class_method():
    class Base:
        scale = 2.0

        @classmethod
        def make(cls):
            return cls.scale

    class A(Base):
        scale = 3.0

        @classmethod
        def make(cls):
            return super().make() + super().scale

    return World(lambda x: x * A.make(), before=later(3, lambda: setattr(Base, "scale", 7.0)))


@followed
def test_call_of_a_metaclass_makes_one_instance():
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)

    class A(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    return World(lambda x: x + A(2.0).value)


@agreed
def test_class_attribute_beside_a_metaclass():
    class Meta(type):
        @property
        def p(cls):
            return cls.k * 2

        def __getattr__(cls, name):
            return 7.0

    class A(metaclass=Meta):
        k = 1.0

    return World(
        lambda x: x * A.p + A.other + A.k, before=lambda step: setattr(A, "k", float(step))
    )


@agreed
def test_set_and_get_attribute_added_to_a_class():
    class A:
        v = 1.0

    a = A()

    def f(x):
        a.w = 2.0
        return x * a.v

    def change():
        A.__getattribute__ = lambda self, name: 9.0
        A.__setattr__ = lambda self, name, value: None

    return World(f, before=later(3, change))


@agreed
def test_call_added_to_a_module_class():
    class A(nn.Module):
        def forward(self, x):
            return x + 1

    a = A()
    change = lambda: setattr(A, "__call__", lambda self, x: x * 5)
    return World(lambda x: a(x), before=later(3, change))


@agreed
def test_facts_of_a_function_changed():
    def g(x):
        return x

    return World(lambda x: (x, g.__name__), before=later(3, lambda: setattr(g, "__name__", "h")))


@agreed
def test_copy_method_added_to_a_class():
    class A:
        v = 1.0

    a = A()
    change = lambda: setattr(A, "__copy__", lambda self: NS(v=4.0))
    return World(lambda x: x * copy.copy(a).v, before=later(3, change))


@agreed
def test_keyword_default_added():
    def g(x, *, k):
        return x * k

    def f(x):
        try:
            return g(x)
        except TypeError:
            return x

    return World(f, before=later(3, lambda: setattr(g, "__kwdefaults__", {"k": 2.0})))


# -- subclasses ------------------------------------------------------------------------------------


@agreed
def test_class_registered_with_a_library_class():
    class B:
        pass

    b = B()

    def f(x):
        return x + 1 if isinstance(b, collections.abc.Sized) else x - 1

    return World(f, before=later(3, lambda: collections.abc.Sized.register(B)))


@agreed
def test_subclass_by_registration():
    class A(abc.ABC):
        pass

    class B:
        pass

    f = lambda x: x + 1 if issubclass(B, (int, A)) else x - 1
    return World(f, before=later(3, lambda: A.register(B)))


@agreed
def test_instance_after_bases_replaced():
    class A:
        pass

    class A2:
        pass

    class B(A):
        pass

    b = B()
    f = lambda x: x + 1 if isinstance(b, A) else x - 1
    return World(f, before=later(3, lambda: setattr(B, "__bases__", (A2,))))


# -- cached functions ------------------------------------------------------------------------------


@followed
def test_cached_function_runs_once():
    log: list[int] = []

    @functools.lru_cache(None)
    def once(text, *, loud=False):
        log.append(len(text))

    def f(x):
        once("careful", loud=True)
        return x + 1

    return World(f, watch=lambda: log)


@followed
def test_cached_function_keeps_what_it_read():
    state = NS(k=2.0)

    @functools.lru_cache
    def scale():
        return state.k

    return World(lambda x: x * scale(), before=lambda step: vars(state).update(k=step + 1.0))


@agreed
def test_cache_cleared_and_filled_elsewhere():
    state = NS(k=2.0)

    @functools.cache
    def scale():
        return state.k

    def before(step):
        state.k = step + 1.0
        scale.cache_clear()
        scale()

    return World(lambda x: x * scale(), before=before)


@agreed
def test_entry_thrown_out_of_a_full_cache():
    state = NS(k=2.0)

    @functools.lru_cache(maxsize=1)
    def scale(name):
        return state.k

    def before(step):
        state.k = step + 1.0
        if step % 2:
            scale("other")

    return World(lambda x: x * scale("mine"), before=before)


@followed
def test_function_that_caches_nothing():
    state = NS(k=2.0)

    @functools.lru_cache(maxsize=0)
    def scale():
        return state.k

    return World(lambda x: x * scale(), before=later(2, lambda: vars(state).update(k=4.0)))


@followed
def test_typed_cache():
    @functools.lru_cache(typed=True)
    def scale(a, b=1):
        return float(isinstance(a, bool)) + b

    return World(lambda x: x * scale(1) + scale(True, b=2))


@agreed
def test_cached_method_of_two_objects():
    class A:
        def __init__(self, k):
            self.k = k

        @functools.cache  # noqa: B019 what users write
        def scale(self):
            return self.k

    state = NS(a=A(2.0))
    other = A(5.0)
    return World(
        lambda x: x * state.a.scale(), before=later(3, lambda: vars(state).update(a=other))
    )


@followed
def test_cached_tensor():
    @functools.cache
    def table(n):
        return torch.arange(float(n))

    return World(lambda x: x + table(4))


@agreed
def test_cached_list_that_changes():
    @functools.cache
    def items():
        return [1.0]

    return World(lambda x: x * len(items()), before=lambda step: items().append(2.0))


@agreed
def test_cached_function_replaced():
    state = NS(scale=functools.cache(lambda: 2.0))
    change = lambda: vars(state).update(scale=functools.cache(lambda: 3.0))
    return World(lambda x: x * state.scale(), before=later(3, change))


@agreed
def test_cached_function_that_raises():
    state = NS(bad=True)

    @functools.cache
    def scale():
        if state.bad:
            raise ValueError("bad")
        return 3.0

    def f(x):
        try:
            return x * scale()
        except ValueError:
            return x

    return World(f, before=later(3, lambda: vars(state).update(bad=False)))
