"""Modules whose forward has a call that cannot be traced, at several depths."""

from __future__ import annotations

import struct
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.graph_breaks.opaque import note, opaque, opaque_number, opaque_raise, opaque_true
from tests.graph_breaks.table import Built, built, leaf, module


@module()
class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        note("hidden", y)
        opaque("shape", tuple(y.shape))
        return self.second(y) * 2


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x) + 1
        self.calls += 1
        opaque("inner", self.calls)
        return y.relu() - 1


@module()
class OneDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x * 2)
        return self.head(y).relu() + 1


@module()
class TwoDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([OneDeep(), OneDeep()])
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        total = y.sum(1, keepdim=True)
        for number, block in enumerate(self.blocks):
            total = total + block(y) * number
            note(number, total)
        return total - 1


@built()
def sequential_of_such() -> Built:
    torch.default_generator.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 4), Inner(), nn.ReLU(), Inner(), nn.Linear(4, 2))
    return Built(made, lambda: made)


class Replacing(nn.Module):
    """Has its neighbour replaced while the sequence runs."""

    def __init__(self) -> None:
        super().__init__()
        self.of: list[nn.Sequential] = []

    def forward(self, x: Tensor) -> Tensor:
        sequence = self.of[0]
        opaque("replacing", len(sequence))
        sequence[2] = nn.ReLU() if isinstance(sequence[2], nn.Tanh) else nn.Tanh()
        return x * 2 - 1


@built()
def sequences_in_sequences() -> Built:
    torch.default_generator.manual_seed(0)
    plain = [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()) for _ in range(3)]
    made = nn.Sequential(
        nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
        nn.Sequential(*plain[:2], nn.Sequential(nn.Linear(4, 4), Inner()), nn.Tanh()),
        plain[2],
    )
    return Built(made, lambda: made)


class NoKey(nn.Sequential):
    """Cannot be hashed."""

    __hash__ = None  # pyright: ignore[reportAssignmentType] this is what is tested

    def __eq__(self, other: object) -> bool:
        return False


@module()
class SequencesByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = NoKey(nn.Linear(4, 4), nn.ReLU(), Inner(), nn.Linear(4, 4))
        self.second = nn.Sequential(nn.Linear(4, 4), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(input=self.first(x)) + self.first(input=x)
        try:
            self.second(y, y)
        except TypeError as error:
            y = y + len(str(error))
        return y * 2 - 1


@built()
def sequence_changes_while_it_runs() -> Built:
    torch.default_generator.manual_seed(0)
    replacing = Replacing()
    made = nn.Sequential(nn.Linear(4, 4), replacing, nn.Tanh(), nn.Linear(4, 4))
    replacing.of.append(made)
    return Built(made, lambda: [type(each).__name__ for each in made])


@built()
def hooks_in_a_sequence_come_later() -> Built:
    torch.default_generator.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Inner(), nn.Linear(4, 4), nn.ReLU())
    calls: list[int] = []

    def doubled(part: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output * 2

    def function(x: Tensor) -> Tensor:
        calls.append(opaque("call", len(x)))
        if len(calls) == 4:
            made[1].register_forward_hook(doubled)
        return made(x) + 1

    return Built(function, lambda: (made, calls))


@module()
class BufferOnBothSides(nn.Module):
    running: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running", torch.zeros(4))
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        self.running.add_(x.sum(0))
        y = x - self.running
        opaque("running", self.running)
        self.steps += 1
        self.running = self.running * 0.5
        return y.relu() * self.steps


@module()
class BatchNorms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm1d(4)
        self.second = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x) * 2
        opaque("rows", len(y))
        return self.second(y.relu()) + 1


@module()
class Dropouts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(self.linear(x))
        opaque("rows", len(y))
        return self.dropout(y + 1) * 2


@module(leaf)
class Gradients(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).tanh()
        scale = float(np.abs(y.detach().numpy()).mean())
        return self.second(y * scale).pow(2).mean()


@module()
class TimedBlocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.times: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.times = []
        for block in self.blocks:
            start = time.perf_counter()
            x = block(x).relu() + x
            self.times.append(time.perf_counter() >= start)
        return x * 2


@module()
class ChoosesAnExpert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.load = [0, 0, 0]

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2 + 1
        chosen = int(abs(opaque_number(y))) % 3
        self.load[chosen] += 1
        return self.experts[chosen](y).relu() - 1


@module()
class ReturnsAFew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: int = 2) -> dict[str, Any]:
        y = self.linear(x) * scale
        packed = struct.pack("<i", len(y))
        return {"hidden": y, "logits": y.relu() - 1, "packed": packed}


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.__calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.__calls += 1
        y = self.linear(x) * 2
        opaque("base", self.__calls)
        return y - self.__calls


@module()
class Derived(Base):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x + 1)
        opaque("derived", len(y))
        return y.relu() * self.scale

    @property
    def scale(self) -> int:
        return opaque("scale", 3)


@module()
class HandlesItsBlocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.failed = 0

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        try:
            opaque_raise("block", len(x) % 2 == 0)
            y = self.second(y) + 1
        except Exception:
            self.failed += 1
            y = y * 2 - 1
        return y + x


@built()
def forward_hooks() -> Built:
    torch.default_generator.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    seen: list[Any] = []

    def hook(part: nn.Module, args: Any, output: Tensor) -> Tensor:
        seen.append(opaque("hook", tuple(output.shape)))
        seen[:-2] = []
        return output + 1

    made[0].register_forward_hook(hook)
    return Built(made, lambda: (made.state_dict(), seen))


@built()
def function_of_a_module() -> Built:
    torch.default_generator.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def function(x: Tensor) -> Tensor:
        y = made(x) * 2
        opaque("between", len(y))
        return made(y) - 1

    return Built(function, lambda: made)


@built()
def training_step() -> Built:
    torch.default_generator.manual_seed(0)
    made = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.25)

    def function(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (made(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach() * 2

    return Built(function, lambda: made)


@module()
class ModuleList2D(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grid: Any = nn.ModuleList(
            nn.ModuleList(nn.Linear(4, 4) for _ in range(2)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        for i, line in enumerate(self.grid):
            for cell in line:
                x = cell(x).tanh() + x
            if opaque_true(x):
                x = x - i
        return x * 2


@module()
class ParameterMadeInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.bias: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x) + 1
        if self.bias is None:
            opaque("made")
            self.bias = nn.Parameter(torch.ones(4))
        return y.relu() * self.bias


@module()
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(1, 4)
        for number, row in enumerate(x):
            state = self.cell(row[None] * 2, state)
            opaque("step", number)
        return state.relu() + 1


@module()
class SwitchesMode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(self.linear(x)) * 2
        self.dropout.train(opaque("training", not self.dropout.training))
        return self.dropout(y) + 1


@module()
class ThroughPartials(nn.Module):
    """Blocks are called through partials, as libraries hand arguments on to them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Scaled(), Scaled()])

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            call = partial(partial(block, scale=number + 2.0), shift=1.0)
            x = call(x.tanh(), shift=number) + partial(torch.mul, x)(2)
        return x.relu()


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: float, shift: float) -> Tensor:
        y = self.linear(x) * scale
        opaque("scaled", scale)
        return (y + shift).relu() * 3
