"""What `explain` says: what is dynamic and why, what is fixed and by which line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from linecache import getline
from typing import Final, NamedTuple, TypeVar

from anyshape.capture.dynamism_policy import DimDecision
from anyshape.capture.rewrite.nodes import TEMPORARY
from anyshape.events import kinds
from anyshape.explain.library_lines import is_library
from anyshape.explain.source_names import in_list, in_words, tensor_and_dim
from anyshape.guards.guard import Frame, Guard, Kind
from anyshape.policy.decide import Choice
from anyshape.policy.hints import what_changes, what_spares
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Range


@dataclass(frozen=True, slots=True)
class DynamicSource:
    """A size or integer that an entry does not fix to the value it had."""

    symbol: str
    source: str
    range: str
    reason: str


@dataclass(frozen=True, slots=True)
class EntryExplanation:
    """One compiled program."""

    id: str
    dynamic: Sequence[DynamicSource]
    #: conditions on sizes and integers, each with the line that asked for it
    conditions: Sequence[Guard]
    hits: int
    graphs: int = 1
    #: where a graph ends and another begins: the reason and the line
    breaks: Sequence[tuple[str, Frame | None]] = ()
    #: every size and integer that was met: how it stands, since when, by whom
    sizes: Sequence[DimStatus] = ()
    #: what is native code and what torch is called for, and why
    code: Sequence[str] = ()

    @property
    def title(self) -> str:
        graphs = "" if self.graphs == 1 else f", {self.graphs} graphs"
        return f"entry {self.id}: served {_times(self.hits, 'call')} after the first{graphs}"

    def free_lines(self, is_verbose: bool) -> list[str]:
        """What may have several values: each by itself, if they are not as many as the gradients of
        a model have."""
        groups = _by_cause([each for each in self.sizes if each.is_free])
        many = [] if is_verbose else [alike for alike in groups if len(alike) > _MOST_FREE]
        folded = {id(each): alike for alike in many for each in alike}
        told: list[str] = []
        for each in self.sizes:
            alike = folded.get(id(each), [each])
            if each.is_free and alike[0] is each:
                told += _sizes_lines(alike, is_verbose or len(alike) == 1)
        return told or ["  dynamic: nothing, every size has one value"]

    def condition_blocks(self, is_verbose: bool) -> list[list[str]]:
        """What has one value and what must hold, each with its lines; equal layers are told once
        unless all is asked for."""
        blocks = [
            _sizes_lines(alike, is_verbose)
            for alike in _by_cause([each for each in self.sizes if not each.is_free])
        ]
        for guards in _folded(self.conditions, is_verbose):
            first, more = guards[0], len(guards) - 1
            is_alike = len({_LAYER.sub("[]", each.text) for each in guards}) == 1
            also = _in_other_layers(more) if is_alike else f" (and {more} more that modules hold)"
            blocks.append([f"  only if {first.text}: {first.reason}{also}"])
            if first.user_frame is not None:
                blocks[-1] += _place(first.user_frame)
        return blocks

    def graph_lines(self) -> list[str]:
        lines: list[str] = []
        for reason, frame in self.breaks:
            lines.append(f"  graph break: {reason}")
            if frame is not None:
                lines += _place(frame)
        return lines + [f"  {line}" for line in self.code]


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _in_other_layers(count: int) -> str:
    return f" (and {count} alike in other layers)" if count else ""


#: So many static sources with one reason are listed; a model has thousands.
_MOST_ALIKE: Final = 6


#: So many sizes that may have several values for one reason are listed one by one.
_MOST_FREE: Final = 24


def _by_cause(sizes: Sequence[DimStatus]) -> list[list[DimStatus]]:
    """Those of which the same is said."""
    groups: dict[object, list[DimStatus]] = {}
    for each in sizes:
        key = (each.state, each.why, each.since, each.change)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _sizes_lines(alike: Sequence[DimStatus], is_verbose: bool) -> list[str]:
    first = alike[0]
    told: dict[str, list[str]] = {}
    for text in map(str, alike):
        told.setdefault(text if is_verbose else _LAYER.sub("[]", text), []).append(text)
    more = 0 if is_verbose else len(told) - _MOST_ALIKE
    if more > 0 and all(map(_is_of_module, alike)):
        listed = f"{len(alike)} sizes and integers that modules hold, {first} among them"
    else:
        each = [f"{texts[0]}{_in_other_layers(len(texts) - 1)}" for texts in told.values()]
        listed = ", ".join(each[:-more] if more > 0 else each)
        listed += f" and {more} more" if more > 0 else ""
    return [f"  {first.state}: {listed}: {first.why}", f"      {first.background}"]


def _is_of_module(status: DimStatus) -> bool:
    return "._modules[" in status.source or "._parameters[" in status.source


#: The number of a layer in a path.
_LAYER: Final = re.compile(r"\['\d+'\]")


def _folded(conditions: Sequence[Guard], is_verbose: bool) -> list[list[Guard]]:
    """Those that differ in the number of a layer alone are told together, and so are integers of
    modules where a line reads many: a convolution has seven."""
    groups: dict[object, list[Guard]] = {}
    for index, guard in enumerate(conditions):
        alike = (_LAYER.sub("[]", guard.text), guard.reason, guard.user_frame)
        groups.setdefault(index if is_verbose else alike, []).append(guard)
    if is_verbose:
        return list(groups.values())
    read = Counter(map(_line_that_reads, groups.values()))
    told: dict[object, list[Guard]] = {}
    for alike, guards in groups.items():
        line = _line_that_reads(guards)
        told.setdefault(line if line and read[line] > _MOST_ALIKE else alike, []).extend(guards)
    return list(told.values())


def _line_that_reads(guards: Sequence[Guard]) -> tuple[object, ...]:
    """Of an integer that a module holds, who reads it; empty for all else."""
    first = guards[0]
    is_of_module = first.kind is Kind.EQUALS and "._modules[" in first.text
    return (first.reason, first.user_frame) if is_of_module else ()


def _place(frame: kinds.Frame) -> list[str]:
    code = getline(frame.filename, frame.line).strip()
    whose = ", a library's line" if is_library(frame.filename) else ""
    return [f"      at {frame}{whose}", *([f"         {code}"] if code else [])]


class RecompileCause(NamedTuple):
    """Why no entry fitted a call."""

    text: str
    #: the line that relies on what failed
    frame: kinds.Frame | None = None
    #: "L['x'].size()[0]", if it is about one
    source: str = ""
    #: what would have spared it
    remedy: str = ""

    def key(self) -> str:
        """The same for those that differ in numbers alone."""
        return f"{self.source} {_NUMBER.sub('#', self.text)} {self.frame} {self.remedy}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Prints well: first why there were recompiles, then each program."""

    function: str
    entries: Sequence[EntryExplanation]
    #: why it runs eagerly, or why a call of it did
    eager: str = ""
    eager_frame: Frame | None = None
    eager_hints: Sequence[str] = ()
    #: why it was recompiled, oldest first
    recompiles: Sequence[RecompileCause] = ()
    #: of a function that runs as plain Python: what it calls, compiled
    parts: Sequence[Explanation] = ()
    #: names in `config.dynamic_sources` that no function had so far
    unused_sources: Sequence[str] = ()
    #: no further call is compiled for
    is_given_up: bool = True
    #: with every layer and every size
    is_verbose: bool = False

    def and_also(self, other: Explanation) -> Explanation:
        """Of one function that is compiled twice over, such as a module with hooks and without."""
        told = self if self.eager else other
        return replace(
            self,
            entries=[*self.entries, *other.entries],
            eager=told.eager,
            eager_frame=told.eager_frame,
            eager_hints=told.eager_hints,
            recompiles=[*self.recompiles, *other.recompiles],
            parts=[*self.parts, *other.parts],
            is_given_up=told.is_given_up,
        )

    def __str__(self) -> str:
        in_parts = self.parts and not self.entries
        how_often = "compiled in parts" if in_parts else _often(len(self.entries))
        lines = [f"{self.function}: {how_often}"]
        if self.eager:
            how = "runs in parts, with graph breaks between them" if self.parts else "runs eagerly"
            if not self.is_given_up:
                how = "a call ran eagerly, the next is tried again"
            lines.append(f"  {how}: {self.eager}")
            if self.eager_frame is not None:
                lines += _place(self.eager_frame)
            if self.eager_hints:
                lines.append(f"      what spares it: {'; or '.join(self.eager_hints)}")
        lines += self._recompile_lines()
        lines += [
            f"  config.dynamic_sources names {each}: not met so far" for each in self.unused_sources
        ]
        lines += self._entry_lines()
        for part in self.parts:
            part = replace(part, is_verbose=self.is_verbose)
            lines += [f"  | {line}" for line in str(part).splitlines()]
        return _UNNAMED.sub(r"(unnamed value \1)", "\n".join(lines))

    def _recompile_lines(self) -> list[str]:
        lines: list[str] = []
        for group in _in_a_row(self.recompiles, RecompileCause.key, self.is_verbose):
            first, more = group[0], len(group) - 1
            also = f" (and {more} more with other values)" if more else ""
            lines.append(f"  recompiled because {first.text}{also}")
            if first.frame is not None:
                lines += _place(first.frame)
            if first.remedy:
                lines.append(f"      what spares it: {first.remedy}")
        return lines

    def _entry_lines(self) -> list[str]:
        """Each entry; what an earlier one has as well is told there, unless all is asked for."""
        told: set[tuple[str, ...]] = set()
        entries: list[list[str]] = []
        for entry in self.entries:
            blocks = entry.condition_blocks(self.is_verbose)
            new = [block for block in blocks if self.is_verbose or tuple(block) not in told]
            told.update(map(tuple, blocks))
            free = entry.free_lines(self.is_verbose)
            lines = [entry.title, *free, *(line for block in new for line in block)]
            if len(new) < len(blocks):
                lines.append(f"  and {len(blocks) - len(new)} more, as in an entry before")
            entries.append(lines + entry.graph_lines())
        lines = []
        for group in _in_a_row(entries, _but_for_numbers, self.is_verbose):
            lines += group[0]
            if len(group) > 1:
                names = f"{_name(group[1])} to {_name(group[-1])}" if group[2:] else _name(group[1])
                lines.append(f"entry {names}: the same for other values")
        return lines


