"""What compiled functions of the process do in place of compiling, while somebody asks for it.

    set_stance(Stance.EAGER)            `torch.compiler.set_stance("force_eager")`

One for the whole process. Only calls that no entry serves look at it: dispatchers without entries
are made for `EAGER`, so that a hit costs what it costs.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Stance(Enum):
    #: compile what no entry serves
    COMPILE = "compile"
    #: every call runs eagerly
    EAGER = "every call runs eagerly"
    #: calls that match no entry run eagerly
    EAGER_ON_MISS = "calls that match no entry run eagerly"
    #: what no entry serves is an error
    FAIL_ON_MISS = "the stance makes that an error (fail_on_recompile)"
    #: the first call of a function runs eagerly
    EAGER_FIRST = "the first call runs eagerly"


_now: Final = [Stance.COMPILE]


def stance() -> Stance:
    return _now[0]


def set_stance(new: Stance) -> Stance:
    """The one before. Dispatchers have to be made again."""
    before, _now[0] = _now[0], new
    return before
