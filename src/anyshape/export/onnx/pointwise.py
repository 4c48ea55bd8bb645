"""Pointwise operators without a row: their native code as nodes of the model.

What an operator computes for one element is written once, as an expression (`ops/families`). Here
it is asked for with the arguments' elements as loads, and written node by node; ONNX broadcasts as
torch does. An expression that reads an argument elsewhere than at the same place is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOAT8, FLOATS, Scalar
from anyshape.ops.bind import OpCall
from anyshape.ops.lowering.pointwise_builder import broadcast_index
from anyshape.ops.lowering.scalars import TORCH_DTYPES, short
from anyshape.ops.lowering.values import Index, NotLowered, Value, Values
from anyshape.ops.meta import of_tensor
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node
from anyshape.ops.op import NATIVE, Op, OpKind
from anyshape.ops.signature import not_taken, taken_by
from anyshape.symbolic import Fact, Facts, Size, symbol


def is_derived(op: Op) -> bool:
    return op.lowering is OpKind.POINTWISE and op.name in NATIVE


def written_pointwise(w: Writer, node: Node, call: OpCall) -> str:
    """The result of a pointwise operator, by its native code."""
    row = NATIVE[call.op.name]
    with expr.fresh_scope():
        asked = _Asked(w, node)
        try:
            arguments = {name: asked.value(each) for name, each in call.arguments.items()}
            for name in not_taken(row, call.op, arguments):
                raise NotMapped(f"`{call.op.name}` with `{name}`")
            made = row(asked, **taken_by(row, arguments))
            if not isinstance(made, Value):
                raise NotMapped(f"`{call.op.name}`: it gives several")
            sizes = _tensor(w.example(node)).shape
            index = tuple(symbol(f"i{dim}") if n != 1 else 0 for dim, n in enumerate(sizes))
            name = _Nodes(w, asked, tuple(sizes), index).of(made.at(index))
        except NotLowered as why:
            raise NotMapped(f"`{call.op.name}`: {why}") from None
        return name if TORCH_DTYPES[made.dtype] is w.dtype(node) else w.cast(name, w.dtype(node))


class _Asked:
    """What pointwise rows ask of a lowering, at the sizes of the example."""

    def __init__(self, w: Writer, node: Node) -> None:
        self._w = w
        self.facts = Facts()
        self.values = Values()
        example = w.example(node)
        self.result = of_tensor(_tensor(example))
        #: whether it computes a number of numbers
        self._is_number = not isinstance(example, torch.Tensor)
        #: the arguments that loads stand for
        self.loaded: dict[str, tuple[Any, tuple[int, ...]]] = {}

    def value(self, argument: Any) -> Any:
        example = self._w.example(argument)
        if self._is_number and type(example) in (int, float):
            example = _tensor(example)
        elif not is_node(argument) and not isinstance(argument, torch.Tensor):
            return argument
        if not isinstance(example, torch.Tensor):
            raise NotMapped("a number that is not a constant, where it has to be known")
        name, sizes = f"a{len(self.loaded)}", tuple(example.shape)
        self.loaded[name] = (argument, sizes)
        dtype = short(example.dtype)
        return self.values.new(
            sizes, dtype, lambda index: expr.load(name, _address(sizes, index), dtype)
        )

    def same(self, a: Size, b: Size) -> bool:
        return a == b

    def same_sizes(self, a: Any, b: Any) -> bool:
        return tuple(a) == tuple(b)

    def assume(self, fact: Fact, why: str) -> None:
        raise NotMapped(why)

    on_gpu = False

    def needs_library(self) -> None:
        """The model's runtime is one."""

    def __getattr__(self, name: str) -> Any:
        raise NotMapped("more than an expression of its arguments")


def _tensor(example: Any) -> torch.Tensor:
    return example if isinstance(example, torch.Tensor) else torch.tensor(example)


def _address(sizes: tuple[int, ...], index: Index) -> Size:
    address: Size = 0
    for at, size in zip(index, sizes, strict=True):
        address = address * size + (at if size != 1 else 0)
    return address


class _Nodes:
    """Scalars as nodes, each once."""

    def __init__(self, w: Writer, asked: _Asked, sizes: tuple[int, ...], index: Index) -> None:
        self._w, self._asked = w, asked
        self._sizes, self._index = sizes, index
        self._known: dict[Scalar, str] = {}

    def of(self, scalar: Scalar) -> str:
        found = self._known.get(scalar)
        if found is None:
            found = self._known[scalar] = self._made(scalar)
        return found

    def _made(self, scalar: Scalar) -> str:
        w = self._w
        match scalar.op:
            case "constant":
                return w.constant(torch.tensor(scalar.data, dtype=TORCH_DTYPES[scalar.dtype]))
            case "load":
                return self._argument(scalar)
            case "cast":
                return self._cast(scalar)
            case _:
                row = _ROWS.get(scalar.op)
                if row is None:
                    raise NotMapped(f"`{scalar.op}` of an element")
                return row(w, scalar, [self.of(arg) for arg in scalar.args])

    def _argument(self, scalar: Scalar) -> str:
        argument, sizes = self._asked.loaded[scalar.data[0]]
        if scalar.args or scalar.data[1] != _address(
            sizes, broadcast_index(sizes, self._sizes, self._index)
        ):
            raise NotMapped("an element that is read elsewhere")
        return self._w.name(argument)

    def _cast(self, scalar: Scalar) -> str:
        (source,) = scalar.args
        if scalar.dtype in FLOAT8:
            raise NotMapped(f"elements of {TORCH_DTYPES[scalar.dtype]}")
        if source.dtype in FLOATS and scalar.dtype not in (*FLOATS, "b1"):
            raise NotMapped("floats as integers, which runtimes round in their own ways")
        return self._w.cast(self.of(source), TORCH_DTYPES[scalar.dtype])


