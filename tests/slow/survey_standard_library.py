"""Instrument every function of the standard library, in whatever interpreter runs this file.

It prints one JSON object: how many functions there were, how many were instrumented, and the
reasons of the others with some names. It needs neither torch nor pytest.

    PYTHONPATH=src python3.13 tests/slow/survey_standard_library.py [every]
"""

from __future__ import annotations

import collections
import json
import os
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from anyshape.capture.rewrite.instrument import Refused, instrumented_code
from anyshape.capture.rewrite.source import all_code

SKIPPED = {"test", "tests", "site-packages", "lib2to3", "idlelib", "turtledemo", "__pycache__"}


def files() -> Iterator[Path]:
    for folder, folders, names in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = sorted(set(folders) - SKIPPED)
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(".py"))


def functions(path: Path) -> Iterator[CodeType]:
    try:
        module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return
    yield from (code for code in all_code(module) if is_function(code))


def is_function(code: CodeType) -> bool:
    # Code of classes and modules does not have its own fast variables.
    is_named = not code.co_name.startswith("<") or code.co_name == "<lambda>"
    return is_named and bool(code.co_flags & 0x2)


def survey(every: int) -> dict[str, object]:
    warnings.simplefilter("ignore")
    total = instrumented = 0
    seconds = 0.0
    refused: dict[str, list[str]] = collections.defaultdict(list)
    crashed: list[str] = []
    for path in list(files())[::every]:
        for code in functions(path):
            total += 1
            start = time.perf_counter()
            try:
                made = instrumented_code(code, {})
            except Exception as error:
                crashed.append(f"{path}:{code.co_firstlineno} {code.co_qualname}: {error!r}")
                continue
            seconds += time.perf_counter() - start
            if isinstance(made, Refused):
                where = f"{path}:{code.co_firstlineno} {code.co_qualname}"
                refused[made.reason].append(where)
            else:
                instrumented += 1
                assert made.co_name == code.co_name
                assert made.co_qualname == code.co_qualname, (made.co_qualname, code.co_qualname)
                assert made.co_firstlineno == code.co_firstlineno, code
                assert made.co_filename == code.co_filename
    return {
        "total": total,
        "instrumented": instrumented,
        "seconds": seconds,
        "crashed": crashed,
        "refused": {reason: [len(where), where[:20]] for reason, where in refused.items()},
    }


if __name__ == "__main__":
    print(json.dumps(survey(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
