"""Functions under hooks, and objects that say what is done to them."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from anyshape.capture.hooks.reference import BINARY, COMPARE, UNARY, PlainHooks
from anyshape.capture.rewrite.instrument import Refused, bind, instrumented_code


class Frame:
    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.globals = function.__globals__
        names = function.__code__.co_freevars
        self.cells = dict(zip(names, function.__closure__ or (), strict=True))


def under_hooks(function: Callable[..., Any], hooks: PlainHooks | None = None) -> Any:
    """The instrumented form of a function; fails if it is refused."""
    assert isinstance(function, types.FunctionType)
    code = instrumented_code(function.__code__, function.__globals__)
    assert not isinstance(code, Refused), code.reason
    frame = types.CellType(Frame(function))
    return bind(function, code, types.CellType(hooks or PlainHooks()), frame)


class RecordingHooks(PlainHooks):
    """Writes down the name of every hook, with the operator or name where it has one."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.depth = 0
        self.announced: set[int] = set()
        self.kept: list[object] = []


WITH_A_NAME = {"binary", "inplace", "unary", "compare", "making_class"}
WITH_A_NAME_SECOND = {
    *("attribute", "set_attribute", "delete_attribute"),
    *("load_global", "load_free", "store_global", "store_free", "delete_global"),
}
# After these, Python itself works on the value that the hook has seen.
ANNOUNCE = {
    *(
        "iterate",
        "unpack",
        "members",
        "mapping",
        "key",
        "context",
        "raising",
        "match",
        "test",
        "plain",
    ),
}


def _recording(name: str) -> Callable[..., Any]:
    plain = getattr(PlainHooks, name)
    is_static = isinstance(PlainHooks.__dict__[name], staticmethod)

    def hook(self: RecordingHooks, /, *arguments: Any, **keywords: Any) -> Any:
        label = name
        if name in WITH_A_NAME:
            label = f"{name} {arguments[0]}"
        elif name in WITH_A_NAME_SECOND:
            label = f"{name} {arguments[1]}"
        self.seen.append(label)
        if name in ANNOUNCE:
            self.kept.append(arguments[0])
            self.announced.add(id(arguments[0]))
        self.depth += 1
        try:
            if is_static:
                return plain(*arguments, **keywords)
            return plain(self, *arguments, **keywords)
        finally:
            self.depth -= 1

    return hook


for _name in [each for each in vars(PlainHooks) if not each.startswith("_")]:
    setattr(RecordingHooks, _name, _recording(_name))


class Tracer:
    """Answers every operation with a new tracer, and writes it down in order."""

    _name: str
    _log: list[str]
    _hooks: RecordingHooks | None

    def __init__(self, name: str, log: list[str], hooks: RecordingHooks | None = None) -> None:
        self.__dict__.update(_name=name, _log=log, _hooks=hooks)

    def _did(self, operation: str) -> Tracer:
        hooks = self._hooks
        if hooks is not None and not hooks.depth and id(self) not in hooks.announced:
            self._log.append(f"UNSEEN {operation}")
        self._log.append(operation)
        return Tracer(operation, self._log, hooks)

    def __getattr__(self, name: str) -> Tracer:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._did(f"{self._name}.{name}")

    def __setattr__(self, name: str, value: object) -> None:
        self._did(f"{self._name}.{name}={value!r}")

    def __delattr__(self, name: str) -> None:
        self._did(f"del {self._name}.{name}")

    def __setitem__(self, key: object, value: object) -> None:
        self._did(f"{self._name}[{key!r}]={value!r}")

    def __delitem__(self, key: object) -> None:
        self._did(f"del {self._name}[{key!r}]")

    def __getitem__(self, key: object) -> Tracer:
        return self._did(f"{self._name}[{key!r}]")

    def __call__(self, *arguments: object, **keywords: object) -> Tracer:
        return self._did(f"{self._name}({arguments!r}, {keywords!r})")

    def __contains__(self, item: object) -> bool:
        self._did(f"{item!r} in {self._name}")
        return True

    def __bool__(self) -> bool:
        self._did(f"bool({self._name})")
        return True

    def __hash__(self) -> int:
        self._did(f"hash({self._name})")
        return sum(map(ord, self._name))

    def __iter__(self) -> Any:
        self._did(f"iter({self._name})")
        yield from (1, 2)

    def keys(self) -> list[str]:
        self._did(f"keys({self._name})")
        return ["a"]

    def __format__(self, spec: str) -> str:
        self._did(f"format({self._name}, {spec!r})")
        return f"<{self._name}>"

    def __enter__(self) -> Tracer:
        return self._did(f"enter({self._name})")

    def __exit__(self, *_: object) -> None:
        self._did(f"exit({self._name})")

    def __repr__(self) -> str:
        return self._name


for _name in BINARY:

    def _binary(self: Tracer, other: object, _name: str = _name) -> Tracer:
        return self._did(f"({self._name} {_name} {other!r})")

    def _reflected(self: Tracer, other: object, _name: str = _name) -> Tracer:
        return self._did(f"({other!r} {_name} {self._name})")

    def _inplace(self: Tracer, other: object, _name: str = _name) -> Tracer:
        return self._did(f"({self._name} {_name}= {other!r})")

    setattr(Tracer, f"__{_name}__", _binary)
    setattr(Tracer, f"__r{_name}__", _reflected)
    setattr(Tracer, f"__i{_name}__", _inplace)
for _name in COMPARE:

    def _compare(self: Tracer, other: object, _name: str = _name) -> Tracer:
        return self._did(f"({self._name} {_name} {other!r})")

    setattr(Tracer, f"__{_name}__", _compare)
for _name in UNARY:

    def _unary(self: Tracer, _name: str = _name) -> Tracer:
        return self._did(f"{_name}({self._name})")

    setattr(Tracer, f"__{_name}__", _unary)
