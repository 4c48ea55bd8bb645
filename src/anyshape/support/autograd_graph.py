"""The graph that autograd has recorded behind tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def functions_behind(roots: Iterable[Any]) -> list[Any]:
    """These functions of autograd's graph, as far as they are not None, and all that their
    gradients go to."""
    found: dict[Any, None] = {}
    stack = list(roots)
    while stack:
        function = stack.pop()
        if function is not None and function not in found:
            found[function] = None
            stack += [before for before, _ in function.next_functions]
    return list(found)
