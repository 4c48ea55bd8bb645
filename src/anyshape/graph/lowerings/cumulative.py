"""Running sums and products, and differences of neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anyshape.graph.lowerings.concat import joined
from anyshape.graph.lowerings.permute import mapped
from anyshape.graph.lowerings.pointwise import op, test, where
from anyshape.graph.lowerings.reductions import as_dtype, from_zero, total_dtype
from anyshape.graph.lowerings.table import row
from anyshape.graph.lowerings.views import place, shifted
from anyshape.graph.pointwise_builder import elementwise
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Scalar
from anyshape.symbolic import Size

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def running_row(name: str, fold: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any, *, dtype: Any) -> Value:
        source = as_dtype(c, input, total_dtype(input.dtype, dtype))
        if not input.sizes:
            return source
        along = place(dim, len(input.sizes))
        if input.sizes[along] == 1:
            return from_zero(c, source) if fold == "sum" else source
        if source.factors is not None and len(source.factors[along]) != 1:
            # Merged dimensions are run through one by one elsewhere; here they are one.
            memory = c.materialize(source)
            source = c.values.new(source.sizes, source.dtype, None, memory=memory)
        return c.scan(fold, source, along, c.result)


running_row("cumsum", "sum")
running_row("cumprod", "prod")


def running_extreme_row(name: str, fold: str) -> None:
    """The largest so far, and where it was met last."""

    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any) -> tuple[Value, Value]:
        if not input.sizes or input.dtype == "b1":
            raise NotLowered("a running extreme of a single number, or of booleans")
        along = place(dim, len(input.sizes))
        if input.sizes[along] == 1:
            raise NotLowered("a running extreme along a dimension of size 1")
        # Read twice, and by itself: merged dimensions are one here.
        memory = c.materialize(input)
        source = c.values.new(input.sizes, input.dtype, None, memory=memory)
        extremes = c.scan(fold, source, along, c.result[0])

        def met(index: Index) -> Scalar:
            x, extreme = source.at(index), extremes.at(index)
            is_new = test("eq", x, extreme)
            if x.dtype in FLOATS:
                # Not a number is the extreme of all, each time anew.
                is_new = test("or", is_new, test("ne", x, x))
            here = expr.index(index[along])
            return where(is_new, here, expr.constant(0, "i64"))

        places = c.values.new(input.sizes, "i64", met, (source, extremes), cost=3)
        return extremes, c.scan("max", places, along, c.result[1])


running_extreme_row("cummax", "max")
running_extreme_row("cummin", "min")


#: Each doubles the work.
_MOST_DIFFERENCES: Final = 2


@row("diff")
def diff(c: Lowering, input: Value, n: Any, dim: Any, prepend: Any, append: Any) -> Value:
    if type(n) is not int or not 1 <= n <= _MOST_DIFFERENCES:
        raise NotLowered("many differences of differences")
    along = place(dim, len(input.sizes))
    ends = [each for each in (prepend, append) if each is not None]
    if any(not isinstance(each, Value) or each.dtype != input.dtype for each in ends):
        raise NotLowered("ends of another kind")
    if ends:
        parts = [each for each in (prepend, input, append) if each is not None]
        input = joined(c, parts, along, within=True)
    for left in reversed(range(n)):
        input = _differences(c, input, along, c.result.shape[along] + left)
    return input


def _differences(c: Lowering, input: Value, along: int, count: Size) -> Value:
    sizes = (*input.sizes[:along], count, *input.sizes[along + 1 :])
    before = mapped(c, input, sizes, lambda index: index)
    after = mapped(c, input, sizes, shifted(along, 1))
    if input.dtype == "b1":
        return elementwise(c, lambda a, b: test("ne", a, b), after, before, gives="b1")
    return elementwise(c, lambda a, b: op("sub", a, b), after, before)
