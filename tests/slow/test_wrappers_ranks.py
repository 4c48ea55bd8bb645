"""Wrappers that training uses: every row of the survey in one process, and on two gloo ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.slow.wrappers_program import ROWS
from tests.wrappers.programs import ROWS as IN_ONE_PROCESS
from tests.wrappers.test_wrappers import FAST, MOST_GRAPHS, check

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.slow.wrappers_program"

#: Under `anyshape run`: as they are in the scripts of others.
WITH_COMPAT = (
    "compiled_ddp",
    "ddp_of_compiled",
    "ddp_of_compiled_forward",
    "compiled_ddp_accumulated",
    "fsdp_by_layer_compiled_after",
    "fsdp_by_layer_layers_compiled_before",
    "tensor_parallel",
)


def ranks(folder: Path, how: str, wanted: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    program = [PROGRAM, str(folder), how, *wanted]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", *program]
    if how == "compat":
        launch = ["-m", "anyshape", "run", *launch]
    ran = subprocess.run(
        [sys.executable, *launch],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "ANYSHAPE_PROFILE": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ranks(tmp_path_factory.mktemp("plain"), "plain")


@pytest.fixture(scope="module")
def compat(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ranks(tmp_path_factory.mktemp("compat"), "compat", WITH_COMPAT)


#: Operations on `DTensor` run as they are; one rank has left when its first graph is there.
MAY_HAVE_NO_HITS = {"fsdp_with_compiled_optimizer", "joined"}


def check_told(told: list[dict[str, Any]], name: str) -> None:
    for of_rank in told:
        row = of_rank[name]
        assert row["difference"] is None
        assert 0 < row["graphs"] <= MOST_GRAPHS, row["explained"]
        assert row["hits"] > 0 or name in MAY_HAVE_NO_HITS
        assert row["warnings"] == []
    assert len({of_rank[name]["collectives"] for of_rank in told}) == 1


@pytest.mark.parametrize("name", ROWS)
def test_two_ranks(plain: list[dict[str, Any]], name: str):
    check_told(plain, name)


@pytest.mark.parametrize("name", WITH_COMPAT)
def test_two_ranks_under_run(compat: list[dict[str, Any]], name: str):
    check_told(compat, name)


def test_collectives_are_counted(plain: list[dict[str, Any]]):
    """Else that compiled steps make as many as eager ones says nothing."""
    assert plain[0]["compiled_ddp"]["collectives"] > 7
    assert plain[0]["fsdp_by_layer_compiled_after"]["collectives"] > 28
    accumulated = plain[0]["compiled_ddp_accumulated"]["collectives"]
    assert accumulated < plain[0]["compiled_ddp"]["collectives"]


@pytest.mark.parametrize("name", [name for name in IN_ONE_PROCESS if name not in FAST])
def test_in_one_process(name: str):
    check(name)
