"""Which convolutions are computed with the channels of a pixel side by side (channels last), and
which tensors are stored so for them.

torch computes some convolutions several times faster that way. A program does not ask for it, and
does not see it: a tensor is stored so only if nobody but native code reads it, which finds each
element where it is. Whoever needs the tensor as the program has it gets a copy
(`Materialize.materialize_storage`). Nothing but speed depends on what is decided here. Graphs with
gradients have rules of their own (`training_layout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import function_of, match_of
from anyshape.ops.effects import out_of
from anyshape.ops.meta import Meta, channels_last, contiguous
from anyshape.ops.node_meta import CALL, RESULT
from anyshape.ops.op import NATIVE, VIEWS, VIEWS_OF_EACH
from anyshape.ops.op import OpKind as Kind
from anyshape.ops.table import OpMatch
from anyshape.symbolic import Expr, Symbol, evaluate

CHANNELS_LAST: Final = channels_last(4)

#: So many pixels for each channel that a result is made of: from here on it is faster, by up to
#: seven times. With few pixels of many channels it is slower, by up to two.
_MANY_PIXELS: Final = 64

#: Beside what is computed element by element: what gives each pixel of several pixels.
GIVE_PIXELS: Final = frozenset({"cat", "interpolate", "batch_norm", "functional_batch_norm"})


class ChannelsLast:
    """`convolutions` that are computed so; `stored`: whose results are stored so, if they are."""

    def __init__(self, nodes: Sequence[torch.fx.Node], seen: Mapping[Symbol, int]) -> None:
        self._seen = seen
        self.convolutions: set[torch.fx.Node] = set()
        self.stored: set[torch.fx.Node] = set()
        if not torch.backends.mkldnn.is_available():
            return
        self.convolutions = {node for node in nodes if self.is_faster(node)}
        if self.convolutions:
            self._store(nodes)

    def _store(self, nodes: Sequence[torch.fx.Node]) -> None:
        for node in reversed(nodes):
            if is_image(node.meta.get(RESULT)) and self._is_read_so(node):
                self.stored.add(node)

    def is_faster(self, node: torch.fx.Node) -> bool:
        entry = match_of(node)
        if entry is None or entry.op.name != "conv2d" or not is_image(node.meta.get(RESULT)):
            return False
        call = node.meta[CALL]
        if len(call.args) < 2 or not isinstance(node.args[0], torch.fx.Node):
            return False
        image, weight, *more = call.args
        if not is_image(image) or not isinstance(weight, Meta) or weight.rank != 4:
            return False
        given = more[1] if len(more) > 1 else call.kwargs.get("stride", 1)
        steps = given if isinstance(given, tuple | list) else (given,)
        sizes = (*weight.shape, *image.shape[2:], *steps)
        seen = [found for size in sizes if (found := self.as_seen(size)) is not None]
        if len(seen) != len(sizes):
            return False
        made, read, high, wide, rows, columns, *strides = seen
        # Patches that do not overlap are a product of matrices.
        if max(strides) >= max(2, min(high, wide)):
            return False
        if node.args[0].op == "placeholder" and made < 2 * read:
            return False  # The copy of the image would be a large part of what the call needs.
        return rows * columns >= _MANY_PIXELS * read

    def as_seen(self, size: Any) -> int | None:
        """What a size was when the program was captured."""
        if isinstance(size, int):
            return size
        known = isinstance(size, Expr) and all(symbol in self._seen for symbol in size.symbols)
        return evaluate(size, self._seen) if known else None

    def _is_read_so(self, node: torch.fx.Node) -> bool:
        if node.op not in ("call_function", "call_method") or _writes(node):
            return False
        gains = False
        for user in node.users:
            entry = match_of(user)
            if entry is None or not is_lowered(entry) or _writes(user):
                return False
            if user in self.convolutions:
                gains |= user.args[0] is node
            elif entry.op.lowering is Kind.POINTWISE or entry.op.name in GIVE_PIXELS:
                gains |= user in self.stored
        return gains


def is_image(meta: object) -> bool:
    return (
        isinstance(meta, Meta)
        and meta.rank == 4
        and meta.dtype is torch.float32
        and meta.layout == contiguous(4)
        and meta.device.type == "cpu"
    )


def is_lowered(entry: OpMatch) -> bool:
    """Whether native code computes it from elements, and makes no view."""
    name = entry.op.name
    return name in NATIVE and name not in VIEWS and name not in VIEWS_OF_EACH


def _writes(node: torch.fx.Node) -> bool:
    entry = match_of(node)
    if entry is None or entry.in_place:
        return True
    if out_of(function_of(node), node.args, node.kwargs) is not None:
        return True
    return bool(node.kwargs.get("inplace")) or any(arg is True for arg in node.args[1:])
