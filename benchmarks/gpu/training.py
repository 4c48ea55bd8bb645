"""`python -m benchmarks.gpu.training`: whole steps of training on a GPU, by turns.

--workloads A,B      of benchmarks.training, those whose name contains one of these
--systems A,B        of anyshape, anyshape-graphs, eager, torch-dynamic, torch-default
--sizes A,B          of tiny, medium, large, odd
--dtypes A,B         of float32, bfloat16 and float16, which mean autocast
--rounds 20          steps of each system, of which the median counts

A step is forward, backward, clipping and AdamW, which is eager's own for all. A wrong gradient ends
with exit code 1: one that is further from float32's than half as much again as the first system's.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.native.systems import NAMED, SYSTEMS
from benchmarks.native.workload import Workload
from benchmarks.training.workloads import WORKLOADS

_LARGEST_NORM = 1.0
#: of the largest gradient of a parameter
_CLOSE = {"float32": 2e-3, "bfloat16": 6e-2, "float16": 2e-2}


class Trained:
    """A model of a system's own, with equal parameters."""

    def __init__(self, workload: Workload, system: str, dtype: str) -> None:
        torch.manual_seed(0)
        model: Any = workload.build()
        model.cuda()
        self._model, self._start = model, copy.deepcopy(model.state_dict())
        self.parameters = list(model.parameters())
        self._call: Callable[..., Any] = SYSTEMS[system].compile(model)
        self._optimizer = torch.optim.AdamW(self.parameters, 1e-5)
        self._dtype = dtype

    def start_over(self) -> None:
        """With the parameters of the beginning: those of other systems move apart."""
        self._model.load_state_dict(self._start)

    def gradients(self, args: tuple[Tensor, ...]) -> list[Tensor]:
        self._optimizer.zero_grad()
        is_cast = self._dtype != "float32"
        kind = getattr(torch, self._dtype) if is_cast else torch.bfloat16
        with torch.autocast("cuda", kind) if is_cast else contextlib.nullcontext():
            loss = self._call(*args)
        loss.backward()
        return [each.grad for each in self.parameters if each.grad is not None]

    def step(self, args: tuple[Tensor, ...]) -> float:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        self.gradients(args)
        nn.utils.clip_grad_norm_(self.parameters, _LARGEST_NORM)
        self._optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - begun


def error(found: list[Tensor], wanted: list[Tensor]) -> float:
    if len(found) != len(wanted):
        return math.inf
    # Some are nothing but rounding: those of a bias that is added to all keys of attention.
    least = 1e-2 * max(float(each.abs().max()) for each in wanted)
    return max(
        float((own - other).abs().max()) / max(least, float(other.abs().max()))
        for own, other in zip(found, wanted, strict=True)
    )


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workloads", default="MLP,ResNet,U-Net,LSTM,ViT,BERT,GPT")
    options.add_argument("--systems", default="eager,anyshape,torch-dynamic")
    options.add_argument("--sizes", default="tiny,medium,large,odd")
    options.add_argument("--dtypes", default="float32,bfloat16")
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args(arguments)
    systems = [NAMED[name] for name in given.systems.split(",")]
    names = given.workloads.split(",")
    chosen = [each for each in WORKLOADS.values() if any(name in each.name for name in names)]
    ratios: dict[str, list[float]] = {}
    is_right = True
    for workload in (each for each in chosen if each.kind == "model"):
        for dtype in given.dtypes.split(","):
            trained: dict[str, Trained] = {}
            first: dict[str, float] = {}
            for size in (each for each in workload.order if each in given.sizes.split(",")):
                torch.manual_seed(1)
                args = tuple(each.cuda() for each in workload.inputs(*workload.sizes[size]))
                exact = Trained(workload, systems[0], "float32").gradients(args)
                most = _CLOSE[dtype]
                for system in systems:
                    begun = time.perf_counter()
                    if system not in trained:
                        trained[system] = Trained(workload, system, dtype)
                    trained[system].start_over()
                    found = trained[system].gradients(args)
                    torch.cuda.synchronize()
                    first.setdefault(system, time.perf_counter() - begun)
                    off = error(found, exact)
                    if system == systems[0]:
                        most = max(most, 1.5 * off)
                    elif off > most:
                        print(f"{workload.name} {dtype} {size}: {system} is off by {off:.1e}")
                        is_right &= not system.startswith("anyshape")
                times: dict[str, list[float]] = {system: [] for system in systems}
                for _ in range(given.rounds):
                    for system in systems:
                        times[system].append(trained[system].step(args))
                medians = {each: statistics.median(times[each]) * 1e3 for each in systems}
                shown = ", ".join(f"{each} {ms:.2f} ms" for each, ms in medians.items())
                print(f"{workload.name} {dtype} {size}: {shown}", flush=True)
                for system in systems:
                    ratio = medians[system] / medians.get("anyshape", math.nan)
                    ratios.setdefault(f"{system} {dtype}", []).append(ratio)
            shown = ", ".join(f"{each} {s:.2f} s" for each, s in first.items())
            print(f"{workload.name} {dtype} first: {shown}", flush=True)
    for name, found in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, found)))
        print(f"time of {name} over anyshape's: {mean:.2f}, at least {min(found):.2f}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
