"""Convolutions and transposed convolutions of one to three spatial dimensions, with or without a
batch."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.loops.expr import FLOATS
from anyshape.loops.program import Area, Extern
from anyshape.ops.families.matmul import materialized, require_one_dtype, require_rank, require_same
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.pointwise_builder import elementwise
from anyshape.ops.lowering.values import Lowering, NotLowered, Value
from anyshape.ops.memory_format import is_channels_last, unsqueezed
from anyshape.ops.meta import Meta, channels_last, contiguous
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node
from anyshape.ops.op import TOTAL, Op, OpKind, Rule, gradient, lower, onnx_rows
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, ge, gt, ne, or_, product

Sizes = tuple[Size, ...]

_IS_ARM = platform.machine() in ("aarch64", "arm64")

#: Elements of an input (without its last dimension) from which torch's CPU hands a single float
#: image to oneDNN.
_LARGE_IMAGE = 20480


def per_dimension(q: ShapeQuery, value: Any, dims: int, what: str) -> Sizes:
    """One value a spatial dimension; a single one stands for all."""
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(values) == dims:
        return values
    if len(values) == 1:
        return values * dims
    raise q.fail(f"{what} must be one value or {dims}, not {len(values)}")


def _convolve(dims: int) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        weight: Meta,
        bias: Meta | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Meta:
        call = _Call(q, dims, input, weight, bias, stride, padding, dilation, groups)
        return call.convolved()

    return rule


def _transpose(dims: int) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        weight: Meta,
        bias: Meta | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Meta:
        call = _Call(q, dims, input, weight, bias, stride, padding, dilation, groups)
        return call.transposed(per_dimension(q, output_padding, dims, "output_padding"))

    return rule


def _convolution(
    q: ShapeQuery,
    input: Meta,
    weight: Meta,
    bias: Meta | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Meta:
    dims = weight.rank - 2
    if dims not in (1, 2, 3) or input.rank != weight.rank:
        raise q.fail(f"an input of shape {input.shape} does not go with a weight {weight.shape}")
    call = _Call(q, dims, input, weight, bias, stride, padding, dilation, groups)
    if transposed:
        return call.transposed(per_dimension(q, output_padding, dims, "output_padding"))
    return call.convolved()


class _Call:
    """The arguments of one call, one value a spatial dimension."""

    def __init__(
        self,
        q: ShapeQuery,
        dims: int,
        input: Meta,
        weight: Meta,
        bias: Meta | None,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> None:
        if input.rank not in (dims + 1, dims + 2):
            raise q.fail(f"an input of {dims + 1} or {dims + 2} dimensions is expected")
        require_rank(q, weight, dims + 2, "the weight")
        require_one_dtype(q, input, weight, bias)
        self.q, self.dims, self.weight, self.bias, self.groups = q, dims, weight, bias, groups
        self.batched = input.rank == dims + 2
        self.input = input if self.batched else unsqueezed(input, 0)
        self.stride = per_dimension(q, stride, dims, "stride")
        self.dilation = per_dimension(q, dilation, dims, "dilation")
        for value in (*self.stride, *self.dilation, groups):
            if value != 1:
                q.require(
                    gt(value, 0), f"stride, dilation and groups must be positive, not {value}"
                )
        self.kernel = weight.shape[2:]
        for size in self.kernel:
            q.require(gt(size, 0), "a kernel has elements")
        self.padding = self._padding(padding)

    def _padding(self, padding: Any) -> tuple[tuple[Size, Size], ...]:
        """Padding before and after each spatial dimension."""
        if padding == "valid":
            return ((0, 0),) * self.dims
        if padding == "same":
            if any(step != 1 for step in self.stride):
                raise self.q.fail("padding='same' goes with a stride of 1")
            return tuple(
                (d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2)
                for d, k in zip(self.dilation, self.kernel, strict=True)
            )
        if isinstance(padding, str):
            raise self.q.fail(f"padding is 'same', 'valid' or numbers, not {padding!r}")
        values = per_dimension(self.q, padding, self.dims, "padding")
        for value in values:
            if value != 0:
                self.q.require(ge(value, 0), f"padding must not be negative: {value}")
        return tuple((value, value) for value in values)

    def convolved(self) -> Meta:
        q, image, groups = self.q, self.input.shape[2:], self.groups
        outputs, inputs = self.weight.shape[0], self.weight.shape[1] * groups
        require_same(q, self.input.shape[1], inputs, "the channels of input and weight")
        self._check_outputs(outputs)
        if q.decide(eq(inputs, 0), "a convolution of no channels gives no channels"):
            outputs = 0
        spatial: list[Size] = []
        for size, (before, after), d, k, step in zip(
            image, self.padding, self.dilation, self.kernel, self.stride, strict=True
        ):
            room = size + before + after - d * (k - 1) - 1
            q.require(ge(room, 0), f"a kernel of size {k} does not fit into {size}")
            spatial.append(room + 1 if step == 1 else room // step + 1)
        return self._result(outputs, spatial)

    def transposed(self, extra: Sizes) -> Meta:
        q, image = self.q, self.input.shape[2:]
        require_same(
            q, self.input.shape[1], self.weight.shape[0], "the channels of input and weight"
        )
        self._check_outputs(self.weight.shape[0], bias=self.weight.shape[1] * self.groups)
        q.require(gt(self.weight.shape[1], 0), "a transposed convolution has output channels")
        spatial: list[Size] = []
        for size, (padding, _), d, k, step, more in zip(
            image, self.padding, self.dilation, self.kernel, self.stride, extra, strict=True
        ):
            if more != 0:
                smaller = or_(gt(step, more), gt(d, more))
                q.require(smaller, f"output_padding {more} must be below stride or dilation")
                q.require(ge(more, 0), f"output_padding must not be negative: {more}")
            result = (size - 1) * step - 2 * padding + d * (k - 1) + more + 1
            q.require(gt(result, 0), "the result of a transposed convolution has elements")
            spatial.append(result)
        return self._result(self.weight.shape[1] * self.groups, spatial)

    def _check_outputs(self, first: Size, bias: Size | None = None) -> None:
        """What torch asks of the weight's first dimension, and of the bias."""
        q, groups = self.q, self.groups
        q.require(ge(first, groups), "a weight has at least as many rows as groups")
        if groups != 1:
            q.require(eq(first % groups, 0), f"a weight's rows divide into {groups} groups")
        if self.bias is not None:
            require_rank(q, self.bias, 1, "the bias")
            wanted = first if bias is None else bias
            require_same(q, self.bias.shape[0], wanted, "the bias and the output channels")

    def _result(self, channels: Size, spatial: list[Size]) -> Meta:
        for size in self.input.shape[2:]:
            self.q.require(gt(size, 0), "an image has elements")  # mostly implied by now
        shape = (self.input.shape[0], channels, *spatial)
        rank = self.dims + 2
        last = self._is_channels_last(spatial)
        result = self.input.like(shape, layout=channels_last(rank) if last else contiguous(rank))
        if self.batched:
            return result
        if not last:
            return result.like(shape[1:])
        return result.viewed(shape[1:], result.strides[1:])

    def _is_channels_last(self, spatial: list[Size]) -> bool:
        """Whether torch computes in channels-last, which it does if the input or the weight is."""
        q, input, weight = self.q, self.input, self.weight
        if self.dims == 1:
            # A signal is made contiguous and seen as an image of height 1; the weight is seen as it
            # is.
            return not weight.is_contiguous and is_channels_last(q, unsqueezed(weight, 2))
        if input.is_contiguous and weight.is_contiguous:
            return False
        if input.device.type == "cuda":
            return input.dtype is not torch.float64 and self._looks_channels_last(spatial)
        if self.dims == 3 and not self._uses_onednn():
            return False
        return self._looks_channels_last(spatial)

    def _looks_channels_last(self, spatial: list[Size]) -> bool:
        q, input = self.q, self.input
        if is_channels_last(q, self.weight):
            return self._not_single(self.weight, spatial)
        return is_channels_last(q, input) and self._not_single(input, spatial)

    def _not_single(self, tensor: Meta, spatial: list[Size]) -> bool:
        """Torch takes a dense channels-last tensor whose sizes after the first are all 1 for a
        contiguous one.
        """
        if all(size == 1 for size in spatial) or tensor.layout != channels_last(tensor.rank):
            return True
        return self.q.decide(
            ne(product(tensor.shape[1:]), 1),
            "sizes of 1 leave open whether a tensor is channels-last",
        )

    def _uses_onednn(self) -> bool:
        """Whether torch's CPU hands a volume to oneDNN, which alone knows channels-last volumes."""
        if not torch.backends.mkldnn.enabled:
            return False
        dtype = self.input.dtype
        if dtype is torch.bfloat16:
            return torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if dtype is torch.float16:
            return torch.ops.mkldnn._is_mkldnn_fp16_supported()
        if dtype not in (torch.float32, torch.complex64):  # complex numbers as pairs of floats
            return False
        batch, last, before = self.input.shape[0], self.kernel[-1], self.kernel[-2]
        plain = all(value == 1 for value in (*self.stride, *self.dilation))
        if plain and torch.get_num_threads() == 1:
            some = or_(ge(batch, 16), ne(last, 1), ne(before, 1))
            if not self.q.decide(some, "torch computes small convolutions of one thread itself"):
                return False
        if self.groups != 1:
            return True
        count = batch * self.input.shape[1] * self.input.shape[2] * self.input.shape[3]
        if self.q.known(gt(last, 3)) and self.q.known(gt(before, 3)):
            return True
        large = or_(gt(batch, 1), gt(count, _LARGE_IMAGE))
        return self.q.decide(large, "torch computes a small single image itself")


