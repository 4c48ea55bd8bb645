"""The judge of operators: is what our rules say true, and for how many sizes.

A sample call is inferred with symbols for all sizes of 2 or more and compared with torch at its own
sizes, at larger ones, at 1 and at 0.

    WRONG         a formula differs from what torch does; a size that torch rejects is served; or a
                  valid call is rejected
    CRASH         a rule fails with something else than an answer
    UNSUPPORTED   there is no rule
    SPECIALISED   right, but a size is refused that torch accepts and the formula would have served
    DYNAMIC       right, and every refusal is justified: torch raises there too, or the result is of
                  another form

Samples are judged with equal sizes sharing a symbol (sizes that must agree do). Since torch's
samples are full of 5 x 5 matrices, a rule that takes the wrong one of two dimensions would pass; so
each sample is tried again with a symbol for each dimension. There only what is WRONG counts: which
of two equal sizes is refused is a matter of taste.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from anyshape.errors import NeedsDecision, ShapeMismatch, SymbolicError, UnknownOperator
from anyshape.ops.infer import How
from anyshape.ops.meta import Meta
from anyshape.ops.shape_query import Need, NeedKind
from anyshape.symbolic import Expr, Facts, as_symbol, holds
from tests.ops.driver import Disagreement, bind_unbacked, compare
from tests.ops.samples import (
    NotStrided,
    Sample,
    Template,
    Values,
    by_place,
    by_value,
    template,
)
from tests.ops.tracking import InferenceFailed, Tracking, said_of
from tests.ops.truth import Outcome, Truth, meta_accepts, torch_at

#: Other sizes are not tried where a tensor would have more elements than this.
_MOST_ELEMENTS = 1_000_000


class Verdict(Enum):
    """See the module's text. In order: an operator is what the worst of its samples is."""

    WRONG = "wrong"
    CRASH = "crash"
    UNSUPPORTED = "unsupported"
    SPECIALISED = "specialised"
    DYNAMIC = "dynamic"
    NOT_SAMPLED = "not sampled"


@dataclass(frozen=True)
class Finding:
    """Why something is not dynamic."""

    verdict: Verdict
    reason: str
    sample: str

    def __str__(self) -> str:
        return f"{self.reason} — ({self.sample})" if self.sample else self.reason


