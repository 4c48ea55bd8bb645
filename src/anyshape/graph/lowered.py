"""A graph as a plan and its schedule."""

from __future__ import annotations

import torch.fx

from anyshape.graph.expand_repeats import NotRepeated
from anyshape.graph.lowering import Lowering
from anyshape.graph.plan import Plan
from anyshape.graph.schedule import Schedule, schedule
from anyshape.ops.node_meta import FACTS


def lowered(
    graph: torch.fx.GraphModule,
    *,
    at_once: bool = False,
    gives_up: int | None = None,
    few_rows: int = 0,
    few_keys: bool = False,
) -> tuple[Plan, Schedule]:
    """Layers that are equal are lowered once, where that can be. `at_once`, `gives_up`: as of the
    schedule; `few_rows`, `few_keys`: as of `Lowering`."""
    for whole in (False, True):
        lowering = Lowering(graph.meta[FACTS])
        lowering.few_rows, lowering.few_keys = few_rows, few_keys
        plan = lowering.run(graph.graph, whole=whole, at_once=at_once)
        hint = lowering.facts.hint
        try:
            keeps = at_once and gives_up is None
            return plan, schedule(plan, lowering.same, hint, gives_up=gives_up, keeps=keeps)
        except NotRepeated:
            assert not whole, "there is nothing to repeat"
    raise AssertionError
