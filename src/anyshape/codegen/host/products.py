"""Calls of C functions in order; products by the library's own function where it has one.

What it leaves (`codegen/nvptx/products.py` says which), and whatever is no such product, is a call
of torch's. Products of one matrix are a group: those of equal sizes are asked for together, which
makes one product of several where their memory allows it; where a run is recorded, those that
differ are in branches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from anyshape.codegen.host.branches import BEGIN, END, branches_of
from anyshape.codegen.host.steps import Known, Steps
from anyshape.loops.product_plan import ADDS, HAS_BIAS, IS_FLOAT16
from anyshape.loops.program import Area, Buffer, Extern, Step
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Size

DECLARATIONS: Final = "declare i64 @anyshape_gpu_products(ptr, ptr, i64, ptr, ptr)"

_DTYPES: Final = {"bf16": 0, "f16": IS_FLOAT16}
_FUNCTIONS: Final = ("mm_out", "addmm_out", "bmm_out")


@dataclass(frozen=True, slots=True)
class Product:
    """`d = a @ b`, with a bias, or added to what is there. `words`: of its key, behind the kind."""

    kind: int
    words: tuple[Size, ...]
    a: Area
    b: Area
    d: Area
    bias: Area | None


def product_of(step: Step, buffers: Mapping[str, Buffer]) -> Product | None:
    if not isinstance(step, Extern) or step.function not in _FUNCTIONS:
        return None
    areas = [each for each in step.arguments if isinstance(each, Area)]
    dtypes = {buffers[each.buffer].dtype for each in areas}
    if len(areas) < 3 or len(dtypes) != 1 or not dtypes <= _DTYPES.keys():
        return None
    d, *added, a, b = areas
    kind, bias = _DTYPES[dtypes.pop()], None
    if added:
        if step.arguments[len(areas) :] != (1.0, 1.0):
            return None
        if added[0] == d:
            kind |= ADDS
        elif len(added[0].sizes) == 1 and added[0].strides == (1,):
            kind, bias = kind | HAS_BIAS, added[0]
        else:
            return None
    sizes = d.sizes[-2], d.sizes[-1], a.sizes[-1]
    strides = *a.strides[-2:], *b.strides[-2:], *d.strides[-2:]
    batch: tuple[Size, ...] = (1, 0, 0, 0, 0)
    if len(d.sizes) == 3:
        batch = (d.sizes[0], *(each.strides[0] for each in (a, b, d)), 0)
    return Product(kind, (*sizes, *strides, *batch), a, b, d, bias)


class ProductGroups:
    """The products among some steps, if the library `is_asked`. Those of one matrix are a group, by
    the number of its first step, in parts of which each may be one product."""

    def __init__(
        self,
        steps: Sequence[Step],
        buffers: Mapping[str, Buffer],
        is_asked: bool = True,
        borders: Collection[int] = (),
    ) -> None:
        asked = enumerate(steps) if is_asked else ()
        made = {number: product_of(step, buffers) for number, step in asked}
        self.products = {number: each for number, each in made.items() if each is not None}
        self.parts: dict[int, list[list[int]]] = {}
        groups: list[list[int]] = []
        for number, place in sorted(branches_of(steps, buffers, borders).items()):
            groups += [] if place else [[]]
            groups[-1].append(number)
        for group in groups:
            parts: dict[object, list[int]] = {}
            for number in group:
                product = self.products.get(number)
                alike = number if product is None else (product.kind, product.words)
                parts.setdefault(alike, []).append(number)
            self.parts[group[0]] = list(parts.values())


class ExternCalls:
    """The C functions that a list of steps calls. `movable`: buffers that may be in each other's
    place, and what else is in that of each. `borders`: steps from which on another list is meant:
    rounds call their own."""

    def __init__(
        self,
        steps: Steps,
        own: Sequence[Step],
        known: Known,
        movable: Mapping[str, Sequence[str]],
        borders: Collection[int] = (),
    ) -> None:
        self._steps = steps
        self._movable = movable
        self._own = own
        self._in_branches = known.abi.branches
        groups = ProductGroups(own, known.buffers, known.abi.products, borders)
        self._products = groups.products
        is_grouped = known.abi.products or known.abi.branches
        self._groups = groups.parts if is_grouped else {}
        #: steps that are called with the first of their group
        every = (part for parts in self._groups.values() for part in parts)
        self._called = {number for part in every for number in part} - self._groups.keys()

    def call(self, number: int) -> None:
        """A step; a whole group at its first one."""
        if number in self._called:
            return
        parts = self._groups.get(number, [[number]])
        branches = self._in_branches and len(parts) > 1
        for branch, part in enumerate(parts):
            if branches:
                self._steps.branch(branch or BEGIN)
            self._call_alike(part)
        if branches:
            self._steps.branch(END)

    def _call_alike(self, numbers: Sequence[int]) -> None:
        products = [self._products[each] for each in numbers if each in self._products]
        if not products:
            for number in numbers:
                self._steps.call(self._extern(number))
            return
        results = [each.d.buffer for each in products]
        if len(products) > 1 and all(name in self._movable for name in results):
            # Results in the order of their weights, or they would not be one product.
            in_place = [self._movable[name] for name in results]
            self._steps.in_order_of([each.b for each in products], in_place)
        left = self._steps.multiply(products)
        for place, number in enumerate(numbers):
            with self._steps.only_if_bit(left, place):
                self._steps.call(self._extern(number))

    def _extern(self, number: int) -> Extern:
        step = self._own[number]
        assert isinstance(step, Extern)
        return step
