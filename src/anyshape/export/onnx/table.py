"""Which operator is written by which row."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch.fx
from torch._ops import OpOverloadPacket

from anyshape.export.onnx import (
    attention,
    factories,
    indexing,
    layers,
    pointwise,
    recurrent,
    shapes,
)
from anyshape.export.onnx import reductions as along
from anyshape.export.onnx.rows import NotMapped, Row, W
from anyshape.export.operators import UnknownName, name_of
from anyshape.ops.bind import OpCall, Unbound, bind_match, not_taken, taken_by
from anyshape.ops.table import lookup, resolve

#: By the name of the operator in `ops/`.
ROWS: Final[dict[str, Row]] = {
    **pointwise.UNARY,
    "add": pointwise.with_factor("Add"),
    "sub": pointwise.with_factor("Sub"),
    "rsub": pointwise.subtracted_from,
    "mul": pointwise.binary("Mul"),
    "div": pointwise.divide,
    "true_divide": pointwise.true_divide,
    "floor_divide": pointwise.floor_divide,
    "remainder": pointwise.remainder,
    "pow": pointwise.power,
    "matmul": pointwise.binary("MatMul"),
    "mm": pointwise.product,
    "bmm": pointwise.product,
    "maximum": pointwise.binary("Max"),
    "minimum": pointwise.binary("Min"),
    "__rsub__": pointwise.swap_operands(pointwise.binary("Sub")),
    "__rtruediv__": pointwise.swap_operands(pointwise.true_divide),
    "__rpow__": pointwise.swap_operands(pointwise.power),
    "__rfloordiv__": pointwise.swap_operands(pointwise.floor_divide),
    "lt": pointwise.compare("Less"),
    "le": pointwise.compare("LessOrEqual"),
    "gt": pointwise.compare("Greater"),
    "ge": pointwise.compare("GreaterOrEqual"),
    "eq": pointwise.compare("Equal"),
    "ne": pointwise.compare("Equal", negated=True),
    "logical_and": pointwise.logical("And"),
    "logical_or": pointwise.logical("Or"),
    "logical_xor": pointwise.logical("Xor"),
    "logical_not": pointwise.logical_not,
    "bitwise_and": pointwise.logic("And"),
    "bitwise_or": pointwise.logic("Or"),
    "bitwise_xor": pointwise.logic("Xor"),
    "bitwise_not": pointwise.invert,
    "gelu": pointwise.gelu,
    "silu": pointwise.silu,
    "softplus": pointwise.softplus,
    "elu": pointwise.exponential("Elu"),
    "celu": pointwise.exponential("Celu"),
    "leaky_relu": pointwise.leaky_relu,
    "relu6": pointwise.relu6,
    "hardtanh": pointwise.hardtanh,
    "masked_fill": pointwise.masked_fill,
    "where": pointwise.where,
    "clamp": pointwise.clamp,
    "clamp_min": pointwise.clamp_min,
    "clamp_max": pointwise.clamp_max,
    "dropout": pointwise.dropout,
    **dict.fromkeys(
        ("to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool"),
        pointwise.cast,
    ),
    **dict.fromkeys(("contiguous", "clone", "detach", "cpu", "positive"), pointwise.same),
    "scaled_dot_product_attention": attention.attention,
    "transformer_encoder_layer": attention.encoder_layer,
    "multi_head_attention": attention.multi_head,
    "linear": layers.linear,
    "addmm": layers.addmm,
    "baddbmm": layers.baddbmm,
    "einsum": layers.einsum,
    "outer": layers.outer,
    "embedding": layers.embedding,
    "torch.embedding": layers.embedding_of_weight,
    "layer_norm": layers.layer_norm,
    "rms_norm": layers.rms_norm,
    **dict.fromkeys(("batch_norm", "functional_batch_norm"), layers.batch_norm),
    **dict.fromkeys(("group_norm", "functional_group_norm"), layers.group_norm),
    **dict.fromkeys(("softmax", "functional_softmax"), layers.along("Softmax")),
    **dict.fromkeys(("log_softmax", "functional_log_softmax"), layers.along("LogSoftmax")),
    "cross_entropy": layers.cross_entropy,
    "conv1d": layers.convolution(1),
    "conv2d": layers.convolution(2),
    "conv3d": layers.convolution(3),
    "conv_transpose1d": layers.transposed_convolution(1),
    "conv_transpose2d": layers.transposed_convolution(2),
    "conv_transpose3d": layers.transposed_convolution(3),
    "max_pool1d": layers.max_pool(1),
    "max_pool2d": layers.max_pool(2),
    "max_pool3d": layers.max_pool(3),
    "avg_pool1d": layers.average_pool(1),
    "avg_pool2d": layers.average_pool(2),
    "avg_pool3d": layers.average_pool(3),
    "adaptive_avg_pool1d": layers.adaptive("GlobalAveragePool", 1),
    "adaptive_avg_pool2d": layers.adaptive("GlobalAveragePool", 2),
    "adaptive_avg_pool3d": layers.adaptive("GlobalAveragePool", 3),
    "interpolate": layers.interpolate,
    "lstm": recurrent.stack("LSTM"),
    "gru": recurrent.stack("GRU"),
    "sum": along.reduce("ReduceSum"),
    "mean": along.reduce("ReduceMean"),
    "amax": along.reduce("ReduceMax"),
    "amin": along.reduce("ReduceMin"),
    "prod": along.reduce("ReduceProd"),
    "logsumexp": along.reduce("ReduceLogSumExp"),
    # Of truth values: as numbers.
    "all": along.truth("ReduceMin"),
    "any": along.truth("ReduceMax"),
    "max": along.extreme("Max"),
    "min": along.extreme("Min"),
    "argmax": along.place_of_extreme("ArgMax"),
    "argmin": along.place_of_extreme("ArgMin"),
    "var": along.variance(root=False),
    "std": along.variance(root=True),
    "norm": along.norm,
    "linalg_norm": along.linalg_norm,
    "cumsum": along.cumulated,
    "diff": along.differences,
    "topk": along.top,
    "sort": along.sort,
    "argsort": along.argsort,
    "tril": along.triangle(upper=False),
    "triu": along.triangle(upper=True),
    "view": shapes.view,
    "reshape": shapes.reshape,
    "view_as": shapes.like("Reshape"),
    "reshape_as": shapes.like("Reshape"),
    "expand_as": shapes.like("Expand"),
    "flatten": shapes.flatten,
    "unflatten": shapes.unflatten,
    "permute": shapes.permute,
    "transpose": shapes.transpose,
    "swapaxes": shapes.swapaxes,
    "movedim": shapes.movedim,
    "t": shapes.turned,
    "numpy_T": shapes.turned,
    "mT": shapes.transposed_matrices,
    "unsqueeze": shapes.unsqueeze,
    "squeeze": shapes.squeeze,
    "expand": shapes.expand,
    "broadcast_to": shapes.expand,
    "repeat": shapes.repeat,
    "repeat_interleave": shapes.repeat_interleave,
    "cat": shapes.cat,
    "stack": shapes.stack,
    "split": shapes.split,
    "chunk": shapes.chunk,
    "unbind": shapes.unbind,
    "flip": shapes.flip,
    "pad": shapes.pad,
    "select": indexing.select,
    "index_select": indexing.index_select,
    "gather": indexing.gather,
    "narrow": indexing.narrow,
    "nonzero": indexing.nonzero,
    "zeros": factories.filled(0),
    "ones": factories.filled(1),
    "full": factories.full,
    "zeros_like": factories.filled_like(0),
    "ones_like": factories.filled_like(1),
    "full_like": factories.full_like,
    "new_zeros": factories.filled(0),
    "new_ones": factories.filled(1),
    "new_full": factories.full,
    "tensor": factories.tensor,
    "arange": factories.arange,
    "eye": factories.eye,
    "one_hot": factories.one_hot,
}


#: What a result is by them is told by the example; or they say how torch is to compute it, or its
#: gradient.
_SAID: Final = frozenset(
    {
        *("dtype", "_stacklevel", "cudnn_enable", "cudnn_enabled", "momentum", "output_size"),
        *("padding_idx", "norm_type", "scale_grad_by_freq", "sparse", "sparse_grad"),
    }
)

#: Python's operators, which are those of tensors also where they are of sizes.
_OPERATORS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.truediv: torch.true_divide,
    operator.floordiv: torch.floor_divide,
    operator.mod: torch.remainder,
    operator.pow: torch.pow,
    operator.matmul: torch.matmul,
    operator.neg: torch.neg,
    operator.abs: torch.abs,
    abs: torch.abs,
    operator.and_: torch.bitwise_and,
    operator.or_: torch.bitwise_or,
    operator.xor: torch.bitwise_xor,
    operator.invert: torch.bitwise_not,
    operator.lt: torch.lt,
    operator.le: torch.le,
    operator.gt: torch.gt,
    operator.ge: torch.ge,
    operator.eq: torch.eq,
    operator.ne: torch.ne,
    operator.iadd: torch.Tensor.add_,
    operator.isub: torch.Tensor.sub_,
    operator.imul: torch.Tensor.mul_,
    operator.itruediv: torch.Tensor.div_,
}

#: What is no operator: it reads parts, gives numbers, or nothing. Arguments are as they are given.
_OTHERS: Final[dict[Callable[..., Any], Row]] = {
    operator.getitem: indexing.getitem,
    min: pointwise.extremes("Min"),
    max: pointwise.extremes("Max"),
    torch.numel: shapes.count,
    torch.Tensor.numel: shapes.count,
    torch.Tensor.size: shapes.size,
    torch.Tensor.item: indexing.item,
    torch._C._set_grad_enabled: lambda w, node, *args: None,
}


def has_row(node: torch.fx.Node) -> bool:
    function = _function_of(node)
    if function is getattr or function in _OTHERS:
        return True
    match = lookup(function)
    if match is None or (match.in_place and match.op.restrides):
        return False
    return match.op.name in ROWS


def written(w: W, node: torch.fx.Node) -> Any:
    """What a node gives in the model."""
    function, args = _function_of(node), node.args
    if function is getattr:
        x, name = args
        found = shapes.field(w, x, str(name))
        if found is not None:
            return found
        function, args = _PROPERTIES.get(str(name)), (x,)
        if function is None:
            raise NotMapped(f"the attribute `{name}`")
    own = _OTHERS.get(function)
    if own is not None:
        return own(w, node, *args, **node.kwargs)
    match = lookup(function)
    assert match is not None, "asked before"
    try:
        call = bind_match(match, args, node.kwargs)
    except Unbound as error:
        raise NotMapped(f"`{text_of_target(node)}` with its arguments ({error})") from None
    _refuse_writes(w, node, call)
    row = ROWS[call.op.name]
    for name in not_taken(row, call.op, call.arguments):
        if name not in _SAID:
            raise NotMapped(f"`{text_of_target(node)}` with `{name}`")
    return row(w, node, **taken_by(row, call.arguments))


def _refuse_writes(w: W, node: torch.fx.Node, call: OpCall) -> None:
    """Exporting a program makes writes to tensors into new values: what is left of them is what it
    knows no other form of."""
    if call.out is not None:
        raise NotMapped(f"`{text_of_target(node)}` with `out`")
    if call.in_place and isinstance(w.example(call.first), torch.Tensor):
        raise NotMapped(f"{text_of_target(node)}, which changes a value that is used elsewhere")


#: Properties of tensors that are operators.
_PROPERTIES: Final[dict[str, Any]] = {
    name: vars(torch._C.TensorBase)[name].__get__ for name in ("T", "mT")
}


def _function_of(node: torch.fx.Node) -> Any:
    """The function of torch that a node calls."""
    if node.op == "call_method":
        return getattr(torch.Tensor, str(node.target), None)
    target: Any = node.target
    if isinstance(target, OpOverloadPacket):
        space, _, name = str(target).partition(".")
        places = ("torch", "torch._C._nn", "torch.Tensor") if space == "aten" else ()
        target = next(filter(None, (resolve(f"{place}.{name}") for place in places)), target)
    return _OPERATORS.get(target, target)


def text_of_target(node: torch.fx.Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    try:
        return name_of(node.target)
    except UnknownName as error:
        return str(error)
