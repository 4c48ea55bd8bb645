"""Operators on symbolic metadata and on real tensors, side by side.

    check(torch.add, "b s 4", "s 4", first={"b": 3, "s": 5})

runs the function on real tensors of the first sizes under a torch-function mode that infers every
call in symbols, then at other sizes (a second set, each symbol 1, each symbol 0) runs the function
again on real tensors and compares with what the symbols said: shape, stride class, dtype,
requires_grad. Where the recorded needs do not hold, the other size is not served ("guarded").

A Python number or `Sym("b")` may stand in place of a tensor; `Sym` is an integer that the rules see
as a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from anyshape.ops.infer import How, Inferred, infer
from anyshape.ops.meta import Meta, of_tensor
from anyshape.ops.shape_query import Need, NeedKind
from anyshape.ops.table import lookup
from anyshape.symbolic import Expr, Facts, Size, as_symbol, evaluate, holds, symbol
from tests.ops.watched import Watched

#: No operators: asked of a tensor by the driver and by torch itself, or switches.
_QUERIES = {
    torch._C._set_grad_enabled,
    torch.Tensor.size, torch.Tensor.dim, torch.Tensor.stride, torch.Tensor.numel,
    torch.Tensor.is_contiguous, torch.Tensor.__len__, torch.Tensor.is_floating_point,
    torch.Tensor.is_complex, torch.is_floating_point, torch.is_complex, torch.Tensor.storage_offset,
}  # fmt: skip


@dataclass(frozen=True)
class Sym:
    """An integer argument that is symbolic: by name, or an expression of names."""

    name: str


class SymbolicInt(int):
    """A real integer with its symbol beside it."""

    expr: Expr


@dataclass
class Call:
    """One torch call as it was inferred."""

    function: Callable[..., Any]
    inferred: Inferred

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", str(self.function))


class Disagreement(AssertionError):
    """What the symbols said is not what torch did."""


@dataclass
class SideBySide(TorchFunctionMode):
    """While active, infers every torch call in symbols, runs it for real, and compares the two."""

    facts: Facts
    metas: dict[int, Meta] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    #: of symbols in this run, also of sizes that depend on data once a result has shown them
    values: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._alive: list[torch.Tensor] = []

    def know(self, tensor: torch.Tensor, meta: Meta) -> None:
        self.metas[id(tensor)] = meta
        self._alive.append(tensor)

    def meta_of(self, tensor: torch.Tensor) -> Meta:
        return self.metas.get(id(tensor)) or of_tensor(tensor)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        # Properties are questions too, unless the table knows them (`x.T`, `x.real`).
        if func in _QUERIES or (
            getattr(func, "__name__", "") == "__get__" and lookup(func) is None
        ):
            return func(*args, **kwargs)
        symbolic = self._in_symbols(args), self._in_symbols(kwargs)  # before an in-place operator
        watched = Watched(func, lookup(func), args, kwargs)
        try:
            result = func(*args, **kwargs)
        except Exception:
            infer(self.facts, func, *symbolic)  # has to reject it too, with an error of ours
            raise
        for unsaid in watched.unsaid(result):
            raise Disagreement(unsaid)
        inferred = infer(self.facts, func, *symbolic, seen=seen(result))
        # `x[i] = v` gives the program nothing; the table says what its first argument is
        # afterwards.
        self.record(func, inferred, args[0] if result is None else result)
        return result

    def record(self, func: Callable[..., Any], inferred: Inferred, result: Any) -> None:
        """Take over what a call says of its result, after comparing it with the real one."""
        self.facts = inferred.facts
        self.needs += inferred.needs
        self.calls.append(Call(func, inferred))
        self._remember(func, inferred, result)

    def _in_symbols(self, value: Any) -> Any:
        def convert(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return self.meta_of(leaf)
            if isinstance(leaf, slice):  # not a container to pytree
                return slice(convert(leaf.start), convert(leaf.stop), convert(leaf.step))
            return leaf.expr if isinstance(leaf, SymbolicInt) else leaf

        if isinstance(value, torch.Size):
            return tuple(map(convert, value))
        return tree_map(convert, value)

    def _remember(self, func: Callable[..., Any], inferred: Inferred, result: Any) -> None:
        real = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        said = [leaf for leaf in tree_leaves(inferred.value) if isinstance(leaf, Meta)]
        if len(real) != len(said):
            raise Disagreement(f"{func}: {len(said)} tensors inferred, torch returned {len(real)}")
        self.values = bind_unbacked({**self.values, **self.facts.hints}, said, real)
        for meta, tensor in zip(said, real, strict=True):
            compare(meta, tensor, self.values, str(func))
            self.know(tensor, meta)


def seen(result: Any) -> Any:
    """The metas of a real result; None if it has something that a meta cannot say."""
    leaves = tree_leaves(result)
    if any(isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided for leaf in leaves):
        return None
    return tree_map(
        lambda leaf: of_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf, result
    )


def bind_unbacked(
    values: dict[Any, int], said: list[Meta], real: list[torch.Tensor]
) -> dict[Any, int]:
    """Values of sizes that depend on data, read off the real result."""
    for meta, tensor in zip(said, real, strict=True):
        for size, actual in zip(meta.shape, tensor.shape, strict=False):
            if (
                isinstance(size, Expr)
                and len(size.terms) == 1
                and not any(s.backed for s in size.symbols)
            ):
                try:
                    values.setdefault(as_symbol(size), actual)
                except TypeError:
                    continue
    return values


def compare(meta: Meta, tensor: torch.Tensor, values: Mapping[Any, int], where: str) -> None:
    """Raise `Disagreement` unless the meta says what the tensor is, for these values of the
    symbols."""
    shape = tuple(evaluate(size, values) for size in meta.shape)
    if shape != tuple(tensor.shape):
        raise Disagreement(
            f"{where}: shape {meta.shape} = {shape}, torch says {tuple(tensor.shape)}"
        )
    if meta.dtype != tensor.dtype:
        raise Disagreement(f"{where}: dtype {meta.dtype}, torch says {tensor.dtype}")
    if meta.requires_grad != tensor.requires_grad:
        raise Disagreement(
            f"{where}: requires_grad {meta.requires_grad}, torch says {tensor.requires_grad}"
        )
    if meta.device.type != tensor.device.type:
        raise Disagreement(f"{where}: device {meta.device}, torch says {tensor.device}")
    if tensor.layout is not torch.strided or 0 in shape:
        return
    strides = tuple(evaluate(stride, values) for stride in meta.strides)
    for size, said, actual in zip(shape, strides, tensor.stride(), strict=True):
        if size > 1 and said != actual:
            raise Disagreement(
                f"{where}: strides {strides} for {shape}, torch says {tensor.stride()}"
            )
    if meta.shares_if is None and _is_bound(meta.offset, values):
        offset = evaluate(meta.offset, values)
        if offset != tensor.storage_offset():
            raise Disagreement(f"{where}: offset {offset}, torch says {tensor.storage_offset()}")


def _is_bound(size: Size, values: Mapping[Any, int]) -> bool:
    return isinstance(size, int) or all(symbol in values for symbol in size.symbols)


@dataclass
class Outcome:
    """What a check found: how each call was inferred, what was needed, and which other sizes were
    served."""

    calls: list[Call]
    needs: list[Need]
    served: list[dict[str, int]]
    guarded: list[dict[str, int]]
    #: runs the function at given sizes on real tensors
    at: Callable[[Mapping[str, int]], Any]

    @property
    def needless(self) -> list[dict[str, int]]:
        """The sizes that are not served though torch takes them."""
        return [sizes for sizes in self.guarded if not _is_refused(self.at, sizes)]

    @property
    def hows(self) -> set[How]:
        return {call.inferred.how for call in self.calls}


def _is_refused(at: Callable[[Mapping[str, int]], Any], sizes: Mapping[str, int]) -> bool:
    try:
        at(sizes)
    except Exception:
        return True
    return False


Spec = str | Sym | Callable[[Mapping[str, int]], torch.Tensor] | int | float | bool | None


def _tensor(text: str, sizes: Mapping[str, int], dtype: torch.dtype) -> torch.Tensor:
    shape = tuple(int(p) if p.lstrip("-").isdigit() else sizes[p] for p in text.split())
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    if dtype is torch.bool:
        return torch.rand(shape) > 0.5
    return torch.randint(0, 2, shape, dtype=dtype)


def check(
    function: Callable[..., Any],
    *specs: Any,
    first: Mapping[str, int],
    then: Sequence[Mapping[str, int]] | None = None,
    dtype: torch.dtype = torch.float32,
    dtypes: Mapping[int, torch.dtype] | None = None,
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
    **kwargs: Any,
) -> Outcome:
    """Infer at the first sizes, compare with torch there and at other sizes. See the module's text.

    `dtypes` gives the dtype of single arguments by position; `prepare` turns each made tensor into
    another (a transposed or channels-last one) before it is used. Sizes at which torch itself
    raises are not compared, but then the needs must not hold.
    """
    symbols = {name: symbol(name) for name in first}
    facts = Facts()
    for name, hint in first.items():
        facts = facts.declare(symbols[name], hint)

    def build(sizes: Mapping[str, int]) -> list[Any]:
        torch.manual_seed(0)
        made: list[Any] = []
        for position, spec in enumerate(specs):
            if isinstance(spec, str):
                tensor = _tensor(spec, sizes, (dtypes or {}).get(position, dtype))
                made.append(prepare(tensor) if prepare else tensor)
            elif isinstance(spec, Sym):
                made.append(sizes[spec.name])
            else:
                made.append(spec)
        return made

    inputs = build(first)
    mode = SideBySide(facts)
    for position, (spec, value) in enumerate(zip(specs, inputs, strict=True)):
        if isinstance(spec, str):
            shape = tuple(symbols[p] if p in symbols else int(p) for p in spec.split())
            mode.know(value, of_tensor(value, shape))
        elif isinstance(spec, Sym):
            inputs[position] = SymbolicInt(value)
            inputs[position].expr = symbols[spec.name]
    with mode:
        result = function(*inputs, **kwargs)
    said = [mode.meta_of(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    outcome = Outcome(
        mode.calls, mode.needs, [], [], lambda sizes: function(*build(sizes), **kwargs)
    )
    for sizes in then if then is not None else other_sizes(first):
        _check_at(said, symbols, sizes, outcome)
    return outcome


def other_sizes(first: Mapping[str, int]) -> list[Mapping[str, int]]:
    """All sizes larger, then each size 1 and each size 0 with the others as they were."""
    larger = {name: value + 2 + position for position, (name, value) in enumerate(first.items())}
    doubled = {name: value * 2 for name, value in first.items()}
    single = [{**first, name: value} for value in (1, 0) for name in first]
    return [larger, doubled, dict.fromkeys(first, 1), *single]


def _check_at(
    said: list[Meta],
    symbols: Mapping[str, Expr],
    sizes: Mapping[str, int],
    outcome: Outcome,
) -> None:
    values = {as_symbol(symbols[name]): value for name, value in sizes.items()}
    backed = [n for n in outcome.needs if all(s.backed for s in n.fact.symbols)]
    fits = all(holds(need.fact, values) for need in backed)
    if not fits:
        outcome.guarded.append(dict(sizes))
        return
    try:
        result = outcome.at(sizes)
    except Exception as error:
        raise Disagreement(f"at {sizes} torch raises, but the needs hold: {error}") from error
    real = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    if len(real) != len(said):
        raise Disagreement(f"at {sizes}: {len(said)} tensors said, torch returned {len(real)}")
    bound = bind_unbacked(dict(values), said, real)
    for meta, tensor in zip(said, real, strict=True):
        compare(meta, tensor, bound, f"at {sizes}")
    outcome.served.append(dict(sizes))


def dynamic(outcome: Outcome) -> bool:
    """True if nothing was specialised and every other size was served that torch takes."""
    if any(need.kind is NeedKind.SPECIALISED for need in outcome.needs):
        return False
    return not outcome.needless


def dynamic_but_formats(outcome: Outcome) -> bool:
    """The same, but for images of one channel or of one point: torch takes those in channels-last
    format for contiguous ones, and goes on so."""
    if any(need.kind is NeedKind.SPECIALISED for need in outcome.needs):
        return False
    pixels = ({name: sizes[name] for name in sizes if name in "dhw"} for sizes in outcome.needless)
    return all(
        sizes.get("c") == 1 or set(own.values()) == {1}
        for sizes, own in zip(outcome.needless, pixels, strict=True)
    )


def checks_only(outcome: Outcome) -> bool:
    """Whether no guard was needed, only what torch checks too."""
    return bool(outcome.served) and all(need.kind is NeedKind.CHECK for need in outcome.needs)


def evaluated(sizes: tuple[Size, ...], values: Mapping[Any, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, values) for size in sizes)
