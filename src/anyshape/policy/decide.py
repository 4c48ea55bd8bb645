"""The decision for each dimension and integer: the first row of the table that has an opinion.

    config.dynamic_sources                      above everything
    the force flags                             parameters and properties of modules are static
    marks, and shape contracts, which are marks
    compile(dynamic=True) or compile(dynamic=False)
    the profile of earlier runs
    the other ranks
    what this process has seen
    config.automatic_dynamic = "all"            every size, from the second compile on
    config.assume_static_by_default

`config.specialize_zero_one` then takes the sizes 0 and 1 out of what came out dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Literal, Protocol

from anyshape.policy.observations import MANY, Observation, Seen, merge, of_int, of_sizes, ranks_in
from anyshape.policy.sources import names_source
from anyshape.support.lazy_dataclass import dataclass, field, replace
from anyshape.symbolic import EVERYTHING, NATURAL, Range


class Choice(Enum):
    """What a size or integer is in the compile at hand."""

    #: its value is part of the program, with a guard
    STATIC = "static"
    #: a symbol with a value now, by which branches are taken, with a guard
    DYNAMIC = "dynamic"
    #: a symbol whose value is not looked at
    UNBACKED = "unbacked"


class By(Enum):
    """Whose word a decision is: the rows of the table."""

    LIST = "config.dynamic_sources"
    FLAG = "a setting"
    ZERO_ONE = "config.specialize_zero_one"
    MARK = "a mark"
    CONTRACT = "the shape contract"
    ARGUMENT = "compile(dynamic=...)"
    REGION = "a graph break"
    PROFILE = "the profile"
    RANKS = "the other ranks"
    SEEN = "automatic dynamic"
    ALL = "automatic_dynamic='all'"
    DEFAULT = "the default"


@dataclass(frozen=True, slots=True)
class Decision:
    choice: Choice
    #: why, in words
    reason: str
    #: of the symbol, if there is one
    range: Range = NATURAL
    #: the user has asked for a dynamic one: it is an error if it is static, now or by a guard later
    required: bool = False
    #: what was asked for and not followed, with the name of the setting that stands above it
    ignored: str = ""
    by: By = By.DEFAULT
    #: more exactly, where there is more to say: "rank 3"
    who: str = ""


class MarkKind(Enum):
    """What the user said about a dimension; the values are the names of the calls."""

    DYNAMIC = "mark_dynamic"
    MAYBE_DYNAMIC = "maybe_mark_dynamic"
    UNBACKED = "mark_unbacked"
    STATIC = "mark_static"
    INTEGER = "DynamicInt"


@dataclass(frozen=True, slots=True)
class Mark:
    kind: MarkKind
    min: int | None = None
    max: int | None = None
    #: who has set it
    by: By = By.MARK

    @property
    def name(self) -> str:
        return self.by.value if self.by is By.CONTRACT else self.kind.value


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of an input beside its name and value."""

    #: a parameter of a module
    is_parameter: bool = False
    #: a tensor or integer found on a module: a buffer, an attribute
    is_module_property: bool = False
    #: by dimension; an integer is marked at 0
    marks: Mapping[int, Mark] = field(default_factory=dict[int, Mark])


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the source was seen as: in this process (the call at hand may be part of it or not), in
    earlier runs, on the other ranks."""

    seen: Observation | None = None
    profile: Observation | None = None
    ranks: Observation | None = None
    #: which ranks have seen what, in words
    told: str = ""
    #: whether the function was compiled before
    is_again: bool = False


class Settings(Protocol):
    """The part of `anyshape.config` that decisions depend on."""

    @property
    def automatic_dynamic(self) -> bool | Literal["all"]: ...
    @property
    def assume_static_by_default(self) -> bool: ...
    @property
    def specialize_zero_one(self) -> bool: ...
    @property
    def force_parameter_static_shapes(self) -> bool: ...
    @property
    def force_nn_module_property_static_shapes(self) -> bool: ...
    @property
    def allow_unspec_int_on_nn_module(self) -> bool: ...
    @property
    def specialize_int(self) -> bool: ...
    @property
    def specialize_float(self) -> bool: ...
    @property
    def dynamic_sources(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Question:
    """One dimension, or one integer (`dim` is None)."""

    name: str
    dim: int | None
    value: int
    #: the whole source, as it is now
    current: Observation
    source: Source
    evidence: Evidence
    settings: Settings
    dynamic: bool | None

    @property
    def mark(self) -> Mark | None:
        return self.source.marks.get(self.dim or 0)

    def seen_in(self, observation: Observation) -> Seen | None:
        return observation.integer if self.dim is None else observation.size(self.dim)


Rule = Callable[[Question], Decision | None]


def _static(reason: str) -> Decision:
    return Decision(Choice.STATIC, reason)


def _dynamic(question: Question, reason: str) -> Decision:
    """An integer may be anything, a size is not negative."""
    return Decision(Choice.DYNAMIC, reason, EVERYTHING if question.dim is None else NATURAL)


# -- rows: an opinion, or None ----------------------------------------------------------------


def _listed(question: Question) -> Decision | None:
    if names_source(question.settings.dynamic_sources, question.name, question.dim):
        return _dynamic(question, "config.dynamic_sources names it")
    return None


def _forced_tensor(question: Question) -> Decision | None:
    settings, source = question.settings, question.source
    if source.is_parameter and settings.force_parameter_static_shapes:
        return _forced(question, "a parameter", "force_parameter_static_shapes")
    if source.is_module_property and settings.force_nn_module_property_static_shapes:
        return _forced(question, "on a module", "force_nn_module_property_static_shapes")
    return None


def _forced_int(question: Question) -> Decision | None:
    settings = question.settings
    if settings.specialize_int:
        return _forced(question, "an integer", "specialize_int")
    if question.source.is_module_property and not settings.allow_unspec_int_on_nn_module:
        return _forced(question, "an integer on a module", "allow_unspec_int_on_nn_module", "off")
    return None


def _forced(question: Question, what: str, flag: str, state: str = "on") -> Decision:
    decision = _static(f"it is {what}, and config.{flag} is {state}")
    mark = question.mark
    if mark is None or mark.kind is MarkKind.STATIC:
        return decision
    return replace(decision, ignored=f"{mark.name}: config.{flag} is {state}")


def _marked(question: Question) -> Decision | None:
    mark = question.mark
    if mark is None:
        return None
    reason = f"the program says {mark.kind.value}"
    if mark.by is By.CONTRACT:
        reason = "the shape contract says so"
    if mark.kind is MarkKind.STATIC:
        return Decision(Choice.STATIC, reason, by=mark.by)
    lowest = None if question.dim is None else 0
    lower = lowest if mark.min is None else mark.min if lowest is None else max(mark.min, lowest)
    declared = Range(lower, mark.max)
    required = mark.kind is not MarkKind.MAYBE_DYNAMIC
    value = question.value
    if not declared.contains(value):
        outside = f"its value {value} is not what the mark says: {declared.said_of('size', value)}"
        return Decision(Choice.STATIC, outside, required=required, by=mark.by)
    choice = Choice.UNBACKED if mark.kind is MarkKind.UNBACKED else Choice.DYNAMIC
    return Decision(choice, reason, declared, required=required, by=mark.by)


def _argument(question: Question) -> Decision | None:
    if question.dynamic is None:
        return None
    if question.dynamic:
        return _dynamic(question, "the function is compiled with dynamic=True")
    return _static("the function is compiled with dynamic=False")


def _observed(
    what: str,
    select: Callable[[Evidence], Observation | None],
    details: Callable[[Evidence], str] = lambda evidence: "",
) -> Rule:
    def rule(question: Question) -> Decision | None:
        if not question.settings.automatic_dynamic:
            return None
        observation = select(question.evidence)
        if observation is None:
            return None
        # Merged with the call at hand, which also finds a change of rank or kind.
        if question.seen_in(merge(observation, question.current)) is not MANY:
            return None
        before, told = question.seen_in(observation), details(question.evidence)
        reason = f"{what} as {before}, and it is {question.value} now"
        if before is None or before is MANY or before == question.value:
            reason = f"{what} in different forms"
        reason += f" ({told})" if told else ""
        return replace(_dynamic(question, reason), who=ranks_in(told))

    return rule


def _all_sizes(question: Question) -> Decision | None:
    """Nobody has to wait until each size was seen to change in its turn."""
    if question.settings.automatic_dynamic == "all" and question.evidence.is_again:
        reason = "the function is recompiled, and config.automatic_dynamic is 'all'"
        return _dynamic(question, reason)
    return None


def _by_default(question: Question) -> Decision:
    if question.settings.assume_static_by_default:
        return _static("nothing says that it changes")
    return _dynamic(question, "config.assume_static_by_default is off")


_EVIDENCE: Final = (
    _observed("the profile of earlier runs has it", lambda evidence: evidence.profile),
    _observed("the other ranks have it", lambda e: e.ranks, lambda e: e.told),
    _observed("it was seen", lambda evidence: evidence.seen),
)
SIZE_RULES: Final[tuple[Rule, ...]] = (
    *(_listed, _forced_tensor, _marked, _argument),
    *(*_EVIDENCE, _all_sizes),
)
INT_RULES: Final[tuple[Rule, ...]] = (_listed, _forced_int, _marked, _argument, *_EVIDENCE)


_BY: Final[dict[Rule, By]] = {
    _listed: By.LIST,
    _forced_tensor: By.FLAG,
    _forced_int: By.FLAG,
    _argument: By.ARGUMENT,
    _all_sizes: By.ALL,
    **dict(zip(_EVIDENCE, (By.PROFILE, By.RANKS, By.SEEN), strict=True)),
}


def _decide(question: Question, rules: tuple[Rule, ...]) -> Decision:
    for rule in rules:
        decision = rule(question)
        if decision is not None:
            if type(decision) is not Decision:  # rules of others are not type-checked
                raise TypeError(f"the rule {rule!r} gave {decision!r}, not a Decision or None")
            # A mark says itself whose it is.
            decision = replace(decision, by=_BY.get(rule, decision.by))
            break
    else:
        decision = _by_default(question)
    if question.settings.specialize_zero_one and decision.choice is Choice.DYNAMIC:
        return _without_zero_and_one(question, decision)
    return decision


def _without_zero_and_one(question: Question, decision: Decision) -> Decision:
    """As PyTorch has it: 0 and 1 are programs of their own, and other sizes are at least 2. For an
    integer only its own value counts: it may be negative."""
    if question.value in (0, 1):
        reason = f"config.specialize_zero_one is on, and it is {question.value}"
        ignored = decision.reason if decision.required else ""
        required = decision.required
        return Decision(Choice.STATIC, reason, required=required, ignored=ignored, by=By.ZERO_ONE)
    if question.dim is None:
        return decision
    lower = max(decision.range.lower or 0, 2)
    return replace(decision, range=Range(lower, decision.range.upper))


# -- questions --------------------------------------------------------------------------------


def decide_sizes(
    name: str,
    sizes: tuple[int, ...],
    source: Source,
    evidence: Evidence,
    settings: Settings,
    dynamic: bool | None,
) -> tuple[Decision, ...]:
    """One decision for each dimension of the tensor at `name`; `dynamic` is what `compile` got."""
    now = of_sizes(sizes)
    return tuple(
        _decide(Question(name, dim, size, now, source, evidence, settings, dynamic), SIZE_RULES)
        for dim, size in enumerate(sizes)
    )


def decide_int(
    name: str,
    value: int,
    source: Source,
    evidence: Evidence,
    settings: Settings,
    dynamic: bool | None,
) -> Decision:
    """The decision for an integer input."""
    if isinstance(value, bool):
        return _static("it is a bool, and each value is compiled for")
    question = Question(name, None, value, of_int(value), source, evidence, settings, dynamic)
    return _decide(question, INT_RULES)


def decide_float(
    name: str,
    source: Source,
    changed: bool,
    settings: Settings,
    dynamic: bool | None,
    automatic: bool = False,
) -> Decision:
    """The decision for a float input; `changed`: it was seen with another value. `automatic`: what
    changes is dynamic, since nobody chose the flags.

    The list of sources is about sizes and integers: it does not stand above the flag.
    """
    if automatic and changed and settings.automatic_dynamic:
        return Decision(Choice.DYNAMIC, "it was seen to change", EVERYTHING, by=By.SEEN)
    if settings.specialize_float:
        return replace(_static("it is a float, and config.specialize_float is on"), by=By.FLAG)
    if names_source(settings.dynamic_sources, name):
        return Decision(Choice.DYNAMIC, "config.dynamic_sources names it", EVERYTHING, by=By.LIST)
    if source.is_module_property and not settings.allow_unspec_int_on_nn_module:
        reason = "it is a number on a module, and config.allow_unspec_int_on_nn_module is off"
        return replace(_static(reason), by=By.FLAG)
    if dynamic is not None:
        reason = f"the function is compiled with dynamic={dynamic}"
        choice = Choice.DYNAMIC if dynamic else Choice.STATIC
        return Decision(choice, reason, EVERYTHING, by=By.ARGUMENT)
    if changed and settings.automatic_dynamic:
        return Decision(Choice.DYNAMIC, "it was seen to change", EVERYTHING, by=By.SEEN)
    if settings.assume_static_by_default:
        return _static("nothing says that it changes")
    return Decision(Choice.DYNAMIC, "config.assume_static_by_default is off", EVERYTHING)
