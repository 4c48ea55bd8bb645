"""Plain numbers for traced ones, where values leave a capture."""

from __future__ import annotations

import functools
import gc
import itertools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import torch

from anyshape.capture.externals.as_written import given_to
from anyshape.capture.externals.dict_views import own_view
from anyshape.capture.externals.launch_objects import STAND_INS
from anyshape.capture.hooks.caller_frames import called
from anyshape.capture.hooks.reference import INPLACE, PlainHooks
from anyshape.capture.numbers.traced_text import TRACED_VALUES, bare
from anyshape.capture.rewrite.instrument import Watched, is_instrumented, original_closure
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.support.by_identity import remembered

_PLAIN_CONTAINERS: Final = frozenset({list, dict, set, OrderedDict, defaultdict, deque})
_CONTAINERS: Final = (list, dict, set, deque)
_NATIVE: Final = types.BuiltinFunctionType
_VIEWS: Final = (
    *(type({}.keys()), type({}.values()), type({}.items())),
    *(type(OrderedDict().keys()), type(OrderedDict().values()), type(OrderedDict().items())),
)


def untraced(value: object) -> Any:
    """A value with plain numbers for traced ones, in place wherever it can be changed."""
    kind = type(value)
    if kind in ATOMS or issubclass(kind, torch.Tensor):
        return value
    return Untrace().strip(value)


def is_same(a: object, b: object) -> bool:
    """Whether two values are one object in the program, which has plain numbers."""
    return a is b or bare(a) is bare(b)


