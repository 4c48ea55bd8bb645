"""Inputs whose memory is in another order than their dimensions, for `check(prepare=...)`."""

from __future__ import annotations

import torch


def inside_out(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor with its dimensions in the opposite order in memory."""
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def first_inside(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor with its first dimension innermost in memory."""
    rest = tensor.dim() - 1
    return tensor.permute(*range(1, rest + 1), 0).contiguous().permute(-1, *range(rest))


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Images and volumes with their channels innermost; other tensors as they are."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.to(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor
