"""Sums of products as products that add to what is there.

    mm_out(b0, x, y)                    mm_out(b2, x, y)
    mm_out(b1, u, v)            ->      addmm_out(b2, b2, u, v)
    b2[i] = b0[i] + b1[i]

The gradient of a weight that is used several times, as in a loop over time, is such a sum. There is
one matrix at a time then, and nothing to be read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from anyshape.graph.plan import BufferDecl, Compute, Native, Plan, PythonCall, Step, tensors_in
from anyshape.loops.expr import HALVES, Scalar
from anyshape.loops.program import Area, Extern, with_buffers
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size


def accumulated(plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """The steps with such sums left out. Of halves each sum would be rounded."""
    if plan.elided_repeats is not None or plan.device.type != "cpu":
        return list(steps)
    uses = Counter(name for step in steps for name in _touched(step))
    uses.update(ref.buffer for ref in tensors_in(list(plan.outputs)))
    found: list[Step | None] = []
    seen: set[str] = set()
    #: by buffer: the steps that make it, products all of them
    made: dict[str, list[int]] = {}
    for step in steps:
        found.append(step)
        if isinstance(step, Native) and step.extern.function == "mm_out":
            (name,) = step.writes
            made[name] = [len(found) - 1]
        terms = _terms(step, plan.held)
        is_first = isinstance(step, PythonCall) or seen.isdisjoint(step.writes)
        seen |= _touched(step)
        if not terms or not isinstance(step, Compute) or not is_first:
            continue
        # Nobody else needs them, nor one of them twice.
        if any(name not in made or uses[name] != 1 + len(made[name]) for name in terms):
            continue
        (result,) = step.writes
        numbers = sorted(number for name in terms for number in made.pop(name))
        for place, number in enumerate(numbers):
            own = found[number]
            assert isinstance(own, Native)
            found[number] = _into(result, own, adds=place > 0)
        found[-1] = None
        uses[result] += len(numbers) - 1
        made[result] = numbers
    return [step for step in found if step is not None]


def _touched(step: Step) -> frozenset[str]:
    return step.reads if isinstance(step, PythonCall) else step.reads | step.writes


def _terms(step: Step, held: dict[str, BufferDecl]) -> list[str]:
    """The buffers that a kernel does nothing but add up, element by element, in memory that is laid
    out as they are; none if it does anything else."""
    if not isinstance(step, Compute) or len(step.kernel.stages) != 1:
        return []
    (stage,) = step.kernel.stages
    if len(stage.stores) != 1 or stage.folds or stage.scans or stage.checks:
        return []
    (store,) = stage.stores
    own = held[store.buffer]
    if store.mode != "set" or store.mask is not None or own.given or own.dtype in HALVES:
        return []
    found = list(_added(store.value, store.address))
    laid_out = (own.dtype, own.sizes, own.strides)
    names = [name for name in found if name is not None]
    alike = all((held[n].dtype, held[n].sizes, held[n].strides) == laid_out for n in names)
    return names if alike and len({*names}) == len(found) > 1 else []


def _added(value: Scalar, address: Size) -> Iterator[str | None]:
    """The buffers of a sum; None for what is none."""
    if value.op == "add":
        for each in value.args:
            yield from _added(each, address)
    elif value.op == "load" and not value.args and value.data[1] == address:
        yield value.data[0]
    else:
        yield None


def _into(result: str, step: Native, *, adds: bool) -> Native:
    """The product with another result, or added to what is there."""
    (name,) = step.writes
    extern = with_buffers(step.extern, lambda own: result if own == name else own)
    assert isinstance(extern, Extern)
    if not adds:
        return replace(step, extern=extern, writes=frozenset({result}))
    area, *factors = extern.arguments
    assert isinstance(area, Area)
    if extern.function == "mm_out":
        extern = Extern("addmm_out", (area, area, *factors, 1.0, 1.0))
    return Native(extern, step.reads - {name} | {result}, frozenset({result}))
