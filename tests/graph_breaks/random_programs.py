"""Random programs of statements with calls that cannot be traced in random positions.

A program is source text, which capture reads. Everything in it leaves a trace: `opaque` and `note`
write to one log what they are given as it is at that moment, so that an effect that comes too
early, too late, twice or never is seen. Tensors hold multiples of a quarter between -8 and 8:
whatever is computed is exact. A program may raise anything; its twin then raises the same.
"""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from typing import Any, Final

from tests.graph_breaks.table import SEEDS, SIZES, Built, Program, quarters

_HEAD: Final = """\
import contextlib

import torch
from tests.graph_breaks.opaque import *
from tests.graph_breaks.opaque import LOG, Trouble

G = 1


class Box:
    def __init__(self):
        self.t = torch.ones(4)
        self.n = 2
        self.items = []

    def __enter__(self):
        note("enter")
        self.n += 1
        return self.n

    def __exit__(self, kind, error, trace):
        opaque("exit", "" if error is None else type(error).__name__)
        return kind is Trouble

    @property
    def watched(self):
        opaque("get", self.n)
        return self.n

    @watched.setter
    def watched(self, value):
        opaque("set", value)
        self.n = value

    def scaled(self, t, k=2):
        self.n = (self.n + 1) % 5
        opaque("scaled", self.n)
        return (t * k - self.n).clamp(-8, 8)


def helper(t, k=1):
    t = (t + k).clamp(-8, 8)
    opaque("helper", t)
    return t - 1


def plain_helper(t, k=1):
    note("plain", t)
    return (t * 2 - k).clamp(-8, 8)


def parts(t, k):
    for i in range(k):
        opaque("part", i)
        yield (t - i).clamp(-8, 8)


BOX = Box()

"""


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = []
        self._depth = 0
        self._loops = 0
        self._tags = 0
        self._functions = 0
        self._left = self._random.randint(8, 22)
        self._in_function = 0
        self.tensors = ["x", "a", "b"]
        self.rows = ["r"]
        self.numbers = ["n", "k"]

    # -- words -------------------------------------------------------------------------------------

    def choice(self, options: Any) -> Any:
        return self._random.choice(options)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def tag(self) -> str:
        self._tags += 1
        return f'"{self._tags}"'

    def tensor(self, deep: int = 2) -> str:
        """An expression of rows by 4."""
        if deep <= 0 or self.chance(0.2):
            return self.choice([*self.tensors, "y"])
        return self.choice(_TENSORS)(self, deep - 1)

    def row(self, deep: int = 2) -> str:
        """An expression of 4 numbers."""
        if deep <= 0 or self.chance(0.3):
            return self.choice([*self.rows, "BOX.t"])
        t, r = self.tensor(deep - 1), self.row(deep - 1)
        return self.choice(
            (
                f"{t}.sum(0).clamp(-8, 8)",
                f"{t}[0]",
                f"({r} + {self.number(deep - 1)}).clamp(-8, 8)",
                f"opaque({self.tag()}, {r})",
                f"({r} * {self.row(deep - 1)}).round().clamp(-8, 8)",
                f"({r} if {self.truth(deep - 1)} else {self.row(deep - 1)})",
            )
        )

    def number(self, deep: int = 2) -> str:
        """An expression of a small integer."""
        if deep <= 0 or self.chance(0.3):
            return self.choice([*self.numbers, "1", "2", "3", "len(x)", "BOX.n", "G"])
        i, j = self.number(deep - 1), self.number(deep - 1)
        return self.choice(
            (
                f"opaque({self.tag()}, {i})",
                f"opaque_count({self.tensor(deep - 1)})",
                f"({i} + {j}) % 7",
                f"({i} - {j})",
                f"{self.tensor(deep - 1)}.shape[0]",
                "BOX.watched",
                "len(items)",
                f"({i} if {self.truth(deep - 1)} else {j})",
                f"(k := {i})",
                f"({self.truth(deep - 1)} and {i} or {j})",
                f"max({i}, {j})",
                f"int({self.tensor(0)}.sum().item()) % 5",
                f"sum([{i}, *[opaque({self.tag()}, q) for q in range({j} % 3)]])",
            )
        )

    def truth(self, deep: int = 2) -> str:
        if deep <= 0 or self.chance(0.2):
            return self.choice(("flag", f"{self.number(0)} > 2", "len(items) < 3", "True"))
        p, q = self.truth(deep - 1), self.truth(deep - 1)
        i, j = self.number(deep - 1), self.number(deep - 1)
        return self.choice(
            (
                f"opaque_true({self.tensor(deep - 1)})",
                f"opaque({self.tag()}, {p})",
                f"({p} and {q})",
                f"({p} or {q})",
                f"(not {p})",
                f"{i} < {j}",
                f"{i} <= opaque({self.tag()}, {j}) < {self.number(0)} + 2",
                f"{self.tensor(deep - 1)}.sum() > {self.number(0)}",
                f"bool({self.row(deep - 1)}.max() > 1)",
                f"{i} in (1, opaque({self.tag()}, 2), 4)",
                f"any(opaque({self.tag()}, q) > {i} for q in range({j} % 4))",
            )
        )

    # -- statements --------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        self._lines.append("    " * (self._depth + 1) + text)

    def _block(self, most: int = 3) -> None:
        self._depth += 1
        before = len(self._lines)
        for _ in range(self._random.randint(1, most)):
            if self._left > 0:
                self.statement()
        if len(self._lines) == before:
            self._write(f"opaque({self.tag()}, {self.number(1)})")
        self._depth -= 1

    def statement(self) -> None:
        self._left -= 1
        deep = self._depth < 3 and self._left > 1
        kinds = _SIMPLE + (_COMPOUND if deep else ())
        if self._loops and not self._in_function:
            kinds += (Writer.leave_the_loop,)
        self.choice(kinds)(self)

    def assign_tensor(self) -> None:
        name = self.choice([*self.tensors, *self.tensors, f"v{len(self.tensors)}"])
        self._write(f"{name} = {self.tensor(3)}")
        if name not in self.tensors:
            self.tensors.append(name)

    def assign_row(self) -> None:
        name = self.choice([*self.rows, f"r{len(self.rows)}"])
        self._write(f"{name} = {self.row(3)}")
        if name not in self.rows:
            self.rows.append(name)

    def assign_number(self) -> None:
        # Not that of a loop: the loop would not end.
        names = [each for each in self.numbers if each[0] not in "iw"]
        name = self.choice([*names, f"n{len(self.numbers)}"])
        self._write(f"{name} = {self.number(3)}")
        if name not in self.numbers:
            self.numbers.append(name)

    def write_in_place(self) -> None:
        t = self.choice(self.tensors)
        self._write(
            self.choice(
                (
                    f"{t}.add_({self.number(1)}).clamp_(-8, 8)",
                    f"{t}.copy_({self.tensor(1)})",
                    f"{t}[{self.number(2)} % len({t})] = {self.row(2)}",
                    f"{t}[{self.number(1)} % len({t})] += {self.number(2)}",
                    f"opaque_write({t}, {self.number(1)})",
                    f"{t}[1:].zero_()",
                    f"{t} += {self.tensor(1)}",
                    f"{t} -= opaque({self.tag()}, {self.number(1)})",
                    f"{self.choice(self.rows)}.sub_({self.number(1)})",
                    f"{t}.clamp_(-3, 3)",
                    f"torch.add({t}, 1, out={t})",
                )
            )
        )

    def change_state(self) -> None:
        self._write(
            self.choice(
                (
                    f"items.append({self.choice((self.tensor, self.number, self.row))(2)})",
                    f"items[opaque({self.tag()}, 0)] = {self.number(2)}",
                    f"items[{self.number(1)} % 2] = {self.tensor(2)}",
                    f"state['a'] = {self.tensor(2)}",
                    f"state[opaque({self.tag()})] = {self.number(2)}",
                    f"state.pop({self.choice(('opaque(chr(97))', repr('b')))}, None)",
                    f"state['k'] += {self.number(2)}",
                    f"BOX.t = {self.row(2)}",
                    f"BOX.n = ({self.number(2)}) % 5",
                    f"BOX.watched += opaque({self.tag()}, 1)",
                    f"BOX.t.add_({self.number(1)}).clamp_(-8, 8)",
                    f"G = ({self.number(2)}) % 6",
                    f"G += opaque({self.tag()}, 1)",
                    f"BOX.items = [*BOX.items[-1:], {self.number(2)}]",
                    "del state['k']",
                    "items.reverse()",
                )
            )
        )

    def call(self) -> None:
        self._write(
            self.choice(
                (
                    f"opaque({self.tag()}, {self.tensor(2)})",
                    f"note({self.tag()}, {self.tensor(1)})",
                    f"opaque({self.tag()}, {self.tensor(1)}, {self.number(2)})",
                    f"print({self.tag()}, {self.number(2)}, {self.tensor(0)}.shape)",
                    f"helper({self.tensor(1)}, k={self.number(1)})",
                    f"opaque_raise({self.tag()}, {self.truth(1)})",
                    f"LOG.append(({self.tag()}, {self.number(1)}))",
                    f"BOX.scaled({self.tensor(1)})",
                )
            )
        )

    def unpack(self) -> None:
        t, u = self.choice(self.tensors), self.choice(self.tensors)
        self._write(
            self.choice(
                (
                    f"{t}, k = {self.tensor(2)}, {self.number(2)}",
                    f"{t}, {u} = {u}, {self.tensor(2)}",
                    f"r, *_ = opaque({self.tag()}, {self.tensor(1)})",
                    f"{t} = state['b'] = {self.tensor(2)}",
                    f"(k, n), r = opaque({self.tag()}, ({self.number(1)}, 3)), {self.row(2)}",
                    f"{t}, *rest = [q for q in parts({self.tensor(1)}, 2)]",
                )
            )
        )

    def stop(self) -> None:
        self._write(
            self.choice(
                (
                    f"if {self.truth(2)}: raise Trouble({self.tag()})",
                    f"if {self.truth(2)}: raise ValueError(f'{{{self.number(1)}}}')",
                    f"if {self.truth(1)} and flag: return {self.tensor(2)}",
                    f"if {self.number(1)} == 3: del {self.choice([*self.tensors, 'r', 'k'])}",
                    f"assert {self.truth(2)} or flag, {self.tag()}",
                )
            )
        )

    def if_(self) -> None:
        self._write(f"if {self.truth(3)}:")
        self._block()
        if self.chance(0.3):
            self._write(f"elif {self.truth(2)}:")
            self._block()
        if self.chance(0.5):
            self._write("else:")
            self._block()

    def for_(self) -> None:
        name = f"i{self._depth}"
        self._write(
            self.choice(
                (
                    f"for {name} in range({self.number(2)} % 4):",
                    f"for {name} in [1, opaque({self.tag()}, 2), len(items)]:",
                    f"for {name}, r in enumerate({self.tensor(1)}):",
                    f"for {name}, r in zip(range(2), {self.tensor(1)}, strict=False):",
                    f"for {name} in opaque({self.tag()}, (3, 1)):",
                    f"for {name}, x in enumerate(parts({self.tensor(1)}, 2)):",
                )
            )
        )
        self._body_of_a_loop(name)

    def while_(self) -> None:
        name = f"w{self._depth}"
        self._write(f"{name} = 0")
        self._write(f"while {name} < 3 and {self.truth(2)}:")
        self._depth += 1
        self._write(f"{name} += 1")
        self._depth -= 1
        self._body_of_a_loop(name)

    def _body_of_a_loop(self, name: str) -> None:
        inside, self._in_function = self._in_function, 0
        self._loops += 1
        self.numbers.append(name)
        self._block()
        self.numbers.remove(name)
        self._loops -= 1
        self._in_function = inside
        if self.chance(0.2):
            self._write("else:")
            self._block(1)

    def leave_the_loop(self) -> None:
        self._write(f"if {self.truth(2)}: {self.choice(('break', 'continue'))}")

    def try_(self) -> None:
        self._write("try:")
        self._block()
        kinds = (
            *("except Trouble:", "except Trouble as error:", "except (ValueError, Trouble):"),
            *("except Exception as error:", "except LookupError:", ""),
        )
        handler = self.choice(kinds)
        if handler:
            self._write(handler)
            self._block(2)
            if self.chance(0.25):
                self._depth += 1
                self._write(
                    self.choice(("raise", "raise RuntimeError('again')", "note('handled')"))
                )
                self._depth -= 1
            if self.chance(0.3):
                self._write("else:")
                self._block(1)
        if not handler or self.chance(0.4):
            self._write("finally:")
            self._block(2)

    def with_(self) -> None:
        managers = (
            *("BOX", "BOX as k", "contextlib.suppress(Trouble)", "torch.no_grad()"),
            *("contextlib.suppress(ValueError, KeyError), BOX", "contextlib.nullcontext(3) as k"),
            f"opaque({self.tag()}, BOX)",
        )
        self._write(f"with {self.choice(managers)}:")
        self._block()

    def match_(self) -> None:
        self._write(f"match {self.number(2)}:")
        self._depth += 1
        for case in self._random.sample(("1", "2 | 3", f"q if {self.truth(1)}"), 2):
            self._write(f"case {case}:")
            self._block(2)
        self._write("case _:")
        self._block(2)
        self._depth -= 1

    def function_(self) -> None:
        self._functions += 1
        name = f"f{self._functions}"
        self._write(f"def {name}(x, q={self.number(1)}):")
        kept = list(self.tensors), list(self.rows), list(self.numbers)
        self._depth += 1
        # Names that are assigned below are its own, but for one.
        self._write("nonlocal k, a")
        self._depth -= 1
        self.tensors, self.rows, self.numbers = ["x", "a"], ["r0"], ["q", "k"]
        self._depth += 1
        self._write("r0 = x[0]")
        self._depth -= 1
        loops, self._loops = self._loops, 0
        self._block()
        self._loops = loops
        self._depth += 1
        self._write(f"return {self.tensor(2)}")
        self._depth -= 1
        self.tensors, self.rows, self.numbers = kept
        t = self.choice(self.tensors)
        self._write(f"{t} = {name}({self.tensor(1)}, {self.number(1)})")
        if self.chance(0.4):
            self._write(f"{t} = {name}({name}({self.tensor(1)})).relu()")

    def text(self) -> str:
        self._write("global G")
        self._write("a = (x * 2 + 1).clamp(-8, 8)")
        self._write("b, r, k = a - y, a[0], n + 1")
        while self._left > 0:
            self.statement()
        self._write(f"opaque({self.tag()}, {self.number(1)})")
        shown = ", ".join(self._random.sample(self.tensors[:3], 2))
        self._write(f"return {shown}, {self.row(1)}, {self.number(2)}, items")
        return "\n".join([_HEAD + "def f(x, y, n, flag, items, state):", *self._lines, ""])


