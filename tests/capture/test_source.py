"""The text of a code object is found, and text that is not its own is not taken for it."""

# ruff: noqa: E501 - a case is one line

from __future__ import annotations

import importlib.util
import linecache
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyshape.capture.rewrite.instrument import Refused, instrumented_code
from anyshape.capture.rewrite.source import all_code, enclosing_class, imported_names
from tests.capture.observed import under_hooks


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Any]:
    """Import text as a module from a file."""
    numbers = iter(range(100))

    def load(text: str) -> types.ModuleType:
        path = tmp_path / f"module_{next(numbers)}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    yield load
    linecache.clearcache()


def reason(function: Any) -> str:
    refused = instrumented_code(function.__code__, function.__globals__)
    assert isinstance(refused, Refused), "it was instrumented"
    return refused.reason


# Each defines `f`, which returns 42.
LAYOUTS = {
    "first line": "def f(): return 42",
    "decorators": "def deco(*a, k=0): return lambda f: f\n@deco(\n 1,\n k=2)\n# comment\n@deco()\n\ndef f(x=lambda: 1):\n    return 42\ny = 1\n",
    "low strings": 'def f():\n    x = """\nnot indented\ndef g(): pass\n"""\n    return 42 if x else """\nz\n"""\nz = 1\n',
    "trailing string": 'def f():\n    return 42 or """\nq = 1\n"""\nq = 2\n',
    "brackets at the margin": "def f(\n    a=1,\n    b=2,\n):\n    return sum(\n[\n40, a, 1\n]\n)\nx = 3\n",
    "comments at the margin": "def f():\n    x = 41\n# comment\n    # more\n    return x + 1\n# end\ng = 1\n",
    "continuation": "def f(): \\\n  return 42\n",
    "tabs": "class A:\n\tdef f(self=1):\n\t\treturn 42\nf = A.f\n",
    "one space": "class A:\n def f(self=1):\n  return 42\nf = A.f\n",
    "in a block": "if True:\n  try:\n    def f():\n        return 42\n  finally:\n    pass\n",
    "one of two": "if False:\n    def f(): return 1\nelse:\n    def f(): return 42\n",
    "same name again": "def f(): return 1\ndef f(): return 42\n",
    "on one line": "class A: f = lambda: 42\nf = A.f\n",
    "nested": "def g():\n    def h():\n        def f():\n            return 42\n        return f\n    return h()\nf = g()\n",
    "private": "class _A_:\n    __x = 42\n    def __g(self): return self.__x\n    def f(self=None): return _A_().__g()\nf = _A_.f\n",
    "private in a function": "class A:\n    __x = 42\n    def g(self):\n        def f(): return self.__x\n        return f\nf = A().g()\n",
    "imports": "import sys, os.path as p\ndef f():\n    p.join('a'); sys.getsizeof(1); p.sep.join([]); sys.x = 1\n    del sys.x\n    return 42\n",
    "local like an import": "import sys\nclass S:\n    def m(self): return 42\ndef f(sys=S()): return sys.m()\n",
    "future": "from __future__ import annotations\ndef f(x: undefined = 1) -> what:\n    def g(y: nothing): return 42\n    return g(1) if g.__annotations__ == {'y': 'nothing'} else 0\n",
    "warnings": "import warnings\nwarnings.simplefilter('ignore')\ndef f():\n    return 42 if '\\d' and 1 is 1 else 0\n",
    "unicode": "def f(ä=1): é = 'ü'; return 42 if é and ä else (lambda ß: ß)(0)\n",
    "class inside": "def f():\n    class A:\n        x = 42\n    return A.x if A.__qualname__ == 'f.<locals>.A' else 0\n",
    "windows lines": "def f():\r\n    x = 41\r\n    return x + 1\r\n",
    "form feed": "x = 1\n\x0c\ndef f():\n    return 42\n\x0c\ny = 1\n",
    "no last newline": "class A:\n    def f(self=1):\n        return 42\n    f = staticmethod(f)\nf = A.f",
    "generator": "def g():\n    yield 42\ndef f(): return next(g())\n",
    "constants": "def f():\n    x = (1, 1.0, True, -0.0, 0.0, 1j, b'a', frozenset({1}), ..., 'a')\n    return 42 if 3 in {1, 3, 5.0, 'x'} else x\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_layouts(layout: str, module: Any) -> None:
    function = module(LAYOUTS[layout]).f
    observed = under_hooks(function)
    assert function() == observed() == 42
    assert observed.__code__.co_firstlineno == function.__code__.co_firstlineno


@pytest.mark.parametrize("names", [("Sub.f",), ("g", "Sub.g")], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_code_that_was_given_another_name(layout: str, names: tuple[str, ...], module: Any) -> None:
    """As libraries do, to tell the classes apart that share a method."""
    function = module(LAYOUTS[layout]).f
    given = dict(zip(("co_name", "co_qualname"), names, strict=False))
    function.__code__ = function.__code__.replace(**given)
    observed = under_hooks(function)
    assert function() == observed() == 42
    code = observed.__code__
    assert (code.co_name, code.co_qualname)[: len(names)] == names


def test_names_in_code_that_was_given_another_name(module: Any) -> None:
    made = module(
        "def f():\n"
        "    def g(): return [lambda: 1]\n"
        "    class A:\n"
        "        def m(self): pass\n"
        "    global h\n"
        "    def h(): pass\n"
        "    return [each.__qualname__ for each in (h, g, g()[0], A, A.m)]\n"
    )
    before = made.f()
    made.f.__code__ = made.f.__code__.replace(co_name="Sub.f", co_qualname="Sub.f")
    assert under_hooks(made.f)() == made.f() == before


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of 3.12")
def test_type_parameters(module: Any) -> None:
    function = module("def f[T](x: T = 1) -> T:\n    return 42, T\n").f
    assert under_hooks(function)() == function()


def test_lambdas_on_one_line(module: Any) -> None:
    made = module(
        "fs = [lambda: 1, lambda: 2, lambda x=(lambda: 3): x() + 0, lambda: (lambda: 4)]\n"
        "class A:\n    __p = 7\n    g = lambda self: (self.__p,\n      'é', lambda: 5)\n"
        "h = (\n    lambda x:\n      x + 1\n)\n"
        "same = lambda: 1 + made, lambda: 1 + made\nmade = 1\n"
    )
    assert [under_hooks(each)() for each in made.fs[:3]] == [1, 2, 3]
    assert under_hooks(made.fs[2].__defaults__[0])() == 3
    assert under_hooks(made.fs[3]())() == 4
    assert under_hooks(made.A.g)(made.A())[:2] == (7, "é")
    assert under_hooks(made.A().g()[2])() == 5
    assert under_hooks(made.h)(1) == 2
    assert [under_hooks(each)() for each in made.same] == [2, 2]
    columns = [next(iter(under_hooks(each).__code__.co_positions())) for each in made.same]
    assert columns[0] == columns[1]


CHANGES = [
    ("return x + 1", "return x - 1"),
    ("return x + 1", "return x + 2"),
    ("return x + 1", "return y + 1"),
    ("return x + 1", "return x + True"),
    ("return x + 1", "return x + 1.0"),
    ("return x.a", "return x.b"),
    ("return x or 0.0", "return x or -0.0"),
    ("return (1, 2)", "return (1, 2.0)"),
    ("return lambda: 1", "return lambda: 2"),
    ("return x in {1, 2}", "return x in {1, 2.0}"),
    ("y = x; return y", "z = x; return z"),
    ("return x", "syntax error"),
    ("return x", "yield x"),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_file_that_was_edited_is_refused(before: str, after: str, module: Any) -> None:
    made = module(f"def f(x):\n    {before}\n")
    Path(made.__file__).write_text(f"def f(x):\n    {after}\n", encoding="utf-8")
    linecache.clearcache()
    assert reason(made.f) in {"its source has changed", "its source is not available"}


def test_a_function_that_moved_is_refused(module: Any) -> None:
    made = module("def f(x):\n    return x\n\ndef g(x):\n    return x\n")
    path = Path(made.__file__)
    path.write_text("\n\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    linecache.clearcache()
    assert "source" in reason(made.f)


def test_a_module_that_was_loaded_again_is_read_again(module: Any) -> None:
    made = module("def f():\n    return 1\n")
    linecache.getlines(made.__file__)
    text = "x = 1\ndef f():\n    return 12\n"
    Path(made.__file__).write_text(text, encoding="utf-8")
    exec(compile(text, made.__file__, "exec"), made.__dict__)
    assert under_hooks(made.f)() == 12


def test_a_missing_file_is_refused(module: Any) -> None:
    made = module("def f(): return 1\ng = lambda: 2\n")
    Path(made.__file__).unlink()
    linecache.clearcache()
    assert reason(made.f) == reason(made.g) == "its source is not available"


def test_text_without_lines_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("def f(): return 1\ng = lambda: 2", names)
    assert reason(names["f"]) == reason(names["g"]) == "its source is not available"
    namespace: dict[str, Any] = {}
    exec(compile("\n" * 10_000 + "def f(): return 1", __file__, "exec"), namespace)
    assert reason(namespace["f"]) == "its source is not available"


def test_a_loader_is_asked_for_text() -> None:
    class Loader:
        def get_source(self, name: str) -> str:
            return "def f():\n    return 42\n"

    names: dict[str, Any] = {"__name__": "zipped", "__loader__": Loader()}
    exec(compile(Loader().get_source(""), "/nowhere/zipped.py", "exec"), names)
    assert under_hooks(names["f"])() == 42


ENCLOSING = {
    "f": None,
    "A.f": "A",
    "A.B.f": "B",
    "f.<locals>.g": None,
    "A.f.<locals>.g": "A",
    "A.f.<locals>.g.<locals>.<lambda>": "A",
    "f.<locals>.A.g": "A",
    "A.f.<locals>.B.g.<locals>.h": "B",
}


@pytest.mark.parametrize(("name", "expected"), ENCLOSING.items())
def test_enclosing_class(name: str, expected: str | None) -> None:
    assert enclosing_class(name) == expected


def test_imported_names() -> None:
    text = "import a, b\nfrom c import d\ndef f(x, b):\n    a.f(1); b.f(2); d.f(); e.f(); x.f(); a.y; x.y; e.g.h()\n    def g(): b.f()\n"
    code = next(each for each in all_code(compile(text, "t", "exec")) if each.co_name == "f")
    assert imported_names(code) == {"a", "b", "d"}
