"""The state of one capture: what was read and from where, what was assumed, what was recorded.

A capture runs the user's function for real. The tracer only watches; when it meets something that
it cannot follow, it leaves (`abort`): the function runs on as plain Python, its answer stands, and
nothing is kept but the reason.
"""

from __future__ import annotations

import enum
import operator
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture, AbortReason, TrialEnds
from anyshape.capture.externals.native_values import BOUND, BY_IDENTITY, HasValue, key_of_type
from anyshape.capture.externals.shared_containers import SharedContainers
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt, is_traced, plain
from anyshape.capture.numbers.traced_text import TRACED_VALUES, TracedText, bare
from anyshape.capture.outline.sites import has_handler, is_caught, sites_on_stack
from anyshape.capture.policy_protocol import DynamismPolicy
from anyshape.capture.record.data_questions import Question
from anyshape.capture.symbol_namespace import Roots
from anyshape.capture.user_frames import UserFrames
from anyshape.capture.value_kinds import ATOMS, CODE, is_plain_tensor
from anyshape.guards.dynamic_int import DynamicInt, plain_int
from anyshape.guards.float_answer import FloatAnswer
from anyshape.guards.guard import Frame, Guard, Kind, SymbolSource, guard_key
from anyshape.guards.path import Access, Path
from anyshape.support.collection import resume_collection
from anyshape.symbolic import (
    Answer,
    Expr,
    Fact,
    Facts,
    Range,
    Size,
    as_symbol,
    eq,
    is_data_dependent,
    not_,
    symbol,
)


