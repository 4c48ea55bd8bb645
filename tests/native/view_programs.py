"""Random programs of views, pointwise operators, lookups and writes, for the fuzz tests.

A program is source text: capture reads it. It is made step by step, each tried in eager at one
shape; at other shapes it may fail, and then has to fail in the same way.
"""

from __future__ import annotations

import contextlib
import linecache
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import torch

from tests import devices
from tests.native.plans import watched

SHAPES = ((3, 4, 2), (2, 3, 5), (1, 1, 1), (5, 1, 3), (0, 2, 3), (4, 6, 17))

#: makes an input of a shape
Maker = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]

#: How to make an input of a shape: dense, with dimensions exchanged, with gaps, expanded.
INPUTS: dict[str, Maker] = {
    "contiguous": lambda s, g: torch.randn(s, generator=g),
    "transposed": lambda s, g: torch.randn((s[2], s[0], s[1]), generator=g).permute(1, 2, 0),
    "with gaps": lambda s, g: torch.randn((s[0], s[1] + 1, s[2] * 2), generator=g)[:, 1:, ::2],
}

#: `{a}`, `{b}`: tensors of floats; `{d}`, `{e}`: dimensions of the first
MAKES = (
    *("{a} * 2 + 1", "{a} + {b}", "torch.where({a} > 0, {a}, {b})", "-{a}", "{a}.abs()"),
    *("{a}.transpose({d}, {e})", "{a}.unsqueeze({d})", "{a}.squeeze({d})", "{a}[1:]", "{a}[:-1]"),
    *("{a}[..., ::2]", "{a}[0]", "{a}[..., -1]", "{a}[None]", "{a}.flatten({d}, {e})"),
    *("{a}.reshape(-1)", "{a}.reshape({a}.shape[0], -1)", "{a}.contiguous()", "{a}.clone()"),
    *("{a}.contiguous().view(-1)", "{a}.flip({d})", "{a}.roll(1, {d})", "{a}.t()"),
    *("{a}.expand(2, *{a}.shape)", "{a}.unsqueeze(-1).expand(*{a}.shape, 3)"),
    *(
        "torch.cat([{a}, {a} + 1], {d})",
        "torch.stack([{a}, {a} * 3], {d})",
        "{a}.movedim({d}, {e})",
    ),
    *("{a}.repeat_interleave(2, {d})", "{a}.tril()", "torch.nn.functional.pad({a}, (1, 2))"),
    *("{a}.narrow({d}, 0, 1)", "{a}.select({d}, 0)", "{a}.chunk(2, {d})[0]", "{a}.unbind({d})[0]"),
    *("{a}.diagonal()", "{a}.unfold({d}, 1, 1)", "{a}.cumsum({d})", "{a}.sum({d})"),
    *("{a}[i % {a}.shape[0]]", "{a}.index_select({d}, i % {a}.shape[{d}])", "{a}.amax({d})"),
    *("{a}[..., i % {a}.shape[-1]]", "{a} + {a}.sum({d}, keepdim=True)", "{a}.reshape({b}.shape)"),
    *("{a}.tile(2)", "torch.nn.functional.pad({a}, (-1, 1))", "torch.nn.functional.silu({a})"),
)

WRITES = (
    *("{a}.add_(1)", "{a}.mul_({b})", "{a}[0] = 2", "{a}[1:] = 0.5", "{a}[..., 0] += 1"),
    *("{a}[1:] = {a}[:-1].clone()", "{a}[1:] = {a}[:-1] * 2", "{a}.copy_({b})", "{a}.zero_()"),
    *("{a}[{a} > 0.5] = 0.25", "{a}[i % {a}.shape[0]] = 3", "{a}.transpose({d}, {e}).mul_(2)"),
    *(
        "{a}[...] = {b}",
        "{a}.view(-1)[1:] = 4",
        "{a}[..., ::2] *= {b}",
        "{a}.index_fill_({d}, i, 1)",
    ),
    *("{a}.scatter_add_({d}, ({a} * 0).long(), {b})", "{a}.index_add_(0, i % {a}.shape[0], {b})"),
    *(
        "{a}.masked_fill_({b} > 0, 1)",
        "{a}.fill_(2)",
        "{a}.clamp_(min=0)",
        "{a}.copy_({a}.flip(0))",
    ),
)


class Vocabulary(NamedTuple):
    """What programs are made of. `tolerance`: how far results may be from eager's."""

    #: how to make inputs, by kind
    inputs: Mapping[str, Maker]
    makes: tuple[str, ...]
    writes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...] = SHAPES
    tolerance: float = 1e-5


