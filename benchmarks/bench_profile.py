"""What the profile costs: nothing for a hit, little for a compile, and the disk in the background.

*Hit*: a call that an entry serves, with and without a profile, in rounds that follow one another;
the medians of the rounds are compared. *Compile*: the share of the profile in a compile, for a
function whose profile is in a file of the largest size there is. *Save*: the thread's work.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import anyshape
from anyshape.policy.observations import of_sizes
from anyshape.profile import profiles, store
from anyshape.profile.histogram import added
from anyshape.profile.identity import identity_of
from anyshape.profile.records import FunctionRecord, record_of_call
from anyshape.profile.session import Session

ROUNDS, CALLS = 31, 2000
SOURCES = {f"L['x{i}']": of_sizes((i, 64), (64, 1)) for i in range(8)}


def function(x: torch.Tensor) -> torch.Tensor:
    return x * x.size()[0]


def seconds(call: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def compiled(profile: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    made = anyshape.compile(function)
    with anyshape.config.patch(profile=profile):
        for size in (10, 20):
            made(torch.ones(size))
    return made


def hits() -> dict[str, float]:
    x = torch.ones(30)
    found: dict[bool, list[float]] = {True: [], False: []}
    calls = {profile: compiled(profile) for profile in found}
    for _ in range(ROUNDS):
        for profile, call in calls.items():
            with anyshape.config.patch(profile=profile):
                found[profile].append(1e6 * seconds(lambda call=call: call(x), CALLS))
    differences = [on - off for on, off in zip(found[True], found[False], strict=True)]
    return {
        "with_us": statistics.median(found[True]),
        "without_us": statistics.median(found[False]),
        "difference_us": statistics.median(differences),
    }


def fill(file: Path) -> int:
    """A profile as large as they get."""
    sources = {name: record_of_call(seen) for name, seen in SOURCES.items()}
    record = FunctionRecord("f", "/home/me/model.py", 1, 1, sources)
    functions = {f"f{i}#0123456789": record for i in range(profiles.MOST_BYTES // 800)}
    store.update(file, lambda before: before.with_records(functions, added))
    return file.stat().st_size


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, anyshape.config.patch(cache_dir=folder):
        file = store.file_in(folder)
        result: dict[str, object] = {"hit": hits()}
        result["file_bytes"] = fill(file)
        session, identity = Session(), identity_of(function)
        assert identity is not None
        result["compile"] = {
            "identity_us": 1e6 * seconds(lambda: identity_of(function), 200),
            "first_read_ms": 1e3 * seconds(lambda: session.known(identity.key), 1),
            "known_us": 1e6 * seconds(lambda: session.known(identity.key), 200),
            "learn_us": 1e6 * seconds(lambda: session.learn(identity, SOURCES, frozenset()), 200),
        }
        result["save_ms"] = 1e3 * seconds(lambda: session.finish(60), 1)
        return result
