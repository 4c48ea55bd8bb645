"""Words of memory, watched."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import CellType
from typing import Any

import pytest
import torch

from anyshape.guards.fast_path import memory_watch, tensor_impl_layout
from anyshape.guards.fast_path.memory_watch import Unwatchable, Watch
from tests.guards.cases import Mapping, Plain, Slotted

pytestmark = pytest.mark.skipif(
    not memory_watch.SUPPORTED, reason="dictionaries cannot be watched here"
)


def test_a_watch_holds_until_a_word_changes():
    dictionaries = [{i: i} for i in range(500)]
    watch = Watch([memory_watch.address_of_version(d) for d in dictionaries])
    assert watch.holds()
    dictionaries[499][0] = 1
    assert not watch.holds()
    at = memory_watch.address_of_version(dictionaries[499])
    assert watch.changed({at}) == [at]
    assert watch.changed(()) == []


def test_nothing_to_watch_holds():
    assert Watch(()).holds()


CHANGES = [
    lambda d: d.__setitem__("a", 9),
    lambda d: d.__setitem__("new", 9),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.clear(),
    lambda d: d.update(a=9),
    lambda d: d.setdefault("z", 9),
    lambda d: d.__ior__({"a": 9}),
    lambda d: d.__delitem__("a"),
    lambda d: d.__init__(a=9),
]


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda **k: defaultdict(int, **k)])
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_every_change_of_a_dictionary_is_seen(kind: Any, number: int):
    made = kind(a=1, b=2)
    watch = Watch([memory_watch.address_of_version(made)])
    assert (made.get("a"), made["b"], len(made), "z" in made) == (1, 2, 2, False)
    assert watch.holds()
    CHANGES[number](made)
    assert not watch.holds()


def test_an_attribute_stored_many_times_is_seen_each_time():
    """Stores become quicker paths in the interpreter as they are repeated."""
    thing = Plain(a=0)
    names = memory_watch.dictionary_of_instance(thing)
    for value in range(1000, 1200):
        watch = Watch([memory_watch.address_of_version(names)])
        thing.a = value  # pyright: ignore[reportAttributeAccessIssue] set above
        assert not watch.holds()


def test_an_instance_dictionary_that_is_replaced():
    thing = Plain(a=1)
    watch = Watch([memory_watch.address_of_dictionary(thing, thing.__dict__)])
    assert watch.holds()
    kept = thing.__dict__
    thing.__dict__ = dict(kept)
    assert not watch.holds()


@pytest.mark.parametrize("thing", [Plain(a=1), torch.nn.Linear(1, 1), Mapping(), ValueError()])
def test_objects_with_a_dictionary(thing: object):
    address = memory_watch.address_of_dictionary(thing, thing.__dict__)
    assert memory_watch.word_at(address) == id(thing.__dict__)


def test_an_object_without_one():
    with pytest.raises(Unwatchable):
        memory_watch.address_of_dictionary(Slotted(), {})
    with pytest.raises(Unwatchable):
        memory_watch.address_of_dictionary(Plain(a=1), {})


def test_a_class_that_is_assigned():
    thing = Plain()
    watch = Watch([memory_watch.address_of_type(thing)])
    thing.__class__ = type("Another", (Plain,), {})
    assert not watch.holds()


@pytest.mark.parametrize("index", [0, 1, -1])
def test_items_of_a_list(index: int):
    items: list[object] = [object(), object()]
    watch = Watch(memory_watch.addresses_of_item(items, index))
    assert watch.holds()
    for change in (items.reverse, lambda: items.extend(range(1000)), items.clear):
        change()
        assert not watch.holds()
    with pytest.raises((Unwatchable, IndexError)):
        memory_watch.addresses_of_item(items, index)


def test_a_cell():
    cell = CellType(1)
    watch = Watch([memory_watch.address_of_cell_contents(cell, 1)])
    cell.cell_contents = 2
    assert not watch.holds()
    with pytest.raises(Unwatchable):
        memory_watch.address_of_cell_contents(cell, 1)


# -- tensors ------------------------------------------------------------------------------------

found = tensor_impl_layout.tensor_memory(torch.zeros, torch.nn.Parameter)
assert found is not None or not memory_watch.SUPPORTED
reader: Any = found

zeros: Any = torch.zeros
KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.zeros(2, 3),
    "known to autograd": lambda: torch.zeros(2, 3).requires_grad_().requires_grad_(False),
    "requires grad": lambda: torch.zeros(2, 3).requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(torch.zeros(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", tensor_impl_layout.CHANGES)
def test_changes_of_tensors_are_seen(kind: str, name: str):
    tensor = KINDS[kind]()
    addresses = reader(tensor)
    assert addresses is not None
    watch = Watch(addresses)
    assert (tensor.dim(), tensor.sum().item(), tensor.stride()) == (2, 0, (3, 1))
    assert watch.holds()
    try:
        changes = tensor_impl_layout.CHANGES[name](tensor, zeros)
    except RuntimeError:
        return
    assert watch.holds() is not changes


def test_work_on_the_values_is_not_a_change():
    weight = torch.nn.Parameter(torch.zeros(2, 3))
    watch = Watch(reader(weight) or ())
    (weight * 2).sum().backward()
    with torch.no_grad():
        weight.sub_(1)
    weight.grad = None
    alias = weight.data
    assert alias is not weight
    assert watch.holds()


@pytest.mark.parametrize(
    "tensor", [torch.zeros((1,) * 6), torch.zeros(2).as_subclass(type("T", (torch.Tensor,), {})), 3]
)
def test_what_is_not_watched(tensor: object):
    assert reader(tensor) is None


RIGHT = reader.layout if found is not None else tensor_impl_layout.LAYOUTS[0]
WRONG = [
    *(RIGHT._replace(rank=rank) for rank in (RIGHT.rank - 1, RIGHT.rank + 1, 12)),
    *(RIGHT._replace(requires_grad=word) for word in (0, RIGHT.requires_grad - 1)),
]


@pytest.mark.parametrize("layout", WRONG)
def test_a_library_that_lays_tensors_out_otherwise(layout: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tensor_impl_layout, "LAYOUTS", (layout,))
    assert tensor_impl_layout.tensor_memory(torch.zeros, torch.nn.Parameter) is None


@pytest.mark.parametrize("name", ["AUTOGRAD", "_TENSOR", "MADE_BY"])
def test_other_places(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tensor_impl_layout, name, 0)
    assert tensor_impl_layout.tensor_memory(torch.zeros, torch.nn.Parameter) is None


class _Misplaced(tensor_impl_layout.Layout):
    """One part of the layout lies elsewhere."""


@pytest.mark.parametrize("part", ["sizes", "strides", "dtype_and_device", "keys"])
def test_one_part_elsewhere(part: str, monkeypatch: pytest.MonkeyPatch):
    kind = type("Misplaced", (_Misplaced,), {part: RIGHT.rank + 12})  # the count of elements
    monkeypatch.setattr(tensor_impl_layout, "LAYOUTS", (kind(*RIGHT),))
    assert tensor_impl_layout.tensor_memory(torch.zeros, torch.nn.Parameter) is None


def test_the_right_layout_is_found():
    assert reader.layout in tensor_impl_layout.LAYOUTS


# -- classes and functions ----------------------------------------------------------------------


def test_the_dictionary_of_a_class_is_seen_each_time():
    class Sample:
        a: Any = None

    names = memory_watch.dictionary_of_class(Sample)
    for value in range(1000, 1100):  # often enough for the interpreter to specialise
        watch = Watch([memory_watch.address_of_version(names)])
        Sample.a = value
        assert not watch.holds()
    assert names["a"] == 1099


def test_globals_are_seen_each_time():
    names: dict[str, Any] = {"a": 0}
    exec("def store(value):\n    global a\n    a = value", names)
    for value in range(1000, 1100):
        watch = Watch([memory_watch.address_of_version(names)])
        names["store"](value)
        assert not watch.holds()


def test_fields_are_found():
    fields = {(owner.__name__, name) for owner, name in memory_watch.FIELDS}
    assert fields == {
        ("type", "__mro__"),
        ("function", "__code__"),
        ("function", "__defaults__"),
        ("function", "__kwdefaults__"),
    }


def test_a_field_that_is_not_there():
    def function() -> None: ...

    assert memory_watch.address_of_field(function, "__defaults__", None)
    with pytest.raises(Unwatchable):
        memory_watch.address_of_field(function, "__defaults__", (1,))
    with pytest.raises(Unwatchable):
        memory_watch.address_of_field(function, "__closure__", None)
    with pytest.raises(Unwatchable):
        memory_watch.address_of_field(Plain(), "__mro__", Plain.__mro__)
