"""Containers from outside that a program reads and changes, next to an eager twin."""

# The functions below are what users write, not what we would.
# ruff: noqa: C416, RUF024
# pyright: basic, reportAttributeAccessIssue=false, reportIndexIssue=false

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from tests.api.twins import World, check


class Plain:
    pass


class Slotted:
    __slots__ = ("items", "n")


@dataclasses.dataclass
class Data:
    n: Any
    items: Any = None


Pair = namedtuple("Pair", "a b")


class Noted(dict):
    """A dictionary with a method of its own, which counts."""

    stored = 0

    def __setitem__(self, key, value):
        self.stored += 1
        super().__setitem__(key, value)


class Ordered(OrderedDict):
    stored = 0

    def __setitem__(self, key, value):
        self.stored += 1
        super().__setitem__(key, value)


def _list() -> list[Any]:
    return [3, 1.5, "a", 2]


def _numbers() -> list[Any]:
    return [5, 3, 9, 1]


def _dict() -> dict[Any, Any]:
    return {"a": 7, "b": 1.5, "c": "x"}


# -- functions of a tensor and a container: (function, how the container is made) ------------------


def _set_then_pop(x, d):
    d["k"] = x.shape[0]
    return x + d.pop("k"), d.pop("a"), len(d), list(d)


def _length_after_set(x, d):
    d["k"] = x.shape[0]
    d["a"] = 1
    return x + len(d), bool(d)


def _pop_missing(x, d):
    d["k"] = 1
    return x + 1, d.pop("none", x.shape[0]), d.pop("k", None), d.pop("k", None)


def _clear_and_fill(x, d):
    d.clear()
    first = len(d), bool(d)
    d["z"] = x.shape[0]
    return x + 1, first, len(d), "a" in d, d.get("a"), list(d.items())


def _set_default(x, d):
    return x + 1, d.setdefault("a", 3), d.setdefault("n", x.shape[0]), d.setdefault("n", 4), len(d)


def _delete_and_set(x, d):
    del d["a"]
    d["a"] = x.shape[0]
    return x + d["a"], list(d)


def _merged(x, d):
    d |= {"a": x.shape[0], "new": 2}
    return x + 1, list(d.items())


def _popitem(x, d):
    d["k"] = x.shape[0]
    one, two = d.popitem(), d.popitem()
    return x + 1, one, two, dict(d)


def _views(x, d):
    keys, values, items = d.keys(), d.values(), d.items()
    d["n"] = 3
    d.pop("a")
    return x + 1, list(keys), list(values), list(items), len(items), set(keys)


def _views_of_sizes(x, d):
    values, items = d.values(), d.items()
    d["n"] = x.shape[0]
    return x + sum(v for v in values if isinstance(v, int)), list(items), len(values)


def _grown_in_values(x, d):
    for value in d.values():
        d[str(value)] = x.shape[0]
    return x


def _shrunk_in_its_loop(x, d):
    for key in d:
        d.pop(key)
    return x


def _set_in_its_loop(x, d):
    for key in d:
        d[key] = x.shape[0]
    return x + 1, d


def _comprehension(x, d):
    d["n"] = x.shape[0]
    return x + 1, {key: value for key, value in d.items()}, [key for key in d], sorted(d)


def _copies(x, d):
    d["n"] = x.shape[0]
    made = d.copy()
    made["m"] = 1
    return x + 1, made, d, dict(d), {**d}, type(made) is type(d)


def _append_and_read(x, items):
    items.append(x.shape[0])
    return x + items[-1], items[0], len(items), items[-2:], list(items)


def _append_in_loop(x, items):
    for i, item in enumerate(items):
        if i < 2:
            items.append(item)
    return x + len(items), list(items)


def _doubled(x, items):
    items *= 2
    items += [x.shape[0]]
    items += (x.shape[0] + i for i in range(2))
    return x + len(items), list(items)


