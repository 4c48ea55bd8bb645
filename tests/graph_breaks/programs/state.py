"""Effects on both sides of calls that cannot be traced: in place, views, globals, containers,
random numbers, gradients, dtypes."""

from __future__ import annotations

import collections
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.graph_breaks.opaque import (
    note,
    opaque,
    opaque_number,
    opaque_true,
    opaque_write,
)
from tests.graph_breaks.table import (
    SEEDS,
    SIZES,
    Built,
    built,
    leaf,
    program,
    quarters,
    rows,
    rows_and_number,
    two,
)

COUNTER = 0
LAST: Any = None
SEEN: list[Any] = []


@program()
def writes_before_and_after(x: Tensor) -> Tensor:
    x.add_(1)
    y = x * 2
    opaque("middle", x)
    x.mul_(2)
    return y - x


@program()
def boundary_writes_to_the_argument(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque_write(x, 3)
    z = x + y
    return z.relu() - x


@program()
def boundary_writes_to_an_intermediate(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = y - 1
    opaque_write(y, 2)
    return y * z - 1


@program()
def views_across(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    first, rest = y[0], y[1:]
    opaque_write(first, 1)
    rest.mul_(2)
    opaque("whole", y)
    return y - 1, rest.relu()


@program()
def view_of_an_argument_across(x: Tensor) -> tuple[Tensor, Tensor]:
    view = x.t()
    y = view * 2 + 1
    opaque_write(x, 1)
    view.add_(1)
    return view, y.relu() - view


@program(lambda call: (lambda x: (x, x))(quarters(SIZES[call], 4)))
def one_tensor_as_two_arguments(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(1)
    z = y * 2
    opaque("both", y)
    y.mul_(2)
    return z - x, x + 1


@program(lambda call: (lambda x: (x[:, :2], x[:, 1:3]))(quarters(SIZES[call], 4)))
def overlapping_arguments(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    z = y * 2 - 1
    opaque_write(y, 2)
    return z * x + y


@program(lambda call: (quarters(4, SIZES[call]).t(),))
def transposed_argument(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    opaque("strides", y.stride())
    z = y.relu() - 1
    return z, z.contiguous() + y


@program(globals={"COUNTER": 0})
def global_counter(x: Tensor) -> Tensor:
    global COUNTER
    COUNTER += 1
    y = x * 2 + COUNTER
    opaque("counter", COUNTER)
    COUNTER += 10
    return y.relu() - COUNTER


@program(globals={"LAST": None})
def global_tensor(x: Tensor) -> Tensor:
    global LAST
    y = x * 2 + 1
    before = 0 if LAST is None else LAST.sum()
    LAST = y - 1
    opaque("last", LAST)
    LAST = LAST.relu()
    return y + before


@program(globals={"SEEN": []}, unsettled="the list grows")
def global_list_grows(x: Tensor) -> Tensor:
    y = x * 2 + 1
    SEEN.append(len(y))
    opaque("seen", SEEN)
    SEEN.append(y.relu())
    return y - len(SEEN)


@program(globals={"SEEN": []})
def global_list_is_replaced(x: Tensor) -> Tensor:
    global SEEN
    y = x * 2 + 1
    SEEN = [*SEEN[-1:], opaque("rows", len(y))]
    return y.relu() * len(SEEN) - SEEN[-1]


@program(lambda call: (quarters(SIZES[call], 4), {"scale": SEEDS[call], "log": []}))
def dict_argument_is_changed(x: Tensor, state: dict[str, Any]) -> Tensor:
    y = x * state["scale"] + 1
    state["log"].append(opaque("log", len(y)))
    state["last"] = y.relu()
    opaque("state", sorted(state))
    state.pop("scale")
    return state["last"] * 2 - y


@program(lambda call: (quarters(SIZES[call], 4), [quarters(2) for _ in range(SEEDS[call] + 1)]))
def list_argument_is_changed(x: Tensor, parts: list[Tensor]) -> Tensor:
    y = x * 2 + 1
    parts.append(y.sum(0)[:2])
    opaque("parts", len(parts))
    parts[0] = parts[0] * 2
    parts.reverse()
    return torch.stack(parts).sum(0) - y.mean()


@built(unsettled="the list grows")
def list_grows_over_calls() -> Built:
    kept: list[Any] = []

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        kept.append(opaque_number(y))
        z = y.relu() - len(kept)
        kept.append(z)
        return z * 2

    return Built(function, lambda: kept)


@built()
def bounded_queue() -> Built:
    queue: collections.deque[float] = collections.deque(maxlen=2)

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        queue.append(opaque_number(y))
        z = y * len(queue)
        return z.relu() - sum(queue)

    return Built(function, lambda: list(queue))


@built()
def tensor_kept_between_calls() -> Built:
    state = {"total": torch.zeros(4), "calls": 0}

    def function(x: Tensor) -> Tensor:
        state["calls"] += 1
        y = x * 2 + state["total"]
        opaque("calls", state["calls"])
        state["total"] = state["total"] + y.sum(0)
        return y.relu() / state["calls"]

    return Built(function, lambda: state)


@built()
def buffer_written_in_place() -> Built:
    running = torch.zeros(4)

    def function(x: Tensor) -> Tensor:
        y = x * 2 + 1
        running.add_(y.sum(0))
        opaque("running", running)
        running.mul_(0.5)
        return y - running

    return Built(function, lambda: running)


@program()
def dropout_around(x: Tensor) -> Tensor:
    y = functional.dropout(x * 2 + 1, 0.5)
    opaque("dropped", y)
    z = functional.dropout(y + 1, 0.25)
    return z.relu() - 1


@program()
def random_tensors_around(x: Tensor) -> Tensor:
    y = x + torch.rand(x.shape).round()
    opaque("middle", y)
    z = y * torch.randint(0, 3, (4,))
    return z + torch.randn(4).round() - random.randint(0, 3)


@program()
def boundary_draws_too(x: Tensor) -> Tensor:
    y = x + torch.rand(4).round()
    noise = torch.from_numpy(np.random.randint(0, 3, 4))
    z = y * torch.randint(0, 3, (4,)) - noise
    return z + random.choice([1, 2]) * torch.rand(1).round()


@program()
def seeds_set_inside(x: Tensor) -> Tensor:
    y = x * 2 + torch.rand(4).round()
    torch.manual_seed(3)
    z = y + torch.rand(4).round()
    opaque("seeded", z)
    return z * torch.randint(1, 4, (4,)) - 1


@program()
def generator_object(x: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    y = x * 2 + torch.rand(4, generator=generator).round()
    opaque("middle", y)
    return y.relu() - torch.randint(0, 5, (4,), generator=generator)


@program(leaf)
def gradients_through(x: Tensor) -> Tensor:
    y = (x * 2 + 1).relu()
    opaque("middle", y)
    z = y * x - 1
    return z.pow(2).sum()


@program(leaf)
def gradients_with_a_detached_side(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    scale = opaque_number(y)
    z = y.detach() * 2 - 1
    return (y * scale).relu(), z + 1


@program(lambda call: (quarters(SIZES[call], 4).requires_grad_(SEEDS[call] % 2 == 0),))
def gradients_at_some_calls(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("requires", y.requires_grad)
    z = y.relu() * x
    return z - 1


@program(leaf)
def backward_inside(x: Tensor) -> tuple[Any, Tensor]:
    y = (x * 2 + 1).pow(2)
    y.sum().backward()
    z = x.detach() * 2 - 1
    return x.grad, z.relu()


@program(leaf)
def gradient_asked_inside(x: Tensor) -> Tensor:
    y = (x * 2 + 1).pow(2).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    z = gradient * 2 - x
    return z.relu().sum()


@program(leaf)
def hook_on_a_gradient(x: Tensor) -> Tensor:
    y = x * 2 + 1
    y.register_hook(lambda gradient: gradient * 3)
    opaque("hooked", y)
    return (y * y).sum() - 1


@program()
def requires_grad_set_inside(x: Tensor) -> Tensor:
    y = x * 2 + 1
    y.requires_grad_()
    opaque("wants", y)
    z = (y * 3 - 1).relu()
    return z.sum(0)


@program(lambda call: (quarters(SIZES[call], 4).to((torch.float32, torch.float64)[call % 2]),))
def dtype_changes(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("dtype", str(y.dtype))
    z = y.to(torch.float64) - 1
    return z.relu() * y


@program(lambda call: ((quarters(SIZES[call], 4) * 4).to((torch.int64, torch.uint8)[call % 2]),))
def whole_numbers(x: Tensor) -> Tensor:
    y = x * 2 + 1
    total = int(y.sum().item()) % 5
    z = y // (opaque("total", total) + 1)
    return z + (y % 3) * 2


@program(lambda call: (quarters(*(2, 3, SIZES[call])[call % 2 :]),))
def rank_changes(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("rank", y.dim())
    z = y.sum(-1) - 1
    return z.relu() * 2


@program(lambda call: (quarters((0, 1, 3, 0, 2, 0, 2)[call], 4),))
def empty_tensors(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    opaque("rows", len(y))
    z = y.sum(0) - 1
    return z.relu(), y[:1] * 2


@program(two)
def item_makes_a_size(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2 + y
    count = int(opaque("count", (z > 0).sum()).item())
    made = torch.arange(count) * 2 + 1
    return made.sum() - z.relu()


@program()
def tolist_in_a_container(x: Tensor) -> dict[str, Any]:
    y = x * 2 + 1
    found: dict[str, Any] = {"values": opaque("values", y[0].tolist())}
    found["sum"] = sum(found["values"])
    found["tensor"] = y.relu() - found["sum"]
    return found


@program()
def data_attribute(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    opaque("data", y.data)
    y.data = y.data.relu() * 2
    x.data.add_(1)
    return y - 1, x * 2


@program()
def resized_by_set(x: Tensor) -> Tensor:
    y = x * 2 + 1
    other: Any = torch.zeros(2)
    other.set_(y)
    opaque_write(y, 1)
    return other.relu() - 1


@program(lambda call: (nn.Parameter(quarters(4, 4)), quarters(SIZES[call], 4)))
def parameter_updated_by_hand(weight: Tensor, x: Tensor) -> Tensor:
    loss = (x @ weight).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        assert weight.grad is not None
        weight.sub_(weight.grad * 0.25)
        opaque("step", weight)
        weight.grad.zero_()
    return (x @ weight).relu() - 1


@program()
def shared_storage_returned(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x * 2 + 1
    opaque("y", y)
    z = y.view(-1)
    z[0] = opaque("zero", 0.0)
    return y, z, y.t()


@program()
def out_argument(x: Tensor) -> Tensor:
    y = torch.empty(x.shape)
    torch.mul(x, 2, out=y)
    opaque("out", y)
    torch.add(y, 1, out=x)
    return y.relu() + x


@program()
def sparse_in_between(x: Tensor) -> Tensor:
    y = (x * 2).relu() + 0
    sparse = y.to_sparse()
    opaque("stored", sparse._nnz())
    z = sparse.to_dense() * 2
    return z - y


@program()
def complex_in_between(x: Tensor) -> Tensor:
    y = torch.complex(x * 2, x + 1)
    opaque("is complex", y.is_complex())
    z = y * y.conj()
    return z.real.relu() - 1


@program(rows_and_number)
def number_argument_changes(x: Tensor, n: int) -> Tensor:
    y = x * n + 1
    m = opaque("n", n) * 2
    z = y.repeat(m % 3 + 1, 1) - m
    return z.relu() + n


@program(lambda call: (quarters(SIZES[call], 4), SEEDS[call] / 4 + 0.5))
def float_argument_changes(x: Tensor, f: float) -> Tensor:
    y = x * f + 1
    g = opaque("f", f) + 0.25
    z = y - g
    return z.relu() * f


@program(lambda call: (quarters(SIZES[call], 4), "ab"[SEEDS[call] % 2]))
def text_argument_changes(x: Tensor, mode: str) -> Tensor:
    y = x * 2 + 1
    opaque("mode", mode)
    if mode == "a":
        y = y.relu() * 2
    return y - 1


@program(lambda call: (quarters(SIZES[call], 4), None if SEEDS[call] % 2 else quarters(4)))
def optional_argument(x: Tensor, bias: Tensor | None) -> Tensor:
    y = x * 2 + 1
    opaque("bias", bias is None)
    if bias is not None:
        y = y + bias
        y = y.relu()
    return y * 2


@program(rows)
def identity_of_objects(x: Tensor) -> tuple[bool, bool, Tensor]:
    y = x * 2 + 1
    z = opaque("same", y)
    w = opaque("list", [y])[0]
    note("all", y)
    return z is y, w is x, z.relu() - w


@program(rows)
def truth_and_item_after(x: Tensor) -> tuple[float, Tensor]:
    y = x * 2 + 1
    if opaque_true(y) and y.sum() > 2:
        y = y - y.sum().item()
    z = y.relu() + 1
    return z.sum().item(), z * 2
