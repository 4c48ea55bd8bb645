"""Steps in which torch's autograd does one operator: in a backward graph, by running the operator
again, or in the forward graph, where it is recorded for a step of the backward one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
import torch.fx

from anyshape.graph.plan import Unlowerable, paired_tree
from anyshape.ops.node_meta import RecordedCall


class Place(NamedTuple):
    """Where one of the tensors goes in the arguments of the operator."""

    number: int


class Step:
    """What a graph calls in Python: it changes no argument, and gives tensors of its own."""

    __name__: str


class AutogradStep(Step):
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
        return _with_memory(*self._gradients(grads, given))

    def _gradients(
        self, grads: Sequence[torch.Tensor] | None, given: Sequence[Any]
    ) -> tuple[list[torch.Tensor], Sequence[torch.Tensor | None]]:
        with torch.enable_grad():
            own = _aliases(given, self._wanted)
            args, kwargs = filled(self._spec, own)
            found = self.function(*args, **kwargs)
            results = [found] if self._results is None else [found[k] for k in self._results]
            inputs = [each for each, wanted in zip(own, self._wanted, strict=True) if wanted]
            weights = list(map(torch.ones_like, results)) if grads is None else list(grads)
            if not any(each.requires_grad for each in results):
                # For these sizes nothing of the inputs is in them.
                return inputs, [None] * len(inputs)
            return inputs, torch.autograd.grad(results, inputs, weights, allow_unused=True)


class RecordedOperator(Step):
    """An operator in a forward graph that torch's autograd records. Called with its tensors, gives
    its results, and behind them an empty tensor which holds the record for the backward graph."""

    def __init__(
        self,
        function: Callable[..., Any],
        spec: tuple[Any, dict[str, Any]],
        wanted: Sequence[bool],
        is_one: bool,
        may_draw: bool,
    ) -> None:
        self.function = function
        self.spec = spec
        self.wanted = tuple(wanted)
        #: whether it gives a tensor, not several
        self.is_one = is_one
        self.may_draw = may_draw
        self.__name__ = getattr(function, "__name__", str(function))

    def __call__(self, *given: Any) -> tuple[torch.Tensor | None, ...]:
        with torch.enable_grad():
            own = _aliases(given, self.wanted)
            args, kwargs = filled(self.spec, own)
            found = self.function(*args, **kwargs)
        results = [found] if self.is_one else list(found)
        tensors = [each for each in results if each is not None]
        record = torch.empty(0, device=tensors[0].device)
        inputs = [each for each, wanted in zip(own, self.wanted, strict=True) if wanted]
        # A tensor that is saved is the same one when it comes back.
        setattr(record, _RECORD, (results, inputs))
        # For whoever has the whole graph they are results of that.
        return (*(None if each is None else each.detach() for each in results), record)


class RecordedGradient(Step):
    """The gradients of what was recorded: called with gradients of results and the record."""

    def __init__(self, operator: RecordedOperator, results: Sequence[int], wanted: Sequence[int]):
        self._results = tuple(results)
        self._wanted = tuple(wanted)
        self.__name__ = f"gradient of {operator.__name__}"

    def __call__(self, grads: Sequence[torch.Tensor], record: torch.Tensor) -> Gradients:
        results, inputs = getattr(record, _RECORD)
        # Who calls for gradients twice keeps the record, too.
        found = torch.autograd.grad(
            [results[place] for place in self._results],
            [inputs[place] for place in self._wanted],
            list(grads),
            retain_graph=True,
            allow_unused=True,
        )
        return _with_memory([inputs[place] for place in self._wanted], found)


Gradients = tuple[torch.Tensor, ...]
_RECORD: Final = "_anyshape_record"


def _aliases(given: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    """The same memory, and the same versions, as leaves of autograd's graph."""
    return [
        each.detach().requires_grad_(own) if isinstance(each, torch.Tensor) else each
        for each, own in zip(given, wanted, strict=True)
    ]


def _with_memory(
    inputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor, ...]:
    """Torch has zeros without memory, too."""
    return tuple(
        torch.zeros_like(each) if grad is None or grad._is_zerotensor() else grad.contiguous()
        for each, grad in zip(inputs, grads, strict=True)
    )


def filled(tree: Any, given: Sequence[Any]) -> Any:
    """Arguments with tensors in their places."""
    if isinstance(tree, Place):
        return given[tree.number]
    if isinstance(tree, dict):
        return {key: filled(item, given) for key, item in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(filled(item, given) for item in tree)
    if isinstance(tree, slice):
        return slice(*filled((tree.start, tree.stop, tree.step), given))
    return tree


class PlacedCall(NamedTuple):
    """A call of an operator, with places for what the graph gives it."""

    function: Callable[..., Any]
    spec: tuple[Any, dict[str, Any]]
    #: nodes by place, and what is known of them
    given: dict[torch.fx.Node, Any]


def placed(node: torch.fx.Node, call: RecordedCall) -> PlacedCall:
    values: dict[torch.fx.Node, Any] = {}

    def place(each: torch.fx.Node, known: Any) -> Place:
        values.setdefault(each, known)
        return Place(list(values).index(each))

    spec = paired_tree((node.args, node.kwargs), (call.args, call.kwargs), place)
    function = call.function
    if node.op == "call_method":
        function = getattr(torch.Tensor, str(node.target))
    elif callable(node.target):
        function = node.target
    return PlacedCall(function, spec, values)
