"""`flex_attention` by eager torch, torch.compile and anyshape, over masks, lengths and dtypes.

    python -m benchmarks.flex [--device cuda] [--lengths 128,333] [--cases causal,window]
                              [--inference] [--seconds 0.2] [--json results.json]

Each system runs in a process of its own. Of each function: the time of the first call, which
compiles; for each length the median time of calls, and how far memory grows at most while one runs.
Eager torch does `flex_attention` by whole matrices of scores. Where torch.compile has no code for a
machine, it says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import math_attention
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import anyshape

HEADS: Final = 8
WIDTH: Final = 64
LENGTHS: Final = (128, 333, 1000, 1024, 2048, 4096)
SYSTEMS: Final = ("eager", "torch.compile", "anyshape")
#: The fewest calls of one length.
_CALLS: Final = 3
#: Eager torch has all scores in memory several times.
_LONGEST_EAGER: Final = 2048

_documents = torch.arange(1 << 16) // 100
_slopes = torch.exp2(-torch.arange(1.0, HEADS + 1))


def _causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def _window(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q >= k) & (q - k <= 128)


def _document(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (_documents[q] == _documents[k]) & (q >= k)


def _prefix(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (k < 64) | (q >= k)


def _alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + _slopes[h] * (k - q)


def _softcap(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return 20.0 * torch.tanh(score / 20.0)


#: name -> (of scores, of positions, heads of key and value)
CASES: Final[dict[str, tuple[Any, Any, int]]] = {
    "plain": (None, None, HEADS),
    "causal": (None, _causal, HEADS),
    "window": (None, _window, HEADS),
    "document": (None, _document, HEADS),
    "prefix": (None, _prefix, HEADS),
    "alibi": (_alibi, _causal, HEADS),
    "softcap": (_softcap, None, HEADS),
    "groups": (None, _causal, 2),
}


def attention(score: Any) -> Callable[..., Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        return flex_attention(q, k, v, score, block_mask=mask, enable_gqa=True)

    return run


def eager(score: Any) -> Callable[..., Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        mod = flex.noop_mask if mask is None else mask.mask_mod
        k, v = (each.repeat_interleave(HEADS // each.size(1), 1) for each in (k, v))
        scale = 1 / math.sqrt(q.size(-1))
        return math_attention(q, k, v, score or flex._identity, (mod,), scale, {}, (), ())[0]

    return run


def _compiled(system: str, score: Any) -> Callable[..., Tensor]:
    if system == "eager":
        return eager(score)
    if system == "anyshape":
        return anyshape.compile(attention(score), dynamic=True)
    torch.compiler.reset()  # one that has failed would let the next run eagerly
    return torch.compile(attention(score), dynamic=True)


def _memory(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def _forget_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def _timed(call: Callable[[], object], device: str) -> float:
    begin = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    system, device = options.system, options.device
    global _documents, _slopes
    _documents, _slopes = _documents.to(device), _slopes.to(device)
    for dtype in (torch.float32, torch.bfloat16):
        for name in options.cases.split(","):
            score, mod, heads = CASES[name]
            for gradients in (False,) if options.inference else (False, True):
                call = _compiled(system, score)
                row = {"system": system, "case": name, "dtype": str(dtype)[6:], "train": gradients}
                try:
                    yield from _lengths(row, call, mod, heads, dtype, options)
                except Exception as error:
                    yield {**row, "error": (str(error) or repr(error)).splitlines()[0][:120]}


def _once(call: Callable[..., Tensor], given: list[Tensor], mask: Any, train: bool) -> object:
    with torch.set_grad_enabled(train):
        result = call(*given, mask)
        return torch.autograd.grad(result.sum(), given) if train else result


def _lengths(
    row: dict[str, Any],
    call: Callable[..., Tensor],
    mod: Any,
    heads: int,
    dtype: torch.dtype,
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    train, device, first = row["train"], options.device, None
    for length in map(int, options.lengths.split(",")):
        if row["system"] == "eager" and length > _LONGEST_EAGER:
            continue
        shapes = ((1, HEADS, length, WIDTH), *((1, heads, length, WIDTH),) * 2)
        given = [torch.randn(s, device=device, dtype=dtype, requires_grad=train) for s in shapes]
        mask = None
        if mod is not None:
            mask = create_block_mask(mod, None, None, length, length, device=device)

        once = partial(_once, call, given, mask, train)
        taken = _timed(once, device)
        first = taken if first is None else first
        _timed(once, device)
        _forget_peak(device)
        before = _memory(device)
        _timed(once, device)
        grown = _memory(device) - before
        times = [_timed(once, device)]
        while len(times) < _CALLS or sum(times) < options.seconds:
            times.append(_timed(once, device))
        yield {
            **row,
            "length": length,
            "first": round(first, 3),
            "ms": round(statistics.median(times) * 1e3, 3),
            "MiB": round(grown / 2**20, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--inference", action="store_true", help="without gradients only")
    parser.add_argument("--seconds", type=float, default=1.0, help="for the calls of one length")
    parser.add_argument("--json", default="")
    parser.add_argument("--system", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.system:
        warnings.simplefilter("ignore")
        for row in _rows(options):
            print(json.dumps(row), flush=True)
        return
    rows: list[dict[str, Any]] = []
    for system in options.systems.split(","):
        command = [sys.executable, "-m", "benchmarks.flex", *sys.argv[1:], "--system", system]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    rows.append(json.loads(line))
                    print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
