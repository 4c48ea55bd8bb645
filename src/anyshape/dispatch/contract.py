"""Shape contracts in the pipeline: is a call inside, and does the captured program honour it?"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from linecache import getline
from typing import Final, NamedTuple, cast

import torch

from anyshape.capture.contract import AssumedContract
from anyshape.capture.dynamism_policy import CompileDecisions
from anyshape.capture.record.torch_state import read_state
from anyshape.capture.trace import Trace
from anyshape.dispatch.callable_target import Target, is_module_call
from anyshape.errors import ConstraintViolation
from anyshape.guards.explain import first_failure
from anyshape.guards.guard import EntryPlan, Guard, Kind, TensorSpec
from anyshape.guards.minimise import minimise
from anyshape.guards.path import Access, Path
from anyshape.guards.text import fact_text, names_of
from anyshape.shapes import Contract, Marker, Shapes
from anyshape.shapes.counterexamples import counterexample
from anyshape.shapes.shape_string import numbers_in
from anyshape.symbolic import Fact, Size, Symbol, to_text
from anyshape.symbolic.expr import of_atom, single_atom
from anyshape.symbolic.logic import Zero


def contract_of(target: Target, shapes: Shapes | None) -> Contract | None:
    """The contract of a function; an error if the spec does not fit its signature."""
    if shapes is None:
        return None
    skip = int(is_module_call(target))
    return Contract(shapes, target.signature, target.name, skip, target.behind)


def assumed(contract: Contract | None, bound: Mapping[str, object]) -> AssumedContract | None:
    """What the contract says of a call; an error if the call is outside of it."""
    if contract is None:
        return None
    return AssumedContract(contract.match(bound, _is_tensor))


def _is_tensor(value: object) -> bool:
    """Whether it has sizes: a nested tensor has not."""
    return isinstance(value, torch.Tensor) and not value.is_nested


def contract_violation(
    function: str, trace: Trace, choices: CompileDecisions
) -> ConstraintViolation | None:
    """An error that lists every line which needs more than the contract says, if there is one."""
    contract = choices.contract
    if contract is None:
        return None
    lines = [*choices.overruled, *_Breaks(trace, choices, contract).lines()]
    if not lines:
        return None
    return ConstraintViolation(function=function, violations=tuple(dict.fromkeys(lines)))


#: So many integers are named that a fact may come from.
_MOST_HINTS: Final = 3


class BrokenContract(NamedTuple):
    """How a way through the program breaks the contract, and for which calls that is known."""

    error: ConstraintViolation
    plan: EntryPlan

    def is_met_by(self, bound: Mapping[str, object]) -> bool:
        """Whether a call goes the same way. Sizes of the contract do not count: the way would have
        to be for all of them."""
        return first_failure(self.plan, bound, read_state) is None


def broken_contract(
    function: str, trace: Trace, choices: CompileDecisions
) -> BrokenContract | None:
    error = contract_violation(function, trace, choices)
    if error is None:
        return None
    assert choices.contract is not None, "it is broken"
    sizes = _Breaks(trace, choices, choices.contract).strict
    guards = [
        guard
        for guard in trace.guards
        if guard.kind is not Kind.SIZES or not cast("Fact", guard.value).symbols <= sizes
    ]
    plan = EntryPlan(minimise(guards, trace.symbols), trace.symbols, (), lambda: None)
    return BrokenContract(error, plan)


def _name(size: Size) -> str:
    text = to_text(size)
    return text if isinstance(single_atom(size), Symbol) else f"({text})"


class _Breaks:
    """What a trace needs beyond its contract."""

    def __init__(self, trace: Trace, choices: CompileDecisions, contract: AssumedContract) -> None:
        self._trace = trace
        self._contract = contract
        said = contract.said()
        #: sizes that are to be dynamic without a name: they stand for themselves
        self._free = {
            source.symbol
            for source in trace.symbols
            if said.get(source.text) is Marker.DYNAMIC and source.text in choices.required
        }
        #: sizes that the contract promises all values of
        self.strict = self._free | contract.meanings.keys()
        self._meanings: Mapping[Symbol, Size] = contract.meanings
        self._values = {
            **contract.call.values,
            **{symbol: trace.facts.hints[symbol] for symbol in self._free},
        }
        by_source = names_of(trace.symbols)
        self._names = lambda symbol: (
            _name(self._meanings[symbol]) if symbol in self._meanings else by_source(symbol)
        )

    def lines(self) -> Iterator[str]:
        given = {assumption.fact for assumption in self._contract.facts.assumptions}
        mixed: list[Guard] = []
        for guard in self._trace.guards:
            if guard.kind is not Kind.SIZES or guard.value in given:
                continue
            fact = cast("Fact", guard.value)
            if fact.symbols <= self.strict:
                yield from self._broken(guard, fact)
            elif fact.symbols & self.strict:
                mixed.append(guard)
        yield from self._narrowed(mixed)

    def _broken(self, guard: Guard, fact: Fact) -> Iterator[str]:
        if self._contract.facts.holds(fact):
            return
        relations = [relation.fact for relation in self._contract.call.relations]
        found = counterexample(fact, relations, self._meanings, self._values)
        if found is not None:
            sizes = ", ".join(f"{self._name(dim)}={value}" for dim, value in found.items())
            yield f"{self._line(guard, fact)}; it is not so for {sizes}{self._unnamed(fact)}"

    def _name(self, dim: Symbol) -> str:
        return self._names(dim) if dim in self._free else dim.name

    def _narrowed(self, mixed: list[Guard]) -> Iterator[str]:
        """Facts that tie a size of the contract to another, where that leaves less of its range."""
        for symbol in sorted(self.strict, key=lambda each: each.name):
            size = of_atom(symbol)
            allowed, left = self._contract.facts.range(size), self._trace.facts.range(size)
            if allowed == left:
                continue
            for guard in mixed:
                fact = cast("Fact", guard.value)
                if symbol in fact.symbols:
                    name = self._names(symbol)
                    yield (f"{self._line(guard, fact)}; it leaves {left} of {allowed} for {name}")

    def _line(self, guard: Guard, fact: Fact) -> str:
        text = f"`{fact_text(fact, self._names)}` is needed: {self._in_names(guard.reason, fact)}"
        frame = guard.user_frame
        if frame is None:
            return text
        code = getline(frame.filename, frame.line).strip()
        return f"{text}, at {frame}" + (f": `{code}`" if code else "")

    def _in_names(self, reason: str, fact: Fact) -> str:
        """Operators speak of symbols, which nobody has seen."""
        for symbol in fact.symbols:
            reason = re.sub(rf"\b{symbol.name}\b", lambda _, s=symbol: self._names(s), reason)
        return reason

    def _unnamed(self, fact: Fact) -> str:
        """What the fact may come from in other arguments: static sizes and integers, not in the
        spec."""
        if not isinstance(fact, Zero):
            return ""
        spoken = {(place.leaf.way.argument, place.dim) for place in self._contract.call.places}
        numbers = numbers_in(to_text(fact))
        found = [
            f"{path.key}.shape[{dim}] is {size}"
            for path, tensor in self._arguments()
            for dim, size in enumerate(tensor.sizes)
            if size in numbers and (path.key, dim) not in spoken
        ]
        if not found:
            found = list(self._integers(numbers))[:_MOST_HINTS]
        return f" ({', '.join(found)}, and the spec does not say so)" if found else ""

    def _integers(self, numbers: Container[int]) -> Iterator[str]:
        for guard in self._trace.guards:
            if guard.kind is Kind.EQUALS and type(guard.value) is int and guard.value in numbers:
                path = guard.path
                if path is not None and path.root.access is Access.LOCAL:
                    place = path.text.replace(path.root.text, str(path.root.key), 1)
                    yield f"{place} is {guard.value}"

    def _arguments(self) -> Iterator[tuple[Path, TensorSpec]]:
        for guard in self._trace.guards:
            if guard.kind is Kind.TENSOR and guard.path and guard.path.access is Access.LOCAL:
                yield guard.path, cast("TensorSpec", guard.value)
