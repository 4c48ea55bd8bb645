"""Python's own semantics under capture, in functions next to an eager twin."""

# The functions below are what users write, not what we would.
# ruff: noqa: B024, E731, RUF012, UP031
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportPossiblyUnboundVariable=false
# pyright: reportOptionalMemberAccess=false, reportGeneralTypeIssues=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import abc
import dataclasses
import functools
import logging
import re
import types
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from tests.api.twins import World, check

NS = types.SimpleNamespace


class Plain:
    pass


def found(make: Callable[[], World]) -> Any:
    @pytest.mark.parametrize("dynamic", [None, True])
    def test(dynamic: bool | None) -> None:
        with anyshape.config.patch(on_compile_error="raise"):
            check(make, dynamic)

    return test


def later(step: int, change: Callable[[], Any]) -> Callable[[int], None]:
    """Change something before call number `step`."""
    return lambda now: change() if now == step else None


# -- containers from outside -----------------------------------------------------------------------


# `each` guards LENGTH with the length after the program's own change; the right guard of
# `contents` has the same key and comes second.
@found
def test_iteration_after_own_append():
    def f(x, items):
        items.append(1.5)
        for item in items:
            x = x + item
        return x

    calls: list[int] = []
    return World(f, lambda x: (calls.append(0), x, [1.0] * (2 + len(calls) % 3))[1:])


# `_dict_item`: the journal still has what was written before the key was deleted.
@found
def test_item_set_deleted_and_read():
    def f(x, table):
        table["k"] = 1
        del table["k"]
        return x + 1, table["k"]

    return World(f, lambda x: (x, {"a": 2}))


# The same through `pop`.
@found
def test_item_popped_set_popped_and_read():
    def f(x, table):
        table.pop("a")
        table["a"] = 5
        table.pop("a")
        return x + 1, table["a"]

    return World(f, lambda x: (x, {"a": 2}))


# `set_item`: the effect keeps the list itself; the epilogue makes it as it is at the end.
@found
def test_list_stored_into_a_slice_then_changed():
    def f(x, items):
        mine = [1.0]
        items[0:1] = mine
        mine.append(2.0)
        return x + len(items)

    return World(f, lambda x: (x, [7.0, 8.0]))


# natives `_container_method` uses the generator up, `storable` leaves, the call is done again.
@found
def test_generator_extends_a_list_outside():
    def f(x, items):
        items.extend((x.shape[0], i) for i in range(3))
        return x + len(items)

    return World(f, lambda x: (x, []))


@found
def test_generator_updates_a_set_outside():
    def f(x, items):
        items.update((x.shape[0], i) for i in range(3))
        return x + len(items)

    return World(f, lambda x: (x, set()))


@found
def test_generator_extends_a_deque_outside():
    kept: deque[Any] = deque(maxlen=3)

    def f(x):
        kept.extend([x.shape[0], i] for i in range(2))
        return x + len(kept)

    return World(f, watch=lambda: kept)


@found
def test_generator_updates_a_dictionary_outside():
    kept: dict[Any, Any] = {}

    def f(x):
        kept.update((i, [x.shape[0]]) for i in range(2))
        return x + 1

    return World(f, watch=lambda: kept)


# natives `_read_outside`: a view of a copy does not follow the dictionary.
@found
def test_views_follow_the_dictionary():
    def f(x, table):
        keys, values, items = table.keys(), table.values(), table.items()
        table["new"] = 1
        return x + 1, list(keys), list(values), list(items)

    return World(f, lambda x: (x, {"a": 2}))


# hooks.py `iterate` gives a copy: Python would notice.
@found
def test_dictionary_grows_in_its_loop():
    def f(x, table):
        for key in table:
            table[key + "x"] = 1
        return x

    return World(f, lambda x: (x, {"a": 2}))


@found
def test_dictionary_grows_in_the_loop_over_its_items():
    def f(x, table):
        for key, value in table.items():
            table[key + "x"] = value
        return x

    return World(f, lambda x: (x, {"a": 2}))


