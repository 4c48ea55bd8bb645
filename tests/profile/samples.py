"""Profiles to test with, and processes of their own to learn them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from anyshape.policy.observations import Observation, of_int, of_sizes
from anyshape.profile.histogram import added
from anyshape.profile.profiles import Profile
from anyshape.profile.records import FunctionRecord, combine, record_of_call


def function(
    calls: list[dict[str, Observation]],
    name: str = "f",
    *,
    file: str = "/home/me/model.py",
    line: int = 2,
    used: int = 1,
    written: frozenset[str] = frozenset(),
    of_modules: frozenset[str] = frozenset(),
) -> FunctionRecord:
    """The record of a function that was compiled for each of these calls."""
    record = FunctionRecord(name, file, line, used, written=written)
    for call in calls:
        sources = {
            source: record_of_call(seen, source in of_modules) for source, seen in call.items()
        }
        record = combine(record, FunctionRecord(name, file, line, used, sources), added)
    return record


def profile(**functions: FunctionRecord) -> Profile:
    return Profile().with_records(functions, added)


TWO_SIZES = function(
    [
        {"L['x']": of_sizes((10, 4), (4, 1)), "L['n']": of_int(3)},
        {"L['x']": of_sizes((20, 4), (4, 1)), "L['n']": of_int(3)},
    ]
)


def python(
    script: Path | str, cache: Path, settings: Mapping[str, str] | None = None, check: bool = True
) -> str:
    """What a program prints in a process of its own, with a profile in `cache`."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={
            **os.environ,
            "ANYSHAPE_PROFILE": "1",
            "ANYSHAPE_CACHE_DIR": str(cache),
            "ANYSHAPE_ON_COMPILE_ERROR": "raise",
            **(settings or {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not check or run.returncode == 0, run.stderr
    return run.stdout
