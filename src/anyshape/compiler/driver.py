"""From a call that no entry serves to a new entry: the order of the stages, written once.

    policy      which sizes and integers are dynamic, and why
    capture     the function runs for real; what it did becomes a trace
    backend     the graph of the trace becomes something that runs
    runtime     the program of the entry: graph, effects, result
    guards      the dispatcher of the function learns about the entry

The caller always gets the answer of the real run. What cannot be compiled runs eagerly, with one
event that says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Final

import torch
import torch.fx

from anyshape.capture.abort import AbortReason
from anyshape.capture.contract import AssumedContract
from anyshape.capture.dynamism_policy import CompileDecisions
from anyshape.capture.outline.sites import place_of
from anyshape.capture.record.torch_state import can_capture
from anyshape.capture.run import Arguments, Captured, capture
from anyshape.capture.symbol_namespace import Roots
from anyshape.capture.trace import Trace
from anyshape.compiler import telemetry
from anyshape.compiler.vain_compiles import functions_made_anew, line_to_split, never_the_same
from anyshape.config import config
from anyshape.dispatch.arguments import by_parameter, show_user_frames
from anyshape.dispatch.callable_target import code_of
from anyshape.dispatch.compiled_function import CompiledFunction, StaleSignature
from anyshape.dispatch.contract import assumed, broken_contract, contract_violation
from anyshape.dispatch.dynamic_int_arguments import unwrapped
from anyshape.dispatch.entry import Entry
from anyshape.dispatch.regional_compile import NOTHING_TO_COMPILE
from anyshape.dispatch.stance import Stance, stance
from anyshape.dispatch.trace_tree_builder import TraceTreeBuilder
from anyshape.errors import (
    AnyshapeError,
    BackendFailed,
    DataDependentError,
    GraphBreakError,
    InternalError,
    RecompileError,
)
from anyshape.events import kinds
from anyshape.events.progress import progress
from anyshape.events.stream import stream
from anyshape.explain.blame import check_marks
from anyshape.ops.origins import is_of_package
from anyshape.runtime.waits import telling_waits
from anyshape.support.collection import no_collection
from anyshape.support.error_notes import with_notes
from anyshape.support.lazy_dataclass import dataclass
from anyshape.support.user_warning import warn_user

#: So often a capture may end without an entry before the function runs eagerly for good. Another
#: call may take a path that can be captured.
_MOST_LEAVES: Final = 2

#: So often it may end for what is likely to be otherwise at the next call.
_MOST_PASSING: Final = 8
#: Where graphs serve calls, there may be one more for so many of them.
_CALLS_FOR_A_PASSING: Final = 16

#: After so many captures in a row that end in an error of the program, not every call is captured.
_MOST_RAISED: Final = 8

#: So many ways that break the contract are kept: calls that go another one are captured again.
_MOST_BROKEN: Final = 8

#: With `dynamic=False`, where each size is an entry, and nobody has set a limit.
_STATIC_LIMIT: Final = 1000
_STATIC_REMEDY: Final = (
    ". With dynamic=False each size is compiled for: leave it out, or raise config.recompile_limit"
)
_REMEDY: Final = ". explain() of it names the lines; `anyshape explain SCRIPT` says what to change"


@dataclass(slots=True, eq=False)
class FunctionCompiler(CompiledFunction):
    """A compiled function, with the stages that lead to its entries."""

    # -- a call that no entry serves ---------------------------------------------------------------

    def _miss(self, bound: dict[str, Any]) -> Any:
        if self.is_stale():
            raise StaleSignature
        if (plain := unwrapped(self.target.signature, bound)) is not None:
            return self._dispatch_plain(*plain)
        # Entries imply the contract: only a call that none serves can be outside of it.
        shapes = assumed(self.contract, bound)
        for broken in self.broken_contracts:
            if broken.is_met_by(bound):
                raise copy(broken.error)
        arguments = by_parameter(self.target.signature, bound)
        if stance() is not Stance.COMPILE and self._apply_stance(bound):
            return self._call(arguments)
        if not self._compiling.acquire(blocking=False):
            # Another thread compiles it, or it calls itself: neither waits for the other.
            return self._call(arguments)
        try:
            if can_capture() is not None:
                return self._call(arguments)
            shown = progress.compiling(self.target.name, f"{self.frame_id}/{self._next_id}")
            with shown, no_collection():
                return self._compile(bound, arguments, shapes)
        finally:
            self._compiling.release()

    def _apply_stance(self, bound: dict[str, Any]) -> bool:
        """Whether the call is not to be compiled, since somebody asks for that."""
        if stance() is Stance.FAIL_ON_MISS:
            reasons = tuple(reason.text for reason in self._reasons(bound))
            raise RecompileError(
                function=self.target.name, reasons=reasons, rule=Stance.FAIL_ON_MISS.value
            )
        is_first = not self._was_called and not self.entries
        self._was_called = True
        return stance() is Stance.EAGER_ON_MISS or (stance() is Stance.EAGER_FIRST and is_first)

    def _compile(
        self, bound: dict[str, Any], arguments: Arguments, shapes: AssumedContract | None
    ) -> Any:
        if self._is_in_parts(arguments):
            return self._call(arguments)
        if self._may_raise_again():
            result = self._call(arguments)
            self._raised = 0  # It did not: the next one is captured.
            return result
        entry_id = f"{self.frame_id}/{self._next_id}"
        if self.entries and self._report_recompile(bound, entry_id):
            return self._call(arguments)
        telemetry.begins(self.target, entry_id)
        ranks = self._ranks.agree(bound, self.seen, self.options.dynamic, entry_id)
        clock = telemetry.Clock()
        choices = CompileDecisions(
            self.seen,
            self.options.dynamic,
            entry_id,
            self._written,
            ranks,
            self.profile.known(),
            shapes,
            self._marked.names,
            self._floats,
            in_region=self.slot is not None,
            unlike=self._unlike,
            is_implied=self.options.is_implied,
            made_anew=self._made_anew,
        )
        try:
            return self._compile_for(arguments, choices, clock, entry_id)
        except Exception as error:
            telemetry.failed(self.target, error, clock, len(self.entries), entry_id)
            raise

    def _is_in_parts(self, arguments: Arguments) -> bool:
        """Whether it is known from a caller that the function cannot be compiled whole."""
        if self.entries or self._leaves or self.options.fullgraph:
            return False
        code = code_of(self.target.body(tuple(arguments.positional.values())))
        if code is None or place_of(code) not in self.units.boundaries:
            return False
        self.stop_compiling(AbortReason("a part of it cannot be compiled", None))
        return True

    def _report_recompile(self, bound: dict[str, Any], entry_id: str) -> bool:
        """Tell why no entry fits; True if there are too many of them already."""
        reasons = self._reasons(bound)
        if config.error_on_recompile and self.entries:
            raise RecompileError(
                function=self.target.name, reasons=tuple(reason.text for reason in reasons)
            )
        if self._is_asked_in_vain(bound):
            return True
        limit = config.recompile_limit
        if self.options.dynamic is False and not config.is_chosen("recompile_limit"):
            limit = _STATIC_LIMIT
        last = reasons[-1].text if reasons else ""
        if len(self.entries) >= limit:
            stream.emit(
                kinds.RecompileLimit(
                    self.target.name,
                    self.target.file,
                    self.target.line,
                    limit,
                    last,
                    compile_id=entry_id,
                )
            )
            where = next((r.user_frame for r in reversed(reasons) if r.user_frame), None)
            warn_user(
                f"{self.target.name} hit config.recompile_limit ({limit}):"
                f" calls that match no entry run eagerly from now on. Last reason: {last}"
                + (f" (asked for at {where})" if where else "")
                + (_STATIC_REMEDY if self.options.dynamic is False else _REMEDY),
            )
            self.stop_compiling(AbortReason(f"the recompile limit: {last}", None))
            return True
        self.counts.recompiles += 1
        self.recompiled += reasons[-1:]
        stream.emit(
            kinds.Recompile(
                self.target.name, self.target.file, self.target.line, reasons, compile_id=entry_id
            )
        )
        return False

    def _is_asked_in_vain(self, bound: dict[str, Any]) -> bool:
        """Whether the function was split just now, since it reads what is never the same. Mostly
        the next capture leaves there, and so splits it."""
        if self.options.fullgraph:
            return False
        found = never_the_same(self.entries, bound, self.slot is not None)
        self._unlike |= found
        self._made_anew |= functions_made_anew(self.entries, bound)
        if found or self.slot is None:
            return False
        split = line_to_split(self.entries, bound, self.slot, self.target.call)
        if split is None:
            return False
        guard, frame = split
        self.entries.clear()
        why = f"a value that differs in every call is read here: {guard.text}"
        self.stop_compiling(AbortReason(why, frame), frame.line)
        return True

    def _may_raise_again(self) -> bool:
        """Whether the last captures ended in errors of the program, so that one more is likely to:
        from then on every second, fourth, eighth ... such call is captured."""
        if self._raised < _MOST_RAISED:
            return False
        self._not_captured += 1
        return self._not_captured & (self._not_captured - 1) != 0

    def _compile_for(
        self, arguments: Arguments, choices: CompileDecisions, clock: telemetry.Clock, entry_id: str
    ) -> Any:
        telemetry.read_profile(self.target, choices.profile, entry_id)
        roots = Roots()
        with clock.stage("capture"):
            captured = self._captured(arguments, choices, roots, entry_id, clock)
        self.counts.captures += 1
        self._raised = self._not_captured = 0
        outcome = captured.outcome
        self.seen.add_all(choices.observed)
        telemetry.sizes_seen(self.target, choices, entry_id)
        written = frozenset[str]() if isinstance(outcome, AbortReason) else outcome.written
        self.profile.learn(choices.observed, written, choices.of_modules)
        telemetry.wrote_profile(self.target, choices.profile, self.seen, entry_id)
        if isinstance(outcome, AbortReason):
            self._abort(outcome, entry_id, clock)
        else:
            self._add(outcome, choices, entry_id, clock, roots)
        return captured.result

    def _captured(
        self,
        arguments: Arguments,
        choices: CompileDecisions,
        roots: Roots,
        entry_id: str,
        clock: telemetry.Clock,
    ) -> Captured:
        whole = self.options.fullgraph

        def left_and_raised(left: AbortReason) -> None:
            if not whole:  # who wants one graph gets the error of the program first
                self._abort(left, entry_id, clock)

        try:
            return capture(
                *(self.target.call, arguments, choices, roots, whole, choices.contract),
                left_and_raised,
            )
        except Exception as error:
            self._raised += not isinstance(error, AnyshapeError)
            show_user_frames(error)
            raise

    def _abort(self, left: AbortReason, entry_id: str, clock: telemetry.Clock) -> None:
        self.counts.graph_breaks += not left.is_passing
        self.counts.eager_calls += 1
        telemetry.left(self.target, left, clock, len(self.entries), entry_id)
        self._passing += left.is_passing
        served = sum(entry.hits for entry in self.entries) // _CALLS_FOR_A_PASSING
        if left.is_passing and self._passing < _MOST_PASSING + served:
            return
        if self.options.fullgraph and left.question is not None:
            raise DataDependentError(
                function=self.target.name,
                question=left.question.text,
                numbers=left.question.numbers,
                suggestions=left.question.suggestions,
                where=str(left.frame) if left.frame else None,
            )
        if self.options.fullgraph:
            raise GraphBreakError(
                function=self.target.name,
                reason=left.reason,
                hints=left.hints,
                where=str(left.frame) if left.frame else None,
            )
        self._last_left = left
        self._note_eager(left)
        self._leaves += 1
        if self._leaves >= _MOST_LEAVES or self.slot is not None:
            self.stop_compiling(left)

    # -- from a trace to an entry ------------------------------------------------------------------

    def _add(
        self,
        trace: Trace,
        choices: CompileDecisions,
        entry_id: str,
        clock: telemetry.Clock,
        roots: Roots,
    ) -> None:
        """Make an entry of a trace."""
        self._written |= trace.written
        broken = broken_contract(self.target.name, trace, choices)
        if broken is not None:
            # Other calls may go other ways. What is kept has no traceback, which has the arguments.
            self.broken_contracts[_MOST_BROKEN - 1 :] = [broken]
            raise copy(broken.error)
        check_marks(trace, choices.rulings)
        for defect in trace.defects:
            stream.emit(kinds.Defect("ops", defect, compile_id=entry_id))
        if self.slot is not None and not trace.has_operations:
            # Numbers and strings: nothing is gained, and each value would be a compile. Another
            # call may go another way.
            self._leaves += 1
            if self._leaves >= _MOST_LEAVES:
                self.stop_compiling(AbortReason(NOTHING_TO_COMPILE, None))
            return
        entry = Entry(entry_id, choices, roots)
        if not self._add_trace(entry, trace, clock):
            return
        self._next_id += 1
        self.entries.append(entry)
        self._work = max(self._work, *(len(graph.graph.nodes) for graph in entry.graphs))
        self.counts.graphs += len(entry.graphs)
        self.counts.guards += len(entry.guards)
        self.counts.hits.append(entry.counter)
        self._finished(entry, trace, clock, entry.graphs)

    def _add_trace(self, entry: Entry, trace: Trace, clock: telemetry.Clock) -> bool:
        """Let an entry serve what a trace did; False if its backend failed."""
        try:
            with clock.stage("backend"), telling_waits(self.counts.waited):
                breaks = entry.add_trace(trace, self.options, self.target.name)
        except Exception as error:
            self._backend_failed(error)
            return False
        self.counts.graph_breaks += len(breaks)
        for found in breaks:
            telemetry.breaks(found, entry.id)
        return True

    def _backend_failed(self, error: Exception) -> None:
        if config.on_compile_error == "raise":
            if is_of_package(self.options.backend):
                raise InternalError(stage="backend", detail=with_notes(error)) from error
            raise BackendFailed(function=self.target.name, detail=with_notes(error)) from error
        warn_user(
            f"the backend failed on {self.target.name}, which runs eagerly: {with_notes(error)}",
        )
        self.stop_compiling(AbortReason(f"the backend failed: {with_notes(error)}", None))

    def _finished(
        self,
        entry: Entry,
        trace: Trace,
        clock: telemetry.Clock,
        graphs: Sequence[torch.fx.GraphModule],
    ) -> None:
        with clock.stage("guards"):
            self.rebuild()
        self.counts.compile_seconds += clock.seconds
        telemetry.compiled(self.target, entry, trace, clock, graphs, len(self.entries))

    # -- a call that goes a way which its entry has not seen ---------------------------------------

    def extend(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call that has been undone again, watched, and let its entry grow."""
        call = self.target.signature.bind(*args, **kwargs)
        call.apply_defaults()
        bound = dict(call.arguments)
        if (plain := unwrapped(self.target.signature, bound)) is not None:
            bound, _ = plain
        arguments = by_parameter(self.target.signature, bound)
        if not self._compiling.acquire(blocking=False):
            return self._call(arguments)
        try:
            entry = self._serving(bound)
            if entry is not None:
                entry.counter[0] -= 1  # it did not serve the call after all
            unknown = entry is None or entry.growing is None
            if unknown or self.eager is not None or can_capture() is not None:
                if entry is not None and self.eager is not None:
                    self._count_side_exit(entry)
                return self._call(arguments)
            assert entry is not None
            assert entry.growing is not None
            if entry.growing.is_full(config.max_graphs_per_entry, config.max_growths_per_line):
                self._stop_extending(entry)
                return self._call(arguments)
            with progress.compiling(self.target.name, entry.id), no_collection():
                shapes = assumed(self.contract, bound)
                return self._extend(entry, entry.growing, arguments, shapes)
        finally:
            self._compiling.release()

    def _extend(
        self,
        entry: Entry,
        growing: TraceTreeBuilder,
        arguments: Arguments,
        shapes: AssumedContract | None,
    ) -> Any:
        telemetry.begins(self.target, entry.id)
        clock = telemetry.Clock()
        choices = entry.choices.again(shapes)
        with clock.stage("capture"):
            captured = self._captured(arguments, choices, entry.roots, entry.id, clock)
        self.counts.captures += 1
        trace = captured.outcome
        if isinstance(trace, AbortReason):
            self._abort(trace, entry.id, clock)
            return captured.result
        violation = contract_violation(self.target.name, trace, choices)
        if violation is not None:
            raise violation
        before = len(growing.graphs)
        if not self._add_trace(entry, trace, clock):
            return captured.result
        new = growing.graphs[before:]
        self.counts.graphs += len(new)
        self._finished(entry, trace, clock, new)
        return captured.result

    def _count_side_exit(self, entry: Entry) -> None:
        """Let go of an entry that can no longer grow, once it has left more calls than it served:
        they are tried, undone, and run in parts."""
        entry.side_exits += 1
        if entry.side_exits > entry.hits:
            self.entries.remove(entry)
            self.rebuild()

    def _stop_extending(self, entry: Entry) -> None:
        """Split a function that would need graph after graph; eager where there is no place to."""
        last = entry.breaks[-1] if entry.breaks else None
        reason = last.reason if last else "its data-dependent branches keep changing"
        where = last.where if last else None
        why = AbortReason(
            f"too many data-dependent branches ({len(entry.graphs)} graphs): {reason}",
            where,
            sites=last.sites if last else (),
        )
        if why.sites:
            stream.emit(kinds.GraphBreak(why.reason, where, compile_id=entry.id))
        else:
            warn_user(
                f"{self.target.name} runs eagerly where no graph matches: {why.reason}"
                + (f" at {where}" if where else ""),
            )
        # It would be tried, undone, and run in parts after all.
        self.entries.remove(entry)
        self.stop_compiling(why)
