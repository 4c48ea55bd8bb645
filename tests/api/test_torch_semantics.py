"""Torch's semantics under capture: layouts, hooks, modes and effects around errors."""

# The functions below are what users write, not what we would.
# pyright: basic, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import anyshape

IN_RANGE, OUT_OF_RANGE = torch.tensor([0]), torch.tensor([9])


def both(function: Callable[..., Any], *calls: Callable[[], tuple[Any, ...]]) -> None:
    """Every call gives the same result compiled as it gives eagerly."""
    compiled = anyshape.compile(function)
    for make in calls:
        assert compiled(*make()) == function(*make())


def fail_once(function: Callable[..., Any]) -> Any:
    """Compile at an index in range, then use the entry at one that is not."""
    compiled = anyshape.compile(function)
    compiled(torch.zeros(3, 3), IN_RANGE)
    with pytest.raises(IndexError):
        compiled(torch.zeros(3, 3), OUT_OF_RANGE)
    assert compiled.stats().graphs == 1
    return compiled


# -- what a tensor says of itself, and no guard asks ----------------------------------------------


def test_storage_offset_changes() -> None:
    both(lambda x: x.storage_offset(), lambda: (torch.ones(9)[:3],), lambda: (torch.ones(9)[4:7],))


def test_strides_of_an_empty_tensor() -> None:
    both(
        lambda x: x.stride(),
        lambda: (torch.ones(0, 4),),
        lambda: (torch.ones(0, 9)[:, :4],),
    )


def test_strides_of_a_dim_of_one() -> None:
    both(
        lambda x: x.stride(),
        lambda: (torch.ones(3, 1),),
        lambda: (torch.ones(3, 1).as_strided((3, 1), (1, 7)),),
    )


def test_conjugate_bit() -> None:
    values = torch.ones(3, dtype=torch.complex64)
    both(lambda x: x.is_conj(), lambda: (values,), lambda: (values.conj(),))


def test_dict_of_a_tensor() -> None:
    marked = torch.ones(3)
    marked.note = 1
    both(lambda x: dict(x.__dict__), lambda: (torch.ones(3),), lambda: (marked,))
    both(lambda x: dict(vars(x)), lambda: (torch.ones(3),), lambda: (marked,))


def test_backward_hooks_of_a_tensor() -> None:
    hooked = torch.ones(3, requires_grad=True)
    hooked.register_hook(lambda grad: grad)
    both(
        lambda x: x._backward_hooks is None,
        lambda: (torch.ones(3, requires_grad=True),),
        lambda: (hooked,),
    )


# -- a graph that raises in the middle ------------------------------------------------------------


def test_python_effects_before_an_error_are_kept() -> None:
    log: list[int] = []

    def function(x: Tensor, index: Tensor) -> Tensor:
        x.add_(1)
        log.append(1)
        return x[index]

    fail_once(function)
    assert len(log) == 2


def test_python_effects_of_a_module_before_an_error_are_kept() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(1))
            self.log: list[int] = []

        def forward(self, x: Tensor, index: Tensor) -> Tensor:
            self.total += 1
            self.log.append(x.size(0))
            return x[index]

    module = Counting()
    compiled = anyshape.compile(module)
    compiled(torch.zeros(3, 3), IN_RANGE)
    with pytest.raises(IndexError):
        compiled(torch.zeros(3, 3), OUT_OF_RANGE)
    assert module.total.item() == 2
    assert module.log == [3, 3]


def test_inference_mode_ends_with_an_error() -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        with torch.inference_mode():
            x.add_(1)
            return x[index]

    # In a thread, since the mode of a thread cannot be taken back once it leaks.
    seen: list[bool] = []

    def body() -> None:
        fail_once(function)
        seen.append(torch.is_inference_mode_enabled())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [False]


def _nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def test_autocast_nesting_ends_with_an_error() -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x.t())[index]

    before = _nesting()
    try:
        fail_once(function)
        assert _nesting() == before
    finally:
        while _nesting() > before:
            torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()


