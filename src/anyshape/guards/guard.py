"""What a guard says: a kind, the path it looks at, the value it wants, and whom to blame; and what
the dispatcher is told of an entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from anyshape.guards.path import Path
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Expr, Symbol


class Kind(Enum):
    """What is compared. `path` is the object; `value` is what the line says."""

    # Members are keys of dictionaries all over; Enum's own hash is a Python function.
    __hash__ = object.__hash__

    #: `type(path) is value`
    TYPE = "TYPE_MATCH"
    #: same type and equal; NaN equals NaN. A primitive, or an immutable container of primitives
    EQUALS = "EQUALS_MATCH"
    #: `path is value`, where value is an object that lives on: class, function, module, enum member
    IDENTITY = "ID_MATCH"
    #: `len(path) == value`, by the base class's `__len__`
    LENGTH = "SEQUENCE_LENGTH"
    #: the keys of a dictionary, in order: a tuple of primitives
    KEYS = "DICT_KEYS"
    #: the members of a set: a frozenset of primitives
    MEMBERS = "SET_MEMBERS"
    #: `value in path` for a dictionary; value is (key, whether it is there)
    CONTAINS = "DICT_CONTAINS"
    #: the instance dictionary of `path` (an object without one passes) has no key `value`
    NO_INSTANCE_ATTRIBUTE = "NO_ATTRIBUTE"
    #: `getattr(path, value)` raises AttributeError; only where that runs no user code
    NO_ATTRIBUTE = "NOT_HASATTR"
    #: bool(path) of a container: value
    TRUTH = "TRUTH"
    #: a tensor: value is a `TensorSpec`
    TENSOR = "TENSOR_MATCH"
    #: a fact about symbols: value is a `Fact`, path is None
    SIZES = "SHAPE_GUARD"
    #: `path is value`, where value is another Path
    SAME_OBJECT = "DUPLICATE_INPUT"
    #: the objects at these paths are all different: value is a tuple of Paths, path is None
    DISTINCT = "NO_ALIASING"
    #: value is what the runtime's probe of global state returned, path is None
    STATE = "GLOBAL_STATE"
    #: value is a predicate (a function of the object), with `text` to print
    PREDICATE = "PREDICATE"


class Frame(NamedTuple):
    """A place in the user's program."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is compared of a tensor. A size that is None may be anything: it is a symbol, and facts
    say the rest."""

    type: type
    dtype: object
    device: object
    requires_grad: bool
    sizes: tuple[int | None, ...]
    #: exact strides, None for one that is a symbol; or the order of the dimensions in memory of a
    #: dense tensor, from the outermost (dimensions of size 1 fit anywhere, and a tensor without
    #: elements always fits)
    strides: tuple[int | None, ...] | None = None
    order: tuple[int, ...] | None = None
    #: `tensor.layout`; None compares nothing. An opaque tensor (mkldnn) claims to be contiguous, so
    #: sizes and strides do not say that there is memory to read
    layout: object = None


class ToldReason(str):
    """A reason of a guard that a failure is told with: what failed does not show it."""

    __slots__ = ()


class Guard:
    """One condition, compared by identity. Emitting, explaining and printing are functions of it.

    Not a dataclass: a capture makes thousands, and a frozen one takes five times as long to make.
    """

    __slots__ = ("_text", "kind", "path", "reason", "user_frame", "value")

    def __init__(
        self,
        kind: Kind,
        path: Path | None,
        value: Any,
        reason: str,
        user_frame: Frame | None = None,
        text: str | Callable[[Guard], str] = "",
    ) -> None:
        self.kind: Final = kind
        self.path: Final = path
        #: of the type that the kind says
        self.value: Final[Any] = value
        #: why it matters, in words: "read by the program", "the loop runs this often"
        self.reason: Final = reason
        self.user_frame: Final = user_frame
        self._text = text

    def __repr__(self) -> str:
        return f"Guard({self.kind.name}, {self.path}, {self.text!r})"

    @property
    def text(self) -> str:
        """How it prints, made by `guards.text` when somebody asks: hardly any guard is printed."""
        if not isinstance(self._text, str):
            self._text = self._text(self)
        return self._text


def paths_of(guard: Guard) -> tuple[Path, ...]:
    """Every path that the guard looks at."""
    others: tuple[Path, ...] = ()
    if guard.kind is Kind.SAME_OBJECT:
        others = (guard.value,)
    elif guard.kind is Kind.DISTINCT:
        others = guard.value
    return others if guard.path is None else (guard.path, *others)


class SymbolSource(NamedTuple):
    """Where the value of a symbol comes from: dimension `dim` of the tensor at `path`, or the
    integer at `path` itself."""

    symbol: Symbol
    path: Path
    dim: int | None

    @property
    def text(self) -> str:
        return self.path.text if self.dim is None else f"{self.path.text}.size()[{self.dim}]"


@dataclass(frozen=True, slots=True, eq=False)
class EntryPlan:
    """When an entry may run, and on what. Compared by identity."""

    guards: Sequence[Guard]
    #: where the values of symbols come from. A symbol's declared range is checked as well, and a
    #: symbol with more than one source has to have the same value at each
    symbols: Sequence[SymbolSource]
    #: the arguments of `run`: objects at paths, values of expressions, numbers
    inputs: Sequence[Path | Expr | int]
    run: Callable[..., object]
    #: if given, its first item counts the calls that took this entry
    counter: list[int] | None = None
    #: the objects that `run` itself writes attributes or items of
    writes: Sequence[Path] = ()
    #: what generated code made of this plan; the next dispatcher with this entry takes it over
    built: dict[str, object] = field(default_factory=dict[str, object], repr=False)


_SEVERAL_A_PATH: Final = frozenset(
    {
        *(Kind.CONTAINS, Kind.NO_INSTANCE_ATTRIBUTE, Kind.NO_ATTRIBUTE, Kind.SAME_OBJECT),
        Kind.PREDICATE,
    }
)


def guard_key(kind: Kind, path: Path, value: object) -> object:
    """What two guards have in common if one of them is enough."""
    if kind in _SEVERAL_A_PATH:
        return kind, path, id(value) if isinstance(value, Path) else value
    return kind, path
