"""Copies of tensors with all that a program can see of them: layout, shared memory, views and their
bases, what they are to autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import torch

_torch: Any = torch
_autograd: Final = _torch._C._autograd


class CannotCopy(Exception):
    """A value of which eager cannot have a copy; the text says which, and why."""


class Whole(Protocol):
    """Copies of values of all kinds."""

    def of(self, value: Any) -> Any: ...
    def remember(self, value: object, made: Any) -> Any: ...


class SharedTensor(NamedTuple):
    """A tensor that both runs read, and how it was before."""

    tensor: torch.Tensor
    version: int | None
    grad: torch.Tensor | None
    grad_version: int | None


class TensorCopies:
    """The tensors among the copies of one call."""

    def __init__(self, whole: Whole, share_parameters: bool) -> None:
        self._whole = whole
        self._share_parameters = share_parameters
        #: by the identity of the original memory
        self._storages: dict[int, torch.UntypedStorage] = {}
        #: kept, so that no identity is used again meanwhile
        self._originals: list[torch.UntypedStorage] = []
        #: what was not copied, because the program does not change it
        self.shared: list[SharedTensor] = []

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._share_parameters and type(tensor) is torch.nn.Parameter:
            self.share(tensor)
            return self._whole.remember(tensor, tensor)
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise CannotCopy(f"a {type(tensor).__name__} is a tensor of its own kind")
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            made = self._whole.remember(tensor, self._made(tensor))
            if tensor.__dict__:
                made.__dict__.update(self._whole.of(tensor.__dict__))
            if tensor.is_leaf and tensor.grad is not None:
                made.grad = self._whole.of(tensor.grad)
        return made

    def share(self, tensor: torch.Tensor) -> None:
        """Remember how a tensor is that is not copied."""
        grad = tensor.grad if tensor.is_leaf else None
        self.shared.append(SharedTensor(tensor, _version(tensor), grad, _version(grad)))

    def changed(self) -> list[torch.Tensor]:
        """The tensors that were not copied and have been changed since."""
        return [each.tensor for each in self.shared if _is_changed(each)]

    def _made(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            if tensor.requires_grad and not tensor.is_leaf:
                raise CannotCopy(f"a {tensor.layout} tensor with a history")
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        base = tensor._base if tensor._is_view() else None
        if base is not None and base.dtype == tensor.dtype:
            made = self._view(tensor, base)
            if made.requires_grad == tensor.requires_grad:
                return made
            # Its base has no gradients: it is a leaf in the memory of another, or a view of one.
        elif base is not None and tensor.requires_grad:
            raise CannotCopy("a view of another dtype with a history")
        return self._with_history(tensor, lambda: self._on_copied_memory(tensor))

    def _view(self, tensor: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        copied = self._whole.of(base)
        with torch.set_grad_enabled(tensor.requires_grad):
            made = copied.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            made = _with_bits(tensor, made)
        if not tensor.is_inference():
            _autograd._set_creation_meta(made, _autograd._get_creation_meta(tensor))
        return made

    def _with_history(self, tensor: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        if tensor.is_leaf:
            made = make()
            if type(tensor) is torch.nn.Parameter:
                return torch.nn.Parameter(made, tensor.requires_grad)
            return made.requires_grad_(tensor.requires_grad)
        with torch.enable_grad():
            return _History.apply(torch.zeros((), requires_grad=True), make)

    def _on_copied_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        memory = self._storage(tensor.untyped_storage())
        made.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())
        return _with_bits(tensor, made)

    def _storage(self, original: torch.UntypedStorage) -> torch.UntypedStorage:
        found = self._storages.get(original._cdata)
        if found is None:
            found = self._storages[original._cdata] = original.clone()
            self._originals.append(original)
        return found


def _with_bits(tensor: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Lazily conjugated and negated as the original is."""
    if tensor.is_conj() != made.is_conj():
        made = _torch._conj(made)
    return _torch._neg_view(made) if tensor.is_neg() != made.is_neg() else made


class _History(torch.autograd.Function):
    """A result of autograd, as a tensor from an earlier operation is: no leaf, and no view."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None


def _version(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None or tensor.is_inference() else tensor._version


def _is_changed(before: SharedTensor) -> bool:
    tensor = before.tensor
    if _version(tensor) != before.version:
        return True
    grad = tensor.grad if tensor.is_leaf else None
    return grad is not before.grad or _version(grad) != before.grad_version
