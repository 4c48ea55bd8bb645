"""How many threads and blocks run a kernel at given sizes, and which of its functions: what
`codegen/nvptx/launch.py` says in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from anyshape.codegen.nvptx.fitting import fits, value_of
from anyshape.codegen.nvptx.module import LaunchRule
from anyshape.codegen.nvptx.tiles import THREADS
from tests.codegen.gpu_emulator import GROUP_THREADS

_WARP: Final = 32
#: Threads that share a row, at most.
_MOST: Final = 1024
#: Blocks of a grid, at most. Each takes several points where there are more.
_GRID: Final = 1 << 30
#: Threads that have private memory each: there is not so much of it.
_PRIVATE_THREADS: Final = 1 << 16


class Geometry(NamedTuple):
    grid: int
    #: threads that share a row, and rows of a block
    block: tuple[int, int]
    #: bytes of shared memory
    shared: int = 0
    #: bytes of private memory for each row of the grid, or each thread; 0 if it is shared memory
    private: int = 0
    #: whether the threads of a block share rows
    by_rows: bool = False
    #: whether blocks share points
    together: bool = False

    @property
    def scratch(self) -> int:
        """Bytes of private memory in all."""
        return self.private * self.owners

    @property
    def owners(self) -> int:
        """Rows or threads that have private memory."""
        return self.grid * (self.block[1] if self.by_rows else self.block[0])


def chosen(
    rules: Sequence[LaunchRule], sizes: Sequence[int], addresses: Sequence[int]
) -> LaunchRule:
    """The first function that is for these sizes and addresses; the last one is for all."""
    for rule in rules[:-1]:
        if all(addresses[number] % by == 0 for number, by in rule.aligned) and fits(rule, sizes):
            return rule
    return rules[-1]


def geometry(
    rule: LaunchRule, sizes: Sequence[int], most_shared: int, room: int = 0
) -> Geometry | None:
    """None if there is nothing to do. `room`: for how many blocks of a group."""
    points, length = value_of(rule.points, sizes), value_of(rule.length, sizes)
    private, depth = value_of(rule.private, sizes), value_of(rule.depth, sizes)
    if rule.form == "rows":
        room = room if rule.part_bytes else 0
        return _rows(rule, points, depth, private, most_shared, room)
    if rule.form == "strips":
        return _strips(rule, points, -(-length // rule.lanes), depth, most_shared, room)
    if rule.form == "attention":
        return Geometry(points, (rule.block, 1), private) if points > 0 else None
    if rule.form == "columns":
        points *= -(-length // rule.lanes)
    if points <= 0:
        return None
    if rule.serial:
        return Geometry(1, (1, 1), 0, private)
    block = rule.block
    # Few points with much to do each are spread over as many processors as there are.
    while block > _WARP and points < block * 128:
        block //= 2
    grid = min(-(-points // block), _GRID)
    if private:
        grid = min(grid, max(1, _PRIVATE_THREADS // block))
    return Geometry(grid, (block, 1), 0, private)


def _strips(
    rule: LaunchRule, points: int, vectors: int, depth: int, most_shared: int, room: int
) -> Geometry | None:
    if points <= 0 or vectors <= 0:
        return None
    x = min(_WARP, 1 << (vectors - 1).bit_length())
    y = GROUP_THREADS // x
    while y > 1 and (2 * y > depth or rule.part_bytes * x * y > most_shared):
        y //= 2
    strips = points * -(-vectors // x)
    parts = min(room // strips, depth // (rule.share * y) if rule.share else 0)
    shared = rule.part_bytes * x * y
    if parts > 1:
        return Geometry(strips * parts, (x, y), shared, together=True)
    return Geometry(min(strips, _GRID), (x, y), shared)


def _rows(
    rule: LaunchRule, points: int, vectors: int, private: int, most_shared: int, room: int
) -> Geometry | None:
    if points <= 0:
        return None
    parts = vectors // (rule.share * GROUP_THREADS) if rule.share else 0
    parts = min(room // points, parts)
    if parts > 3:
        return Geometry(points * parts, (GROUP_THREADS, 1), 0, private, by_rows=True, together=True)
    threads, each = THREADS if rule.tiled else rule.fewest, rule.rounds
    while threads < _MOST and threads * each < vectors:
        threads *= 2
    if rule.each and threads > _WARP:
        threads = -(-vectors // (each * _WARP)) * _WARP
    rows = max(1, rule.block // threads)
    while rows > max(1, _WARP // threads) and (rows * private > most_shared or points < rows * 128):
        rows //= 2
    grid = min(-(-points // rows), _GRID)
    if private > most_shared:
        return Geometry(min(grid, 1024), (threads, rows), 0, private, by_rows=True)
    return Geometry(grid, (threads, rows), rows * private, by_rows=True)
