"""Attention that a program spells out becomes one kernel, which never has all scores in memory.

    scores = where(mask, bias + scale * (query @ key.T), -inf)      # anything that is elementwise
    softmax(scores, -1) @ value

`flex_attention` is captured so, with zeros for rows that see no key; so is what people write by
hand. The walk through the graph puts off what comes behind the scores until the last product: if
the whole is not one kernel, these nodes are lowered there as any others, and the product of query
and key, which is a step by then, stays. If it is, nobody reads that product, and the step goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, Protocol

import torch
import torch.fx

from anyshape.graph.aliasing import TensorView
from anyshape.graph.plan import BufferDecl, PythonCall, Step, computing
from anyshape.loops import expr
from anyshape.loops.attention import (
    CHUNK,
    LARGEST,
    LOGSUMEXP,
    MEAN,
    MOST_COLUMNS_ON_GPUS,
    MOST_PLAIN_COLUMNS_ON_GPUS,
    PRODUCT,
    AttentionParts,
    attention_kernel,
)
from anyshape.loops.expr import Axis, Dtype, Scalar
from anyshape.loops.linear import coefficient
from anyshape.loops.substitute import Rewriting
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.lowering.scalars import op
from anyshape.ops.lowering.values import Lowering, Memory, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT
from anyshape.ops.op import OpKind
from anyshape.ops.table import lookup
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Size, eq
from anyshape.symbolic.expr import of_atom

#: Vectors run along the queries. Of fewer, scores take little memory.
FEWEST_QUERIES: Final = 16
#: Depth and width together, of which tiles stay in caches: the library's products are faster beyond
#: (1.3 times at 1,024, measured), unless a mask leaves much out.
_MOST_COLUMNS: Final = 384
_MOST_COLUMNS_OF_MASKED: Final = 1024
#: Keys and values of so many queries are stored anew if their rows are so far apart (heads side by
#: side): lines of a tile would drive one another out of the cache.
_MANY_QUERIES: Final = 64
_FAR_APART: Final = 256
#: The first compute capability whose tensor cores take bfloat16.
_TENSOR_CORES: Final = (8, 0)
#: Scalars that scores may be made of.
_MOST_SCALARS: Final = 300
_PRODUCTS: Final = ("matmul", "bmm")
_LAST: Final = -1


class Walk(Lowering, Protocol):
    """The lowering of a graph, node by node."""

    steps: list[Step]
    held: dict[str, BufferDecl]
    native: dict[str, int]
    fused: set[str]
    unfused: dict[str, str]
    device: torch.device

    def handle(self, node: object) -> TensorView | None: ...
    def begin(self, node: torch.fx.Node) -> None: ...
    def lower_node(self, node: torch.fx.Node) -> None: ...
    def bind_value(self, node: torch.fx.Node, value: Value) -> None: ...
    def live_buffers(self, but: set[torch.fx.Node]) -> set[str]: ...


class _NotFused(Exception):
    """Attention stays several steps, and why."""


@dataclass(slots=True, eq=False)
class _Factors:
    """The product of query and key, and where it is."""

    axes: list[Axis]
    query: Value
    key: Value
    #: their elements, if these are read where the program has them
    elements: list[Scalar | None]
    memory: Memory
    dtype: Dtype
    #: what the plan has for it, the product itself last
    steps: list[Step]
    #: how many buffers there were behind it, with those that factors are stored in for it
    held: int


@dataclass(slots=True, eq=False)
class _Attention:
    """Nodes of a graph that are attention."""

    product: torch.fx.Node
    scores: torch.fx.Node
    #: from the product to the scores
    path: set[torch.fx.Node]
    #: from the scores to the last product
    tail: list[torch.fx.Node]
    last: torch.fx.Node
    value: torch.fx.Node
    is_zero_if_empty: bool
    #: what else is asked of scores, behind the last product
    beside: dict[torch.fx.Node, str] = field(default_factory=dict)


class AttentionFusion:
    """What the walk through a graph asks at each node."""

    def __init__(self, lowering: Walk, nodes: Sequence[torch.fx.Node]) -> None:
        self._lowering = lowering
        is_old = lowering.on_gpu and not _has_tensor_cores(lowering.device)
        found = [] if is_old else _attentions(nodes)
        self._by_product = {each.product: each for each in found}
        self._by_last = {each.last: each for each in found}
        #: nodes that are lowered with the last product: before their turn, or behind it
        self.deferred = {node for each in found for node in each.tail}
        #: nodes whose values stay expressions
        self.unstored = {node for each in found for node in each.path}
        self._factors: dict[_Attention, _Factors] = {}

    def lower(self, node: torch.fx.Node) -> Sequence[torch.fx.Node]:
        """Lower a node, and those that were put off until it; gives these."""
        lowering = self._lowering
        if node in self._by_product:
            self._lower_product(self._by_product[node])
            return ()
        attention = self._by_last.get(node)
        if attention is None:
            lowering.lower_node(node)
            return ()
        try:
            self._fuse(attention)
        except (_NotFused, NotLowered) as why:
            lowering.unfused.setdefault("attention", str(why))
            self.unstored -= attention.path
            for each in (*attention.tail, node):
                lowering.lower_node(each)
            return attention.tail
        lowering.fused.add("attention")
        self.deferred |= attention.beside.keys()
        together = (*attention.tail, *attention.beside)
        for each in (*together, node):
            name, _ = _call(each)
            lowering.native[name] = lowering.native.get(name, 0) + 1
        return together

    def _lower_product(self, attention: _Attention) -> None:
        """Also note what is multiplied: it may have been stored anew for the library."""
        lowering, node = self._lowering, attention.product
        steps = len(lowering.steps)
        left, right = (lowering.handle(each) for each in _factor_nodes(node))
        shown = None
        if left is not None and right is not None:
            query, key = left.value(lowering.values), right.value(lowering.values)
            if len(query.sizes) == len(key.sizes) >= 2:
                sizes = (*query.sizes, key.sizes[_LAST])
                axes = [lowering.values.axis(size) for size in sizes]
                *batch, row, depth, column = (of_atom(axis.symbol) for axis in axes)
                places = ((*batch, row, depth), (*batch, depth, column))
                elements = [_plain(each, at) for each, at in zip((query, key), places, strict=True)]
                shown = axes, query, key, elements
        lowering.lower_node(node)
        made = lowering.handle(node)
        value = None if made is None else made.value(lowering.values)
        if shown is not None and value is not None and value.memory is not None:
            own = lowering.steps[steps:]
            if own:
                made_of = _Factors(*shown, value.memory, value.dtype, own, len(lowering.held))
                self._factors[attention] = made_of

    # -- the kernel ----------------------------------------------------------------------------

    def _fuse(self, attention: _Attention) -> None:
        lowering = self._lowering
        factors = self._factors.pop(attention, None)
        handle, given = map(lowering.handle, (attention.scores, attention.value))
        if factors is None or handle is None or given is None:
            raise _NotFused("a tensor that only Python handles")
        scores, value = handle.value(lowering.values), given.value(lowering.values)
        lowering.begin(attention.last)
        self._check(factors, scores, value)
        *batch, queries, depth, keys = factors.axes
        width = lowering.values.axis(value.sizes[_LAST])
        outer = tuple(of_atom(axis.symbol) for axis in (*batch, queries))
        along = of_atom(keys.symbol)
        score, product = self._score(factors, scores, (*outer, along))
        row = (*outer, of_atom(depth.symbol))
        column = (*outer[:-1], of_atom(depth.symbol), along)
        sums = (*outer[:-1], along, of_atom(width.symbol))
        score, seen = _without_mask(score)
        self._check_columns(depth, width, value.dtype, is_masked=seen is not None)
        begun = len(lowering.steps)
        key = factors.elements[1] or factors.key.at(column)
        if not lowering.on_gpu and self._is_far_apart(key, keys, depth, queries):
            key = self._copied(factors.key, turned=True).at((*column[:-2], *column[:-3:-1]))
        values = _plain(value, sums) or self._stored(value).at(sums)
        if not lowering.on_gpu and self._is_far_apart(values, keys, width, queries):
            values = self._copied(value, turned=False).at(sums)
        parts = AttentionParts(
            query=factors.elements[0] or factors.query.at(row),
            key=key,
            value=values,
            score=score,
            product=product,
            seen=seen,
            finite=None if seen is None else self._finite(value, outer[:-1]),
            is_zero_if_empty=attention.is_zero_if_empty,
        )
        sizes = (*scores.sizes[:-1], value.sizes[_LAST])
        made, memory = lowering.fresh(sizes, value.dtype)
        place = memory.address((*outer, of_atom(width.symbol)))
        results: dict[str, tuple[str, Size, Dtype]] = {MEAN: (memory.buffer, place, value.dtype)}
        beside: dict[torch.fx.Node, Value] = {}
        for node, name in attention.beside.items():
            beside[node], memory = lowering.fresh(scores.sizes[:-1], factors.dtype)
            results[name] = memory.buffer, memory.address(outer), factors.dtype
        columns = [self._known(axis) for axis in (depth, width)]
        inner = (keys, columns[0], columns[1])
        kernel = attention_kernel((*batch, queries), inner, parts, results)
        step = computing(kernel)
        if kernel.stages[0].checks:
            raise _NotFused("scores with an index that is checked where it is used")
        copying = lowering.steps[begun:]
        self._check_unwritten(factors, step.reads.union(*(each.reads for each in copying)))
        for before, after in zip((depth, width), columns, strict=True):
            lowering.assume(eq(before.extent, after.extent), "heads of a width that differs")
        lowering.bind_value(attention.last, made)
        for node, found in beside.items():
            lowering.bind_value(node, found)
        lowering.begin(attention.last)
        lowering.steps.append(step)
        self._forget_product(attention, factors)

    def _check(self, factors: _Factors, scores: Value, value: Value) -> None:
        lowering = self._lowering
        *batch, queries, depth, keys = (axis.extent for axis in factors.axes)
        kept = ("f32", *expr.HALVES) if lowering.on_gpu else ("f32", "f64")
        if factors.dtype not in kept or scores.dtype != factors.dtype:
            raise _NotFused(f"scores of {expr.FULL_NAMES[scores.dtype]}, which are rounded")
        if value.dtype not in expr.FLOATS:
            raise _NotFused("values that are no floats")
        if expr.WIDTH[value.dtype] > expr.WIDTH[scores.dtype]:
            raise _NotFused("values of a wider dtype than scores")
        if scores.memory not in (None, factors.memory):
            raise _NotFused("scores that are needed elsewhere, too")
        if isinstance(queries, int) and queries < FEWEST_QUERIES:
            raise _NotFused(f"fewer than {FEWEST_QUERIES} queries")
        key = factors.key
        if (
            len(value.sizes) != len(scores.sizes)
            or not lowering.same_sizes(scores.sizes, (*batch, queries, keys))
            or not lowering.same_sizes(value.sizes[:-1], (*batch, keys))
            or not lowering.same_sizes(key.sizes, (*batch, depth, keys))
        ):
            raise _NotFused("sizes that are broadcast")
        if 0 in (*batch, queries, depth, keys, value.sizes[_LAST]):
            raise _NotFused("no elements")

    def _check_columns(self, depth: Axis, width: Axis, dtype: Dtype, *, is_masked: bool) -> None:
        found = [self._lowering.facts.hint(axis.extent) or 0 for axis in (depth, width)]
        if self._lowering.on_gpu:
            for_tensor_cores = dtype in expr.HALVES and not any(n % CHUNK for n in found)
            most = MOST_COLUMNS_ON_GPUS if for_tensor_cores else MOST_PLAIN_COLUMNS_ON_GPUS
            if not all(1 <= number <= most for number in found):
                raise _NotFused("columns that are more than registers hold")
            return
        if sum(found) > (_MOST_COLUMNS_OF_MASKED if is_masked else _MOST_COLUMNS):
            raise _NotFused("columns that are many, of which the library's products are faster")

    def _known(self, axis: Axis) -> Axis:
        """Its extent is in a GPU's code: registers have no numbers that a program could count."""
        found = self._lowering.facts.hint(axis.extent) if self._lowering.on_gpu else None
        return axis if found is None else Axis(axis.symbol, found)

    def _is_far_apart(self, scalar: Scalar, keys: Axis, columns: Axis, queries: Axis) -> bool:
        """Whether rows of many tiles are, in the run at hand."""
        hint = self._lowering.facts.hint
        load = scalar.args[0] if scalar.op == "cast" else scalar
        if load.op != "load" or (hint(queries.extent) or 0) < _MANY_QUERIES:
            return False
        _, address = load.data
        found = [coefficient(address, axis.symbol) for axis in (keys, columns)]
        steps = [0 if each is None else hint(each[0]) or 0 for each in found]
        return max(steps) >= _FAR_APART and steps != [hint(columns.extent), 1]

    def _copied(self, value: Value, *, turned: bool) -> Value:
        """In memory of its own; `turned`: with its last two dimensions exchanged."""

        def at(index: tuple[Size, ...]) -> Scalar:
            return value.at((*index[:-2], *index[:-3:-1]) if turned else index)

        sizes = (*value.sizes[:-2], *value.sizes[:-3:-1]) if turned else value.sizes
        copy = self._lowering.values.new(sizes, value.dtype, at, (value,))
        self._lowering.materialize(copy)
        return copy

    def _score(
        self, factors: _Factors, scores: Value, index: tuple[Size, ...]
    ) -> tuple[Scalar, Scalar]:
        """A score as an expression of a product, and the row that stands for that."""
        memory = factors.memory
        symbols = frozenset(axis.symbol for axis in factors.axes)
        product = expr.row(PRODUCT, factors.dtype, symbols - {factors.axes[-2].symbol})
        whole = expr.load(memory.buffer, memory.address(index), factors.dtype)
        while folded := [each for each in expr.reached([scores.at(index)]) if each.op == "reduce"]:
            self._store_reduction(folded[0], memory.buffer)
        found = Rewriting({whole: product}.get)(scores.at(index))
        if len(list(expr.reached([found]))) > _MOST_SCALARS:
            raise _NotFused("scores that take long to compute")
        return found, product

    def _store_reduction(self, scalar: Scalar, product: str) -> None:
        """A sum that scores are made of is a tensor of its own, unless it is one of products."""
        _, axes = scalar.data
        value = self._lowering.values.reductions.get(axes[0].symbol)
        if value is None or value.memory is not None or product in value.buffers():
            raise _NotFused("scores that depend on whole rows")
        self._lowering.materialize(value)

    def _stored(self, value: Value) -> Value:
        if value.memory is None:
            self._lowering.materialize(value)
        return value

    def _finite(self, value: Value, batch: tuple[Size, ...]) -> Scalar:
        """Whether all values of a batch are."""
        lowering, rank = self._lowering, len(value.sizes)
        each = lowering.values.new(
            value.sizes, "b1", lambda index: _is_finite(value.at(index)), (value,), cost=1
        )
        dims = [rank - 2, rank - 1]
        found = lowering.values.reduction("all", each, dims, "b1", keep=False)
        lowering.materialize(found)
        return found.at(batch)

    def _forget_product(self, attention: _Attention, factors: _Factors) -> None:
        """Nobody reads it, nor what was stored for it alone. (Equal layers are found by their
        steps: there should be none in vain.)"""
        steps = self._lowering.steps
        live = self._lowering.live_buffers({attention.product, *attention.path})
        for step in reversed(factors.steps):
            place = _place(steps, step)
            read = live.union(*(each.reads for each in steps[place + 1 :]))
            if not isinstance(step, PythonCall) and step.writes.isdisjoint(read):
                del steps[place]

    def _check_unwritten(self, factors: _Factors, reads: frozenset[str]) -> None:
        """What is read now is what was there at the first product."""
        if factors.memory.buffer in reads:
            raise _NotFused("scores that depend on other products")
        older = reads.intersection(islice(self._lowering.held, factors.held))
        steps = self._lowering.steps
        for step in steps[_place(steps, factors.steps[-1]) + 1 :]:
            touched = step.reads if isinstance(step, PythonCall) else step.writes
            if touched & older:
                raise _NotFused("a tensor that may be written to on the way")


