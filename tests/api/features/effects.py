"""What a call changes or returns: containers, state, aliasing, text."""

# The functions below are what users write, not what we would.
# ruff: noqa: RUF059
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import itertools
import logging
import sys
import types
from typing import Any

import torch
from torch import Tensor, nn

from tests.api.features.registry import Point, feature
from tests.api.twins import World


@feature
def containers_given_and_changed() -> World:
    def f(x: Tensor, items: list[Any], table: dict[str, Any]) -> Any:
        items.append(x * 2)
        table["k"] = x + 1
        table.setdefault("n", []).append(3)
        items[0] = 5
        del table["old"]
        first, *rest = items
        return len(items), sorted(table), first

    return World(f, lambda x: (x, [1, 2], {"old": 1}))


@feature
def container_kept_between_calls() -> World:
    history: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        history.append(x.sum())
        if len(history) > 3:
            history.pop(0)
        return sum(history) + len(history)

    return World(f, watch=lambda: history)


@feature
def size_kept_between_calls() -> World:
    state = types.SimpleNamespace(largest=0, last=None)

    def f(x: Tensor) -> Tensor:
        state.largest = max(state.largest, x.shape[0])
        previous, state.last = state.last, x.shape
        return x * state.largest + (0 if previous is None else previous[0])

    return World(f, watch=lambda: (vars(state), type(state.largest), type(state.last)))


@feature
def cache_by_size() -> World:
    tables: dict[int, Tensor] = {}

    def f(x: Tensor) -> Tensor:
        n = x.shape[0]
        if n not in tables:
            tables[n] = torch.arange(n).float()
        return x + tables[n][:, None]

    return World(f, watch=lambda: (tables, [type(key) for key in tables]))


@feature
def grown_buffer() -> World:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.longest = 2
            self.register_buffer("table", torch.arange(2.0), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] > self.longest:
                self.longest = x.shape[0]
                self.table = torch.arange(float(self.longest))
            return x + self.table[: x.shape[0], None]

    rotary = Rotary()
    return World(rotary, watch=lambda: (rotary.longest, rotary.table))


@feature
def module_with_state() -> World:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.history, self.last = 0, [], None
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = x * self.calls
            self.history.append(self.calls)
            self.total += x.sum(0)
            self.total = self.total * 2
            return self.last + self.total

    counter = Counter()
    return World(counter, watch=lambda: counter)


@feature
def printing() -> World:
    def f(x: Tensor) -> Tensor:
        print("hi", x.shape, 3, end="!\n")
        y = x * 2
        print(f"{x.shape[0]:03d} {y.dtype}", file=sys.stdout, flush=True)
        return y + 1

    return World(f)


@feature
def printing_values() -> World:
    def f(x: Tensor) -> Tensor:
        y = x.add_(1)
        print(x, y.max().item())
        x.mul_(2)
        print(x[:1])
        return x

    return World(f)


@feature
def logging_calls() -> World:
    seen: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    logger = logging.Logger("feature")
    logger.addHandler(Keep())

    def f(x: Tensor) -> Tensor:
        logger.warning("size %d", x.shape[0])
        return x + 1

    return World(f, watch=lambda: seen)


@feature
def in_place_operations() -> World:
    def f(x: Tensor) -> Any:
        y = x.view(-1)
        x.add_(1)
        y[:1] = 5
        x[1:] *= 2
        z = x.clone()
        z += 1
        z.data.mul_(2)
        return z, y

    return World(f)


@feature
def results_that_alias_inputs() -> World:
    def f(x: Tensor, y: Tensor) -> Any:
        kept = [x, x[1:], y.T, x.detach(), y.unsqueeze(0)]
        return kept, {"again": kept[0], "list": kept}, kept[1]

    return World(f, lambda x: (x, x + 1))


@feature
def same_tensor_twice() -> World:
    def f(x: Tensor, y: Tensor) -> Any:
        x.add_(1)
        return x * y, x is y

    turn = itertools.cycle((True, False))
    return World(f, lambda x: (x, x if next(turn) else x.clone()))


@feature
def overlapping_inputs() -> World:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x.sum() + y.sum()

    turn = itertools.cycle((True, False))
    return World(f, lambda x: (x, x[:1] if next(turn) else x[:1].clone()))


@feature
def aliasing_inside_the_result() -> World:
    def f(x: Tensor) -> Any:
        shared: list[Any] = [x * 2]
        shared.append(shared[0])
        return {"a": shared, "b": shared, "c": (shared[0],)}

    def g(x: Tensor) -> Any:
        result = f(x)
        return result, result["a"] is result["b"], result["a"][0] is result["c"][0]

    return World(g)


@feature
def result_refers_to_itself() -> World:
    def f(x: Tensor) -> Any:
        items: list[Any] = [x + 1]
        items.append(items)
        return items

    return World(f)


@feature
def result_is_an_argument() -> World:
    def f(x: Tensor, items: list[int], point: Point) -> Any:
        return items, point, (items, x)

    def called(x: Tensor) -> Any:
        items, point = [1], Point(x)
        result = f(x, items, point)
        return result[0] is items, result[1] is point, result[2][0] is items

    return World(called)


@feature
def no_tensor_result() -> World:
    return World(lambda x: (None, 1, "a", 2.5, x.shape, x.dtype, [x.device], {"n": x.shape[0]}))


@feature
def strided_inputs() -> World:
    layouts = itertools.cycle(
        (lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x.t().t())
    )
    return World(
        lambda x: (x.reshape(-1), x.contiguous().view(-1), x.is_contiguous(), x + 1, x.stride()),
        lambda x: (next(layouts)(x),),
    )


@feature
def dtypes_change() -> World:
    kinds = itertools.cycle((torch.float32, torch.float64, torch.int64, torch.bool))
    return World(lambda x: (x.to(torch.float32) * 2, x.dtype), lambda x: (x.to(next(kinds)),))


@feature
def arguments_change_their_type() -> World:
    values = itertools.cycle((1, 1.0, True, None, "a", [1], (1,), 2))

    def f(x: Tensor, value: Any) -> Any:
        if value is None:
            return x
        if isinstance(value, str | list | tuple):
            return x + len(value)
        return x * value, type(value).__name__

    return World(f, lambda x: (x, next(values)))


@feature
def floats_and_bools_change() -> World:
    values = itertools.cycle(((0.5, True), (0.25, False), (-0.0, True), (float("nan"), False)))

    def f(x: Tensor, scale: float, flag: bool) -> Any:
        return x * scale + scale if flag else (x - scale, scale)

    return World(f, lambda x: (x, *next(values)))


@feature
def structure_changes() -> World:
    lengths = itertools.cycle((1, 3, 2, 0))

    def f(x: Tensor, items: list[Tensor], table: dict[str, Any]) -> Any:
        total = x
        for i, item in enumerate(items):
            total = total + item * i
        return total, {name: value * 2 for name, value in table.items()}

    def arguments(x: Tensor) -> tuple[Any, ...]:
        n = next(lengths)
        return x, [x + i for i in range(n)], {f"k{i}": i for i in range(n)}

    return World(f, arguments)


@feature
def order_of_keys_changes() -> World:
    orders = itertools.cycle((("a", "b"), ("b", "a")))

    def f(x: Tensor, table: dict[str, int]) -> Tensor:
        for value in table.values():
            x = (x + value) * 2
        return x

    return World(f, lambda x: (x, {key: ord(key) for key in next(orders)}))
