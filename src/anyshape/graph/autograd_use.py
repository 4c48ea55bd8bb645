"""Whether autograd has a part in a graph.

Native code makes plain tensors: nothing records how they came about. So the question is decided
here, once and for a whole graph, by what the capture saw of every result, and not by operators: a
graph with a result that autograd recorded runs as it is. What native code makes is asked again
where it is made (`Lowering`), since a tensor may say that it requires grad where nothing is
recorded: a parameter, and any view of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch.fx

from anyshape.graph.plan import Unlowerable, leaves
from anyshape.ops.bind import works_in_place
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.table import lookup


def refuse_recorded(nodes: Iterable[torch.fx.Node]) -> None:
    """Raise `Unlowerable` if autograd records any of these nodes."""
    for node in nodes:
        call = node.meta.get(CALL)
        if call is None or UNRECORDED in node.meta:
            continue
        if RESULT not in node.meta:
            # `x[i] = v` gives nothing: `x` requires grad from then on if `v` does.
            recorded = requires_grad((call.args, call.kwargs))
        else:
            result = node.meta[RESULT]
            recorded = requires_grad(result) and not _returns_its_argument(call, result)
        if recorded:
            raise Unlowerable("a result requires grad")


def _returns_its_argument(call: RecordedCall, result: Any) -> bool:
    """Whether a call gives back what it was given, and has done nothing to it."""
    entry = lookup(call.function)
    if entry is None or works_in_place(call.function, call.args, call.kwargs):
        return False
    return any(each is result for each in call.args)


def requires_grad(tree: Any) -> bool:
    """Whether any tensor among results or arguments does."""
    return any(isinstance(leaf, Meta) and leaf.requires_grad for leaf in leaves(tree))
