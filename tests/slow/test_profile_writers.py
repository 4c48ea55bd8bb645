"""Eight processes write one profile two hundred times each, and one of them is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anyshape.profile import store
from anyshape.profile.profiles import Profile

WRITERS, WRITES = 8, 200

#: Says what it is about to write, and what is written: both survive its death.
WRITER = """
import os, sys
from pathlib import Path
from anyshape.policy.observations import of_int, of_sizes
from anyshape.profile import store
from anyshape.profile.histogram import added
from anyshape.profile.records import FunctionRecord, record_of_call

file, number, writes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for i in range(writes):
    calls = {f"L['x{number}_{i}']": of_int(i), "L['n']": of_int(i)}
    own = FunctionRecord("own", "", 1, 1, {k: record_of_call(v) for k, v in calls.items()})
    shared = {"L['x']": record_of_call(of_sizes((number, i)))}
    news = {f"own{number}": own, "shared": FunctionRecord("shared", "", 1, 1, shared)}
    store.update(file, lambda before: before.with_records(news, added))
    os.write(1, f"{i}\\n".encode())
"""


def start(file: Path, number: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-W", "error", "-c", WRITER, str(file), str(number), str(WRITES)]
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def written(known: Profile, number: int) -> int:
    """How many of a writer's writes are there: it has a source for each."""
    record = known.get(f"own{number}")
    return 0 if record is None else len(record.sources) - 1


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_but_the_last_write_of_the_killed(tmp_path: Path, seed: int):
    chance = random.Random(seed)
    file = tmp_path / "profile.json"
    writers = [start(file, number) for number in range(WRITERS)]
    killed = chance.randrange(WRITERS)
    while written(store.read_exactly(file), killed) < chance.randrange(1, WRITES // 2):
        time.sleep(0.01)
    time.sleep(chance.random() / 50)
    writers[killed].send_signal(signal.SIGKILL)
    reads = 0
    while any(writer.poll() is None for writer in writers):
        store.read_exactly(file)  # raises if it is not whole
        reads += 1
        time.sleep(0.005)
    done: list[int] = []
    for number, writer in enumerate(writers):
        out, err = writer.communicate()
        assert writer.returncode == (-signal.SIGKILL if number == killed else 0), err
        done.append(len(out.splitlines()))
    known = store.read_exactly(file)
    for number in range(WRITERS):
        if number == killed:
            # Between the write and saying so it may have died as well.
            assert done[number] <= written(known, number) <= done[number] + 1 < WRITES
        else:
            assert done[number] == written(known, number) == WRITES
    counts = known["shared"].sources["L['x']"].counts[0]
    assert sum(counts.values()) == sum(written(known, number) for number in range(WRITERS))
    assert reads > 10
    # Nothing is left behind for long: at most one unfinished file, that the next write replaces.
    assert {each.name for each in tmp_path.iterdir()} <= {
        "profile.json",
        "profile.lock",
        "profile.new",
    }
