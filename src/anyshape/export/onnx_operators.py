"""Operators of torch as operators of ONNX: one row each.

A row gets the writer, the node and the arguments of the node; it adds nodes to the model and
returns the name of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx

W = Any
N = torch.fx.Node
Row = Callable[..., Any]


class NotMapped(Exception):
    """Something that ONNX has no operator for, or that has no row yet."""


# -- pointwise -------------------------------------------------------------------------------------


def _binary(kind: str) -> Row:
    def row(w: W, node: N, a: Any, b: Any, *, alpha: Any = 1) -> str:
        if alpha != 1:
            raise NotMapped(f"{node.target} with alpha")
        dtype = w.dtype(node)
        return w.add(kind, [w.name(a, dtype), w.name(b, dtype)])

    return row


def _compare(kind: str, negated: bool = False) -> Row:
    def row(w: W, node: N, a: Any, b: Any) -> str:
        dtype = torch.result_type(_as_operand(w.example(a)), _as_operand(w.example(b)))
        found = w.add(kind, [w.name(a, dtype), w.name(b, dtype)])
        return w.add("Not", [found]) if negated else found

    return row


def _as_operand(value: Any) -> Any:
    return value if isinstance(value, torch.Tensor | int | float | bool) else torch.tensor(value)


def _unary(kind: str) -> Row:
    def row(w: W, node: N, x: Any, inplace: bool = False) -> str:
        return w.add(kind, [w.name(x, w.dtype(node))])

    return row


def _logic(kind: str) -> Row:
    def row(w: W, node: N, a: Any, b: Any) -> str:
        if w.dtype(node) is not torch.bool:
            raise NotMapped(f"{node.target} of integers")
        return w.add(kind, [w.name(a), w.name(b)])

    return row


def _not(w: W, node: N, x: Any) -> str:
    if w.dtype(x) is not torch.bool:
        raise NotMapped("a bitwise not of integers")
    return w.add("Not", [w.name(x)])


def _reversed(row: Row) -> Row:
    return lambda w, node, a, b: row(w, node, b, a)


def _floordiv(w: W, node: N, a: Any, b: Any) -> str:
    dtype = w.dtype(node)
    if not dtype.is_floating_point:
        # Integers are divided towards zero there; sizes are not negative.
        if isinstance(w.example(a), torch.Tensor):
            raise NotMapped("a floor division of integer tensors")
        return w.add("Div", [w.name(a, dtype), w.name(b, dtype)])
    return w.add("Floor", [w.add("Div", [w.name(a, dtype), w.name(b, dtype)])])


def _mod(w: W, node: N, a: Any, b: Any) -> str:
    if w.dtype(node).is_floating_point:
        raise NotMapped("a remainder of floats")
    return _binary("Mod")(w, node, a, b)


def _gelu(w: W, node: N, x: Any, approximate: str = "none") -> str:
    dtype, name = w.dtype(node), w.name(x)

    def number(value: float) -> str:
        return w.name(value, dtype)

    if approximate == "none":
        inner = w.add("Erf", [w.add("Div", [name, number(math.sqrt(2.0))])])
    else:
        cube = w.add("Mul", [w.add("Mul", [name, name]), name])
        inner = w.add("Add", [name, w.add("Mul", [cube, number(0.044715)])])
        inner = w.add("Tanh", [w.add("Mul", [inner, number(math.sqrt(2.0 / math.pi))])])
    half = w.add("Mul", [name, number(0.5)])
    return w.add("Mul", [half, w.add("Add", [inner, number(1.0)])])


def _silu(w: W, node: N, x: Any, inplace: bool = False) -> str:
    return w.add("Mul", [w.name(x), w.add("Sigmoid", [w.name(x)])])


def _where(w: W, node: N, condition: Any, a: Any, b: Any) -> str:
    dtype = w.dtype(node)
    return w.add("Where", [w.name(condition), w.name(a, dtype), w.name(b, dtype)])


def _masked_fill(w: W, node: N, x: Any, mask: Any, value: Any) -> str:
    return w.add("Where", [w.name(mask), w.name(value, w.dtype(node)), w.name(x)])


def _clamp(w: W, node: N, x: Any, min: Any = None, max: Any = None) -> str:
    found, dtype = w.name(x), w.dtype(node)
    if min is not None:
        found = w.add("Max", [found, w.name(min, dtype)])
    return found if max is None else w.add("Min", [found, w.name(max, dtype)])


def _cast_to(w: W, node: N, x: Any, *args: Any, **kwargs: Any) -> str:
    return w.name(x, w.dtype(node))


def _same(w: W, node: N, x: Any, *args: Any, **kwargs: Any) -> str:
    return w.name(x)


def _dropout(w: W, node: N, x: Any, p: Any = 0.5, training: bool = True, *args: Any) -> str:
    if training and p:
        raise NotMapped("dropout in training")
    return w.name(x)


# -- products and layers ---------------------------------------------------------------------------


def _linear(w: W, node: N, x: Any, weight: Any, bias: Any = None) -> str:
    turned = w.add("Transpose", [w.name(weight)], perm=[1, 0])
    found = w.add("MatMul", [w.name(x), turned])
    return found if bias is None else w.add("Add", [found, w.name(bias)])


def _addmm(w: W, node: N, bias: Any, a: Any, b: Any, **kwargs: Any) -> str:
    if any(value != 1 for value in kwargs.values()):
        raise NotMapped("addmm with factors")
    return w.add("Add", [w.add("MatMul", [w.name(a), w.name(b)]), w.name(bias)])


def _layer_norm(
    w: W,
    node: N,
    x: Any,
    shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> str:
    scale = w.constant(torch.ones([1], dtype=w.dtype(node))) if weight is None else w.name(weight)
    inputs = [w.name(x), scale] + ([] if bias is None else [w.name(bias)])
    return w.add("LayerNormalization", inputs, axis=-len(shape), epsilon=eps)


def _softmax(w: W, node: N, x: Any, dim: Any = -1, *args: Any, **kwargs: Any) -> str:
    return w.add("Softmax", [w.name(x, w.dtype(node))], axis=dim)


def _log_softmax(w: W, node: N, x: Any, dim: Any = -1, *args: Any, **kwargs: Any) -> str:
    return w.add("LogSoftmax", [w.name(x, w.dtype(node))], axis=dim)


def _embedding(w: W, node: N, ids: Any, weight: Any, *args: Any, **kwargs: Any) -> str:
    return w.add("Gather", [w.name(weight), w.name(ids)], axis=0)


def _conv(dims: int) -> Row:
    def row(
        w: W,
        node: N,
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> str:
        if isinstance(padding, str) or w.rank(x) != dims + 2:
            raise NotMapped("a convolution with padding by name, or without a batch")
        inputs = [w.name(x), w.name(weight)] + ([] if bias is None else [w.name(bias)])
        pads = _several(padding, dims)
        return w.add(
            "Conv",
            inputs,
            strides=_several(stride, dims),
            pads=[*pads, *pads],
            dilations=_several(dilation, dims),
            group=groups,
        )

    return row


def _several(value: Any, count: int) -> list[int]:
    found = [value] * count if isinstance(value, int) else list(value)
    if any(isinstance(each, torch.fx.Node) for each in found):
        raise NotMapped("a window whose size is computed")
    return found * count if len(found) == 1 else found


def _pool(kind: str) -> Row:
    def row(
        w: W,
        node: N,
        x: Any,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        *more: Any,
        **named: Any,
    ) -> str:
        if any(more) or any(named.values()):
            raise NotMapped("pooling with more than a window")
        dims = w.rank(x) - 2
        pads = _several(padding, dims)
        window = _several(kernel, dims)
        steps = _several(stride, dims) if stride else window
        extra = {"count_include_pad": 1} if kind == "AveragePool" else {}
        return w.add(
            kind, [w.name(x)], kernel_shape=window, strides=steps, pads=[*pads, *pads], **extra
        )

    return row


def _adaptive_average(w: W, node: N, x: Any, size: Any) -> str:
    if any(each != 1 for each in ([size] if isinstance(size, int) else size)):
        raise NotMapped("adaptive pooling to more than one element")
    return w.add("GlobalAveragePool", [w.name(x)])


def _batch_norm(
    w: W,
    node: N,
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> str:
    if training or mean is None or weight is None or bias is None:
        raise NotMapped("a batch normalisation in training")
    inputs = [w.name(each) for each in (x, weight, bias, mean, variance)]
    return w.add("BatchNormalization", inputs, epsilon=eps)


def _group_norm(
    w: W,
    node: N,
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> str:
    dtype, shape = w.dtype(node), w.add("Shape", [w.name(x)])
    grouped = w.add("Reshape", [w.name(x), w.constant([0, groups, -1])])
    one = w.constant(torch.ones([1], dtype=dtype))
    normal = w.add("LayerNormalization", [grouped, one], axis=2, epsilon=eps)
    found = w.add("Reshape", [normal, shape])
    channels = w.constant([-1, *[1] * (w.rank(x) - 2)])
    for kind, each in (("Mul", weight), ("Add", bias)):
        if each is not None:
            found = w.add(kind, [found, w.add("Reshape", [w.name(each), channels])])
    return found


#: Results that are memory of their own: to change one is to make another.
_FRESH: Final = ("linear", "conv", "norm", "add", "mul", "sub", "matmul", "truediv", "relu")


def _in_place(row: Row) -> Row:
    def checked(w: W, node: N, x: Any, *args: Any) -> str:
        own = isinstance(x, torch.fx.Node) and any(word in x.name for word in _FRESH)
        if not own or len(x.users) > 1:
            raise NotMapped(f"{node.target}, which changes a value that is used elsewhere")
        return row(w, node, x, *args)

    return checked


def _attention(
    w: W,
    node: N,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> str:
    if dropout_p or enable_gqa:
        raise NotMapped("attention that is grouped or in training")
    rank, dtype = w.rank(key), w.dtype(node)
    if scale is None:
        width = w.add("Gather", [w.add("Shape", [w.name(query)]), w.constant(-1)], axis=0)
        factor = w.add("Reciprocal", [w.add("Sqrt", [w.cast(width, dtype)])])
    else:
        factor = w.name(scale, dtype)
    turned = w.add("Transpose", [w.name(key)], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.add("MatMul", [w.add("Mul", [w.name(query), factor]), turned])
    low = w.name(float("-inf"), dtype)
    if is_causal:
        last = w.add("Slice", [w.add("Shape", [scores]), w.constant([-2]), w.constant([2**62])])
        square = w.add("Expand", [w.constant(torch.ones(1)), last])
        below = w.cast(w.add("Trilu", [square], upper=0), torch.bool)
        scores = w.add("Where", [below, scores, low])
    if attn_mask is not None and w.dtype(attn_mask) is torch.bool:
        scores = w.add("Where", [w.name(attn_mask), scores, low])
    elif attn_mask is not None:
        scores = w.add("Add", [scores, w.name(attn_mask)])
    return w.add("MatMul", [w.add("Softmax", [scores], axis=-1), w.name(value)])


# -- reductions ------------------------------------------------------------------------------------


def _reduce(kind: str) -> Row:
    def row(
        w: W, node: N, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> str:
        if not isinstance(w.example(node), torch.Tensor):
            raise NotMapped(f"{node.target} with two results")
        inputs = [w.name(x, w.dtype(node))]
        dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
        if dims:
            inputs.append(w.constant(dims))
        return w.add(kind, inputs, keepdims=int(bool(keepdim)))

    # From version 18 all of them take the dimensions as an input, as ReduceSum always did.
    return row


def _argmax(w: W, node: N, x: Any, dim: Any = None, keepdim: bool = False) -> str:
    if dim is None:
        raise NotMapped("argmax over all dimensions")
    return w.add("ArgMax", [w.name(x)], axis=dim, keepdims=int(keepdim))


def _cumsum(w: W, node: N, x: Any, dim: Any, *args: Any) -> str:
    return w.add("CumSum", [w.name(x, w.dtype(node)), w.constant(dim)])


# -- shapes ----------------------------------------------------------------------------------------


def _size(w: W, node: N, x: Any, dim: Any = None) -> Any:
    if dim is None:
        raise NotMapped("all sizes at once")
    shape = w.add("Shape", [w.name(x)])
    return w.add("Gather", [shape, w.constant(dim % w.rank(x))], axis=0)


def _sizes(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args


def _reshape(w: W, node: N, x: Any, *sizes: Any, shape: Any = None) -> str:
    wanted = _sizes(sizes) if shape is None else shape
    if not wanted:
        return w.add("Reshape", [w.name(x), w.constant(torch.empty(0, dtype=torch.int64))])
    # A size of 0 would otherwise mean "as it was".
    return w.add("Reshape", [w.name(x), w.shape(wanted)], allowzero=int(-1 not in list(wanted)))


def _flatten(w: W, node: N, x: Any, start_dim: int = 0, end_dim: int = -1) -> str:
    rank = w.rank(x)
    first, last = start_dim % max(rank, 1), end_dim % max(rank, 1)
    shape = w.add("Shape", [w.name(x)])
    head = [w.add("Slice", [shape, w.constant([0]), w.constant([first])])] if first else []
    tail = (
        [w.add("Slice", [shape, w.constant([last + 1]), w.constant([rank])])]
        if last + 1 < rank
        else []
    )
    wanted = w.add("Concat", [*head, w.constant([-1]), *tail], axis=0)
    return w.add("Reshape", [w.name(x), wanted])


def _permute(w: W, node: N, x: Any, *dims: Any) -> str:
    rank = w.rank(x)
    return w.add("Transpose", [w.name(x)], perm=[dim % rank for dim in _sizes(dims)])


def _transpose(w: W, node: N, x: Any, first: int, second: int) -> str:
    order = list(range(w.rank(x)))
    order[first], order[second] = order[second], order[first]
    return w.add("Transpose", [w.name(x)], perm=order)


def _t(w: W, node: N, x: Any) -> str:
    return w.name(x) if w.rank(x) < 2 else w.add("Transpose", [w.name(x)], perm=[1, 0])


def _unsqueeze(w: W, node: N, x: Any, dim: int) -> str:
    return w.add("Unsqueeze", [w.name(x), w.constant([dim])])


def _squeeze(w: W, node: N, x: Any, dim: Any = None) -> str:
    if not isinstance(dim, int) or w.example(node).dim() == w.rank(x):
        raise NotMapped("a squeeze that may do nothing")
    return w.add("Squeeze", [w.name(x), w.constant([dim])])


def _expand(w: W, node: N, x: Any, *sizes: Any) -> str:
    # 1 broadcasts to whatever is there, which is what -1 means.
    wanted = [1 if isinstance(size, int) and size == -1 else size for size in _sizes(sizes)]
    return w.add("Expand", [w.name(x), w.shape(wanted)])


def _cat(w: W, node: N, tensors: Any, dim: int = 0) -> str:
    dtype = w.dtype(node)
    return w.add("Concat", [w.name(each, dtype) for each in tensors], axis=dim)


def _stack(w: W, node: N, tensors: Any, dim: int = 0) -> str:
    at = dim % w.rank(node)
    parts = [w.add("Unsqueeze", [w.name(each), w.constant([at])]) for each in tensors]
    return w.add("Concat", parts, axis=at)


def _getitem(w: W, node: N, x: Any, index: Any) -> Any:
    if isinstance(w.example(x), tuple | list):
        return w.values[x][index]
    found, dim = w.name(x), 0
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(w.example(item), torch.Tensor) for item in items):
        return _indexed(w, x, items)
    for item in items:
        if item is ...:
            dim = w.rank(x) - (len(items) - 1 - sum(each is None for each in items))
            dim += sum(each is None for each in items[: items.index(...)])
            continue
        found, dim = _item(w, found, dim, item)
    return found


def _item(w: W, found: str, dim: int, item: Any) -> tuple[str, int]:
    if item is None:
        return w.add("Unsqueeze", [found, w.constant([dim])]), dim + 1
    if isinstance(item, int):
        return w.add("Gather", [found, w.constant(item)], axis=dim), dim
    if not isinstance(item, slice):
        raise NotMapped(f"an index of type {type(item).__name__}")
    if item == slice(None):
        return found, dim + 1
    ends = (item.start or 0, item.stop if item.stop is not None else 2**62, item.step or 1)
    parts = [w.shape([each]) for each in ends]
    inputs = [found, parts[0], parts[1], w.constant([dim]), parts[2]]
    return w.add("Slice", inputs), dim + 1


def _indexed(w: W, x: Any, items: tuple[Any, ...]) -> str:
    (item,) = items if len(items) == 1 else (None,)
    if item is None or w.dtype(item) is torch.bool:
        raise NotMapped("indexing by masks, or by several tensors")
    return w.add("Gather", [w.name(x), w.name(item)], axis=0)


def _split_sizes(w: W, node: N, x: Any, size: Any, dim: int = 0) -> list[str]:
    if isinstance(size, int):
        # As many parts as a guard of the program fixed; the last one is what is left.
        size = [*[size] * (len(w.example(node)) - 1), 2**62]
    if isinstance(size, torch.fx.Node) or any(isinstance(each, torch.fx.Node) for each in size):
        raise NotMapped("a split into parts whose size is computed")
    starts = [sum(size[:at]) for at in range(len(size))]
    return [
        w.add(
            "Slice", [w.name(x), w.constant([start]), w.constant([start + each]), w.constant([dim])]
        )
        for start, each in zip(starts, size, strict=True)
    ]


def _chunk(w: W, node: N, x: Any, chunks: int, dim: int = 0) -> list[str]:
    size = w.example(x).shape[dim]
    if size % chunks:
        raise NotMapped("chunks of different sizes")
    names = [w.fresh("chunk") for _ in range(chunks)]
    w._nodes.append(
        w.onnx.helper.make_node("Split", [w.name(x)], names, axis=dim, num_outputs=chunks)
    )
    return names


def _unbind(w: W, node: N, x: Any, dim: int = 0) -> list[str]:
    count = len(w.example(node))
    return [w.add("Gather", [w.name(x), w.constant(at)], axis=dim) for at in range(count)]


def _property(w: W, node: N, x: Any, name: str) -> str:
    row = {"T": _t, "mT": lambda w, node, x: _transpose(w, node, x, -1, -2)}.get(name)
    if row is None:
        raise NotMapped(f"the property `{name}`")
    return row(w, node, x)


# -- making ----------------------------------------------------------------------------------------


def _filled(value: Any) -> Row:
    def row(w: W, node: N, *sizes: Any, **kwargs: Any) -> str:
        number, wanted = value, _sizes(sizes)
        if value is None:
            wanted, number = sizes
        made = torch.tensor([number], dtype=w.dtype(node))
        if not len(wanted):
            return w.constant(made.reshape(()))
        return w.add("Expand", [w.constant(made), w.shape(wanted)])

    return row


def _filled_like(value: Any) -> Row:
    def row(w: W, node: N, x: Any, *args: Any, **kwargs: Any) -> str:
        made = torch.tensor([args[0] if value is None else value], dtype=w.dtype(node))
        return w.add("Expand", [w.constant(made), w.add("Shape", [w.name(x)])])

    return row


def _arange(w: W, node: N, *ends: Any, **kwargs: Any) -> str:
    start, stop, step = {1: (0, *ends, 1), 2: (*ends, 1)}.get(len(ends), ends)
    dtype = w.dtype(node)
    return w.add("Range", [w.name(each, dtype) for each in (start, stop, step)])


def _min_max(kind: str) -> Row:
    return lambda w, node, *values: w.add(kind, [w.name(each, w.dtype(node)) for each in values])


FUNCTIONS: Final[dict[str, Row]] = {
    "operator.add": _binary("Add"),
    "operator.sub": _binary("Sub"),
    "operator.mul": _binary("Mul"),
    "operator.truediv": _binary("Div"),
    "operator.floordiv": _floordiv,
    "operator.mod": _mod,
    "operator.pow": _binary("Pow"),
    "operator.matmul": _binary("MatMul"),
    "operator.iadd": _in_place(_binary("Add")),
    "operator.imul": _in_place(_binary("Mul")),
    "operator.neg": _unary("Neg"),
    "operator.and_": _logic("And"),
    "operator.or_": _logic("Or"),
    "operator.invert": _not,
    "operator.lt": _compare("Less"),
    "operator.le": _compare("LessOrEqual"),
    "operator.gt": _compare("Greater"),
    "operator.ge": _compare("GreaterOrEqual"),
    "operator.eq": _compare("Equal"),
    "operator.ne": _compare("Equal", negated=True),
    "operator.getitem": _getitem,
    "builtins.getattr": _property,
    "builtins.min": _min_max("Min"),
    "builtins.max": _min_max("Max"),
    "torch.nn.functional.linear": _linear,
    "torch.nn.functional.gelu": _gelu,
    "torch.nn.functional.relu": _unary("Relu"),
    "torch.nn.functional.silu": _silu,
    "torch.nn.functional.dropout": _dropout,
    "torch.nn.functional.layer_norm": _layer_norm,
    "torch.nn.functional.embedding": lambda w, node, ids, weight, *a, **k: _embedding(
        w, node, ids, weight
    ),
    # The function of the library takes the weight first.
    "torch.embedding": lambda w, node, weight, ids, *a, **k: _embedding(w, node, ids, weight),
    "torch.layer_norm": _layer_norm,
    "torch.nn.functional.batch_norm": _batch_norm,
    "torch.batch_norm": lambda w, node, x, weight, bias, mean, variance, *more: _batch_norm(
        w, node, x, mean, variance, weight, bias, *more[:3]
    ),
    "torch.nn.functional.scaled_dot_product_attention": _attention,
    "torch.nn.functional.max_pool2d": _pool("MaxPool"),
    "torch.max_pool2d": _pool("MaxPool"),
    "torch.nn.functional.avg_pool2d": _pool("AveragePool"),
    "torch.nn.functional.adaptive_avg_pool2d": _adaptive_average,
    "torch.conv1d": _conv(1),
    "torch.conv2d": _conv(2),
    "torch.conv3d": _conv(3),
    "torch.nn.functional.group_norm": _group_norm,
    "torch.group_norm": _group_norm,
    "torch.addmm": _addmm,
    "torch.where": _where,
    "torch.cat": _cat,
    "torch.stack": _stack,
    "torch.zeros": _filled(0),
    "torch.ones": _filled(1),
    "torch.full": _filled(None),
    "torch.zeros_like": _filled_like(0),
    "torch.ones_like": _filled_like(1),
    "torch.full_like": _filled_like(None),
    "torch.arange": _arange,
    "torch._C._set_grad_enabled": lambda w, node, *args: None,
}

#: Methods, and functions of torch of the same name.
METHODS: Final[dict[str, Row]] = {
    "add": _binary("Add"),
    "sub": _binary("Sub"),
    "mul": _binary("Mul"),
    "div": _binary("Div"),
    "pow": _binary("Pow"),
    "matmul": _binary("MatMul"),
    "mm": _binary("MatMul"),
    "bmm": _binary("MatMul"),
    "maximum": _binary("Max"),
    "minimum": _binary("Min"),
    "__radd__": _reversed(_binary("Add")),
    "__rsub__": _reversed(_binary("Sub")),
    "__rmul__": _reversed(_binary("Mul")),
    "__rtruediv__": _reversed(_binary("Div")),
    "__rpow__": _reversed(_binary("Pow")),
    "lt": _compare("Less"),
    "le": _compare("LessOrEqual"),
    "gt": _compare("Greater"),
    "ge": _compare("GreaterOrEqual"),
    "eq": _compare("Equal"),
    "ne": _compare("Equal", negated=True),
    "logical_and": _logic("And"),
    "logical_or": _logic("Or"),
    "logical_not": _not,
    **{
        name: _unary(kind)
        for name, kind in {
            "relu": "Relu",
            "sigmoid": "Sigmoid",
            "tanh": "Tanh",
            "exp": "Exp",
            "log": "Log",
            "sqrt": "Sqrt",
            "abs": "Abs",
            "neg": "Neg",
            "erf": "Erf",
            "sin": "Sin",
            "cos": "Cos",
            "floor": "Floor",
            "ceil": "Ceil",
            "reciprocal": "Reciprocal",
        }.items()
    },
    "rsqrt": lambda w, node, x: w.add("Reciprocal", [w.add("Sqrt", [w.name(x)])]),
    "masked_fill": _masked_fill,
    "where": lambda w, node, a, condition, b: _where(w, node, condition, a, b),
    "clamp": _clamp,
    "to": _cast_to,
    "float": _cast_to,
    "long": _cast_to,
    "bool": _cast_to,
    "type_as": _cast_to,
    "contiguous": _same,
    "clone": _same,
    "detach": _same,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "sum": _reduce("ReduceSum"),
    "mean": _reduce("ReduceMean"),
    "amax": _reduce("ReduceMax"),
    "amin": _reduce("ReduceMin"),
    "prod": _reduce("ReduceProd"),
    "argmax": _argmax,
    "cumsum": _cumsum,
    "size": _size,
    "view": _reshape,
    "reshape": _reshape,
    "flatten": _flatten,
    "permute": _permute,
    "transpose": _transpose,
    "t": _t,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "split": _split_sizes,
    "new_ones": lambda w, node, x, *sizes, **k: _filled(1)(w, node, *sizes),
    "new_zeros": lambda w, node, x, *sizes, **k: _filled(0)(w, node, *sizes),
    "chunk": _chunk,
    "unbind": _unbind,
}
