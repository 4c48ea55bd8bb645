"""Instrumented functions are the same functions, to whoever looks."""

from __future__ import annotations

import gc
import inspect
import linecache
import sys
import threading
import traceback
import types
import weakref
from typing import Any

import pytest

from anyshape.capture.hooks.reference import PlainHooks
from anyshape.capture.rewrite import instrument
from anyshape.capture.rewrite.instrument import Refused, instrumented_code, is_instrumented
from tests.capture.observed import RecordingHooks, under_hooks

evaluated: list[str] = []


def note(text: str) -> str:
    evaluated.append(text)
    return text


def with_everything(
    a: Any,
    b: Any = note("b"),  # noqa: B008
    /,
    c: Any = note("c"),  # noqa: B008
    *d: Any,
    e: Any,
    f: Any = note("f"),  # noqa: B008
    **g: Any,
) -> Any:
    """The docstring."""
    return a, b, c, d, e, f, g


class Base:
    def method(self) -> str:
        return "base"


class Derived(Base):
    __private = "private"

    def method(self) -> str:
        return super().method() + self.__private + __class__.__name__

    @classmethod
    def made(cls) -> str:
        return super().__name__ if False else cls.__name__

    @property
    def value(self) -> int:
        return 3


def counter() -> Any:
    count = 0

    def step(by: int = 1) -> int:
        nonlocal count
        count += by
        return count

    return step


def recursive() -> Any:
    def factorial(n: int) -> int:
        return 1 if n <= 1 else n * factorial(n - 1)

    return factorial


def generator(n: int) -> Any:
    try:
        for i in range(n):
            received = yield i
            if received:
                yield received * 2
    finally:
        evaluated.append("closed")


# fmt: off
def multi_line(
    x: Any,
) -> Any:
    return [
        x.attribute
        if x
        else (1 +
              x[
                  0])
    ]
# fmt: on


def test_signature_and_defaults() -> None:
    before = list(evaluated)
    observed = under_hooks(with_everything)
    assert observed(1, e=2) == (1, "b", "c", (), 2, "f", {})
    assert observed(1, 2, 3, 4, e=5, f=6, a=7) == (1, 2, 3, (4,), 5, 6, {"a": 7})
    assert evaluated == before, "defaults are not evaluated again"
    assert observed.__defaults__ is with_everything.__defaults__
    assert observed.__kwdefaults__ is with_everything.__kwdefaults__
    with pytest.raises(TypeError, match=r"with_everything\(\) missing 1 required positional"):
        observed(e=1)
    parameters = inspect.signature(observed).parameters
    assert [each.kind for each in parameters.values()] == [
        each.kind for each in inspect.signature(with_everything).parameters.values()
    ]


@pytest.mark.parametrize(
    "function",
    [with_everything, Derived.method, counter(), recursive(), generator, lambda x: x],
)
def test_names_and_lines(function: Any) -> None:
    observed = under_hooks(function)
    for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_varnames"):
        assert getattr(observed.__code__, name) == getattr(function.__code__, name)
    assert observed.__name__ == function.__name__
    assert observed.__qualname__ == function.__qualname__
    assert observed.__doc__ == function.__doc__
    assert observed.__globals__ is function.__globals__
    assert observed.__module__ == function.__module__
    assert bool(observed.__code__.co_flags & inspect.CO_GENERATOR) == inspect.isgeneratorfunction(
        function
    )


def test_methods() -> None:
    assert under_hooks(Derived.method)(Derived()) == "baseprivateDerived"
    assert under_hooks(Derived.__dict__["made"].__func__)(Derived) == "Derived"
    assert under_hooks(Derived.__dict__["value"].fget)(Derived()) == 3


def test_cells_are_shared_with_the_original() -> None:
    step = counter()
    observed = under_hooks(step)
    assert [step(), observed(), step(2), observed(3)] == [1, 2, 4, 7]


def test_recursion_runs_through_the_variable() -> None:
    assert under_hooks(recursive())(6) == 720
    assert under_hooks(recursive)()(6) == 720


def test_generators() -> None:
    made = under_hooks(generator)(3)
    assert next(made) == 0
    assert made.send(5) == 10
    assert list(made) == [1, 2]
    made = under_hooks(generator)(3)
    next(made)
    evaluated.clear()
    made.close()
    assert evaluated == ["closed"]


