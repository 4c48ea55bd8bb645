"""Tensors that are parts of larger ones as inputs: `tokens[:, :-1]`. Their strides change with the
sizes of the whole, and are symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import anyshape

PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "all but the last": lambda d: d[:, :-1],
    "all but the first": lambda d: d[:, 1:],
    "the middle": lambda d: d[:, 1:-1],
    "rows": lambda d: d[1:],
    "one row": lambda d: d[:1, :-1],
    "one column": lambda d: d[:, :1],
    "none": lambda d: d[:, :0],
    "every other": lambda d: d[:, ::2],
    "the end of each": lambda d: d[..., 1:],
    "of two sides": lambda d: d[:-1, 1:, 1:],
    "transposed": lambda d: d.transpose(0, 1)[1:-1],
    "moved": lambda d: d.permute(2, 0, 1)[:, :, 1:],
    "repeated": lambda d: d[:, :1].expand(-1, 4, -1),
    "overlapping": lambda d: d.unfold(1, 3, 1)[..., 0],
    "whole": lambda d: d,
}


def asks(x: Tensor) -> Any:
    return x.stride(), x.is_contiguous(), x * x.stride(0)


def writes(x: Tensor) -> Any:
    x[:, 0] = 1.0
    x.mul_(2)
    return x.sum(1)


def hands_out_views(x: Tensor) -> Any:
    return x[:, 1:], x.transpose(0, 1), x.unsqueeze(1), x


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "elementwise": lambda x: (torch.relu(x * 2 + 1), x + x.mean()),
    "reductions": lambda x: (x.sum(1), x.mean((0, 2)), x.amax(-1), x.flatten().sum()),
    "reshaped": lambda x: (x.reshape(x.shape[0], -1) + 1, x.reshape(-1)),
    "viewed": lambda x: x.view(x.shape[0], -1) * 2,
    "copied": lambda x: (x.contiguous(), x.clone(), x.transpose(0, 1) * 1),
    "joined": lambda x: torch.cat([x, x + 1], 1),
    "product": lambda x: x @ x.transpose(1, 2),
    "softmax": lambda x: functional.softmax(x, -1),
    "asks": asks,
    "writes": writes,
    "views": hands_out_views,
}


def _done(program: Callable[[Tensor], Any], part: Callable[[Tensor], Tensor], whole: Tensor) -> Any:
    """The results, with all that can be seen of them, and the whole afterwards."""
    try:
        found = program(part(whole))
    except (RuntimeError, IndexError) as error:
        return [type(error).__name__]
    results = found if isinstance(found, tuple) else (found,)
    return [whole, *map(_seen, results)]


def _seen(result: Any) -> Any:
    if not isinstance(result, Tensor):
        return result
    # Strides of what has no elements follow no rule, nor have those of a single one a meaning.
    pairs = zip(result.shape, result.stride(), strict=True) if result.numel() else ()
    strides = [stride for size, stride in pairs if size > 1]
    shared = None if result._base is None else (result._base.shape, result.storage_offset())
    return result, strides, shared, result._version


def assert_same(found: Any, expected: Any, kind: str) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected), kind
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, kind)
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    else:
        assert found == expected, kind


def check(name: str, backend: str, steps: int) -> None:
    """Compare a program on all parts of tensors of so many sizes."""
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for step in range(steps):
        for kind, part in PARTS.items():
            torch.manual_seed(step)
            whole = torch.randn(2 + step % 3, 5 + step, 3 + step % 2)
            expected = _done(program, part, whole.clone())
            assert_same(_done(compiled, part, whole.clone()), expected, kind)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    check(name, "eager", steps=4)


@pytest.mark.parametrize(("dynamic", "graphs"), [(True, 1), (None, 2)])
def test_one_graph_for_the_tokens_and_what_follows_them(dynamic: bool | None, graphs: int) -> None:
    table, weight = torch.randn(50, 8), torch.randn(8, 50)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        scores = torch.relu(table[x]) @ weight
        return functional.cross_entropy(scores.flatten(0, 1), y.reshape(-1))

    compiled = anyshape.compile(loss, dynamic=dynamic)
    for step in range(20):
        data = torch.randint(0, 50, (2 + step % 3, 6 + step))
        x, y = data[:, :-1], data[:, 1:]
        torch.testing.assert_close(compiled(x, y), loss(x, y))
    assert compiled.stats().graphs == graphs
    assert compiled.stats().eager_calls == 0


def test_a_gap_that_closes_is_another_entry() -> None:
    compiled = anyshape.compile(lambda x: x.reshape(-1), dynamic=True, backend="eager")
    whole = torch.arange(30.0).reshape(5, 6)
    assert compiled(whole[:, :-1])._base is None
    dense = torch.arange(30.0)[:25].reshape(5, 5)
    assert compiled(dense)._base is not None
    assert compiled(whole[:, :4])._base is None
    assert compiled.stats().graphs == 2


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_parts_of_one_tensor_that_overlap(backend: str) -> None:
    def writes_to_one(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = y * 2
        x.add_(1)
        return z + y, x * 2

    compiled = anyshape.compile(writes_to_one, dynamic=True, backend=backend)
    for step in range(6):
        torch.manual_seed(step)
        whole = torch.randn(3 + step, 8 + step)
        results = []
        for function in (compiled, writes_to_one):
            own = whole.clone()
            results.append([function(own[:, :3], own[:, 3 - step % 3 : 6 - step % 3]), own])
        assert_same(results[0], results[1], f"step {step}")