@dataclass
class Judgement:
    """What was found out about one operator."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    hows: set[How] = field(default_factory=set)
    samples: int = 0
    #: how many other sizes gave what the symbols said
    served: int = 0
    #: refusals of size 0 alone: reported, but not held against an operator
    at_zero: list[Finding] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        found = {finding.verdict for finding in self.findings}
        return next((verdict for verdict in Verdict if verdict in found), Verdict.DYNAMIC)

    @property
    def reason(self) -> str:
        """The first reason for the verdict."""
        return next((str(f) for f in self.findings if f.verdict is self.verdict), "")

    def add(self, verdict: Verdict, reason: str, sample: str = "") -> None:
        # Some of torch's functions print with an address, which changes from run to run.
        self.findings.append(Finding(verdict, re.sub(r" at 0x[0-9a-f]+", "", reason), sample))


@dataclass(frozen=True)
class Operator:
    """Something to judge: a function, and the calls to judge it by."""

    name: str
    function: Callable[..., Any]
    samples: Callable[[], Sequence[Sample]]
    #: see `torch_at`
    trusting: bool = False


def judge(operator: Operator) -> Judgement:
    """Judge an operator by its samples."""
    judgement = Judgement(operator.name)
    rejected = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = operator.samples()
        except Exception as error:
            return _not_sampled(judgement, f"{type(error).__name__}: {error}")
        for sample in samples:
            rejected = _judge_sample(operator, sample, judgement) or rejected
    if not judgement.samples and not judgement.findings:
        return _not_sampled(judgement, rejected or "torch has no samples for it on the CPU")
    return judgement


def _not_sampled(judgement: Judgement, reason: str) -> Judgement:
    judgement.add(Verdict.NOT_SAMPLED, reason.splitlines()[0])
    return judgement


def _judge_sample(operator: Operator, sample: Sample, judgement: Judgement) -> str:
    """Add what the sample shows to the judgement; the reason if torch does not take the sample."""
    shown = str(sample)
    try:
        shared, apart = template(sample, by_value), template(sample, by_place)
    except NotStrided as error:
        judgement.add(Verdict.UNSUPPORTED, str(error), shown)
        return ""
    truth = torch_at(operator.function, shared, shared.values)
    if truth.outcome is not Outcome.RESULT:
        return truth.error
    judgement.samples += 1
    traced = _trace(operator.function, shared)
    if isinstance(traced, _Problem):
        judgement.add(traced.verdict, traced.reason, shown)
        return ""
    judgement.hows |= traced.hows
    _judge_sizes(operator, shared, traced, _other_sizes(shared.values), judgement, shown)
    if len(apart.symbols) > len(shared.symbols):
        _judge_apart(operator, apart, judgement, shown)
    return ""


def _judge_apart(operator: Operator, apart: Template, judgement: Judgement, shown: str) -> None:
    """With a symbol for each dimension: only what is wrong counts."""
    traced = _trace(operator.function, apart)
    if isinstance(traced, _Problem):
        judgement.add(traced.verdict, traced.reason, shown)
        return
    trial = Judgement(judgement.name)
    sizes = [v for v in _sizes_apart(apart, traced.facts) if not traced.unmet(v)]
    _judge_sizes(operator, apart, traced, sizes, trial, shown)
    judgement.findings += [f for f in trial.findings if f.verdict is Verdict.WRONG]
    judgement.served += trial.served


# -- in symbols -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """Why a call could not be inferred."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class _Traced:
    """A call in symbols."""

    said: list[Meta]
    needs: list[Need]
    facts: Facts
    hows: set[How]

    @property
    def depends_on_data(self) -> bool:
        return any(not _is_backed(need) for need in self.needs)

    def unmet(self, values: Values) -> list[Need]:
        """The needs that do not hold at these sizes."""
        return [need for need in self.needs if _is_backed(need) and not _holds(need, values)]

    def difference(self, tensors: Sequence[torch.Tensor], values: Values) -> str:
        """How the formulas at these sizes differ from what torch returned; empty if they do not."""
        if len(tensors) != len(self.said):
            return f"{len(self.said)} tensors said, torch returned {len(tensors)}"
        try:
            bound = bind_unbacked(dict(values), self.said, list(tensors))
            for meta, tensor in zip(self.said, tensors, strict=True):
                compare(_on_device_of(tensor, meta), tensor, bound, "result")
        except (Disagreement, SymbolicError) as error:
            return str(error).splitlines()[0]
        return ""

    def has_form_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether torch returned as many tensors, each of the same number of dimensions."""
        return [meta.rank for meta in self.said] == [tensor.dim() for tensor in tensors]


def _is_backed(need: Need) -> bool:
    return all(symbol.backed for symbol in need.fact.symbols)


def _holds(need: Need, values: Values) -> bool:
    try:
        return holds(need.fact, values)
    except ZeroDivisionError:
        return False


def _on_device_of(tensor: torch.Tensor, meta: Meta) -> Meta:
    """The meta as it is where the truth comes from torch's meta functions."""
    if tensor.device.type != "meta":
        return meta
    return Meta(meta.shape, meta.dtype, meta.layout, tensor.device, meta.offset, meta.requires_grad)


def _trace(function: Callable[..., Any], template: Template) -> _Traced | _Problem:
    """Run the sample in symbols, side by side with torch."""
    mode = Tracking(template.facts)
    args, kwargs = template.build(template.values, integer=mode.tracked)
    for tensor, meta in _paired(template, (args, kwargs)):
        mode.know(tensor, meta)
    torch.manual_seed(0)
    try:
        with mode:
            result = function(*args, **kwargs)
        said = said_of(mode, result)
    except Disagreement as error:
        return _Problem(Verdict.WRONG, f"at its own sizes: {error}")
    except InferenceFailed as error:
        return _problem(error)
    except Exception as error:
        return _Problem(Verdict.CRASH, f"while tracking: {type(error).__name__}: {error}")
    return _Traced(said, mode.needs, mode.facts, {call.inferred.how for call in mode.calls})


def _problem(error: InferenceFailed) -> _Problem:
    cause = error.__cause__
    text = f"{error}: {(str(cause).splitlines() or [''])[0]}"
    match cause:
        case None:
            return _Problem(Verdict.UNSUPPORTED, str(error))
        case UnknownOperator():
            return _Problem(Verdict.UNSUPPORTED, f"no rule for {error}")
        case NeedsDecision():
            return _Problem(Verdict.UNSUPPORTED, text)
        case ShapeMismatch():
            return _Problem(Verdict.WRONG, f"rejects a valid call: {text}")
        case _:
            return _Problem(Verdict.CRASH, f"{type(cause).__name__} in {text}")


