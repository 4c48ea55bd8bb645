"""A workload as one system trains it: with parameters and an optimizer of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.native.systems import EAGER, OURS, SYSTEMS
from benchmarks.native.workload import Workload
from tests.zoo.compare import tensors

_RATE: Final = 1e-4
_LARGEST_NORM: Final = 1.0

Function = Callable[..., Any]


def inputs_of(workload: Workload, size: str) -> tuple[Any, ...]:
    """Arguments at a size. Those of a function get gradients; those of a model are data."""
    found = workload.arguments(size)
    if workload.kind == "model":
        return found
    return tuple(
        each.detach().clone().requires_grad_()
        if isinstance(each, Tensor) and each.is_floating_point()
        else each
        for each in found
    )


class Subject:
    """What a system has compiled, and what is called to measure it."""

    def __init__(self, workload: Workload, system: str) -> None:
        function = workload.built()
        self.compiled: Any = _compiled(system, function)
        self.parameters: list[nn.Parameter] = []
        #: how far gradients are given for each result of a function, by the shapes of the results
        self._weights: dict[tuple[torch.Size, ...], list[Tensor]] = {}
        if isinstance(function, nn.Module):
            self.parameters = list(function.parameters())
            optimizer = torch.optim.AdamW(self.parameters, _RATE)
            self.update: Any = _compiled_update(system, self.parameters, optimizer)

    def forget(self) -> None:
        """Gradients of the step before."""
        for each in self.parameters:
            each.grad = None

    def gradients(self, args: tuple[Any, ...]) -> list[Tensor | None]:
        """Forward and backward, once. Of a model what it leaves is the parameters' gradients."""
        if self.parameters:
            self.forget()
            self.compiled(*args).backward()
            return [each.grad for each in self.parameters]
        found = [each for each in tensors(self.compiled(*args)) if each.requires_grad]
        shapes = tuple(each.shape for each in found)
        if shapes not in self._weights:
            self._weights[shapes] = [
                torch.randn(each.shape, generator=torch.Generator().manual_seed(0))
                for each in found
            ]
        wanted = [each for each in args if isinstance(each, Tensor) and each.requires_grad]
        return list(torch.autograd.grad(found, wanted, self._weights[shapes], allow_unused=True))

    def step(self, args: tuple[Any, ...]) -> Tensor:
        """A whole step of training; the loss."""
        self.forget()
        loss = self.compiled(*args)
        loss.backward()
        self.update()
        return loss.detach()


def _compiled(system: str, function: Function) -> Function:
    if system == OURS:
        import anyshape

        anyshape.config.native_training = True
    return SYSTEMS[system].compile(function)


def _compiled_update(
    system: str, parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer
) -> Function:
    """Clipping and the optimizer's step. Parameters keep their sizes: nothing is said about
    dynamic ones."""

    def update() -> None:
        nn.utils.clip_grad_norm_(parameters, _LARGEST_NORM)
        optimizer.step()

    if system == EAGER:
        return update
    if system == OURS:
        import anyshape

        return anyshape.compile(update)
    return torch.compile(update)