class Tracer:
    """See the module. The parts that know tensors, containers and effects are given the tracer."""

    def __init__(
        self,
        chooser: DynamismPolicy,
        on_leave: Callable[[], None],
        roots: Roots | None = None,
        whole: bool = False,
    ) -> None:
        self.active = True
        self.left: AbortReason | None = None
        self.chooser = chooser
        self._on_leave = on_leave
        self.facts = Facts()
        #: where each assumed fact was needed
        self.origins: dict[Fact, tuple[str, Frame | None]] = {}
        self.guards: dict[object, Guard] = {}
        self.symbols: list[SymbolSource] = []
        #: external objects by identity: the first path that led to each
        self.paths: dict[int, Path] = {}
        self.roots = Roots() if roots is None else roots
        #: whether one graph is wanted: a question about data then has no answer
        self.whole = whole
        #: code with hooks, and the function of the program that it is of
        self.watched: list[tuple[types.CodeType, types.FunctionType]] = []
        #: of so many of them it is known whether any has a handler of errors
        self._looked_for_handlers = 0
        self._has_handlers = False
        self._read: dict[Path, object] = {}
        #: what was asked of floats: equal questions are one guard
        self._answers: dict[object, FloatAnswer] = {}
        #: slices from outside by identity: what the program gets for each
        self._slices: dict[int, object] = {}
        self._owners: dict[Path, type | None] = {}
        #: functions from outside that are known by their code alone: each call may have another one
        self.by_code: dict[int, Path] = {}
        #: keeps what `paths` names alive, so that no identity is used twice
        self.kept: list[object] = []
        self.shared = SharedContainers()
        self._values: dict[Expr, int] = {}
        #: sizes that the shape contract gives: of tensors by identity and dimension, of integers
        self.given_sizes: dict[int, dict[int, Size]] = {}
        self.given_integers: dict[Path, Size] = {}
        self.recorder: Any = None
        self._trials = 0
        #: above 0: what is asked about data is expected to stay as it is
        self._expecting = 0
        #: whether what is asked is asked by a check, which expects it to be so
        self.checking = False
        #: what the capture did, in order (see `replay`): guards and reads, be they the first of
        #: their kind or not, inputs, operations, and a text for whatever no replay could do
        self.log: list[object] | None = None
        #: the frame to give for a line of the program that is not being run
        self.lent_frame: tuple[Frame | None] | None = None
        self.user_frames = UserFrames()
        #: the line of the user's program that is being run
        self.user_frame = self.user_frames.innermost

    def is_caught(self) -> bool:
        """Whether a watched function that is running has a handler of errors that torch's operators
        raise because of data."""
        while self._looked_for_handlers < len(self.watched):
            self._has_handlers |= has_handler(self.watched[self._looked_for_handlers][0])
            self._looked_for_handlers += 1
        return self._has_handlers and is_caught()

    # -- leaving ---------------------------------------------------------------------------------

    def abort(
        self,
        reason: str,
        *hints: str,
        question: Question | None = None,
        is_error: bool = False,
        is_passing: bool = False,
    ) -> None:
        """Stop watching: the function runs on as plain Python."""
        if self.active:
            if self._trials:
                raise TrialEnds(AbortCapture(reason, *hints, question=question))
            frame = self.user_frame() if self.lent_frame is None else self.lent_frame[0]
            sites = sites_on_stack()
            self.left = AbortReason(
                *(reason, frame, hints, question, sites),
                is_error=is_error,
                is_passing=is_passing,
            )
            self.active = False
            resume_collection()
            self._on_leave()

    @property
    def is_trial(self) -> bool:
        return self._trials > 0

    @contextmanager
    def trial(self) -> Iterator[None]:
        """While a part of the program runs that runs once more if it cannot be followed: it may not
        have effects, and ends where the capture would."""
        self._trials += 1
        try:
            yield
        except TrialEnds as ends:
            left = ends.left
        else:
            return
        finally:
            self._trials -= 1
        raise AbortCapture(left.reason, *left.hints, question=left.question)

    def check_active(self) -> None:
        """Leave a change to plain Python where its operands have ended the capture: nobody knows
        where the object is from, and it may not get traced numbers."""
        if not self.active:
            raise AbortCapture("the capture has ended")

    def has_effect(self, what: str) -> None:
        """Something is about to change that outlives the part of the program at hand."""
        if self._trials:
            raise AbortCapture(f"{what} in a function that is called for all positions at once")

    def forget(self) -> None:
        """Let go of the program's objects: to be called when nobody watches any more."""
        # With what they are named by: an identity may be used again from now on.
        for held in (self.paths, self._read, self._owners, self.kept, self.given_sizes):
            held.clear()
        self.shared = SharedContainers()
        self.log = None

    def leave_for(self, left: AbortCapture) -> None:
        self.abort(left.reason, *left.hints, question=left.question, is_passing=left.is_passing)

    # -- guards ----------------------------------------------------------------------------------

    def guard(
        self, kind: Kind, path: Path, value: object, reason: str = "read by the program"
    ) -> None:
        key = guard_key(kind, path, value)
        found = self.guards.get(key)
        if found is None:
            # The caller is a hook at least, which was called by the user's program.
            lent = self.lent_frame
            frame = self.user_frame(above=3) if lent is None else lent[0]
            found = self.guards[key] = Guard(kind, path, value, reason, frame)
            unlike = self.chooser.unlike
            if unlike and any((kind, each.text) in unlike for each in path.line):
                self.abort(f"{path.text} differs in every call ({reason})")
        if self.log is not None:
            self.log.append(found)

    def add_guard(
        self, kind: Kind, path: Path, value: object, reason: str, frame: Frame | None
    ) -> Guard:
        """The guard that `guard` would add at a line of the program."""
        key = guard_key(kind, path, value)
        found = self.guards.get(key)
        if found is None:
            found = self.guards[key] = Guard(kind, path, value, reason, frame)
        return found

    def has_guard(self, kind: Kind, path: Path, value: object) -> bool:
        return guard_key(kind, path, value) in self.guards

    def cannot_replay(self, why: str) -> None:
        """Say on the log that something was done which a replay could not do."""
        if self.log is not None:
            self.log.append(why)

    def distinct(self, key: object, paths: tuple[Path, ...]) -> None:
        """Guard that the objects at these paths are different ones, in place of what was guarded
        under this key."""
        self.cannot_replay("objects are compared by identity")
        known = self.guards.pop(key, None)
        frame = self.user_frame() if known is None else known.user_frame
        # Behind the guards of all the paths.
        self.guards[key] = Guard(
            Kind.DISTINCT, None, paths, "the program compares them by identity", frame
        )

    def constant(self, value: object, text: str | None = None) -> Path:
        """The path of an object that is held: the same for the same object."""
        if id(value) in self.by_code:
            return self.by_code[id(value)]
        found = self.roots.known_constant(value)
        if found is None:
            found = self.roots.constant(value, text)
            self.kept.append(value)
        return found

    # -- facts -----------------------------------------------------------------------------------

    def decide(self, fact: Fact, reason: str) -> bool:
        """Whether a fact holds; where both are possible, what holds now becomes a guard, or, about
        data, a branch of the compiled program."""
        answer = self.facts.prove(fact)
        if answer is not Answer.UNKNOWN:
            return answer is Answer.YES
        now = self.facts.holds_now(fact)
        if now is None:
            raise AbortCapture(f"`{fact}` is asked, and what it is about has no value yet")
        taken = fact if now else not_(fact)
        if not is_data_dependent(fact):
            self.facts = self.facts.assume(taken, reason)
            self.note_assumed(taken, reason)
        elif self._branch(fact, now, reason):
            self.facts = self.facts.assume(taken, reason)
        return now

    def _branch(self, fact: Fact, now: bool, reason: str) -> bool:
        if self.runtime_asserts:
            self.recorder.runtime_assert(fact if now else not_(fact), reason)
            return True
        return self._recorded(self.recorder.branch_on_fact, fact, now, reason)

    def _recorded(self, record: Callable[..., object], *what: object) -> bool:
        """Whether the recorder could follow something: else the capture has been left."""
        try:
            record(*what)
        except AbortCapture as left:
            self.leave_for(left)
        return self.active

    def specialize_size(self, size: Size, reason: str) -> int:
        """The value of a size, which becomes the only one that this way through the program is
        for."""
        only = self.facts.value(size)
        if only is not None:
            return only
        assert isinstance(size, Expr)
        value = self.value_of(size)
        if is_data_dependent(size) and not self.runtime_asserts:
            if self._recorded(self.recorder.branch_on_size, size, value, reason):
                self.facts = self.facts.assume(eq(size, value), reason)
        else:
            self.decide(eq(size, value), reason)
        return value

    @property
    def runtime_asserts(self) -> bool:
        return self.checking or self._expecting > 0

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Where a question about data is no branch: the answer is expected, and checked later."""
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1

    def note_assumed(self, fact: Fact, reason: str) -> None:
        if is_data_dependent(fact):
            self.recorder.runtime_assert(fact, reason)
            return
        frame = self.user_frame()
        self.origins.setdefault(fact, (reason, frame))
        self.chooser.assumed(fact, reason, frame, self.facts)

    def answer(self, source: Path, answer: FloatAnswer, reason: str) -> None:
        """Guard what was asked of a float from outside."""
        same = self._answers.setdefault((answer.asked.key, answer.answer), answer)
        self.guard(Kind.PREDICATE, source, same, reason)

    def specialize(self, value: object, reason: str) -> Any:
        """The plain number behind a traced one, which becomes the only one that the capture is
        for."""
        if not self.active:
            return bare(value)
        if type(value) is TracedFloat:
            if value.node.of_data:
                self._fix_number(value, reason)
            for source in value.node.sizes:
                self.fix_source(source, reason)
        elif type(value) is TracedInt:
            self.specialize_size(value.expr, reason)
        elif type(value) is TracedText:
            value.specialize(reason)
        return bare(value)

    def fix_source(self, source: Expr | Path, reason: str) -> None:
        """Fix what a float was made of: a size, or a float from outside."""
        if isinstance(source, Path):
            if self.chooser.in_region:
                # It was seen to change. The question is asked between two regions from now on.
                self.abort(f"the value of a float that changes is needed ({reason})")
                return
            self.guard(Kind.EQUALS, source, plain(self._read[source]), reason)
        else:
            self.specialize_size(source, reason)

    def _fix_number(self, value: TracedFloat, reason: str) -> None:
        number = value.node
        if number.settled:
            return
        try:
            if not self.runtime_asserts:
                # No two runs have the same float: a branch for each would be of no use.
                what = f"the value of a float that depends on data is needed ({reason})"
                raise AbortCapture(what, question=Question(what, (), what, ()))
            node = self.recorder.number_node(number)
            self.recorder.branch_on_number(node, plain(value), reason)
        except AbortCapture as left:
            self.leave_for(left)
        number.settled = True

    def new_data_symbol(self, value: int, declared: Range) -> Expr:
        """A symbol for an integer that the graph computes from data."""
        made = symbol(self.facts.new_name("u"), declared, backed=False)
        self.facts = self.facts.declare(made).observe(made, value)
        return made

    def observe(self, size: Expr, value: int) -> None:
        self.facts = self.facts.observe(size, value)

    def record(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        """A number computed from traced ones, which the graph computes anew."""
        assert self.recorder is not None, "a capture has a recorder"
        return self.recorder.number(function, args)

    def value_of(self, size: Size) -> int:
        """The value of a size in this run."""
        if not isinstance(size, Expr):
            return size
        found = self._values.get(size)
        if found is None:
            found = self._values[size] = _hint(self.facts, size)
        return found

    def integer(self, size: Size) -> int:
        """A size as the program sees it: a plain integer where only one is possible."""
        if not isinstance(size, Expr):
            return size
        only = self.facts.value(size)
        return TracedInt(self.value_of(size), size, self) if only is None else only

    def new_symbol(self, path: Path, dim: int | None, value: int, declared: Range) -> Expr:
        again = self.chooser.same_symbol(value) if dim is not None else None
        if again is not None:
            source = self.has_source(again, path, dim)
            self.chooser.shared(source, self.user_frame())
            return again
        made = self.own_symbol(path, dim, value, declared)
        if dim is not None:
            self.chooser.made(value, made)
        return made

    def own_symbol(self, path: Path, dim: int | None, value: int, declared: Range) -> Expr:
        """A symbol that stands for this place, whatever else has the same value."""
        made = self.roots.symbols.get((path, dim))
        if made is None or as_symbol(made).declared != declared:
            made = symbol(self.roots.next_name(), declared)
        self.facts = self.facts.declare(made, hint=value)
        self._values[made] = value
        source = self.has_source(made, path, dim)
        self.chooser.created(source, value, declared, self.user_frame())
        return made

    def has_source(self, made: Expr, path: Path, dim: int | None) -> SymbolSource:
        self.roots.symbols[path, dim] = made
        source = SymbolSource(as_symbol(made), path, dim)
        self.symbols.append(source)
        return source

    # -- reading what is outside -----------------------------------------------------------------

    def read(self, value: object, path: Path) -> Any:
        """What the program gets for `value`, found outside at `path`; guards what it now knows."""
        found = self._read.get(path, _UNREAD)
        if found is not _UNREAD:
            if self.log is not None:
                self.log.append((path, value, False))
            return found
        self._read[path] = found = self._first_read(value, path)
        if is_traced(found) and type(value) in (int, float):
            found.given = value
        if self.log is not None:
            self.log.append((path, value, True))
        return found

    @property
    def read_paths(self) -> list[Path]:
        return list(self._read)

    def was_read(self, path: Path) -> bool:
        return path in self._read

    def what_was_read(self, path: Path) -> object:
        return self._read[path]

    def take(self, value: object, path: Path, own: bool) -> None:
        """What a first read leaves behind; `own`: of an object that no path led to before."""
        self._read[path] = value
        if own:
            self._register(value, path)

    def _first_read(self, value: Any, path: Path) -> object:
        kind = type(value)
        if kind is int or kind is DynamicInt:
            return self._read_integer(value, path)
        if kind is float and self.chooser.is_dynamic_float(path, value, self.owner(path)):
            self.guard(Kind.TYPE, path, float)
            return self.recorder.float_input(path, value)
        if kind in ATOMS:
            self.guard(Kind.EQUALS, path, value)
            return value
        if kind in TRACED_VALUES:
            raise AbortCapture("a traced number was found outside")
        if kind is types.FunctionType and self._is_by_code(value, path):
            return value
        if isinstance(value, _KNOWN_BY_IDENTITY):
            self.guard(Kind.IDENTITY, path, value)
            if isinstance(value, BOUND):
                self._read_owner(value)
            return value
        if kind is slice:
            return self._read_slice(value, path)
        known = self.paths.get(id(value))
        if known is not None:
            self._guard_same(value, path, known)
            return value
        self._register(value, path)
        self.guard(Kind.TYPE, path, kind)
        if isinstance(value, torch.Tensor):
            if not is_plain_tensor(kind):
                raise AbortCapture(f"a tensor subclass: {kind.__name__}")
            return value
        key_of = key_of_type(kind)
        if key_of is not None:
            self.guard(Kind.PREDICATE, path, HasValue(value, key_of))
        return value

    def _is_by_code(self, function: types.FunctionType, path: Path) -> bool:
        """Whether guards are on the code of a function: whatever else it is made of is read by who
        calls it. Where a program tells functions apart, `pin` has it known by identity."""
        known = self.by_code.get(id(function))
        if known is not None:
            self._guard_same(function, path, known)
            return True
        if path.text not in self.chooser.made_anew or function.__dict__:
            return False
        self.cannot_replay("a function is known by its code")
        self.by_code[id(function)] = path
        self._register(function, path)
        self.guard(Kind.TYPE, path, types.FunctionType)
        for name in ("__code__", "__globals__"):
            self.guard(Kind.IDENTITY, path.attribute(name), getattr(function, name))
        self.guard(Kind.TRUTH, path.attribute("__dict__"), False, "a function without attributes")
        if function.__closure__ is not None:
            self.guard(Kind.TYPE, path.attribute("__closure__"), tuple)
        return True

    def pin(self, value: Any, depth: int = 4) -> None:
        """Have a function known by identity, and those in a container."""
        kind = type(value)
        if kind is types.FunctionType and id(value) in self.by_code:
            self.guard(Kind.IDENTITY, self.by_code[id(value)], value)
        elif kind in _CONTAINERS and self.by_code:
            if not depth:
                self.abort("a function may be deep in a container")
            else:
                for each in (*value.keys(), *value.values()) if kind is dict else value:
                    self.pin(each, depth - 1)

    def _guard_same(self, value: object, path: Path, known: Path) -> None:
        """Guard that an object at one path is the one that another path has led to."""
        if known is path:
            return
        if known.access is Access.CONSTANT:
            self.guard(Kind.IDENTITY, path, value)
        else:
            self.guard(Kind.SAME_OBJECT, path, known, "the same object at two places")

    def _read_owner(self, function: Any) -> None:
        """What a native method from outside is bound to was outside as well, and may change."""
        owner = function.__self__
        if type(owner) not in ATOMS and not isinstance(owner, _WITHOUT_STATE):
            self.read(owner, self.constant(function).attribute("__self__"))

    def _read_slice(self, value: object, path: Path) -> object:
        """A slice, with its parts read: one of our own where they are traced."""
        known = self._slices.get(id(value))
        if known is not None:
            self._guard_same(value, path, self.paths[id(value)])
            return known
        self.cannot_replay("a slice is taken apart")
        self.guard(Kind.TYPE, path, slice)
        names = ("start", "stop", "step")
        old = [getattr(value, name) for name in names]
        new = [self.read(part, path.attribute(name)) for name, part in zip(names, old, strict=True)]
        made = value if all(map(operator.is_, old, new)) else slice(*new)
        self._slices[id(value)] = made
        self._register(value, path)
        if made is not value:
            self._register(made, path)
        return made

    def register(self, value: object, path: Path) -> None:
        self.cannot_replay("an object is made known")
        self._register(value, path)

    def _register(self, value: object, path: Path) -> None:
        self.paths[id(value)] = path
        self.kept.append(value)
        if isinstance(value, torch.nn.Module):
            self._owners[path] = type(value)

    def _read_integer(self, value: int, path: Path) -> object:
        given = self.given_integers.get(path)
        if given is not None:
            # What the contract says stands; the policy tells of settings that forbid it.
            self.chooser.integer(path, value, self.owner(path))
            return self.integer(given)
        declared = self.chooser.integer(path, value, self.owner(path))
        if declared is None:
            self.guard(Kind.EQUALS, path, value)
            return plain_int(value)
        # The symbol says that it is an integer, a DynamicInt or not.
        return self.integer(self.new_symbol(path, None, plain_int(value), declared))

    def owner(self, path: Path) -> type | None:
        """The class of the last `nn.Module` that the path goes through: what it owns stays
        static."""
        if path not in self._owners:
            self._owners[path] = None if path.parent is None else self.owner(path.parent)
        return self._owners[path]

    def path_of(self, value: object) -> Path | None:
        """Where an external object was found; None for what the program made itself."""
        return self.paths.get(id(value))


_UNREAD: Final = object()
_CONTAINERS: Final = (list, tuple, set, frozenset, dict)
_KNOWN_BY_IDENTITY: Final = (*CODE, *BY_IDENTITY, enum.Enum)
#: What a native function may be bound to and still be nothing but code.
_WITHOUT_STATE: Final = (types.ModuleType, type, type(None))


def _hint(facts: Facts, size: Expr) -> int:
    found = facts.hint(size)
    assert found is not None, "unbacked sizes do not get this far"
    return found