def _conv_tbc(q: ShapeQuery, input: Meta, weight: Meta, bias: Meta, pad: Size = 0) -> Meta:
    for tensor, rank in ((input, 3), (weight, 3), (bias, 1)):
        require_rank(q, tensor, rank, "a tensor of this convolution")
    if not input.is_contiguous:
        raise UnknownOperator(op=q.op)
    require_one_dtype(q, input, weight, bias)
    require_same(q, input.shape[2], weight.shape[1], "the channels of input and weight")
    require_same(q, bias.shape[0], weight.shape[2], "the bias and the output channels")
    length = input.shape[0] + 2 * pad - weight.shape[0] + 1
    q.require(ge(length, 0), "the kernel fits into the padded input")
    return input.like((length, input.shape[1], weight.shape[2]))


def convolution_gradient(
    grad: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    steps: tuple[tuple[int, ...], ...],
    groups: int,
    of_weight: bool,
    transposed: bool = False,
) -> torch.Tensor:
    """Of the input or of the weight. `steps`: stride, padding, dilation, and padding of the result
    of a transposed convolution."""
    stride, padding, dilation, behind = steps
    wanted = (not of_weight, of_weight, False)
    made = torch.ops.aten.convolution_backward(
        grad, input, weight, None, stride, padding, dilation, transposed, behind, groups, wanted
    )
    return made[int(of_weight)].contiguous()


