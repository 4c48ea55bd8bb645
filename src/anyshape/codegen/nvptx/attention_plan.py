"""How the threads of a block share attention (`loops/attention.py`), and where products are made.

A block has a tile of queries, whose rows its warps share: 16 or 32 each. Keys and values come tile
by tile through shared memory. Two kinds of products:

- *tensor cores*, for float16 and bfloat16 whose rows begin at multiples of 16 bytes;
- *plain* multiplications of float32, for all others: a float32 keeps its accuracy.
"""

from __future__ import annotations

from typing import Final

from anyshape.codegen.llvm.plan import KernelPlan, element_costs
from anyshape.loops.attention import CHUNK, AttentionParts, parts_of
from anyshape.loops.expr import HALVES, Axis, Dtype, Scalar, reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.linear import coefficient
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import atom_at, of_atom, polynomial, symbols_of, terms_of

WARP: Final = 32
#: Rows of a fragment of tensor cores, and its columns.
FRAGMENT: Final = 16
COLUMNS: Final = 8
#: Bytes of shared memory that every GPU since compute capability 8.0 has for a block.
_SHARED: Final = 96 * 1024
#: Scalars of a score from which on a thread has fewer of them: each is code of its own.
_LONG: Final = 48


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What a block does, known when code is made."""

    #: dtype of what tensor cores multiply; None: products are plain
    halves: Dtype | None
    warps: int
    #: fragments of 16 queries that a warp has
    fragments: int
    #: of a tile
    keys: int
    depth: int
    width: int
    #: whether queries stay in registers
    holds_query: bool

    @property
    def threads(self) -> int:
        return WARP * self.warps

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self.warps * self.fragments * FRAGMENT

    @property
    def padded_depth(self) -> int:
        unit = FRAGMENT if self.halves else 4
        return -(-self.depth // unit) * unit

    @property
    def padded_width(self) -> int:
        unit = FRAGMENT if self.halves else COLUMNS
        return -(-self.width // unit) * unit

    # Rows in shared memory are 16 bytes longer than what is in them, or neighbours would be in the
    # same banks.

    @property
    def key_bytes(self) -> int:
        """From one row of queries or keys to the next."""
        return (2 if self.halves else 4) * self.padded_depth + 16

    @property
    def value_bytes(self) -> int:
        return (2 if self.halves else 4) * self.padded_width + 16

    @property
    def weight_bytes(self) -> int:
        """Of a row of weights; in registers, they have none."""
        return 0 if self.halves else 4 * self.keys + 16

    @property
    def stage_bytes(self) -> int:
        """Of a tile of keys and values."""
        return self.keys * (self.key_bytes + self.value_bytes)

    @property
    def stages(self) -> int:
        """While one is read, the next one is on its way."""
        return 2 if self.halves else 1

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        of_rows = self.rows * (self.key_bytes + self.weight_bytes)
        return of_rows + self.stages * self.stage_bytes + self.told_bytes

    @property
    def told_bytes(self) -> int:
        """For what warps tell each other, at the end."""
        return 4 * WARP


@dataclass(frozen=True, slots=True)
class AttentionForm:
    plan: KernelPlan
    shape: AttentionShape
    #: what has to be multiples of `CHUNK`
    multiples: tuple[Size, ...] = ()
    #: buffers that begin at multiples of 16 bytes
    aligned: tuple[tuple[str, int], ...] = ()


def attention_forms(kernel: Kernel) -> tuple[AttentionForm, ...]:
    """That for tensor cores if there is one, and the plain one, which is for all."""
    kernel = replace(kernel, private={})
    parts = parts_of(kernel)
    _, depth, width = (axis.extent for axis in kernel.stages[0].axes)
    assert isinstance(depth, int), "the lowering looks at it"
    assert isinstance(width, int), "the lowering looks at it"
    plan = KernelPlan(
        kernel=kernel,
        column=None,
        lanes=1,
        costs=element_costs(kernel, None),
        unroll=(1,),
        written=frozenset(store.buffer for store in kernel.stages[0].stores),
        together=frozenset(),
        flat=None,
        splits=False,
    )
    roots = [parts.score] if parts.seen is None else [parts.score, parts.seen]
    is_long = len(list(reached(roots))) > _LONG
    plain = AttentionForm(plan, _plain_shape(depth, width, is_long))
    fast = _fast(plan, parts, depth, width, is_long)
    return (plain,) if fast is None else (fast, plain)


def _plain_shape(depth: int, width: int, is_long: bool) -> AttentionShape:
    for warps, keys in ((4, 32), (4, 16), (2, 16), (1, 16), (1, 8)):
        shape = AttentionShape(None, warps, 1, keys, depth, width, False)
        if shape.shared <= _SHARED and not (is_long and keys > FRAGMENT):
            return shape
    raise AssertionError("the lowering bounds columns")


def _fast_shape(halves: Dtype, depth: int, width: int, is_long: bool) -> AttentionShape:
    """As many rows and keys as registers have room for."""
    widest = max(depth, width)
    fragments, keys = (2, 64) if widest <= 64 else (2, 48) if widest <= 128 else (1, 32)
    if is_long:
        fragments, keys = 1, FRAGMENT
    shape = AttentionShape(halves, 4, fragments, keys, depth, width, depth <= 64)
    return shape if shape.shared <= _SHARED else replace(shape, keys=FRAGMENT)


def _fast(
    plan: KernelPlan, parts: AttentionParts, depth: int, width: int, is_long: bool
) -> AttentionForm | None:
    kernel = plan.kernel
    loads = [_loaded(each) for each in (parts.query, parts.key, parts.value)]
    halves = loads[0].dtype
    if halves not in HALVES or any(each.dtype != halves for each in loads):
        return None
    # Weights are rounded, so values have to be halves in the program, too.
    if parts.value.dtype != halves or depth % CHUNK or width % CHUNK:
        return None
    keys, columns, widths = kernel.stages[0].axes
    queries = kernel.axes[-1]
    wanted: list[tuple[Scalar, Axis, Axis]] = [
        (loads[0], queries, columns),
        (loads[1], keys, columns),
        (loads[2], keys, widths),
    ]
    places: list[tuple[str, Size, Axis, Axis]] = [
        (*load.data, axis, column) for load, axis, column in wanted
    ]
    for store in kernel.stages[0].stores:
        if widths.symbol in symbols_of(store.address):
            if store.value.dtype != halves:
                return None
            places.append((store.buffer, store.address, queries, widths))
    multiples: dict[Size, None] = {}
    for _, address, axis, column in places:
        steps = _steps(kernel, address, axis, column)
        if steps is None or any(isinstance(step, int) and step % CHUNK for step in steps):
            return None
        multiples |= dict.fromkeys(step for step in steps if not isinstance(step, int))
    aligned = tuple(sorted({(buffer, 2 * CHUNK) for buffer, *_ in places}))
    shape = _fast_shape(halves, depth, width, is_long)
    return AttentionForm(plan, shape, tuple(multiples), aligned)


def _loaded(scalar: Scalar) -> Scalar:
    """What is read, of an element that may be cast."""
    return scalar.args[0] if scalar.op == "cast" else scalar


def _steps(kernel: Kernel, address: Size, axis: Axis, column: Axis) -> list[Size] | None:
    """What an address is made of beside the column, as factors of what changes from place to
    place; None if a row is not in one piece, or if data says where it is."""
    by_column = coefficient(address, column.symbol)
    by_row = None if by_column is None else coefficient(by_column[1], axis.symbol)
    if by_column is None or by_row is None or by_column[0] != 1:
        return None
    if not symbols_of(address).isdisjoint(kernel.positions):
        return None
    inner: set[Symbol] = {each.symbol for each in (*kernel.axes, *kernel.stages[0].axes)}
    steps: list[Size] = []
    for monomial, number in terms_of(by_column[1]):
        fixed = tuple(i for i in monomial if not of_atom(atom_at(i)).symbols & inner)
        steps.append(polynomial({fixed: number}) if fixed else number)
    return steps
