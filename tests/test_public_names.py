"""Every name that users have: described, with an example that runs, and with types that say more
than that it is something."""

from __future__ import annotations

import doctest
import inspect
import tempfile
from collections.abc import Iterator
from pydoc import render_doc
from typing import Any

import pytest
import torch

import anyshape
import anyshape.errors

NAMES = sorted(name for name in anyshape.__all__ if name != "__version__")
#: `anyshape.export` is also a package, which can be called.
OBJECTS: dict[str, Any] = {name: getattr(anyshape, name) for name in NAMES}
OBJECTS["export"] = OBJECTS["export"].export


def functions_of(name: str) -> Iterator[tuple[str, Any]]:
    """A function, or the methods of a class that are not private."""
    found = OBJECTS[name]
    if not inspect.isclass(found) and name != "config":
        yield name, found
        return
    owner = found if inspect.isclass(found) else type(found)
    for attribute, value in vars(owner).items():
        if attribute.startswith("_") or not attribute.islower():
            continue
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(value):
            yield f"{name}.{attribute}", value


@pytest.mark.parametrize("name", NAMES)
def test_its_example_runs(name: str, own_counts: None):
    text = inspect.getdoc(OBJECTS[name])
    assert text, f"{name} has no docstring"
    names = {"anyshape": anyshape, "torch": torch, "tempfile": tempfile}
    test = doctest.DocTestParser().get_doctest(text, dict(names), name, f"<{name}>", 0)
    assert test.examples, f"the docstring of {name} has no example"
    told: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    ran = doctest.DocTestRunner(optionflags=options).run(test, out=told.append)
    assert ran.failed == 0, "".join(told)


@pytest.mark.parametrize("name", NAMES)
def test_its_methods_are_described(name: str):
    bare = [each for each, function in functions_of(name) if not inspect.getdoc(function)]
    assert not bare


@pytest.mark.parametrize("name", NAMES)
def test_no_type_is_any_alone(name: str):
    vague = [
        f"{each}({parameter or 'returns'})"
        for each, function in functions_of(name)
        for parameter, hint in [
            *((p.name, p.annotation) for p in _parameters(function)),
            ("", inspect.signature(function).return_annotation),
        ]
        if hint in ("Any", Any, inspect.Parameter.empty)
    ]
    assert not vague


@pytest.mark.parametrize("name", ["Stats", "Dim", "Shapes", "Exported", "Compiled"])
def test_help_shows_what_a_class_is_made_of(name: str):
    parameters = list(_parameters(OBJECTS[name]))
    assert parameters
    for each in parameters:
        assert each.annotation not in ("Any", Any, inspect.Parameter.empty)


def test_help_shows_the_fields_of_errors():
    given = inspect.signature(anyshape.errors.RecompileError).parameters
    assert list(given) == ["where", "function", "reasons", "rule"]
    assert given["rule"].default == "config.error_on_recompile is set"
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in given.values())


def _parameters(function: Any) -> Iterator[inspect.Parameter]:
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in ("self", "cls") and parameter.kind not in stars:
            yield parameter


def test_help_describes_every_argument_of_compile():
    text = render_doc(anyshape.compile)
    for name in inspect.signature(anyshape.compile).parameters:
        if name != "function":
            assert f"`{name}`" in text


def test_help_describes_every_setting():
    text = render_doc(anyshape.config)
    for each in anyshape.config.describe():
        assert each.text, f"{each.name} has no comment in config.py"
        assert f"{each.name}: " in text
        assert each.variable in text