def _has_tensor_cores(device: torch.device) -> bool:
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= _TENSOR_CORES


def _place(steps: Sequence[Step], step: Step) -> int:
    """Of a step, which is not long ago."""
    return next(place for place in reversed(range(len(steps))) if steps[place] is step)


def _plain(value: Value, index: tuple[Size, ...]) -> Scalar | None:
    """An element, if it is read from memory and no more than cast."""
    found = value.at(index)
    inner = found.args[0] if found.op == "cast" else found
    is_float = inner.dtype in expr.FLOATS
    return found if inner.op == "load" and not inner.args and is_float else None


def _is_finite(scalar: Scalar) -> Scalar:
    return expr.operation("isfinite", scalar, dtype="b1")


def _without_mask(score: Scalar) -> tuple[Scalar, Scalar | None]:
    """A score without what is minus infinity, and the condition for that."""
    seen: Scalar | None = None
    while score.op == "where":
        condition, yes, no = score.args
        if no.op != "constant" or no.data != -math.inf:
            break
        seen = condition if seen is None else op("and", seen, condition)
        score = yes
    return score, seen


# -- what is attention -----------------------------------------------------------------------------


def _attentions(nodes: Sequence[torch.fx.Node]) -> list[_Attention]:
    order = {node: number for number, node in enumerate(nodes)}
    found: list[_Attention] = []
    for node in nodes:
        name, _ = _call(node)
        if name in _PRODUCTS:
            attention = _attention(node, *_factor_nodes(node), order)
            if attention is not None:
                found.append(attention)
    return found


