"""Measure vector math and write docs/vector_math.md: `python -m scripts.vector_math_report`."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np
import torch

from anyshape.codegen.vector_math import FUNCTIONS, supports
from tests.codegen.accuracy import (
    NUMPY,
    bit_patterns,
    eager,
    exact,
    exact_ulp_error,
    reference,
    special_values,
    ulp_error,
)
from tests.codegen.jit import Compiled, compiled

DOCS = Path(__file__).parent.parent / "docs" / "vector_math.md"

HEAD = """\
# Vector math

Measured by `python -m scripts.vector_math_report`; do not edit. CPU: {cpu}, torch {torch}.

*Error* is the largest distance from the exact result, in units in the last place; a correctly
rounded function has 0.5. For float32 it is taken over {patterns} evenly spaced bit patterns, all
special values and a million ordinary numbers, against float64; for float64 over {samples}
arguments against mpmath. *Torch's error* is that of torch's own kernels on the same float32
arguments (infinite: it overflows or vanishes too early). *From torch* is how many floats lie
between the two results where torch is within 1 ulp. The remainders are exact.

gelu and gelu_tanh lose digits where x is negative, but fewer than torch's: a test compares them
quarter octave by quarter octave. Of infinity they are infinity, and not a number of minus infinity.
So are torch's, but for gelu (`approximate="none"`) of float32, bfloat16 and float16, which torch
computes in two ways: of infinity it is infinity in a tensor of one element or with strides, and not
a number in a dense one. We give the limit everywhere.

