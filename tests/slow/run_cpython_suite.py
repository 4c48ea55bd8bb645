"""Run test modules of CPython, as they are or with every function in them instrumented.

    PYTHONPATH=src python3.13 tests/slow/run_cpython_suite.py native|instrumented test.test_with ...

In the second mode the functions of the test modules, and of the modules of the standard library
that they test, are replaced by their instrumented forms with `PlainHooks`. It prints one JSON
object: the outcome of every test. It needs neither torch nor pytest.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import random
import sys
import time
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

from anyshape.capture.hooks.reference import PlainHooks
from anyshape.capture.rewrite.instrument import Refused, bind, instrumented_code

HOOKS = types.CellType(PlainHooks())

# Modules under test that are themselves Python, instrumented along with their tests.
SUBJECTS = {
    "test.test_contextlib": ["contextlib"],
    "test.test_dataclasses": ["dataclasses"],
    "test.test_dataclasses.__init__": ["dataclasses"],
    "test.test_enum": ["enum"],
    "test.test_functools": ["functools"],
    "test.test_collections": ["collections", "_collections_abc"],
    "test.test_ordered_dict": ["collections"],
    "test.test_fractions": ["fractions"],
    "test.test_statistics": ["statistics"],
    "test.test_heapq": ["heapq"],
    "test.test_bisect": ["bisect"],
    "test.test_copy": ["copy", "copyreg"],
    "test.test_textwrap": ["textwrap"],
    "test.test_string": ["string"],
    "test.test_typing": ["typing"],
    "test.test_ast": ["ast"],
    "test.test_json": ["json.encoder", "json.decoder", "json.scanner"],
    "test.test_random": ["random"],
    "test.test_weakref": ["weakref", "_weakrefset"],
    "test.test_weakset": ["_weakrefset"],
    "test.test_numeric_tower": ["fractions"],
    "test.test_difflib": ["difflib"],
    "test.test_shlex": ["shlex"],
    "test.test_graphlib": ["graphlib"],
    "test.test_tokenize": ["tokenize"],
    "test.test_argparse": ["argparse"],
    "test.test_pprint": ["pprint"],
    "test.test_reprlib": ["reprlib"],
    "test.test_calendar": ["calendar"],
    "test.test_colorsys": ["colorsys"],
    "test.test_operator": ["operator"],
}


class Frame:
    """What the second cell holds; `PlainHooks` does not look at it."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.globals = function.__globals__


done: dict[int, object] = {}
counts = {"instrumented": 0, "refused": 0}


def instrumented(function: types.FunctionType) -> types.FunctionType | None:
    code = instrumented_code(function.__code__, function.__globals__)
    if isinstance(code, Refused):
        counts["refused"] += 1
        return None
    counts["instrumented"] += 1
    made = bind(function, code, HOOKS, types.CellType(Frame(function)))
    made.__dict__.update(function.__dict__)
    made.__annotations__ = function.__annotations__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    for name in ("__type_params__",):  # Since 3.12.
        if hasattr(function, name):
            setattr(made, name, getattr(function, name))
    return made


def replacement(value: object, module: str) -> object | None:
    """The instrumented form of something that a module or class holds, if it has one."""
    match value:
        case types.FunctionType() if value.__module__ == module:
            return instrumented(value)
        case staticmethod() | classmethod():
            inner: Any = replacement(value.__func__, module)
            return None if inner is None else type(value)(inner)
        case property():
            parts = [value.fget, value.fset, value.fdel]
            if type(value) is not property:
                return None
            made: list[Any] = [part and (replacement(part, module) or part) for part in parts]
            return property(made[0], made[1], made[2], value.__doc__)
        case _:
            return None


def instrument_namespace(holder: type | types.ModuleType, module: str) -> None:
    for name, value in list(vars(holder).items()):
        if isinstance(value, type) and value.__module__ == module and id(value) not in done:
            done[id(value)] = value
            instrument_namespace(value, module)
        # Classes recognise an inherited `__new__` by identity.
        made = None if name == "__new__" else replacement(value, module)
        if made is not None:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(holder, name, made)


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        else:
            yield each


def outcome(test: unittest.TestCase) -> str:
    result = unittest.TestResult()
    random.seed(0)
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        try:
            test.run(result)
        except BaseException as error:
            return f"escaped: {error!r}"
    problems = result.failures + result.errors
    if problems:
        return "failed: " + problems[0][1].strip().splitlines()[-1][:200]
    if result.skipped:
        return "skipped"
    return "expected failure" if result.expectedFailures else "ok"


def main(mode: str, names: list[str]) -> dict[str, object]:
    warnings.simplefilter("ignore")
    outcomes: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name in names:
        start = time.perf_counter()
        try:
            module = importlib.import_module(name)
        except (ImportError, unittest.SkipTest):
            continue
        if mode == "instrumented":
            # Of the class that runs the tests nothing is touched.
            done[id(unittest.TestCase)] = unittest.TestCase
            for subject in SUBJECTS.get(name, []):
                instrument_namespace(importlib.import_module(subject), subject)
            instrument_namespace(module, name)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        for test in tests_of(suite):
            if type(test).__module__ == name:
                outcomes[test.id()] = outcome(test)
        seconds[name] = time.perf_counter() - start
        gc.collect()
    return {"outcomes": outcomes, "seconds": seconds, **counts}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
