"""Random small programs, as source, with random specs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from anyshape import Dim

NAMES = ("a", "b", "c")


@dataclass
class Case:
    """A program of some inputs, whose sizes have names, and a spec of them."""

    number: int
    source: str
    #: the sizes of each input: a name, or a number
    shapes: list[list[str | int]]
    spec: dict[str, Any]
    #: values of the names in the example
    example: dict[str, int]
    strict: dict[str, Dim] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"program_{self.number}"


class Writer:
    """Writes the body of a program; keeps what the sizes of each variable are in the example."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.known: dict[str, tuple[int, ...]] = {}

    def new(self, expression: str, sizes: tuple[int, ...]) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.known[name] = sizes

    def step(self) -> None:
        name = self.chance.choice(list(self.known))
        sizes = self.known[name]
        rank = len(sizes)
        choices = ["relu", "scale", "branch"]
        if rank:
            choices += [
                "slice",
                "half",
                "sum",
                "cat",
                "cumsum",
                "flatten",
                "group",
                "mask",
                "expand",
            ]
        if rank == 2:
            choices += ["transpose", "matmul"]
        choices += ["add"] * 3
        getattr(self, self.chance.choice(choices))(name, sizes)

    def relu(self, name: str, sizes: tuple[int, ...]) -> None:
        self.new(f"torch.relu({name}) - 1", sizes)

    def scale(self, name: str, sizes: tuple[int, ...]) -> None:
        by = f"{name}.shape[{self.chance.randrange(len(sizes))}]" if sizes else "3"
        self.new(f"{name} * {by} + 1", sizes)

    def branch(self, name: str, sizes: tuple[int, ...]) -> None:
        if not sizes:
            return
        dim = self.chance.randrange(len(sizes))
        sign, number = self.chance.choice(("<", ">", "==")), self.chance.randrange(1, 6)
        self.new(f"{name} + 1 if {name}.shape[{dim}] {sign} {number} else {name} * 2", sizes)

    def slice(self, name: str, sizes: tuple[int, ...]) -> None:
        start = self.chance.randrange(3)
        self.new(f"{name}[{start}:]", (max(sizes[0] - start, 0), *sizes[1:]))

    def half(self, name: str, sizes: tuple[int, ...]) -> None:
        self.new(f"{name}[: {name}.shape[0] // 2]", (sizes[0] // 2, *sizes[1:]))

    def sum(self, name: str, sizes: tuple[int, ...]) -> None:
        dim = self.chance.randrange(len(sizes))
        self.new(f"{name}.sum({dim})", sizes[:dim] + sizes[dim + 1 :])

    def cumsum(self, name: str, sizes: tuple[int, ...]) -> None:
        self.new(f"{name}.cumsum(0)", sizes)

    def flatten(self, name: str, sizes: tuple[int, ...]) -> None:
        total = 1
        for size in sizes:
            total *= size
        self.new(f"{name}.reshape(-1)", (total,))

    def group(self, name: str, sizes: tuple[int, ...]) -> None:
        total = 1
        for size in sizes:
            total *= size
        if total % 2 == 0 and total:
            self.new(f"{name}.reshape(2, -1)", (2, total // 2))

    def mask(self, name: str, sizes: tuple[int, ...]) -> None:
        self.new(f"({name}[{name} > 0]).sum()", ())

    def expand(self, name: str, sizes: tuple[int, ...]) -> None:
        if len(sizes) == 1:
            self.new(f"{name}[None, :].expand(3, -1)", (3, *sizes))

    def transpose(self, name: str, sizes: tuple[int, ...]) -> None:
        self.new(f"{name}.t()", (sizes[1], sizes[0]))

    def matmul(self, name: str, sizes: tuple[int, ...]) -> None:
        self.new(f"{name} @ {name}.t()", (sizes[0], sizes[0]))

    def cat(self, name: str, sizes: tuple[int, ...]) -> None:
        others = [n for n, s in self.known.items() if len(s) == len(sizes) and s[1:] == sizes[1:]]
        other = self.chance.choice(others)
        self.new(f"torch.cat([{name}, {other}])", (sizes[0] + self.known[other][0], *sizes[1:]))

    def add(self, name: str, sizes: tuple[int, ...]) -> None:
        others = [n for n, s in self.known.items() if s == sizes or s == ()]
        self.new(f"{name} + {self.chance.choice(others)}", sizes)


def random_case(number: int) -> Case:
    chance = random.Random(number)
    values = {name: chance.randint(1, 7) for name in NAMES}
    if chance.random() < 0.4:
        values["b"] = values["a"]
    shapes: list[list[str | int]] = [
        [chance.choice((*NAMES, "a", 3)) for _ in range(chance.randint(1, 2))]
        for _ in range(chance.randint(1, 3))
    ]
    writer = Writer(chance)
    parameters = [f"x{index}" for index in range(len(shapes))]
    for parameter, shape in zip(parameters, shapes, strict=True):
        writer.known[parameter] = tuple(values[s] if isinstance(s, str) else s for s in shape)
    for _ in range(chance.randint(2, 6)):
        writer.step()
    body = "".join(f"    {line}\n" for line in writer.lines)
    returned = ", ".join([*writer.known][-2:])
    source = f"def program_{number}({', '.join(parameters)}):\n{body}    return ({returned},)\n"
    dims = {name: _dim(chance, name, values[name]) for name in NAMES}
    spec: dict[str, Any] = {}
    strict: dict[str, Dim] = {}
    way = chance.choice(("dims", "auto", "mixed", "mixed"))
    for parameter, shape in zip(parameters, shapes, strict=True):
        said: list[Any] = []
        for size in shape:
            kind = chance.choice(("dim", "auto", "none", "dim")) if way == "mixed" else way
            if isinstance(size, int) or kind == "none":
                said.append(None)
            elif kind == "auto":
                said.append(Dim.AUTO)
            else:
                said.append(dims[size])
                strict[size] = dims[size]
        spec[parameter] = tuple(said)
    return Case(number, source, shapes, spec, values, strict)


def _dim(chance: random.Random, name: str, value: int) -> Dim:
    low = chance.choice((0, 1, max(value - 2, 0), value))
    return Dim(name, min=min(low, value), max=chance.choice((None, value + 3, 20)))
