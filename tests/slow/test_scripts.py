"""The scripts of `examples/scripts/`, as people run them: the numbers of eager, graphs in each, and
no more of them than there are kinds of calls, whatever the sizes."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

#: All of them take half an hour on two cores.
pytestmark = pytest.mark.skipif(
    not os.environ.get("ANYSHAPE_SCRIPTS"), reason="takes long: ANYSHAPE_SCRIPTS=1 runs it"
)

_ROOT = Path(__file__).parents[2]
_SCRIPTS = _ROOT / "examples" / "scripts"
_STATS = re.compile(r"stats: (\{.*?\})")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Row(NamedTuple):
    steps: int
    most_graphs: int
    ranks: int = 1
    #: why there are more graphs for now
    too_many: str = ""


ROWS: dict[str, Row] = {
    "train_gpt": Row(200, 10),
    "train_gpt_ranks": Row(120, 8, ranks=2),
    "generate_text": Row(100, 40),
    "train_images": Row(100, 8),
    "graph_network": Row(200, 8),
    "policy_gradient": Row(200, 12),
    "distributed": Row(100, 16, ranks=2),
    "suppress_boxes": Row(200, 128),
    "adapt_and_quantize": Row(200, 24),
    "attention_variants": Row(100, 60),
    "per_sample_gradients": Row(200, 24),
}


class Ran(NamedTuple):
    out: str
    stats: list[dict[str, Any]]


def run(name: str, row: Row, **variables: str) -> Ran:
    command = [sys.executable]
    if row.ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={row.ranks}"]
    runner = str(Path(__file__).with_name("run_script.py"))
    done = subprocess.run(
        [*command, runner, str(_SCRIPTS / f"{name}.py"), "--steps", str(row.steps)],
        cwd=_ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ANYSHAPE_PROFILE": "0", **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # Ranks write to one stream, in the middle of each other's lines.
    return Ran(done.stdout, [json.loads(found) for found in _STATS.findall(done.stderr)])


@pytest.fixture(scope="module", params=ROWS)
def ran(request: pytest.FixtureRequest) -> tuple[str, Ran, Ran]:
    """A script, run eagerly and compiled."""
    name = request.param
    eager = run(name, ROWS[name], TORCH_COMPILE_DISABLE="1")
    return name, eager, run(name, ROWS[name])


def test_the_numbers_are_those_of_eager(ran: tuple[str, Ran, Ran]) -> None:
    _, eager, compiled = ran
    assert eager.out
    assert _NUMBER.sub("#", compiled.out) == _NUMBER.sub("#", eager.out)
    for ours, theirs in zip(_NUMBER.findall(compiled.out), _NUMBER.findall(eager.out), strict=True):
        # A last digit is rounded, and training goes on from there.
        assert math.isclose(float(ours), float(theirs), rel_tol=5e-3, abs_tol=5e-3), compiled.out


def test_there_are_graphs(ran: tuple[str, Ran, Ran]) -> None:
    name, _, compiled = ran
    assert len(compiled.stats) == ROWS[name].ranks
    for rank in compiled.stats:
        assert rank["graphs"] > 0
        assert rank["hits"] > ROWS[name].steps // 2


def test_graphs_do_not_go_on_growing(
    ran: tuple[str, Ran, Ran], request: pytest.FixtureRequest
) -> None:
    name, _, compiled = ran
    if ROWS[name].too_many:
        request.applymarker(pytest.mark.xfail(reason=ROWS[name].too_many, strict=True))
    for rank in compiled.stats:
        assert rank["graphs"] <= ROWS[name].most_graphs
