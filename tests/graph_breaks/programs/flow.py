"""Branches, matches, `with` blocks and returns around calls that cannot be traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.graph_breaks.opaque import (
    Trouble,
    note,
    opaque,
    opaque_count,
    opaque_number,
    opaque_raise,
    opaque_true,
)
from tests.graph_breaks.table import leaf, program, rows, rows_and_flag, rows_and_number


class Manager:
    """A context manager of the program, which may swallow what is raised."""

    def __init__(self, swallows: bool = False) -> None:
        self.swallows = swallows

    def __enter__(self) -> int:
        opaque("enter")
        return 3

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        opaque("exit", "" if error is None else str(error))
        return self.swallows


class PlainManager:
    """One that can be traced."""

    def __enter__(self) -> int:
        note("enter")
        return 2

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        note("exit", *(() if error is None else (torch.zeros(1),)))


@contextlib.contextmanager
def noted(name: str) -> Iterator[str]:
    note(name)
    try:
        yield name
    finally:
        note("end of " + name)


@program(rows_and_flag)
def boundary_in_one_branch(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    if flag:
        y = y - 1
        opaque("branch", y)
        y = y.relu()
    else:
        y = y * 3
    return y.sum(0) * 2


@program()
def boundary_decides(x: Tensor) -> Tensor:
    y = x * 2 + 1
    if opaque_true(y):
        y = y.relu() + 2
        y = y * 2
    else:
        y = y.abs() - 2
        y = y * 3
    return y.sum(1) - 1


@program()
def branch_on_data_beside(x: Tensor) -> Tensor:
    y = x * 2 + 1
    if y.sum() > 0:
        y = y - 1
        y = y.relu()
    opaque("joined", y)
    if y.mean() > 1:
        y = y * 2
        y = y - 3
    return y.sum(0)


@program(rows_and_number)
def chain_of_branches(x: Tensor, n: int) -> Tensor:
    y = x + n
    if n % 4 == 0:
        y = y * 2 - 1
    elif opaque("elif", n) % 4 == 1:
        y = y * 3 - 1
    elif n % 4 == 2:
        y = y * 4 - 1
        opaque("third", y)
    else:
        y = y.relu() + 1
    return y.sum(0)


@program(rows_and_number)
def match_on_numbers(x: Tensor, n: int) -> Tensor:
    y = x * 2 + 1
    match opaque("subject", n % 4):
        case 0:
            y = y - 1
        case 1 | 2:
            y = y.relu() * 2
        case other if other > 100:
            y = y * 0
        case other:
            y = y + other
    return y.sum(0) * 2


@program(rows_and_number)
def match_on_structure(x: Tensor, n: int) -> Tensor:
    y = x * 2 + 1
    subject: Any = [{"scale": n}, [n, y, 3], (n,), "text"][n % 4]
    match subject:
        case {"scale": int(scale), **rest}:
            opaque("mapping", len(rest))
            y = y * scale
        case [first, Tensor() as tensor, *others]:
            opaque("sequence", first)
            y = tensor + len(others)
        case (only,):
            y = y - only
        case str():
            opaque("text")
            y = y.abs()
    return y.relu().sum(1)


@program(rows_and_number)
def match_with_a_guard(x: Tensor, n: int) -> Tensor:
    y = x * 2 + 1
    match n:
        case k if opaque("guard", k) % 2:
            y = y * k - 1
        case k if k > 3:
            y = y.relu() + k
        case _:
            y = y.abs()
    return y.sum(0)


@program()
def manager_of_the_program(x: Tensor) -> Tensor:
    y = x * 2 + 1
    with Manager() as number:
        y = y * number
        y = y - 1
    return y.relu().sum(0)


@program(rows_and_flag)
def manager_swallows(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with Manager(swallows=True):
        y = y - 2
        opaque_raise("inside", flag)
        y = y * 5
        y = y + 1
    return y.relu().sum(0)


@program(rows_and_flag)
def manager_lets_through(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with Manager(swallows=False), PlainManager() as number:
        x.add_(number)
        opaque_raise("inside", flag)
        y = y * x
    return y.relu().sum(0)


@program()
def boundary_in_a_plain_manager(x: Tensor) -> Tensor:
    y = x * 2 + 1
    with PlainManager() as number:
        y = y * number + 1
        opaque("inside", y)
        y = y.relu() - 1
    return y.sum(0) * 2


@program(rows_and_flag)
def manager_made_of_a_generator(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with noted("outer") as name, noted("inner"):
        y = y * len(name)
        opaque_raise("inside", flag)
        y = y - 1
    return y.relu()


@program(leaf)
def no_grad_around(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    with torch.no_grad():
        z = y * 3 - 1
        opaque("inside", z)
        w = z.relu() * x
    return y * w, w + 1


@program(leaf)
def no_grad_by_boundary(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    torch.set_grad_enabled(False)
    opaque("off", y)
    z = y * 3 - 1
    torch.set_grad_enabled(True)
    return y * 2 - 1, z.relu() + 1


@program(leaf)
def inference_mode_around(x: Tensor) -> tuple[Tensor, bool]:
    y = x * 2 + 1
    with torch.inference_mode():
        z = y * 2 - 1
        opaque("inside", z)
        total = float((z + 1).sum())
    return y * total - 1, z.is_inference()


@program()
def autocast_around(x: Tensor) -> Tensor:
    y = x * 2 + 1
    with torch.autocast("cpu", torch.bfloat16):
        z = y @ y.t() + 1
        opaque("inside", str(z.dtype))
        z = z @ y - 1
    return z.float().relu() + y


@program()
def exit_stack(x: Tensor) -> Tensor:
    y = x * 2 + 1
    with contextlib.ExitStack() as stack:
        number = stack.enter_context(Manager())
        stack.callback(opaque, "callback", number)
        y = y * number - 1
        y = y.relu()
    return y.sum(0)


@program(rows_and_flag)
def null_context(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with Manager() if flag else contextlib.nullcontext(5) as number:
        y = y * number
        y = y - 1
    return y.relu()


@program(rows_and_flag)
def return_inside_with(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with Manager() as number:
        y = y - number
        if flag:
            return y.relu() * 2
        opaque("goes on", y)
        y = y * 2
    return y.sum(0)


@program(rows_and_flag)
def return_inside_try(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        if flag:
            return opaque("early", y * 2 - 1)
        y = y.relu()
    finally:
        x.add_(1)
        note("finally", x)
    opaque("late", x)
    return y + x


@program(rows_and_number)
def early_returns(x: Tensor, n: int) -> Tensor | None:
    y = x * 2 + 1
    if n == 3:
        return None
    if opaque("two", n) == 4:
        return y - 1
    y = y.relu() * n
    if opaque_true(y):
        return y + 1
    return y * 2 - 1


@program(rows)
def returns_nothing(x: Tensor) -> None:
    y = x * 2 + 1
    opaque("seen", y)
    x.copy_(y.relu() - 1)
    note("end", x)


@program(rows)
def returns_the_argument(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x * 2 + 1
    opaque("seen", y)
    x.add_(y.relu())
    return x, x[1:], y


@program(rows_and_flag)
def variable_changes_its_type(x: Tensor, flag: bool) -> Any:
    y: Any = x * 2 + 1
    if flag:
        y = opaque_number(y)
    y = y + 1
    opaque("either", y)
    y = y * 2 - 1
    return y, x.relu() + y


@program(rows)
def sizes_decided_by_a_boundary(x: Tensor) -> Tensor:
    y = x * 2 + 1
    count = opaque_count(y)
    z = torch.ones(count, 4) * y.sum(0)
    z = z.repeat(count, 1) - count
    return torch.cat([z, y]).relu()


@program(rows)
def mask_between(x: Tensor) -> Tensor:
    y = x * 2 + 1
    y = y[y.sum(1) > 0]
    opaque("chosen", y)
    z = y - 1 if len(y) else y
    return z.relu().sum(0)


@program(rows)
def conditional_import(x: Tensor) -> Tensor:
    y = x * 2 + 1
    import colorsys  # inside on purpose

    red = colorsys.rgb_to_hsv(0.5, 0.25, 0.125)[2]
    z = y * red
    return z.relu() - 1


@program(rows_and_flag)
def assert_of_a_boundary(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    x.sub_(1)
    if not opaque("asserted", flag):
        raise Trouble(f"not {flag}")
    return y.relu() + x
