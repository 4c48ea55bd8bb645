"""Long rows that begin anywhere: odd ones, one behind the other.

Where all that moves with the rows begins at the same place of a vector in each of them, vectors of
all of it are aligned alike, though not with the beginning of the row: there are some elements
before the first of them (`%shift`) and some behind the last. These two ends are vectors of which
lanes are missing; one thread each takes them. What rows have in common is read element by element:
it is in a cache. What is private begins so many elements late in its memory (`%lead`) that its
vectors are aligned as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.loops.kernels import Kernel
from anyshape.loops.vector_axis import accesses, stride_along
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Size
from anyshape.symbolic.expr import of_atom, symbols_of, terms_of


@dataclass(frozen=True, slots=True)
class ShiftedRows:
    lanes: int
    #: where a row begins, in elements
    begin: Size
    #: the same of all that begin at the same place of a vector
    in_step: frozenset[Size]
    #: that have to begin with a vector
    buffers: tuple[str, ...]


def shifted_rows(kernel: Kernel, widths: Mapping[str, int], access: int) -> ShiftedRows | None:
    """With vectors of so many bytes; None where they would not be aligned alike, or where that is
    not plain."""
    found = _accesses(kernel)
    if not found:
        return None
    lanes = access // max(widths[buffer] for buffer, _ in found)
    rows = {axis.symbol for axis in kernel.axes}
    apart = rows | set(kernel.positions)
    moving = Counter(rest for _, rest in found if symbols_of(rest) & apart or not rows)
    if lanes == 1 or not moving:
        return None
    begin = moving.most_common(1)[0][0]
    if symbols_of(begin) & set(kernel.positions):
        return None
    in_step = frozenset(rest for _, rest in found if _are_in_step(begin, rest, lanes))
    if set(moving) - in_step:
        return None
    buffers = {buffer: None for buffer, rest in found if rest in in_step}
    return ShiftedRows(lanes, begin, in_step, tuple(buffers))


def _accesses(kernel: Kernel) -> list[tuple[str, Size]]:
    """Along rows, and where in its buffer each begins; none if stages are not for it."""
    found: dict[tuple[str, Size], None] = {}
    for stage in kernel.stages:
        if stage.scans or len(stage.axes) > 1:
            return []
        for axis in stage.axes:
            for buffer, address in accesses(kernel, stage):
                if stride_along(kernel, address, axis.symbol) != 1:
                    continue
                rest = address - of_atom(axis.symbol)
                if buffer not in kernel.private:
                    found[buffer, rest] = None
                elif rest != 0:
                    return []
    return list(found)


def _are_in_step(a: Size, b: Size, lanes: int) -> bool:
    return all(number % lanes == 0 for _, number in terms_of(a - b))


def set_shift(e: Emitter, rows: ShiftedRows) -> None:
    """`%lead`: how far into a vector the row begins; `%shift`: where its first whole one does."""
    begin = narrow_size(e, rows.begin)
    e.do(f"%lead = and i64 {begin}, {e.lanes - 1}")
    e.do(f"%shift = and i64 {e.let('sub i64 0, %lead')}, {e.lanes - 1}")
    e.in_step, e.lead = rows.in_step, (len(e.levels) - 1, "%lead")
