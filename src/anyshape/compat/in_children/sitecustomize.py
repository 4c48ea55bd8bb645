"""Found by Python when a process starts whose parent is `anyshape run`: see `../children.py`."""

import importlib.machinery
import importlib.util
import pathlib
import sys

_HERE = str(pathlib.Path(__file__).parent)

try:
    from anyshape.compat import children
except ImportError:  # a Python without anyshape: nothing to do there
    pass
else:
    children.install_after_torch()

# The one that would have been found without this file.
sys.path[:] = [folder for folder in sys.path if folder != _HERE]
_next = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _next is not None and _next.loader is not None:
    _module = importlib.util.module_from_spec(_next)
    sys.modules["sitecustomize"] = _module
    _next.loader.exec_module(_module)