*Time* is ns of CPU an element on one thread in the second-level cache, without that of the call;
*speed* is torch's time over ours. *Compile* is milliseconds for a module with one loop around the
function (parse, LLVM's -O2 passes, machine code). Both are of 32 lanes of float32, two registers of
AVX-512, which kernels of a function or two have there.

| function | error | torch's error | from torch | time | torch's | speed | compile |
|---|---|---|---|---|---|---|---|
"""

MIDDLE = """
## float64

8 lanes. Not written, so left to torch: {missing}.
`sin`, `cos` and `tan` beyond 2^25, and remainders of quotients beyond 2^51, call the C library.

| function | error | time | torch's | speed | compile |
|---|---|---|---|---|---|
"""

# Where a function is timed; elsewhere between -2 and 2.
DOMAIN = {
    **dict.fromkeys(("log", "log2", "log10", "rsqrt", "pow"), (0.1, 4.0)),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (-0.95, 0.95)),
    **dict.fromkeys(("log1p",), (-0.9, 3.0)),
    **dict.fromkeys(("acosh",), (1.0, 5.0)),
}
OUT = {"gelu": torch.ops.aten.gelu.out, "silu": torch.ops.aten.silu.out}
ELEMENTS = 2**14


def out_variant(name: str) -> Callable[..., torch.Tensor]:
    if name == "gelu_tanh":
        return lambda x, out: torch.ops.aten.gelu.out(x, approximate="tanh", out=out)
    return OUT.get(name) or getattr(torch, name)


def least(runs: list[Callable[[], object]], repeats: int = 4, rounds: int = 600) -> list[float]:
    """CPU seconds of one of each run, the least of many rounds in turn: others use the machine."""
    found = [math.inf] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            start = time.process_time_ns()
            for _ in range(repeats):
                run()
            found[i] = min(found[i], (time.process_time_ns() - start) / 1e9 / repeats)
    return found


def times(name: str, kind: str, ours: Compiled) -> tuple[float, float]:
    """ns an element: ours and torch's."""
    random = np.random.default_rng(0)
    low, high = DOMAIN.get(name, (-2.0, 2.0))
    x, y = (random.uniform(low, high, ELEMENTS).astype(NUMPY[kind]) for _ in range(2))
    out = np.empty_like(x)
    pointers = [array.ctypes.data for array in (out, x, y)]
    arguments = [torch.from_numpy(array) for array in (x, y)[: FUNCTIONS[name]]]
    result, function = torch.from_numpy(out), out_variant(name)
    few, few_result = [argument[:16] for argument in arguments], result[:16]
    spent = least(
        [
            lambda: ours.entry(*pointers, ELEMENTS // ours.lanes),
            lambda: ours.entry(*pointers, 1),
            lambda: function(*arguments, out=result),
            lambda: function(*few, out=few_result),
        ]
    )
    scale = 1e9 / ELEMENTS
    return (spent[0] - spent[1]) * scale, (spent[2] - spent[3]) * scale


def compile_time(name: str, kind: str, lanes: int) -> float:
    """Milliseconds, the least of several."""
    return min(compiled.__wrapped__(name, kind, lanes).milliseconds for _ in range(5))


def ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, neighbours one apart."""
    patterns = x.view(np.int32).astype(np.int64)
    return np.where(patterns < 0, -(patterns & 0x7FFFFFFF), patterns)


def arguments_f32(name: str, patterns: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    ordinary = np.concatenate([random.normal(0, scale, 2**18) for scale in (0.3, 1, 10, 60)])
    x = np.concatenate([bit_patterns("f32", patterns), special_values("f32"), ordinary])
    x = x.astype(np.float32)
    return [x] if FUNCTIONS[name] == 1 else [x, random.permutation(x)]


def shown(error: float) -> str:
    return f"{error:.2f}" if error < 1000 else f"{error:.0e}"


def row_f32(name: str, patterns: int) -> str:
    ours = compiled(name)
    arguments = arguments_f32(name, patterns)
    mine, torchs = ours(*arguments), eager(name, *arguments)
    if name in ("fmod", "remainder"):
        error, torch_error, apart = "0", "", ""
    else:
        truth = reference(name, *arguments)
        my_errors, torch_errors = ulp_error(mine, truth), ulp_error(torchs, truth)
        good = (torch_errors <= 1) & np.isfinite(truth.astype(np.float32))
        apart = str(np.abs(ordered(mine[good]) - ordered(torchs[good])).max())
        error, torch_error = shown(my_errors.max()), shown(torch_errors.max())
    mine_ns, torch_ns = times(name, "f32", compiled(name, "f32", 32))
    return (
        f"| {name} | {error} | {torch_error} | {apart} | {mine_ns:.2f} | {torch_ns:.2f} "
        f"| {torch_ns / mine_ns:.1f} | {compile_time(name, 'f32', 32):.0f} |"
    )


def error_f64(name: str, samples: int) -> float:
    random = np.random.default_rng(2)
    parts = [random.normal(0, scale, samples // 5) for scale in (0.3, 1, 10, 200)]
    x = np.concatenate([*parts, random.uniform(0.4, 1.6, samples // 5)])
    arguments = [x] if FUNCTIONS[name] == 1 else [x, random.permutation(x)]
    worst = 0.0
    for *given, got in zip(*arguments, compiled(name, "f64", 8)(*arguments), strict=True):
        truth = exact(name, *map(float, given))
        if isinstance(truth, mp.mpc) or not 1e-320 < abs(truth) < 1.7e308:
            continue
        worst = max(worst, exact_ulp_error(float(got), truth))
    return worst


def row_f64(name: str, samples: int) -> str:
    ours = compiled(name, "f64", 8)
    error = "0" if name in ("fmod", "remainder") else f"{error_f64(name, samples):.2f}"
    mine_ns, torch_ns = times(name, "f64", ours)
    return (
        f"| {name} | {error} | {mine_ns:.2f} | {torch_ns:.2f} "
        f"| {torch_ns / mine_ns:.1f} | {compile_time(name, 'f64', 8):.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patterns", type=int, default=2**22)
    parser.add_argument("--samples", type=int, default=5000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    compiled("rsqrt")  # The first compilation also loads LLVM.
    head = HEAD.format(
        cpu=llvm.get_host_cpu_name(),
        torch=torch.__version__,
        patterns=options.patterns,
        samples=options.samples,
    )
    missing = ", ".join(f"`{name}`" for name in FUNCTIONS if not supports(name, "f64"))
    rows = [row_f32(name, options.patterns) for name in FUNCTIONS]
    wide = [row_f64(name, options.samples) for name in FUNCTIONS if supports(name, "f64")]
    text = head + "\n".join(rows) + "\n" + MIDDLE.format(missing=missing) + "\n".join(wide) + "\n"
    DOCS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
