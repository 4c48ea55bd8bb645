"""Functions of segments: made or found on disk, for the device of a graph, tuned if wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from anyshape.backends.native.build import DeferredCode, native_function, native_function_later
from anyshape.config import config
from anyshape.events.progress import progress
from anyshape.loops.canonical import own_names
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Launch, Segment
from anyshape.loops.text import segment_text
from anyshape.ops.node_meta import AUTOTUNE, COMPILE_ID
from anyshape.runtime.loader.code_bundle import open_bundle
from anyshape.symbolic import Size
from anyshape.symbolic.expr import of_atom

if TYPE_CHECKING:
    from anyshape.backends.native.autotune import Tuner

Functions = list[Callable[..., Any] | DeferredCode]


def segment_functions(
    texts: dict[str, str],
    now: bool,
    device: torch.device,
    every: Functions,
    hint: Callable[[Size], int | None],
    branches: bool = False,
    tuner: Tuner | None = None,
) -> Callable[[Segment], Callable[..., Any] | DeferredCode]:
    """Makes the functions of segments; equal ones, as equal layers have them, once. `texts` gets
    the texts that had to be made, `every` the functions. `hint`: what a size was when the program
    was captured."""
    made: dict[str, Callable[..., Any] | DeferredCode] = {}

    def function_of(segment: Segment) -> Callable[..., Any] | DeferredCode:
        segment = own_names(segment)
        key = segment_key(segment)
        if key not in made:
            progress.kernel()
            if device.type == "cuda":
                from anyshape.backends.native.cuda_segment import cuda_function

                seen = {each: hint(of_atom(each)) for each in segment.symbols}
                sizes = {symbol: size for symbol, size in seen.items() if size is not None}
                made[key] = cuda_function(segment, key, device, branches, sizes=sizes)
            else:
                make = native_function if now else native_function_later
                keep = partial(setitem, texts, key)
                made[key] = make(segment, key=key, keep=keep)
            if tuner is not None:
                made[key] = tuner.tuned(segment, made[key])
            every.append(made[key])
        return made[key]

    return function_of


def tuner_of(graph: torch.fx.GraphModule, device: torch.device, branches: bool) -> Tuner | None:
    """What tunes or measures the kernels of a graph, where that is asked for. Code that a package
    takes along is for other machines."""
    tries = config.max_autotune or AUTOTUNE in graph.meta
    if not (tries or config.measure_kernels) or open_bundle() is not None:
        return None
    from anyshape.backends.native.autotune import Tuner, plans_of

    make = partial(_with_plans, device, branches)
    compile_id = graph.meta.get(COMPILE_ID, "")
    return Tuner(plans_of(device), make, tries=tries, compile_id=compile_id)


def _with_plans(
    device: torch.device, branches: bool, segment: Segment, choices: Mapping[Kernel, Any]
) -> Callable[..., Any]:
    """The function of a segment whose kernels have plans that are not the usual ones."""
    kernels = dict.fromkeys(step.kernel for step in segment.steps if isinstance(step, Launch))
    key = "\n".join([segment_key(segment), *(str(choices.get(kernel)) for kernel in kernels)])
    if device.type != "cuda":
        return native_function(segment, key=key, choices=choices)
    from anyshape.backends.native.cuda_segment import cuda_function

    return cuda_function(segment, key, device, branches, choices)


def segment_key(segment: Segment) -> str:
    ranges = ", ".join(f"{symbol.name} in {symbol.declared}" for symbol in segment.symbols)
    return f"{segment_text(segment)}\n{ranges}"
