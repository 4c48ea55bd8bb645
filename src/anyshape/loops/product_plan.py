"""What native code and the library of matrix products have to tell each other: words of 64 bits.

A *key* says what a product is: sizes, strides and alignment. A *plan* is a key with what the
library is called with. The *head* is what native code has of a device: its table of plans, and
whom to ask for one that is missing.
"""

from __future__ import annotations

from typing import Final

#: `kind`: bits of it, then 4 bits each of the addresses of a, b, d and the bias.
KEY: Final = (
    *("kind", "rows", "columns", "depth"),
    *("a.row", "a.column", "b.row", "b.column", "d.row", "d.column"),
    *("batch", "a.batch", "b.batch", "d.batch", "bias.batch"),
)
#: in `kind`
IS_FLOAT16: Final = 1
HAS_BIAS: Final = 2
ADDS: Final = 4
ALIGNMENTS: Final = 8
ALIGNMENT_BITS: Final = 4

#: Behind the key. `operation` is 0 where the library has no such product. `algorithm` is the first
#: of eight words; `factors` are two floats: of the product, and of what is in d before.
PLAN: Final = (
    *("operation", "busy", "a", "b", "d", "workspace", "factors", "algorithm"),
    *(f"algorithm.{word}" for word in range(1, 8)),
)
PLAN_WORDS: Final = len(KEY) + len(PLAN)

#: `plans`: the address of a table: how many places it has, less one, and in each the address of a
#: plan. A table is never changed but by one that takes its place.
HEAD: Final = ("plans", "missing", "multiply", "set", "handle")

#: Of a member of a group: its second factor, its bias, its result.
MEMBER: Final = ("b", "bias", "d")


def plan_word(name: str) -> int:
    return len(KEY) + PLAN.index(name)
