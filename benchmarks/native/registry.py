"""All workloads, by name. Models come last: importing what they need is not undone."""

from __future__ import annotations

from typing import Final

from benchmarks.native.functions import FUNCTIONS
from benchmarks.native.models import MODELS
from benchmarks.native.networks import NETWORKS
from benchmarks.native.workload import Workload

WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload for workload in (*FUNCTIONS, *NETWORKS, *MODELS)
}
