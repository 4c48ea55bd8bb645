"""A stamp never says more than the full check: after every kind of change the verdict is that of
the interpreter, and `run` gets the objects of now."""

from __future__ import annotations

import gc
import inspect
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape.guards import emit
from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.explain import first_failure
from anyshape.guards.fast_path import version_check
from anyshape.guards.fast_path.memory_watch import SUPPORTED
from anyshape.guards.fast_path.tensor_impl_layout import tensor_memory
from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.path import Path, constant
from anyshape.symbolic import as_symbol, lt, symbol
from tests.guards.cases import Other, Plain, RanUserCode, with_odd_dictionary
from tests.guards.recorded import recorded
from tests.guards.test_random_states import LEAVES, STATES
from tests.guards.verdicts import X, guard

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="dictionaries cannot be watched here")

MEMORY = tensor_memory(torch.zeros, torch.nn.Parameter)


@pytest.fixture(autouse=True, params=[0, 10**9], ids=["generated", "interpreted"])
def _stamp_at_once(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Stamps are taken without delay, and the full check is of one kind from the start."""
    monkeypatch.setattr(version_check, "_SHARE", 1e9)
    monkeypatch.setattr(emit, "_FEW_CALLS", request.param)


def function(x: Any, y: Any = None) -> None: ...


class Stamped:
    """A dispatcher with one entry, and how often its full check ran."""

    def __init__(
        self,
        guards: list[Guard],
        inputs: list[Path],
        memory: Any = MEMORY,
        root: Any = None,
        writes: list[Path] | None = None,
    ) -> None:
        self.entry = EntryPlan(guards, (), inputs, lambda *values: values, writes=writes or [])
        signature = inspect.signature(function)
        self.dispatcher = build_dispatcher(signature, [self.entry], lambda a: None, memory=memory)
        [self.part] = self.entry.built.values()
        assert self.part is not None, "nothing is stamped"
        self.stamps: Any = self.part.stamps  # pyright: ignore[reportAttributeAccessIssue] the private part

    def agree(self, x: object) -> bool:
        """The verdict of both, with the right objects for `run`."""
        found: Any = self.dispatcher(x)
        failure = first_failure(self.entry, {"x": x})
        assert (found is None) is (failure is not None), failure
        if found is not None:
            expected = [_at(path, x) for path in self.entry.inputs]
            assert all(a is b for a, b in zip(found, expected, strict=True))
        return found is not None

    def full_checks(self, x: object) -> int:
        """How many full checks one call makes."""
        calls: list[object] = []
        original = self.stamps.take
        # The dispatcher holds `take` itself: count through what it calls.
        full = self.stamps.full_check
        self.stamps.full_check = lambda root: (calls.append(root), full(root))[1]
        try:
            assert original == self.stamps.take
            self.agree(x)
        finally:
            self.stamps.full_check = full
        return len(calls)


def _at(path: Any, x: object) -> object:
    entry = EntryPlan((), (), [path], lambda value: value)
    return build_dispatcher(inspect.signature(function), [entry], lambda a: "miss")(x)


# -- modules ------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.scale = 0.5
        self.sizes = [1, 2, 3]
        self.options: dict[Any, Any] = {"mode": "fast"}
        self.calls = 0


class OtherBlock(Block):
    pass


def model() -> Any:
    made = torch.nn.Module()
    made.blocks = torch.nn.ModuleList(Block() for _ in range(2))
    return made


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    order = tuple(range(tensor.dim()))
    return TensorSpec(
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tuple(tensor.shape),
        order=order,
        layout=tensor.layout,
    )


def module_guards(path: Path, module: torch.nn.Module) -> Iterator[Guard]:
    yield guard(Kind.TYPE, path, type(module))
    yield guard(Kind.NO_INSTANCE_ATTRIBUTE, path, "forward")
    yield guard(Kind.EQUALS, path.instance("training"), module.training)
    hooks = path.instance("_forward_hooks")
    yield guard(Kind.TYPE, hooks, OrderedDict)
    yield guard(Kind.LENGTH, hooks, 0)
    for kind in ("_parameters", "_buffers", "_modules"):
        yield guard(Kind.TYPE, path.instance(kind), dict)
    for name, parameter in module.named_parameters(recurse=False):
        yield guard(Kind.TENSOR, path.instance("_parameters").item(name), spec_of(parameter))
    for name, buffer in module.named_buffers(recurse=False):
        yield guard(Kind.TENSOR, path.instance("_buffers").item(name), spec_of(buffer))
    yield guard(Kind.KEYS, path.instance("_modules"), tuple(module._modules))
    for name, child in module.named_children():
        yield from module_guards(path.instance("_modules").item(name), child)
    if isinstance(module, Block):
        yield guard(Kind.EQUALS, path.instance("scale"), 0.5)
        sizes, options = path.instance("sizes"), path.instance("options")
        yield guard(Kind.TYPE, sizes, list)
        yield guard(Kind.LENGTH, sizes, 3)
        yield guard(Kind.EQUALS, sizes.item(1), 2)
        yield guard(Kind.TYPE, options, dict)
        yield guard(Kind.CONTAINS, options, ("slow", False))
        yield guard(Kind.EQUALS, options.item("mode"), "fast")
        # As `self.__dict__` reads it.
        own = path.attribute("__dict__")
        yield guard(Kind.CONTAINS, own, ("hidden", False))
        yield guard(Kind.CONTAINS, own, ("scale", True))
        yield guard(Kind.EQUALS, own.item("scale"), 0.5)
        yield guard(Kind.TYPE, own.item("options"), dict)
        yield guard(Kind.CONTAINS, own.item("options"), ("never", False))


def stamped_model(memory: Any = MEMORY, writes: list[Path] | None = None) -> tuple[Any, Stamped]:
    made = model()
    guards = [*module_guards(X, made)]
    inputs = [g.path for g in guards if g.kind is Kind.TENSOR and g.path is not None]
    stamped = Stamped(guards, inputs, memory, writes=writes)
    assert stamped.agree(made)
    assert stamped.stamps.by_root, "no stamp was taken"
    return made, stamped


def _set(name: str, value: Callable[[], Any]) -> Callable[[Any], None]:
    return lambda block: setattr(block, name, value())


def _data(value: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    def change(block: Any) -> None:
        block.linear.weight.data = value(block.linear.weight.data)

    return change


def _swap(block: Any) -> None:
    torch.utils.swap_tensors(block.linear.weight, torch.nn.Parameter(torch.zeros(5, 2)))


def _restore(block: Any) -> None:
    """Away and back again: nothing that a guard sees is different."""
    kept = block.scale
    block.scale = 7
    block.scale = kept


#: name -> (the change, whether the guards still hold after it)
CHANGES: dict[str, tuple[Callable[[Any], object], bool]] = {
    "nothing": (lambda block: None, True),
    "a value": (_set("scale", lambda: 0.25), False),
    "an equal value": (_set("scale", lambda: float("0.5")), True),
    "a type": (_set("scale", lambda: 1), False),
    "away and back": (_restore, True),
    "an attribute nobody read": (_set("other", lambda: 1), True),
    "an attribute that hides a method": (_set("forward", lambda: len), False),
    "a deleted attribute": (lambda block: delattr(block, "scale"), False),
    "eval": (lambda block: block.eval(), False),
    "eval and train": (lambda block: block.eval().train(), True),
    "a hook": (lambda block: block.register_forward_hook(print), False),
    "a hook come and gone": (lambda block: block.register_forward_hook(print).remove(), True),
    "a class": (lambda block: setattr(block, "__class__", OtherBlock), False),
    "a dictionary of the same": (lambda b: setattr(b, "__dict__", dict(b.__dict__)), True),
    "a dictionary of others": (
        lambda b: setattr(b, "__dict__", {**b.__dict__, "scale": 3}),
        False,
    ),
    "a dictionary of another type": (
        lambda b: setattr(b, "__dict__", OrderedDict(b.__dict__)),
        False,
    ),
    "a name that `__dict__` had not": (_set("hidden", lambda: 1), False),
    "another child": (_set("linear", lambda: torch.nn.Linear(2, 3)), True),
    "a wider child": (_set("linear", lambda: torch.nn.Linear(2, 4)), False),
    "one child more": (_set("more", lambda: torch.nn.Linear(2, 3)), False),
    "a child of another class": (_set("linear", lambda: torch.nn.Bilinear(2, 2, 3)), False),
    "another weight": (
        lambda b: setattr(b.linear, "weight", torch.nn.Parameter(torch.zeros(3, 2))),
        True,
    ),
    "a longer weight": (
        lambda b: setattr(b.linear, "weight", torch.nn.Parameter(torch.zeros(4, 2))),
        False,
    ),
    "no weight": (lambda b: setattr(b.linear, "weight", None), False),
    "data of the same kind": (_data(lambda weight: weight * 2), True),
    "data of another dtype": (_data(lambda weight: weight.double()), False),
    "data of other sizes": (_data(lambda weight: torch.zeros(4, 2)), False),
    "data of another layout": (_data(lambda weight: torch.zeros(2, 3).t()), False),
    "values in place": (lambda b: b.linear.weight.data.add_(1), True),
    "frozen": (lambda b: b.linear.weight.requires_grad_(False), False),
    "a module to another dtype": (lambda block: block.double(), False),
    "swapped": (_swap, False),
    "a buffer in place": (lambda b: b.norm.num_batches_tracked.add_(1), True),
    "a buffer with grad": (lambda b: b.norm.running_mean.requires_grad_(), False),
    "a buffer resized": (lambda b: b.norm.running_mean.resize_(7), False),
    "an item": (lambda block: block.sizes.__setitem__(1, 9), False),
    "an item nobody read": (lambda block: block.sizes.__setitem__(0, 9), True),
    "one item more": (lambda block: block.sizes.append(4), False),
    "many items more, and less": (
        lambda b: (b.sizes.extend(range(999)), b.sizes.__delitem__(slice(3, None))),
        True,
    ),
    "a list of the same": (_set("sizes", lambda: [1, 2, 3]), True),
    "a key": (lambda block: block.options.update(slow=1), False),
    "a key nobody asked for": (lambda block: block.options.update(other=1), True),
    "a value at a key": (lambda block: block.options.update(mode="slow"), False),
    "an emptied dictionary": (lambda block: block.options.clear(), False),
    "grad": (lambda b: setattr(b.linear.weight, "grad", torch.zeros(3, 2)), True),
    "backward": (lambda b: b.linear(torch.zeros(1, 2)).sum().backward(), True),
}


def test_what_is_read_of_a_dictionary_itself_is_stamped():
    _, stamped = stamped_model()
    text = stamped.dispatcher.anyshape_source
    assert "hidden" not in text
    assert "never" not in text


def test_a_class_that_answers_for_the_dictionary():
    class Answering:
        def __init__(self) -> None:
            self.scale = 0.5

        def __getattribute__(self, name: str) -> Any:
            return (
                {"scale": answers[0]} if name == "__dict__" else object.__getattribute__(self, name)
            )

    answers = [0.5]
    one = Answering()
    guards = [guard(Kind.TYPE, X, Answering)]
    guards += [guard(Kind.NO_INSTANCE_ATTRIBUTE, X, name) for name in "abcdefgh"]
    guards.append(guard(Kind.EQUALS, X.attribute("__dict__").item("scale"), 0.5))
    stamped = Stamped(guards, [])
    assert stamped.agree(one)
    assert stamped.agree(one)
    answers[0] = 2.0
    assert not stamped.agree(one)


@pytest.mark.parametrize("memory", [None, MEMORY], ids=["dictionaries", "tensors too"])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name: str, memory: Any):
    change, still = CHANGES[name]
    made, stamped = stamped_model(memory)
    block = made.blocks[1]
    for _ in range(3):
        assert stamped.agree(made)
    change(block)
    for _ in range(3):
        assert stamped.agree(made) is still


def test_an_unchanged_model_is_not_looked_at_again():
    made, stamped = stamped_model()
    assert stamped.full_checks(made) == 0
    made.blocks[0].scale = float("0.5")
    assert stamped.full_checks(made) == 1
    assert stamped.full_checks(made) == 0


def test_what_the_entry_writes_itself_is_looked_at_by_its_entries():
    blocks = X.instance("_modules").item("blocks").instance("_modules")
    writes = [blocks.item("0"), blocks.item("0").instance("options"), X.instance("nothing")]
    made, stamped = stamped_model(writes=writes)
    block = made.blocks[0]
    for calls in range(3):
        block.calls = calls + 1000
        block.options["calls"] = calls
        assert stamped.full_checks(made) == 0, "known from the start"
    made.blocks[1].calls = 1
    assert stamped.full_checks(made) == 1, "others are watched as before"
    for change, back in (
        (lambda: setattr(block, "scale", 3), lambda: setattr(block, "scale", 0.5)),
        (lambda: block.options.update(slow=1), lambda: block.options.pop("slow")),
        (lambda: block.options.update(mode="slow"), lambda: block.options.update(mode="fast")),
        (lambda: setattr(block, "forward", len), lambda: delattr(block, "forward")),
    ):
        change()
        assert not stamped.agree(made)
        back()
        assert stamped.agree(made)


def test_a_dictionary_that_changes_all_the_time():
    made, stamped = stamped_model()
    block = made.blocks[0]
    for calls in range(6):
        block.calls = calls + 1000
        assert stamped.agree(made)
    block.calls = -1
    assert stamped.full_checks(made) == 0, "the counter is not what guards are about"
    block.forward = len
    assert not stamped.agree(made)
    del block.forward
    assert stamped.agree(made)
    block.scale = 3
    assert not stamped.agree(made)
    block.scale = 0.5
    assert stamped.agree(made)
    block.linear = torch.nn.Linear(2, 3)
    assert stamped.agree(made)


def test_one_entry_serves_many_instances():
    first, stamped = stamped_model()
    others = [model() for _ in range(3)]
    for each in others:
        assert stamped.agree(each)
    assert len(stamped.stamps.by_root) == 4
    for each in (first, *others):
        assert stamped.full_checks(each) == 0
    others[1].blocks[0].scale = 7
    assert [stamped.agree(each) for each in (first, *others)] == [True, True, False, True]


def test_a_stamp_keeps_no_model_alive():
    made, stamped = stamped_model()
    gone = weakref.ref(made), weakref.ref(made.blocks[0].linear.weight)
    del made
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert not stamped.stamps.by_root


def test_there_is_an_end_to_stamps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(version_check, "_MOST", 3)
    _, stamped = stamped_model()
    kept = [model() for _ in range(10)]
    assert all(map(stamped.agree, kept))
    assert 1 <= len(stamped.stamps.by_root) <= 3


def test_stamps_are_taken_over_by_the_next_dispatcher():
    made, stamped = stamped_model()
    entry = stamped.entry
    again = build_dispatcher(
        inspect.signature(function),
        [replace(entry, guards=[guard(Kind.EQUALS, X, 3)], built={}), entry],
        lambda arguments: None,
        memory=MEMORY,
    )
    stamped.stamps.full_check = None  # would raise
    stamped.part._full_check = None  # pyright: ignore[reportAttributeAccessIssue] the private part
    assert again(made) is not None


def test_time_is_shared(monkeypatch: pytest.MonkeyPatch):
    """A state that changes with every call is not stamped with every call."""
    monkeypatch.setattr(version_check, "_SHARE", 1e-9)
    made, stamped = stamped_model()
    made.blocks[0].scale = float("0.5")
    assert stamped.full_checks(made) == 0  # the stamp was not taken anew
    assert stamped.agree(made)


def test_another_thread_changes_the_state_meanwhile():
    """Between the walk and the full check: no stamp is kept."""
    made, stamped = stamped_model()
    stamps = stamped.stamps
    stamps.by_root.clear()
    full = stamps.full_check

    def check(root: Any) -> object:
        answer = full(root)
        made.blocks[0].scale = 3
        return answer

    stamps.full_check = check
    stamps.take(made)
    assert not stamps.by_root
    stamps.full_check = full
    assert not stamped.agree(made)


# -- other roots and steps ----------------------------------------------------------------------


def test_a_constant_root_and_a_cell():
    holder: Any = Plain(cell=types.CellType(3), names={"a": 1, "b": 2}, pair=(1, [2]))
    root = constant(holder, "model")
    cell, names, pair = (root.instance(name) for name in ("cell", "names", "pair"))
    guards = [
        guard(Kind.TYPE, root, Plain),
        guard(Kind.TYPE, cell, types.CellType),
        guard(Kind.EQUALS, cell.cell(), 3),
        guard(Kind.TYPE, names, dict),
        guard(Kind.KEYS, names, ("a", "b")),
        guard(Kind.TRUTH, names, True),
        guard(Kind.TYPE, pair, tuple),
        guard(Kind.TYPE, pair.item(1), list),
        guard(Kind.EQUALS, pair.item(1).item(-1), 2),
    ]
    stamped = Stamped(guards, [])
    assert stamped.agree(None)
    assert stamped.stamps.by_root
    cell_, names_ = holder.cell, holder.names
    for change, undo in [
        (
            lambda: setattr(cell_, "cell_contents", 4),
            lambda: setattr(cell_, "cell_contents", 3),
        ),
        (lambda: names_.pop("a"), lambda: (names_.clear(), names_.update(a=1, b=2))),
        (lambda: holder.pair[1].append(9), lambda: holder.pair[1].pop()),
        (lambda: holder.pair[1].clear(), lambda: holder.pair[1].append(2)),
        (lambda: setattr(holder, "pair", (1, [3])), lambda: setattr(holder, "pair", (1, [2]))),
    ]:
        change()
        assert not stamped.agree(None)
        undo()
        assert stamped.agree(None)
        assert stamped.full_checks(None) == 0


def test_globals_are_looked_up():
    """The main loop of a script assigns them; a stamp on them would hold for one call."""
    names: dict[str, Any] = {"scale": 3, "step": 0}
    made = model()
    scale = constant(names, "G").item("scale")
    stamped = Stamped([*module_guards(X, made), guard(Kind.EQUALS, scale, 3)], [])
    for step in range(5):
        names["step"] = step
        assert stamped.agree(made)
    assert stamped.full_checks(made) == 0
    names["scale"] = 4
    assert not stamped.agree(made)


# -- classes, functions and modules --------------------------------------------------------------


class Classes:
    """Classes of its own for each test, with a function that they hold."""

    def __init__(self) -> None:
        def forward(self: Any, x: Any = 1, *, y: Any = 2) -> Any:
            return x + y

        self.base: Any = type("Base", (), {"forward": forward, "scale": 0.5})
        self.other: Any = type("OtherBase", (), {"forward": forward, "scale": 0.5})
        self.kind: Any = type("Kind", (self.base,), {"options": {"mode": "fast"}})
        self.forward: Any = forward

    def guards(self) -> Iterator[Guard]:
        kind, base = constant(self.kind, "Kind"), constant(self.base, "Base")
        function = constant(self.forward, "forward")
        options = kind.instance("options")
        yield guard(Kind.IDENTITY, kind.attribute("__mro__"), self.kind.__mro__)
        yield guard(Kind.NO_INSTANCE_ATTRIBUTE, kind, "forward")
        yield guard(Kind.NO_INSTANCE_ATTRIBUTE, kind, "scale")
        yield guard(Kind.NO_INSTANCE_ATTRIBUTE, kind, "__call__")
        yield guard(Kind.NO_INSTANCE_ATTRIBUTE, base, "__call__")
        yield guard(Kind.IDENTITY, base.instance("forward"), self.forward)
        yield guard(Kind.EQUALS, base.instance("scale"), 0.5)
        yield guard(Kind.TYPE, options, dict)
        yield guard(Kind.CONTAINS, options, ("slow", False))
        yield guard(Kind.EQUALS, options.item("mode"), "fast")
        yield guard(Kind.LENGTH, options, 1)
        yield guard(Kind.IDENTITY, function.attribute("__code__"), self.forward.__code__)
        yield guard(Kind.IDENTITY, function.attribute("__defaults__"), self.forward.__defaults__)
        named = function.attribute("__kwdefaults__")
        yield guard(Kind.TYPE, named, dict)
        yield guard(Kind.EQUALS, named.item("y"), 2)


def _set_class(owner: str, name: str, value: Any) -> Callable[[Classes], None]:
    return lambda made: setattr(getattr(made, owner), name, value)


def _rebase(made: Classes) -> None:
    made.kind.__bases__ = (made.other,)


def _rebase_and_back(made: Classes) -> None:
    made.kind.__bases__ = (made.other,)
    made.kind.__bases__ = (made.base,)


def _behind_the_view(made: Classes) -> None:
    [names] = gc.get_referents(made.base.__dict__)
    names["scale"] = 0.25


#: name -> (the change, whether the guards still hold after it)
CLASS_CHANGES: dict[str, tuple[Callable[[Classes], object], bool]] = {
    "a value of a base": (_set_class("base", "scale", 0.25), False),
    "an equal value": (_set_class("base", "scale", float("0.5")), True),
    "a value behind the view": (_behind_the_view, False),
    "a method": (_set_class("base", "forward", len), False),
    "a method that hides": (_set_class("kind", "forward", len), False),
    "a method that nobody asked for": (_set_class("kind", "backward", len), True),
    "a method of Python's own": (_set_class("base", "__call__", len), False),
    "a deleted value": (lambda made: delattr(made.base, "scale"), False),
    "other bases": (_rebase, False),
    "a key": (lambda made: made.kind.options.update(slow=1), False),
    "a value at a key": (lambda made: made.kind.options.update(mode="slow"), False),
    "another dictionary": (_set_class("kind", "options", {"mode": "slow"}), False),
    "an equal dictionary": (lambda made: setattr(made.kind, "options", {"mode": "fast"}), True),
    "code": (lambda made: setattr(made.forward, "__code__", (lambda: 1).__code__), False),
    "defaults": (lambda made: setattr(made.forward, "__defaults__", (3,)), False),
    "no defaults": (lambda made: setattr(made.forward, "__defaults__", None), False),
    "a named default": (lambda made: made.forward.__kwdefaults__.update(y=3), False),
    "other named defaults": (lambda made: setattr(made.forward, "__kwdefaults__", {"y": 3}), False),
    "equal named defaults": (lambda made: setattr(made.forward, "__kwdefaults__", {"y": 2}), True),
    "no named defaults": (lambda made: setattr(made.forward, "__kwdefaults__", None), False),
    "an attribute of the function": (lambda made: setattr(made.forward, "a", 3), True),
}


@pytest.mark.parametrize("name", CLASS_CHANGES)
def test_changes_of_classes_and_functions_are_seen(name: str):
    change, still = CLASS_CHANGES[name]
    made = Classes()
    stamped = Stamped([*made.guards()], [])
    for _ in range(3):
        assert stamped.agree(None)
    assert stamped.full_checks(None) == 0
    change(made)
    for _ in range(3):
        assert stamped.agree(None) is still


def test_bases_that_come_back():
    """The order of the classes is another object then, as the guard has it."""
    made = Classes()
    stamped = Stamped([*made.guards()], [])
    assert stamped.agree(None)
    _rebase_and_back(made)
    assert not stamped.agree(None)


def test_what_classes_hold_is_stamped():
    made = Classes()
    stamped = Stamped([*made.guards()], [])
    inline = [each.text or each.kind for each in stamped.part.rest]  # pyright: ignore[reportAttributeAccessIssue] the private part
    assert inline == [Kind.LENGTH]


def test_a_class_that_changes_all_the_time():
    made = Classes()
    stamped = Stamped([*made.guards()], [])
    for step in range(6):
        made.base.step = step
        assert stamped.agree(None)
    made.base.step = -1
    assert stamped.full_checks(None) == 0
    made.base.scale = 3
    assert not stamped.agree(None)


def test_a_metaclass_that_answers_for_the_order():
    class Meta(type):
        @property
        def __mro__(cls) -> Any:
            return order[0]

    order: list[Any] = [(1, 2)]
    kind = Meta("Kind", (), {})
    path = constant(kind, "Kind").attribute("__mro__")
    made = model()
    stamped = Stamped([*module_guards(X, made), guard(Kind.IDENTITY, path, order[0])], [])
    assert stamped.agree(made)
    assert stamped.agree(made)
    order[0] = (3,)
    assert not stamped.agree(made)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("anyshape_test_of_globals")
    made.__dict__.update(scale=3, step=0, registry={"a": 1}, state=Plain(value=1))
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def global_guards(names: dict[str, Any]) -> list[Guard]:
    path = constant(names, "G")
    registry, state = path.item("registry"), path.item("state")
    return [
        guard(Kind.EQUALS, path.item("scale"), 3),
        guard(Kind.CONTAINS, path, ("len", False)),
        guard(Kind.TYPE, registry, dict),
        guard(Kind.CONTAINS, registry, ("b", False)),
        guard(Kind.TYPE, state, Plain),
        guard(Kind.EQUALS, state.instance("value"), 1),
        guard(Kind.NO_INSTANCE_ATTRIBUTE, state, "other"),
    ]


def test_globals_of_modules_are_stamped(module: Any):
    made = model()
    stamped = Stamped([*module_guards(X, made), *global_guards(module.__dict__)], [])
    rest = [each.kind for each in stamped.part.rest]  # pyright: ignore[reportAttributeAccessIssue] the private part
    on_objects = [Kind.TYPE, Kind.CONTAINS, Kind.TYPE, Kind.EQUALS, Kind.NO_INSTANCE_ATTRIBUTE]
    assert rest == on_objects
    assert stamped.agree(made)
    for change, undo in [
        (lambda: setattr(module, "scale", 4), lambda: setattr(module, "scale", 3)),
        (lambda: setattr(module, "len", 4), lambda: delattr(module, "len")),
        (lambda: module.registry.update(b=1), lambda: module.registry.pop("b")),
        (lambda: setattr(module.state, "value", 2), lambda: setattr(module.state, "value", 1)),
        (lambda: setattr(module.state, "other", 2), lambda: delattr(module.state, "other")),
    ]:
        change()
        assert not stamped.agree(made)
        undo()
        assert stamped.agree(made)
        assert stamped.full_checks(made) == 0


def test_what_modules_share_may_change_all_the_time(module: Any):
    """What programs keep there is looked at, so that the stamp holds from the first call on."""
    made = model()
    stamped = Stamped([*module_guards(X, made), *global_guards(module.__dict__)], [])
    assert stamped.agree(made)
    for step in range(3):
        module.state.step = module.registry["step"] = step
        assert stamped.full_checks(made) == 0


def test_a_stamp_keeps_no_global_alive(module: Any):
    made = model()
    stamped = Stamped([*module_guards(X, made), *global_guards(module.__dict__)], [])
    assert stamped.agree(made)
    assert stamped.stamps.by_root
    gone = weakref.ref(module.state)
    del module.state
    assert gone() is None


def test_a_module_that_counts(module: Any):
    made = model()
    stamped = Stamped([*module_guards(X, made), *global_guards(module.__dict__)], [])
    for step in range(6):
        module.step = step
        assert stamped.agree(made)
    module.step = -1
    assert stamped.full_checks(made) == 0
    module.len = 3
    assert not stamped.agree(made)
    del module.len
    module.scale = 4
    assert not stamped.agree(made)


def test_code_is_generated_when_it_is_worth_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(emit, "_FEW_CALLS", 3)
    made, stamped = stamped_model()
    check = stamped.stamps.full_check
    kinds = [type(check._function).__name__ for _ in range(4) if check(made) is not None]
    assert kinds[0] == "_Interpreter"
    assert kinds[-1] == "function"
    made.blocks[0].scale = 3
    assert check(made) is None


def test_a_live_step_below_a_stamp():
    """An attribute is read anew, from an object that the stamp vouches for."""
    holder: Any = Plain(**{name: Plain(value=3) for name in "abcdefgh"})
    inner = [X.instance(name) for name in "abcdefgh"]
    guards = [guard(Kind.TYPE, X, Plain), *(guard(Kind.TYPE, path, Plain) for path in inner)]
    guards += [guard(Kind.EQUALS, path.attribute("value"), 3) for path in inner]
    stamped = Stamped(guards, [inner[0].attribute("value"), inner[1]])
    assert stamped.agree(holder)
    assert stamped.full_checks(holder) == 0
    holder.c.value = 4
    assert not stamped.agree(holder)
    holder.c = Plain(value=3)
    assert stamped.agree(holder)
    holder.c = with_odd_dictionary(value=3)
    try:
        stamped.agree(holder)
    except RanUserCode:
        pytest.fail("user code ran")


NAMES = st.sampled_from("abcdefghij")
CHANGE = st.one_of(
    st.tuples(st.just("set"), NAMES, STATES),
    st.tuples(st.just("leaf"), NAMES, LEAVES),
    st.tuples(st.just("same"), NAMES, st.none()),
    st.tuples(st.just("delete"), NAMES, st.none()),
    st.tuples(st.just("class"), st.sampled_from([Plain, Other]), st.none()),
    st.tuples(st.just("inside"), NAMES, LEAVES),
)


def _apply(change: tuple[str, Any, Any], root: Any, original: dict[str, Any]) -> None:
    what, name, value = change
    if what in ("set", "leaf"):
        setattr(root, name, value)
    elif what == "same":
        setattr(root, name, original[name])
    elif what == "delete":
        root.__dict__.pop(name, None)
    elif what == "class":
        root.__class__ = name
    else:
        inside = root.__dict__.get(name)
        if isinstance(inside, list):
            inside.append(value)
        elif isinstance(inside, dict):
            inside["a"] = value
        elif isinstance(inside, Plain):
            inside.__dict__["a"] = value


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys("abcdefghij", STATES)), st.lists(CHANGE, max_size=8))
def test_random_changes(state: dict[str, Any], changes: list[tuple[str, Any, Any]]):
    root = Plain(**state)
    guards = [guard(Kind.TYPE, X, Plain)]
    for name in state:
        guards += recorded(X.instance(name), state[name])
    entry_inputs = [X.instance(name) for name in "abc"]
    stamped = Stamped(guards, entry_inputs)
    assert stamped.agree(root)
    for change in changes:
        _apply(change, root, state)
        stamped.agree(root)
        stamped.agree(root)


#: each guard alone, so that no other watches the same: guards on `x.a`, its value, the change
ALONE: list[tuple[list[Guard], Callable[[], Any], Callable[[Any], object]]] = [
    (
        [guard(Kind.TYPE, X.instance("a"), Plain)],
        Plain,
        lambda a: setattr(a, "__class__", Other),
    ),
    (
        [guard(Kind.TYPE, X.instance("a"), list), guard(Kind.LENGTH, X.instance("a"), 2)],
        lambda: [1, 2],
        lambda a: a.append(3),
    ),
    (
        [guard(Kind.TYPE, X.instance("a"), list), guard(Kind.TRUTH, X.instance("a"), True)],
        lambda: [1],
        lambda a: a.clear(),
    ),
    (
        [
            guard(Kind.TYPE, X.instance("a"), dict),
            guard(Kind.KEYS, X.instance("a"), ("k",)),
        ],
        lambda: {"k": 1},
        lambda a: (a.clear(), a.update(z=1)),
    ),
    (
        [
            guard(Kind.TYPE, X.instance("a"), dict),
            guard(Kind.CONTAINS, X.instance("a"), ("k", True)),
        ],
        lambda: {"k": 1},
        lambda a: a.clear(),
    ),
    (
        [guard(Kind.TYPE, X.instance("a"), dict), guard(Kind.KEYS, X.instance("a"), ("k", "l"))],
        lambda: {"k": 1, "l": 2},
        lambda a: a.__setitem__("k", a.pop("k")),
    ),
    (
        [
            guard(Kind.TYPE, X.instance("a"), OrderedDict),
            guard(Kind.KEYS, X.instance("a"), ("k", "l")),
        ],
        lambda: OrderedDict(k=1, l=2),
        lambda a: a.move_to_end("k"),
    ),
    (
        [
            guard(Kind.TYPE, X.instance("a"), Plain),
            guard(Kind.NO_INSTANCE_ATTRIBUTE, X.instance("a"), "n"),
        ],
        Plain,
        lambda a: setattr(a, "n", 1),
    ),
    (
        [guard(Kind.MEMBERS, X.instance("a"), frozenset((1, 2)))],
        lambda: {1, 2},
        lambda a: (a.remove(1), a.add(3)),
    ),
    (
        [guard(Kind.PREDICATE, X.instance("a"), lambda a: a.n == 1)],
        lambda: Plain(n=1),
        lambda a: setattr(a, "n", 2),
    ),
    (
        [guard(Kind.NO_ATTRIBUTE, X.instance("a"), "n")],
        Plain,
        lambda a: setattr(a, "n", 2),
    ),
    (
        [guard(Kind.SAME_OBJECT, X.instance("a"), X.instance("b").attribute("n"))],
        lambda: 1,
        lambda a: None,
    ),
]


@pytest.mark.parametrize("number", range(len(ALONE)))
def test_each_guard_alone(number: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(emit, "_WORTH_A_STAMP", 1)
    guards, make, change = ALONE[number]
    root: Any = Plain(a=make(), b=Plain(n=1))
    stamped = Stamped([guard(Kind.TYPE, X, Plain), *guards], [X.instance("a")])
    assert stamped.agree(root)
    assert stamped.stamps.by_root
    change(root.a)
    root.b.n = 2
    assert not stamped.agree(root)


def test_a_symbol_below_a_stamp():
    """Its value is read when the stamp was found to hold, whatever lies between."""
    n, m = symbol("n"), symbol("m")
    inner = X.instance("a")
    entry = EntryPlan(
        [
            *(guard(Kind.TYPE, path, Plain) for path in (X, inner)),
            *(guard(Kind.EQUALS, X.instance(name), 1) for name in "bcdefgh"),
            guard(Kind.SIZES, None, lt(n + m, 10)),
        ],
        [
            SymbolSource(as_symbol(n), inner.attribute("n"), None),
            SymbolSource(as_symbol(m), X.instance("m"), None),
        ],
        [n * 2, m],
        lambda *values: values,
    )
    dispatcher = build_dispatcher(inspect.signature(function), [entry], lambda arguments: "miss")
    root: Any = Plain(a=Plain(n=3), m=2, **dict.fromkeys("bcdefgh", 1))
    for _ in range(2):
        assert dispatcher(root) == (6, 2)
    root.a.n = 7
    assert dispatcher(root) == (14, 2)
    root.m = 3
    assert dispatcher(root) == "miss"
    root.m = True
    assert dispatcher(root) == "miss"
