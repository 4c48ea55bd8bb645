"""What `import anyshape` and its parts add to `import torch`, each in a fresh process."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

_RUNS = 5
_TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def _seconds(statement: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", statement], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def run() -> dict[str, Any]:
    """Medians of interleaved fresh processes."""
    statements = {
        "torch seconds": _TIMED.format("import torch"),
        "anyshape after torch seconds": "import torch; " + _TIMED.format("import anyshape"),
        "anyshape with engine and operators after torch seconds": "import torch; "
        + _TIMED.format("import anyshape, anyshape.symbolic, anyshape.ops.infer"),
    }
    found: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(_RUNS):
        for name, statement in statements.items():
            found[name].append(_seconds(statement))
    return {name: statistics.median(values) for name, values in found.items()}
