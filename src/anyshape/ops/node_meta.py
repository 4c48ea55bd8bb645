"""What a node of the graph carries for those who compile it: the shapes of its result in symbols,
and the call that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: under which names `torch.fx.Node.meta` has it
RESULT: Final = "result"
CALL: Final = "call"
SYMBOL: Final = "symbol"
#: set on a node that computes a number of numbers, and does nothing else
NUMBER: Final = "number"
#: the version of a result, where it is not 0: of a new one, how often the operator itself has
#: written to it
VERSION: Final = "version"
#: the place among its arguments of the tensor that an operator gave back, as a cast to the dtype
#: that it has does. Metas do not tell: those of equal layers are the same objects
ARGUMENT: Final = "argument"
#: set on a node that ran where autograd records nothing; its result may still say that it requires
#: grad, as a view of a parameter does
UNRECORDED: Final = "unrecorded"
#: set on an input that is a parameter
PARAMETER: Final = "parameter"
#: set on a copy that an operator of the program makes itself, which is given where to (`out=`)
OUT_COPY: Final = "out_copy"
#: set on a copy that is made to be written to: only what it is after that is ever read
WRITTEN: Final = "written"
#: of a result that one of our graphs keeps for another one, and nobody else sees: how its memory is
#: laid out, if not as the program has it
LAYOUT: Final = "layout"
#: of attention whose mask is made of sizes alone, and known at all of them: whether it is the
#: causal one; if not, it hides nothing
KNOWN_MASK: Final = "known_mask"
#: of a node in a call of `torch.utils.checkpoint`: an object that stands for that call
CHECKPOINT: Final = "checkpoint"
#: and `torch.fx.GraphModule.meta`
FACTS: Final = "facts"
#: facts about data that the graph relies on: not known before it runs
EXPECTED: Final = "expected"
COMPILE_ID: Final = "compile_id"
#: set where CUDA graphs are asked for
CUDA_GRAPHS: Final = "cuda_graphs"
#: set where kernels are to be tuned
AUTOTUNE: Final = "autotune"
#: what the backend says of it
REPORT: Final = "report"
#: where it stands among the graphs of its entry
STANDING: Final = "standing"


class TreePosition(NamedTuple):
    """Where a graph stands in the tree of an entry, as people are told."""

    number: int
    #: the graph before it, and the outcome that leads from there to here
    after: int | None
    outcome: str
    #: what is asked at its end, and the place that asks
    asks: str
    user_frame: Any


class RecordedCall(NamedTuple):
    """An operator and its arguments: a `Meta` for each tensor, a size for each integer. Numbers
    that the graph computes are those of the run at hand; the node's own arguments name them."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
