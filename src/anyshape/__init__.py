"""Compile PyTorch functions once, run them at any shape.

Today the package holds the ground that the compiler will stand on:

- `anyshape.symbolic`: integer expressions over symbolic sizes, and proofs about them;
- `anyshape.ops`: the shape of every torch operator's result, in symbols.

`import anyshape` stays light: it loads neither torch nor any other third-party package. What
needs torch is imported from its own subpackage.
"""

from anyshape.errors import AnyshapeError

__all__ = ["AnyshapeError", "__version__"]

__version__ = "0.1.0"