def _attention(
    last: torch.fx.Node, weights: object, value: object, order: dict[torch.fx.Node, int]
) -> _Attention | None:
    if not (isinstance(weights, torch.fx.Node) and isinstance(value, torch.fx.Node)):
        return None
    tail: list[torch.fx.Node] = []

    def step(node: object, name: str) -> dict[str, Any] | None:
        """The arguments of a node of the tail that is such a call."""
        found, given = _call(node)
        if found != name:
            return None
        assert isinstance(node, torch.fx.Node)
        tail.append(node)
        return given

    node: Any = weights
    cast = step(node, "to")
    if cast is not None:
        node = cast["input"]
    around = step(node, "where")
    if around is not None:
        node = around["other"]
    softmax = step(node, "softmax")
    if softmax is None or not _is_last(softmax["dim"], node) or softmax.get("dtype") is not None:
        return None
    node = softmax["input"]
    if around is not None:
        within = step(node, "where")
        empty = around["condition"]
        if within is None or within["condition"] is not empty or not _zero(around, within):
            return None
        node = within["other"]
        if not _is_empty(step, empty, node):
            return None
    if not isinstance(node, torch.fx.Node) or not isinstance(node.meta.get(RESULT), Meta):
        return None
    inside = {*tail, last}
    if any(user not in inside for each in tail for user in _users(each)):
        return None
    beside = _beside(node, inside, order[last], order)
    found = _path(node, {*inside, *(beside or ())})
    if beside is None or found is None:
        return None
    product, path = found
    # Casts that are none have nobody who needs them.
    tail += [user for each in tail for user in each.users if user not in inside]
    tail.sort(key=order.__getitem__)
    return _Attention(product, node, path, tail, last, value, around is not None, beside)


