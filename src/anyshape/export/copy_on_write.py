"""An operator that changes its arguments, as one that does not: it works on copies of them.

    result, copy of the first = on_copies("torch.nn.functional.batch_norm")((1, 2), x, mean, …)

For the operators of which torch has no other form. Like an operator with graphs, it is a function
made for one operator, whose name it carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

#: Where such a function keeps the name of its operator.
_OPERATOR: Final = "_anyshape_on_copies"


def on_copies(name: str, function: Callable[..., object]) -> Callable[..., object]:
    """`function` on copies of the arguments at some places: gives its result, then the copies."""

    def on_copies(places: Sequence[int], *args: Any, **kwargs: object) -> object:
        given = list(args)
        copies: list[torch.Tensor] = []
        for place in places:
            given[place] = given[place].clone()
            copies.append(given[place])
        return (function(*given, **kwargs), *copies)

    setattr(on_copies, _OPERATOR, name)
    return on_copies


def operator_on_copies(function: object) -> str | None:
    """The name of the operator that a function has been made for."""
    return getattr(function, _OPERATOR, None)


def method_on_copies(name: str) -> Callable[..., object]:
    """The same for a method of tensors."""

    def call(first: object, *args: object, **kwargs: object) -> Any:
        return getattr(first, name)(*args, **kwargs)

    return on_copies(f"torch.Tensor.{name}", call)