_TENSORS: Final[tuple[Callable[[Writer, int], str], ...]] = (
    lambda w, d: f"({w.tensor(d)} + {w.tensor(d)}).clamp(-8, 8)",
    lambda w, d: f"({w.tensor(d)} * {w.number(d)}).clamp(-8, 8)",
    lambda w, d: f"({w.tensor(d)} - {w.row(d)}).clamp(-8, 8)",
    lambda w, d: f"{w.tensor(d)}.relu()",
    lambda w, d: f"(-{w.tensor(d)})",
    lambda w, d: f"{w.tensor(d)}.flip(0)",
    lambda w, d: f"torch.where({w.tensor(d)} > 0, {w.tensor(d)}, {w.row(d)})",
    lambda w, d: f"opaque({w.tag()}, {w.tensor(d)})",
    lambda w, d: f"opaque({w.tag()}, {w.number(d)}, {w.tensor(d)})",
    lambda w, d: f"({w.tensor(d)} if {w.truth(d)} else {w.tensor(d)})",
    lambda w, d: f"helper({w.tensor(d)}, {w.number(d)})",
    lambda w, d: f"plain_helper({w.tensor(d)}, k={w.number(d)})",
    lambda w, d: f"BOX.scaled({w.tensor(d)}, {w.number(0)})",
    lambda w, d: f"(a := {w.tensor(d)})",
    lambda w, d: f"opaque_write({w.choice(w.tensors)}, {w.number(d)})",
    lambda w, d: f"{w.choice(w.tensors)}.add_({w.number(d)}).clamp_(-8, 8)",
    lambda w, d: f"torch.stack([{w.tensor(d)}, {w.tensor(d)}]).amax(0)",
    lambda w, d: f"(lambda t: opaque({w.tag()}, t) - 1)({w.tensor(d)}).clamp(-8, 8)",
    lambda w, d: f"torch.stack([q + {w.number(d)} for q in {w.tensor(d)}]).clamp(-8, 8)",
    lambda w, d: (
        f"({w.truth(d)} and {w.tensor(d)} or {w.tensor(d)})"
        if w.chance(0.2)
        else f"{w.tensor(d)}.round()"
    ),
    lambda w, d: f"{w.tensor(d)}[:]",
    lambda w, d: f"({w.tensor(d)} + torch.randint(0, 2, (4,))).clamp(-8, 8)",
)
_SIMPLE: Final = (
    *(Writer.assign_tensor,) * 3,
    *(Writer.write_in_place,) * 2,
    *(Writer.change_state,) * 2,
    *(Writer.call,) * 2,
    *(Writer.assign_row, Writer.assign_number, Writer.unpack, Writer.stop),
)
_COMPOUND: Final = (
    *(Writer.if_,) * 2,
    *(Writer.for_,) * 2,
    *(Writer.while_, Writer.with_, Writer.match_, Writer.function_),
    *(Writer.try_,) * 2,
)


