"""Calls and who answers them: an entry, parts of the function, or the function itself."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

import torch
import torch.fx

from anyshape.backends.native.build import tensor_match_function
from anyshape.capture.abort import AbortReason
from anyshape.capture.record.torch_state import read_state
from anyshape.capture.run import Arguments
from anyshape.capture.source_use import source_use
from anyshape.config import config
from anyshape.dispatch import eager_summary
from anyshape.dispatch.arguments import as_given, by_parameter, show_user_frames
from anyshape.dispatch.callable_target import Target
from anyshape.dispatch.contract import BrokenContract, assumed, contract_of
from anyshape.dispatch.dynamic_int_arguments import CallMarks, plain_call, unwrapped
from anyshape.dispatch.entry import Counts, Entry, Options, all_counts
from anyshape.dispatch.pages import Pages
from anyshape.dispatch.regional_compile import Slot, Units
from anyshape.dispatch.stance import Stance, stance
from anyshape.dispatch.verification import VerifiedCalls
from anyshape.errors import (
    BackendFailed,
    InternalError,
    WrongShapeFunction,
)
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.explain.explanation import (
    DimStatus,
    Explanation,
    RecompileCause,
    conditions_of,
    since_when,
)
from anyshape.explain.remedies import remedy_of
from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.explain import first_failure
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory, tensor_memory
from anyshape.guards.fast_path.tensor_match import match_sees_all
from anyshape.guards.guard import Kind, ToldReason
from anyshape.ops.origins import is_of_package
from anyshape.ops.runtime_checks import OtherForm
from anyshape.policy.observations import Observations
from anyshape.profile.session import FunctionProfile
from anyshape.ranks.agree import AmongRanks
from anyshape.runtime.loader.errors import NativeFailed, NativeUnavailable, as_torch_raises
from anyshape.runtime.program import GraphFailed
from anyshape.runtime.trace_tree import SideExit
from anyshape.shapes import Contract
from anyshape.support.lazy_dataclass import dataclass, field, replace
from anyshape.support.user_warning import warn_user


class StaleSignature(Exception):
    """The function has other default values than the dispatcher filled in."""


#: What a dispatcher raises where it has no answer; a `TypeError` may also be the program's.
FALLBACK_ERRORS: Final = (GraphFailed, SideExit, StaleSignature, TypeError)


def without_frames(error: Exception) -> Exception:
    """The error alone. The frames in its traceback hold the arguments of the call, and the frame
    that keeps the error would hold itself."""
    error.__context__ = error.__cause__ = None
    if isinstance(error, GraphFailed) and error.repeatable:
        without_frames(error.error)
    return error.with_traceback(None)


_frame_ids: Final = itertools.count()

#: A graph of fewer nodes than this, inputs and output among them, is not worth a call of its own.
_LEAST_WORK: Final = 5

#: After so many calls that no entry served, those that never served one are not asked again.
_MOST_MISSES: Final = 128


@dataclass(slots=True, eq=False, weakref_slot=True)
class CompiledFunction:
    """Entries, and the dispatcher that picks one. How there come to be entries is said in
    `pipeline`."""

    target: Target
    options: Options
    entries: list[Entry] = field(default_factory=list["Entry"])
    counts: Counts = field(default_factory=Counts)
    seen: Observations = field(default_factory=Observations)
    #: why it runs eagerly from now on, if it does
    eager: AbortReason | None = None
    #: why the last call that could not be captured was not
    _last_left: AbortReason | None = None
    dispatch: Callable[..., Any] = field(init=False)
    frame_id: int = field(init=False)
    is_outermost: bool = field(init=False)
    _ranks: AmongRanks = field(init=False)
    #: what earlier runs have seen, and what the next will know
    profile: FunctionProfile = field(init=False)
    _compiling: threading.Lock = field(default_factory=threading.Lock)
    _next_id: int = 0
    _leaves: int = 0
    #: captures that ended for what is likely to be otherwise at the next call
    _passing: int = 0
    #: captures in a row that ended in errors of the program, and calls since that were not captured
    _raised: int = 0
    _not_captured: int = 0
    #: calls that no entry served since it is no longer compiled
    _misses: int = 0
    #: whether a stance was asked about it before
    _was_called: bool = False
    #: attributes that it sets itself
    _written: frozenset[str] = frozenset()
    #: integers that are given as a `DynamicInt`, in the call at hand
    _marked: CallMarks = field(default_factory=CallMarks)
    #: floats as they were seen, None for more than one value
    _floats: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    #: whether it was told that a graph has failed
    _has_warned: bool = False
    #: the most operations that a graph of it has
    _work: int = 0
    #: what runs in parts, if this does: shared with those who run in parts of it
    units: Units = field(default=None)  # pyright: ignore[reportAssignmentType] made below
    #: of a region, where it stands
    slot: Slot | None = None
    #: of a region: guards that failed in every call
    _unlike: set[tuple[Kind, str]] = field(default_factory=set[tuple[Kind, str]])
    #: paths where calls had functions of the same code, and not the same one
    _made_anew: set[str] = field(default_factory=set[str])
    #: of each of its parts that ever was
    _part_counts: list[Counts] = field(default_factory=list[Counts])
    _defaults: tuple[object, ...] = ()
    _pages: Pages = field(default_factory=Pages)
    #: why it was recompiled, and the line that relies on what failed
    recompiled: list[kinds.GuardFailure] = field(default_factory=list["kinds.GuardFailure"])
    #: the shapes that calls must have, if they are declared
    contract: Contract | None = field(init=False)
    #: ways through the function that break its contract: no entry can be for all of it
    broken_contracts: list[BrokenContract] = field(init=False, default_factory=list[BrokenContract])

    def __post_init__(self) -> None:
        self.frame_id = next(_frame_ids)
        self._ranks = AmongRanks(self.target.name, self.target.file, self.target.line)
        self.counts.function, self.counts.where = self.target.name, self.target.where
        all_counts.append(self.counts)
        self._defaults = self.target.defaults()
        self.profile = FunctionProfile(self.target.identity)
        self.contract = contract_of(self.target, self.options.shapes)
        self.is_outermost = self.units is None
        if self.is_outermost:
            self.units = Units(self._unit)
        self.rebuild()

    def _unit(self, target: Target, slot: Slot | None) -> Self:
        """A part of this function, with the sizes of what it is given dynamic at once: they come
        from data more often than not."""
        options = self.options
        if options.dynamic is None:
            options = replace(options, dynamic=True, is_implied=True)
        made = type(self)(target, replace(options, shapes=None), units=self.units, slot=slot)
        made.counts.belongs_to(self.counts, is_part=True)
        self._part_counts.append(made.counts)
        return made

    def rebuild(self) -> None:
        """A new dispatcher for the entries there are."""
        # A copy: another thread may add an entry meanwhile.
        plans = [entry.plan for entry in list(self.entries)]
        if stance() is Stance.EAGER:
            plans = []
        if self.eager is not None and stance() is not Stance.EAGER:
            self._dispatch_in_parts()
            return
        is_compiled = self.eager is None and stance() is not Stance.EAGER
        self.dispatch = self._dispatcher(plans, self._miss if is_compiled else self._miss_eagerly)

    def _dispatch_in_parts(self) -> None:
        """What no entry serves runs in parts; a region that cannot be compiled, as it is."""
        is_region = self.slot is not None
        asked = [e for e in self.entries if e.hits or self._misses < _MOST_MISSES]
        if asked or self.contract is not None:
            plans = [entry.plan for entry in asked]
            miss = self._miss_in_region if is_region else self._miss_eagerly
            self.dispatch = self._dispatcher(plans, miss)
        else:
            self.dispatch = self.target.call if is_region else self._call_in_parts

    def _dispatcher(
        self, plans: Sequence[EntryPlan], miss: Callable[[dict[str, Any]], Any]
    ) -> Callable[..., Any]:
        verified: VerifiedCalls | None = None
        if config.verify_calls:
            verified = VerifiedCalls(self.target, self._check_signature)
            served = {entry.plan: entry for entry in self.entries}
            plans = [verified.plan(served[plan]) for plan in plans]

        def build(
            of_page: Sequence[EntryPlan], further: Sequence[Callable[..., object]] | None
        ) -> Any:
            return build_dispatcher(
                self.target.signature,
                of_page,
                miss,
                read_state,
                self.target.name,
                memory=_tensor_memory(),
                further=further,
            )

        made: Any = self._pages.dispatcher(plans, build, self.target.signature)
        # Python names the function in its messages about wrong arguments.
        made.__qualname__ = self.target.called
        return made if verified is None else verified.dispatch(made)

    def _check_signature(self) -> None:
        if self.is_stale():
            raise StaleSignature

    def reset(self) -> None:
        # Without the lock: a function may reset while it is being captured itself.
        self.entries.clear()
        self.counts.forget()
        self.seen = Observations()
        self.eager = self._last_left = None
        self.broken_contracts.clear()
        self._next_id = 0
        self._leaves = self._passing = self._misses = 0
        self._floats.clear()
        self.recompiled.clear()
        self.units.clear()
        self.rebuild()

    def explain(self) -> Explanation:
        entries = list(self.entries)  # another thread may add one meanwhile
        stand = since_when([entry.standings() for entry in entries])
        left = self.eager or self._last_left
        return Explanation(
            self.target.name,
            [entry.explain(sizes) for entry, sizes in zip(entries, stand, strict=True)],
            left.reason if left else "",
            left.frame if left else None,
            left.hints if left else (),
            self._recompile_causes(entries, stand),
            [part.explain() for part in self._parts() if part.entries],
            source_use.unused,
            is_given_up=self.eager is not None,
        )

    def _recompile_causes(
        self, entries: Sequence[Entry], stand: Sequence[Sequence[DimStatus]]
    ) -> list[RecompileCause]:
        """Each with what would have spared it, as it stood in the entry that did not fit."""
        known = {
            entry.id: (sizes, entries[number : number + 1])
            for number, (entry, sizes) in enumerate(zip(entries, stand, strict=True), start=1)
        }
        causes: list[RecompileCause] = []
        for failure in list(self.recompiled):
            before, made = known.get(failure.entry_id, ((), ()))
            spare = next((each.spare for each in before if each.source == failure.source), "")
            conditions = [guard for entry in made for guard in conditions_of(entry.guards)]
            remedy = remedy_of(failure, spare, conditions)
            causes.append(RecompileCause(failure.text, failure.user_frame, failure.source, remedy))
        return causes

    def rebuild_all(self) -> None:
        """New dispatchers for this and its parts."""
        for each in self.with_parts():
            each.rebuild()

    def _parts(self) -> list[CompiledFunction]:
        """What runs compiled while this runs in parts. Parts of parts are among them."""
        if not self.is_outermost:
            return []
        return [unit for unit in self.units if isinstance(unit, CompiledFunction)]

    def with_parts(self) -> list[CompiledFunction]:
        return [self, *self._parts()]

    def total(self) -> list[Counts]:
        """Its own counts, and those of its parts."""
        return [each.counts for each in self.with_parts()]

    def is_stale(self) -> bool:
        """Whether the function has other default values than when the dispatcher was made."""
        now = self.target.defaults()
        return len(now) != len(self._defaults) or any(
            new is not old for new, old in zip(now, self._defaults, strict=True)
        )

    def _miss(self, bound: dict[str, Any]) -> Any:
        """Answer a call that no entry serves."""
        raise NotImplementedError

    def extend(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call that goes a way which its entry has not seen."""
        raise NotImplementedError

    def _miss_eagerly(self, bound: dict[str, Any]) -> Any:
        if self.is_stale():
            raise StaleSignature
        if (plain := unwrapped(self.target.signature, bound)) is not None:
            return self._dispatch_plain(*plain)
        assumed(self.contract, bound)
        self._count_miss()
        return self._call(by_parameter(self.target.signature, bound))

    def _count_miss(self) -> None:
        """Ask no longer for entries that never served a call, once many calls in a row had none:
        each takes as long to ask as a small operation takes to run."""
        if self.eager is None or stance() is Stance.EAGER:
            return
        self._misses += 1
        if self._misses == _MOST_MISSES:
            self._dispatch_in_parts()

    def _miss_in_region(self, bound: dict[str, Any]) -> Any:
        self._count_miss()
        args, kwargs = as_given(by_parameter(self.target.signature, bound))
        return self.target.call(*args, **kwargs)

    def _dispatch_plain(self, bound: dict[str, Any], marked: Sequence[str]) -> Any:
        """Another look at the entries, with the numbers behind each `DynamicInt`."""
        args, kwargs = as_given(by_parameter(self.target.signature, bound))
        with self._marked.being(marked):
            return self.dispatch(*args, **kwargs)

    def _call(self, arguments: Arguments) -> Any:
        args, kwargs = as_given(arguments)
        if self.eager is not None and stance() is not Stance.EAGER:
            return self._call_in_parts(*args, **kwargs)
        self.counts.eager_calls += 1
        return self.target.call(*args, **kwargs)

    def _call_in_parts(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as plain Python with its regions compiled, if it could be split."""
        args, kwargs = plain_call(args, kwargs)
        in_parts = self.units.parts_of(self.target, args)
        if in_parts is None:
            self.counts.eager_calls += 1
            return self.target.call(*args, **kwargs)
        try:
            return in_parts(*args, **kwargs)
        except Exception as error:
            show_user_frames(error)
            raise
        finally:
            # Parts without a graph among them are plain Python, call after call.
            if not self.is_in_parts or not any(part.graphs for part in self._part_counts):
                self.counts.eager_calls += 1

    def _reasons(self, bound: dict[str, Any]) -> list[kinds.GuardFailure]:
        reasons: list[kinds.GuardFailure] = []
        for entry in self.entries:
            failure = first_failure(entry.plan, bound, read_state)
            if failure is not None:
                guard, text = failure.guard, failure.sentence
                if guard is not None and isinstance(guard.reason, ToldReason):
                    text = f"{text} ({guard.reason})"
                frame = guard.user_frame if guard else None
                reasons.append(kinds.GuardFailure(entry.id, text, frame, *failure[2:]))
        return reasons

    def stop_compiling(self, why: AbortReason, line: int | None = None) -> None:
        """Run eagerly what no entry serves: in parts, if its code can be watched. A region is
        split at the line, if that is known."""
        self.eager = why
        self._note_eager(why)
        if self.slot is not None:
            self.units.refine(self.slot, why, line)
        else:
            self.units.add_boundaries(why.sites)
            self.units.add_later(why)
        self._dispatch_in_parts()

    def _note_eager(self, why: AbortReason) -> None:
        """Remember for the end of the process why calls had no graph."""
        if not self.is_outermost:
            return
        target = self.target
        eager_summary.summary.note(
            eager_summary.RanEagerly(
                *(target.name, target.file, target.line, why.reason, str(why.frame or "")),
                *(self.counts, self._part_counts),
                stopped_whole=self.eager is not None and not why.sites,
            )
        )

    @property
    def is_in_parts(self) -> bool:
        """Whether calls that no entry serves run as plain Python around compiled regions."""
        return self.eager is not None and bool(self.eager.sites)

    @property
    def has_given_up(self) -> bool:
        return self.eager is not None and not self.entries

    @property
    def is_worth_it(self) -> bool:
        """Whether compiled runs do more than it costs to find them."""
        if self.has_given_up:
            return self.is_in_parts
        return self.eager is not None or not self.entries or self._work >= _LEAST_WORK

    def serve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call from a function that runs in parts."""
        try:
            return self.dispatch(*args, **kwargs)
        except FALLBACK_ERRORS as error:
            if not self.needs_fallback(error):
                raise
            reason = without_frames(error)
        try:
            return self.fallback(reason, args, kwargs)
        except StaleSignature:
            return self.target.call(*args, **kwargs)

    def needs_fallback(self, error: Exception) -> bool:
        """Whether what the dispatcher raised is not of the program: `fallback` then has the
        answer."""
        if not isinstance(error, TypeError):
            return True
        # The dispatcher may have refused arguments that the function, with new defaults, takes.
        trace = error.__traceback__
        return trace is not None and trace.tb_next is None and self.is_stale()

    def fallback(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer of a call for which the dispatcher had none. To be called when the error has
        been handled, so that it is no context of the program's own errors. `StaleSignature` if
        there has to be another dispatcher."""
        if isinstance(error, SideExit):
            return self.extend(args, kwargs)
        if not isinstance(error, GraphFailed):
            raise StaleSignature
        if isinstance(error.error, InternalError):
            raise error.error
        if not error.repeatable:
            raise as_torch_raises(error.error)
        args, kwargs = plain_call(args, kwargs)
        result = self.target.call(*args, **kwargs)
        self.counts.eager_calls += 1
        text = f"a graph of {self.target.name} failed: {error.error!r}"
        stream.emit(kinds.Defect("runtime", text))
        if isinstance(error.error, WrongShapeFunction) or not is_of_package(self.options.backend):
            self._tell_of_failure(error.error, text)
        return result

    def _tell_of_failure(self, error: Exception, text: str) -> None:
        """A backend of the user's gives code that fails, or an operator has a wrong shape function.
        Graphs of our own may fail on numbers that the program handles, and on tensors that it has
        no code for."""
        if isinstance(error, OtherForm | NativeFailed | torch.OutOfMemoryError):
            return
        if config.on_compile_error == "raise":
            if isinstance(error, WrongShapeFunction):
                raise error
            raise BackendFailed(
                function=self.target.name, when=" when it ran", detail=repr(error)
            ) from error
        if not self._has_warned:
            self._has_warned = True
            warn_user(f"{text}; the call was repeated eagerly, and so are others like it")

    def _serving(self, bound: dict[str, Any]) -> Entry | None:
        """The entry that the dispatcher takes."""
        for entry in self.entries:
            if first_failure(entry.plan, bound, read_state) is None:
                return entry
        return None


@functools.cache
def _tensor_memory() -> TensorMemory | None:
    """How to see at a glance that a tensor is as it was; found out once per process."""
    # It tries what changes to a tensor look like, which needs torch in its usual state.
    with torch.inference_mode(False), torch.enable_grad():
        return tensor_memory(torch.zeros, torch.nn.Parameter, _find_alike)


def _find_alike(memory: TensorMemory) -> Callable[..., bool] | None:
    """How to see that many tensors are like others, in one call of native code."""
    try:
        alike = tensor_match_function()
    except NativeUnavailable:
        return None
    with torch.inference_mode(False), torch.enable_grad():
        works = alike is not None and match_sees_all(memory, alike, torch.zeros, torch.nn.Parameter)
    return alike if works else None