def _zero(*wheres: dict[str, Any]) -> bool:
    return all(type(each["input"]) in (int, float) and each["input"] == 0 for each in wheres)


def _is_empty(step: Any, empty: object, scores: object) -> bool:
    """Whether a node tells the rows of scores that are minus infinity throughout."""
    whole = step(empty, "all")
    if whole is None or not _is_last(whole["dim"], scores) or whole["keepdim"] is not True:
        return False
    lowest = step(whole["input"], "eq")
    return lowest is not None and lowest["input"] is scores and lowest["other"] == -math.inf


def _is_last(dim: object, node: object) -> bool:
    meta = node.meta.get(RESULT) if isinstance(node, torch.fx.Node) else None
    return isinstance(meta, Meta) and type(dim) is int and dim in (_LAST, meta.rank - 1)


def _users(node: torch.fx.Node) -> list[torch.fx.Node]:
    """A cast to the dtype that it has is no user, unless it has one."""
    return [user for user in node.users if ARGUMENT not in user.meta or user.users]


def _beside(
    scores: torch.fx.Node, inside: set[torch.fx.Node], last: int, order: dict[torch.fx.Node, int]
) -> dict[torch.fx.Node, str] | None:
    """What else is asked of scores; None if it is something that attention does not tell."""
    found: dict[torch.fx.Node, str] = {}
    for user in _users(scores):
        if user in inside:
            continue
        name, given = _call(user)
        row = {"logsumexp": LOGSUMEXP, "amax": LARGEST}.get(name)
        if row is None or row in found.values() or order[user] < last:
            return None
        if not _is_last(given["dim"], scores) or given["keepdim"]:
            return None
        found[user] = row
    return found


