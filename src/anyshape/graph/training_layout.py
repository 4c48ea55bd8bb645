"""Which images of a graph with gradients are stored with the channels of a pixel side by side.

The gradients of weights gain most, by up to twelve times, those of images and the convolutions
themselves less. All of them read the same images, so there is one answer for the three; whatever is
computed between convolutions, forward and backward, is stored as they have it, and so is what the
forward graph keeps for the backward one (`LAYOUT` of a node). What the program sees is as eager's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import torch.fx

from anyshape.graph.alias_analysis import is_in_place, is_part, match_of
from anyshape.graph.channels_last import (
    CHANNELS_LAST,
    GIVE_PIXELS,
    ChannelsLast,
    is_image,
    is_lowered,
)
from anyshape.graph.fallback import may_write
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.node_meta import CALL, LAYOUT, RESULT
from anyshape.ops.op import VIEWS, OpKind
from anyshape.symbolic import Symbol

#: So many pixels of a result: with fewer the gradient of the image is up to five times slower. And
#: one for each channel that is read, of all images together, or that of the weight is.
_LEAST_PIXELS: Final = 36
_SMALL: Final = 8

_GIVE_PIXELS: Final = GIVE_PIXELS | {"group_norm", "functional_group_norm"}


class TrainingLayout(ChannelsLast):
    def is_faster(self, node: torch.fx.Node) -> bool:
        entry = match_of(node)
        if entry is None or entry.op.name not in ("conv2d", "convolution_gradient"):
            return False
        call = node.meta[CALL]
        try:
            given = bind_match(entry, call.args, call.kwargs).arguments
        except Unbound:
            return False
        is_forward = entry.op.name == "conv2d"
        made = node.meta[RESULT] if is_forward else given["grad"]
        weight, groups = given["weight"], given["groups"]
        if not is_image(made) or not is_image(given["input"]) or weight.rank != 4:
            return False
        if groups != 1 or given.get("transposed"):
            return False
        stride = given["stride"] if is_forward else given["steps"][0]
        steps = stride if isinstance(stride, tuple | list) else (stride,)
        sizes = (made.shape[0], *made.shape[2:], *weight.shape[1:], *steps)
        seen = [found for size in sizes if (found := self.as_seen(size)) is not None]
        if len(seen) != len(sizes):
            return False
        batch, rows, columns, read, high, wide, *strides = seen
        # What varies may grow, and as long as it is small there is little to lose.
        rows, columns = (
            found if isinstance(size, int) else max(found, _SMALL)
            for size, found in zip(made.shape[2:], (rows, columns), strict=True)
        )
        # Patches that do not overlap are a product of matrices.
        if max(strides) >= max(high, wide) > 1:
            return False
        return rows * columns >= _LEAST_PIXELS and batch * rows * columns >= read

    def _store(self, nodes: Sequence[torch.fx.Node]) -> None:
        """From what convolutions read and give on to what is computed of that, or for that."""
        stack = [each for node in self.convolutions for each in (node, *node.all_input_nodes[:2])]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if _is_storable(node):
                self.stored.add(node)
            elif LAYOUT not in node.meta and not _is_view(node):
                continue
            for each in _beside(node):
                if each not in seen and is_image(each.meta.get(RESULT)):
                    seen.add(each)
                    stack.append(each)


def keep_channels_last(
    nodes: Sequence[torch.fx.Node], kept: Iterable[torch.fx.Node], hints: Mapping[Symbol, int]
) -> None:
    """Say of results that a graph with these nodes keeps for another one how they are laid out."""
    chosen = [node for node in kept if node.op != "placeholder" and is_image(node.meta[RESULT])]
    for node in chosen:
        node.meta[LAYOUT] = CHANNELS_LAST
    stored = TrainingLayout(nodes, hints).stored
    for node in chosen:
        if node not in stored:
            node.meta.pop(LAYOUT, None)


def _beside(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """What it is computed of pixel by pixel, and what is computed of it so."""
    maker = _maker(node)
    if _passes_on(maker):
        yield from maker.all_input_nodes
    for user in node.users:
        if _passes_on(user):
            yield user
            yield from filter(is_part, user.users)


def _maker(node: torch.fx.Node) -> torch.fx.Node:
    """The call that gives it, alone or among others."""
    return node.all_input_nodes[0] if is_part(node) else node


def _passes_on(node: torch.fx.Node) -> bool:
    entry = match_of(node)
    if entry is None:
        return False
    return _is_view(node) or entry.op.lowering is OpKind.POINTWISE or entry.op.name in _GIVE_PIXELS


def _is_view(node: torch.fx.Node) -> bool:
    entry = match_of(node)
    return entry is not None and entry.op.name in VIEWS


def _is_storable(node: torch.fx.Node) -> bool:
    """Whether native code stores it, and is all that reads it."""
    if node.op == "placeholder" or _is_view(node) or not _is_read_by_element(_maker(node)):
        return False
    return all(
        LAYOUT in node.meta if user.op == "output" else _is_read_by_element(user)
        for user in node.users
    )


def _is_read_by_element(node: torch.fx.Node) -> bool:
    """Whether native code does it, and finds elements where they are."""
    entry = match_of(node)
    if entry is None or is_in_place(node) or may_write(entry, node):
        return False
    return is_lowered(entry) or entry.op.name in VIEWS
