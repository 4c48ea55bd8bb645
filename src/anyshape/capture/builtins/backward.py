"""`loss.backward()`, `.grad` and optimizers in a program that is captured whole, with its backward.

Gradients are results of an operator of the graph (`ops/families/autograd_gradients.py`). What
`.grad` of a tensor is, is known here and nowhere else while the program runs: the tensors of the
caller keep theirs. Afterwards it is an effect like any other.

Without this (`Hooks.grads` is None) all of it ends a graph.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch.optim.sgd import sgd
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.externals.side_effects import Change, Effect
from anyshape.ops.families.autograd_gradients import gradients
from anyshape.support.autograd_graph import functions_behind
from anyshape.support.lazy_dataclass import dataclass


@dataclass(slots=True, eq=False)
class _Held:
    """`.grad` of a tensor, as far as the program has said."""

    tensor: torch.Tensor
    value: torch.Tensor | None
    #: whether what was there before the call is in it, or would be
    from_before: bool
    #: whether the program has looked at it while that was so
    is_read: bool = False


class Grads:
    """`.grad` of all tensors in one capture."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._held: dict[int, _Held] = {}
        #: what the tensors of the caller had, once the program goes on without being watched
        self._before: list[tuple[torch.Tensor, Any]] = []

    def forget(self) -> None:
        with torch._C.DisableTorchFunction():
            for tensor, grad in self._before:
                tensor.grad = grad
        self._before.clear()
        self._held.clear()

    def leave(self) -> None:
        """The program goes on without being watched, and finds its gradients where it looks. It may
        change what they are of."""
        tell = self._hooks.recorder.before_write
        with torch._C.DisableTorchFunction():
            for held in self._held.values():
                if tell is not None:
                    tell(held.tensor)
                self._before.append((held.tensor, held.tensor.grad))
                held.tensor.grad = held.value
        self._held.clear()

    def get(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What the program sees. Before the call there was nothing, which the artifact checks."""
        held = self._at(tensor)
        held.is_read |= held.from_before
        return held.value

    def now(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The same, for an optimizer, which may have parameters that the program does not."""
        known = id(tensor) in self._held or self._hooks.tracer.path_of(tensor) is not None
        return self.get(tensor) if known else None

    def set(self, tensor: torch.Tensor, value: Any) -> None:
        if value is not None and not isinstance(value, torch.Tensor):
            raise AbortCapture(f"`.grad` is set to a {type(value).__name__}")
        held = self._at(tensor)
        held.value, held.from_before = value, False

    def accumulate(self, tensor: torch.Tensor, grad: torch.Tensor) -> None:
        """What autograd does at a leaf."""
        held = self._at(tensor)
        if held.value is None:
            held.value = grad
        else:
            _in_place(self._hooks, held.value, grad)

    def _at(self, tensor: torch.Tensor) -> _Held:
        found = self._held.get(id(tensor))
        if found is None:
            from_before = self._hooks.tracer.path_of(tensor) is not None
            found = self._held[id(tensor)] = _Held(tensor, None, from_before)
        return found

    def finish(self) -> None:
        """Write what became of `.grad` into the journal."""
        for held in self._held.values():
            path = self._hooks.tracer.path_of(held.tensor)
            if path is None:
                continue  # the program made it, and nobody else sees it
            self._hooks.recorder.known(held.tensor)
            add = self._hooks.journal.add
            if held.is_read:
                add(Effect(Change.EXPECT_NO_GRAD, path, None))
            if not held.from_before or held.is_read:
                add(Effect(Change.SET_ATTRIBUTE, path, "grad", (held.value,)))
            elif held.value is not None:
                add(Effect(Change.ADD_GRAD, path, None, (held.value,)))


def _in_place(hooks: Hooks, grad: torch.Tensor, more: torch.Tensor) -> None:
    before = torch.is_grad_enabled()
    hooks.call(torch._C._set_grad_enabled, False)
    try:
        hooks.call(torch.Tensor.add_, grad, more)
    finally:
        hooks.call(torch._C._set_grad_enabled, before)


# -- gradients -------------------------------------------------------------------------------------


def _backward(
    hooks: Hooks,
    tensor: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    inputs: Any = None,
) -> None:
    _backward_of(hooks, tensor, gradient, retain_graph, create_graph, None, inputs)


def _backward_of(
    hooks: Hooks,
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    if grad_variables is not None:
        raise AbortCapture("`grad_variables`, which is deprecated", "say `grad_tensors`")
    results = _tensors(hooks, tensors)
    weights = _weights(hooks, grad_tensors, len(results))
    reached = _leaves(results)
    if not reached:
        with torch._C.DisableTorchFunction():
            torch.autograd.backward(results, weights, retain_graph=True)  # raises
        raise AbortCapture("no gradient reaches a tensor of the program")
    if inputs is not None:
        wanted = {id(each) for each in _tensors(hooks, inputs)}
        if wanted - {id(each) for each in reached}:
            raise AbortCapture(
                "`backward(inputs=…)` of tensors that are no leaves, or are not reached",
                "use torch.autograd.grad",
            )
        reached = [each for each in reached if id(each) in wanted]
    grads = _grads_of(hooks)
    for leaf, grad in zip(
        reached,
        _gradients(hooks, results, reached, weights, retain_graph, create_graph, True),
        strict=True,
    ):
        if grad is not None:
            grads.accumulate(leaf, grad)


def _grad(
    hooks: Hooks,
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    only_inputs: Any = True,
    allow_unused: Any = None,
    is_grads_batched: Any = False,
    materialize_grads: Any = False,
) -> tuple[Any, ...]:
    if is_grads_batched or not only_inputs:
        raise AbortCapture("`torch.autograd.grad` with gradients in batches")
    results = _tensors(hooks, outputs)
    tensors = _tensors(hooks, inputs)
    weights = _weights(hooks, grad_outputs, len(results))
    unused = bool(allow_unused) or bool(materialize_grads)
    found = _gradients(hooks, results, tensors, weights, retain_graph, create_graph, unused)
    if materialize_grads:
        return tuple(
            hooks.call(torch.zeros_like, own) if each is None else each
            for own, each in zip(tensors, found, strict=True)
        )
    return tuple(found)


def _gradients(
    hooks: Hooks,
    results: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor | None],
    retain_graph: Any,
    create_graph: Any,
    unused: bool,
) -> list[torch.Tensor | None]:
    """Of each tensor, or None where no gradient reaches it."""
    if create_graph:
        raise AbortCapture(
            "gradients that have gradients (`create_graph=True`) are not exported",
            "compute the second gradient outside of what is exported",
        )
    for tensor in tensors:
        _refuse_hooks(tensor)
    for function in _functions(results):
        if type(function).__name__ == "BackwardHookFunctionBackward":
            raise AbortCapture("a module has backward hooks", "remove them before the export")
    with torch._C.DisableTorchFunction():
        # Which of them there are is a matter of the program, not of sizes.
        tried = torch.autograd.grad(
            list(results), list(tensors), list(weights), retain_graph=True, allow_unused=unused
        )
        if any(grad is not None and grad.layout is not torch.strided for grad in tried):
            raise AbortCapture("a sparse gradient", "say `sparse=False`")
    reached = [own for own, grad in zip(tensors, tried, strict=True) if grad is not None]
    if not reached:
        return [None for _ in tensors]
    keep = bool(retain_graph)
    args = (list(results), reached, list(weights))
    found = iter(hooks.recorder.run(gradients, args, {"retain_graph": True} if keep else {}))
    return [None if grad is None else next(found) for grad in tried]


def _tensors(hooks: Hooks, value: Any) -> list[torch.Tensor]:
    items = [value] if isinstance(value, torch.Tensor) else list(hooks.iterate(value))
    if not items or not all(isinstance(each, torch.Tensor) for each in items):
        raise AbortCapture("gradients of what is no tensor")
    return items


def _weights(hooks: Hooks, value: Any, count: int) -> list[torch.Tensor | None]:
    if value is None:
        return [None] * count
    items: list[Any] = [value] if isinstance(value, torch.Tensor) else list(hooks.iterate(value))
    if len(items) != count or not all(e is None or isinstance(e, torch.Tensor) for e in items):
        raise AbortCapture("gradients with weights that are no tensors, or of another number")
    return items


def _functions(results: Iterable[torch.Tensor]) -> list[Any]:
    """The functions of autograd's graph behind some tensors."""
    with torch._C.DisableTorchFunction():
        return functions_behind([each.grad_fn for each in results])


def _leaves(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that gradients end at."""
    with torch._C.DisableTorchFunction():
        own = [each for each in results if each.grad_fn is None and each.requires_grad]
    functions = _functions(results)
    ends = [each.variable for each in functions if hasattr(each, "variable")]
    return list({id(each): each for each in (*own, *ends)}.values())


def _refuse_hooks(tensor: torch.Tensor) -> None:
    with torch._C.DisableTorchFunction():
        hooked = tensor._backward_hooks or tensor._post_accumulate_grad_hooks
        retained = not tensor.is_leaf and tensor.retains_grad
    if hooked or retained:
        raise AbortCapture("a tensor has hooks for its gradient", "remove them before the export")


def _grads_of(hooks: Hooks) -> Grads:
    grads = hooks.grads
    assert grads is not None, "these models are for captures with gradients"
    return grads


#: `torch.optim` hides the module behind its class.
_OPTIMIZER: Final = sys.modules[torch.optim.Optimizer.__module__]


# -- modules and optimizers ------------------------------------------------------------------------


def _zero_grad(hooks: Hooks, owner: Any, set_to_none: Any = True) -> None:
    if not hooks.truth(set_to_none):
        raise AbortCapture(
            "`zero_grad(set_to_none=False)` writes into tensors of the caller",
            "call `zero_grad()`, which forgets them",
        )
    is_module = isinstance(owner, torch.nn.Module)
    groups = [list(owner.parameters())] if is_module else [g["params"] for g in owner.param_groups]
    grads = _grads_of(hooks)
    for tensor in (each for group in groups for each in group):
        grads.set(tensor, None)


def _know(hooks: Hooks, tensor: torch.Tensor, name: str) -> None:
    """Have a tensor that was found by native code as one from outside."""
    if hooks.tracer.path_of(tensor) is None and not hooks.recorder.is_known(tensor):
        hooks.tracer.register(tensor, hooks.tracer.constant(tensor, name))


def _step(hooks: Hooks, optimizer: Any, closure: Any = None) -> None:
    """One step of an optimizer of torch: its code is followed, behind what torch wraps it in."""
    kind = type(optimizer)
    if closure is not None:
        raise AbortCapture(f"`{kind.__name__}.step` with a closure", "compute the loss before it")
    if kind not in _OPTIMIZERS:
        raise AbortCapture(
            f"`{kind.__name__}.step` is not exported",
            f"use one of {', '.join(sorted(each.__name__ for each in _OPTIMIZERS))}",
            "return the gradients, and step outside of what is exported",
        )
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if hooked or any(vars(_OPTIMIZER)[f"_global_optimizer_{when}_hooks"] for when in _WHEN):
        raise AbortCapture("an optimizer has hooks", "remove them before the export")
    for number, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if isinstance(value, torch.Tensor):
                _know(hooks, value, f"optimizer.{name}.{number}")
        for option in ("differentiable", "fused", "capturable"):
            if group.get(option):
                raise AbortCapture(
                    f"`{kind.__name__}` with `{option}=True`", f"leave out `{option}`"
                )
    before = torch.is_grad_enabled()
    hooks.call(torch._C._set_grad_enabled, False)
    try:
        if kind is torch.optim.SGD:
            _sgd(hooks, optimizer)
        else:
            hooks.call(inspect.unwrap(kind.step), optimizer)
    finally:
        hooks.call(torch._C._set_grad_enabled, before)


_WHEN: Final = ("pre", "post")

#: Those whose steps are the same operators in every call, once there is a state.
_OPTIMIZERS: Final = frozenset(
    {torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad}
)


def _init_group(hooks: Hooks, optimizer: Any, group: Any, *lists: list[Any]) -> Any:
    """What an optimizer works on: parameters, their gradients, its state, which is made if there is
    none yet, as the first step would."""
    grads = _grads_of(hooks)
    fresh: list[list[Any]] = [[] for _ in lists]
    with torch._C.DisableTorchFunction():
        before = [(each, each.grad) for each in group["params"]]
        try:
            for each, _ in before:
                each.grad = grads.now(each)
            found = type(optimizer)._init_group(optimizer, group, *fresh)
        finally:
            for each, grad in before:
                each.grad = grad
    for given, made in zip(lists, fresh, strict=True):
        for each in made:
            if isinstance(each, torch.Tensor):
                _know(hooks, each, f"optimizer.{_place(optimizer, each)}")
            given.append(each)
    return found


def _place(optimizer: Any, tensor: torch.Tensor) -> str:
    """Where a tensor is in the state of an optimizer: `exp_avg.0`."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for number, each in enumerate(parameters):
        if each is tensor:
            return f"parameters.{number}"
        for name, held in optimizer.state.get(each, {}).items():
            if held is tensor:
                return f"{name}.{number}"
    return "state"


def _sgd(hooks: Hooks, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        lists: list[list[Any]] = [[], [], []]
        sparse = _init_group(hooks, optimizer, group, *lists)
        parameters, grads, buffers = lists
        for place, buffer in enumerate(buffers):
            if buffer is not None:
                continue
            if group["dampening"]:
                raise AbortCapture(
                    "the first step of SGD with `dampening` is another one than those after it",
                    "call `step()` once before the export",
                )
            with torch._C.DisableTorchFunction():
                made = torch.zeros_like(parameters[place], memory_format=torch.preserve_format)
            optimizer.state[parameters[place]]["momentum_buffer"] = buffers[place] = made
            _know(hooks, made, f"optimizer.{_place(optimizer, made)}")
        names = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")
        options = {name: group[name] for name in (*names, "foreach")}
        hooks.call(sgd, parameters, grads, buffers, has_sparse_grad=sparse, **options)


def _scheduled(function: Any) -> Any:
    """The optimizer whose step a scheduler has wrapped, to see whether it is called."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return cells["opt_ref"].cell_contents()


def _schedule(hooks: Hooks, scheduler: Any, *args: Any) -> None:
    raise AbortCapture(
        "a scheduler changes the rate of an optimizer, which is a number of the artifact",
        "call it outside, and have the rate in a tensor: lr=torch.tensor(0.1)",
    )


def _grouped(hooks: Hooks, lists: Any, with_indices: Any = False) -> dict[Any, Any]:
    """Lists of tensors, by device and dtype of the first of them."""
    rows = [list(hooks.iterate(each)) for each in hooks.iterate(lists)]
    found: dict[Any, tuple[list[list[Any]], list[int]]] = {}
    for number, tensor in enumerate(rows[0]):
        with torch._C.DisableTorchFunction():
            key = tensor.device, tensor.dtype
        group, indices = found.setdefault(key, ([[] for _ in rows], []))
        for own, row in zip(group, rows, strict=True):
            own.append(row[number])
        if with_indices:
            indices.append(number)
    return found


def _get_value(hooks: Hooks, value: Any) -> Any:
    """The number of a step, with as many digits as in eager code, where it is one of Python's."""
    return hooks.call(torch.Tensor.double, value) if isinstance(value, torch.Tensor) else value


MODELS: Final[dict[Any, Any]] = {
    torch.Tensor.backward: _backward,
    torch.autograd.backward: _backward_of,
    torch.autograd.grad: _grad,
    torch.nn.Module.zero_grad: _zero_grad,
    torch.optim.Optimizer.zero_grad: _zero_grad,
    torch.optim.lr_scheduler.LRScheduler.step: _schedule,
    _group_tensors_by_device_and_dtype: _grouped,
    vars(_OPTIMIZER)["_get_value"]: _get_value,
}


def model_of(function: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """The model of a function in a capture with gradients, by what it is called with."""
    found = MODELS.get(function)
    if vars(function).get("_wrapped_by_lr_sched"):
        return lambda hooks, *args, **kwargs: _step(hooks, _scheduled(function), *args, **kwargs)
    if found is not None or not args or not isinstance(args[0], torch.optim.Optimizer):
        return found
    kind = type(args[0])
    if function is kind.step:
        return _step
    is_group = kind in _OPTIMIZERS and function is getattr(kind, "_init_group", None)
    return _init_group if is_group else None
