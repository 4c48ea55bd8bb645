"""What becomes of a captured graph: native code with call-outs, or torch operator by operator.

In: a graph with its notes (`ops/node_meta.py`). Out: a function of the graph's inputs.
"""

from collections.abc import Callable
from typing import Any, Final

from anyshape.backends.eager import run_graph, with_checks
from anyshape.backends.native.backend import MODES_OF_NATIVE, run_native, run_native_or_wait

BACKENDS: Final[dict[str, Callable[..., Any]]] = {"native": run_native_or_wait, "eager": run_graph}

__all__ = ["BACKENDS", "MODES_OF_NATIVE", "run_graph", "run_native", "with_checks"]
