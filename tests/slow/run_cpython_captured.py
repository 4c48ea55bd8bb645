"""Run test modules of CPython with every test captured: its operators go through our hooks.

    PYTHONPATH=src python tests/slow/run_cpython_captured.py native|captured test.test_richcmp ...

In the second mode each test is a compiled function, called twice. The assertions of `unittest` are
replaced by plain functions in both modes: the library's own would end a capture at once. It prints
one JSON object: the outcomes of every test, and how many were captured to their end.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import sys
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import torch

import anyshape
from anyshape.capture.hooks import watched_code


class Raises:
    """What `assertRaises` gives: a context manager, of Python code that can be watched."""

    def __init__(self, expected: Any) -> None:
        self.expected = expected
        self.exception: Any = None

    def __enter__(self) -> Raises:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None:
            raise AssertionError("nothing was raised")
        self.exception = error
        return issubclass(kind, self.expected)


def _raises(self: Any, expected: Any, *args: Any, **kwargs: Any) -> Any:
    if not args:
        return Raises(expected)
    try:
        args[0](*args[1:], **kwargs)
    except expected:
        return None
    raise AssertionError("nothing was raised")


def _equal(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if not a == b:
        raise AssertionError("not equal")


def _not_equal(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if not a != b:
        raise AssertionError("equal")


def _true(self: Any, a: Any, message: Any = None) -> None:
    if not a:
        raise AssertionError("not true")


def _false(self: Any, a: Any, message: Any = None) -> None:
    if a:
        raise AssertionError("true")


def _is(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if a is not b:
        raise AssertionError("not the same")


def _is_not(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if a is b:
        raise AssertionError("the same")


def _in(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if a not in b:
        raise AssertionError("not in it")


def _not_in(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if a in b:
        raise AssertionError("in it")


def _less(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if not a < b:
        raise AssertionError("not less")


def _less_equal(self: Any, a: Any, b: Any, message: Any = None) -> None:
    if not a <= b:
        raise AssertionError("not less or equal")


ASSERTIONS: dict[str, Callable[..., Any]] = {
    "assertRaises": _raises,
    "assertEqual": _equal,
    "assertNotEqual": _not_equal,
    "assertTrue": _true,
    "assertFalse": _false,
    "assertIs": _is,
    "assertIsNot": _is_not,
    "assertIn": _in,
    "assertNotIn": _not_in,
    "assertLess": _less,
    "assertLessEqual": _less_equal,
    "assertGreater": lambda self, a, b, message=None: _less(self, b, a),
    "assertGreaterEqual": lambda self, a, b, message=None: _less_equal(self, b, a),
    "fail": lambda self, message=None: _true(self, False),
}


def outcome(run: Callable[[], Any]) -> str:
    random.seed(0)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            run()
        except unittest.SkipTest:
            return "skipped"
        except BaseException as error:
            return f"{type(error).__name__}"
    return "ok"


def main(mode: str, names: list[str]) -> dict[str, object]:
    warnings.simplefilter("ignore")
    anyshape.config.profile = False
    # Python's own tests are programs here, though they lie in its library.
    files = (f"{name.replace('.', os.sep)}.py" for name in (*names, "test.list_tests"))
    watched_code._LIBRARY_WATCHED = (*watched_code._LIBRARY_WATCHED, *files)
    for name, function in ASSERTIONS.items():
        setattr(unittest.TestCase, name, function)
    outcomes: dict[str, list[str]] = {}
    whole = 0
    for name in names:
        for test in _tests(name):
            call: Any = getattr(type(test), test._testMethodName)
            if mode == "captured":
                call = anyshape.compile(call, backend="eager")
            outcomes[test.id()] = [outcome(lambda t=test, c=call: _run(t, c)) for _ in "ab"]
            whole += mode == "captured" and call.stats().graphs > 0
    return {"outcomes": outcomes, "whole": whole}


def _run(test: Any, call: Any) -> None:
    test.setUp()
    try:
        call(test)
    finally:
        test.tearDown()


def _tests(name: str) -> list[Any]:
    module = importlib.import_module(name)
    found: list[Any] = []
    for each in unittest.defaultTestLoader.loadTestsFromModule(module):
        for test in each:  # pyright: ignore[reportGeneralTypeIssues] suites of cases
            if isinstance(test, unittest.TestCase) and type(test).__module__ == name:
                found.append(test)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
