"""Norms of layers, groups, batches and instances.

Statistics are in f32 for 16-bit floats, and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.loops.reshape_indexing import split
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.families.casts import returns_itself
from anyshape.ops.families.reductions import (
    count,
    deviations,
    divided_by,
    from_zero,
    require_elements,
    require_float,
)
from anyshape.ops.gradient import Gradients, NoGradient, Term, whole
from anyshape.ops.lowering.pointwise_builder import as_dtype, elementwise
from anyshape.ops.lowering.scalars import TORCH_DTYPES, constant_like, op, short, wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, must_be_known
from anyshape.ops.memory_format import is_dense_in, kept_format
from anyshape.ops.meta import Layout, Meta, channels_last
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import FUNCTIONAL, PURE, Effects, Op, OpKind, Rule, gradient, lower, onnx
from anyshape.ops.promotion import category, floating
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.versions import GROUP_NORM_NEEDS_VALUES
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, eq, gt, ne, or_, product

Scale = Meta | None


def _require_normalized(
    q: ShapeQuery, input: Meta, normalized_shape: Sequence[Size], *scales: Scale
) -> int:
    """Check the trailing sizes and the scales; the number of dimensions that are left alone."""
    left = input.rank - len(normalized_shape)
    if not normalized_shape or left < 0:
        raise q.fail(f"the last dimensions of {input.shape} cannot be {normalized_shape}")
    wanted = tuple(normalized_shape)
    for shape in (input.shape[left:], *(scale.shape for scale in scales if scale is not None)):
        if len(shape) != len(wanted):
            raise q.fail(f"weight and bias must have the shape {wanted}")
        for size, normal in zip(shape, wanted, strict=True):
            if size is not normal:
                q.require(eq(size, normal), f"the normalized shape is {wanted}")
    return left


def layer_norm(
    q: ShapeQuery,
    input: Meta,
    normalized_shape: Sequence[Size],
    weight: Scale = None,
    bias: Scale = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Meta:
    require_float(q, input.dtype)
    _require_normalized(q, input, normalized_shape, weight, bias)
    return input.like()


def native_layer_norm(
    q: ShapeQuery,
    input: Meta,
    normalized_shape: Sequence[Size],
    weight: Scale,
    bias: Scale,
    eps: float,
) -> tuple[Meta, Meta, Meta]:
    left = _require_normalized(q, input, normalized_shape, weight, bias)
    shape = (*input.shape[:left], *(1,) * len(normalized_shape))
    stats = input.like(shape, _dtype_of_statistics(input, weight, bias))
    return _tracked(input.like(), input, weight, bias), stats, stats


def rms_norm(
    q: ShapeQuery,
    input: Meta,
    normalized_shape: Sequence[Size],
    weight: Scale = None,
    eps: float | None = None,
) -> Meta:
    require_float(q, input.dtype)
    _require_normalized(q, input, normalized_shape, weight)
    return input.like(layout=kept_format(q, input))


def _dtype_of_statistics(input: Meta, *scales: Scale) -> torch.dtype:
    """Parameters may be wider than a reduced-precision input; then statistics are as wide."""
    return next((scale.dtype for scale in scales if scale is not None), input.dtype)


def _tracked(result: Meta, *operands: Scale) -> Meta:
    """The only result of several that takes part in autograd."""
    tracked = torch.is_grad_enabled() and any(o is not None and o.requires_grad for o in operands)
    return replace(result, requires_grad=True) if tracked else result


def require_nothing(q: ShapeQuery, input: Meta) -> None:
    q.require(
        or_(*(eq(size, 0) for size in input.shape)),
        f"a batch and channels are needed, not {input.rank} dimensions",
    )


def _require_channels(q: ShapeQuery, channels: Size, *scales: Scale) -> None:
    for scale in scales:
        if scale is not None and scale.shape != (channels,):
            q.require(eq(scale.numel, channels), "there must be one value for each channel")


def group_norm(
    q: ShapeQuery,
    input: Meta,
    num_groups: Size,
    weight: Scale = None,
    bias: Scale = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Meta:
    if input.rank < 2:
        raise q.fail(f"a batch and channels are needed, not {input.rank} dimensions")
    _require_groups(q, input.shape[1], product(input.shape[2:]), num_groups, weight, bias)
    return input.like(layout=kept_format(q, input))


def _require_groups(
    q: ShapeQuery, channels: Size, values: Size, groups: Size, *scales: Scale
) -> None:
    """What `group_norm` checks; `values` are those of one channel of one element of the batch."""
    if GROUP_NORM_NEEDS_VALUES:
        q.require(gt(channels, 0), "there must be at least one channel")
        q.require(gt(values, 0), "a channel must have at least one value")
    q.require(gt(groups, 0), "there must be at least one group")
    q.require(eq(channels % groups, 0), "the groups must divide the channels")
    _require_channels(q, channels, *scales)


def group_norm_functional(
    q: ShapeQuery,
    input: Meta,
    num_groups: Size,
    weight: Scale = None,
    bias: Scale = None,
    eps: float = 1e-5,
) -> Meta:
    result = group_norm(q, input, num_groups, weight, bias, eps)
    values = product((input.shape[0] * input.shape[1] // num_groups, *input.shape[2:]))
    q.require(ne(values, 1), "more than one value is needed for each channel")
    return result


def native_group_norm(
    q: ShapeQuery,
    input: Meta,
    weight: Scale,
    bias: Scale,
    N: Size,
    C: Size,
    HxW: Size,
    group: Size,
    eps: float,
) -> tuple[Meta, Meta, Meta]:
    q.require(eq(input.numel, N * C * HxW), "the sizes given must be those of the input")
    _require_groups(q, C, HxW, group, weight, bias)
    stats = input.like((N, group), _dtype_of_statistics(input, weight, bias))
    return input.like(layout=kept_format(q, input)), stats, stats


def batch_norm(
    q: ShapeQuery,
    input: Meta,
    weight: Scale,
    bias: Scale,
    running_mean: Scale,
    running_var: Scale,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Meta:
    require_float(q, input.dtype)
    if input.rank < 2:
        # Without elements torch does not look for channels.
        require_nothing(q, input)
        return input.like()
    if not training and (running_mean is None or running_var is None):
        raise q.fail("running statistics are needed in evaluation mode")
    channels = input.shape[1]
    _require_channels(q, channels, running_mean, running_var, weight, bias)
    if weight is not None or bias is not None:
        # An input without elements is scaled by the first channel's weight.
        q.require(ne(channels, 0), "weights are for one channel or more")
    return input.like(layout=_format_of_batch(q, input))


def _format_of_batch(q: ShapeQuery, input: Meta) -> Layout:
    """Here channels-last is also what merely lies so in memory, sizes of 1 aside."""
    if input.rank in (4, 5) and not input.is_contiguous:
        wanted = channels_last(input.rank)
        if is_dense_in(q, input, wanted.order):
            return wanted
    return kept_format(q, input)


def batch_norm_functional(
    q: ShapeQuery,
    input: Meta,
    running_mean: Scale,
    running_var: Scale,
    weight: Scale = None,
    bias: Scale = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Meta:
    result = batch_norm(q, input, weight, bias, running_mean, running_var, training, momentum, eps)
    if training:
        values = product((input.shape[0], *input.shape[2:]))
        q.require(ne(values, 1), "more than one value is needed for each channel")
    return result


def native_batch_norm(
    q: ShapeQuery,
    input: Meta,
    weight: Scale,
    bias: Scale,
    running_mean: Scale,
    running_var: Scale,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Meta, Meta, Meta]:
    result = batch_norm(q, input, weight, bias, running_mean, running_var, training, momentum, eps)
    if training:
        require_elements(q, input, range(input.rank))
    dtype = _dtype_of_statistics(input, weight, bias, running_mean, running_var)
    stats = input.like((input.shape[1] if training else 0,), dtype)
    return _tracked(result, input, weight, bias), stats, stats


def batch_norm_legit(
    q: ShapeQuery,
    input: Meta,
    weight: Scale,
    bias: Scale,
    running_mean: Any = None,
    running_var: Any = None,
    training: Any = None,
    momentum: Any = None,
    eps: Any = None,
) -> Any:
    """With running statistics, or without: then the other arguments are two places further on."""
    rest = (running_mean, running_var, training, momentum, eps)
    if not isinstance(running_mean, Meta | None):
        rest = (None, None, *rest[:3])
    return native_batch_norm(q, input, weight, bias, *rest)


def batch_norm_with_update(
    q: ShapeQuery,
    input: Meta,
    weight: Scale,
    bias: Scale,
    running_mean: Meta,
    running_var: Meta,
    momentum: float,
    eps: float,
) -> tuple[Meta, ...]:
    results = native_batch_norm(
        q, input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*results, input.like((0,), torch.uint8))


def instance_norm(
    q: ShapeQuery,
    input: Meta,
    weight: Scale,
    bias: Scale,
    running_mean: Scale,
    running_var: Scale,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Meta:
    require_float(q, input.dtype)
    if input.rank < 2:
        raise q.fail(f"a batch and channels are needed, not {input.rank} dimensions")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise q.fail("running statistics are needed unless those of the input are used")
    channels = input.shape[1]
    _require_channels(q, channels, running_mean, running_var, weight, bias)
    if weight is not None or bias is not None:
        q.require(ne(input.shape[0] * channels, 0), "weights are for one channel or more")
    return input.like()


def instance_norm_functional(
    q: ShapeQuery,
    input: Meta,
    running_mean: Scale = None,
    running_var: Scale = None,
    weight: Scale = None,
    bias: Scale = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Meta:
    result = instance_norm(
        q, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )
    if use_input_stats:
        values = product(input.shape[2:])
        q.require(ne(values, 1), "more than one value is needed for each instance and channel")
    return result


def local_response_norm(
    q: ShapeQuery, input: Meta, size: Size, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Meta:
    if input.rank < 3:
        raise q.fail(f"three or more dimensions are needed, not {input.rank}")
    nothing = [eq(length, 0) for length in input.shape]
    q.require(or_(gt(size, 0), *nothing), "the window must not be empty")
    if category(input.dtype) < 2 and q.decide(
        or_(*nothing), "nothing comes back, still as integers"
    ):
        return input
    if returns_itself(q, or_(*nothing), "nothing comes back as it is"):
        return input
    layout = pointwise_layout(q, input.shape, (input, input.like()))
    return input.like(dtype=floating(input.dtype), layout=layout)


def reduction_row(
    name: str,
    answers_to: Sequence[str],
    rule: Rule,
    differentiable: bool = True,
    effects: Effects = PURE,
) -> Op:
    names = tuple(answers_to)
    return Op(name, names, rule, OpKind.REDUCTION, differentiable=differentiable, effects=effects)


def _with_statistics(
    name: str, answers_to: str, rule: Rule, given: str | None, differentiable: bool = True
) -> Op:
    """A row of an operator that keeps running statistics, if `given` is true: it tells nobody."""
    written = ("running_mean", "running_var")
    effects = Effects(writes=written, given=given, untold=True)
    return reduction_row(name, (answers_to,), rule, differentiable, effects)


ROWS: tuple[Op, ...] = (
    reduction_row("layer_norm", ("torch.layer_norm", FUNCTIONAL + "layer_norm"), layer_norm),
    reduction_row("native_layer_norm", ("torch.native_layer_norm",), native_layer_norm, False),
    reduction_row("rms_norm", ("torch.rms_norm", FUNCTIONAL + "rms_norm"), rms_norm),
    reduction_row("group_norm", ("torch.group_norm",), group_norm),
    reduction_row("functional_group_norm", (FUNCTIONAL + "group_norm",), group_norm_functional),
    reduction_row("native_group_norm", ("torch.native_group_norm",), native_group_norm),
    _with_statistics("batch_norm", "torch.batch_norm", batch_norm, "training"),
    _with_statistics(
        "functional_batch_norm", FUNCTIONAL + "batch_norm", batch_norm_functional, "training"
    ),
    _with_statistics(
        "native_batch_norm", "torch.native_batch_norm", native_batch_norm, "training", False
    ),
    _with_statistics(
        "native_batch_norm_legit",
        "torch._native_batch_norm_legit",
        batch_norm_legit,
        "training",
        False,
    ),
    _with_statistics(
        "batch_norm_with_update",
        "torch.ops.aten._batch_norm_with_update",
        batch_norm_with_update,
        None,
        False,
    ),
    _with_statistics("instance_norm", "torch.instance_norm", instance_norm, "use_input_stats"),
    _with_statistics(
        "functional_instance_norm",
        FUNCTIONAL + "instance_norm",
        instance_norm_functional,
        "use_input_stats",
    ),
    reduction_row(
        "local_response_norm", (FUNCTIONAL + "local_response_norm",), local_response_norm
    ),
)


# -- native code ----------------------------------------------------------------------------------


def must_be_float(input: Value) -> None:
    if input.dtype not in FLOATS:
        raise NotLowered("the norm of integers")


def moments(c: Lowering, input: Value, dims: list[int], eps: float) -> tuple[Value, Value]:
    """The mean, and 1 over the root of the variance and `eps`; dimensions are kept."""
    middle, squares = deviations(c, input, dims)
    variance = divided_by(c, squares, count(input.sizes, dims))
    return middle, inverse_deviation(c, variance, eps)


def inverse_deviation(c: Lowering, variance: Value, eps: float) -> Value:
    def inverse(x: Scalar) -> Scalar:
        inside = op("add", x, constant_like(eps, x))
        # As eager code has it on each device: on GPUs it is one instruction.
        return (
            op("rsqrt", inside) if c.on_gpu else op("div", constant_like(1, x), op("sqrt", inside))
        )

    return elementwise(c, inverse, variance, takes=variance.dtype, cost=4)


def scaled(
    c: Lowering, input: Value, middle: Value, inverse: Value, weight: Any, bias: Any
) -> Value:
    """`(input - middle) * inverse * weight + bias`; the last two may be None."""
    given = [each for each in (weight, bias) if each is not None]
    dtype = middle.dtype

    def compute(x: Scalar, m: Scalar, r: Scalar, *scales: Scalar) -> Scalar:
        left = list(scales)
        x = op("mul", op("sub", x, m), r)
        if weight is not None:
            x = op("mul", x, left.pop(0))
        return x if bias is None else op("add", x, left.pop(0))

    return elementwise(c, compute, input, middle, inverse, *given, takes=dtype, cost=4)


# -- over the last dimensions ---------------------------------------------------------------------


def _layer_norm(
    c: Lowering, input: Value, normalized_shape: Sequence[Size], weight: Any, bias: Any, eps: Any
) -> tuple[Value, Value, Value]:
    must_be_float(input)
    rank = len(input.sizes)
    dims = list(range(rank - len(normalized_shape), rank))
    source = as_dtype(c, input, wide(input.dtype))
    middle, inverse = moments(c, source, dims, must_be_known(eps))
    made = scaled(c, source, middle, inverse, weight, bias)
    if bias is None:
        made = from_zero(c, made)  # as torch adds a bias of 0
    return as_dtype(c, made, input.dtype), middle, inverse


@lower("layer_norm")
def lower_layer_norm(
    c: Lowering,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: Any,
    cudnn_enable: bool,
) -> Value:
    return _layer_norm(c, input, normalized_shape, weight, bias, eps)[0]


@lower("native_layer_norm")
def lower_native_layer_norm(
    c: Lowering,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: Any,
) -> Any:
    made, middle, inverse = _layer_norm(c, input, normalized_shape, weight, bias, eps)
    stats = (as_dtype(c, each, short(c.result[1].dtype)) for each in (middle, inverse))
    return (made, *stats)


@lower("rms_norm")
def lower_rms_norm(
    c: Lowering,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    eps: Any,
) -> Value:
    must_be_float(input)
    rank = len(input.sizes)
    dims = list(range(rank - len(normalized_shape), rank))
    source = as_dtype(c, input, wide(input.dtype))
    dtype = source.dtype
    eps = torch.finfo(TORCH_DTYPES[dtype]).eps if eps is None else must_be_known(eps)
    squares = elementwise(c, lambda x: op("mul", x, x), source, takes=dtype)
    whole = c.values.reduction("sum", squares, dims, dtype, keep=True)
    mean = divided_by(c, whole, count(input.sizes, dims))

    def compute(x: Scalar, m: Scalar, *scale: Scalar) -> Scalar:
        x = op("mul", x, op("rsqrt", op("add", m, constant_like(eps, m))))
        return op("mul", x, scale[0]) if scale else x

    given = () if weight is None else (weight,)
    made = elementwise(c, compute, source, mean, *given, takes=dtype, cost=6)
    return as_dtype(c, made, input.dtype)


# -- by channels ----------------------------------------------------------------------------------


def by_channel(c: Lowering, scale: Value | None, rank: int) -> Value | None:
    """One value a channel, beside a tensor of this rank."""
    if scale is None:
        return None
    sizes = (1, *scale.sizes, *(1,) * (rank - 2))
    return c.values.new(sizes, scale.dtype, lambda index: scale.at((index[1],)), (scale,))


def _group_norm(
    c: Lowering, input: Value, groups: Size, weight: Value | None, bias: Value | None, eps: Any
) -> tuple[Value, Value, Value]:
    """In groups: (batch, group, channel of the group, position)."""
    must_be_float(input)
    batch, channels, *inner = input.sizes
    many = channels // groups
    spread = (batch, groups, many, *inner)
    source = as_dtype(c, input, wide(input.dtype))
    extents, facts = c.values.extents, c.facts

    def grouped(index: Index) -> Scalar:
        n, g, k, *rest = index
        return source.at((n, g * many + k, *rest))

    apart = c.values.new(spread, source.dtype, grouped, (source,))
    middle, inverse = moments(c, apart, list(range(2, len(spread))), must_be_known(eps))

    def of_channel(scale: Value | None) -> Value | None:
        if scale is None:
            return None
        sizes = (1, groups, many, *(1,) * len(inner))
        return c.values.new(
            sizes, scale.dtype, lambda index: scale.at((index[1] * many + index[2],)), (scale,)
        )

    made = scaled(c, apart, middle, inverse, of_channel(weight), of_channel(bias))

    def together(index: Index) -> Scalar:
        n, channel, *rest = index
        group, k = split(channel, many, extents, facts)
        return made.at((n, group, k, *rest))

    factors = ((batch,), (groups, many), *((size,) for size in inner))
    whole = c.values.new(input.sizes, made.dtype, together, (made,), factors=factors)
    return as_dtype(c, whole, input.dtype), middle, inverse


@lower("group_norm", "functional_group_norm")
def lower_group_norm(
    c: Lowering,
    input: Value,
    num_groups: Size,
    weight: Value | None,
    bias: Value | None,
    eps: Any,
    **_: Any,
) -> Value:
    return _group_norm(c, input, num_groups, weight, bias, eps)[0]


@lower("batch_norm", "functional_batch_norm")
def lower_batch_norm(
    c: Lowering,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    eps: Any,
    **_: Any,
) -> Value:
    """With given statistics: a factor and a summand for each channel, as torch does it."""
    must_be_float(input)
    if training is not False or running_mean is None or running_var is None:
        raise NotLowered("statistics are updated")
    if len(input.sizes) < 2:
        raise NotLowered("an input without channels")
    rank, dtype, least = len(input.sizes), wide(input.dtype), must_be_known(eps)
    mean, var, scale, shift = (
        by_channel(c, each, rank) for each in (running_mean, running_var, weight, bias)
    )
    assert mean is not None
    assert var is not None

    def factor(v: Scalar, *w: Scalar) -> Scalar:
        root = op("sqrt", op("add", v, constant_like(least, v)))
        inverse = op("div", constant_like(1, v), root)
        return op("mul", inverse, w[0]) if w else inverse

    scales = [] if scale is None else [scale]
    times = elementwise(c, factor, var, *scales, takes=dtype, cost=4)
    shifts = [] if shift is None else [shift]

    def summand(m: Scalar, a: Scalar, *b: Scalar) -> Scalar:
        start = b[0] if b else constant_like(0, m)
        return op("sub", start, op("mul", m, a))

    plus = elementwise(c, summand, mean, times, *shifts, takes=dtype, cost=2)
    made = elementwise(
        c,
        lambda x, a, b: op("add", op("mul", x, a), b),
        input,
        times,
        plus,
        takes=dtype,
        cost=2,
    )
    return as_dtype(c, made, input.dtype)


@lower("instance_norm", "functional_instance_norm")
def lower_instance_norm(
    c: Lowering,
    input: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None,
    bias: Value | None,
    use_input_stats: bool,
    eps: Any,
    **_: Any,
) -> Value:
    must_be_float(input)
    if running_mean is not None or running_var is not None or use_input_stats is not True:
        raise NotLowered("statistics are updated")
    rank = len(input.sizes)
    if rank < 3 or input.dtype in HALVES:
        # Torch rounds the statistics of 16-bit floats.
        raise NotLowered("an input without positions, or of 16-bit floats")
    source = as_dtype(c, input, wide(input.dtype))
    middle, inverse = moments(c, source, list(range(2, rank)), must_be_known(eps))
    made = scaled(
        c, source, middle, inverse, by_channel(c, weight, rank), by_channel(c, bias, rank)
    )
    return as_dtype(c, made, input.dtype)


# -- gradients ------------------------------------------------------------------------------------


def _of_moments(grad: Term, input: Term, dims: list[int], eps: Any) -> tuple[Term, Term]:
    """What was normalized over these dimensions, and the gradient of the input."""
    centered = input - input.mean(dims, True)
    scale = ((centered * centered).mean(dims, True) + eps).rsqrt()
    normed = centered * scale
    slope = grad - grad.mean(dims, True) - normed * (grad * normed).mean(dims, True)
    return normed, slope * scale


def _by_channel(of: Term, rank: int) -> Term:
    """A number for each channel, as it is stretched."""
    return whole(of).reshape([of.shape[0], *[1] * (rank - 2)])


def _affine(grad: Term, normed: Term, weight: Any, bias: Any) -> Gradients:
    """The gradients of a weight and a bias for each channel."""
    dims = [each for each in range(grad.rank) if each != 1]
    return {
        "weight": None if weight is None else (grad * normed).sum(dims),
        "bias": None if bias is None else grad.sum(dims),
    }


@gradient("layer_norm")
def gradient_layer_norm(
    grad: Term, input: Term, normalized_shape: Any, weight: Any, bias: Any, eps: Any
) -> Gradients:
    dims = list(range(-len(normalized_shape), 0))
    grad = whole(grad)
    own = grad if weight is None else grad * whole(weight)
    normed, slope = _of_moments(own, whole(input), dims, eps)
    found: Gradients = {"input": slope}
    outer = list(range(input.rank - len(normalized_shape)))
    if weight is not None:
        found["weight"] = (grad * normed).sum(outer) if outer else grad * normed
    if bias is not None:
        found["bias"] = grad.sum(outer) if outer else grad
    return found


@gradient("rms_norm")
def gradient_rms_norm(
    grad: Term, input: Term, normalized_shape: Any, weight: Any, eps: Any
) -> Gradients:
    dims = list(range(-len(normalized_shape), 0))
    x, grad = whole(input), whole(grad)
    least = torch.finfo(x.dtype).eps if eps is None else eps
    scale = ((x * x).mean(dims, True) + least).rsqrt()
    normed = x * scale
    own = grad if weight is None else grad * whole(weight)
    found: Gradients = {"input": (own - normed * (own * normed).mean(dims, True)) * scale}
    outer = list(range(input.rank - len(normalized_shape)))
    if weight is not None:
        found["weight"] = (grad * normed).sum(outer) if outer else grad * normed
    return found


@gradient("group_norm", "functional_group_norm")
def gradient_group_norm(
    grad: Term, input: Term, num_groups: Any, weight: Any, bias: Any, eps: Any
) -> Gradients:
    batch, channels, *rest = input.shape
    grouped = [batch, num_groups, channels // num_groups, *rest]
    grad = whole(grad)
    own = grad if weight is None else grad * _by_channel(weight, input.rank)
    dims = list(range(2, input.rank + 1))
    normed, slope = _of_moments(own.reshape(grouped), whole(input).reshape(grouped), dims, eps)
    affine = _affine(grad, normed.reshape(input.shape), weight, bias)
    return {"input": slope.reshape(input.shape), **affine}


@gradient("batch_norm", "functional_batch_norm")
def gradient_batch_norm(
    grad: Term,
    input: Term,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: Any,
    eps: Any,
) -> Gradients:
    rank = input.rank
    if rank < 2:
        raise NoGradient("an input without channels")
    x, grad = whole(input), whole(grad)
    own = grad if weight is None else grad * _by_channel(weight, rank)
    if training is True:
        dims = [each for each in range(rank) if each != 1]
        normed, slope = _of_moments(own, x, dims, eps)
    elif training is False and isinstance(running_mean, Term) and isinstance(running_var, Term):
        scale = (_by_channel(running_var, rank) + eps).rsqrt()
        normed, slope = (x - _by_channel(running_mean, rank)) * scale, own * scale
    else:
        raise NoGradient("whether statistics are taken is not known")
    return {"input": slope, **_affine(grad, normed, weight, bias)}


@gradient("instance_norm", "functional_instance_norm")
def gradient_instance_norm(
    grad: Term,
    input: Term,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    use_input_stats: Any,
    eps: Any,
) -> Gradients:
    if use_input_stats is not True:
        given = (running_mean, running_var, weight, bias, False, eps)
        return gradient_batch_norm(grad, input, *given)
    if input.rank < 3:
        raise NoGradient("statistics of single numbers")
    x, grad = whole(input), whole(grad)
    own = grad if weight is None else grad * _by_channel(weight, input.rank)
    normed, slope = _of_moments(own, x, list(range(2, input.rank)), eps)
    return {"input": slope, **_affine(grad, normed, weight, bias)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("layer_norm")
def onnx_layer_norm(
    w: Writer,
    node: Node,
    input: Any,
    normalized_shape: Any,
    weight: Any,
    bias: Any,
    eps: float,
    **_: Any,
) -> str:
    if weight is None and bias is not None:
        raise NotMapped("a layer normalisation with a bias and no weight")
    scale = w.constant(torch.ones([1], dtype=w.dtype(node))) if weight is None else w.name(weight)
    inputs = [w.name(input), scale] + ([] if bias is None else [w.name(bias)])
    return w.add("LayerNormalization", inputs, axis=-len(normalized_shape), epsilon=eps)


@onnx("rms_norm")
def onnx_rms_norm(
    w: Writer, node: Node, input: Any, normalized_shape: Any, weight: Any, eps: float | None
) -> str:
    dtype = w.dtype(node)
    axes = w.constant([-1 - at for at in range(len(normalized_shape))])
    mean = w.add("ReduceMean", [w.add("Mul", [w.name(input), w.name(input)]), axes], keepdims=1)
    least = torch.finfo(dtype).eps if eps is None else eps
    root = w.add("Sqrt", [w.add("Add", [mean, w.name(least, dtype)])])
    found = w.add("Div", [w.name(input), root])
    return found if weight is None else w.add("Mul", [found, w.name(weight)])


@onnx("batch_norm", "functional_batch_norm")
def onnx_batch_norm(
    w: Writer,
    node: Node,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    eps: float,
    **_: Any,
) -> str:
    if training or running_mean is None:
        raise NotMapped("a batch normalisation in training")
    like = torch.ones_like(w.example(running_mean))
    scale = w.constant(like) if weight is None else w.name(weight)
    shift = w.constant(torch.zeros_like(like)) if bias is None else w.name(bias)
    inputs = [w.name(input), scale, shift, w.name(running_mean), w.name(running_var)]
    return w.add("BatchNormalization", inputs, epsilon=eps)


@onnx("group_norm", "functional_group_norm")
def onnx_group_norm(
    w: Writer,
    node: Node,
    input: Any,
    num_groups: int,
    weight: Any,
    bias: Any,
    eps: float,
    **_: Any,
) -> str:
    dtype, shape = w.dtype(node), w.add("Shape", [w.name(input)])
    grouped = w.add("Reshape", [w.name(input), w.constant([0, num_groups, -1])])
    one = w.constant(torch.ones([1], dtype=dtype))
    normal = w.add("LayerNormalization", [grouped, one], axis=2, epsilon=eps)
    found = w.add("Reshape", [normal, shape])
    channels = w.constant([-1, *[1] * (w.rank(input) - 2)])
    for kind, each in (("Mul", weight), ("Add", bias)):
        if each is not None:
            found = w.add(kind, [found, w.add("Reshape", [w.name(each), channels])])
    return found
