"""Two arguments that lead to one piece of state: an object and its `__dict__`, a function and its
globals, two objects with one dictionary, views of one tensor.

Each program writes by the one way and reads by the other. It is compiled with arguments that have
nothing to do with each other, then called with such that have, and the other way round.
"""

from __future__ import annotations

import types
from collections import ChainMap, UserDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

import anyshape


class Plain:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class Other(Plain):
    pass


class Child(Plain):
    def __init__(self, **held: Any) -> None:
        super().__init__(**held)


class Mapped(dict[str, Any]):
    """A dictionary with attributes of its own."""


def _function(**held: Any) -> Any:
    def function() -> None:
        pass

    function.__dict__.update(held)
    return function


def _module(**held: Any) -> Any:
    made = types.ModuleType("a_module_of_the_tests")
    made.__dict__.update(held)
    return made


def _net(**held: Any) -> Any:
    net = torch.nn.Module()
    net.__dict__.update(held)
    return net


def _with_globals(names: dict[str, Any]) -> Any:
    def reads() -> Any:
        return n  # noqa: F821 of its globals  # pyright: ignore[reportUndefinedVariable]

    return types.FunctionType(reads.__code__, names)


ATTRIBUTE_READS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda o: o.n,
    "hasattr": lambda o: (hasattr(o, "n"), hasattr(o, "new")),
    "getattr": lambda o: getattr(o, "new", None),
    "own dictionary": lambda o: o.__dict__["n"],
    "names": lambda o: list(vars(o)),
}
ITEM_READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda d: d["n"],
    "in": lambda d: ("n" in d, "new" in d),
    "get": lambda d: d.get("new"),
    "length": lambda d: len(d),
    "keys": lambda d: list(d),
    "values": lambda d: list(d.values()),
    "copy": lambda d: dict(d),
}


def _set_attribute(o: Any, v: Any) -> None:
    o.n = v


def _new_attribute(o: Any, v: Any) -> None:
    o.new = v


def _set_item(d: Any, v: Any) -> None:
    d["n"] = v


def _new_item(d: Any, v: Any) -> None:
    d["new"] = v


def _delete_attribute(o: Any, v: Any) -> None:
    del o.n


def _delete_item(d: Any, v: Any) -> None:
    del d["n"]


ATTRIBUTE_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "set": _set_attribute,
    "new": _new_attribute,
    "setattr": lambda o, v: setattr(o, "n", v),
    "delete": _delete_attribute,
    "own dictionary": lambda o, v: o.__dict__.update(n=v),
}
ITEM_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "set": _set_item,
    "new": _new_item,
    "update": lambda d, v: d.update(n=v),
    "pop": lambda d, v: d.pop("n"),
    "clear": lambda d, v: d.clear(),
    "setdefault": lambda d, v: d.setdefault("new", v),
    "delete": _delete_item,
}
ATTRIBUTES = ATTRIBUTE_READS, ATTRIBUTE_WRITES
ITEMS = ITEM_READS, ITEM_WRITES


def _n(value: float = 1.0) -> dict[str, Any]:
    return {"n": torch.tensor([value]), "other": 3}


def _of_object(kind: Callable[..., Any]) -> Callable[[bool], tuple[Any, Any]]:
    def make(related: bool) -> tuple[Any, Any]:
        made = kind(**_n())
        return made, made.__dict__ if related else dict(made.__dict__)

    return make


def _borg(kind: type) -> Callable[[bool], tuple[Any, Any]]:
    def make(related: bool) -> tuple[Any, Any]:
        one, other = Plain(**_n()), kind(**_n())
        if related:
            other.__dict__ = one.__dict__
        return one, other

    return make


def _held(related: bool) -> tuple[Any, Any]:
    made = Plain(**_n())
    return made, [{"in": made.__dict__ if related else _n()}]


def _globals(related: bool) -> tuple[Any, Any]:
    names = _n()
    return _with_globals(names), names if related else _n()


def _wrapped(kind: Callable[..., Any]) -> Callable[[bool], tuple[Any, Any]]:
    def make(related: bool) -> tuple[Any, Any]:
        made = Plain(**_n())
        return made, kind(made.__dict__ if related else _n())

    return make


def _user_dict(held: dict[str, Any]) -> Any:
    made: UserDict[str, Any] = UserDict()
    made.data = held
    return made


def _group(name: str) -> Callable[[bool], tuple[Any, Any]]:
    def make(related: bool) -> tuple[Any, Any]:
        nets = [torch.nn.Module(), torch.nn.Module()]
        for net in nets:
            if name == "_parameters":
                net.n = torch.nn.Parameter(torch.ones(1), requires_grad=False)
            elif name == "_buffers":
                net.register_buffer("n", torch.ones(1))
            else:
                net.n = torch.nn.Module()
        return nets[0], getattr(nets[not related], name)

    return make


