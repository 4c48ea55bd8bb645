"""What the ranks of a distributed program have seen between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from anyshape.policy.observations import Observation
from anyshape.support.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class OtherRanks:
    """By source: what it was seen as on all ranks together, and in words who has seen what, where
    they differ."""

    seen: Mapping[str, Observation] = field(default_factory=dict[str, Observation])
    told: Mapping[str, str] = field(default_factory=dict[str, str])


ALONE: Final = OtherRanks()

_RANK: Final = re.compile(r"\brank \d+")


def ranks_in(told: str) -> str:
    """Who has seen something, out of the words on who has seen what."""
    return " and ".join(dict.fromkeys(_RANK.findall(told)))
