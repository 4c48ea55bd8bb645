"""CPython's own tests give the same outcomes with every function in them instrumented.

`run_cpython_suite.py` runs the tests twice, as they are and instrumented with `PlainHooks`. The
differences that are known are listed with the reason why no difference in what a program computes
is behind them.
"""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"

MODULES = """\
augassign binop bool call class code collections compare contains contextlib copy dataclasses
decorators defaultdict descr dict dictcomps dynamicclassattribute enum enumerate except_star
exception_group exception_variations exceptions extcall fractions fstring funcattrs functools
generator_stop generators genexps global grammar heapq isinstance itertools iter keywordonlyarg
lambda list listcomps metaclass mro named_expressions operator opcodes patma pep646_syntax
positional_only_arg pow property raise range reversed richcmp scope set setcomps slice sort
string_literals subclassinit super syntax textwrap traceback try types type_comments type_params
unary unpack unpack_ex userdict userlist weakset with yield_from
"""

IDENTITY = "the run replaces functions, and the test knows the function that was there before"
STRUCTURE = "the test looks at the bytecode, the closure or the local variables of the function"
CARETS = "a traceback marks the operation as a whole, not the operator in it"
FRAMES = "the test counts frames, and hooks have frames too"


@dataclass(frozen=True)
class Difference:
    pattern: str
    reason: str
    since: tuple[int, int] = (3, 11)


DIFFERENCES = [
    Difference("test_functools.TestLRUPy.test_pickle", IDENTITY),
    Difference("test_functools.TestPartialMethod.test_repr", IDENTITY),
    Difference("test_functools.TestTotalOrdering.test_pickle", IDENTITY),
    Difference("test_funcattrs.*", STRUCTURE),
    Difference("test_code.CodeTest.test_closure_injection", STRUCTURE),
    Difference("test_code.CodeTest.test_code_hash_uses_bytecode", STRUCTURE, (3, 12)),
    Difference("test_types.FunctionTests.test_function_type_*defaults", STRUCTURE, (3, 13)),
    Difference("test_positional_only_arg.*.test_annotations_constant_fold", STRUCTURE),
    Difference(
        "test_call.TestPEP590.test_vectorcall_override",
        "`f(*a)` passes a tuple that equals `a`, but is not `a` itself",
    ),
    Difference("test_call.TestRecursion.test_super_deep", FRAMES, (3, 12)),
    Difference(
        "test_super.TestSuper.test_shadowed_dynamic",
        "the test puts a `super` into the module after the function was instrumented",
        (3, 12),
    ),
    Difference("test_traceback.*Caret*.test_caret_for_binary_operators*", CARETS),
    Difference("test_traceback.*Caret*.test_byte_offset_with_wide_characters*", CARETS),
    Difference("test_traceback.*Caret*.test_many_lines*", CARETS, (3, 13)),
    Difference(
        "test_traceback.*Caret*.test_decorator_application_lineno_correct",
        "a decorator is called from a frame of ours, on the decorator's line",
    ),
    Difference("test_traceback.TestStack.test_format_locals", STRUCTURE),
    Difference("test_traceback.TestTracebackException.test_comparison_params*", STRUCTURE),
    Difference("test_traceback.TestTracebackException.test_print", STRUCTURE),
    Difference("test_traceback.*.test_recursive_traceback*", FRAMES, (3, 12)),
]
# Differences of one version that need not show on the others or on every machine.
MAY_BE_ABSENT = {"test_traceback.*.test_recursive_traceback*"}


def interpreters() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for version in ("3.11", "3.12", "3.13"):
        paths = sorted(PYENV.glob(f"{version}.*/bin/python"))
        if paths:
            found[version] = paths[-1]
    return found or {f"{sys.version_info[0]}.{sys.version_info[1]}": Path(sys.executable)}


def run(interpreter: Path, mode: str) -> subprocess.Popen[str]:
    names = [f"test.test_{name}" for name in MODULES.split()]
    return subprocess.Popen(
        [interpreter, ROOT / "tests/slow/run_cpython_suite.py", mode, *names],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.parametrize(("version", "interpreter"), interpreters().items())
def test_outcomes_are_those_of_plain_python(version: str, interpreter: Path) -> None:
    processes = {mode: run(interpreter, mode) for mode in ("native", "instrumented")}
    output = {mode: process.communicate()[0] for mode, process in processes.items()}
    native, instrumented = (json.loads(output[mode]) for mode in ("native", "instrumented"))
    if not native["outcomes"]:
        pytest.skip("this Python has no tests of its own")
    differences = {
        name.removeprefix("test."): (outcome, instrumented["outcomes"].get(name))
        for name, outcome in native["outcomes"].items()
        if instrumented["outcomes"].get(name) != outcome
    }
    number = tuple(map(int, version.split(".")))
    known = [each for each in DIFFERENCES if each.since <= number]
    unexpected = {
        name: outcomes
        for name, outcomes in differences.items()
        if not any(fnmatch.fnmatch(name, each.pattern) for each in known)
    }
    gone = [
        each.pattern
        for each in known
        if each.pattern not in MAY_BE_ABSENT and not fnmatch.filter(differences, each.pattern)
    ]
    assert not unexpected
    assert not gone
    assert len(native["outcomes"]) > 3000
    assert instrumented["instrumented"] > 10 * instrumented["refused"]