_HELD = (
    {name: lambda o, read=read: read(o[0]["in"]) for name, read in ITEM_READS.items()},
    {name: lambda o, v, write=write: write(o[0]["in"], v) for name, write in ITEM_WRITES.items()},
)
_CALLED = ({"call": lambda f: f(), "globals": lambda f: f.__globals__["n"]}, {})
_READ_ONLY = (ITEM_READS, {})
_GROUP = (
    {
        "attribute": ATTRIBUTE_READS["attribute"],
        "names": lambda o: list(o.state_dict()),
        "parameters": lambda o: len(list(o.parameters())) + len(list(o.buffers())),
        "children": lambda o: len(list(o.children())),
    },
    {},
)
_ENTRIES = (
    {"in": ITEM_READS["in"], "length": ITEM_READS["length"], "keys": ITEM_READS["keys"]},
    {"pop": ITEM_WRITES["pop"], "clear": ITEM_WRITES["clear"], "delete": ITEM_WRITES["delete"]},
)

#: (how the two are made, how the first is read and written, how the second is)
PAIRS: dict[str, tuple[Callable[[bool], tuple[Any, Any]], Any, Any]] = {
    "object and dictionary": (_of_object(Plain), ATTRIBUTES, ITEMS),
    "dictionary with attributes": (_of_object(Mapped), ATTRIBUTES, ITEMS),
    "function and dictionary": (_of_object(_function), ATTRIBUTES, ITEMS),
    "module and dictionary": (_of_object(_module), ATTRIBUTES, ITEMS),
    "net and dictionary": (_of_object(_net), ATTRIBUTES, ITEMS),
    "object and holder": (_held, ATTRIBUTES, _HELD),
    "one dictionary of two": (_borg(Plain), ATTRIBUTES, ATTRIBUTES),
    "one dictionary of two classes": (_borg(Other), ATTRIBUTES, ATTRIBUTES),
    "globals": (_globals, _CALLED, ITEMS),
    "chain map": (_wrapped(ChainMap), ATTRIBUTES, ITEMS),
    "user dict": (_wrapped(_user_dict), ATTRIBUTES, ITEMS),
    "proxy": (_wrapped(types.MappingProxyType), ATTRIBUTES, _READ_ONLY),
    "keys view": (_wrapped(lambda d: d.keys()), ATTRIBUTES, ({"list": list, "len": len}, {})),
    "items view": (_wrapped(lambda d: d.items()), ATTRIBUTES, ({"list": list, "len": len}, {})),
    "values view": (_wrapped(lambda d: d.values()), ATTRIBUTES, ({"list": list}, {})),
    "parameters": (_group("_parameters"), _GROUP, _ENTRIES),
    "buffers": (_group("_buffers"), _GROUP, _ENTRIES),
    "modules": (_group("_modules"), _GROUP, _ENTRIES),
}


def _cases() -> list[Any]:
    found = []
    for pair, (_, first, second) in PAIRS.items():
        for is_swapped in (False, True):
            writes, reads = (second[1], first[0]) if is_swapped else (first[1], second[0])
            found += [
                pytest.param(
                    pair, is_swapped, write, read, id=f"{pair}-{is_swapped}-{write}-{read}"
                )
                for write in writes
                for read in reads
            ]
    return found


