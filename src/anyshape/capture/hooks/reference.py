"""The reference meaning of every hook: what Python itself does at that place.

Rewritten code whose hooks object is a `PlainHooks` behaves like the code that the user wrote. That
is how a capture ends early without unwinding the user's frames: the hooks object that records
changes its class to this one, and the code runs on as plain Python. The class has therefore neither
slots nor state.

Where a C function does exactly what the bytecode does, the hook is that function: no frame of ours
stands between the user's frame and the callee, so that whatever looks at its caller (`namedtuple`,
`warnings.warn`, `globals`) sees the user.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

BINARY: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "truediv": operator.truediv,
        "floordiv": operator.floordiv,
        "mod": operator.mod,
        "pow": operator.pow,
        "matmul": operator.matmul,
        "lshift": operator.lshift,
        "rshift": operator.rshift,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
    }
)
INPLACE: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "add": operator.iadd,
        "sub": operator.isub,
        "mul": operator.imul,
        "truediv": operator.itruediv,
        "floordiv": operator.ifloordiv,
        "mod": operator.imod,
        "pow": operator.ipow,
        "matmul": operator.imatmul,
        "lshift": operator.ilshift,
        "rshift": operator.irshift,
        "and": operator.iand,
        "or": operator.ior,
        "xor": operator.ixor,
    }
)
UNARY: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}
)
COMPARE: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "eq": operator.eq,
        "ne": operator.ne,
    }
)
CONVERSIONS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {"s": str, "r": repr, "a": ascii}
)


class PlainHooks:
    """Every hook of the protocol, doing what Python does."""

    # Names.

    def load_global(self, frame: object, name: str, value: object, /) -> object:
        return value

    def load_free(self, frame: object, name: str, value: object, /) -> object:
        return value

    def store_global(self, frame: object, name: str, value: object, /) -> object:
        return value

    def store_free(self, frame: object, name: str, value: object, /) -> object:
        return value

    def delete_global(self, frame: object, name: str, /) -> None:
        """Comes before Python's own `del`, which raises `NameError` where there is none."""

    def imported(
        self,
        value: object,
        module: str,
        name: str | None,
        level: int = 0,
        frame: object = None,
        /,
    ) -> object:
        return value

    # Objects.

    attribute = staticmethod(getattr)
    set_attribute = staticmethod(setattr)
    delete_attribute = staticmethod(delattr)
    item = staticmethod(operator.getitem)
    set_item = staticmethod(operator.setitem)
    delete_item = staticmethod(operator.delitem)
    slice = staticmethod(builtins.slice)
    call = staticmethod(operator.call)
    super = staticmethod(builtins.super)

    # Operators.

    def binary(self, name: str, left: object, right: object, /) -> object:
        return BINARY[name](left, right)

    def inplace(self, name: str, left: object, right: object, /) -> object:
        return INPLACE[name](left, right)

    def unary(self, name: str, operand: object, /) -> object:
        return UNARY[name](operand)

    def compare(self, name: str, left: object, right: object, /) -> object:
        """The comparison's own result, which need not be a bool."""
        return COMPARE[name](left, right)

    same = staticmethod(operator.is_)

    def contains(self, item: object, container: Any, /) -> bool:
        return item in container

    # Decisions.

    truth = staticmethod(operator.truth)

    def test(self, value: object, /) -> object:
        """An operand of `and`/`or` but the last. Python tests what comes back, so this does not."""
        return value

    def caught(self) -> None:
        """At the beginning of an `except` or a `finally` clause."""

    def asserting(self) -> bool:
        """Before the test of an `assert`."""
        return True

    def asserted(self, value: object, /) -> object:
        """The test of an `assert`."""
        return value

    # Values handed to Python itself.

    def plain(self, value: object, /) -> object:
        """An operand that Python itself will work on, unobserved."""
        return value

    def iterate(self, iterable: object, /) -> Any:
        return iterable

    def unpack(self, iterable: object, /) -> object:
        return iterable

    def members(self, iterable: object, /) -> object:
        return iterable

    def mapping(self, mapping: object, /) -> object:
        return mapping

    def key(self, key: object, /) -> Any:
        return key

    def format(self, value: object, conversion: str | None, spec: str, /) -> str:
        if conversion is not None:
            value = CONVERSIONS[conversion](value)
        return builtins.format(value, spec)

    def text(self, *parts: str) -> str:
        """An f-string of its parts, each formatted."""
        return "".join(parts)

    def context(self, manager: object, /) -> object:
        return manager

    def raising(self, exception: object, /) -> object:
        return exception

    def match(self, subject: object, /) -> object:
        return subject

    def making_class(self, name: str, /) -> None:
        """A class statement follows."""
