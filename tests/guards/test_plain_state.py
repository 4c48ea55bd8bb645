"""Stamps on plain objects, without torch: as much as an interpreter that lacks it can be asked.

After every kind of change the verdict is that of the interpreter of guards, on objects that keep
their values in themselves and on objects whose dictionary somebody has asked for.
"""

from __future__ import annotations

import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.explain import first_failure
from anyshape.guards.fast_path import version_check
from anyshape.guards.fast_path.memory_watch import SUPPORTED
from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Path, constant
from tests.guards.verdicts import X, guard

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="dictionaries cannot be watched here")


@pytest.fixture(autouse=True)
def _stamp_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_check, "_SHARE", 1e9)


def program(x: Any) -> None: ...


class State:
    """What guards look at; classes and functions are made anew, since they are changed as well."""

    def __init__(self) -> None:
        class Base:
            scale = 1

        class Node(Base):
            def __init__(self, n: int) -> None:
                self.n = n
                self.training = True
                self.items = [1, 2, 3]
                self.options: dict[Any, Any] = {"mode": "fast", "depth": 2}
                self.hooks: OrderedDict[str, object] = OrderedDict()

        def helper(a: int, b: int = 1, *, c: int = 2) -> int:
            return a + b + c

        self.base, self.node, self.helper = Base, Node, helper
        self.root: Any = Node(1)
        self.root.child = Node(2)
        self.root.cell = types.CellType(3)

    def guards(self) -> Iterator[Guard]:
        for path, n in ((X, 1), (X.instance("child"), 2)):
            yield from self.of_node(path, n)
        cell = X.instance("cell")
        yield guard(Kind.TYPE, cell, types.CellType)
        yield guard(Kind.EQUALS, cell.cell(), 3)
        base, helper = constant(self.base, "Base"), constant(self.helper, "helper")
        yield guard(Kind.EQUALS, base.instance("scale"), 1)
        yield guard(Kind.NO_INSTANCE_ATTRIBUTE, constant(self.node, "Node"), "scale")
        yield guard(Kind.IDENTITY, helper.attribute("__code__"), self.helper.__code__)
        yield guard(Kind.IDENTITY, helper.attribute("__defaults__"), self.helper.__defaults__)

    def of_node(self, path: Path, n: int) -> Iterator[Guard]:
        yield guard(Kind.TYPE, path, self.node)
        yield guard(Kind.NO_INSTANCE_ATTRIBUTE, path, "forward")
        yield guard(Kind.EQUALS, path.instance("n"), n)
        yield guard(Kind.EQUALS, path.instance("training"), True)
        items, options = path.instance("items"), path.instance("options")
        yield guard(Kind.TYPE, items, list)
        yield guard(Kind.LENGTH, items, 3)
        yield guard(Kind.EQUALS, items.item(1), 2)
        yield guard(Kind.TYPE, options, dict)
        yield guard(Kind.KEYS, options, ("mode", "depth"))
        yield guard(Kind.EQUALS, options.item("mode"), "fast")
        yield guard(Kind.TYPE, path.instance("hooks"), OrderedDict)
        yield guard(Kind.LENGTH, path.instance("hooks"), 0)


class Other:
    pass


def _many(thing: Any) -> None:
    """More attributes than an object keeps in itself."""
    for number in range(40):
        setattr(thing, f"more{number}", number)


def _class(state: State, **names: object) -> type:
    return type("Derived", (state.node,), dict(names))