def program(seed: int) -> Program:
    """The program of a seed, as a row of the table."""
    return of_source(source_of(seed), f"random {seed}", leaf=seed % 3 == 0)


def source_of(seed: int) -> str:
    """The first text that Python takes: an assignment expression may stand where it must not."""
    for attempt in itertools.count():
        source = Writer(seed + attempt * 1_000_003).text()
        try:
            compile(source, "<program>", "exec")
        except SyntaxError:
            continue
        return source
    raise AssertionError("some text is a program")


def of_source(source: str, name: str, leaf: bool = False) -> Program:
    """A program that is text: `f(x, y, n, flag, items, state)`. With `leaf`, y wants gradients."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    code = compile(source, file, "exec")

    def build() -> Built:
        scope: dict[str, Any] = {"__name__": "tests.graph_breaks.generated"}
        exec(code, scope)
        return Built(scope["f"], lambda: (vars(scope["BOX"]), scope["G"]))

    def inputs(call: int) -> tuple[Any, ...]:
        size, seed = SIZES[call], SEEDS[call]
        items: list[Any] = [quarters(4), seed, quarters(size, 4)]
        state = {"a": quarters(size, 4), "b": 2, "k": seed}
        y = quarters(size, 4).requires_grad_(leaf)
        return quarters(size, 4), y, seed + 2, seed % 2 == 0, items, state

    return Program(name, build, inputs)
