"""Two ranks write a file each, and `tlparse` shows them side by side."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.events.trace.test_tlparse import TLPARSE

PROGRAM = """
import torch
import torch.distributed
import anyshape

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
function = anyshape.compile(lambda x: x * 2)
with anyshape.config.patch(enable_compiler_collectives=True):
    function(torch.rand(4 + rank))
torch.distributed.barrier()  # the store is gone with the first of them
torch.distributed.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.slow
def test_two_ranks(tmp_path: Path):
    program, trace, pages = tmp_path / "program.py", tmp_path / "trace", tmp_path / "pages"
    program.write_text(PROGRAM, encoding="utf-8")
    variables = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "ANYSHAPE_TRACE": str(trace),
    }
    ranks = [
        subprocess.Popen([sys.executable, program], env={**variables, "RANK": rank})
        for rank in ("0", "1")
    ]
    assert [rank.wait(100) for rank in ranks] == [0, 0]
    assert TLPARSE is not None
    options = ["--all-ranks-html", "--overwrite", "--no-browser", "--strict"]
    subprocess.run([TLPARSE, trace, "-o", pages, *options], check=True, timeout=60)
    for rank in ("rank_0", "rank_1"):
        (told,) = (pages / rank / "-_0_0_0").glob("compiler_collective_*")
        held = json.loads(told.read_text(encoding="utf-8"))
        assert held["ranks"] == [0, 1]
        assert list(held["differing"]) == ["L['x']"]
