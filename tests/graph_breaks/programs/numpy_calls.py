"""NumPy in the middle of tensor code."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.graph_breaks.table import leaf, program, rows_and_number, two


@program()
def numpy_in_the_middle(x: Tensor) -> Tensor:
    y = (x * 2 + 1).relu()
    array = np.sort(y.numpy(), axis=0)
    z = torch.from_numpy(array) - y
    return z.abs().sum(1) * 2


@program()
def numpy_norm(x: Tensor) -> tuple[Tensor, float]:
    y = (x + 1) * x
    size = float(np.linalg.norm(y.numpy()))
    return (y / (1 + y.abs())).sum(), round(size, 3)


@program()
def numpy_solve(x: Tensor) -> Tensor:
    square = x.t() @ x + 8 * torch.eye(4)
    solution = np.linalg.solve(square.numpy(), np.ones(4, dtype=np.float32))
    y = torch.from_numpy(solution)
    return (x @ y).relu() + y.sum()


@program()
def numpy_random_seeded(x: Tensor) -> Tensor:
    y = x * 3 - 1
    np.random.seed(7)
    noise = torch.from_numpy(np.random.rand(*y.shape).round(2)).float()
    z = y + noise
    return z.relu() - noise


@program()
def numpy_random_of_the_process(x: Tensor) -> Tensor:
    y = (x - 1).relu()
    order = torch.from_numpy(np.random.permutation(len(y)))
    return y[order] + torch.rand(4) * y.mean()


@program()
def numpy_generator_object(x: Tensor) -> Tensor:
    generator = np.random.default_rng(3)
    y = x.relu() * 2 + 1
    y = y * torch.from_numpy(generator.integers(0, 3, size=tuple(y.shape)))
    return y.sum(0) - int(generator.integers(0, 9))


@program()
def array_shares_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    array = y.numpy()
    array[0] = 5.0
    z = y + 1
    array += 1
    return z.relu(), (y * 2).sum()


@program()
def array_of_an_argument_is_written(x: Tensor) -> Tensor:
    y = x + 1
    y = y * x
    np.clip(x.numpy(), -1, 1, out=x.numpy())
    return y - x * 2


@program()
def from_numpy_view_returned(x: Tensor) -> tuple[Any, Tensor]:
    y = x.relu() + 0.5
    array = y.numpy()
    view = torch.from_numpy(array[::2])
    view.mul_(2)
    return array, (y + 1) * 2


@program(leaf)
def numpy_of_detached(x: Tensor) -> Tensor:
    y = (x * x).relu() + x
    weight = float(y.detach().numpy().mean())
    z = y * weight
    return (z - x).pow(2).sum()


@program(leaf, one_side="every call raises before the other side")
def numpy_of_a_tensor_with_gradients_raises(x: Tensor) -> Tensor:
    y = x * 2 + 1
    array = y.numpy()
    return y + torch.from_numpy(array)


@program(two)
def numpy_where_and_take(x: Tensor, y: Tensor) -> Tensor:
    z = (x - y).abs() + 1
    (index,) = np.where(z.numpy().sum(1) > 4)
    w = z[torch.from_numpy(index)]
    return w.sum(0) * 2 + z.mean()


@program()
def numpy_scalar_as_a_number(x: Tensor) -> Tensor:
    y = x * 2 - 1
    scale = np.float32(y.numpy().max())
    z = y * float(scale) + 1
    return z.sum(0) / 4


@program(rows_and_number)
def numpy_integer_as_an_index(x: Tensor, n: int) -> Tensor:
    y = (x + n) * 2
    row = np.argmax(y.numpy().sum(axis=1))
    z = y[int(row)] * 3
    return z - y.mean(0) + n


@program()
def histogram_between(x: Tensor) -> tuple[list[int], Tensor]:
    y = (x * 2).clamp(-2, 2) + 0.25
    counts, _ = np.histogram(y.numpy(), bins=4, range=(-3.0, 3.0))
    weights = torch.tensor(counts.tolist())
    return counts.tolist(), (y * weights).relu().sum()


@program()
def structured_array(x: Tensor) -> Tensor:
    y = x.abs() * 2 + 1
    table = np.zeros(len(y), dtype=[("score", "f4"), ("row", "i8")])
    table["score"], table["row"] = y.sum(1).numpy(), np.arange(len(y))
    table.sort(order=["score", "row"])
    order = torch.from_numpy(np.ascontiguousarray(table["row"]))
    return (y[order] - 1).relu() * 2


@program()
def array_protocol(x: Tensor) -> Tensor:
    y = x * 4 + 1
    total = np.asarray(y).sum()
    z = y - float(total)
    return z.abs().sqrt().sum(1)


@program()
def ufunc_on_a_tensor(x: Tensor) -> Tensor:
    y = (x * 2).abs()
    z = torch.as_tensor(np.floor(y.numpy()))
    w = z * y + 1
    return w.sum(1) - z.mean()


@program()
def numpy_twice(x: Tensor) -> Tensor:
    y = x * 2 + 1
    low = float(np.min(y.numpy()))
    y = (y - low).relu() + 1
    high = float(np.max(y.numpy()))
    y = y * high - 1
    return y.sum(0)


@program()
def text_of_an_array(x: Tensor) -> tuple[str, Tensor]:
    y = (x + 1) * 2
    text = np.array2string(y.numpy()[0], precision=2)
    z = y - len(text)
    return text, z.relu().sum()


@program()
def buffer_protocol(x: Tensor) -> tuple[int, Tensor]:
    y = (x * 4).to(torch.int32) + 1
    array: Any = y.numpy()
    view = memoryview(array)
    z = y * 2 - view.nbytes
    return view.nbytes, z.abs().sum()


@program()
def dtype_of_an_array(x: Tensor) -> Tensor:
    y = x * 2 + 3
    kind = np.promote_types(y.numpy().dtype, np.int64)
    z = torch.from_numpy(y.numpy().astype(kind))
    return z * 2 + y.double().sum()
