"""A step of a backward graph in which torch's autograd does one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from anyshape.graph.plan import Unlowerable


class Place(NamedTuple):
    """Where one of the tensors goes in the arguments of the operator."""

    number: int


class AutogradStep:
    """Torch's autograd for one operator: called with gradients of its results and its tensors,
    gives gradients of those that want one."""

    def __init__(
        self,
        function: Callable[..., Any],
        spec: tuple[Any, dict[str, Any]],
        wanted: Sequence[bool],
        results: Sequence[int] | None,
    ) -> None:
        self.function = function
        self._spec = spec
        self._wanted = tuple(wanted)
        self._results = results
        self.__name__ = f"gradient of {getattr(function, '__name__', function)}"

    def reaches(self, given: Sequence[Any]) -> list[bool]:
        """Of the tensors that want a gradient, which get one: tried with tensors like these, which
        need not have data."""
        for device in ("meta", "cpu"):
            tensors = [
                torch.zeros_like(each, device=device) if isinstance(each, torch.Tensor) else each
                for each in given
            ]
            try:
                return [each is not None for each in self._gradients(None, tensors)[1]]
            except (RuntimeError, IndexError, ValueError):
                continue
        raise Unlowerable(f"a result requires grad, and {self.__name__} is not known")

    def __call__(self, grads: Sequence[torch.Tensor], *given: Any) -> tuple[torch.Tensor, ...]:
        inputs, made = self._gradients(grads, given)
        # Torch has zeros without memory, too.
        return tuple(
            torch.zeros_like(each) if grad is None or grad._is_zerotensor() else grad.contiguous()
            for each, grad in zip(inputs, made, strict=True)
        )

    def _gradients(
        self, grads: Sequence[torch.Tensor] | None, given: Sequence[Any]
    ) -> tuple[list[torch.Tensor], Sequence[torch.Tensor | None]]:
        with torch.enable_grad():
            own = [
                each.detach().requires_grad_(wanted) if isinstance(each, torch.Tensor) else each
                for each, wanted in zip(given, self._wanted, strict=True)
            ]
            args, kwargs = self._filled(self._spec, own)
            found = self.function(*args, **kwargs)
            results = [found] if self._results is None else [found[k] for k in self._results]
            inputs = [each for each, wanted in zip(own, self._wanted, strict=True) if wanted]
            weights = list(map(torch.ones_like, results)) if grads is None else list(grads)
            return inputs, torch.autograd.grad(results, inputs, weights, allow_unused=True)

    def _filled(self, tree: Any, given: Sequence[Any]) -> Any:
        if isinstance(tree, Place):
            return given[tree.number]
        if isinstance(tree, dict):
            return {key: self._filled(item, given) for key, item in tree.items()}
        if type(tree) in (tuple, list):
            return type(tree)(self._filled(item, given) for item in tree)
        if isinstance(tree, slice):
            return slice(*self._filled((tree.start, tree.stop, tree.step), given))
        return tree
