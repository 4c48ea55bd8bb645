"""A graph with gradients whose attention is done by the kernel that torch takes for a call.

The kernel is asked for at each tuple of sizes once. Graphs are made for the kernels that were
named: most programs have one of them at all lengths, and another one where a length is 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from anyshape.backends.native.input_places import input_value, places_of
from anyshape.graph.attention_choice import AttentionCall, attention_calls, switches
from anyshape.graph.functionalize import FunctionalGraph
from anyshape.graph.plan import Unlowerable
from anyshape.ops.families.attention_kernels import (
    attention_by_kernel,
    attention_by_kernel_backward,
    backward_name,
    forward_name,
    logsumexp_sizes,
)
from anyshape.runtime.loader.symbols import c_signature, find_symbol
from anyshape.symbolic import Facts, Symbol

#: Tuples of sizes whose kernels are remembered.
_MOST_SIZES: Final = 1 << 12

Run = Callable[..., Any]
Build = Callable[[FunctionalGraph], Run]


def by_attention_kernels(
    program: FunctionalGraph,
    facts: Facts,
    build: Build,
    as_it_is: Run,
    failed: Callable[[Exception], None],
) -> Run:
    """What `build` makes of the program, by the kernels of its attention. It may refuse the first,
    at the sizes that were seen; where it refuses another one the program runs `as_it_is`, and where
    it fails so does it, and `failed` is told."""
    calls = attention_calls(program.graph, facts)
    symbols = sorted({each for call in calls for each in call.symbols}, key=lambda s: s.name)
    try:
        found = places_of(program, symbols)
    except Unlowerable:
        return build(program)
    if not calls:
        return build(program)
    places = [found[symbol] for symbol in symbols]
    made: dict[tuple[str | None, ...], Run] = {}
    known: dict[tuple[Any, ...], Run] = {}

    def of(values: Mapping[Symbol, int], *, is_first: bool) -> Run:
        kernels = tuple([_kernel(call, values) for call in calls])
        if kernels not in made:
            named = zip(calls, kernels, strict=True)
            own = tuple((call.node, kernel) for call, kernel in named if kernel is not None)
            try:
                made[kernels] = build(program._replace(kernels=own))
            except Exception as error:
                if is_first:
                    raise
                if not isinstance(error, Unlowerable):
                    failed(error)
                made[kernels] = as_it_is
        return made[kernels]

    of(facts.hints, is_first=True)

    def run(*inputs: Any) -> Any:
        sizes = [input_value(inputs, place) for place in places]
        key = (*sizes, *switches())
        own = known.get(key)
        if own is None:
            if len(known) >= _MOST_SIZES:
                known.clear()
            own = known[key] = of(dict(zip(symbols, sizes, strict=True)), is_first=False)
        return own(*inputs)

    return run


def _kernel(call: AttentionCall, values: Mapping[Symbol, int]) -> str | None:
    query = call.given["query"]
    kernel = call.kernel(values)
    return kernel if kernel is not None and is_as_known(kernel, query.dtype, query.device) else None


@functools.cache
def is_as_known(kernel: str, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether this torch has the functions of a kernel, and they take and give what we think."""
    # Where code is loaded and not made, nobody else needs it.
    from anyshape.codegen.host.externs import EXTERNS, UNDEFINED

    if find_symbol(UNDEFINED) is None:
        return False
    for name in (forward_name(kernel), backward_name(kernel)):
        symbol = EXTERNS[name].symbol("cuda")
        if c_signature(symbol) != EXTERNS[name].signature or find_symbol(symbol) is None:
            return False
    return _is_tried(kernel, dtype, device)


def _is_tried(kernel: str, dtype: torch.dtype, device: torch.device) -> bool:
    heads = torch.zeros(1, 2, 3, 8, dtype=dtype, device=device)
    rest = (None, False, None, kernel)
    with torch.no_grad():
        try:
            result, logsumexp = attention_by_kernel(heads, heads, heads, *rest)
            kept = (heads, heads, heads, result, logsumexp)
            grads = attention_by_kernel_backward(heads, *kept, *rest)
        except RuntimeError:
            return False
    sizes = logsumexp_sizes(heads.shape, kernel)
    is_known = logsumexp.dtype is torch.float32 and tuple(logsumexp.shape) == sizes
    return is_known and all(each.shape == heads.shape for each in (result, *grads))