# natives: an OrderedDict changed by a method, then an item set, then listed.
@found
def test_ordered_dictionary_changed_and_listed():
    kept = OrderedDict(a=1.0, b=2.0)

    def f(x):
        kept.move_to_end("a")
        kept["c"] = x.shape[0]
        first = kept.popitem(last=False)
        kept[first[0]] = first[1]
        return x + 1, list(kept)

    return World(f, watch=lambda: list(kept.items()))


# external_objects.py `item`: `type(container)(list)` is no way to make a named tuple.
@found
def test_slice_of_a_named_tuple():
    point = namedtuple("point", "a b c")
    return World(lambda x, p: (x + p[0], p[1:]), lambda x: (x, point(1.0, 2.0, "k")))


# natives `_read_outside`: `kind(contents)` forgets maxlen.
@found
def test_copy_of_a_bounded_deque():
    kept = deque([1.0, 2.0], maxlen=2)

    def f(x):
        mine = kept.copy()
        mine.append(3.0)
        return x + mine[0], list(mine)

    return World(f)


# guards: equal sets may be iterated in different orders (KIND.MEMBERS compares without order).
@found
def test_order_of_a_set():
    state = NS(values=set())

    def before(step: int) -> None:
        state.values = {8, 0} if step % 2 else {0, 8}

    return World(lambda x: (x + 1, list(state.values)), before=before)


# -- native code that calls user code --------------------------------------------------------------

SCALE = 2.0
MADE: list[int] = []


class Counted:
    def __init__(self):
        MADE.append(1)
        self.value = len(MADE)


# `d[key]` of a dictionary that the program made runs the factory unwatched.
@found
def test_class_as_default_factory():
    def f(x):
        table = defaultdict(Counted)
        return x + table["a"].value + table["b"].value

    return World(f, globals={"MADE": []})


class Missing(dict):
    def __missing__(self, key):
        return SCALE


# hooks.py `item`: `obj[key]` of a dict subclass made by the program runs `__missing__` unwatched.
@found
def test_missing_of_a_dictionary_made_inside():
    def before(step: int) -> None:
        global SCALE
        SCALE = float(step)

    return World(lambda x: x * Missing()["k"], before=before, globals={"SCALE": 1.0})


# hooks.py `item`: `isinstance(obj, type): return obj[key]` runs `__class_getitem__` unwatched.
@found
def test_class_getitem():
    class A:
        table: dict[str, float] = {}

        def __class_getitem__(cls, key):
            return cls.table[key]

    return World(lambda x: x * A["k"], before=lambda step: A.table.update(k=float(step)))


# attributes.py `_of_class`: `getattr(owner, name)` runs the metaclass's `__getattr__` unwatched.
@found
def test_getattr_of_a_metaclass():
    state = NS(value=1.0)

    class Meta(type):
        def __getattr__(cls, name):
            return state.value

    class A(metaclass=Meta):
        pass

    return World(lambda x: x * A.foo, before=lambda step: vars(state).update(value=float(step)))


