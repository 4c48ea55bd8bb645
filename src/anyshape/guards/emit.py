"""One generated function per compiled function: the user's own signature, one block for each entry.

    def dispatcher(x, n=_as_c0):
        while True:
            try:
                if _as_type(x) is not _as_c1: break
                ...
                _as_s0 = _as_p1[0]
                if not (_as_s0 <= 9): break
            except Exception: break
            else: return _as_run0(x, _as_s0)
        ...
        return _as_miss({'x': x, 'n': n})

A `break` is a miss of that entry, and so is an exception while guards are checked: the object that
was to be looked at is not there. What `run` raises passes through, since it stands in the `else`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Final, Protocol, cast

from anyshape.guards.dynamic_int import plain_int
from anyshape.guards.fast_path.memory_watch import SUPPORTED
from anyshape.guards.fast_path.stamp_scope import StampScope
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory
from anyshape.guards.fast_path.tensor_match import TensorMatch
from anyshape.guards.fast_path.version_check import VersionChecks
from anyshape.guards.fast_path.watching import entries_hold
from anyshape.guards.guard import EntryPlan, Guard, Kind, SymbolSource, paths_of
from anyshape.guards.kinds import HOLDS, KINDS, guard_text
from anyshape.guards.matched_tensors import matched_tensors
from anyshape.guards.path import Access, Path, find
from anyshape.guards.path_codegen import Namespace, Walk
from anyshape.guards.text import names_of
from anyshape.symbolic import Expr
from anyshape.symbolic.expr import symbols_of

__all__ = ["Dispatcher", "EntryPlan", "build_dispatcher"]

Miss = Callable[[dict[str, object]], object]
Probe = Callable[[], object]


class Dispatcher(Protocol):
    """A function that also tells its source, for people who ask what is checked."""

    anyshape_source: str

    def __call__(self, *args: object, **kwargs: object) -> object: ...


def build_dispatcher(
    signature: Signature,
    entries: Sequence[EntryPlan],
    miss: Miss,
    probe: Probe | None = None,
    name: str = "dispatcher",
    memory: TensorMemory | None = None,
    further: Sequence[Callable[..., object]] | None = None,
) -> Dispatcher:
    """The function that runs the first entry whose guards hold, or `miss` with the arguments by
    name. `probe` reads the global state that STATE guards compare with, once a call. With
    `memory`, tensors that belong to modules are watched instead of looked at
    (`fast_path/version_check.py`). With `further`, whatever is in it is called in place of `miss`,
    as this function was.
    """
    parameters = signature.parameters
    namespace = Namespace(parameters)
    lines = [f"def {namespace.prefix}dispatcher{_header(parameters.values(), namespace)}:"]
    if any(guard.kind is Kind.STATE for entry in entries for guard in entry.guards):
        if probe is None:
            raise ValueError("an entry guards the global state, and there is no probe to read it")
        lines.append(f"    {namespace.prefix}state = {namespace.constant(probe)}()")
    types = {name: _TYPE_OF.get(parameter.kind) for name, parameter in parameters.items()}
    for entry in entries:
        lines += _indented(_Entry(entry, types, namespace, memory).block())
    if further is not None:
        given = ", ".join(_ON[each.kind].format(each.name) for each in parameters.values())
        lines.append(f"    return {namespace.constant(further)}[0]({given})")
    else:
        bound = ", ".join(f"{name!r}: {name}" for name in parameters)
        lines.append(f"    return {namespace.constant(miss)}({{{bound}}})")
    source = "\n".join(lines) + "\n"
    exec(compile(source, f"<anyshape: {name}>", "exec"), namespace.values)
    made = cast("Dispatcher", namespace.values[f"{namespace.prefix}dispatcher"])
    made.anyshape_source = source
    return made


def _header(parameters: Iterable[Parameter], namespace: Namespace) -> str:
    """The parameters as source; defaults are the very objects."""
    parts: list[str] = []
    last: object = None
    for parameter in parameters:
        if last is Parameter.POSITIONAL_ONLY is not parameter.kind:
            parts.append("/")
        if parameter.kind is Parameter.KEYWORD_ONLY and last not in _STARRED:
            parts.append("*")
        default = parameter.default
        given = "" if default is Parameter.empty else f"={namespace.constant(default)}"
        parts.append(f"{_STARS.get(parameter.kind, '')}{parameter.name}{given}")
        last = parameter.kind
    if last is Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return f"({', '.join(parts)})"


def _attempt(checks: Sequence[str], then: str, namespace: Namespace) -> list[str]:
    """Checks, and what to do when all have passed; a `break` or an exception goes past it."""
    return [
        "while True:",
        "    try:",
        *(f"        {line}" for line in checks or ["pass"]),
        f"    except {namespace.constant(Exception)}: break",
        f"    else: {then}",
    ]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


#: How a parameter is handed on.
_ON: Final = {
    Parameter.POSITIONAL_ONLY: "{}",
    Parameter.POSITIONAL_OR_KEYWORD: "{}",
    Parameter.VAR_POSITIONAL: "*{}",
    Parameter.KEYWORD_ONLY: "{0}={0}",
    Parameter.VAR_KEYWORD: "**{}",
}
_STARS: Final = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
#: After these, a parameter is keyword-only without another star.
_STARRED: Final = (Parameter.VAR_POSITIONAL, Parameter.KEYWORD_ONLY)
#: The language itself gives these the types.
_TYPE_OF: Final[dict[object, type]] = {Parameter.VAR_POSITIONAL: tuple, Parameter.VAR_KEYWORD: dict}


#: Written when everything else is: they look at several paths, or at what was bound to symbols.
_RELATIONS: Final = frozenset((Kind.SAME_OBJECT, Kind.DISTINCT))


class _Entry:
    """Writes the checks of one entry: sizes and integers first, since they tell entries of one
    function apart, then everything else from the arguments inwards."""

    def __init__(
        self,
        entry: EntryPlan,
        types: Mapping[str, type | None],
        namespace: Namespace,
        memory: TensorMemory | None,
    ) -> None:
        self.entry = entry
        self.types = types
        self.namespace = namespace
        self.names = names_of(entry.symbols)
        key = "stamped" if memory is None else "stamped with tensors"
        if key not in entry.built:
            entry.built[key] = _Stamped.of(entry, types, memory)
        self.stamped = cast("_Stamped | None", entry.built[key])
        given: dict[Path, str] = {}
        #: what is written here, besides the stamp
        self.guards: Sequence[Guard] = entry.guards
        on_paths = [guard for guard in entry.guards if guard.kind not in _RELATIONS]
        if self.stamped is not None:
            given = self.stamped.variables(namespace)
            self.guards = self.stamped.rest
            # Of what the stamp stands for, only the objects that lines here begin with matter.
            first = {*given, self.stamped.root}
            on_paths = [g for g in on_paths if g.path in first or g not in self.stamped.guards]
        #: tensors that native code compares
        self.matched = matched_tensors(entry, self.guards, memory)
        self.memory = memory
        self.walk = Walk(namespace, types, on_paths, self.check, given)
        #: the type of these says that their sizes are natural numbers
        self.tensors = {guard.path for guard in entry.guards if guard.kind is Kind.TENSOR}
        facts = [guard for guard in self.guards if guard.kind is Kind.SIZES]
        matched = set(self.matched.facts)
        self.waiting = [guard for guard in facts if guard not in matched]
        counts = Counter(source.symbol for source in entry.symbols)
        self.needed = frozenset(symbol for symbol, count in counts.items() if count > 1).union(
            *(guard.value.symbols for guard in facts),
            *(symbols_of(wanted) for wanted in entry.inputs if not isinstance(wanted, Path)),
        )

    def block(self) -> list[str]:
        """The entry as a statement of the dispatcher."""
        inputs = self.write()
        name = self.namespace.constant
        count = "" if self.entry.counter is None else f"{name(self.entry.counter)}[0] += 1; "
        run = f"{count}return {name(self.entry.run)}({', '.join(inputs)})"
        return _attempt(self.walk.lines, run, self.namespace)

    def write(self) -> list[str]:
        """All lines; returns the text of each input."""
        for guard in self.guards:
            if guard.path is None and guard.kind not in (Kind.SIZES, *_RELATIONS):
                self.check(self.walk, guard)
        below_stamp = self.stamped.below if self.stamped is not None else ()
        matched = set(self.matched.sources)
        sources = [each for each in self.entry.symbols if each not in matched]
        for source in sources:
            if source.path not in below_stamp:
                self.bind(source)
        if self.stamped is not None:
            self.stamped.write(self)
        for source in sources:
            if source.path in below_stamp:
                self.bind(source)
        self.write_facts()
        for guard in self.guards:
            if guard.path is not None:
                self.walk.at(guard.path)
        if self.matched.guards:
            self.write_matched()
        for guard in self.guards:
            if guard.kind in _RELATIONS:
                self.check(self.walk, guard)
        return [self.input(wanted) for wanted in self.entry.inputs]

    def is_stamped(self, guard: Guard) -> bool:
        return self.stamped is not None and guard in self.stamped.guards

    def check(self, walk: Walk, guard: Guard) -> None:
        if walk is self.walk and (self.is_stamped(guard) or guard in self.matched.guards):
            return
        self.write_check(walk, guard)

    def write_matched(self) -> None:
        """Tensors are like those that were looked at last, or they are looked at one by one."""
        assert self.memory is not None
        assert self.memory.alike is not None
        walk, name = self.walk, self.walk.name
        match = TensorMatch(self.memory, self.memory.alike, len(self.matched.guards))
        found = ", ".join(walk.at(path) for path in self.matched.guards.values())
        walk.lines.append(f"if not {name(match.alike)}({match.address}, {found}):")
        before = len(walk.lines)
        for guard in self.matched.guards:
            self.write_check(walk, guard)
        self.waiting = list(self.matched.facts)
        for source in self.matched.sources:
            self.bind(source)
        self.write_facts()
        walk.lines.append(f"{name(match.learn)}({found})")
        walk.lines[before:] = _indented(walk.lines[before:])

    def write_check(self, walk: Walk, guard: Guard) -> None:
        before = len(walk.lines)
        KINDS[guard.kind].emit(walk, guard)
        if len(walk.lines) > before:
            text = " ".join(guard_text(guard, self.names).split())
            walk.lines[before] += f"  # {text.encode('ascii', 'backslashreplace').decode()}"

    def bind(self, source: SymbolSource) -> None:
        """Give a symbol its value, and check what canonical forms rely on: an integer, within the
        declared range."""
        walk, symbol = self.walk, source.symbol
        found = walk.at(source.path)
        low, high = symbol.declared
        is_size = source.dim is not None and source.path in self.tensors
        if is_size and low is not None and low <= 0:
            low = None  # A size is a natural number.
        if is_size and low is None and high is None and symbol not in self.needed:
            return
        value = found if source.dim is None else f"{walk.shape(source.path)}[{source.dim}]"
        name = walk.assign(value)
        if not is_size:
            other = f"{walk.name(type)}({name}) is not {walk.name(int)}"
            # An exception is a miss, so that only a DynamicInt gets past it.
            walk.lines.append(f"if {other}: {name} = {walk.name(plain_int)}({name})")
        if symbol in walk.symbols:
            walk.refuse_if(f"{walk.symbols[symbol]} != {name}")
            return
        if low is not None:
            walk.refuse_if(f"{name} < {low}")
        if high is not None:
            walk.refuse_if(f"{name} > {high}")
        walk.symbols[symbol] = name
        self.write_facts(ready=True)

    def write_facts(self, ready: bool = False) -> None:
        """The facts that wait; only those whose symbols all have values, if so asked."""
        still: list[Guard] = []
        for guard in self.waiting:
            if ready and not guard.value.symbols <= self.walk.symbols.keys():
                still.append(guard)
            else:
                self.check(self.walk, guard)
        self.waiting = still

    def input(self, wanted: Path | Expr | int) -> str:
        if isinstance(wanted, Path):
            return self.walk.at(wanted)
        if isinstance(wanted, int):
            return self.walk.literal(wanted)
        return self.walk.assign(self.walk.arithmetic(wanted))


#: With fewer guards than this the full check costs no more than the comparison of a stamp.
_WORTH_A_STAMP: Final = 8


class _Stamped:
    """The part of an entry that is checked by a stamp, with a function for the full check."""

    def __init__(
        self, entry: EntryPlan, scope: StampScope, root: Path | None, memory: TensorMemory | None
    ) -> None:
        self.guards = {guard: None for guard in entry.guards if _is_stamped(scope, guard)}
        self.root = root
        self.rest = [guard for guard in entry.guards if guard not in self.guards]
        looked_at = [
            *(path for guard in self.rest for path in paths_of(guard)),
            *(source.path for source in entry.symbols),
            *(wanted for wanted in entry.inputs if isinstance(wanted, Path)),
        ]
        #: what the rest of the entry, and `run`, need from below the root
        self.wanted = tuple(
            {found: None for path in looked_at if (found := _last_within(scope, path)) is not None}
        )
        #: what can be read when the stamp was found to hold, and not before
        self.below = {
            path for path in looked_at if path.root is root or _last_within(scope, path) is not None
        }
        self.stamps = VersionChecks(tuple(self.guards), self.wanted, root, memory, entry.writes)
        self._full_check: Callable[[object], object] | None = None

    @staticmethod
    def of(
        entry: EntryPlan, types: Mapping[str, type | None], memory: TensorMemory | None
    ) -> _Stamped | None:
        """The part that is worth it, if there is one. One argument at most is a root of it: the one
        that most guards are below."""
        if not SUPPORTED or len(entry.guards) < _WORTH_A_STAMP:
            return None
        # A root is held weakly, so its type has to be known as one that can be.
        candidates = {
            guard.path
            for guard in entry.guards
            if guard.path is not None
            and guard.path.access is Access.LOCAL
            and guard.kind is Kind.TYPE
            and guard.value.__weakrefoffset__ != 0
            and types.get(cast("str", guard.path.key)) is None
        }
        roots = Counter(guard.path.root for guard in entry.guards if guard.path is not None)
        root = next((path for path, _ in roots.most_common() if path in candidates), None)
        made = _Stamped(entry, StampScope(entry.guards, root, memory), root, memory)
        return made if len(made.guards) >= _WORTH_A_STAMP else None

    def variables(self, namespace: Namespace) -> dict[Path, str]:
        return {path: f"{namespace.prefix}w{i}" for i, path in enumerate(self.wanted)}

    def write(self, entry: _Entry) -> None:
        """Either the stamp holds, or the full check does; the objects come from either."""
        namespace, lines = entry.namespace, entry.walk.lines
        prefix, name = namespace.prefix, namespace.constant
        root = "None" if self.root is None else entry.walk.at(self.root)
        stamp, found = f"{prefix}stamp", f"{prefix}found"
        lines += [
            f"{stamp} = {name(self.stamps.by_root.get)}({name(id)}({root}))",
            f"if {stamp} is not None and {stamp}[0] == {stamp}[1]"
            f" and ({stamp}[3] is None or {name(entries_hold)}({stamp}[3])): {found} = {stamp}[2]",
            "else:",
            f"    {found} = {name(self.full_check(entry.check))}({root})",
            f"    if {found} is None:",
            f"        if {stamp} is not None: {name(self.stamps.drop)}({root})",
            "        break",
            f"    {name(self.stamps.take)}({root})",
        ]
        if self.wanted:
            variables = self.variables(namespace).values()
            lines.append(f"{', '.join(variables)}, = {found}")

    def full_check(self, check: Callable[[Walk, Guard], None]) -> Callable[[object], object]:
        """A function of the root: the objects that are wanted, or None."""
        if self._full_check is None:
            at_first = _Interpreter(tuple(self.guards), self.wanted, self.root)
            made = _WhenWorthIt(at_first, lambda: self._build(check))
            self._full_check = self.stamps.full_check = made
        return self._full_check

    def _build(self, check: Callable[[Walk, Guard], None]) -> Callable[[object], object]:
        argument = "root" if self.root is None else cast("str", self.root.key)
        namespace = Namespace((argument,))
        walk = Walk(namespace, {argument: None}, self.guards, check)
        for guard in self.guards:
            assert guard.path is not None, "only guards on paths are stamped"
            walk.at(guard.path)
        objects = "".join(f"{walk.at(path)}, " for path in self.wanted)
        name = f"{namespace.prefix}full_check"
        attempt = _attempt(walk.lines, f"return ({objects})", namespace)
        source = "\n".join((f"def {name}({argument}):", *_indented(attempt))) + "\n"
        exec(compile(source, "<anyshape: full check>", "exec"), namespace.values)
        return cast("Callable[[object], object]", namespace.values[name])


_NO_ARGUMENTS: Final[Mapping[str, object]] = {}


class _Interpreter:
    """A function of the root: the objects that are wanted, or None if a guard fails.

    It is slower to run than generated code, and there at once: to generate and compile the code for
    a thousand guards takes as long as to look at them a dozen times, and most entries are looked at
    in full once or twice.
    """

    def __init__(self, guards: Sequence[Guard], wanted: Sequence[Path], root: Path | None) -> None:
        self._guards: Final = guards
        self._wanted: Final = wanted
        self._root: Final = root

    def __call__(self, root: object) -> object:
        found: dict[Path, object] = {} if self._root is None else {self._root: root}
        try:
            for guard in self._guards:
                path = guard.path
                assert path is not None, "only guards on paths are interpreted"
                thing = found[path] if path in found else find(path, _NO_ARGUMENTS, found)
                if not HOLDS[guard.kind](thing, guard.value):
                    return None
            return tuple(find(path, _NO_ARGUMENTS, found) for path in self._wanted)
        except Exception:
            return None  # What was to be looked at is not there.


#: Generating code takes about as long as so many checks without it.
_FEW_CALLS: Final = 16


class _WhenWorthIt:
    """A function that is generated when it was called a few times: most entries are checked in full
    once, when their stamp is taken."""

    __slots__ = ("_calls", "_function", "_make")

    def __init__(
        self,
        at_first: Callable[[object], object],
        make: Callable[[], Callable[[object], object]],
    ) -> None:
        self._function = at_first
        self._make: Callable[[], Callable[[object], object]] | None = make
        self._calls = 0

    def __call__(self, root: object) -> object:
        make = self._make
        if make is not None:
            self._calls += 1
            if self._calls > _FEW_CALLS:
                # Two threads may both get here, and make two that are the same.
                self._function, self._make = make(), None
        return self._function(root)


def _is_stamped(scope: StampScope, guard: Guard) -> bool:
    """Whether the guard holds for as long as the stamp does."""
    path, is_stamped = guard.path, KINDS[guard.kind].is_stamped
    if is_stamped is None or path is None:
        return False
    return scope.has_path(path) and is_stamped(scope, path, guard.value)


def _last_within(scope: StampScope, path: Path) -> Path | None:
    """The last step of the path that is within, if it is not the root of it."""
    step: Path | None = path
    while step is not None and not scope.has_path(step):
        step = step.parent
    return step if step is not None and step.parent is not None else None
