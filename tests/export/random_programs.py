"""Random small programs, as source: what they do with sizes is what a spec has to agree with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod
from typing import Any

from tests.export.random_specs import random_spec

Sizes = tuple[int, ...]


@dataclass
class Case:
    """A program, the sizes of its arguments in the example, and a spec of them."""

    number: int
    source: str
    parameters: list[str]
    example: list[Sizes]
    spec: Any

    @property
    def name(self) -> str:
        return f"program_{self.number}"


class Writer:
    """Writes the body of a program; keeps what the sizes of each variable are in the example."""

    def __init__(self, chance: random.Random, known: dict[str, Sizes]) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.known = known
        self._count = 0

    def new(self, expression: str, sizes: Sizes) -> None:
        name = f"v{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {expression}")
        self.known[name] = sizes

    def step(self) -> None:
        name = self.chance.choice(list(self.known))
        sizes = self.known[name]
        kinds = [*_ANY, *(_SOME if sizes else ()), *(_MATRIX if len(sizes) == 2 else ())]
        getattr(self, self.chance.choice(kinds))(name, sizes)

    def size(self) -> tuple[str, int]:
        """A size of something, as code, and its value in the example."""
        name = self.chance.choice([each for each, sizes in self.known.items() if sizes])
        dim = self.chance.randrange(len(self.known[name]))
        return f"{name}.shape[{dim}]", self.known[name][dim]

    # -- no questions about sizes ------------------------------------------------------------------

    def relu(self, name: str, sizes: Sizes) -> None:
        self.new(f"torch.relu({name}) - 1", sizes)

    def scale(self, name: str, sizes: Sizes) -> None:
        self.new(f"{name} * {self.size()[0]} + 1", sizes)

    def sum(self, name: str, sizes: Sizes) -> None:
        dim = self.chance.randrange(len(sizes))
        self.new(f"{name}.sum({dim})", sizes[:dim] + sizes[dim + 1 :])

    def cumsum(self, name: str, sizes: Sizes) -> None:
        self.new(f"{name}.cumsum(0)", sizes)

    def flatten(self, name: str, sizes: Sizes) -> None:
        self.new(f"{name}.reshape(-1)", (prod(sizes),))

    def mask(self, name: str, sizes: Sizes) -> None:
        self.new(f"({name}[{name} > 0]).sum()", ())

    def transpose(self, name: str, sizes: Sizes) -> None:
        self.new(f"{name}.t()", (sizes[1], sizes[0]))

    def gram(self, name: str, sizes: Sizes) -> None:
        self.new(f"{name} @ {name}.t()", (sizes[0], sizes[0]))

    def slice(self, name: str, sizes: Sizes) -> None:
        start = self.chance.randrange(3)
        self.new(f"{name}[{start}:]", (max(sizes[0] - start, 0), *sizes[1:]))

    def half(self, name: str, sizes: Sizes) -> None:
        self.new(f"{name}[: {name}.shape[0] // 2]", (sizes[0] // 2, *sizes[1:]))

    def expand(self, name: str, sizes: Sizes) -> None:
        if len(sizes) == 1:
            self.new(f"{name}[None, :].expand(3, -1)", (3, *sizes))

    def repeat(self, name: str, sizes: Sizes) -> None:
        if len(sizes) == 1:
            self.new(f"{name}.repeat(2)", (2 * sizes[0],))

    def pad(self, name: str, sizes: Sizes) -> None:
        if len(sizes) == 1:
            self.new(f"torch.nn.functional.pad({name}, (1, 2))", (sizes[0] + 3,))

    # -- what needs something of sizes -------------------------------------------------------------

    def branch(self, name: str, sizes: Sizes) -> None:
        size, _ = self.size()
        sign, number = self.chance.choice(("<", ">", "==", "<=")), self.chance.randrange(1, 6)
        self.new(f"{name} + 1 if {size} {sign} {number} else {name} * 2", sizes)

    def compare(self, name: str, sizes: Sizes) -> None:
        left, right = self.size()[0], self.size()[0]
        sign, number = self.chance.choice(("<", ">", "==")), self.chance.randrange(-2, 3)
        self.new(f"{name} - 1 if {left} {sign} {right} + {number} else {name} * 3", sizes)

    def remainder(self, name: str, sizes: Sizes) -> None:
        by = self.chance.choice((2, 3))
        self.new(f"{name} + 2 if {self.size()[0]} % {by} == 0 else {name} - 2", sizes)

    def total(self, name: str, sizes: Sizes) -> None:
        limit = self.chance.choice((4, 9, 16))
        self.new(
            f"{name} * 2 if {self.size()[0]} + {self.size()[0]} > {limit} else {name} + 3", sizes
        )

    def check(self, name: str, sizes: Sizes) -> None:
        size, value = self.size()
        if self.chance.random() < 0.5:
            low = max(value - self.chance.randrange(3), 0)
            self.lines.append(f"torch._check({size} >= {low})")
        else:
            self.lines.append(f"torch._check({size} <= {value + self.chance.randrange(5)})")

    def group(self, name: str, sizes: Sizes) -> None:
        by, total = self.chance.choice((2, 3)), prod(sizes)
        if total % by == 0 and total:
            how = self.chance.choice(("reshape", "view")) if name.startswith("x") else "reshape"
            self.new(f"{name}.{how}({by}, -1)", (by, total // by))

    def take(self, name: str, sizes: Sizes) -> None:
        if sizes[0]:
            at = self.chance.choice((0, sizes[0] - 1))
            self.new(f"{name}[{at}]", sizes[1:])

    def cat(self, name: str, sizes: Sizes) -> None:
        others = [n for n, s in self.known.items() if len(s) == len(sizes) and s[1:] == sizes[1:]]
        other = self.chance.choice(others)
        self.new(f"torch.cat([{name}, {other}])", (sizes[0] + self.known[other][0], *sizes[1:]))

    def first(self, name: str, sizes: Sizes) -> None:
        """As many rows of one thing as another has."""
        others = [n for n, s in self.known.items() if s[1:] == sizes[1:] and s and s[0] <= sizes[0]]
        other = self.chance.choice(others)
        self.new(f"{name}[: {other}.shape[0]] + {other}", self.known[other])

    def add(self, name: str, sizes: Sizes) -> None:
        others = [n for n, s in self.known.items() if s in (sizes, ())]
        self.new(f"{name} + {self.chance.choice(others)}", sizes)

    def product(self, name: str, sizes: Sizes) -> None:
        others = [n for n, s in self.known.items() if len(s) == 2 and s[0] == sizes[1]]
        if others:
            other = self.chance.choice(others)
            self.new(f"{name} @ {other}", (sizes[0], self.known[other][1]))


_ANY = ("relu", "scale", "branch", "compare", "remainder", "total", "check", *("add",) * 5)
_SOME = (
    *("slice", "half", "sum", "cat", "cat", "cumsum", "flatten", "group", "group", "mask"),
    *("expand", "repeat", "pad", "take", "first", "first"),
)
_MATRIX = ("transpose", "gram", "product", "product")


def random_case(number: int) -> Case:
    chance = random.Random(number)
    # Sizes that are equal or related in the example: the program will rely on it here and there.
    a = chance.randint(1, 7)
    sizes = (a, a, chance.randint(1, 7), 2 * a, 2 * a + 1, a + 1, 3)
    example = [
        tuple(chance.choice(sizes) for _ in range(chance.randint(1, 2)))
        for _ in range(chance.randint(1, 3))
    ]
    parameters = [f"x{index}" for index in range(len(example))]
    writer = Writer(chance, dict(zip(parameters, example, strict=True)))
    for _ in range(chance.randint(2, 7)):
        writer.step()
    body = "".join(f"    {line}\n" for line in writer.lines)
    returned = ", ".join([*writer.known][-2:])
    source = f"def program_{number}({', '.join(parameters)}):\n{body}    return ({returned},)\n"
    return Case(number, source, parameters, example, random_spec(chance, parameters, example))
