"""Programs that are compiled more often than they need to be, each for one reason.

The line to blame ends with `# blame`. A program takes a `compile` and makes its calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import anyshape
from anyshape import config

Compile = Callable[..., Any]
SCALE: Any = 1.0


def static_first(compile: Compile) -> None:
    @compile
    def function(x, weights):
        return (x * weights).sum()  # blame

    for n in (4, 7, 9):
        x = torch.ones(n, 3)
        function(x, torch.ones(3))


def two_sizes_one_after_the_other(compile: Compile) -> None:
    @compile
    def function(x, y):
        return x.sum() + y.sum()  # blame

    for n, m in ((4, 5), (6, 5), (7, 8), (9, 9)):
        function(torch.ones(n), torch.ones(m))


def integer_first(compile: Compile) -> None:
    @compile
    def function(x, n):
        y = x + 1
        return y * n  # blame

    for n in (4, 7, 9):
        function(torch.ones(3), n)


def automatic_off(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1  # blame

    with config.patch(automatic_dynamic=False):
        for n in (4, 7, 9):
            function(torch.ones(n))


def zero_one(compile: Compile) -> None:
    @compile(dynamic=True)
    def function(x):
        return x + 1  # blame

    with config.patch(specialize_zero_one=True):
        for n in (4, 7, 1):
            function(torch.ones(n))


def one_zero(compile: Compile) -> None:
    @compile(dynamic=True)
    def function(x):
        return x + 1  # blame

    with config.patch(specialize_zero_one=True):
        for n in (1, 4, 7):
            function(torch.ones(n))


def dynamic_false(compile: Compile) -> None:
    @compile(dynamic=False)
    def function(x):
        return x + 1  # blame

    for n in (4, 7, 9):
        function(torch.ones(n))


def marked_static(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1  # blame

    for n in (4, 7, 9):
        x = torch.ones(n)
        anyshape.mark_static(x, 0)
        function(x)


class Shifted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x = 30
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.mode = "plain"

    def forward(self, values):
        if self.x == 33:  # blame
            return values * 2
        return values + self.x


def module_integer(compile: Compile) -> None:
    module = Shifted()
    function = compile(module)
    for n in (30, 31, 33, 34):
        module.x = n
        function(torch.ones(3))


class Weighted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.mode = "plain"

    def forward(self, values):
        scaled = values.sum() * self.weight  # blame
        return scaled if self.mode == "plain" else scaled + 0


def parameter(compile: Compile) -> None:
    module = Weighted()
    function = compile(module)
    for n in (3, 4, 5):
        module.weight = torch.nn.Parameter(torch.ones(n))
        function(torch.ones(2))


def branch(compile: Compile) -> None:
    @compile
    def function(x):
        if x.shape[0] == 8:  # blame
            return x * 2
        return x + 1

    for n in (4, 5, 8, 9):
        function(torch.ones(n))


def branch_seen_first(compile: Compile) -> None:
    """The static graph is of the rarer way: to mark the size would save nothing."""

    @compile
    def function(x):
        if x.shape[0] == 8:  # blame
            return x * 2
        return x + 1

    for n in (8, 4, 5):
        function(torch.ones(n))


def loop(compile: Compile) -> None:
    @compile(dynamic=True)
    def function(x, n):
        for i in range(n):  # blame
            x = x + i
        return x

    for n in (2, 3, 4):
        function(torch.ones(3), n)


def constant(compile: Compile) -> None:
    @compile(dynamic=True)
    def function(x, n):
        return x * math.comb(n, 2)  # blame

    for n in (2, 3, 4):
        function(torch.ones(3), n)


def tied(compile: Compile) -> None:
    @compile
    def function(x, y):
        return x + y  # blame

    for n in (5, 7):
        x = torch.ones(n)
        anyshape.maybe_mark_dynamic(x, 0)
        function(x, torch.ones(n))


def one_symbol(compile: Compile) -> None:
    @compile(dynamic=True)
    def function(x, y):
        return x.sum() + y.sum()  # blame

    with config.patch(duck_shape=True):
        function(torch.ones(3), torch.ones(3))
        function(torch.ones(4), torch.ones(5))


def stretched(compile: Compile) -> None:
    @compile(dynamic=True)
    def function(x, y):
        return x + y  # blame

    function(torch.ones(3), torch.ones(3))
    function(torch.ones(3), torch.ones(1))


# -- not sizes -------------------------------------------------------------------------------------


def rate(compile: Compile) -> None:
    @compile
    def function(x, rate):
        y = x + 1
        return y - rate * y  # blame

    for value in (0.1, 0.2, 1e-3):
        function(torch.ones(3), value)


def global_float(compile: Compile) -> None:
    @compile
    def function(x):
        return x * SCALE  # blame

    global SCALE
    for value in (1.5, 2.5):
        SCALE = value
        function(torch.ones(3))


def attribute(compile: Compile) -> None:
    module = Named()
    function = compile(module)
    for name in ("a", "b", "c"):
        module.name = name
        function(torch.ones(3))


class Named(torch.nn.Module):
    name = "a"

    def forward(self, x):
        if self.name == "never":  # blame
            return x
        return x + 1


def training(compile: Compile) -> None:
    module = Dropped()
    function = compile(module)
    function(torch.ones(3))
    module.eval()
    function(torch.ones(3))


class Dropped(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, self.training)  # blame


def grad_mode(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1

    function(torch.ones(3))
    with torch.no_grad():
        function(torch.ones(3))  # blame


def autocast(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1

    function(torch.ones(3))
    with torch.autocast("cpu"):
        function(torch.ones(3))  # blame


def grad_mode_and_size(compile: Compile) -> None:
    """The size fails first, and would not have spared the compile."""

    @compile
    def function(x):
        return x + 1

    function(torch.ones(3))
    with torch.no_grad():
        function(torch.ones(4))  # blame


def dtype(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1  # blame

    function(torch.ones(3))
    function(torch.ones(3, dtype=torch.float64))


def requires_grad(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1  # blame

    function(torch.ones(3))
    function(torch.ones(3, requires_grad=True))


def rank(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1  # blame

    function(torch.ones(3))
    function(torch.ones(3, 3))


def layout(compile: Compile) -> None:
    @compile
    def function(x):
        return x + 1  # blame

    function(torch.ones(3, 4))
    function(torch.ones(4, 3).t())


def kind(compile: Compile) -> None:
    @compile
    def function(x, y):
        return x + y  # blame

    function(torch.ones(3), torch.ones(3))
    function(torch.ones(3), 2.0)


def length(compile: Compile) -> None:
    @compile
    def function(xs):
        total = torch.zeros(2)
        for x in xs:  # blame
            total = total + x
        return total

    for n in (1, 2, 3):
        function([torch.ones(2) for _ in range(n)])


def keys(compile: Compile) -> None:
    @compile
    def function(options):
        return sum(options.values())  # blame

    function({"a": torch.ones(2), "b": torch.ones(2)})
    function({"b": torch.ones(2), "a": torch.ones(2)})


def same_object(compile: Compile) -> None:
    @compile
    def function(x, y):
        return x + y  # blame

    x = torch.ones(3)
    function(x, x)
    function(x, torch.ones(3))


def closure(compile: Compile) -> None:
    factor = "a"

    @compile
    def function(x):
        return x + len(factor)  # blame

    for factor in ("a", "bc"):  # noqa: B007 the function reads it
        function(torch.ones(3))


# -- not in one piece, or not at all ---------------------------------------------------------------


def graph_break(compile: Compile) -> None:
    @compile
    def function(x):
        if x.sum() > 3:  # blame
            return x * 2
        return x - 1

    function(torch.ones(5))
    function(torch.zeros(5))


def limit(compile: Compile) -> None:
    @compile  # blame
    def function(x, name):
        return x + len(name)

    with config.patch(recompile_limit=2):
        for name in ("a", "b", "c"):
            function(torch.ones(3), name)
