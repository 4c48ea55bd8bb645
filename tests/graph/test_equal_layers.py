"""Equal layers are lowered a few times and their steps repeated: the program is the one that comes
out if all of them are lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.fx

import anyshape
from anyshape.backends.eager import run_graph
from anyshape.backends.native import backend
from anyshape.graph.lowering import Lowering
from anyshape.graph.plan import Plan
from anyshape.graph.schedule import Schedule, schedule
from anyshape.loops.canonical import own_names
from anyshape.loops.expr import fresh_scope
from anyshape.loops.program import Segment
from anyshape.loops.text import segment_text
from anyshape.ops.node_meta import FACTS
from tests.graph.layers import (
    LAYERS,
    ODD,
    Network,
    RandomLayers,
    also_returned,
    inputs,
    post_norm,
    stacked,
    weights,
)
from tests.native.checks import check
from tests.native.opdb import same

COUNT = 14


def in_words(made: Schedule) -> list[str]:
    """A schedule without the names that the plan chose, but with those of the inputs."""
    found: list[str] = []
    for part in made.parts:
        if isinstance(part, Segment):
            found.append(segment_text(replace(own_names(part), repeated=None)))
            found.append(" ".join(b.name for b in part.inputs if b.name in made.plan.inputs))
        else:
            found.append(f"{part.target} {len(part.args)}")
    return found


class Lowered:
    """A backend that lowers graphs in both ways."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        with fresh_scope():
            plan, made = backend.lowered(graph)
            self.plans.append(plan)
            lowering = Lowering(graph.meta[FACTS])
            whole = lowering.run(graph.graph, whole=True)
            wanted = schedule(whole, lowering.same, lowering.facts.hint)
            assert in_words(made) == in_words(wanted)
            assert (plan.native, plan.called) == (whole.native, whole.called)
            assert made.plan.inputs == wanted.plan.inputs
        return run_graph(graph, examples)

    @property
    def elided_repeats(self) -> int:
        return sum(
            plan.elided_repeats.count for plan in self.plans if plan.elided_repeats is not None
        )


def lowered(program: Callable[..., Any], layers: list[list[torch.Tensor]]) -> Lowered:
    found = Lowered()
    with torch.no_grad():
        anyshape.compile(Network(program, layers), dynamic=True, backend=found)(inputs())
    assert found.plans
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    found = lowered(stacked(LAYERS[name]), weights(COUNT))
    # Those that run into each other are joined across layers without end.
    assert found.elided_repeats or name in ("pointwise", "summed", "reduced")


@pytest.mark.parametrize("name", ["post_norm", "pre_norm", "attention", "viewed", "causal"])
def test_values(name: str) -> None:
    network = Network(stacked(LAYERS[name]), weights(COUNT))
    plans = check(network, [(inputs(rows),) for rows in (5, 1, 9, 0)])
    assert all(plan.elided_repeats is not None for plan in plans.made)


@pytest.mark.parametrize("program", ODD, ids=lambda each: each.__name__)
@pytest.mark.parametrize("at", [2])
def test_layers_that_differ(program: Callable[..., Any], at: int) -> None:
    lowered(lambda x, layers: program(x, layers, at), weights(COUNT))


@pytest.mark.parametrize("which", ["dtype", "strides", "shape", "alias"])
def test_weights_that_differ(which: str) -> None:
    layers = weights(COUNT)
    match which:
        case "dtype":
            layers[4][2] = layers[4][2].double()
        case "strides":
            layers[4][0] = layers[4][0].t()
        case "shape":
            layers[4][1] = layers[4][1][:1]
        case _:
            layers[4][1] = layers[7][1] = torch.nn.Parameter(layers[4][1], requires_grad=False)
    layer = LAYERS["pointwise"] if which == "dtype" else post_norm
    assert not lowered(stacked(layer), layers).elided_repeats


@pytest.mark.parametrize("seed", range(12))
def test_random_layers(seed: int) -> None:
    lowered(RandomLayers(seed), weights(COUNT))


@pytest.mark.parametrize("seed", [3])
def test_values_of_random_layers(seed: int) -> None:
    network = Network(RandomLayers(seed), weights(COUNT))
    compiled = anyshape.compile(network, dynamic=True)
    with torch.no_grad():
        for rows in (5, 5, 8):
            same(compiled(inputs(rows)), network(inputs(rows)))


def test_what_one_layer_returns() -> None:
    """The layers behind it are still the same."""
    found = lowered(lambda x, layers: also_returned(x, layers, 2), weights(COUNT))
    assert found.elided_repeats