def _sorted(x, items):
    items.append(x.shape[0])
    items.sort()
    first = list(items)
    items.sort(key=lambda value: -value, reverse=True)
    return x + items[0], first, list(items)


def _changed_in_many_ways(x, items):
    items.insert(1, x.shape[0])
    items.reverse()
    a = items.pop()
    items[0] = x.shape[0] * 2
    b = items.pop(0)
    del items[0]
    items[1:1] = [x.shape[0], 4]
    items[-1:] = (i + x.shape[0] for i in range(2))
    items.extend(items)
    return x + len(items), a, b, list(items), items[::2], items[1:3]


def _removed(x, items):
    items.append(x.shape[0] + 100)
    items.remove(3)
    try:
        items.remove(55)
    except ValueError as error:
        return x + len(items), list(items), error.args


def _out_of_range(x, items):
    items.append(1)
    results = []
    for do in (
        lambda: items[50],
        lambda: items.pop(50),
        lambda: items.__setitem__(50, 1),
        lambda: items.__delitem__(-50),
    ):
        try:
            do()
        except IndexError as error:
            results.append(error.args)
    items.clear()
    try:
        items.pop()
    except IndexError as error:
        results.append(error.args)
    return x + 1, results, len(items)


def _generator_sees_it_grow(x, items):
    items.extend(len(items) for _ in range(3))
    return x + len(items), list(items)


def _generator_raises(x, items):
    def give():
        yield x.shape[0]
        yield 1
        raise ValueError("enough")

    try:
        items.extend(give())
    except ValueError:
        return x + len(items), list(items)


def _generator_leaves(x, items):
    def give():
        yield x.shape[0]
        yield float(x.sum()) * 0
        yield [x.shape[0]]

    items.extend(give())
    return x + len(items)


def _made_inside_then_filled(x, items):
    mine: list[Any] = []
    items.append(mine)
    mine.append(x.shape[0])
    mine.append({"n": x.shape[0]})
    return x + mine[0]


def _nested_sizes(x, items):
    n = x.shape[0]
    slotted = Slotted()
    slotted.n, slotted.items = n, [n]
    plain = Plain()
    plain.inner = Data(n, deque([n, (n, 1)]))
    items.append((n, plain, [n]))
    items.append({"n": n, "table": defaultdict(list, a=[n])})
    items.append(slotted)
    items.append(Pair(n, x.shape))
    return x + 1


def _left_with_sizes(x, items):
    n = x.shape[0]
    mine = Data(n, [n])
    items.append(mine)
    if float(x.sum()) > 1e9:
        return x
    mine.other = n
    items += (n + i for i in range(2))
    items.extend(n + i for i in range(2))
    items[0:1] = (n for _ in range(2))
    return x + n, mine


def _returned_sizes(x, items):
    n = x.shape[0]
    return functools.partial(max, n)(1), Data(n, {n}), deque([n]), {"k": Slotted}, x.shape


def _raises_after_storing(x, items):
    items.append(Data(x.shape[0]))
    raise ValueError(x.shape[0])


def _deque_changes(x, kept):
    kept.append(x.shape[0])
    kept.appendleft(x.shape[0] + 1)
    kept.rotate(1)
    kept.extendleft(i for i in range(2))
    kept.reverse()
    kept += [3]
    popped = kept.pop(), kept.popleft()
    kept[0] = 9
    kept.remove(9)
    return x + len(kept), popped, list(kept), kept.maxlen


def _deque_changed_in_loop(x, kept):
    for value in kept:
        kept.append(value)
    return x


def _set_changes(x, members):
    members.add(40)
    members |= {1, 2}
    members -= {3}
    members ^= {2, 17}
    members.update(i for i in range(3))
    members.difference_update([1])
    members.intersection_update({0, 2, 17, 40})
    members.discard(99)
    return x + len(members), 40 in members, sorted(members), members == {0, 2, 17, 40}


