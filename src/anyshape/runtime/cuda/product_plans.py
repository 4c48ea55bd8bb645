"""The plans of matrix products on a GPU, which native code looks up.

A product that is new is asked for once: the library proposes algorithms, and its first is taken.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

import torch

from anyshape.events.notices import Notices
from anyshape.loops.product_plan import HEAD, KEY, PLAN_WORDS, plan_word
from anyshape.runtime.cuda.blas import Algorithm, Operation, blas, factors, key_of
from anyshape.runtime.loader.errors import NativeFailed

_MISSING: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
#: Of all shapes; others are torch's.
_MOST: Final = 1 << 14
#: Of a batch at one shape. Weights that are elsewhere at each call are at as many distances.
_MOST_DISTANCES: Final = 32
_DISTANCES: Final = [KEY.index(name) for name in ("b.batch", "d.batch", "bias.batch")]
_FIRST: Final = 64
_notices: Final = Notices("native")


class Library(Protocol):
    """What is needed of `Blas`."""

    handle: int
    multiply: int
    set: int

    def operation(self, key: Mapping[str, int]) -> Operation | None: ...
    def proposed(self, key: Mapping[str, int], own: Operation) -> Algorithm | None: ...


class ProductPlans:
    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._plans: dict[bytes, Any] = {}
        #: plans that differ in distances alone
        self._alike: Counter[tuple[int, ...]] = Counter()
        #: all tables that were, since somebody may be reading them
        self._tables: list[Any] = []
        self._missing = _MISSING(self._asked)
        missing = ctypes.cast(self._missing, ctypes.c_void_p).value or 0
        words = {"missing": missing, "multiply": library.multiply, "set": library.set}
        words["handle"] = library.handle
        self._head = (ctypes.c_int64 * len(HEAD))(*(words.get(name, 0) for name in HEAD))
        self._new_table(_FIRST)

    @property
    def head(self) -> int:
        return ctypes.addressof(self._head)

    # -- called by machine code, which knows nothing of exceptions ---------------------------------

    def _asked(self, address: int) -> int:
        try:
            return self._plan(ctypes.string_at(address, 8 * len(KEY)))
        except Exception:
            return 0

    def _plan(self, words: bytes) -> int:
        known = self._plans.get(words)
        if known is None:
            key = struct.unpack(f"{len(KEY)}q", words)
            alike = tuple([word for n, word in enumerate(key) if n not in _DISTANCES])
            if len(self._plans) >= _MOST or self._alike[alike] >= _MOST_DISTANCES:
                return 0
            if _wants_float16_sums():
                return 0  # as long as it is so
            # Another thread may make the same meanwhile: the first to be kept is used.
            made = self._made(key_of(key))
            with self._lock:
                known = self._plans.setdefault(words, made)
                if known is made:
                    self._alike[alike] += 1
                    self._keep(words, ctypes.addressof(made))
        return ctypes.addressof(known)

    def _made(self, key: Mapping[str, int]) -> Any:
        """A plan; one without an operation where the library has none or fails, so that it is
        asked once: what it has made is never freed."""
        plan = (ctypes.c_int64 * PLAN_WORDS)(*key.values())
        try:
            operation = self._library.operation(key)
            chosen = None if operation is None else self._library.proposed(key, operation)
        except NativeFailed:
            return plan
        except Exception as error:
            _notices.tell(f"products on GPUs are torch's: {type(error).__name__}: {error}")
            return plan
        if operation is None or chosen is None:
            return plan
        for name, value in operation._asdict().items():
            plan[plan_word(name)] = value
        plan[plan_word("workspace")] = chosen.workspace
        (plan[plan_word("factors")],) = struct.unpack("q", struct.pack("ff", *factors(key)))
        start = plan_word("algorithm")
        plan[start : start + 8] = struct.unpack("8q", chosen.words)
        return plan

    # -- the table ---------------------------------------------------------------------------------

    def _keep(self, words: bytes, plan: int) -> None:
        """To be called with the lock. At most half of a table is full."""
        table = self._tables[-1]
        if 2 * len(self._plans) > table[0]:
            self._new_table(2 * (table[0] + 1))
        else:
            _put(table, words, plan)

    def _new_table(self, places: int) -> None:
        table = (ctypes.c_int64 * (1 + places))(places - 1)
        for words, plan in self._plans.items():
            _put(table, words, ctypes.addressof(plan))
        self._tables.append(table)
        self._head[HEAD.index("plans")] = ctypes.addressof(table)


def _put(table: Any, words: bytes, plan: int) -> None:
    """A reader meanwhile finds the plan, or a free place and asks."""
    mask = table[0]
    place = _hash(words) & mask
    while table[1 + place]:
        place = (place + 1) & mask
    table[1 + place] = plan


_ALL_BITS: Final = (1 << 64) - 1
_SPREAD: Final = -7046029254386353131 & _ALL_BITS


def _hash(words: bytes) -> int:
    """As native code has it."""
    found = 0
    for word in struct.unpack(f"{len(KEY)}Q", words):
        mixed = ((found ^ word) * _SPREAD) & _ALL_BITS
        found = ((mixed << 29) | (mixed >> 35)) & _ALL_BITS
    return found


def _wants_float16_sums() -> bool:
    """Somebody has asked for what we do not do."""
    allowed = getattr(torch._C, "_get_cublas_allow_fp16_accumulation", None)
    return bool(allowed is not None and allowed())


@functools.cache
def product_plans(device: int) -> ProductPlans | None:
    """Of this GPU; None where the library is not to be had."""
    library = blas(device)
    return None if library is None else ProductPlans(library)
