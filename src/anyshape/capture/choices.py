"""Which sizes and integers of one call are dynamic: the policy, asked as the capture meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch

from anyshape.capture.contracts import AssumedContract
from anyshape.capture.tracer import Unbacked
from anyshape.config import config
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.guards.guard import Frame, SymbolSource
from anyshape.guards.path import Path
from anyshape.guards.text import fact_text, names_of
from anyshape.policy.decide import (
    Choice,
    Decision,
    Evidence,
    Mark,
    Source,
    decide_int,
    decide_sizes,
)
from anyshape.policy.observations import Observations, of_int, of_sizes
from anyshape.policy.other_ranks import ALONE, OtherRanks
from anyshape.profile.records import NOTHING, FunctionRecord
from anyshape.symbolic import Expr, Fact, Range, Symbol

#: The attribute of a tensor that marks are kept in: a mark by dimension.
MARKS: Final = "_anyshape_marks"


def marks_of(tensor: torch.Tensor) -> Mapping[int, Mark]:
    return tensor.__dict__.get(MARKS, _NO_MARKS)


_NO_MARKS: Final[Mapping[int, Mark]] = {}


def _as_asked(decision: Decision, found: Range | None) -> Range | Unbacked | None:
    return found if found is None or decision.choice is not Choice.UNBACKED else Unbacked(found)


class Choices:
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
    ) -> None:
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
        #: integers that the program was seen to change itself: counters
        self._written: frozenset[str] = written | profile.written
        #: what earlier runs have seen
        self.profile = profile
        self._symbols: list[SymbolSource] = []
        self._by_value: dict[int, Expr] = {}
        #: answers by source: an entry that grows keeps them
        self._answers: dict[str, Sequence[Range | Unbacked | None]] = {}

    def again(self, contract: AssumedContract | None = None) -> Choices:
        """The same choices, for another call of the same entry."""
        made = Choices(
            self._seen,
            self._dynamic,
            self._id,
            self._written,
            self._ranks,
            self.profile,
            contract,
        )
        made._answers = self._answers
        made._reasons = self._reasons
        made.required = self.required
        return made

    def sizes(
        self, path: Path, tensor: torch.Tensor, module_property: bool
    ) -> Sequence[Range | Unbacked | None]:
        name, sizes = path.text, tuple(tensor.shape)
        known = self._answers.get(name)
        if known is not None and len(known) == len(sizes):
            return known
        self.observed.add(name, of_sizes(sizes, tensor.stride()))
        marks = marks_of(tensor)
        if self.contract is not None:
            marks = {**self.contract.marks(tensor), **marks}
        source = Source(isinstance(tensor, torch.nn.Parameter), module_property, marks)
        if source.is_parameter or source.is_module_property:
            self.of_modules.add(name)
        decisions = decide_sizes(name, sizes, source, self._evidence(name), config, self._dynamic)
        self._answers[name] = answer = [
            _as_asked(decision, self._settled(f"{name}.size()[{dim}]", decision))
            for dim, decision in enumerate(decisions)
        ]
        if self.contract is not None:
            self._by_contract(name, self.contract.names(tensor), decisions)
        return answer

    def _by_contract(
        self, name: str, named: Mapping[int, str], decisions: Sequence[Decision]
    ) -> None:
        """The sizes that the contract names are what it says; a setting above it is reported."""
        for dim in named:
            source = f"{name}.size()[{dim}]"
            self.required.pop(source, None)
            if decisions[dim].ignored:
                self.overruled.append(f"{source}: {decisions[dim].reason}")

    def integer(self, path: Path, value: int, module_property: bool) -> Range | None:
        name = path.text
        known = self._answers.get(name)
        if known is not None:
            return None if isinstance(known[0], Unbacked) else known[0]
        self.observed.add(name, of_int(value))
        source = Source(
            is_module_property=module_property and name not in self._written,
            marks=_NO_MARKS if self.contract is None else self.contract.integer_marks(name),
        )
        if source.is_module_property:
            self.of_modules.add(name)
        decision = decide_int(name, value, source, self._evidence(name), config, self._dynamic)
        answer = self._settled(name, decision)
        self._answers[name] = (answer,)
        return answer

    def _evidence(self, name: str) -> Evidence:
        ranks = self._ranks
        return Evidence(
            seen=self._seen.get(name),
            profile=self.profile.seen(name),
            ranks=ranks.seen.get(name),
            told=ranks.told.get(name, ""),
        )

    def _settled(self, source: str, decision: Decision) -> Range | None:
        if decision.required:
            self.required[source] = decision
        if decision.choice is Choice.STATIC:
            return None
        reason = self._reasons.setdefault(source, decision.reason)
        if stream.listening(kinds.MarkedDynamic):
            stream.emit(kinds.MarkedDynamic(source, reason, compile_id=self._id))
        return decision.range

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

    def made_of_data(self, symbol: Symbol, name: str, frame: Frame | None) -> None:
        if stream.listening(kinds.CreateSymbol):
            declared = str(symbol.declared)
            stream.emit(
                kinds.CreateSymbol(symbol.name, None, name, declared, frame, compile_id=self._id)
            )

    def reason(self, source: str) -> str:
        """Why a source is dynamic."""
        return self._reasons.get(source, "")

    def assumed(self, fact: Fact, reason: str, frame: Frame | None) -> None:
        if stream.listening(kinds.GuardAdded):
            text = fact_text(fact, names_of(self._symbols))
            stream.emit(kinds.GuardAdded(text, frame, reason, compile_id=self._id))

    def same_symbol(self, value: int) -> Expr | None:
        return self._by_value.get(value) if config.duck_shape else None

    def made(self, value: int, symbol: Expr) -> None:
        """Remember a symbol for sizes that are equal to it (duck shaping)."""
        self._by_value.setdefault(value, symbol)