def test_autocast_cache_is_not_stale_after_an_error() -> None:
    """The consequence of the leak above: eager autocast code gives wrong results afterwards."""

    def function(x: Tensor, index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x.t())[index]

    before = _nesting()
    try:
        fail_once(function)
        weight, x, results = torch.ones(2, 2, requires_grad=True), torch.ones(1, 2), []
        for _ in range(2):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                results.append(F.linear(x, weight)[0, 0].item())
            with torch.no_grad():
                weight.mul_(10)
        assert results == [2.0, 20.0]
    finally:
        while _nesting() > before:
            torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()


def test_autocast_cache_flag_after_an_error() -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            return (x @ x.t())[index]

    before = _nesting()
    try:
        fail_once(function)
        assert torch.is_autocast_cache_enabled()
    finally:
        torch.set_autocast_cache_enabled(True)
        while _nesting() > before:
            torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()


def test_grad_mode_that_an_error_leaves() -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        torch.set_grad_enabled(False)
        found = x[index]
        torch.set_grad_enabled(True)
        return found

    try:
        fail_once(function)
        assert not torch.is_grad_enabled()  # As eager leaves it: nothing set it back.
    finally:
        torch.set_grad_enabled(True)


def test_checkpoint_of_a_compiled_function() -> None:
    """The checkpoint stops the second forward early by raising from a hook inside the graph."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        return F.dropout(x @ w, 0.5).relu()

    compiled = anyshape.compile(function)
    for size in (3, 3, 5):
        grads = []
        for call in (function, compiled):
            torch.manual_seed(size)
            x, w = torch.randn(size, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True)
            checkpoint(call, x, w, use_reentrant=False).sum().backward()
            grads.append((x.grad, w.grad))
        torch.testing.assert_close(grads[1], grads[0])


def test_hook_that_raises_is_called_once() -> None:
    called: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        called.append(1)
        raise ValueError("pack")

    compiled = anyshape.compile(lambda x: x.sin())
    compiled(torch.ones(3, requires_grad=True))
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, pytest.raises(ValueError, match="pack"):
        compiled(torch.ones(3, requires_grad=True))
    assert len(called) == 1


# -- errors ---------------------------------------------------------------------------------------


def test_wrong_arguments_of_a_module() -> None:
    module = nn.Linear(2, 2)
    messages = []
    for call in (module, anyshape.compile(copy.deepcopy(module))):
        with pytest.raises(TypeError) as raised:
            call(torch.ones(1, 2), 1, 2)
        messages.append(str(raised.value))
    assert messages[1] == messages[0]


# -- other tracers --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_jit_trace_of_a_compiled_function() -> None:
    compiled = anyshape.compile(lambda x: x * x.size(0))
    compiled(torch.ones(3, 4))
    traced = torch.jit.trace(compiled, (torch.ones(3, 4),), check_trace=False)
    assert traced(torch.ones(5, 4))[0, 0].item() == 5.0


# -- ordinary code that runs eagerly --------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: sum(x[i] * i for i in range(x.size(0))),
        lambda x: x[: int(x.size(0) * 0.5)],
        lambda x: x[: round(x.size(0) / 2)],
        lambda x: x * abs(x.size(0) - 9),
        lambda x: x * divmod(x.size(0), 2)[1],
        lambda x: torch.zeros(torch.broadcast_shapes(x.shape, (1,))) + x,
        lambda x: x * torch.sym_max(x.size(0), 3),
    ],
    ids=["range", "int(float)", "round", "abs", "divmod", "broadcast_shapes", "sym_max"],
)
def test_size_arithmetic_is_captured(function: Callable[..., Any]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 4, 7):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), function(x))
    assert compiled.stats().eager_calls == 0


def test_plain_attribute_of_a_module_is_set() -> None:
    class Remembering(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.last = x.shape
            return x + 1

    module = Remembering()
    compiled = anyshape.compile(module)
    for size in (3, 3, 5, 7):
        compiled(torch.ones(size))
        assert module.last == (size,)
    assert compiled.stats().eager_calls == 0


def test_convolution_with_padding_mode() -> None:
    compiled = anyshape.compile(nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"))
    compiled(torch.ones(1, 2, 5, 5))
    assert compiled.stats().eager_calls == 0


def test_autograd_function_is_captured() -> None:
    """As in Bloom, whose every layer has one."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    compiled = anyshape.compile(lambda x: Scaled.apply(x) + 1)
    compiled(torch.ones(3))
    assert compiled.stats().eager_calls == 0
