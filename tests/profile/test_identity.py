"""A key that survives moved files and changed paths, but not changed code."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest

from anyshape.profile.identity import Identity, identity_of

BASE = """\
def f(x, n=1):
    if n in {'a', 'b'}:
        return [x * i for i in range(n)]
    return x
"""


def made(source: str, file: str = "model.py", name: str = "f") -> Any:
    scope: dict[str, Any] = {"__name__": file.removesuffix(".py")}
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope[name]


def key(function: Any) -> str:
    found = identity_of(function)
    assert isinstance(found, Identity)
    return found.key


SAME = {
    "another file": made(BASE, "elsewhere/other.py"),
    "other lines": made("\n\n\n" + BASE),
    "a comment": made(BASE.replace("    return x", "    # why\n    return x")),
    "other blanks": made(BASE.replace("x * i", "x  *  i")),
    "another default": made(BASE.replace("n=1", "n=2")),
}
CHANGED = {
    "an operator": made(BASE.replace("x * i", "x + i")),
    "a constant": made(BASE.replace("'b'", "'c'")),
    "a constant's type": made(BASE.replace("return x", "return 1")),
    "a constant's type, otherwise": made(BASE.replace("return x", "return True")),
    "a name": made(BASE.replace("range", "reversed")),
    "an inner function": made(BASE.replace("x * i", "(lambda: x - i)()")),
    "a parameter": made(BASE.replace("n=1", "n=1, m=2")),
    "the name of a parameter": made(BASE.replace("(x", "(y").replace("x", "y")),
    "the name": made(BASE.replace("def f", "def g"), name="g"),
}


@pytest.mark.parametrize("what", SAME)
def test_what_is_the_same_function(what: str):
    assert key(SAME[what]) == key(made(BASE))


def test_what_is_another_function():
    keys = {what: key(function) for what, function in CHANGED.items()}
    assert len({*keys.values(), key(made(BASE))}) == len(keys) + 1, keys


def test_the_key_is_the_same_in_every_process():
    # Sets of texts have another order in each.
    script = (
        "from anyshape.profile.identity import identity_of\nscope = {}\n"
        f"exec({BASE!r}, scope)\nprint(identity_of(scope['f']).key)"
    )
    for _ in range(3):
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert out.stdout.strip() == key(made(BASE)), out.stderr


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def test_decorated_functions_are_told_apart_and_spoken_of_by_their_own_name():
    f, other = decorated(made(BASE)), decorated(CHANGED["an operator"])
    assert key(f) != key(other)
    assert key(f) != key(made(BASE))
    found = identity_of(f)
    assert found is not None
    assert (found.name, found.file, found.line) == ("f", "model.py", 1)


class Base_:
    def __call__(self, x: Any) -> Any:
        return x


class Inherits(Base_): ...


class Callable_:
    def __call__(self, x: Any) -> Any:
        return x

    def method(self, x: Any) -> Any:
        return x


def test_methods_partials_and_objects():
    assert key(Callable_().method) == key(Callable_.method)
    assert key(functools.partial(made(BASE), 1)) == key(made(BASE))
    assert key(Callable_()) == key(Callable_.__call__)
    assert key(Inherits()) == key(Base_.__call__)
    assert identity_of(len) is None


def test_what_wraps_itself_ends():
    f = made(BASE)
    f.__wrapped__ = f
    assert key(f)


def test_classes_are_part_of_it_in_any_order():
    f = made(BASE)
    a, b = identity_of(f, [int, str, int]), identity_of(f, [str, int])
    assert a == b
    assert a != identity_of(f, [int])
