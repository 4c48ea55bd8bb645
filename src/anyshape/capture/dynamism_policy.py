"""Which sizes and integers of one call are dynamic: the policy, asked as the capture meets them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import NamedTuple

import torch

from anyshape.capture.contract import AssumedContract
from anyshape.capture.marks import marks_of, marks_of_int
from anyshape.capture.policy_protocol import Unbacked
from anyshape.capture.source_use import source_use
from anyshape.config import config
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.guards.dynamic_int import DynamicInt, plain_int
from anyshape.guards.guard import Frame, Kind, SymbolSource
from anyshape.guards.path import Path
from anyshape.guards.text import fact_text, in_logs, names_of
from anyshape.guards.values import strictly_equal
from anyshape.policy.decide import (
    By,
    Choice,
    Decision,
    Evidence,
    Mark,
    MarkKind,
    Source,
    decide_float,
    decide_int,
    decide_sizes,
)
from anyshape.policy.observations import ALONE, Observations, OtherRanks, of_int, of_sizes
from anyshape.profile.records import NOTHING, FunctionRecord
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Fact, Facts, Range, Symbol, to_text


class DimDecision(NamedTuple):
    """What a source was in this call, and what it was taken for."""

    value: float
    decision: Decision


def _as_asked(decision: Decision, found: Range | None) -> Range | Unbacked | None:
    return found if found is None or decision.choice is not Choice.UNBACKED else Unbacked(found)


def any_item(source: str) -> str:
    """The source of whatever stands in a list."""
    return f"{source}[...]"


class SymbolEvents:
    """What a compile tells of its symbols: each time one of them can be less than before. Only
    asked where somebody listens."""

    def __init__(self, compile_id: str, sources: Sequence[SymbolSource]) -> None:
        self._id = compile_id
        self._sources = sources
        self._ranges: dict[Symbol, Range] = {}
        self._replaced: dict[Symbol, str] = {}
        #: symbols that have one value left
        self.specialised: set[str] = set()

    def learned(self, fact: Fact, reason: str, frame: Frame | None, facts: Facts) -> None:
        """The facts have one more."""
        for symbol in sorted(fact.symbols, key=lambda each: each.name):
            if symbol.backed:
                self._learned(symbol, facts.symbols[symbol.name], facts, reason, frame)

    def _learned(
        self, symbol: Symbol, size: Expr, facts: Facts, reason: str, frame: Frame | None
    ) -> None:
        left = facts.range(size)
        if left != self._ranges.setdefault(symbol, symbol.declared):
            self._ranges[symbol] = left
            stream.emit(kinds.RangeUpdated(symbol.name, str(left), compile_id=self._id))
        if left.lower is not None and left.lower == left.upper:
            self.is_specialised(symbol, left.lower, reason, frame)
            return
        by = to_text(facts.simplify(size))
        if by != self._replaced.setdefault(symbol, symbol.name):
            self._replaced[symbol] = by
            stream.emit(kinds.Replaced(symbol.name, by, str(left), compile_id=self._id))

    def is_specialised(self, symbol: Symbol, value: int, reason: str, frame: Frame | None) -> None:
        if symbol.name in self.specialised:
            return
        self.specialised.add(symbol.name)
        texts = [source.text for source in self._sources if source.symbol is symbol]
        stream.emit(
            kinds.Specialised(symbol.name, texts, value, reason, frame, compile_id=self._id)
        )


class CompileDecisions:
    """The decisions of one compile, and what was observed on the way."""

    def __init__(
        self,
        seen: Observations,
        dynamic: bool | None,
        compile_id: str,
        written: frozenset[str] = frozenset(),
        ranks: OtherRanks = ALONE,
        profile: FunctionRecord = NOTHING,
        contract: AssumedContract | None = None,
        marked: Collection[str] = (),
        floats: dict[str, float | None] | None = None,
        in_region: bool = False,
        exact_strides: bool = False,
        unlike: Collection[tuple[Kind, str]] = (),
        is_implied: bool = False,
        made_anew: Collection[str] = (),
    ) -> None:
        #: whether `dynamic` is what regions are compiled with, and nobody's wish
        self._is_implied = is_implied
        #: guards that failed in every call of a region: it is to be split there
        self.unlike = unlike
        #: paths where calls had functions of the same code, and not the same one
        self.made_anew = made_anew
        #: whether strides of a tensor with gaps are numbers, also where its sizes are symbols
        self.exact_strides = exact_strides
        self.contract = contract
        #: sizes of the contract that a setting keeps static, and which
        self.overruled: list[str] = []
        self._seen = seen
        self._dynamic = dynamic
        self._id = compile_id
        self._ranks = ranks
        #: what this call was seen to have, for the next compile
        self.observed = Observations()
        #: which of that are parameters and properties of modules
        self.of_modules: set[str] = set()
        #: decisions for what the user asked to be dynamic, by source ("L['x'].size()[0]")
        self.required: dict[str, Decision] = {}
        self._reasons: dict[str, str] = {}
        if contract is not None:
            self._reasons |= contract.reasons()
        #: what the program was seen to set itself: counters, caches
        self._written: frozenset[str] = written | profile.written
        #: what earlier runs have seen
        self.profile = profile
        #: integers that are given as a `DynamicInt`
        self._marked: Collection[str] = marked
        #: whether a region of a split function is compiled: what stands between regions gives it
        #: another float each time
        self.in_region = in_region
        #: floats as they were seen, None for more than one value; kept by the function
        self._floats: dict[str, float | None] = {} if floats is None else floats
        #: the decision for each size and integer that was met, or is in the contract, by source
        self.rulings: dict[str, DimDecision] = {}
        if contract is not None:
            for source, value, decision in contract.decisions():
                self.rulings[source] = DimDecision(value, decision)
        self._symbols: list[SymbolSource] = []
        #: what was told of the values that symbols can have
        self.told = SymbolEvents(compile_id, self._symbols)
        self._by_value: dict[int, Expr] = {}
        #: answers by source: an entry that grows keeps them
        self._answers: dict[str, Sequence[Range | Unbacked | None]] = {}

    def again(self, contract: AssumedContract | None = None) -> CompileDecisions:
        """The same choices, for another call of the same entry."""
        made = copy(self)
        made.contract = contract
        made.overruled, made.observed, made.of_modules = [], Observations(), set()
        made._symbols, made._by_value = [], {}
        made.told = SymbolEvents(self._id, made._symbols)
        return made

    def sizes(
        self, path: Path, tensor: torch.Tensor, owner: type | None
    ) -> Sequence[Range | Unbacked | None]:
        name, sizes = path.text, tuple(tensor.shape)
        known = self._answers.get(name)
        if known is not None and len(known) == len(sizes):
            return known
        source_use.meet(config.dynamic_sources, name, len(sizes))
        self.observed.add(name, of_sizes(sizes, tensor.stride()))
        marks = marks_of(tensor, owner)
        if self.contract is not None:
            marks = {**self.contract.marks(tensor), **marks}
        # A cache that grows would be compiled for anew with each step.
        is_cache = self._is_written(name, "force_nn_module_property_static_shapes")
        is_property = owner is not None and not is_cache
        source = Source(isinstance(tensor, torch.nn.Parameter), is_property, marks)
        if source.is_parameter or source.is_module_property:
            self.of_modules.add(name)
        decisions = decide_sizes(name, sizes, source, self._evidence(name), config, self._dynamic)
        self._answers[name] = answer = [
            _as_asked(decision, self._settled(f"{name}.size()[{dim}]", sizes[dim], decision))
            for dim, decision in enumerate(decisions)
        ]
        if self.contract is not None:
            spoken = self.contract.spoken(tensor)
            for dim, decision in enumerate(decisions):
                said, mark = spoken.get(dim), marks.get(dim)
                self._by_contract(f"{name}.size()[{dim}]", said, mark, decision)
        return answer

    def _by_contract(
        self, source: str, said: Decision | None, mark: Mark | None, decision: Decision
    ) -> None:
        """What the contract names is what it says; a setting above it is reported, of what it
        wants dynamic without a name as well."""
        strict = mark is not None and mark.by is By.CONTRACT and mark.kind is MarkKind.DYNAMIC
        if said is not None:
            self.required.pop(source, None)
            self.rulings[source] = DimDecision(self.rulings[source].value, said)
            strict = said.choice is Choice.DYNAMIC
        if strict and decision.ignored:
            self.overruled.append(f"{source}: {decision.reason}")

    def integer(self, path: Path, value: int, owner: type | None) -> Range | None:
        name = path.text
        known = self._answers.get(name)
        if known is not None:
            return None if isinstance(known[0], Unbacked) else known[0]
        is_marked = type(value) is DynamicInt or name in self._marked
        value = plain_int(value)
        source_use.meet(config.dynamic_sources, name, None)
        self.observed.add(name, of_int(value))
        # A counter would be compiled for anew with each step; who sets the flag wants that.
        is_counter = self._is_written(name, "allow_unspec_int_on_nn_module")
        marks = marks_of_int(is_marked, owner)
        if self.contract is not None:
            marks = {**self.contract.integer_marks(name), **marks}
        source = Source(is_module_property=owner is not None and not is_counter, marks=marks)
        if source.is_module_property:
            self.of_modules.add(name)
        decision = decide_int(name, value, source, self._evidence(name), config, self._dynamic)
        answer = self._settled(name, value, decision)
        self._answers[name] = (answer,)
        if self.contract is not None:
            self._by_contract(name, self.contract.spoken_integer(name), marks.get(0), decision)
        return answer

    def _is_written(self, name: str, setting: str) -> bool:
        """Whether the program sets what it reads, unless a setting is chosen for such sources."""
        is_written = name in self._written or any_item(name.rpartition("[")[0]) in self._written
        return is_written and not config.is_chosen(setting)

    def is_dynamic_float(self, path: Path, value: float, owner: type | None) -> bool:
        automatic = self._may_float_change(owner)
        if config.specialize_float and not automatic:
            return False
        name = path.text
        known = self._answers.get(name)
        if known is None:
            before = self._floats.setdefault(name, value)
            changed = before is None or not strictly_equal(before, value)
            if changed:
                self._floats[name] = None
            elif config.specialize_float:
                return False  # there are many of them, and nobody has asked
            source = Source(is_module_property=owner is not None)
            decision = decide_float(
                name, source, changed, config, self._dynamic, automatic=automatic
            )
            self._answers[name] = known = (self._settled(name, value, decision),)
        return known[0] is not None

    def _may_float_change(self, owner: type | None) -> bool:
        """Whether a float that changes is dynamic, though floats are static: nobody has set a flag
        that keeps it static, or said `dynamic=False`."""
        if config.is_chosen("specialize_float"):
            return False
        if owner is None:
            return self.in_region or self._dynamic is not False
        is_kept = config.is_chosen("allow_unspec_int_on_nn_module")
        return self._dynamic is not False and not is_kept

    def _evidence(self, name: str) -> Evidence:
        ranks = self._ranks
        return Evidence(
            seen=self._seen.get(name),
            profile=self.profile.seen(name),
            ranks=ranks.seen.get(name),
            told=ranks.told.get(name, ""),
            is_again=len(self._seen) > 0,
        )

    def _settled(self, source: str, value: float, decision: Decision) -> Range | None:
        if decision.by in (By.CONTRACT, By.PROFILE):
            decision = replace(decision, reason=self._in_detail(source, decision))
        if decision.by is By.ARGUMENT and self._is_implied:
            reason = "a region between graph breaks is compiled for any size"
            decision = replace(decision, reason=reason, by=By.REGION)
        self.rulings[source] = DimDecision(value, decision)
        if decision.ignored and stream.listening(kinds.MarkIgnored):
            stream.emit(kinds.MarkIgnored(source, decision.ignored, compile_id=self._id))
        if decision.required:
            self.required[source] = decision
        if decision.choice is Choice.STATIC:
            return None
        reason = self._reasons.setdefault(source, decision.reason)
        if stream.listening(kinds.MarkedDynamic):
            stream.emit(kinds.MarkedDynamic(source, reason, compile_id=self._id))
        return decision.range

    def _in_detail(self, source: str, decision: Decision) -> str:
        """The reason, with what the policy is not told: names of the contract, counts of sizes."""
        if decision.by is By.CONTRACT:
            return self._reasons.get(source, decision.reason)
        typical = ", ".join(map(str, self.profile.typical(source)))
        return f"{decision.reason} ({typical})" if typical else decision.reason

    def created(
        self, source: SymbolSource, hint: int, declared: Range, frame: Frame | None
    ) -> None:
        self._symbols.append(source)
        if stream.listening(kinds.CreateSymbol):
            stream.emit(
                kinds.CreateSymbol(
                    source.symbol.name,
                    hint,
                    source.text,
                    str(declared),
                    frame,
                    self._reasons.get(source.text, ""),
                    compile_id=self._id,
                )
            )

    def shared(self, source: SymbolSource, frame: Frame | None) -> None:
        if stream.listening(kinds.SymbolShared):
            stream.emit(
                kinds.SymbolShared(source.symbol.name, source.text, frame, compile_id=self._id)
            )

    def made_of_data(self, symbol: Symbol, name: str, frame: Frame | None) -> None:
        if stream.listening(kinds.CreateSymbol):
            declared = str(symbol.declared)
            stream.emit(
                kinds.CreateSymbol(symbol.name, None, name, declared, frame, compile_id=self._id)
            )

    def reason(self, source: str) -> str:
        """Why a source is dynamic."""
        return self._reasons.get(source, "")

    def assumed(self, fact: Fact, reason: str, frame: Frame | None, facts: Facts) -> None:
        self._guard_added(fact, reason, frame, at_run_time=False)
        if stream.listening(kinds.RangeUpdated) or stream.listening(kinds.Specialised):
            self.told.learned(fact, reason, frame, facts)

    def expected(self, fact: Fact, reason: str, frame: Frame | None) -> None:
        self._guard_added(fact, reason, frame, at_run_time=True)

    def _guard_added(self, fact: Fact, reason: str, frame: Frame | None, at_run_time: bool) -> None:
        if not stream.listening(kinds.GuardAdded):
            return
        names = names_of(self._symbols)

        def make() -> kinds.GuardAdded:
            text, id_ = fact_text(fact, names), self._id
            return kinds.GuardAdded(in_logs(fact), frame, reason, text, at_run_time, compile_id=id_)

        stream.emit_made(kinds.GuardAdded, make)

    def same_symbol(self, value: int) -> Expr | None:
        return self._by_value.get(value) if config.duck_shape else None

    def made(self, value: int, symbol: Expr) -> None:
        """Remember a symbol for sizes that are equal to it (duck shaping)."""
        self._by_value.setdefault(value, symbol)