def _path(
    scores: torch.fx.Node, behind: set[torch.fx.Node]
) -> tuple[torch.fx.Node, set[torch.fx.Node]] | None:
    """The one product that scores are made of element by element, and the nodes up to them, which
    nobody else uses. `behind`: what uses scores."""
    rank = scores.meta[RESULT].rank
    found: dict[torch.fx.Node, None] = {}
    stack, seen = [scores], set[torch.fx.Node]()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        call = node.meta.get(CALL)
        entry = None if call is None else lookup(call.function)
        if entry is None:
            continue
        meta = node.meta.get(RESULT)
        if entry.op.name in _PRODUCTS and isinstance(meta, Meta) and meta.rank == rank:
            found[node] = None
        elif entry.op.lowering is OpKind.POINTWISE and not entry.in_place:
            stack += node.all_input_nodes
    if len(found) != 1:
        return None
    (product,) = found
    path, stack = {scores}, [product]
    while stack:
        node = stack.pop()
        users = [user for user in _users(node) if user not in behind]
        if node is scores and not users:
            continue
        if node is not product:
            path.add(node)
        if not users or not seen.issuperset(users):
            return None
        stack += [user for user in users if user not in path]
    return product, path


def _factor_nodes(node: torch.fx.Node) -> tuple[object, object]:
    _, given = _call(node)
    factors = [given.get(name) for name in ("input", "other", "mat2") if name in given]
    return (factors[0], factors[1]) if len(factors) == 2 else (None, None)


def _call(node: object) -> tuple[str, dict[str, Any]]:
    """The name of an operator that changes nothing, and its arguments."""
    call = node.meta.get(CALL) if isinstance(node, torch.fx.Node) else None
    entry = None if call is None else lookup(call.function)
    if entry is None or entry.in_place:
        return "", {}
    assert isinstance(node, torch.fx.Node)
    try:
        bound = bind_match(entry, node.args, node.kwargs)
    except Unbound:
        return "", {}
    if bound.out is not None:
        return "", {}
    return entry.op.name, dict(bound.arguments)