VIEWS: Final = Vocabulary(INPUTS, MAKES, WRITES)


def program(seed: int, steps: int = 7, words: Vocabulary = VIEWS) -> tuple[str, str]:
    """The source of a function `f(x, y, i)`, and the kind of its inputs."""
    chooser = random.Random(seed)
    kind = chooser.choice(list(words.inputs))
    lines: list[str] = []
    names = ["x", "y"]
    for number in range(steps):
        for _ in range(20):
            writes = chooser.random() < 0.3
            a, b = chooser.choice(names[-4:]), chooser.choice(names)
            text = chooser.choice(words.writes if writes else words.makes).format(
                a=a, b=b, d=chooser.choice((0, 1, -1, -2)), e=chooser.choice((0, 1, -1))
            )
            line = text if writes else f"v{number} = {text}"
            if _runs([*lines, line], kind, seed, words):
                lines.append(line)
                if not writes:
                    names.append(f"v{number}")
                break
    shown = chooser.sample(names[2:], min(3, len(names) - 2)) or ["x"]
    body = "\n".join(f"    {line}" for line in [*lines, f"return {', '.join(shown)},"])
    return f"import torch\n\ndef f(x, y, i):\n{body}\n", kind


def function(source: str, name: str) -> Callable[..., Any]:
    """The function of a source, which can be read back from it."""
    file = f"<program {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), namespace)
    return namespace["f"]


def inputs(
    kind: str, shape: tuple[int, ...], seed: int, words: Vocabulary = VIEWS
) -> tuple[torch.Tensor, ...]:
    generator = devices.generator(seed)
    x, y = (words.inputs[kind](shape, generator) for _ in range(2))
    return x, y, torch.tensor([1, 0, 2])


def _runs(lines: list[str], kind: str, seed: int, words: Vocabulary) -> bool:
    body = "\n".join(f"    {line}" for line in lines)
    namespace: dict[str, Any] = {"torch": torch}
    exec(f"def f(x, y, i):\n{body}\n    return ()", namespace)
    with contextlib.suppress(Exception), torch.no_grad():
        namespace["f"](*inputs(kind, words.shapes[0], seed, words))
        return True
    return False


def compared(
    source: str, kind: str, seed: int, compile_: Callable[..., Any], words: Vocabulary = VIEWS
) -> list[str]:
    """What differs between a compiled program and eager, at all shapes. An error of a native
    program counts, unless it is an error in eager too."""
    eager, compiled = function(source, f"{seed} eager"), compile_(function(source, str(seed)))
    found: list[str] = []
    with watched() as watch, torch.no_grad():
        for shape in words.shapes:
            watch.errors.clear()
            here, there = (inputs(kind, shape, seed, words) for _ in range(2))
            wanted, error = _outcome(eager, here)
            if "single memory location" in str(error):
                # A check of torch that goes by strides, also where they mean nothing.
                continue
            given, other = _outcome(compiled, there)
            if (error is None) != (other is None) or not isinstance(other, type(error)):
                found.append(f"{shape}: {error!r} against {other!r}")
            elif error is None:
                pairs = zip((*wanted, *here), (*given, *there), strict=True)
                far = words.tolerance
                found += [f"{shape}: {text}" for a, b in pairs for text in _difference(a, b, far)]
                # Of positions in tensors without elements eager asks nothing.
                failures = watch.errors if 0 not in shape else ()
                found += [f"{shape}: failed by {failure!r}" for failure in failures]
    return found


def _outcome(function: Callable[..., Any], args: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args), None
    except Exception as error:
        return (), error


def _difference(a: torch.Tensor, b: torch.Tensor, far: float) -> list[str]:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return [f"{a.shape} {a.dtype} against {b.shape} {b.dtype}"]
    if (
        any(
            size > 1 and own != other
            for size, own, other in zip(a.shape, a.stride(), b.stride(), strict=True)
        )
        and a.numel()
    ):
        return [f"strides {a.stride()} against {b.stride()} of {tuple(a.shape)}"]
    if a.is_floating_point() and a.itemsize == 1:  # which torch does not compare
        a, b = a.float(), b.float()
    if not torch.allclose(a, b, rtol=far, atol=far, equal_nan=True):
        return [f"values {a.flatten()[:8].tolist()} against {b.flatten()[:8].tolist()}"]
    return []
