"""What becomes of a captured graph: native code with call-outs, or torch operator by operator.

In: a graph with its notes (`ops/node_notes.py`). Out: a function of the graph's inputs.
"""

from anyshape.backends.eager import run_graph
from anyshape.backends.native import run_native

__all__ = ["run_graph", "run_native"]
