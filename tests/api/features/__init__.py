"""Python as people write it: one small world for each feature of the language or of torch.

A world is built twice, so everything that it may change is made inside its function. Importing
this package fills `FEATURES`.
"""

from tests.api.features import (
    effects,
    exceptions,
    functions,
    interpreter,
    iteration,
    objects,
    torch_features,
)
from tests.api.features.registry import FEATURES

__all__ = [
    "FEATURES",
    "effects",
    "exceptions",
    "functions",
    "interpreter",
    "iteration",
    "objects",
    "torch_features",
]
