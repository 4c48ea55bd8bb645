"""Compiled against eager: values, dtypes, strides, what was written, and what ran natively."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._pytree import tree_leaves

import anyshape
from anyshape import config
from anyshape.backends import native
from anyshape.graph.lowering import Lowering
from anyshape.graph.plan import Plan


class Watch:
    """Plans that are made, and errors of native programs, which the pipeline answers by running
    eagerly."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.errors: list[Exception] = []
        self._patches = ExitStack()

    def __enter__(self) -> Watch:
        lower, host = Lowering.run, native.python_host

        def run(lowering: Lowering, graph: Any) -> Plan:
            plan = lower(lowering, graph)
            self.plans.append(plan)
            return plan

        def watched_host(*args: Any) -> Callable[..., Any]:
            program = host(*args)

            def watched(*inputs: Any) -> Any:
                try:
                    return program(*inputs)
                except Exception as error:
                    self.errors.append(error)
                    raise

            return watched

        self._patches.enter_context(patch.object(Lowering, "run", run))
        self._patches.enter_context(patch.object(native, "python_host", watched_host))
        self._patches.enter_context(patch.object(config, "on_compile_error", "raise"))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    @property
    def native(self) -> set[str]:
        return {name for plan in self.plans for name in plan.native}

    @property
    def called(self) -> dict[str, str]:
        return {name: why for plan in self.plans for name, why in plan.called.items()}


def check(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    called: Sequence[str] = (),
    fails: bool = False,
    close: bool = False,
) -> Watch:
    """Run a function compiled and in eager with the same arguments, and compare all that can be
    seen. `called`: the operators that torch is called for; all others are native. `fails`: the last
    call is an error, and the same one. `close`: floats may differ by rounding."""
    compiled = anyshape.compile(function, dynamic=True)
    with Watch() as watch, torch.no_grad():
        for number, args in enumerate(calls):
            mine, theirs = _copies(args), _copies(args)
            wanted, error = _outcome(function, mine)
            given, other = _outcome(compiled, theirs)
            assert type(error) is type(other), f"{error!r} against {other!r}"
            assert str(error) == str(other)
            last = number == len(calls) - 1
            assert (error is None) or (fails and last), error
            if not (fails and last):
                assert not watch.errors, watch.errors
            for a, b in zip(tree_leaves((wanted, mine)), tree_leaves((given, theirs)), strict=True):
                _compare(a, b, close)
    assert set(watch.called) == set(called), watch.called
    return watch


def _copies(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors of their own, laid out in the same way."""
    return tuple(_copy(arg) if isinstance(arg, torch.Tensor) else arg for arg in args)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage().clone()
    made = torch.empty(0, dtype=tensor.dtype)
    return made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return function(*args), None
    except Exception as error:
        return (), error


def _compare(a: Any, b: Any, close: bool) -> None:
    if not isinstance(a, torch.Tensor):
        assert a == b
        return
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if a.numel():
        strides = zip(a.shape, a.stride(), b.stride(), strict=True)
        assert all(size == 1 or own == other for size, own, other in strides), (
            f"strides {a.stride()} against {b.stride()} of {tuple(a.shape)}"
        )
    limits = {"rtol": 1e-5, "atol": 1e-5} if close else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(b, a, equal_nan=True, **limits)
