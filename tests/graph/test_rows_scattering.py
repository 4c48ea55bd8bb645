"""Writing into parts of tensors: `x[key] = v`, scatter, index_add and their relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.graph.comparing import check

SIZES = ((5, 7), (3, 2), (1, 1), (4, 19))


def fill_row(x: torch.Tensor) -> None:
    x[0] = 3


def fill_columns(x: torch.Tensor) -> None:
    x[:, ::2] = 0.5


def shift(x: torch.Tensor) -> None:
    x[1:] = x[:-1] * 2


def shift_copy(x: torch.Tensor) -> None:
    x[1:] = x[:-1].clone()


def add_to_part(x: torch.Tensor) -> None:
    x[..., 0] += 1


def part_of_part(x: torch.Tensor) -> None:
    x[1:][:, :1] = x[0, 0]


def transposed_part(x: torch.Tensor) -> None:
    x.t()[0] = 5


def all_of_it(x: torch.Tensor) -> None:
    x[...] = x.t().reshape(x.shape) + 1


def masked(x: torch.Tensor) -> None:
    x[x > 0] = 0


def masked_rows(x: torch.Tensor) -> None:
    x[x[:, 0] > 0] = 1


def by_negative_index(x: torch.Tensor) -> None:
    x[-1] = 2
    x[:, -1] = x[:, 0]


def twice(x: torch.Tensor) -> None:
    x[0] = x[-1]
    x[-1] = x[0] + 1


@pytest.mark.parametrize(
    "write",
    [
        *(fill_row, fill_columns, shift, shift_copy, add_to_part, part_of_part, transposed_part),
        *(all_of_it, masked, masked_rows, by_negative_index, twice),
    ],
)
def test_write_into_inputs_and_into_what_is_computed(write: Callable[..., None]) -> None:
    def function(x: torch.Tensor) -> Any:
        before = x * 2
        write(x)
        y = x + 1
        seen = y[0]
        write(y)
        return before, y, seen * 2

    shapes = [(torch.randn(a, b),) for a, b in SIZES]
    found = check(function, shapes)
    assert found.native
    check(function, [(torch.randn(b, a).t(),) for a, b in SIZES[:2]])
    check(function, [(torch.randn(a, 2 * b)[:, ::2],) for a, b in SIZES[:2]])


def source(a: int, b: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(a, b), torch.arange(6 * b).reshape(6, b) * 5 % a, torch.randn(6, b)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda x, i, s: x.scatter_add(0, i[:3], s),
        lambda x, i, s: x.scatter(0, i * 0, 3.0),
        lambda x, i, s: x.scatter_reduce(0, i, s, "sum"),
        lambda x, i, s: x.index_add(0, i[:, 0], s),
        lambda x, i, s: x.index_copy(0, i[:1, 0], s[:1]),
        lambda x, i, s: x.index_fill(0, i[:, 0], 2),
        lambda x, i, s: x.index_put((i[:, 0],), s[0, 0], accumulate=True),
        lambda x, i, s: x.index_put((i[:, 0], i[:, 0] * 0), x[i[:, 0], 0], accumulate=True),
        lambda x, i, s: (x + 1).scatter_add_(0, i, s),
        lambda x, i, s: x.index_add_(0, i[:, 0], s) * 2,
        lambda x, i, s: x.index_add_(0, i[:, 0], x[i[:, 0]]),
    ],
)
def test_scatter(function: Callable[..., Any]) -> None:
    check(function, [source(a, b) for a, b in SIZES], close=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_sums_in_other_dtypes(dtype: torch.dtype) -> None:
    calls = [
        ((x * 4).to(dtype), i, (s * 4).to(dtype)) for x, i, s in (source(a, b) for a, b in SIZES)
    ]
    check(lambda x, i, s: x.index_add(0, i[:, 0], s), calls)


def test_positions_out_of_range_fail_as_in_eager() -> None:
    good, (x, i, s) = source(5, 7), source(4, 3)
    i[1, 1] = 4
    check(lambda x, i, s: x.scatter_add(0, i, s), [good, (x, i, s)], fails=True)
    check(lambda x, i, s: x.index_add(0, i[:, 1], s), [good, (x, i, s)], fails=True)


def test_what_nobody_uses_is_checked_too() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x[i]
        return x + 1

    check(
        function,
        [(torch.randn(4), torch.tensor([1])), (torch.randn(4), torch.tensor([4]))],
        fails=True,
    )


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_with_as_many_values_and_with_one(accumulate: bool) -> None:
    def put(x: torch.Tensor, at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((at,), values, accumulate=accumulate)

    def call(rows: int, count: int, given: int) -> tuple[torch.Tensor, ...]:
        at = torch.arange(count) * 3 % rows - (rows // 2 if accumulate else 0)
        return torch.randn(rows, 5), at, torch.randn(given, 5)

    # The values of one row are for all positions: the graph runs as it is.
    check(put, [call(6, 4, 4), call(7, 3, 3), call(6, 4, 1), call(5, 1, 1), call(4, 0, 0)])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sums_by_position_in_every_dimension(dim: int) -> None:
    calls = []
    for sizes in ((4, 5, 6), (3, 1, 40), (1, 2, 70)):
        target = [3 if place == dim else size for place, size in enumerate(sizes)]
        calls.append((torch.randn(target), torch.randint(0, 3, sizes), torch.randn(sizes)))

    def scatter(x: torch.Tensor, at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(dim, at, values)

    check(scatter, calls)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    def scatter(x: torch.Tensor, at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, at, values, reduce, include_self=include_self)

    calls = []
    for rows, count, width in ((5, 9, 4), (1, 3, 33), (4, 0, 2), (7, 2, 1)):
        values = torch.randn(count, width)
        values.view(-1)[:: max(1, rows)] = float("nan") if rows == 7 else 2.0
        calls.append((torch.randn(rows, width), torch.randint(0, rows, (count, width)), values))
    check(scatter, calls)


def test_scatter_reduce_of_integers_and_in_place() -> None:
    def scatter(x: torch.Tensor, at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        x.scatter_reduce_(1, at, values, "amax")
        return x.scatter_reduce(1, at, values, "prod")

    calls = [
        (torch.randint(-9, 9, (n, 6)), torch.randint(0, 6, (n, 8)), torch.randint(-9, 9, (n, 8)))
        for n in (4, 1, 0, 11)
    ]
    check(scatter, calls)
