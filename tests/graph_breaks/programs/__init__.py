"""Short programs with one or more calls that cannot be traced, by what they are about.

Importing this package fills the table.
"""

from __future__ import annotations

from tests.graph_breaks.programs import (
    boundaries,
    expressions,
    flow,
    functions,
    handlers,
    loops,
    modules,
    natives,
    numpy_calls,
    state,
)
from tests.graph_breaks.table import PROGRAMS

__all__ = [
    "PROGRAMS",
    "boundaries",
    "expressions",
    "flow",
    "functions",
    "handlers",
    "loops",
    "modules",
    "natives",
    "numpy_calls",
    "state",
]
