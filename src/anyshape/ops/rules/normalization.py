"""Softmax and the norms of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.memory_format import is_dense_in, kept_format
from anyshape.ops.meta import Layout, Meta, channels_last
from anyshape.ops.op import DRAWS, PURE, Effects, Op, OpKind, Rule
from anyshape.ops.promotion import category, floating
from anyshape.ops.rules.casts import returns_itself
from anyshape.ops.rules.reductions import require_elements, require_float
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.versions import GROUP_NORM_NEEDS_VALUES
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, eq, gt, ne, or_, product

Scale = Meta | None


def softmax(q: ShapeQuery, input: Meta, dim: int, dtype: torch.dtype | None = None) -> Meta:
    found = input.dtype if dtype is None else dtype
    require_float(q, found)
    q.dim(dim, input.rank)
    return input.like(dtype=found)


def softmax_functional(
    q: ShapeQuery,
    input: Meta,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: torch.dtype | None = None,
) -> Meta:
    if dim is None:
        dim = 0 if input.rank in (0, 1, 3) else 1
    return softmax(q, input, dim, dtype)


def gumbel_softmax(
    q: ShapeQuery,
    logits: Meta,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
) -> Meta:
    if hard:
        require_elements(q, logits, (q.dim(dim, logits.rank),))
    return softmax(q, logits, dim)


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


def batch_norm_legit(q: ShapeQuery, input: Meta, weight: Scale, bias: Scale, *rest: Any) -> Any:
    """With running statistics, or without: three arguments less two tensors."""
    stats: tuple[Any, ...] = rest if isinstance(rest[0], Meta) else (None, None, *rest)
    return native_batch_norm(q, input, weight, bias, *stats)


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


def _row(
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
    return _row(name, (answers_to,), rule, differentiable, effects)


def _softmax_names(name: str) -> tuple[str, ...]:
    return (f"torch.{name}", f"torch.Tensor.{name}", f"torch.special.{name}")


_F = "torch.nn.functional."
ROWS: tuple[Op, ...] = (
    _row("softmax", _softmax_names("softmax"), softmax),
    _row("log_softmax", _softmax_names("log_softmax"), softmax),
    *(
        _row(f"functional_{name}", (_F + name,), softmax_functional)
        for name in ("softmax", "log_softmax", "softmin")
    ),
    _row("gumbel_softmax", (_F + "gumbel_softmax",), gumbel_softmax, effects=DRAWS),
    _row("layer_norm", ("torch.layer_norm", _F + "layer_norm"), layer_norm),
    _row("native_layer_norm", ("torch.native_layer_norm",), native_layer_norm, False),
    _row("rms_norm", ("torch.rms_norm", _F + "rms_norm"), rms_norm),
    _row("group_norm", ("torch.group_norm",), group_norm),
    _row("functional_group_norm", (_F + "group_norm",), group_norm_functional),
    _row("native_group_norm", ("torch.native_group_norm",), native_group_norm),
    _with_statistics("batch_norm", "torch.batch_norm", batch_norm, "training"),
    _with_statistics("functional_batch_norm", _F + "batch_norm", batch_norm_functional, "training"),
    _with_statistics(
        "native_batch_norm", "torch.native_batch_norm", native_batch_norm, "training", False
    ),
    _with_statistics(
        "native_batch_norm_legit", "torch._native_batch_norm_legit", batch_norm_legit, None, False
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
        _F + "instance_norm",
        instance_norm_functional,
        "use_input_stats",
    ),
    _row("local_response_norm", (_F + "local_response_norm",), local_response_norm),
)