#: What a line that is split gives its next part.
_UNNAMED: Final = re.compile(r"L\['" + TEMPORARY.format(r"value_(\d+)") + r"'\]")


def _often(count: int) -> str:
    return {0: "not compiled", 1: "compiled once"}.get(count, f"compiled {count} times")


def _name(lines: Sequence[str]) -> str:
    return lines[0].removeprefix("entry ").partition(":")[0]


_Told = TypeVar("_Told")


def _in_a_row(
    told: Sequence[_Told], alike: Callable[[_Told], str], is_verbose: bool
) -> list[list[_Told]]:
    """Neighbours that say the same are together, unless all is asked for."""
    if is_verbose:
        return [[each] for each in told]
    return [list(group) for _, group in groupby(told, alike)]


def _but_for_numbers(told: object) -> str:
    return _NUMBER.sub("#", str(told))


#: Not those of layers, nor of lines of code.
_NUMBER: Final = re.compile(r"(?<![\w.:'])-?\d+(?:\.\d+)?(?![\w'])")


def conditions_of(guards: Sequence[Guard]) -> list[Guard]:
    """The guards that a size or integer may fail."""
    return [
        guard
        for guard in guards
        if guard.kind is Kind.SIZES or (guard.kind is Kind.EQUALS and type(guard.value) is int)
    ]


