"""The state of one capture: what was read and from where, what was assumed, what was recorded.

A capture runs the user's function for real. The tracer only watches; when it meets something that
it cannot follow, it leaves (`leave`): the function runs on as plain Python, its answer stands, and
nothing is kept but the reason.
"""

from __future__ import annotations

import enum
import os
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.instrument import instrumented_by_identity
from anyshape.guards.guard import Frame, Guard, Kind, SymbolSource
from anyshape.guards.path import Access, Path, constant
from anyshape.symbolic import Answer, Expr, Fact, Facts, Range, Size, as_symbol, eq, not_, symbol

#: Values that never change and hold nothing but themselves: guarded by comparing.
ATOMS: Final = frozenset(
    {
        int,
        float,
        bool,
        str,
        bytes,
        complex,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        range,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)

#: Objects that are code rather than data: guarded by identity where they are read.
CODE: Final = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    staticmethod,
    classmethod,
    property,
)

TENSORS: Final = frozenset({torch.Tensor, torch.nn.Parameter})


class Leave(Exception):
    """Raised inside a hook, before it has done anything: this cannot be followed."""

    def __init__(self, reason: str, *hints: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hints = hints


@dataclass(frozen=True, slots=True)
class Left:
    """Why a capture was given up."""

    reason: str
    frame: Frame | None
    hints: tuple[str, ...] = ()


class Chooser(Protocol):
    """Who says which sizes and integers are dynamic (the policy, for one call)."""

    def sizes(
        self, path: Path, tensor: torch.Tensor, module_property: bool
    ) -> Sequence[Range | None]:
        """For each dimension the range of its symbol, or None for a static one."""
        ...

    def integer(self, path: Path, value: int, module_property: bool) -> Range | None:
        """The range of the symbol for an integer, or None for a static one."""
        ...

    def created(
        self, source: SymbolSource, hint: int, declared: Range, frame: Frame | None
    ) -> None:
        """A symbol was made."""
        ...

    def assumed(self, fact: Fact, reason: str, frame: Frame | None) -> None:
        """A fact was assumed: a guard was added."""
        ...

    def same_symbol(self, value: int) -> Expr | None:
        """The symbol to use again for an equal size (duck shaping), if any."""
        ...

    def made(self, value: int, symbol: Expr) -> None:
        """A symbol for a size was made."""
        ...


class Tracer:
    """See the module. The parts that know tensors, containers and effects are given the tracer."""

    def __init__(self, chooser: Chooser, on_leave: Callable[[], None]) -> None:
        self.active = True
        self.left: Left | None = None
        self.chooser = chooser
        self._on_leave = on_leave
        self.facts = Facts()
        #: where each assumed fact was needed
        self.origins: dict[Fact, tuple[str, Frame | None]] = {}
        self.guards: dict[object, Guard] = {}
        self.symbols: list[SymbolSource] = []
        #: external objects by identity: the first path that led to each
        self.paths: dict[int, Path] = {}
        self._constants: dict[int, Path] = {}
        self._read: dict[Path, Any] = {}
        self._below_module: dict[Path, bool] = {}
        #: keeps what `paths` names alive, so that no identity is used twice
        self.kept: list[object] = []
        self._values: dict[Expr, int] = {}
        self.recorder: Any = None

    # -- leaving ---------------------------------------------------------------------------------

    def leave(self, reason: str, *hints: str) -> None:
        """Stop watching: the function runs on as plain Python."""
        if self.active:
            self.left = Left(reason, self.user_frame(), hints)
            self.active = False
            self._on_leave()

    def user_frame(self, above: int = 1) -> Frame | None:
        """The line of the user's program that is being run. So many callers are known to be ours,
        and are not asked: looking at a frame makes an object of it."""
        frame = sys._getframe(above)
        inner: Frame | None = None
        ours = instrumented_by_identity
        while frame is not None:
            code = frame.f_code
            if id(code) in ours:
                if not code.co_filename.startswith(_TORCH):
                    return Frame(code.co_filename, frame.f_lineno, code.co_name)
                # A line of torch's own modules says less than the line that called the module.
                inner = inner or Frame(code.co_filename, frame.f_lineno, code.co_name)
            frame = frame.f_back
        return inner

    # -- guards ----------------------------------------------------------------------------------

    def guard(
        self, kind: Kind, path: Path, value: object, reason: str = "read by the program"
    ) -> None:
        key: object
        if kind in _SEVERAL_A_PATH:
            key = (kind, path, id(value) if isinstance(value, Path) else value)
        else:
            key = (kind, path)
        if key not in self.guards:
            # The caller is a hook at least, which was called by the user's program.
            self.guards[key] = Guard(kind, path, value, reason, self.user_frame(above=3))

    def distinct(self, key: object, paths: tuple[Path, ...]) -> None:
        """Guard that the objects at these paths are different ones."""
        if key not in self.guards:
            self.guards[key] = Guard(
                Kind.DISTINCT, None, paths, "the program tells them apart", self.user_frame()
            )

    def constant(self, value: object, text: str | None = None) -> Path:
        """The path of an object that is held: the same for the same object."""
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = constant(value, text or _name_of(value))
            self.kept.append(value)
        return found

    # -- facts -----------------------------------------------------------------------------------

    def decide(self, fact: Fact, reason: str) -> bool:
        """Whether a fact holds; where both are possible, what holds now becomes a guard."""
        answer = self.facts.prove(fact)
        if answer is not Answer.UNKNOWN:
            return answer is Answer.YES
        now = self.facts.holds_now(fact)
        assert now is not None, "unbacked sizes do not get this far"
        taken = fact if now else not_(fact)
        self.facts = self.facts.assume(taken, reason)
        self.note_assumed(taken, reason)
        return now

    def note_assumed(self, fact: Fact, reason: str) -> None:
        frame = self.user_frame()
        self.origins.setdefault(fact, (reason, frame))
        self.chooser.assumed(fact, reason, frame)

    def fix(self, value: Any, reason: str) -> Any:
        """The plain number behind a traced one, which becomes the only one that the capture is
        for."""
        if not self.active:
            return plain(value)
        if type(value) is TracedFloat:
            for size in value.node.sizes:
                self.decide(eq(size, self.value_of(size)), reason)
        elif type(value) is TracedInt:
            self.decide(eq(value.expr, plain(value)), reason)
        return plain(value)

    def record(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
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
            source = SymbolSource(as_symbol(again), path, dim)
            self.symbols.append(source)
            return again
        made = symbol(f"s{len({source.symbol for source in self.symbols})}", declared)
        self.facts = self.facts.declare(made, hint=value)
        self._values[made] = value
        source = SymbolSource(as_symbol(made), path, dim)
        self.symbols.append(source)
        self.chooser.created(source, value, declared, self.user_frame())
        if dim is not None:
            self.chooser.made(value, made)
        return made

    # -- reading what is outside -----------------------------------------------------------------

    def read(self, value: Any, path: Path) -> Any:
        """What the program gets for `value`, found outside at `path`; guards what it now knows."""
        found = self._read.get(path, _UNREAD)
        if found is not _UNREAD:
            return found
        self._read[path] = found = self._first_read(value, path)
        return found

    def _first_read(self, value: Any, path: Path) -> Any:
        kind = type(value)
        if kind is int:
            return self._read_integer(value, path)
        if kind in ATOMS:
            self.guard(Kind.EQUALS, path, value)
            return value
        if kind is TracedInt or kind is TracedFloat:
            raise Leave("a traced number was found outside")
        if isinstance(value, (*CODE, enum.Enum)):
            self.guard(Kind.IDENTITY, path, value)
            return value
        known = self.paths.get(id(value))
        if known is not None:
            if known is not path and known.access is not Access.CONSTANT:
                self.guard(Kind.SAME_OBJECT, path, known, "the same object at two places")
            elif known is not path:
                self.guard(Kind.IDENTITY, path, value)
            return value
        self.register(value, path)
        self.guard(Kind.TYPE, path, kind)
        if isinstance(value, torch.Tensor) and kind not in TENSORS:
            raise Leave(f"a tensor subclass: {kind.__name__}")
        return value

    def register(self, value: object, path: Path) -> None:
        self.paths[id(value)] = path
        self.kept.append(value)

    def _read_integer(self, value: int, path: Path) -> Any:
        declared = self.chooser.integer(path, value, self.below_module(path))
        if declared is None:
            self.guard(Kind.EQUALS, path, value)
            return value
        self.guard(Kind.TYPE, path, int)
        return self.integer(self.new_symbol(path, None, value, declared))

    def note_module(self, path: Path) -> None:
        self._below_module[path] = True

    def below_module(self, path: Path) -> bool:
        """Whether the path goes through an `nn.Module`: what it owns stays static."""
        found = self._below_module.get(path)
        if found is None:
            found = path.parent is not None and self.below_module(path.parent)
            self._below_module[path] = found
        return found

    def path_of(self, value: object) -> Path | None:
        """Where an external object was found; None for what the program made itself."""
        return self.paths.get(id(value))


_UNREAD: Final = object()
_TORCH: Final = os.path.dirname(torch.__file__) + os.sep

_SEVERAL_A_PATH: Final = frozenset(
    {Kind.CONTAINS, Kind.NO_INSTANCE_ATTRIBUTE, Kind.NO_ATTRIBUTE, Kind.SAME_OBJECT}
)


def _hint(facts: Facts, size: Expr) -> int:
    found = facts.hint(size)
    assert found is not None, "unbacked sizes do not get this far"
    return found


def _name_of(value: object) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if isinstance(name, str):
        return f"{module}.{name}" if isinstance(module, str) else name
    return f"<{type(value).__name__}>"