def _set_of_sizes(x, members):
    members.add(x.shape[0])
    members.update([x.shape[0] + 1])
    return x + len(members), sorted(members)


def _set_changed_in_loop(x, members):
    for member in members:
        members.add(member + 100)
    return x


def _derived_set(x, members):
    return x + 1, list(members | {64}), list(members.union([64])), list(members.copy())


def _own_method(x, d):
    d["a"] = x.shape[0]
    d["z"] = 1
    d.update(q=2)
    return x + d["a"], list(d), d.stored


def _odd_keys(x, d):
    d[1] = "one"
    d[True] = x.shape[0]
    d[1.0] = 5
    return x + 1, d[1], list(d.items())


def _bad_update(x, d):
    try:
        d.update([("k", x.shape[0]), ("j",)])
    except ValueError as error:
        return x + 1, error.args, list(d)


def _slices(x, items):
    return x + 1, items[1:], items[:-1], items[::2], items[5:]


FUNCTIONS: dict[Callable[..., Any], list[Callable[[], Any]]] = {
    **dict.fromkeys(
        (
            *(_set_then_pop, _length_after_set, _pop_missing, _clear_and_fill, _set_default),
            *(_delete_and_set, _merged, _popitem, _views, _views_of_sizes, _grown_in_values),
            *(_shrunk_in_its_loop, _set_in_its_loop, _comprehension, _copies, _bad_update),
        ),
        [_dict, lambda: OrderedDict(_dict()), lambda: defaultdict(list, _dict())],
    ),
    **dict.fromkeys(
        (
            *(_append_and_read, _append_in_loop, _doubled, _changed_in_many_ways, _removed),
            *(_out_of_range, _generator_sees_it_grow, _generator_raises, _generator_leaves),
            *(_made_inside_then_filled, _nested_sizes, _left_with_sizes, _returned_sizes),
            *(_raises_after_storing,),
        ),
        [_list, _numbers],
    ),
    _sorted: [_numbers],
    _slices: [_list, lambda: (1, 2, "c"), lambda: Pair(4, "b"), lambda: torch.Size([2, 3, 4])],
    **dict.fromkeys(
        (_deque_changes, _deque_changed_in_loop),
        [lambda: deque(_numbers()), lambda: deque(_numbers(), maxlen=5)],
    ),
    **dict.fromkeys(
        (_set_changes, _set_of_sizes, _set_changed_in_loop, _derived_set),
        [lambda: {0, 3, 8}, lambda: {8, 0, 3}, set],
    ),
    _own_method: [lambda: Noted(_dict()), lambda: Ordered(_dict())],
    _odd_keys: [dict, lambda: {True: 1}],
}
CASES = [
    pytest.param(function, make, id=f"{function.__name__.strip('_')}{index}")
    for function, makers in FUNCTIONS.items()
    for index, make in enumerate(makers)
]

#: What cannot be followed, or raises.
LEAVES = {
    *(_grown_in_values, _shrunk_in_its_loop, _generator_leaves, _left_with_sizes),
    *(_raises_after_storing, _deque_changed_in_loop, _set_changed_in_loop),
}


