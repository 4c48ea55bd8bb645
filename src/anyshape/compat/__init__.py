"""Unmodified PyTorch scripts on anyshape: what they call of `torch.compile` and its kin is ours.

    import anyshape.compat
    anyshape.compat.install()

or `anyshape run script.py`, which does this before the script begins. In: the names that scripts
use. Out: calls of `anyshape.api` and settings of `anyshape.config`; what has no counterpart is
named in one warning when the program ends. Parts of PyTorch's own compiler are only loaded where a
script asks for something that is not known here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshape.support.requirements import require_torch

if TYPE_CHECKING:
    from anyshape.compat.installing import install
    from anyshape.compat.unmapped import not_mapped

__all__ = ["install", "not_mapped"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'anyshape.compat' has no attribute {name!r}")
    # Loads torch: whoever sets the environment for it first has to come before.
    require_torch(import_module("torch").__version__)
    from anyshape.compat import installing, unmapped

    return {"install": installing.install, "not_mapped": unmapped.not_mapped}[name]
