"""Our `dataclass` beside the library's: each case is made with both, and behaves the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from anyshape.support import lazy_dataclass

Dataclass = Callable[..., Any]


def _point(dataclass: Dataclass, **options: Any) -> Any:
    @dataclass(**options)
    class Point:
        a: int
        b: list[int] = field(default_factory=list[int], repr=False)
        c: str = field(default="c", compare=False)
        kind: ClassVar[str] = "point"

    return Point


def _derived(dataclass: Dataclass, **options: Any) -> Any:
    @dataclass(**options)
    class Derived(_point(dataclass, **options)):
        c: str = "other"
        d: tuple[int, ...] = field(default=(), init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "a", self.a + 1)

    return Derived


def _awkward_names(dataclass: Dataclass, **options: Any) -> Any:
    @dataclass(**options)
    class Names:
        name: int
        set_name: int = 2
        make_name: list[int] = field(default_factory=list[int])
        default_name: int = 3
        hash: int = 4
        other: int = 5
        cls: int = 6

    return Names


def _own_methods(dataclass: Dataclass, **options: Any) -> Any:
    @dataclass(**options)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return abs(self.a) == abs(getattr(other, "a", 0.5))

        def __hash__(self) -> int:
            return abs(self.a)

        def __repr__(self) -> str:
            return f"<{self.a}>"

    return Own


def _empty(dataclass: Dataclass, **options: Any) -> Any:
    @dataclass(**options)
    class Empty:
        pass

    return Empty


MAKERS = (_point, _derived, _awkward_names, _own_methods, _empty)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"slots": True, "unsafe_hash": True},
    {"kw_only": True, "frozen": True},
    {"slots": True, "weakref_slot": True, "eq": False},
    {"init": False},
)
CALLS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}),
    ((1,), {}),
    ((), {"a": 1}),
    ((2,), {}),
    ((-2,), {}),
    ((), {"a": 1, "c": "x"}),
    ((1, [7]), {}),
    ((1, [7], "x"), {}),
    ((1, [7], "x", 9, 9, 9, 9, 9, 9), {}),
    ((), {"name": 1}),
    ((), {"name": 1, "set_name": 9, "other": 8}),
    ((), {"nothing": 1}),
)


def _tried(action: Callable[..., Any], *args: Any) -> Any:
    """The result, or that there was none: errors of the library differ between its versions."""
    try:
        return action(*args)
    except (AttributeError, TypeError):
        return "refused"


def _plain(value: Any) -> Any:
    shown = repr(value)
    return "by address" if " at 0x" in shown else shown.partition("<locals>.")[2]


#: The last two change it.
ACTIONS: tuple[Callable[[Any], Any], ...] = (
    _plain,
    dataclasses.asdict,
    lambda one: one == 1,
    lambda one: weakref.ref(one)() is one,
    lambda one: hasattr(one, "__dict__"),
    lambda one: _plain(dataclasses.replace(one, a=3)),
    lambda one: _plain(copy.copy(one)),
    lambda one: setattr(one, "new", 5),
    lambda one: setattr(one, "a", 5) or one.a,
    lambda one: delattr(one, "a") or one.a,
)


def _behaviour(dataclass: Dataclass, make: Any, options: dict[str, Any]) -> list[Any]:
    kind = make(dataclass, **options)
    seen: list[Any] = [kind.__match_args__, vars(kind).get("__slots__"), kind.__hash__ is None]
    seen += [(each.name, each.type, each.init, each.repr) for each in dataclasses.fields(kind)]
    made = [_tried(lambda args, named: kind(*args, **named), *call) for call in CALLS]
    seen += [isinstance(one, str) for one in made]
    made = [one for one in made if not isinstance(one, str)]
    seen += [_tried(lambda one, two: one == two, one, two) for one in made for two in made]
    if "eq" not in options:
        seen += [_tried(hash, one) for one in made]
    return seen + [_tried(action, one) for one in made for action in ACTIONS]


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (make, options)
        for make in MAKERS
        for options in OPTIONS
        # The library refuses to replace a method that is there; ours leaves it.
        if make is not _own_methods or "unsafe_hash" not in options
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_behaves_as_the_librarys(make: Any, options: dict[str, Any]):
    ours = _behaviour(lazy_dataclass.dataclass, make, options)
    assert ours == _behaviour(dataclasses.dataclass, make, options)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


def test_goes_through_pickle():
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_methods_are_written_once():
    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Written:
        a: int

    before = [vars(Written)[name] for name in ("__init__", "__eq__", "__hash__")]
    assert Written(1) == Written(1)
    assert hash(Written(1)) == hash(Written(1))
    after = [vars(Written)[name] for name in ("__init__", "__eq__", "__hash__")]
    assert not set(before) & set(after)
    # Who took the method before has one that works.
    one = Written(2)
    before[0](one, 7)
    assert (one.a, before[1](one, Written(7))) == (7, True)


def test_a_subclass_may_call_the_method_of_its_base_before_it_is_written():
    @lazy_dataclass.dataclass(slots=True)
    class Base:
        a: int

    class Derived(Base):
        def __init__(self) -> None:
            Base.__init__(self, 3)

    assert (Derived().a, Derived.__init__ is not Base.__init__) == (3, True)


def test_the_librarys_may_have_ours_as_a_base():
    @dataclasses.dataclass(frozen=True)
    class Derived(Kept):
        c: int = 3

    assert repr(Derived(1)).endswith("Derived(a=1, b=(), c=3)")
    with pytest.raises(FrozenInstanceError):
        Derived(1).a = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_an_object_that_holds_itself_is_shown():
    @lazy_dataclass.dataclass(slots=True)
    class Holder:
        held: Any = None

    one = Holder()
    one.held = one
    assert repr(one).endswith("Holder(held=...)")


def _shared_default() -> None:
    @lazy_dataclass.dataclass
    class _Shared:
        a: list[int] = []  # noqa: RUF012 the fault


def _one_frozen() -> None:
    @lazy_dataclass.dataclass  # pyright: ignore[reportGeneralTypeIssues] the fault
    class _Thawed(Kept):
        pass


def _init_only() -> None:
    @lazy_dataclass.dataclass
    class _InitOnly:
        a: dataclasses.InitVar[int]


@pytest.mark.parametrize(
    ("define", "error"),
    [(_shared_default, ValueError), (_one_frozen, TypeError), (_init_only, TypeError)],
)
def test_says_what_it_cannot_do(define: Callable[[], None], error: type[Exception]):
    with pytest.raises(error):
        define()
