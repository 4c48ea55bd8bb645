"""`python child.py SYSTEM SCRIPT ARGS…`: a script as its users run it, but for its steps, which
take turns. Counts go to stderr."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path


def run_by_anyshape(script: str) -> dict[str, int]:
    import anyshape
    from anyshape.compat.installing import run_as_main

    assert not run_as_main(script)
    made = anyshape.stats()
    return {"graphs": made.graphs, "recompiles": made.recompiles}


def run_by_torch(script: str) -> dict[str, int]:
    from torch._dynamo import utils

    utils.set_compilation_metrics_limit(1 << 20)
    runpy.run_path(script, run_name="__main__")
    # "3/1": the second compile of the function with the number 3.
    compiles = {str(each.compile_id) for each in utils.get_compilation_metrics()}
    again = [each for each in compiles if each.partition("/")[2].partition("_")[0] not in ("", "0")]
    return {"graphs": utils.counters["stats"]["unique_graphs"], "recompiles": len(again)}


def run_eagerly(script: str) -> dict[str, int]:
    runpy.run_path(script, run_name="__main__")
    return {}


SYSTEMS = {"eager": run_eagerly, "anyshape": run_by_anyshape, "torch.compile": run_by_torch}

if __name__ == "__main__":
    system, *sys.argv = sys.argv[1:]
    here, folder = Path(__file__).parent, Path(sys.argv[0]).resolve().parent
    sys.path[0:1] = [str(here / "turns"), str(folder)]
    counts = SYSTEMS[system](sys.argv[0])
    if os.environ.get("RANK", "0") == "0":
        print("counts:", json.dumps(counts), file=sys.stderr)
