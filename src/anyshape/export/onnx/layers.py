"""Products and layers."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import N, NotMapped, Row, W, is_node


def linear(w: W, node: N, input: Any, weight: Any, bias: Any) -> str:
    if w.rank(weight) != 2:
        raise NotMapped("linear with a weight of one dimension")
    turned = w.add("Transpose", [w.name(weight)], perm=[1, 0])
    found = w.add("MatMul", [w.name(input), turned])
    return found if bias is None else w.add("Add", [found, w.name(bias)])


def addmm(w: W, node: N, input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> str:
    dtype = w.dtype(node)
    found, more = w.add("MatMul", [w.name(mat1), w.name(mat2)]), w.name(input)
    if alpha != 1:
        found = w.add("Mul", [found, w.name(alpha, dtype)])
    if beta == 0:
        return found
    if beta != 1:
        more = w.add("Mul", [more, w.name(beta, dtype)])
    return w.add("Add", [found, more])


def baddbmm(w: W, node: N, input: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> str:
    return addmm(w, node, input, batch1, batch2, beta, alpha)


def einsum(w: W, node: N, args: Any) -> str:
    equation, *operands = args
    given = operands[0] if isinstance(operands[0], tuple | list) else operands
    dtype = w.dtype(node)
    return w.add("Einsum", [w.name(each, dtype) for each in given], equation=equation)


def outer(w: W, node: N, input: Any, vec2: Any) -> str:
    names = [w.name(each, w.dtype(node)) for each in (input, vec2)]
    return w.add("Einsum", names, equation="i,j->ij")


def embedding(w: W, node: N, input: Any, weight: Any, max_norm: Any) -> str:
    if max_norm is not None:
        raise NotMapped("an embedding that changes its weights (max_norm)")
    return w.add("Gather", [w.name(weight), w.name(input)], axis=0)


def embedding_of_weight(w: W, node: N, weight: Any, indices: Any) -> str:
    """The function of the library takes the weight first."""
    return embedding(w, node, indices, weight, None)


# -- normalisation ---------------------------------------------------------------------------------


def layer_norm(
    w: W,
    node: N,
    input: Any,
    normalized_shape: Any,
    weight: Any,
    bias: Any,
    eps: float,
) -> str:
    if weight is None and bias is not None:
        raise NotMapped("a layer normalisation with a bias and no weight")
    scale = w.constant(torch.ones([1], dtype=w.dtype(node))) if weight is None else w.name(weight)
    inputs = [w.name(input), scale] + ([] if bias is None else [w.name(bias)])
    return w.add("LayerNormalization", inputs, axis=-len(normalized_shape), epsilon=eps)


def rms_norm(
    w: W, node: N, input: Any, normalized_shape: Any, weight: Any, eps: float | None
) -> str:
    dtype = w.dtype(node)
    axes = w.constant([-1 - at for at in range(len(normalized_shape))])
    mean = w.add("ReduceMean", [w.add("Mul", [w.name(input), w.name(input)]), axes], keepdims=1)
    least = torch.finfo(dtype).eps if eps is None else eps
    root = w.add("Sqrt", [w.add("Add", [mean, w.name(least, dtype)])])
    found = w.add("Div", [w.name(input), root])
    return found if weight is None else w.add("Mul", [found, w.name(weight)])


def batch_norm(
    w: W,
    node: N,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    eps: float,
) -> str:
    if training or running_mean is None:
        raise NotMapped("a batch normalisation in training")
    like = torch.ones_like(w.example(running_mean))
    scale = w.constant(like) if weight is None else w.name(weight)
    shift = w.constant(torch.zeros_like(like)) if bias is None else w.name(bias)
    inputs = [w.name(input), scale, shift, w.name(running_mean), w.name(running_var)]
    return w.add("BatchNormalization", inputs, epsilon=eps)


def group_norm(
    w: W,
    node: N,
    input: Any,
    num_groups: int,
    weight: Any,
    bias: Any,
    eps: float,
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


def along(kind: str) -> Row:
    """A softmax."""

    def row(w: W, node: N, input: Any, dim: Any) -> str:
        if dim is None:  # which torch then guesses
            dim = 0 if w.rank(input) in (0, 1, 3) else 1
        return w.add(kind, [w.name(input, w.dtype(node))], axis=dim)

    return row


def cross_entropy(
    w: W,
    node: N,
    input: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> str:
    if w.dtype(target).is_floating_point or label_smoothing or w.rank(input) < 2:
        raise NotMapped("a cross entropy with probabilities, or without a batch")
    inputs = [w.name(input), w.name(target)] + ([] if weight is None else [w.name(weight)])
    return w.add("SoftmaxCrossEntropyLoss", inputs, ignore_index=ignore_index, reduction=reduction)


# -- windows ---------------------------------------------------------------------------------------


def convolution(dims: int) -> Row:
    def row(
        w: W,
        node: N,
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> str:
        inputs = [_batched(w, input, dims), w.name(weight)] + (
            [] if bias is None else [w.name(bias)]
        )
        steps, spread = _several(stride, dims), _several(dilation, dims)
        if padding == "same":
            window = w.example(weight).shape[2:]
            total = [gap * (size - 1) for gap, size in zip(spread, window, strict=True)]
            pads = [*(each // 2 for each in total), *(each - each // 2 for each in total)]
        else:
            pads = _several(0 if padding == "valid" else padding, dims) * 2
        found = w.add("Conv", inputs, strides=steps, pads=pads, dilations=spread, group=groups)
        return _unbatched(w, input, found, dims)

    return row


def transposed_convolution(dims: int) -> Row:
    def row(
        w: W,
        node: N,
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: int,
        dilation: Any,
    ) -> str:
        inputs = [_batched(w, input, dims), w.name(weight)] + (
            [] if bias is None else [w.name(bias)]
        )
        found = w.add(
            "ConvTranspose",
            inputs,
            strides=_several(stride, dims),
            pads=_several(padding, dims) * 2,
            output_padding=_several(output_padding, dims),
            dilations=_several(dilation, dims),
            group=groups,
        )
        return _unbatched(w, input, found, dims)

    return row


def _batched(w: W, x: Any, dims: int) -> str:
    return w.name(x) if w.rank(x) == dims + 2 else w.add("Unsqueeze", [w.name(x), w.constant([0])])


def _unbatched(w: W, x: Any, found: str, dims: int) -> str:
    return found if w.rank(x) == dims + 2 else w.add("Squeeze", [found, w.constant([0])])


def _several(value: Any, count: int) -> list[int]:
    found = [value] * count if isinstance(value, int) else list(value)
    if any(is_node(each) for each in found):
        raise NotMapped("a window whose size is computed")
    return found * count if len(found) == 1 else found


def max_pool(dims: int) -> Row:
    def row(
        w: W,
        node: N,
        input: Any,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        return_indices: bool,
    ) -> str:
        if ceil_mode or return_indices:
            raise NotMapped("pooling with indices, or beyond the edge (ceil_mode)")
        window = _several(kernel_size, dims)
        found = w.add(
            "MaxPool",
            [_batched(w, input, dims)],
            kernel_shape=window,
            strides=_several(stride, dims) if stride else window,
            pads=_several(padding, dims) * 2,
            dilations=_several(dilation, dims),
        )
        return _unbatched(w, input, found, dims)

    return row


def average_pool(dims: int) -> Row:
    def row(
        w: W,
        node: N,
        input: Any,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any,
    ) -> str:
        if ceil_mode or divisor_override is not None:
            raise NotMapped("pooling with another divisor, or beyond the edge (ceil_mode)")
        window = _several(kernel_size, dims)
        found = w.add(
            "AveragePool",
            [_batched(w, input, dims)],
            kernel_shape=window,
            strides=_several(stride, dims) if stride else window,
            pads=_several(padding, dims) * 2,
            count_include_pad=int(count_include_pad),
        )
        return _unbatched(w, input, found, dims)

    return row


def adaptive(kind: str, dims: int) -> Row:
    def row(w: W, node: N, input: Any, output_size: Any) -> str:
        sizes = [output_size] if isinstance(output_size, int) else output_size
        if any(each != 1 for each in sizes):
            raise NotMapped("adaptive pooling to more than one element")
        return _unbatched(w, input, w.add(kind, [_batched(w, input, dims)]), dims)

    return row


def interpolate(
    w: W,
    node: N,
    input: Any,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: Any,
    antialias: bool,
) -> str:
    ways = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}
    if mode not in ways or antialias or (size is None) is (scale_factor is None):
        raise NotMapped(f"interpolation of mode {mode}")
    dims, name = w.rank(input) - 2, w.name(input)
    corners = "align_corners" if align_corners else "half_pixel"
    how = {
        "mode": ways[mode],
        "nearest_mode": "floor",
        "coordinate_transformation_mode": "asymmetric" if mode == "nearest" else corners,
    }
    if size is None:
        factors = [scale_factor] * dims if isinstance(scale_factor, int | float) else scale_factor
        if any(is_node(each) for each in factors):
            raise NotMapped("interpolation by a computed factor")
        scales = w.constant(torch.tensor([1.0, 1.0, *map(float, factors)]))
        return w.add("Resize", [name, "", scales], **how)
    wanted = list(size) if isinstance(size, tuple | list) else [size] * dims
    head = w.add("Slice", [w.add("Shape", [name]), w.constant([0]), w.constant([2])])
    sizes = w.add("Concat", [head, w.shape(wanted)], axis=0)
    return w.add("Resize", [name, "", "", sizes], **how)