# -- how sizes stand -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DimStatus:
    """One dimension or integer in one entry."""

    source: str
    #: "static", "dynamic", "unbacked", "specialized": dynamic, and the program left one value
    state: str
    #: what it may be: a value, or a range
    values: str
    #: what decided it: "a mark", "the profile", "rank 0 and rank 3"
    by: str
    reason: str
    change: str
    #: the first entry, of those in a row, in which it stands so
    since: str = ""
    #: what was asked for and not followed
    ignored: str = ""
    #: of one that may have several values, which: "2 <= L['n'] <= 9"
    free_values: str = ""
    #: of a static one, what would have made it dynamic before it changed
    spare: str = ""

    @property
    def is_free(self) -> bool:
        return self.state in ("dynamic", "unbacked")

    def __str__(self) -> str:
        return self.free_values or f"{self.source} = {self.values}"

    @property
    def why(self) -> str:
        return self.reason + (f" (not followed: {self.ignored})" if self.ignored else "")

    @property
    def background(self) -> str:
        return f"decided by {self.by}, since {self.since}; what would change it: {self.change}"


def standings(
    entry_id: str, rulings: Mapping[str, DimDecision], ranges: Mapping[str, Range]
) -> list[DimStatus]:
    """Of one entry; `ranges` is what the guards left to each symbol, by source."""
    return [
        _status(source, ruling, ranges.get(source), entry_id) for source, ruling in rulings.items()
    ]


def _status(source: str, ruling: DimDecision, left: Range | None, entry_id: str) -> DimStatus:
    value, decision = ruling
    made = DimStatus(
        source,
        decision.choice.value,
        str(value),
        decision.who or decision.by.value,
        decision.reason,
        what_changes(decision, _kind(source, value)),
        entry_id,
        decision.ignored,
        spare=what_spares(decision, _kind(source, value), _mark(source), in_list(source)),
    )
    if decision.choice is Choice.STATIC:
        return made
    allowed = decision.range if left is None or decision.choice is Choice.UNBACKED else left
    if allowed is left and allowed.lower is not None and allowed.lower == allowed.upper:
        why = f"a line of the program needs this value, though {decision.reason}"
        return replace(made, state="specialized", change=_SPECIALIZED, by="the program", reason=why)
    return replace(made, values=str(allowed), free_values=allowed.said_of(source))


def _kind(source: str, value: float) -> str:
    if type(value) is float:
        return "float"
    return "size" if ".size()[" in source else "int"


def _mark(source: str) -> str:
    """As a program writes it before the call: `anyshape.mark_dynamic(x, 0)`."""
    tensor, dim = tensor_and_dim(source)
    return f"anyshape.mark_dynamic({in_words(tensor)}, {dim})"


_SPECIALIZED: Final = "the lines that ask for this value, below"


def since_when(entries: Sequence[Sequence[DimStatus]]) -> list[list[DimStatus]]:
    """The standings of all entries in order, each with the first entry in which it was so."""
    before: dict[str, DimStatus] = {}
    made: list[list[DimStatus]] = []
    for entry in entries:
        row: list[DimStatus] = []
        for each in entry:
            last = before.get(each.source)
            if last is not None and _goes_on(last, each):
                # What made it so says more than that it was so before.
                each = replace(each, since=last.since, reason=last.reason)
            before[each.source] = each
            row.append(each)
        made.append(row)
    return made


def _goes_on(last: DimStatus, now: DimStatus) -> bool:
    same_word = last.state == now.state and last.by == now.by
    return same_word and (now.is_free or last.values == now.values)
