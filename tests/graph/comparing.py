"""Compiled against eager: values, dtypes, strides, what was written, and what ran natively."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import anyshape
from tests.native.plans import Plans, watched


def check(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    called: Sequence[str] = (),
    fails: bool = False,
    any_text: bool = False,
    close: bool = False,
) -> Plans:
    """Run a function compiled and in eager with the same arguments, and compare all that can be
    seen. `called`: the operators that torch is called for; all others are native. `fails`: the last
    call is an error, and the same one; of `any_text` where that of torch varies. `close`:
    floats may differ by rounding."""
    compiled = anyshape.compile(function, dynamic=True)
    with watched() as watch, torch.no_grad():
        for number, args in enumerate(calls):
            mine, theirs = _copies(args), _copies(args)
            wanted, error = _outcome(function, mine)
            given, other = _outcome(compiled, theirs)
            assert type(error) is type(other), f"{error!r} against {other!r}"
            assert any_text or str(error) == str(other)
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
    limit = 1e-5 if close else 0.0
    torch.testing.assert_close(b, a, equal_nan=True, rtol=limit, atol=limit)