def concretized(value: object) -> object:
    """A value as an object outside may hold it while the capture goes on: no traced number in it
    that could not be replaced later. What can be changed stays the same object, because the program
    may go on with it; it is stripped in the end."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind in TRACED_VALUES:
        return bare(value)
    return _rebuilt(value, concretized) if _is_frozen(kind) else value


class Untrace:
    """One walk through objects that hold each other. Objects in `done` are not looked into."""

    def __init__(self, done: Iterable[object] = (), modules: bool = False) -> None:
        self._reached: dict[int, object] = {id(value): value for value in done}
        self._pending: list[object] = []
        #: what cannot be changed, by identity: itself and what stands for it
        self._made: dict[int, tuple[Any, Any]] = {}
        #: whether modules are looked into: they are many objects, and few hold traced numbers
        self._modules = modules

    def strip(self, value: object) -> Any:
        result = self.plain(value)
        while self._pending:
            self._empty(self._pending.pop())
        return result

    def plain(self, value: Any) -> Any:
        """What to hold instead of `value`; what that holds in turn is looked at later."""
        kind = type(value)
        if kind is types.FunctionType and is_instrumented(value.__code__):
            self._cells(value)
        # By identity: a metaclass of the program's may have an `==` of its own.
        is_bound = kind is _NATIVE or kind is types.MethodWrapperType
        if is_bound and issubclass(type(value.__self__), _WALKED):
            self.plain(value.__self__)
        if kind in ATOMS or issubclass(kind, (torch.Tensor, *CODE)):
            return value
        if kind in TRACED_VALUES:
            return bare(value)
        if kind is types.MethodType and type(value.__self__) in TRACED_VALUES:
            return getattr(bare(value.__self__), value.__name__)
        if _is_frozen(kind):
            if id(value) not in self._made:
                self._made[id(value)] = value, _rebuilt(value, self.plain)
            return self._made[id(value)][1]
        if kind in STAND_INS:
            return value.original(self.plain)
        found = own_view(value)
        if found is not None:
            return found
        if id(value) not in self._reached:
            self._reached[id(value)] = value
            if self._modules or not issubclass(kind, torch.nn.Module):
                self._pending.append(value)
        return value

    def _cells(self, function: types.FunctionType) -> None:
        """A function that the program made holds what it closes over, and its defaults."""
        if id(function) in self._reached:
            return
        self._reached[id(function)] = function
        defaults = self.plain(function.__defaults__)
        if defaults is not function.__defaults__:
            function.__defaults__ = defaults
        self.plain(function.__kwdefaults__)
        for cell in original_closure(function) or ():
            with suppress(ValueError):  # an empty cell
                old = cell.cell_contents
                new = self.plain(old)
                if new is not old:
                    cell.cell_contents = new

    def _empty(self, value: object) -> None:
        # Not by `isinstance`: a proxy says that it is something else, by code of its own.
        if issubclass(type(value), defaultdict):
            self.plain(_default_factory(value))
        for kind, strip in _IN_PLACE:
            if issubclass(type(value), kind):
                strip(value, self.plain)
                break
        if type(value) not in _PLAIN_CONTAINERS:
            _attributes(value, self.plain)


Replace = Callable[[Any], Any]
_default_factory: Final = vars(defaultdict)["default_factory"].__get__


def _is_frozen(kind: type) -> bool:
    return kind in _FROZEN or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


_FROZEN: Final = frozenset({tuple, torch.Size, frozenset, slice})


def _rebuilt(value: Any, replace: Replace) -> object:
    """A value that cannot be changed, with its parts replaced; itself if they stay the same."""
    kind = type(value)
    old = (value.start, value.stop, value.step) if kind is slice else tuple(value)
    new = tuple(map(replace, old))
    if all(a is b for a, b in zip(old, new, strict=True)):
        return value
    if kind is slice:
        return slice(*new)
    return kind(new) if kind in _FROZEN else tuple.__new__(kind, new)


def _list(value: list[object], replace: Replace) -> None:
    for index, item in enumerate(list.__iter__(value)):
        new = replace(item)
        if new is not item:
            list.__setitem__(value, index, new)


def _deque(value: deque[object], replace: Replace) -> None:
    for index, item in enumerate(list(deque.__iter__(value))):
        new = replace(item)
        if new is not item:
            deque.__setitem__(value, index, new)


def _dict(value: dict[object, object], replace: Replace) -> None:
    base: Any = OrderedDict if issubclass(type(value), OrderedDict) else dict
    items = list(base.items(value))
    keys = [replace(key) for key, _ in items]
    if any(new is not key for new, (key, _) in zip(keys, items, strict=True)):
        base.clear(value)
        for new, (_, item) in zip(keys, items, strict=True):
            base.__setitem__(value, new, replace(item))
        return
    for key, item in items:
        new = replace(item)
        if new is not item:
            base.__setitem__(value, key, new)


def _set(value: set[object], replace: Replace) -> None:
    old = list(set.__iter__(value))
    new = list(map(replace, old))
    if any(a is not b for a, b in zip(old, new, strict=True)):
        set.clear(value)
        set.update(value, new)


def _partial(value: functools.partial[object], replace: Replace) -> None:
    old = (value.func, value.args, value.keywords)
    new = (replace(value.func), replace(value.args), replace(value.keywords))
    if any(a is not b for a, b in zip(old, new, strict=True)):
        value.__setstate__((*new, value.__dict__))  # pyright: ignore[reportAttributeAccessIssue] it has one


def _method(value: types.MethodType, replace: Replace) -> None:
    replace(value.__self__)


def _exception(value: BaseException, replace: Replace) -> None:
    new = replace(value.args)
    if new is not value.args:
        value.args = new


def _view(value: object, replace: Replace) -> None:
    for held in gc.get_referents(value):
        replace(held)


def _iterator(value: object, replace: Replace) -> None:
    """What an iterator has yet to give, as far as that is in containers: a number that it holds
    itself stays, since another iterator would not advance with it. Of a generator, nothing that
    is not data: it may hold what watches it."""
    for held in gc.get_referents(value):
        if issubclass(type(held), _WALKED):
            replace(held)


_ITERATORS: Final = (
    *(types.GeneratorType, zip, map, filter, enumerate, reversed),
    *(
        type(iter(each))
        for each in ([], (), {}, {}.values(), {}.items(), {1}, deque(), OrderedDict())
    ),
    *(kind for kind in vars(itertools).values() if type(kind) is type),
    *(type(itertools.tee(())[0]), type(reversed([])), type(reversed({}))),
)
_WALKED: Final = (*_CONTAINERS, tuple, *_ITERATORS)

_IN_PLACE: Final[tuple[tuple[Any, Callable[[Any, Replace], None]], ...]] = (
    (list, _list),
    (dict, _dict),
    (set, _set),
    (deque, _deque),
    (functools.partial, _partial),
    (types.MethodType, _method),
    (BaseException, _exception),
    (_VIEWS, _view),
    (_ITERATORS, _iterator),
)


def _attributes(value: object, replace: Replace) -> None:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = None
    if type(held) is dict:
        _dict(held, replace)
    for member in _slots(type(value)):
        try:
            item = member.__get__(value)
        except AttributeError:
            continue
        new = replace(item)
        if new is not item:
            member.__set__(value, new)


@remembered
def _slots(kind: type) -> tuple[Any, ...]:
    return tuple(
        member
        for base in kind.__mro__
        if "__slots__" in base.__dict__
        for member in base.__dict__.values()
        if type(member) is types.MemberDescriptorType
    )


class StrippingHooks(PlainHooks):
    """Plain Python after a capture was given up: traced numbers that are still about go nowhere."""

    #: what the capture has watched
    watched: Watched = ()

    def set_attribute(self, obj: object, name: str, value: object) -> None:
        setattr(bare(obj), name, untraced(value))

    def delete_attribute(self, obj: object, name: str) -> None:
        delattr(bare(obj), name)

    def set_item(self, obj: Any, key: object, value: object) -> None:
        obj[untraced(key)] = untraced(_items(value) if type(key) is slice else value)

    def store_global(self, frame: object, name: str, value: object) -> object:
        return untraced(value)

    def store_free(self, frame: object, name: str, value: object) -> object:
        return untraced(value)

    def same(self, a: object, b: object) -> bool:
        return is_same(a, b)

    def inplace(self, name: str, left: object, right: object) -> object:
        return INPLACE[name](left, _items(right) if isinstance(left, _CONTAINERS) else right)

    def call(self, function: object, /, *args: object, **kwargs: object) -> Any:
        if type(function) is _NATIVE and isinstance(function.__self__, _CONTAINERS):
            return function(*map(_items, args), **{name: untraced(x) for name, x in kwargs.items()})
        plain = {name: untraced(value) for name, value in kwargs.items()}
        return called(
            function, *given_to(function, tuple(map(untraced, args)), plain, self.watched)
        )


def _items(value: object) -> object:
    """What is put into a container: also what a generator has yet to give."""
    return map(untraced, value) if type(value) is types.GeneratorType else untraced(value)
