"""`python run_script.py SCRIPT ARGS…`: as `anyshape run` would; counts of graphs go to stderr."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyshape
from anyshape.compat.installing import run_as_main

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0:1] = [str(Path(sys.argv[0]).resolve().parent)]
    status = run_as_main(sys.argv[0])
    made = anyshape.stats()
    counts = {name: getattr(made, name) for name in ("graphs", "captures", "hits", "eager_calls")}
    print("stats:", json.dumps(counts | {"rank": os.environ.get("RANK", "0")}), file=sys.stderr)
    sys.exit(status)
