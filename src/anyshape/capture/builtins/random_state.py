"""Models of seeds and states of random number generators: the graph sets and reads them in order.

Random numbers are torch's own in compiled runs, drawn in the order of the program, so that a seed
means the same there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx.node import has_side_effect

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.effects import perform
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.numbers.concolic import TracedInt
from anyshape.capture.value_kinds import ATOMS


@has_side_effect
def seed_all(seed: int) -> None:
    """A node of the graph: `torch.manual_seed(seed)`."""
    torch.manual_seed(seed)


@has_side_effect
def set_state(state: torch.Tensor) -> None:
    """A node of the graph: `torch.set_rng_state(state)`."""
    torch.default_generator.set_state(state)


@has_side_effect
def get_state() -> torch.Tensor:
    """A node of the graph: `torch.get_rng_state()`, which must be read in its place."""
    return torch.default_generator.get_state()


@has_side_effect
def make_generator(device: Any) -> torch.Generator:
    """A node of the graph: `torch.Generator(device)`."""
    return torch.Generator(device)


@has_side_effect
def seed_generator(generator: torch.Generator, seed: int) -> None:
    """A node of the graph: `generator.manual_seed(seed)`."""
    generator.manual_seed(seed)


def _node(hooks: Hooks, function: Callable[..., object], *args: Any) -> Any:
    hooks.tracer.cannot_replay("the state of a generator is changed")
    hooks.recorder.may_draw = True
    return hooks.recorder.graph.call_function(function, args)


def _seed(hooks: Hooks, value: object) -> tuple[object, int]:
    """A seed as a node takes it, and as it is."""
    if type(value) is TracedInt:
        plain = int.__pos__(value)
        return hooks.recorder.sizes.of(value.expr), plain
    value = hooks.specialized(value, "it is a seed")
    if type(value) is not int:
        raise AbortCapture(f"a seed that is a {type(value).__name__}")
    return value, value


def _manual_seed(hooks: Hooks, seed: object) -> object:
    node, plain = _seed(hooks, seed)
    with torch._C.DisableTorchFunction():
        torch.manual_seed(plain)
    _node(hooks, seed_all, node)
    generator = torch.default_generator
    return hooks.tracer.read(generator, hooks.tracer.constant(generator))


def _get_state(hooks: Hooks) -> torch.Tensor:
    hooks.tracer.cannot_replay("the state of a generator is read")
    return hooks.recorder.run(get_state, (), {})


def _set_state(hooks: Hooks, state: object) -> None:
    if not isinstance(state, torch.Tensor):
        raise AbortCapture("the state of a generator that is no tensor")
    node = hooks.recorder.node(state)
    with torch._C.DisableTorchFunction():
        torch.default_generator.set_state(state)
    _node(hooks, set_state, node)


def _generator(hooks: Hooks, device: Any = "cpu") -> torch.Generator:
    device = hooks.specialized(device, "the device of a generator")
    if type(device) not in (str, torch.device):
        raise AbortCapture("a generator on a device that is no device")
    made = torch.Generator(device)
    hooks.recorder.made_object(made, _node(hooks, make_generator, str(device)))
    return made


def generator_method(
    hooks: Hooks, generator: torch.Generator, name: str, args: tuple[object, ...]
) -> object:
    """A method of a generator, from outside or made by the program."""
    if name == "manual_seed" and len(args) == 1:
        own = hooks.recorder.object_node(generator)
        node, plain = _seed(hooks, args[0])
        generator.manual_seed(plain)
        _node(hooks, seed_generator, own, node)
        return generator
    raise AbortCapture(f"`{name}` of a generator")


def _seed_python(hooks: Hooks, *args: object) -> None:
    """`random.seed`, which nothing in a graph reads."""
    owner, *given = args
    values = [hooks.specialized(value, "it is a seed") for value in given]
    if owner is not _PYTHON or not values or any(type(value) not in ATOMS for value in values):
        raise AbortCapture("a seed of Python's random numbers")
    perform(hooks, random.seed, *values)


_PYTHON: Final = getattr(random.seed, "__self__", None)

MODELS: Final[Models] = {
    torch.manual_seed: _manual_seed,
    torch.random.manual_seed: _manual_seed,
    torch.random.get_rng_state: _get_state,
    torch.random.set_rng_state: _set_state,
    torch.Generator: _generator,
    random.Random.seed: _seed_python,
}
