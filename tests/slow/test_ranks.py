"""Four ranks under `torchrun`, with gloo, on this machine: one run, and what each says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.slow.ranks_program import CACHED, KILLED, LIMIT, SLEEPER

PROGRAM = Path(__file__).with_name("ranks_program.py")
#: Compiling on a machine that is busy, beside the time waited.
SLACK = 6.0

X0, X1 = "L['x'].size()[0]", "L['x'].size()[1]"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    ran = subprocess.run(
        [*launch, str(PROGRAM), str(folder)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    told = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]
    assert [each.get("done") for each in told] == [rank != KILLED or None for rank in range(4)], (
        ran.stderr
    )
    return told


def dynamic(told: dict[str, Any]) -> list[set[str]]:
    return [{source for source, _ in entry} for entry in told["entries"]]


def test_different_sizes_are_dynamic_on_all_in_one_compile(ranks: list[dict[str, Any]]):
    for told in ranks:
        assert dynamic(told["first"]) == [{X0, "L['batch']['y'][0].size()[0]"}]
        assert told["again"]["entries"] == told["first"]["entries"], "one compile serves all"
        assert told["first"]["warnings"] == told["again"]["warnings"] == []
    assert len({str(told["first"]["entries"]) for told in ranks}) == 1, "the same reasons"


def test_one_rank_asleep(ranks: list[dict[str, Any]]):
    for rank, told in enumerate(ranks):
        seen = told["asleep"]
        if rank == SLEEPER:
            assert seen["seconds"] < LIMIT, "who comes late waits a moment at most"
            assert seen["warnings"] == []
        else:
            assert LIMIT * 0.5 < seen["seconds"] < LIMIT + SLACK
            [warning] = seen["warnings"]
            assert f"rank {SLEEPER} did not come to compile" in warning
        assert dynamic(seen) == [{X0}], "the sleeper's size differs from the others'"


def test_one_rank_hits_its_cache(ranks: list[dict[str, Any]]):
    for rank, told in enumerate(ranks):
        seen = told["cached, second"]
        if rank == CACHED:
            assert dynamic(seen) == [set()]
            assert seen["seconds"] < 1
        else:
            [warning] = seen["warnings"]
            assert f"rank {CACHED} did not come to compile" in warning
            assert dynamic(seen) == [set(), {X0}]
            assert seen["seconds"] < LIMIT + SLACK


def test_it_knows_what_the_others_learned_when_it_compiles_again(ranks: list[dict[str, Any]]):
    for told in ranks:
        seen = told["cached, third"]
        assert seen["seconds"] < LIMIT + SLACK
        assert dynamic(seen)[-1] == {X0, X1}
        assert seen["warnings"] == []


def test_one_rank_killed(ranks: list[dict[str, Any]]):
    assert "killed" not in ranks[KILLED]
    for rank, told in enumerate(ranks):
        if rank == KILLED:
            continue
        seen = told["killed"]
        assert seen["seconds"] < LIMIT + SLACK
        [warning] = seen["warnings"]
        assert f"rank {KILLED} did not come to compile" in warning
        assert dynamic(seen) == [{X0}]