#: name -> (the change, whether the guards hold after it)
CHANGES: dict[str, tuple[Callable[[State], object], bool]] = {
    "nothing": (lambda s: None, True),
    "an attribute": (lambda s: setattr(s.root.child, "n", 7), False),
    "an equal attribute": (lambda s: setattr(s.root.child, "n", int("2")), True),
    "an attribute of the root": (lambda s: setattr(s.root, "training", False), False),
    "away and back": (lambda s: (setattr(s.root, "n", 9), setattr(s.root, "n", 1)), True),
    "a new attribute": (lambda s: setattr(s.root.child, "other", 7), True),
    "many new attributes": (lambda s: _many(s.root.child), True),
    "many, then one": (lambda s: (_many(s.root), setattr(s.root, "n", 5)), False),
    "an attribute that hides": (lambda s: setattr(s.root.child, "forward", len), False),
    "a deleted attribute": (lambda s: delattr(s.root.child, "n"), False),
    "deleted and set again": (
        lambda s: (delattr(s.root, "n"), setattr(s.root, "n", 1)),
        True,
    ),
    "by object.__setattr__": (lambda s: object.__setattr__(s.root.child, "n", 7), False),
    "by the dictionary": (lambda s: s.root.child.__dict__.update(n=7), False),
    "by vars": (lambda s: vars(s.root.child).pop("n"), False),
    "a dictionary of the same": (lambda s: setattr(s.root, "__dict__", dict(vars(s.root))), True),
    "a dictionary of others": (
        lambda s: setattr(s.root, "__dict__", {**vars(s.root), "n": 4}),
        False,
    ),
    "a cleared dictionary": (lambda s: s.root.child.__dict__.clear(), False),
    "another object": (lambda s: setattr(s.root, "child", s.node(2)), True),
    "another object with another value": (lambda s: setattr(s.root, "child", s.node(3)), False),
    "an object of another class": (lambda s: setattr(s.root, "child", Other()), False),
    "its class": (lambda s: setattr(s.root.child, "__class__", _class(s)), False),
    "a class attribute": (lambda s: setattr(s.base, "scale", 2), False),
    "a class attribute that hides": (lambda s: setattr(s.node, "scale", 1), False),
    "a class attribute nobody read": (lambda s: setattr(s.node, "other", 1), True),
    "an item": (lambda s: s.root.child.items.__setitem__(1, 9), False),
    "one item more": (lambda s: s.root.child.items.append(9), False),
    "items of the same": (lambda s: setattr(s.root, "items", [1, 2, 3]), True),
    "an option": (lambda s: s.root.child.options.update(mode="slow"), False),
    "an option more": (lambda s: s.root.options.update(new=1), False),
    "options in another order": (
        lambda s: s.root.options.update(mode=s.root.options.pop("mode")),
        False,
    ),
    "a hook": (lambda s: s.root.child.hooks.__setitem__("a", len), False),
    "a hook come and gone": (
        lambda s: (s.root.hooks.__setitem__("a", len), s.root.hooks.clear()),
        True,
    ),
    "a cell": (lambda s: setattr(s.root.cell, "cell_contents", 4), False),
    "code": (lambda s: setattr(s.helper, "__code__", program.__code__), False),
    "defaults": (lambda s: setattr(s.helper, "__defaults__", (5,)), False),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("looked_at", [False, True], ids=["values inside", "with a dictionary"])
def test_changes_are_seen(name: str, looked_at: bool):
    change, still = CHANGES[name]
    state = State()
    if looked_at:
        assert state.root.__dict__
        assert state.root.child.__dict__
    entry = EntryPlan([*state.guards()], (), [X.instance("child")], lambda child: child)
    dispatcher: Any = build_dispatcher(inspect.signature(program), [entry], lambda arguments: None)
    [part] = entry.built.values()
    assert part is not None
    taken: Any = part.stamps  # pyright: ignore[reportAttributeAccessIssue] the private part
    for _ in range(3):
        assert dispatcher(state.root) is state.root.child
    assert taken.by_root, "no stamp was taken"
    assert not [guard for guard in entry.guards if guard not in part.guards]  # pyright: ignore[reportAttributeAccessIssue] as above
    change(state)
    for _ in range(3):
        found = dispatcher(state.root)
        assert (found is not None) is still
        assert (first_failure(entry, {"x": state.root}) is None) is still
        assert not still or found is state.root.child