def _convolution_gradient(
    q: ShapeQuery,
    grad: Meta,
    input: Meta,
    weight: Meta,
    steps: tuple[tuple[int, ...], ...],
    groups: int,
    of_weight: bool,
    transposed: bool = False,
) -> Meta:
    return (weight if of_weight else input).like()


def _row(name: str, rule: Rule) -> Op:
    names = f"torch.{name}", f"torch.nn.functional.{name}"
    return Op(name, names, rule, OpKind.CALL_OUT, effects=TOTAL)


ROWS: tuple[Op, ...] = (
    *(_row(f"conv{dims}d", _convolve(dims)) for dims in (1, 2, 3)),
    *(_row(f"conv_transpose{dims}d", _transpose(dims)) for dims in (1, 2, 3)),
    Op(
        "convolution_gradient",
        (f"{__name__}.convolution_gradient",),
        _convolution_gradient,
        OpKind.CALL_OUT,
    ),
    Op("convolution", ("torch.convolution", "torch._convolution"), _convolution, OpKind.CALL_OUT),
    _row("conv_tbc", _conv_tbc),
)


# -- native code ----------------------------------------------------------------------------------


def _numbers(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each dimension of space."""
    items = list(value) if isinstance(value, tuple | list) else [value] * rank
    items = items * rank if len(items) == 1 else items
    if len(items) != rank or not all(type(item) is int for item in items):
        raise NotLowered("a stride or padding that is not known")
    return tuple(items)


def _area(c: Lowering, value: Value) -> Area:
    memory = materialized(c, value)
    return Area(memory.buffer, value.sizes, memory.strides, memory.offset)


def _by_pixels(c: Lowering, image: Value) -> Value:
    """The image with the channels of a pixel side by side."""
    wanted = c.result.like(image.sizes, layout=channels_last(4))
    known = c.meta_of(image)
    if image.memory is None and known is not None and known.layout == wanted.layout:
        c.materialize(image)
    if image.memory is not None and c.has_layout(image.memory, wanted):
        return image

    def copied() -> Value:
        copy = elementwise(c, lambda x: x, image, takes=image.dtype)
        c.materialize(copy, wanted)
        return copy

    # The gradients of an image and of a weight are computed of the same.
    return c.made_once((_by_pixels, image), copied)


def lower_convolution(
    rank: int,
    c: Lowering,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Value:
    c.needs_library("convolution")
    tensors = [input, weight, *([] if bias is None else [bias])]
    if {value.dtype for value in tensors} != {input.dtype} or input.dtype not in FLOATS:
        raise NotLowered("a convolution of several dtypes, or of integers")
    if len(input.sizes) != rank + 2 or type(groups) is not int:
        raise NotLowered("no batch of images")
    for size in (*input.sizes, *c.result.shape):
        c.assume(ge(size, 1), "a convolution of nothing")
    steps = [_numbers(each, rank) for each in (stride, padding, dilation)]
    if c.is_channels_last:
        tensors[0] = _by_pixels(c, input)
    made, kept = c.fresh_as(c.result.shape, input.dtype, c.stored_as(c.result))
    areas = [_area(c, value) for value in tensors]
    whole = Area(kept.buffer, c.result.shape, kept.strides)
    arguments = (
        *(whole, areas[0], areas[1], None if bias is None else areas[2]),
        *(*steps, False, (0,) * rank, groups),
    )
    c.extern(Extern("convolution", arguments), [area.buffer for area in areas], [kept.buffer])
    return made


for _name, _rank in (("conv1d", 1), ("conv2d", 2), ("conv3d", 3)):
    lower(_name)(partial(lower_convolution, _rank))


@lower("convolution_gradient")
def lower_convolution_gradient(
    c: Lowering,
    grad: Value,
    input: Value,
    weight: Value,
    steps: Any,
    groups: Any,
    of_weight: bool,
    transposed: bool,
) -> Value:
    c.needs_library("convolution_backward")
    tensors = (grad, input, weight)
    if {value.dtype for value in tensors} != {input.dtype} or input.dtype not in FLOATS:
        raise NotLowered("a convolution of several dtypes, or of integers")
    for size in (*grad.sizes, *input.sizes):
        c.assume(ge(size, 1), "a convolution of nothing")
    if c.is_channels_last:
        tensors = (_by_pixels(c, grad), _by_pixels(c, input), weight)
    made, kept = c.fresh_as(c.result.shape, input.dtype, c.stored_as(c.result))
    areas = [_area(c, value) for value in tensors]
    whole = Area(kept.buffer, c.result.shape, kept.strides)
    results = (None, whole, None) if of_weight else (whole, None, None)
    *steps, behind = steps
    wanted = (not of_weight, of_weight, False)
    arguments = (*results, *areas, None, *steps, transposed, behind, groups, wanted)
    call = Extern("convolution_backward", arguments)
    c.extern(call, [area.buffer for area in areas], [kept.buffer])
    return made


# -- gradients ------------------------------------------------------------------------------------


@gradient("conv1d", "conv2d", "conv3d", *(f"conv_transpose{dims}d" for dims in (1, 2, 3)))
def gradient_convolution(
    grad: Term,
    input: Term,
    weight: Term,
    bias: Term | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    function: str,
    output_padding: Any = 0,
) -> Gradients:
    dims = weight.rank - 2
    if type(groups) is not int:
        raise NoGradient("groups that are not known")
    single = input.rank < weight.rank
    if single:
        grad, input = grad.unsqueeze(0), input.unsqueeze(0)
    if isinstance(padding, str):
        padding = _padding_by_name(padding, weight, dilation)
    try:
        steps = tuple(_numbers(each, dims) for each in (stride, padding, dilation, output_padding))
    except NotLowered as why:
        raise NoGradient(str(why)) from None
    given = (input, weight, steps, groups)
    transposed = "transpose" in function
    own = None if transposed else _as_convolution(grad, input, weight, steps, groups)
    if own is None:
        own = grad.call(convolution_gradient, *given, False, transposed)
    return {
        "input": own.squeeze(0) if single else own,
        "weight": grad.call(convolution_gradient, *given, True, transposed),
        "bias": None if bias is None else grad.sum((0, *range(2, dims + 2))),
    }


def _as_convolution(
    grad: Term, input: Term, weight: Term, steps: tuple[tuple[int, ...], ...], groups: int
) -> Term | None:
    """The gradient of the input as a convolution of `grad`, where torch computes that faster: on
    ARM, by up to four times. There the library's own backward is a plain product of matrices."""
    stride, padding, dilation, _ = steps
    kernel = [size for size in weight.shape[2:] if isinstance(size, int)]
    is_plain = weight.rank == 4 and len(kernel) == 2 and groups == 1 and set(stride) == {1}
    if not (_IS_ARM and is_plain):
        return None
    if grad.dtype is not torch.float32 or grad.meta.device.type != "cpu":
        return None
    around = [
        gap * (size - 1) - before
        for gap, size, before in zip(dilation, kernel, padding, strict=True)
    ]
    if min(around) < 0:
        return None
    turned = weight.flip((2, 3)).transpose(0, 1)
    try:
        found = grad.call(torch.conv2d, turned, None, (1, 1), tuple(around), dilation)
    except NoGradient:
        return None
    return found if found.shape == input.shape else None


def _padding_by_name(name: str, weight: Term, dilation: Any) -> tuple[int, ...]:
    dims = weight.rank - 2
    if name == "valid":
        return (0,) * dims
    gaps = list(dilation) if isinstance(dilation, tuple | list) else [dilation] * dims
    more = [gap * (size - 1) for gap, size in zip(gaps, weight.shape[2:], strict=True)]
    if name != "same" or any(type(each) is not int or each % 2 for each in more):
        raise NoGradient("padding that differs at the two ends")
    return tuple(int(each) // 2 for each in more)


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_convolution(
    dims: int,
    w: Writer,
    node: Node,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> str:
    inputs = [batched(w, input, dims), w.name(weight)] + ([] if bias is None else [w.name(bias)])
    steps, spread = several(stride, dims), several(dilation, dims)
    if padding == "same":
        window = w.example(weight).shape[2:]
        total = [gap * (size - 1) for gap, size in zip(spread, window, strict=True)]
        pads = [*(each // 2 for each in total), *(each - each // 2 for each in total)]
    else:
        pads = several(0 if padding == "valid" else padding, dims) * 2
    found = w.add("Conv", inputs, strides=steps, pads=pads, dilations=spread, group=groups)
    return unbatched(w, input, found, dims)


def onnx_transposed_convolution(
    dims: int,
    w: Writer,
    node: Node,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> str:
    inputs = [batched(w, input, dims), w.name(weight)] + ([] if bias is None else [w.name(bias)])
    found = w.add(
        "ConvTranspose",
        inputs,
        strides=several(stride, dims),
        pads=several(padding, dims) * 2,
        output_padding=several(output_padding, dims),
        dilations=several(dilation, dims),
        group=groups,
    )
    return unbatched(w, input, found, dims)


def batched(w: Writer, x: Any, dims: int) -> str:
    return w.name(x) if w.rank(x) == dims + 2 else w.add("Unsqueeze", [w.name(x), w.constant([0])])


def unbatched(w: Writer, x: Any, found: str, dims: int) -> str:
    return found if w.rank(x) == dims + 2 else w.add("Squeeze", [found, w.constant([0])])


def several(value: Any, count: int) -> list[int]:
    found = [value] * count if isinstance(value, int) else list(value)
    if any(is_node(each) for each in found):
        raise NotMapped("a window whose size is computed")
    return found * count if len(found) == 1 else found


onnx_rows(
    {
        "conv1d": partial(onnx_convolution, 1),
        "conv2d": partial(onnx_convolution, 2),
        "conv3d": partial(onnx_convolution, 3),
        "conv_transpose1d": partial(onnx_transposed_convolution, 1),
        "conv_transpose2d": partial(onnx_transposed_convolution, 2),
        "conv_transpose3d": partial(onnx_transposed_convolution, 3),
    }
)
