"""Optimizers, and what is done to gradients and averages around them: as rows of small programs.

A row trains a few parameters with given gradients and a rate that changes at each step, and tells
what they are after each step, and the optimizer's state. `compile` is the identity or a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from tests.wrappers.programs import Compile, copied, state

#: Of the parameters; equal ones are found to be repeats.
SHAPES = ((4, 3), (3,), (5, 4), (4, 3), ())
MATRICES = ((4, 3), (6, 2), (4, 3))
STEPS = 12


class Row(NamedTuple):
    kind: str
    options: dict[str, Any]

    def make(self, params: Any) -> Any:
        return getattr(torch.optim, self.kind)(params, **self.options)

    @property
    def name(self) -> str:
        return " ".join((self.kind, *(f"{key}={value}" for key, value in self.options.items())))


#: By class: options apart from `foreach`, each with all values of it.
_OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "SGD": ({}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1, "maximize": True}),
    "Adam": ({}, {"amsgrad": True, "weight_decay": 0.1}, {"capturable": False, "maximize": True}),
    "AdamW": ({}, {"amsgrad": True}, {"maximize": True}),
    "RMSprop": ({}, {"momentum": 0.5, "centered": True}, {"weight_decay": 0.1, "maximize": True}),
    "Adagrad": ({}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"maximize": True}),
    "Adadelta": ({"lr": 0.5}, {"weight_decay": 0.1, "maximize": True}),
    "Adamax": ({}, {"weight_decay": 0.1, "maximize": True}),
    "NAdam": ({}, {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"maximize": True}),
    "RAdam": ({}, {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"maximize": True}),
    "Rprop": ({}, {"maximize": True}),
    "ASGD": ({}, {"t0": 2, "weight_decay": 0.1, "maximize": True}),
    "Adafactor": ({}, {"weight_decay": 0.1, "maximize": True}),
}

ROWS = [
    Row(kind, {"foreach": foreach, **options})
    for kind, several in _OPTIONS.items()
    for options in several
    for foreach in (False, True, None)
]
ROWS += [Row("AdamW", {"fused": True}), Row("SGD", {"fused": True}), Row("Muon", {})]


def parameters(
    shapes: tuple[tuple[int, ...], ...] = SHAPES, seed: int = 0
) -> list[torch.nn.Parameter]:
    made = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=made)) for shape in shapes]


def gradients(params: list[torch.nn.Parameter], steps: int = STEPS) -> Iterator[int]:
    """Give the parameters gradients, step after step."""
    made = torch.Generator().manual_seed(1)
    for step in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=made)
        yield step


def graphs_of(compiled: Any) -> int:
    return compiled.stats().graphs if hasattr(compiled, "stats") else 0


class Told(NamedTuple):
    #: parameters and state after each step
    steps: list[Any]
    #: of the compiled step, after each step
    graphs: list[int]


def train(
    compile: Compile,
    row: Row,
    between: Callable[[int, list[torch.nn.Parameter], Any], None] = lambda *_: None,
) -> Told:
    """`between`: what the program does before a step, when there are gradients."""
    params = parameters(MATRICES if row.kind == "Muon" else SHAPES)
    optimizer = row.make(params)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = compile(optimizer.step)
    told = Told([], [])
    for index in gradients(params):
        between(index, params, optimizer)
        step()
        scheduler.step()
        told.steps.append(([copied(each) for each in params], state(optimizer)))
        told.graphs.append(graphs_of(step))
    return told