def numbers(value: Any, seen: set[int] | None = None) -> Any:
    """The types of all numbers in a value: none of them is ours."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, int | float):
        yield type(value)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from numbers(pair, seen)
    elif isinstance(value, list | tuple | set | deque | frozenset):
        for item in value:
            yield from numbers(item, seen)
    elif isinstance(value, BaseException):
        yield from numbers(value.args, seen)
    elif not isinstance(value, torch.Tensor | type):
        for name in (*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())):
            yield from numbers(getattr(value, name), seen)


@pytest.mark.parametrize("kept", [False, True], ids=["argument", "state"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("function", "make"), CASES)
def test_like_eager(
    function: Callable[..., Any], make: Callable[[], Any], dynamic: bool | None, kept: bool
) -> None:
    def world() -> World:
        if not kept:
            return World(function, lambda x: (x, make()))
        state = Plain()
        state.container = make()

        def restore(step: int) -> None:
            if step % 3 == 2:
                state.container = make()

        return World(
            lambda x: function(x, state.container),
            before=restore,
            watch=lambda: (state.container, list(state.container)),
        )

    with anyshape.config.patch(on_compile_error="raise"):
        check(world, dynamic)


@pytest.mark.parametrize(("function", "make"), CASES)
def test_no_traced_number_gets_out(function: Callable[..., Any], make: Callable[[], Any]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 5, 6):
        container, result = make(), None
        try:
            result = compiled(torch.ones(size, 2), container)
        except Exception as error:
            result = error
        assert set(numbers((result, container))) <= {int, float, bool}


@pytest.mark.parametrize(("function", "make"), CASES)
def test_is_followed(function: Callable[..., Any], make: Callable[[], Any]) -> None:
    if function in LEAVES or isinstance(make(), Counter):
        pytest.skip("leaves")
    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 5, 6):
        compiled(torch.ones(size, 2), make())
    assert compiled.stats().eager_calls == 0


class Table(dict):
    pass


OTHERS: dict[str, Callable[[], World]] = {
    "members of a set": lambda: _in_state(
        lambda x, s: x + 1 if 2 in s else x - 1, lambda step: {1, 2 + step % 2}
    ),
    "subclass made of a dictionary": lambda: _in_state(
        lambda x, s: (x + 1, Table(s), dict(s), OrderedDict(s)), lambda step: {"a": step % 3}
    ),
    "keys in a view": lambda: _in_state(
        lambda x, s: x + 1 if "b" in s.keys() else x - 1,  # noqa: SIM118
        lambda step: {"a": 1, **({"b": 2} if step % 2 else {})},
    ),
    "tensors reversed, then stacked": lambda: _in_state(_stack_of_changed, _three_tensors),
    "tensors popped, then joined": lambda: _in_state(
        lambda x, s: torch.cat([*s.pop(0)[None], torch.cat(s)]) + x.sum(), _three_tensors
    ),
    "tensors appended, then joined": lambda: _in_state(
        lambda x, s: (s.append(x.sum()[None]), torch.cat(s))[1], _three_tensors
    ),
    "a bound that changes": lambda: _in_state(
        lambda x, s: (s.append(1), x + len(s))[1], lambda step: deque([1, 2], 2 + step % 2)
    ),
}


def _three_tensors(step: int) -> list[torch.Tensor]:
    return [torch.full((2,), float(step + i)) for i in range(3)]


def _stack_of_changed(x: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
    tensors[0] = tensors[0] * 2
    tensors.reverse()
    return torch.stack(tensors).sum(0) + x.sum()


def _in_state(function: Callable[..., Any], make: Callable[[int], Any]) -> World:
    state = Plain()

    def before(step: int) -> None:
        state.value = make(step)

    return World(lambda x: function(x, state.value), before=before, watch=lambda: state.value)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", OTHERS)
def test_state_that_changes(name: str, dynamic: bool | None) -> None:
    with anyshape.config.patch(on_compile_error="raise"):
        check(OTHERS[name], dynamic)


@pytest.mark.parametrize("insort", [bisect.insort, bisect.insort_left, bisect.insort_right])
@pytest.mark.parametrize("outside", [True, False])
def test_insort_changes_its_list(insort: Callable[..., None], outside: bool) -> None:
    def function(x: torch.Tensor, numbers: list[int]) -> torch.Tensor:
        held = numbers if outside else [1, 5]
        insort(held, 3)
        return x * sum(held) + len(held)

    compiled, expected, found = anyshape.compile(function), [1, 9], [1, 9]
    for size in (2, 3, 3, 4):
        x = torch.ones(size)
        torch.testing.assert_close(compiled(x, found), function(x, expected))
        assert found == expected
