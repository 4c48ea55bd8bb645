"""Which input sizes and integers are dynamic, and why.

In: what a source is now, what it was seen as before, marks, settings. Out: one decision for each
dimension or integer, with its reason in words. All of it is pure: nothing is remembered here, and
it must not know tensors, guards or how a capture works.

    decide_sizes("L['x']", (20, 4), Source(), Evidence(seen=of_sizes((10, 4))), config, None)
    # dimension 0 is dynamic: "it was seen as 10, and it is 20 now"; dimension 1 is static
"""

from anyshape.policy.decide import (
    By,
    Choice,
    Decision,
    Evidence,
    Mark,
    MarkKind,
    Settings,
    Source,
    decide_float,
    decide_int,
    decide_sizes,
)
from anyshape.policy.observations import (
    MANY,
    Many,
    Observation,
    Observations,
    Seen,
    merge,
    of_int,
    of_sizes,
)
from anyshape.policy.other_ranks import OtherRanks
from anyshape.policy.sources import DynamicSource, names_source, parse_dynamic_sources

__all__ = [
    "MANY",
    "By",
    "Choice",
    "Decision",
    "DynamicSource",
    "Evidence",
    "Many",
    "Mark",
    "MarkKind",
    "Observation",
    "Observations",
    "OtherRanks",
    "Seen",
    "Settings",
    "Source",
    "decide_float",
    "decide_int",
    "decide_sizes",
    "merge",
    "names_source",
    "of_int",
    "of_sizes",
    "parse_dynamic_sources",
]