_Row = Callable[[Writer, Scalar, list[str]], str]


def _plain(kind: str, **attributes: Any) -> _Row:
    return lambda w, scalar, args: w.add(kind, args, **attributes)


def _of_bits(of_bools: str, of_integers: str) -> _Row:
    def row(w: Writer, scalar: Scalar, args: list[str]) -> str:
        return w.add(of_bools if scalar.args[0].dtype == "b1" else of_integers, args)

    return row


def _not_equal(w: Writer, scalar: Scalar, args: list[str]) -> str:
    return w.add("Not", [w.add("Equal", args)])


def _number(w: Writer, scalar: Scalar, value: float) -> str:
    return w.constant(torch.tensor(value, dtype=TORCH_DTYPES[scalar.args[0].dtype]))


def _is_infinite(w: Writer, scalar: Scalar, args: list[str]) -> str:
    return w.add("Equal", [w.add("Abs", args), _number(w, scalar, math.inf)])


def _is_finite(w: Writer, scalar: Scalar, args: list[str]) -> str:
    return w.add("Less", [w.add("Abs", args), _number(w, scalar, math.inf)])


def _is_nan(w: Writer, scalar: Scalar, args: list[str]) -> str:
    return w.add("Not", [w.add("Equal", [args[0], args[0]])])


def _extreme(sign: str) -> _Row:
    """With NaN handed on, as in native code: what runtimes do with it is their own."""

    def row(w: Writer, scalar: Scalar, args: list[str]) -> str:
        a, b = args
        chosen = w.add("Where", [w.add(sign, [a, b]), a, b])
        if scalar.dtype not in FLOATS:
            return chosen
        return w.add("Where", [_is_nan(w, scalar, [a]), a, chosen])

    return row


def _towards_zero(w: Writer, scalar: Scalar, args: list[str]) -> str:
    negative = w.add("Less", [args[0], _number(w, scalar, 0.0)])
    return w.add("Where", [negative, w.add("Ceil", args), w.add("Floor", args)])


def _logarithm(base: float) -> _Row:
    def row(w: Writer, scalar: Scalar, args: list[str]) -> str:
        return w.add("Div", [w.add("Log", args), _number(w, scalar, math.log(base))])

    return row


def _log1p(w: Writer, scalar: Scalar, args: list[str]) -> str:
    """log(u) * x / (u - 1) for u = 1 + x as it is rounded: exact for small numbers too."""
    one = _number(w, scalar, 1.0)
    u = w.add("Add", [args[0], one])
    ratio = w.add("Div", [args[0], w.add("Sub", [u, one])])
    far = w.add("Greater", [args[0], one])
    log = w.add("Log", [u])
    exact = w.add("Where", [far, log, w.add("Mul", [log, ratio])])
    return w.add("Where", [w.add("Equal", [u, one]), args[0], exact])


def _expm1(w: Writer, scalar: Scalar, args: list[str]) -> str:
    """(u - 1) * x / log(u) for u = exp(x) as it is rounded, where that has no other end."""
    one = _number(w, scalar, 1.0)
    u = w.add("Exp", args)
    plain = w.add("Sub", [u, one])
    exact = w.add("Mul", [plain, w.add("Div", [args[0], w.add("Log", [u])])])
    near = w.add("Less", [w.add("Abs", args), _number(w, scalar, 0.5)])
    found = w.add("Where", [near, exact, plain])
    return w.add("Where", [w.add("Equal", [u, one]), args[0], found])


#: Operations that ONNX calls the same.
_ALIKE: Final = (
    "add sub mul div neg abs sign floor ceil round sqrt exp log sin cos tan asin acos atan sinh"
    " cosh tanh asinh acosh atanh sigmoid erf pow"
)

_ROWS: Final[dict[str, _Row]] = {
    **{name: _plain(name.capitalize()) for name in _ALIKE.split()},
    "where": _plain("Where"),
    "eq": _plain("Equal"),
    "ne": _not_equal,
    "lt": _plain("Less"),
    "le": _plain("LessOrEqual"),
    "gt": _plain("Greater"),
    "ge": _plain("GreaterOrEqual"),
    "and": _of_bits("And", "BitwiseAnd"),
    "or": _of_bits("Or", "BitwiseOr"),
    "xor": _of_bits("Xor", "BitwiseXor"),
    "not": _of_bits("Not", "BitwiseNot"),
    "isnan": _is_nan,
    "isinf": _is_infinite,
    "isfinite": _is_finite,
    "minimum": _extreme("Less"),
    "maximum": _extreme("Greater"),
    "trunc": _towards_zero,
    "truncdiv": _plain("Div"),
    "log2": _logarithm(2.0),
    "log10": _logarithm(10.0),
    "log1p": _log1p,
    "expm1": _expm1,
    "exp2": lambda w, scalar, args: w.add("Pow", [_number(w, scalar, 2.0), args[0]]),
    "erfc": lambda w, scalar, args: w.add("Sub", [_number(w, scalar, 1.0), w.add("Erf", args)]),
    "rsqrt": lambda w, scalar, args: w.add("Reciprocal", [w.add("Sqrt", args)]),
    "fmod": _plain("Mod", fmod=1),
    "silu": lambda w, scalar, args: w.add("Mul", [args[0], w.add("Sigmoid", args)]),
}