def _plain(value: Any) -> Any:
    """A value as text, with tensors by their elements."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return [(key, _plain(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, torch.nn.Module | Plain):
        return type(value).__name__
    return value


def _outcome(function: Callable[..., Any], made: tuple[Any, Any], x: Tensor) -> Any:
    try:
        result: Any = _plain(function(x, *made))
    except (AttributeError, KeyError, NameError, RuntimeError, TypeError) as error:
        result = type(error), str(error)
    one, other = made
    names = getattr(one, "__globals__", None) if type(one) is types.FunctionType else None
    state = [_plain(vars(one)), [] if names is globals() else _plain(_without_builtins(names))]
    seen = vars(other) if isinstance(other, Plain) else other
    state.append(
        _plain(
            list(seen.items())
            if isinstance(seen, dict | UserDict | ChainMap)
            else seen
            if isinstance(seen, list)
            else []
        )
    )
    return result, state


def _without_builtins(names: Any) -> Any:
    return {key: value for key, value in (names or {}).items() if key in ("n", "other", "new")}


@pytest.mark.parametrize(("pair", "is_swapped", "write", "read"), _cases())
@pytest.mark.parametrize("related_first", [False, True])
def test_as_eager(pair: str, is_swapped: bool, write: str, read: str, related_first: bool) -> None:
    make, first, second = PAIRS[pair]
    writes, reads = (second[1], first[0]) if is_swapped else (first[1], second[0])
    do_write, do_read = writes[write], reads[read]

    def program(x: Tensor, one: Any, other: Any) -> Any:
        to_write, to_read = (other, one) if is_swapped else (one, other)
        y = x * 2
        before = do_read(to_read)
        do_write(to_write, y + 1)
        return y, before, do_read(to_read)

    def blind(x: Tensor, one: Any, other: Any) -> Any:
        to_write, to_read = (other, one) if is_swapped else (one, other)
        do_write(to_write, x + 1)
        return x * 2, do_read(to_read)

    for function in (program, blind):
        compiled = anyshape.compile(function, backend="eager")
        for related in (
            related_first,
            related_first,
            not related_first,
            not related_first,
            related_first,
        ):
            expected = _outcome(function, make(related), torch.ones(2))
            assert _outcome(compiled, make(related), torch.ones(2)) == expected, (related, function)


# -- other state than dictionaries -----------------------------------------------------------------


class Slotted:
    __slots__ = ("m", "n")

    def __init__(self) -> None:
        self.n = torch.ones(2, 2)


def _closures(related: bool) -> tuple[Any, Any]:
    def made() -> tuple[Any, Any]:
        n = torch.ones(2, 2)

        def write(x: Tensor) -> None:
            nonlocal n
            n = x * 2

        return write, lambda: n

    first, second = made(), made()
    return first[0], first[1] if related else second[1]


def _viewed(view: Callable[[Tensor], Tensor]) -> Callable[[bool], tuple[Tensor, Tensor]]:
    def make(related: bool) -> tuple[Tensor, Tensor]:
        x = torch.ones(2, 2)
        return x, view(x) if related else view(x).clone()

    return make


def _array(related: bool) -> tuple[Any, Any]:
    held = numpy.ones((2, 2), numpy.float32)
    return held, torch.from_numpy(held) if related else torch.ones(2, 2)


def _bytes(related: bool) -> tuple[Any, Any]:
    held = bytearray(b"ab")
    return held, memoryview(held if related else bytearray(b"ab"))


def _fill(thing: Any, value: Any) -> None:
    thing[0] = value


MEMORY: dict[str, tuple[Callable[[bool], tuple[Any, Any]], Any, Any]] = {
    "slots": (
        lambda related: (lambda a: (a, a if related else Slotted()))(Slotted()),
        (_set_attribute, lambda a: (a.n + 1, hasattr(a, "m"))),
        (_set_attribute, lambda a: a.n + 1),
    ),
    "cells": (
        _closures,
        (lambda write, v: write(v), lambda write: write.__closure__[0].cell_contents + 1),
        (lambda read, v: None, lambda read: read() + 1),
    ),
    "bytes": (
        _bytes,
        (lambda a, v: _fill(a, 7), lambda a: a[0]),
        (lambda a, v: _fill(a, 7), lambda a: a[0]),
    ),
    "keywords": (
        lambda related: (lambda p: (p, p.keywords if related else {"n": 1}))(partial(dict, n=1)),
        (lambda p, v: p.keywords.update(n=2), lambda p: p.keywords["n"]),
        (lambda d, v: d.update(n=2), lambda d: d["n"]),
    ),
}
_ELEMENTS = (lambda x, v: x.__setitem__(0, 7.0), lambda x: x * 2 + 1)
_VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "data": lambda x: x.data,
    "detach": lambda x: x.detach(),
    "view": lambda x: x.view(-1),
    "slice": lambda x: x[:1],
    "numpy": lambda x: torch.from_numpy(x.numpy()),
    "other dtype": lambda x: x.view(torch.int32),
    "storage": lambda x: torch.tensor(0.0).set_(x.untyped_storage(), 1, (2,), (1,)),
}
MEMORY |= {name: (_viewed(view), _ELEMENTS, _ELEMENTS) for name, view in _VIEWS.items()}
MEMORY["array"] = (_array, (_ELEMENTS[0], lambda a: torch.from_numpy(a) * 2), _ELEMENTS)


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("related_first", [False, True])
@pytest.mark.parametrize("name", MEMORY)
def test_other_state_as_eager(name: str, related_first: bool, is_swapped: bool) -> None:
    make, first, second = MEMORY[name]
    if is_swapped:
        first, second = second, first

    def program(x: Tensor, one: Any, other: Any) -> Any:
        y = x * 2
        first[0](one, y)
        return y, second[1](other)

    def outcome(function: Callable[..., Any], related: bool) -> Any:
        made = make(related)
        result = function(torch.ones(2, 2), *(made[::-1] if is_swapped else made))
        return _plain(result), [read(each).tolist() for each, read in _tensors(made)]

    def _tensors(made: Any) -> Any:
        return [(each, _ELEMENTS[1]) for each in made if isinstance(each, Tensor)]

    compiled = anyshape.compile(program)
    for related in (related_first, related_first, not related_first, not related_first):
        assert outcome(compiled, related) == outcome(program, related), related


# -- what it costs --------------------------------------------------------------------------------


def _relations(compiled: Any) -> list[str]:
    guards = [guard for entry in compiled.entries for guard in entry.guards]
    return [each.text for each in guards if each.kind.value in ("NO_ALIASING", "DUPLICATE_INPUT")]


def test_what_is_told_apart_is_told_apart_by_a_guard() -> None:
    @anyshape.compile
    def program(x: Tensor, one: Any, other: Any) -> Tensor:
        one.n = x
        return other["n"] + x

    for related in (False, True, False, True):
        program(torch.ones(1), *_of_object(Plain)(related))
    stats = program.stats()
    assert (stats.graphs, stats.hits, stats.eager_calls) == (2, 2, 0)


def test_programs_that_read_other_names_are_given_no_guard() -> None:
    @anyshape.compile
    def program(x: Tensor, one: Any, others: list[Any], held: Any) -> Tensor:
        one.count = one.count + 1
        return sum((each.n for each in others), x) + held["n"] + one.n

    ones = [Plain(n=torch.ones(1), count=0) for _ in range(4)]
    for _ in range(3):
        program(torch.ones(1), ones[0], ones[1:], _n())
    assert program.stats().hits
    assert not _relations(program)


def test_many_writers_of_one_name_are_told_apart_at_once() -> None:
    @anyshape.compile
    def program(x: Tensor, ones: list[Any]) -> Tensor:
        for each in ones:
            each.cache = x * 2
        return x

    program(torch.ones(1), [Plain() for _ in range(20)])
    assert len(_relations(program)) == 1
    shared = Plain()
    same = [shared, *(Plain() for _ in range(18)), shared]
    program(torch.ones(1), same)
    assert program.stats().graphs == 2


class Answering(Plain):
    """Says of `__dict__` what it wants to, as configurations of transformers do of attributes."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            return {"n": 100}
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("related_first", [False, True])
@pytest.mark.parametrize("kinds", [(Answering, Plain), (Plain, Answering), (Answering, Answering)])
def test_classes_that_answer_for_their_dictionaries(
    kinds: tuple[type[Any], type[Any]], related_first: bool
) -> None:
    def function(x: Tensor, one: Any, other: Any) -> Tensor:
        one.n = one.n + 1
        return x * other.n

    def made(related: bool) -> tuple[Any, Any]:
        one, other = (object.__new__(kind) for kind in kinds)
        object.__setattr__(one, "n", 3)
        if related:
            own: Any = vars(Plain)["__dict__"]
            own.__set__(other, own.__get__(one))
        else:
            object.__setattr__(other, "n", 5)
        return one, other

    compiled = anyshape.compile(function)
    for related in (related_first, not related_first, related_first):
        for call in (function, compiled):
            one, other = made(related)
            assert call(torch.ones(1), one, other).item() == (4 if related else 5)
            assert object.__getattribute__(one, "n") == 4
    assert not compiled.stats().eager_calls, "it is compiled, and not left"


p = 1


@pytest.mark.parametrize("first", ["the globals", "another", "its own"])
def test_a_dictionary_that_was_the_globals(first: str) -> None:
    """What is read at two places is one thing there at other calls, too."""

    def function(x: Tensor, one: Any, given: dict[str, Any]) -> tuple[Tensor, Any]:
        vars(one)["p"] = 7
        return x * 2, given["p"] + p

    def given_as(name: str, one: Any) -> dict[str, Any]:
        kinds = {"the globals": globals(), "another": {"p": 5}, "its own": one.__dict__}
        return kinds[name]

    compiled = anyshape.compile(function, dynamic=True)
    for name in (first, "its own", "another", "the globals", "its own", first):
        found: list[Any] = []
        for call in (function, compiled):
            one = Plain(p=30)
            found.append((call(torch.ones(2), one, given_as(name, one))[1], one.__dict__["p"]))
        assert found[0] == found[1], name