# attributes.py `_of_super`: order.index(this) is of the class, not of its metaclass: ValueError.
@found
def test_super_call_in_a_metaclass():
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)

    class A(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    return World(lambda x: x + A(2.0).value)


# hooks.py `match`: class patterns read attributes natively, without guards.
@found
def test_match_class_pattern():
    class P:
        __match_args__ = ("a",)

    p = P()

    def f(x):
        match p:
            case P(0):
                return x + 1
            case P(a):
                return x * a

    return World(f, before=lambda step: vars(p).update(a=step % 3))


@found
def test_match_property():
    state = NS(reads=0)

    class P:
        @property
        def a(self):
            state.reads += 1
            return state.reads

    p = P()

    def f(x):
        match p:
            case P(a=value):
                return x * value

    return World(f, watch=lambda: state.reads)


# -- attributes ------------------------------------------------------------------------------------


# attributes.py `plain`: an AttributeError of a property goes on to `__getattr__`.
@found
def test_property_raises_attribute_error():
    class A:
        @property
        def p(self):
            raise AttributeError("inner")

        def __getattr__(self, name):
            return 7.0

    a = A()
    return World(lambda x: x + a.p)


@found
def test_property_of_a_module_raises_attribute_error():
    class A(nn.Module):
        @property
        def p(self):
            return self.nothing + 1

        def forward(self, x):
            return x + self.p

    return World(A())


class Doubling:
    """Has no `__get__`, as validators often have none."""

    def __init__(self, log):
        self.log = log

    def __set_name__(self, owner, name):
        self.name = name

    def __set__(self, obj, value):
        self.log.append(value)
        obj.__dict__[self.name] = value * 2


# attributes.py `_is_data_descriptor` asks for `__get__` as well, so `set_plain` misses `__set__`.
@found
def test_descriptor_with_set_alone():
    class A:
        a = Doubling([])

    obj = A()

    def f(x):
        obj.a = 3.0
        return x * obj.a

    return World(f, watch=lambda: vars(obj))


@found
def test_descriptor_with_set_alone_of_an_object_made_inside():
    log: list[float] = []

    class A:
        a = Doubling(log)

    def f(x):
        obj = A()
        obj.a = 3.0
        return x * obj.a

    return World(f, watch=lambda: log)


# attributes.py `delete`: `object.__delattr__` runs the deleter unwatched.
@found
def test_deleter_with_an_effect():
    log: list[int] = []

    class A:
        @property
        def p(self):
            return 1

        @p.deleter
        def p(self):
            log.append(1)

    def f(x):
        a = A()
        del a.p
        return x + len(log)

    return World(f, watch=lambda: log)


# attributes.py `_bound`: the descriptor object itself is not registered, so its state is baked in.
@found
def test_state_of_a_descriptor():
    class D:
        def __get__(self, obj, kind=None):
            return self.k

    d = D()

    class A:
        v = d

    a = A()
    return World(lambda x: x * a.v, before=lambda step: vars(d).update(k=float(step)))


# A class attribute hidden by the instance's: nothing guards that it stays no data descriptor.
@found
def test_hidden_class_attribute_becomes_a_property():
    class A:
        v = 1.0

    a = A()
    a.v = 8.0

    def change():
        A.v = property(lambda self: 6.0, lambda self, value: None)

    return World(lambda x: x * a.v, before=later(4, change))


# calls.py `_dataclass_init`: the default of a slot is in `__init__`, the class has the slot.
@found
def test_dataclass_with_slots_and_defaults():
    @dataclasses.dataclass(slots=True)
    class P:
        a: Any
        b: float = 2.0

    return World(lambda x: x * P(x).b)


# The default is in the generated `__init__`; later changes of the class attribute do not matter.
@found
def test_dataclass_default_replaced_on_the_class():
    @dataclasses.dataclass
    class P:
        a: Any
        b: float = 2.0

    return World(lambda x: x * P(x).b, before=later(3, lambda: setattr(P, "b", 9.0)))


# -- classes that change ---------------------------------------------------------------------------


@found
def test_bool_added_to_a_class():
    class A:
        pass

    a = A()
    change = lambda: setattr(A, "__bool__", lambda self: False)
    return World(lambda x: x + 1 if a else x - 1, before=later(3, change))


@found
def test_eq_added_to_a_class():
    class A:
        pass

    a, b = A(), A()
    change = lambda: setattr(A, "__eq__", lambda self, other: True)
    return World(lambda x: x + 1 if a == b else x - 1, before=later(3, change))


@found
def test_contains_added_to_a_class():
    class A:
        def __iter__(self):
            return iter([1, 2])

    a = A()
    change = lambda: setattr(A, "__contains__", lambda self, item: True)
    return World(lambda x: x + 1 if 7 in a else x - 1, before=later(3, change))


@found
def test_init_added_to_a_class():
    class A:
        v = 2.0

    change = lambda: setattr(A, "__init__", lambda self: vars(self).update(v=7.0))
    return World(lambda x: x * A().v, before=later(3, change))


@found
def test_bases_of_a_class_replaced():
    class A:
        def g(self, x):
            return x + 1

    class A2:
        def g(self, x):
            return x + 2

    class B(A):
        pass

    b = B()
    return World(lambda x: b.g(x), before=later(3, lambda: setattr(B, "__bases__", (A2,))))


@found
def test_class_registered_with_an_abc():
    class A(abc.ABC):
        pass

    class B:
        pass

    b = B()
    f = lambda x: x + 1 if isinstance(b, A) else x - 1
    return World(f, before=later(3, lambda: A.register(B)))


# attributes.py `_CLASS_FACTS`, `_FUNCTION_FACTS` are not guarded.
@found
def test_name_of_a_class_changed():
    class B:
        pass

    return World(lambda x: (x, B.__name__), before=later(3, lambda: setattr(B, "__name__", "C")))


# -- functions -------------------------------------------------------------------------------------


# calls.py `watched`: the function is guarded by identity, its code is not.
@found
def test_code_of_a_function_replaced():
    def h(x):
        return x + 1

    def h2(x):
        return x + 2

    change = lambda: setattr(h, "__code__", h2.__code__)
    return World(lambda x: h(x), before=later(3, change))


# calls.py `_defaults`: that there are none is not guarded.
@found
def test_defaults_added():
    def h(x, k):
        return x * k

    def f(x):
        try:
            return h(x)
        except TypeError:
            return x

    return World(f, before=later(3, lambda: setattr(h, "__defaults__", (5.0,))))


@functools.cache
def configured():
    return SCALE


# calls.py `_cached`: `cache_clear` is how such a function is told that something changed.
@found
def test_cache_cleared():
    def before(step: int) -> None:
        global SCALE
        SCALE = float(step)
        configured.cache_clear()

    return World(lambda x: x * configured(), before=before, globals={"SCALE": 1.0})


# hooks.py `_operator`: the last `function(a, b)` asks both operands again.
@found
def test_not_implemented_is_asked_once():
    log: list[str] = []

    class A:
        def __add__(self, other):
            log.append("add")
            return NotImplemented

        def __eq__(self, other):
            log.append("eq")
            return NotImplemented

    a, b = A(), Plain()

    def f(x):
        equal = a == b
        try:
            a + b  # pyright: ignore[reportUnusedExpression] it raises
        except TypeError:
            return x + 1, equal

    return World(f, watch=lambda: log)


# hooks.py `_tensor_binary`: NotImplemented of the tensor's method is the answer, not a TypeError.
@pytest.mark.parametrize("other", [object(), None, "a", [1]], ids=["object", "none", "str", "list"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_tensor_and_what_it_cannot_work_with(other: Any, dynamic: bool | None) -> None:
    def make():
        state = NS(other=other)

        def f(x):
            results = []
            for operate in (
                lambda: x * state.other,
                lambda: state.other - x,
                lambda: x @ state.other,
                lambda: x == state.other,
                lambda: x < state.other,
            ):
                try:
                    results.append(operate())
                except TypeError as error:
                    results.append(type(error))
            return results

        return World(f)

    check(make, dynamic)


# natives `_sum` adds strings.
@found
def test_sum_of_strings():
    return World(lambda x: (x + 1, sum(["a", "b"], "")))


# hooks.py `same`: equal strings at two places were one object, or were not.
@found
def test_strings_compared_by_is():
    state = NS(a="", b="")

    def before(step: int) -> None:
        state.a = "".join(["ab", "c!"])
        state.b = state.a if step % 2 else "".join(["ab", "c!"])

    return World(lambda x: (x + 1, state.a is state.b), before=before)


# -- results ---------------------------------------------------------------------------------------


# epilogue.py `_rebuilds_itself`: heap types of C modules are no class statements;
# `object.__new__(partial)` raises.
@pytest.mark.parametrize(
    "make",
    [
        lambda: functools.partial(torch.add, 1),
        lambda: re.compile("a+"),
    ],
    ids=["partial", "pattern"],
)
def test_native_object_made_and_returned(make: Callable[[], Any]) -> None:
    compiled = anyshape.compile(lambda x: (x + 1, make()))
    for size in (3, 3, 5, 7):
        _, made = compiled(torch.ones(size))
        assert repr(made) == repr(make())


# epilogue.py `_dict`: the factory is kept as a constant with the first call's closure.
def test_default_factory_with_a_closure_returned() -> None:
    def f(x):
        n = x.shape[0]
        table = defaultdict(lambda: n)
        table["a"] = x + 1
        return table

    compiled = anyshape.compile(f, dynamic=True)
    for size in (3, 5, 7):
        value = compiled(torch.ones(size))["other"]
        assert value == size
        assert type(value) is int


# epilogue.py `_tuple`: a tuple that is inside itself is made twice.
def test_tuple_inside_itself_returned() -> None:
    def f(x):
        items: list[Any] = []
        result = (items, x + 1)
        items.append(result)
        return result

    compiled = anyshape.compile(f)
    for _ in range(3):
        result = compiled(torch.ones(3))
        assert result[0][0] is result


# hooks.py `_checked` lets an object be formatted by `%`: its address is baked in.
def test_address_of_an_object_formatted() -> None:
    compiled = anyshape.compile(lambda x, thing: (x + 1, "%s" % (thing,)))
    things = [Plain() for _ in range(4)]
    for thing in things:
        assert compiled(torch.ones(3), thing)[1] == str(thing)


# journal: an object that the program made keeps traced numbers when it is stored outside;
# `stripped` goes through the result alone.
@found
def test_object_with_a_size_stored_outside():
    state = Plain()

    def f(x):
        made = Plain()
        made.n = x.shape[0]
        state.last = made
        return x + made.n

    return World(f, watch=lambda: (vars(state.last), type(state.last.n)))


@found
def test_object_with_a_size_appended_outside():
    def f(x, kept):
        made = Plain()
        made.n = x.shape[0]
        kept.append(made)
        return x + 1

    return World(f, lambda x: (x, []))


# -- errors and messages ---------------------------------------------------------------------------


def _sometimes_bad() -> Callable[[torch.Tensor], tuple[Any, ...]]:
    calls: list[int] = []

    def arguments(x):
        calls.append(0)
        return x, torch.full((2,), 99 if len(calls) in (5, 8) else 3)

    return arguments


# program.py: the graph raises before any effect is performed, and in-place changes forbid a second,
# eager run: what the program did before the failing line is lost.
@found
def test_effects_before_an_error_in_the_graph():
    log, total, table = [], torch.zeros(1), torch.arange(10.0)

    def f(x, index):
        log.append("before")
        print("hello")
        total.add_(1)
        y = x + table[index].sum()
        log.append("after")
        return y

    return World(f, _sometimes_bad(), watch=lambda: (log, total))


# The same, and the program's own `except` is not reached.
@found
def test_error_in_the_graph_is_caught_by_the_program():
    total, table = torch.zeros(1), torch.arange(10.0)

    def f(x, index):
        total.add_(1)
        try:
            return x + table[index].sum()
        except IndexError:
            return x

    return World(f, _sometimes_bad(), watch=lambda: total)


# The eager run after a failed graph draws its random numbers after those of the graph.
@found
def test_random_numbers_before_an_error_in_the_graph():
    table = torch.arange(10.0)

    def f(x, index):
        noise = torch.rand(2)
        try:
            return noise, x.sum() + table[index]
        except IndexError:
            return noise, x

    return World(f, _sometimes_bad())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Where each warning was said to come from."""
    lines: list[Any] = []

    def show(message, category, filename, lineno, *rest):
        lines.append((str(message), filename, lineno))

    monkeypatch.setattr(warnings, "showwarning", show)
    return lines


# natives `_effect`: `warnings.warn` looks at its caller's frame: ours.
def test_place_of_a_warning(shown: list[Any]) -> None:
    def f(x):
        warnings.warn("careful", RuntimeWarning, stacklevel=1)
        return x + 1

    compiled = anyshape.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for function in (f, compiled, compiled):
            function(torch.ones(3))
    assert len(shown) == 3
    assert len(set(shown)) == 1


# So a warning that is shown once for each place is shown again for each entry.
def test_warning_is_shown_once(shown: list[Any]) -> None:
    def f(x):
        warnings.warn("once", UserWarning, stacklevel=1)
        return x + 1

    compiled = anyshape.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for size in (3, 3, 5, 1, 7):
            compiled(torch.ones(size))
    assert len(shown) == 1


# A logger tells the function and the line of its caller.
def test_place_of_a_log_record() -> None:
    records: list[Any] = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.getMessage(), record.funcName, record.lineno))

    logger = logging.getLogger("tests.found")
    logger.setLevel(logging.INFO)
    logger.addHandler(Keep())

    def f(x):
        logger.info("hello")
        return x + 1

    compiled = anyshape.compile(f)
    for function in (f, compiled, compiled):
        function(torch.ones(3))
    assert len(set(records)) == 1