def _paired(template: Template, built: Any) -> Iterator[tuple[torch.Tensor, Meta]]:
    for leaf, tensor in zip(template.leaves, tree_leaves(built), strict=True):
        if isinstance(tensor, torch.Tensor):
            yield tensor, leaf.meta


# -- at other sizes -------------------------------------------------------------------------------


def _other_sizes(first: Values) -> Iterable[Values]:
    """Each size alone and all together larger, in another order of magnitude, 1 and 0."""
    for grow in (lambda n: n + 1, lambda n: 2 * n):
        for symbol in first:
            yield {**first, symbol: grow(first[symbol])}
        if len(first) > 1:
            yield {symbol: grow(size) for symbol, size in first.items()}
    if len(first) > 1:
        # What was the smallest size becomes the largest.
        ranked = sorted(first, key=lambda symbol: first[symbol])
        sizes = sorted((first[symbol] + 3 for symbol in ranked), reverse=True)
        yield dict(zip(ranked, sizes, strict=True))
    for size in (1, 0):
        for symbol in first:
            yield {**first, symbol: size}
        if len(first) > 1:
            yield dict.fromkeys(first, size)


def _sizes_apart(template: Template, facts: Facts) -> Iterable[Values]:
    """Other sizes where those that the rules found equal stay equal, and all others differ."""
    first = template.values
    classes: list[list[Expr]] = []
    for symbol in template.symbols:
        alike = next((c for c in classes if facts.equal(c[0], symbol)), None)
        if alike is None:
            classes.append([symbol])
        else:
            alike.append(symbol)
    groups = [[as_symbol(symbol) for symbol in members] for members in classes]

    def changed(group: list[Any], size: int) -> dict[Any, int]:
        return dict.fromkeys(group, size)

    for scale in (1, 2):
        together = dict(first)
        for position, group in enumerate(groups):
            together |= changed(group, scale * first[group[0]] + scale * (position + 1))
        yield together
    for group in groups:
        for size in (first[group[0]] + 1, 1, 0):
            yield {**first, **changed(group, size)}


def _judge_sizes(
    operator: Operator,
    template: Template,
    traced: _Traced,
    sizes: Iterable[Values],
    judgement: Judgement,
    shown: str,
) -> None:
    for values in sizes:
        if template.elements_at(values) > _MOST_ELEMENTS:
            continue
        truth = torch_at(operator.function, template, values, operator.trusting)
        found = _judge_at(traced, values, truth)
        unchecked = found is not None and truth.outcome is Outcome.RAISES
        by_torch = unchecked and How.META in traced.hows
        if by_torch and meta_accepts(operator.function, template, values):
            # Torch's meta functions leave this check to the kernel, and what they infer is always
            # computed by torch's kernels.
            continue
        if found is None:
            judgement.served += truth.outcome is Outcome.RESULT and not traced.unmet(values)
            continue
        verdict, reason = found
        where = ", ".join(f"{s.name}={n}" for s, n in values.items() if n != template.values[s])
        if verdict is Verdict.SPECIALISED and 0 in values.values():
            judgement.at_zero.append(Finding(verdict, f"at {where}: {reason}", shown))
        else:
            judgement.add(verdict, f"at {where}: {reason}", shown)


def _judge_at(traced: _Traced, values: Values, truth: Truth) -> tuple[Verdict, str] | None:
    """What is wrong with serving or refusing these sizes, if anything."""
    unmet = traced.unmet(values)
    match truth.outcome:
        case Outcome.UNKNOWN:
            return None
        case Outcome.RAISES:
            if unmet or traced.depends_on_data:
                return None
            return Verdict.WRONG, f"the needs hold, but torch raises {truth.error}"
        case Outcome.RESULT:
            difference = traced.difference(truth.tensors, values)
            if not unmet:
                return (Verdict.WRONG, difference) if difference else None
            if difference and not _is_pinned(traced, unmet, values, truth):
                return None
            return Verdict.SPECIALISED, f"refused without cause by {unmet[0]}"


def _is_pinned(traced: _Traced, unmet: Sequence[Need], values: Values, truth: Truth) -> bool:
    """Whether the formula differs only because a size was replaced by its value in the sample."""
    if any(need.kind is NeedKind.SPECIALISED for need in unmet):
        return True
    pinned = {
        symbol
        for need in unmet
        for symbol in need.fact.symbols
        if traced.facts.value(traced.facts.symbols[symbol.name]) is not None
    }
    # A size of 1 or 0 may well mean something else, such as stretching; a larger one does not if
    # the result looks alike.
    return any(values[symbol] > 1 for symbol in pinned) and traced.has_form_of(truth.tensors)