class Failing:
    def __init__(self, what: str) -> None:
        self.what = what

    def __bool__(self) -> bool:
        if self.what == "bool":
            raise ValueError
        return self.what == "attribute"

    def __getattr__(self, name: str) -> Any:
        raise ValueError

    def __getitem__(self, key: int) -> Any:
        if self.what == "item":
            raise ValueError
        return "text"


# 3.11 blames a failing test on the line where the statement starts, we on the line of the test.
BLAMES_THE_TEST = ["bool"] if sys.version_info >= (3, 12) else []


@pytest.mark.parametrize("what", ["attribute", "item", "add", *BLAMES_THE_TEST])
def test_lines_in_tracebacks(what: str) -> None:
    def lines(function: Any) -> list[int | None]:
        with pytest.raises((ValueError, TypeError)) as caught:
            function(Failing(what))
        frames = traceback.extract_tb(caught.value.__traceback__)
        return [frame.lineno for frame in frames if frame.name == "multi_line"]

    assert lines(multi_line) == lines(under_hooks(multi_line))


def test_lines_that_run_are_lines_of_the_function() -> None:
    def lines(code: types.CodeType) -> set[int]:
        return {line for *_, line in code.co_lines() if line}

    for function in (with_everything, multi_line, generator, counter):
        first = function.__code__.co_firstlineno
        source = inspect.getsourcelines(function)[0]
        assert lines(under_hooks(function).__code__) <= set(range(first, first + len(source)))
        assert lines(function.__code__) <= lines(under_hooks(function).__code__)


def test_nested_code_is_instrumented_too() -> None:
    observed = under_hooks(counter)
    assert is_instrumented(observed.__code__)
    assert is_instrumented(observed().__code__)
    assert not is_instrumented(counter.__code__)
    again = instrumented_code(observed.__code__, {})
    assert isinstance(again, Refused)


def test_nested_functions_keep_their_hooks() -> None:
    hooks = RecordingHooks()
    step = under_hooks(counter, hooks)()
    hooks.seen.clear()
    assert step() == 1
    assert hooks.seen == ["inplace add"]


def test_code_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[types.CodeType] = []
    original = instrument.make

    def slow_make(code: types.CodeType, globals_: dict[str, Any]) -> Any:
        made.append(code)
        return original(code, globals_)

    monkeypatch.setattr(instrument, "make", slow_make)

    def fresh(x: int) -> int:
        return x + 1

    results: list[Any] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        results.append(instrumented_code(fresh.__code__, fresh.__globals__))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all(each is results[0] for each in results)


def test_code_goes_with_the_code_that_it_was_made_from() -> None:
    text: str = "def f(x):\n    return [y + 1 for y in x]\n"
    path = "<goes>"
    linecache.cache[path] = (len(text), None, list[str](text.splitlines(True)), path)
    names: dict[str, Any] = {}
    exec(compile(text, path, "exec"), names)
    made = instrumented_code(names["f"].__code__, names)
    assert isinstance(made, types.CodeType)
    seen = weakref.ref(made)
    del made
    names.clear()
    gc.collect()
    assert seen() is None


def test_equal_code_of_two_functions_is_kept_apart() -> None:
    one, two = (
        lambda: 1 + 1,
        lambda: 1 + 1,
    )
    assert under_hooks(one).__code__ is under_hooks(one).__code__
    assert under_hooks(one).__code__ is not under_hooks(two).__code__


async def coroutine() -> int:
    return 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (coroutine.__code__, "asynchronous"),
        (compile("x = 1", "<text>", "exec"), "not a function"),
        (compile("(i for i in ())", "<text>", "eval").co_consts[0], "not a function"),
    ],
)
def test_what_is_not_a_function_of_ours(code: types.CodeType, reason: str) -> None:
    refused = instrumented_code(code, {})
    assert isinstance(refused, Refused)
    assert reason in refused.reason


def test_hooks_can_turn_plain_in_the_middle() -> None:
    def work(items: list[int], stop: Any) -> int:
        total = 0
        for item in items:
            if item == 2:
                stop()
            total += item
        return total

    hooks = RecordingHooks()

    def stop() -> None:
        object.__setattr__(hooks, "__class__", PlainHooks)

    assert under_hooks(work, hooks)([1, 2, 3], stop) == 6
    assert hooks.seen.count("inplace add") == 1
