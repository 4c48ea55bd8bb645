"""Tensors and objects from outside: inputs of the graph when they are first used, and guarded."""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.record.data_dependent_shapes import Form, HasForm, is_opaque, meta_of
from anyshape.capture.record.segment_state import Segments, TracedTensor, identifier
from anyshape.capture.replay.events import Input
from anyshape.guards.guard import Kind, TensorSpec
from anyshape.guards.path import Path
from anyshape.ops.meta import Dense, Meta, Strided, dense_strides, of_tensor
from anyshape.ops.node_meta import CALL, RESULT
from anyshape.ops.op import OpKind
from anyshape.ops.table import lookup
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import (
    NATURAL,
    Answer,
    Expr,
    Range,
    Size,
    as_symbol,
    eq,
    ge,
    gt,
    le,
    maximum,
)


class Inputs(Segments):
    """What the capture takes from outside."""

    def object_node(self, value: object) -> torch.fx.Node:
        """A placeholder for an external object that an operation takes as it is."""
        made = self._objects.get(id(value))
        if made is not None:
            if made[2] is not self.segment:
                raise AbortCapture(
                    f"a {type(value).__name__} is used after a data-dependent branch"
                )
            return made[1]
        path = self.tracer.path_of(value)
        if path is None:
            raise AbortCapture(f"an operation takes a {type(value).__name__} made by the program")
        self.tracer.cannot_replay("an operation takes an object")
        if isinstance(value, torch.Generator):
            self.segment.generators[path] = None
            self.changes.any = self.changes.draws_apart = True
        found = self.segment.nodes.get(id(value))
        if found is None:
            found = self.segment.placeholder(identifier(path.text), path, value)
            self.segment.nodes[id(value)] = found
        return found

    def made_object(self, value: object, node: torch.fx.Node) -> None:
        """The program has made an object that operations take: the graph makes it in `node`."""
        self._objects[id(value)] = (value, node, self.segment)

    def known(self, tensor: torch.Tensor) -> TracedTensor:
        """What is known of a tensor; an external one becomes an input of the graph when it is first
        used."""
        found = self._known.get(id(tensor))
        if found is not None:
            return found
        path = self.tracer.path_of(tensor)
        if path is None:
            raise AbortCapture(
                "a tensor of unknown origin",
                "it was made or found by native code; make it with a torch function instead",
            )
        with torch._C.DisableTorchFunction():
            return self._input(tensor, path)

    def is_known(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._known

    def _input(self, tensor: torch.Tensor, path: Path) -> TracedTensor:
        tracer = self.tracer
        if is_opaque(tensor):
            return self._opaque_input(tensor, path)
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            raise AbortCapture(f"a tensor of layout {tensor.layout}")
        if _is_transformed(tensor):
            raise AbortCapture("a tensor inside a function transform")
        if tensor.is_conj() or tensor.is_neg():
            raise AbortCapture("a lazily conjugated or negated tensor")
        chosen = tracer.chooser.sizes(path, tensor, tracer.owner(path))
        given = tracer.given_sizes.get(id(tensor), {})
        shape: list[Size] = []
        unbacked: list[tuple[int, Range]] = []
        for dim, (size, declared) in enumerate(zip(tensor.shape, chosen, strict=True)):
            if dim in given:
                shape.append(given[dim])
            elif declared is None:
                shape.append(size)
            elif isinstance(declared, Range):
                shape.append(tracer.new_symbol(path, dim, size, declared))
            else:
                shape.append(tracer.new_data_symbol(size, NATURAL))
                unbacked.append((dim, declared.range))
        meta = of_tensor(tensor, tuple(shape))
        layout = meta.layout
        dense = isinstance(layout, Dense)
        if not dense and not unbacked and tracer.owner(path) is None:
            meta = replace(meta, layout=Strided(self._strides_with_gaps(tensor, path, meta)))
        spec = TensorSpec(
            type(tensor),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            tuple(None if isinstance(size, Expr) else size for size in shape),
            strides=None if dense else tuple(map(_number, meta.strides)),
            order=layout.order if dense else None,
            layout=tensor.layout,
        )
        tracer.guard(Kind.TENSOR, path, spec)
        node = self.segment.placeholder(identifier(path.text), path, tensor)
        node.meta[RESULT] = meta
        self.need_strides(meta)
        found = self._known[id(tensor)] = TracedTensor(node, meta, tensor, self.segment, path)
        self.changes.add(path, tensor)
        for dim, declared in unbacked:
            self._size_of(shape[dim], node, dim)
            self._expect_range(shape[dim], declared)
        if tracer.log is not None:
            tracer.log.append(Input(found, tensor))
        return found

    def _strides_with_gaps(self, tensor: torch.Tensor, path: Path, meta: Meta) -> tuple[Size, ...]:
        """The strides of a tensor that is a part of a larger one, `tokens[:, :-1]`: the larger one
        has other sizes where this one has. A stride that skips elements is a symbol of its own, as
        long as it does skip some; one that does not is what the sizes inside it make of it."""
        tracer, sizes, strides = self.tracer, tuple(tensor.shape), tuple(tensor.stride())
        by_stride = sorted(range(len(sizes)), key=strides.__getitem__)
        steps = [strides[dim] * sizes[dim] for dim in by_stride]
        is_part = min(sizes) > 1 and all(
            strides[inner] > 0 and step <= strides[outer]
            for inner, outer, step in zip(by_stride, by_stride[1:], steps, strict=False)
        )
        if tracer.chooser.exact_strides or not is_part or not any(map(_is_symbolic, meta.shape)):
            return strides
        tracer.cannot_replay("a tensor with gaps")
        reason = "a tensor with gaps between its elements"
        for size in filter(_is_symbolic, meta.shape):
            # One with a size of 1 may be dense, and then shares memory where this one is copied.
            tracer.decide(ge(size, 2), reason)
        found: list[Size] = list(strides)
        for inner, outer, step in zip(by_stride, by_stride[1:], steps, strict=False):
            inside = found[inner] * meta.shape[inner]
            if step == strides[outer] and not isinstance(inside, Expr):
                continue
            found[outer] = tracer.own_symbol(path.stride(outer), None, strides[outer], NATURAL)
            if step == strides[outer]:
                tracer.decide(eq(found[outer], inside), reason)
                found[outer] = inside
            else:
                tracer.decide(gt(found[outer], inside), reason)
        return tuple(found)

    def _expect_range(self, size: Size, declared: Range) -> None:
        with self.tracer.expecting():
            if declared.lower is not None:
                self.tracer.decide(ge(size, declared.lower), "the range of the mark")
            if declared.upper is not None:
                self.tracer.decide(le(size, declared.upper), "the range of the mark")

    def _opaque_input(self, tensor: torch.Tensor, path: Path) -> TracedTensor:
        """A sparse or jagged tensor: its form is guarded, its sizes are data."""
        self.tracer.cannot_replay("a tensor of another form")
        self.tracer.guard(Kind.PREDICATE, path, HasForm(Form.of(tensor)), "the form of a tensor")
        node = self.segment.placeholder(identifier(path.text), path, tensor)
        node.meta[RESULT] = None
        meta = meta_of(self, tensor)
        found = self._known[id(tensor)] = TracedTensor(node, meta, tensor, self.segment, path)
        found.opaque = True
        for dim, size in enumerate(meta.shape):
            self._size_of(size, node, dim)
        return found

    def _size_of(self, size: Size, node: torch.fx.Node, dim: int) -> None:
        if isinstance(size, Expr):
            self.is_number(as_symbol(size), self.graph.call_method("size", (node, dim)), dim)

    def node(self, tensor: torch.Tensor) -> torch.fx.Node:
        return self.node_of(self.known(tensor))

    def meta(self, tensor: torch.Tensor) -> Meta:
        return self.known(tensor).meta

    def exact_strides(self, tensor: torch.Tensor) -> tuple[Size, ...] | None:
        """The strides of a tensor as expressions that hold for all sizes of this entry: by the
        sizes inside each dimension where a guard, or how it was made, says that torch went by them;
        else for sizes of 2 and more, of which the shape rules know it. None where that cannot be
        said."""
        tracer, meta = self.tracer, self.meta(tensor)
        if tracer.chooser.exact_strides:
            return None
        tracer.cannot_replay("strides are read")
        if isinstance(meta.layout, Dense) and self._is_laid_out_by_sizes(self.known(tensor)):
            sizes = tuple(map(self._at_least_one, meta.shape))
            found = dense_strides(sizes, meta.layout.order)
        elif min(tensor.shape, default=2) >= 2 and self._is_laid_out_by_rules(self.known(tensor)):
            for size in filter(_is_symbolic, meta.shape):
                tracer.decide(ge(size, 2), "the program reads strides")
            found = meta.strides
        else:
            return None
        return found if tuple(map(tracer.value_of, found)) == tensor.stride() else None

    def _is_laid_out_by_rules(self, known: TracedTensor) -> bool:
        """Whether no kernel of torch chose how it lies, which it may do by sizes."""
        node = known.node
        while known.path is None:
            node = node[0] if type(node) is tuple else node  # one of several results
            call = node.meta.get(CALL) if isinstance(node, torch.fx.Node) else None
            match = None if call is None else lookup(call.function)
            if match is None or match.op.lowering not in _BY_RULES or match.op.layout_varies:
                return False
            if match.op.lowering not in _VIEWS:
                return True
            node = node.all_input_nodes[0]
            if any(each.node is node and each.path is not None for each in self._known.values()):
                return True
        return True

    def _at_least_one(self, size: Size) -> Size:
        return size if self.tracer.facts.prove(ge(size, 1)) is Answer.YES else maximum(size, 1)

    def _is_laid_out_by_sizes(self, known: TracedTensor) -> bool:
        """Whether its strides are those that torch gives to a fresh tensor, also of a dimension of
        the size 1; guards it for those from outside."""
        if known.path is None:
            node = known.node
            return known.segment is self.segment and self._is_made_by_sizes(node, known.meta)
        layout, tensor = known.meta.layout, known.alive
        if not isinstance(layout, Dense) or not isinstance(tensor, torch.Tensor):
            return False
        holds = LaidOutBySizes(layout.order)
        if not holds(tensor):
            return False
        self.tracer.guard(Kind.PREDICATE, known.path, holds, "the program reads strides")
        return True

    def _is_made_by_sizes(self, node: Any, meta: Meta) -> bool:
        call = node.meta.get(CALL) if isinstance(node, torch.fx.Node) else None
        match = None if call is None else lookup(call.function)
        if call is None or match is None or match.in_place or not meta.is_contiguous:
            return False
        if match.op.name in _FRESH:
            return call.kwargs.get("memory_format") is None
        is_alike = match.op.name.endswith("_like") or match.op.lowering is OpKind.POINTWISE
        given = [each for each in node.all_input_nodes if isinstance(each.meta.get(RESULT), Meta)]
        alike = (meta.shape, meta.layout)
        if any((each.meta[RESULT].shape, each.meta[RESULT].layout) != alike for each in given):
            return False
        if not is_alike or call.kwargs:
            return False
        inputs = {each.node: each for each in self._known.values() if each.path is not None}
        return all(
            self._is_laid_out_by_sizes(inputs[each])
            if each in inputs
            else self._is_made_by_sizes(each, each.meta[RESULT])
            for each in given
        )

    def pin_layouts(self) -> None:
        """Guard strides, offset and flags of every input exactly: what follows from sizes alone
        leaves them open at the sizes 0 and 1."""
        self.tracer.cannot_replay("all inputs are looked at")
        for path, tensor, _ in self.changes.externals:
            self.tracer.guard(Kind.PREDICATE, path, ExactLayout(tensor))


def _is_symbolic(size: Size) -> bool:
    return isinstance(size, Expr)


def _number(size: Size) -> int | None:
    return None if isinstance(size, Expr) else size


#: Whose results lie as the shape rules say, whatever kernel computes them; and which may be views.
_VIEWS: Final = frozenset({OpKind.VIEW, OpKind.INDEX_MAP, OpKind.NOTHING})
_BY_RULES: Final = _VIEWS | {OpKind.POINTWISE, OpKind.REDUCTION, OpKind.FACTORY, OpKind.MATMUL}

#: Operators that make tensors in the usual order.
_FRESH: Final = frozenset(
    {"empty", "zeros", "ones", "full", "new_empty", "new_zeros", "new_ones", "new_full"}
)


@dataclass(frozen=True, slots=True)
class LaidOutBySizes:
    """Whether the strides of a tensor are those of a fresh one of its sizes, in this order."""

    order: tuple[int, ...]

    def __call__(self, tensor: torch.Tensor) -> bool:
        sizes = tuple(max(size, 1) for size in tensor.shape)
        return len(sizes) == len(self.order) and tensor.stride() == dense_strides(sizes, self.order)


class ExactLayout:
    """Whether a tensor lies in its storage as another one does."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.layout = _layout_of(tensor)

    def __call__(self, tensor: torch.Tensor) -> bool:
        return _layout_of(tensor) == self.layout


def _layout_of(tensor: torch.Tensor) -> tuple[tuple[int, ...], int | torch.SymInt, bool, bool]:
    return tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()


_is_transformed: Any = getattr(torch._C, "_functorch").is_functorch_wrapped_tensor  # noqa: B009 no stub has it
