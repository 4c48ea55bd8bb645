"""Arithmetic and mathematics, element by element: broadcast, promote, keep the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from anyshape.ops.broadcast import broadcast
from anyshape.ops.iteration import iterated_layout
from anyshape.ops.meta import Meta
from anyshape.ops.op import DIVIDES, PURE, Effects, Op, OpKind, Rule
from anyshape.ops.promotion import Number, category, floating, real, result_type
from anyshape.ops.shape_query import ShapeQuery

DtypeRule = Callable[[torch.dtype], torch.dtype]
Operand = Meta | Number

_HOMES = ("torch", "torch.Tensor", "torch.special", "torch.nn.functional", "torch._C._nn")


def same(dtype: torch.dtype) -> torch.dtype:
    return dtype


def boolean(dtype: torch.dtype) -> torch.dtype:
    return torch.bool


def integer(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a power of integers: booleans count."""
    return torch.int64 if dtype is torch.bool else dtype


def widest(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def elementwise(q: ShapeQuery, operands: tuple[Operand, ...], dtype: DtypeRule) -> Meta:
    """The result of computing element by element on broadcast operands."""
    tensors = [operand for operand in operands if isinstance(operand, Meta)]
    if not tensors:
        raise q.fail("at least one tensor is needed")
    if len(operands) == 1:
        found = tensors[0].dtype
    else:
        try:
            found = result_type(operands)
        except RuntimeError as error:  # unsigned integers wider than a byte join with nothing
            raise q.fail(str(error)) from None
    return fresh(q, tensors, dtype(found), numbers=len(tensors) < len(operands))


def fresh(q: ShapeQuery, tensors: list[Meta], dtype: torch.dtype, *, numbers: bool = False) -> Meta:
    """A result of the shape and the layout that these tensors give it; `numbers` if there were
    numbers among the operands, too."""
    shape, device = tensors[0].shape, tensors[0].device
    if len(tensors) > 1:
        shape = broadcast(q, [tensor.shape for tensor in tensors])
        for tensor in tensors:
            if tensor.device != device and device.type == "cpu":
                device = tensor.device  # A tensor without dimensions may stay behind on the CPU.
    return Meta(shape, dtype, iterated_layout(q, shape, tensors, numbers=numbers), device)


def everywhere(*names: str) -> tuple[str, ...]:
    """These names wherever torch keeps operators; the table passes over those it lacks."""
    return tuple(f"{home}.{name}" for name in names for home in _HOMES)


def pointwise_row(
    name: str,
    rule: Rule,
    *aliases: str,
    methods: Iterable[str] = (),
    differentiable: bool = True,
    signature: str | None = None,
    effects: Effects = PURE,
) -> Op:
    """An operator with its aliases and in-place forms; `methods` are Python's (`__add__`)."""
    names = (name, *aliases)
    plain = [method for method in methods if not _is_in_place(method)]
    return Op(
        name,
        everywhere(*names) + tuple(f"torch.Tensor.{method}" for method in plain),
        rule,
        OpKind.POINTWISE,
        in_place=everywhere(*(f"{name}_" for name in names))
        + tuple(f"torch.Tensor.{method}" for method in methods if method not in plain),
        differentiable=differentiable,
        signature=signature,
        effects=effects,
    )


def _is_in_place(method: str) -> bool:
    return method.startswith("__i") and method != "__invert__"


def unary(dtype: DtypeRule) -> Rule:
    def rule(q: ShapeQuery, input: Meta) -> Meta:
        return Meta(
            input.shape,
            dtype(input.dtype),
            iterated_layout(q, input.shape, (input,)),
            input.device,
        )

    return rule


def binary(dtype: DtypeRule) -> Rule:
    def rule(q: ShapeQuery, input: Operand, other: Operand) -> Meta:
        return elementwise(q, (input, other), dtype)

    return rule


def reflected(rule: Rule) -> Rule:
    """The rule of `other - input` from that of `input - other`."""

    def swapped(q: ShapeQuery, input: Meta, other: Operand) -> Meta:
        return rule(q, other, input)

    return swapped


def _add(q: ShapeQuery, input: Operand, other: Operand, *old: Operand, alpha: Number = 1) -> Meta:
    """`input + alpha * other`; an old form has alpha in second place."""
    return elementwise(q, (input, *(old or (other,))), same)


def _divide(
    q: ShapeQuery, input: Operand, other: Operand, *, rounding_mode: str | None = None
) -> Meta:
    if rounding_mode not in (None, "floor", "trunc"):
        raise q.fail(f"no rounding mode {rounding_mode!r}")
    return elementwise(q, (input, other), floating if rounding_mode is None else same)


def _power(dtype: DtypeRule) -> Rule:
    def rule(q: ShapeQuery, input: Operand, exponent: Operand) -> Meta:
        power = elementwise(q, (input, exponent), dtype)
        # A number to the power of a tensor does not look at the tensor's layout.
        return power if isinstance(input, Meta) else power.like()

    return rule


def _heaviside(q: ShapeQuery, input: Meta, values: Meta) -> Meta:
    return elementwise(q, (input, values), same)


def _polynomial(q: ShapeQuery, input: Operand, n: Operand) -> Meta:
    return elementwise(q, (input, n), floating)


def _ldexp(q: ShapeQuery, input: Meta, other: Operand) -> Meta:
    return elementwise(q, (input, _power(same)(q, 2.0, other)), same)


def _frexp(q: ShapeQuery, input: Meta) -> tuple[Meta, Meta]:
    mantissa = elementwise(q, (input,), same)
    return mantissa, mantissa.like(dtype=torch.int32, layout=mantissa.layout)


def _polygamma(q: ShapeQuery, n: int | Meta, input: Meta | int) -> Meta:
    """The method takes the tensor first, the function last."""
    tensor = input if isinstance(input, Meta) else n
    assert isinstance(tensor, Meta), "one of the two is the tensor"
    return elementwise(q, (tensor,), floating)


def _mvlgamma(q: ShapeQuery, input: Meta, p: int) -> Meta:
    return input.like(dtype=floating(input.dtype))


def _lerp(q: ShapeQuery, input: Meta, end: Meta, weight: Operand) -> Meta:
    tensors = [operand for operand in (input, end, weight) if isinstance(operand, Meta)]
    return fresh(q, tensors, input.dtype)


def _fused(
    q: ShapeQuery, input: Meta, tensor1: Any, tensor2: Any = None, *old: Any, value: Number = 1
) -> Meta:
    """`input + value * tensor1 ∘ tensor2`; an old form has the value in second place."""
    if not isinstance(tensor1, Meta):
        (tensor1, tensor2) = (tensor2, *old)
    return elementwise(q, (input, tensor1, tensor2), same)


def _clamp(
    q: ShapeQuery, input: Meta, min: Operand | None = None, max: Operand | None = None
) -> Meta:
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        raise q.fail("at least one of `min` and `max` must be given")
    return elementwise(q, (input, *bounds), same)


def _clamp_min(q: ShapeQuery, input: Meta, min: Operand) -> Meta:
    return elementwise(q, (input, min), same)


def _clamp_max(q: ShapeQuery, input: Meta, max: Operand) -> Meta:
    return elementwise(q, (input, max), same)


def _positive(q: ShapeQuery, input: Meta) -> Meta:
    if category(input.dtype) == 0:
        raise q.fail("`+` is not defined for booleans")
    return input


#: name and aliases, by the dtype of the result
_UNARY: dict[DtypeRule, tuple[str, ...]] = {
    floating: (
        "acos arccos", "acosh arccosh", "airy_ai", "asin arcsin", "asinh arcsinh", "atan arctan",
        "atanh arctanh", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "cos", "cosh",
        "deg2rad",
        "digamma psi", "entr", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "expm1", "i0",
        "i0e",
        "i1", "i1e", "lgamma gammaln", "log", "log10", "log1p", "log2", "log_ndtr", "logit",
        "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
        "ndtr", "ndtri", "rad2deg", "reciprocal", "rsqrt",
        "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sigmoid expit", "sin", "sinc",
        "sinh", "spherical_bessel_j0", "sqrt", "tan", "tanh",
    ),
    same: (
        "bitwise_not", "ceil", "floor", "frac", "nan_to_num", "neg negative", "round", "sgn",
        "sign",
        "trunc fix",
    ),
    integer: ("square",),
    real: ("abs absolute",),
}  # fmt: skip

_BINARY: dict[DtypeRule, tuple[str, ...]] = {
    floating: (
        "atan2 arctan2", "copysign", "true_divide", "xlog1py", "xlogy", "zeta",
    ),
    same: (
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
        "fmax",
        "fmin", "floor_divide", "fmod", "gcd", "hypot", "igamma gammainc",
        "igammac gammaincc", "lcm", "logaddexp", "logaddexp2", "maximum", "minimum", "mul multiply",
        "nextafter", "remainder",
    ),
}  # fmt: skip

_POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
    "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)  # fmt: skip

#: In their names: torch has no derivatives of these functions.
_WITHOUT_GRADIENT = ("airy", "bessel", "polynomial")

#: Python's own methods for an operator; those with `__i` work in place.
_METHODS = {
    "abs": "__abs__",
    "add": "__add__ __radd__ __iadd__",
    "bitwise_and": "__and__ __rand__ __iand__",
    "bitwise_left_shift": "__lshift__ __ilshift__",
    "bitwise_not": "__invert__",
    "bitwise_or": "__or__ __ror__ __ior__",
    "bitwise_right_shift": "__rshift__ __irshift__",
    "bitwise_xor": "__xor__ __rxor__ __ixor__",
    "div": "__div__ __truediv__ __idiv__ __itruediv__",
    "floor_divide": "__floordiv__ __ifloordiv__",
    "mul": "__mul__ __rmul__ __imul__",
    "neg": "__neg__",
    "pow": "__pow__ __ipow__",
    "remainder": "__mod__ __imod__",
    "sub": "__sub__ __isub__",
}

#: The parameters of those whose result does not depend on all of them.
_SIGNATURES = {
    "logit": "input, eps=None",
    "nan_to_num": "input, nan=None, posinf=None, neginf=None",
    "round": "input, *, decimals=0",
}

_EFFECTS = {
    **dict.fromkeys(("floor_divide", "fmod", "remainder", "__rfloordiv__", "__rmod__"), DIVIDES),
    "div": Effects(divides=True, given="rounding_mode"),
}

#: Methods that take their operands in the other order.
_REFLECTED: dict[str, Rule] = {
    "__rtruediv__ __rdiv__": _divide,
    "__rfloordiv__": binary(same),
    "__rmod__": binary(same),
    "__rlshift__ __rrshift__": binary(same),
    "__rpow__": _power(same),
    "__rsub__": binary(same),
}


def _row(names: str, rule: Rule) -> Op:
    name, *aliases = names.split()
    return pointwise_row(
        name,
        rule,
        *aliases,
        methods=_METHODS.get(name, "").split(),
        differentiable=not any(kind in name for kind in _WITHOUT_GRADIENT),
        signature=_SIGNATURES.get(name),
        effects=_EFFECTS.get(name, PURE),
    )


ROWS = (
    *(_row(names, unary(dtype)) for dtype, listed in _UNARY.items() for names in listed),
    *(_row(names, binary(dtype)) for dtype, listed in _BINARY.items() for names in listed),
    _row("add", _add),
    _row("sub subtract", _add),
    _row("div divide", _divide),
    _row("pow", _power(same)),
    _row("float_power", _power(widest)),
    _row("heaviside", _heaviside),
    *(_row(name, _polynomial) for name in _POLYNOMIALS),
    _row("ldexp", _ldexp),
    _row("frexp", _frexp),
    _row("polygamma", _polygamma),
    _row("mvlgamma multigammaln", _mvlgamma),
    _row("lerp", _lerp),
    _row("addcmul", _fused),
    _row("addcdiv", _fused),
    _row("clamp clip", _clamp),
    _row("clamp_min", _clamp_min),
    _row("clamp_max", _clamp_max),
    Op(
        "rsub",
        everywhere("rsub"),
        reflected(binary(same)),
        OpKind.POINTWISE,
        signature="input, other, alpha=1",
    ),
    Op("positive", (*everywhere("positive"), "torch.Tensor.__pos__"), _positive, OpKind.NOTHING),
    *(
        Op(
            methods.split()[0],
            tuple(f"torch.Tensor.{method}" for method in methods.split()),
            reflected(rule),
            OpKind.POINTWISE,
            effects=_EFFECTS.get(methods, PURE),
        )
        for methods, rule in _REFLECTED.items()
    ),
)
