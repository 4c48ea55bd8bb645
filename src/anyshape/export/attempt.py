"""One capture of the program that is exported: for all the sizes that a spec speaks of.

The program runs for real, on copies of the arguments. Buffers and the random numbers are put back
as they were.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import BoundArguments, Signature
from typing import Any

import torch

from anyshape.arguments import bind
from anyshape.capture.abort import AbortReason
from anyshape.capture.contract import AssumedContract
from anyshape.capture.dynamism_policy import CompileDecisions
from anyshape.capture.record.torch_state import can_capture
from anyshape.capture.run import capture
from anyshape.capture.symbol_namespace import Roots
from anyshape.capture.trace import Trace
from anyshape.capture.value_kinds import ATOMS
from anyshape.dispatch.arguments import by_parameter, show_user_frames
from anyshape.dispatch.callable_target import Target, is_module_call, module_target, target_of
from anyshape.dispatch.contract import assumed, contract_of, contract_violation
from anyshape.errors import (
    CannotExport,
    ConstraintViolation,
    DataDependentError,
    GraphBreakError,
    ShapeContractViolation,
)
from anyshape.export.spec import Arguments, Spec
from anyshape.guards.guard import SymbolSource
from anyshape.guards.path import Parameters, Path
from anyshape.policy.observations import Observations
from anyshape.support.collection import no_collection
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.support.random_state import default_generators
from anyshape.symbolic import Expr


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """What a capture gave: the trace, and what the spec meant for it."""

    trace: Trace
    contract: AssumedContract
    #: how the program needs more than the spec says, if it does
    broken: ConstraintViolation | None
    #: the arguments that the program changed in place
    changed: frozenset[Path]

    def symbol(self, source: SymbolSource) -> Expr:
        return self.trace.facts.symbols[source.symbol.name]


class Subject:
    """What is exported, and the call that it is captured with."""

    def __init__(self, function: object, args: Sequence[Any], kwargs: Mapping[str, object]) -> None:
        self.module = function if isinstance(function, torch.nn.Module) else None
        self.target: Target = (
            target_of(function, None) if self.module is None else module_target(self.module, None)
        )
        self._args, self._kwargs = args, kwargs
        self._paths = Parameters()
        self.arguments = self.called_with(args, kwargs)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def own(self) -> tuple[Any, ...]:
        """What is given before the user's arguments: the module itself."""
        return (self.module,) if is_module_call(self.target) else ()

    @property
    def self_name(self) -> str | None:
        return next(iter(self.target.signature.parameters)) if self.own else None

    @property
    def signature(self) -> Signature:
        """As the user calls it."""
        parameters = list(self.target.signature.parameters.values())[len(self.own) :]
        return self.target.signature.replace(parameters=parameters)

    def called_with(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Arguments:
        signature = self.signature
        try:
            call: BoundArguments = bind(signature, args, kwargs)
        except TypeError as error:
            raise CannotExport(
                function=self.name,
                reason=f"its example arguments do not fit: {error}",
                hints=[f"give args= and kwargs= for {self.name}{signature}"],
            ) from None
        call.apply_defaults()
        bound = dict(call.arguments)
        return Arguments(signature, self.target.behind, bound, self.name, self._paths)

    def attempt(self, spec: Spec) -> Attempt:
        """Capture it for a spec. Errors of the program pass through."""
        why, hints = can_capture(), ()
        if why is None and _any_autocast():
            why = "autocast is on around the export, and would be off around the artifact"
            hints = ("enter torch.autocast inside of the program, in `forward`",)
        if why is not None:
            raise CannotExport(function=self.name, reason=why, hints=hints)
        contract = contract_of(self.target, spec.shapes(self.arguments))
        copied = {name: copy_of(value) for name, value in self.arguments.bound.items()}
        bound = {**dict(zip(self.target.signature.parameters, self.own, strict=False)), **copied}
        try:
            shapes = assumed(contract, bound)
        except ShapeContractViolation as error:
            raise ConstraintViolation(
                function=self.name,
                violations=tuple(f"in the example, {each}" for each in error.problems),
            ) from None
        assert shapes is not None, "there is a contract"
        choices = CompileDecisions(
            Observations(), False, "export", contract=shapes, exact_strides=True
        )
        leaves = replace(self.arguments, bound=copied).leaves()
        versions = [(leaf, _version(leaf.value)) for leaf in leaves if leaf.is_tensor]
        with undisturbed(self.module), _put_back() as before_write, no_collection():
            try:
                captured = capture(
                    self.target.call,
                    by_parameter(self.target.signature, bound),
                    choices,
                    Roots(),
                    True,
                    shapes,
                    before_write=before_write,
                )
            except Exception as error:
                show_user_frames(error)
                raise
        if isinstance(captured.outcome, AbortReason):
            raise self._left(captured.outcome)
        trace = captured.outcome
        changed = frozenset(
            leaf.way for leaf, version in versions if _version(leaf.value) != version
        )
        return Attempt(trace, shapes, contract_violation(self.name, trace, choices), changed)

    def _left(self, left: AbortReason) -> Exception:
        where = str(left.frame) if left.frame else None
        if left.question is not None:
            return DataDependentError(
                function=self.name,
                question=left.question.text,
                numbers=left.question.numbers,
                suggestions=left.question.suggestions,
                by="export",
                where=where,
            )
        return GraphBreakError(
            function=self.name, reason=left.reason, hints=left.hints, by="export", where=where
        )


_any_autocast: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled")  # noqa: B009 no stub has it


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else tensor._version


# -- nothing of the user's is changed -------------------------------------------------------------


def copy_of(value: object) -> Any:
    """The value with tensors of its own, each one by itself: an artifact is not to depend on two
    arguments having been the same object."""
    if isinstance(value, torch.Tensor):
        return _copied_tensor(value)
    copier = _COPIERS.get(type(value))
    if copier is not None:
        return copier(value)
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        return type(value)(*map(copy_of, value))
    if type(value) in ATOMS or isinstance(value, type) or callable(value):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value  # it holds what cannot be copied; it is used as it is


_COPIERS: dict[type, Callable[[Any], Any]] = {
    list: lambda value: list(map(copy_of, value)),
    tuple: lambda value: tuple(map(copy_of, value)),
    dict: lambda value: {key: copy_of(item) for key, item in value.items()},
}


def _copied_tensor(value: torch.Tensor) -> torch.Tensor:
    if value.layout is not torch.strided or value.is_nested:
        return value
    with torch.no_grad():
        copied = value.detach().clone()
    if type(value) is torch.nn.Parameter:
        return torch.nn.Parameter(copied, value.requires_grad)
    return copied.requires_grad_(value.requires_grad)


@contextmanager
def _put_back() -> Iterator[Callable[[torch.Tensor], None]]:
    """Tensors that it is told of have the same elements afterwards."""
    before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(tensor: torch.Tensor) -> None:
        if id(tensor) not in before and tensor.layout is torch.strided:
            with torch.no_grad():
                before[id(tensor)] = tensor, tensor.detach().clone()

    try:
        yield keep
    finally:
        with torch.no_grad():
            for tensor, value in before.values():
                if tensor.shape == value.shape and not _is_same(tensor, value):
                    tensor.copy_(value)


def _is_same(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    return torch.allclose(tensor, value, rtol=0, atol=0, equal_nan=True)


@contextmanager
def undisturbed(module: torch.nn.Module | None) -> Iterator[None]:
    """Buffers and random numbers are the same afterwards."""
    random = default_generators.get_state()
    buffers = [] if module is None else list(module.buffers())
    # Only strided tensors can be compared and filled; others are hardly ever buffers.
    before = [(each, each.detach().clone()) for each in buffers if each.layout is torch.strided]
    try:
        yield
    finally:
        default_generators.set_state(random)
        with torch.no_grad():
            for buffer, value in before:
                if buffer.shape == value.shape and not torch.equal(buffer, value):
                    buffer.copy_(value)
