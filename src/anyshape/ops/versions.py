"""What differs between the versions of torch that are supported, 2.11 to 2.14.

Each difference that a rule has to know has a name here, so that no rule compares versions and a
version that is no longer supported is dropped in one place. They are told by the version and not by
trying them out: importing the rules runs no operator of torch.
"""

from __future__ import annotations

from typing import Final

import torch

_VERSION: Final = tuple(int(part) for part in torch.__version__.split(".")[:2])

#: `group_norm` refuses an input with no channels, or with no values in a channel of an element of
#: the batch. A batch of 0 it takes. Before, anything without elements went through.
GROUP_NORM_NEEDS_VALUES: Final = _VERSION >= (2, 14)

#: Padding by repeated edges leaves at least 1 in each dimension that it pads. Before, as in padding
#: by reflection, one of them was enough, and the others might be cut down to 0.
REPLICATION_LEAVES_ALL_SIZES: Final = _VERSION >= (2, 14)

#: `arange` of int64 cuts its bounds and its step to integers before it counts: `arange(0, 4, 1.5)`
#: counts as `arange(0, 4, 1)`. Since then it counts the steps between the numbers as they are
#: given, as for all other dtypes.
ARANGE_CUTS_TO_INTEGERS: Final = _VERSION < (2, 14)
