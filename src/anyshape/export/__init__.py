"""One artifact for a range of shapes: captured once, run without the program that it was made of.

In: a function or a module, the arguments of a call, a spec of what is dynamic. Out: an `Exported`,
which checks its inputs, runs, and can be saved and loaded.

    ep = export(model, (x,), dynamic_shapes={"x": (Dim("batch", max=64), None)})
    ep.save("model.zip")
    load("model.zip")(torch.randn(7, 16))

A spec in which `Dim.AUTO` stands is never an error: the artifact is as dynamic as the program
allows. Its graph is compiled as any program is: it must not know how.
"""

import sys
from types import ModuleType

from anyshape.export.exported import Exported, load
from anyshape.export.results import Record
from anyshape.export.run import export
from anyshape.export.spec import ShapesCollection
from anyshape.export.suggest import Suggestion

__all__ = ["Exported", "Record", "ShapesCollection", "Suggestion", "export", "load"]


class _Callable(ModuleType):
    """`anyshape.export` is what users call, and this package: loading it hides the function."""

    __call__ = staticmethod(export)


sys.modules[__name__].__class__ = _Callable
