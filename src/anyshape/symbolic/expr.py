"""Integer expressions: interned polynomials over symbols and a few integer functions.

A size is a plain `int` where it is known and an `Expr` where it is not; an `Expr` is never a
constant. Expressions are interned: two of them are equal exactly if they are the same object, so
`==`, `hash` and look-ups cost nothing. Nodes carry no facts and no hints; those live in `Facts`.
What a symbol does carry is the range it was declared with, since canonical forms rely on it
(`max(s0, 0)` is `s0` for a size).

Division is partial. An expression is undefined where one of its divisors is 0, and every law of
this package holds where both sides are defined. Whoever builds a division has to know, or assume,
that the divisor is not 0.

This file has the nodes and the ring (`+ - * **`). `division.py`, `extrema.py` and `text.py` build
on it. Comparisons are facts, not truth values (`logic.py`): `<` and friends are not defined here,
and an `Expr` has no truth value.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from keyword import iskeyword
from typing import TYPE_CHECKING, Final, NoReturn
from unicodedata import normalize

from anyshape.errors import ExpressionTooLarge, SymbolicTypeError
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic.ranges import NATURAL, Range, is_empty

#: Indices of atoms, ascending, repeated for powers. `()` is the constant monomial.
Monomial = tuple[int, ...]
Terms = tuple[tuple[Monomial, int], ...]

#: Beyond these an expression is of no use to shape code, and canonical forms get slow.
MOST_TERMS: Final = 2048
MOST_DEGREE: Final = 64
MOST_BITS: Final = 8192
MOST_WEIGHT: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """An integer the program is not specialised to; a backed one has a value in the run at hand, an
    unbacked one has not.

    All atoms have an `index` that is unique in this process and a `key` that orders them the same
    way in every process.
    """

    index: int
    key: str
    name: str
    declared: Range
    backed: bool

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class FloorDiv:
    """`numerator // denominator` as in Python: rounds towards minus infinity."""

    index: int
    key: str
    numerator: Size
    denominator: Size


@dataclass(frozen=True, slots=True, eq=False)
class Mod:
    """`numerator % denominator` as in Python: the result takes the sign of the denominator."""

    index: int
    key: str
    numerator: Size
    denominator: Size


@dataclass(frozen=True, slots=True, eq=False)
class Min:
    """The smallest of two or more expressions."""

    index: int
    key: str
    arguments: tuple[Size, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Max:
    """The largest of two or more expressions."""

    index: int
    key: str
    arguments: tuple[Size, ...]


Atom = Symbol | FloorDiv | Mod | Min | Max


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """A sum of integer multiples of products of atoms, never constant. Made by `polynomial`, which
    interns it."""

    terms: Terms
    symbols: frozenset[Symbol] = field(repr=False)

    def __add__(self, other: Size) -> Size:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        return subtract(self, other)

    def __rsub__(self, other: Size) -> Size:
        return subtract(other, self)

    def __mul__(self, other: Size) -> Size:
        return multiply(self, other)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Size:
        return power(self, exponent)

    def __neg__(self) -> Size:
        return negate(self)

    def __pos__(self) -> Expr:
        return self

    if TYPE_CHECKING:  # Given to the class by division.py, which builds on this file.

        def __floordiv__(self, other: Size) -> Size: ...
        def __rfloordiv__(self, other: Size) -> Size: ...
        def __mod__(self, other: Size) -> Size: ...
        def __rmod__(self, other: Size) -> Size: ...

    def __bool__(self) -> NoReturn:
        raise SymbolicTypeError(
            detail=f"the truth of `{self}` was asked: build a fact (`ne(e, 0)`) and `prove` it"
        )

    def __reduce__(self) -> NoReturn:
        raise SymbolicTypeError(
            detail="expressions are interned: keep them as text (`to_text`, `parse`)"
        )

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self


Size = int | Expr

_ATOMS: Final[list[Atom]] = []
_WEIGHTS: Final[dict[int, int]] = {}
_ATOM_OF: Final[dict[tuple[object, ...], Expr]] = {}
_EXPRS: Final[dict[Terms, Expr]] = {}
_NO_SYMBOLS: Final[frozenset[Symbol]] = frozenset()


def check_size(value: object) -> Size:
    """`value` if it is an integer or an expression, else the error that says what came instead."""
    if type(value) is int or type(value) is Expr:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise SymbolicTypeError(
        detail="an integer or an integer expression was expected, "
        f"not {value!r} of type {type(value).__name__}"
    )


def atom_at(index: int) -> Atom:
    return _ATOMS[index]


def symbols_of(size: Size) -> frozenset[Symbol]:
    return size.symbols if isinstance(size, Expr) else _NO_SYMBOLS


def terms_of(size: Size) -> Terms:
    if isinstance(size, Expr):
        return size.terms
    return (((), size),) if size else ()


def atoms_in(size: Size) -> Iterator[Atom]:
    """The atoms of an expression, at every depth, outermost first."""
    for index in dict.fromkeys(index for monomial, _ in terms_of(size) for index in monomial):
        atom = _ATOMS[index]
        yield atom
        for each in operands_of(atom):
            yield from atoms_in(each)


def operands_of(atom: Atom) -> tuple[Size, ...]:
    """What an atom is computed of."""
    match atom:
        case Symbol():
            return ()
        case FloorDiv() | Mod():
            return (atom.numerator, atom.denominator)
        case Min() | Max():
            return atom.arguments


def single_atom(size: Size) -> Atom | None:
    """The atom of an expression that is just that atom, else None."""
    if type(size) is not Expr or len(size.terms) != 1:
        return None
    monomial, coefficient = size.terms[0]
    return _ATOMS[monomial[0]] if coefficient == 1 and len(monomial) == 1 else None


def symbol(name: str, declared: Range = NATURAL, *, backed: bool = True) -> Expr:
    """The symbol of that name and range as an expression. Equal arguments give the same symbol."""
    if not isinstance(name, str) or not _can_be_parsed(name):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
        raise SymbolicTypeError(detail=f"a symbol's name must be an identifier, not {name!r}")
    if not isinstance(declared, Range) or not all(e is None or type(e) is int for e in declared):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
        raise SymbolicTypeError(detail=f"a range has integer ends or None, not {declared!r}")
    if is_empty(declared):
        raise SymbolicTypeError(detail=f"symbol {name} has no value left: its range is {declared}")
    return _symbol((Symbol, name, declared, backed), name, declared, backed)


def _can_be_parsed(name: str) -> bool:
    """Whether Python reads the name back as it is: no keyword, nothing that it would normalise."""
    return name.isidentifier() and not iskeyword(name) and normalize("NFKC", name) == name


def derived_symbol(meaning: Expr, declared: Range) -> Expr:
    """A symbol that stands for `meaning`, the same one only for the same expression. Its name is no
    identifier, so that no program's symbol can be taken for it.
    """
    backed = all(s.backed for s in meaning.symbols)
    return _symbol((Symbol, meaning, declared), f"[{meaning}]", declared, backed)


def _symbol(key: tuple[object, ...], name: str, declared: Range, backed: bool) -> Expr:
    found = _ATOM_OF.get(key)
    if found is None:
        node = Symbol(len(_ATOMS), name, name, declared, backed)
        found = _register(key, node, frozenset((node,)))
    return found


def as_symbol(size: Size) -> Symbol:
    """The symbol behind an expression made by `symbol`."""
    atom = single_atom(size)
    if not isinstance(atom, Symbol):
        raise SymbolicTypeError(detail=f"`{size}` is not a symbol")
    return atom


def function_of_two(kind: type[FloorDiv] | type[Mod], numerator: Size, denominator: Size) -> Expr:
    """The atom itself, without any simplification: `division.py` has decided that there is none."""
    key = (kind, numerator, denominator)
    found = _ATOM_OF.get(key)
    if found is None:
        text = f"({_key(numerator)}){kind.__name__}({_key(denominator)})"
        weight = _weight((numerator, denominator))
        node = kind(len(_ATOMS), text, numerator, denominator)
        symbols = symbols_of(numerator) | symbols_of(denominator)
        found = _register(key, node, symbols, weight)
    return found


def function_of_many(kind: type[Min] | type[Max], arguments: tuple[Size, ...]) -> Expr:
    """The atom itself, without any simplification; `extrema.py` has ordered the arguments."""
    key = (kind, arguments)
    found = _ATOM_OF.get(key)
    if found is None:
        text = f"{kind.__name__}({','.join(sorted(map(_key, arguments)))})"
        weight = _weight(arguments)
        node = kind(len(_ATOMS), text, arguments)
        found = _register(key, node, _NO_SYMBOLS.union(*map(symbols_of, arguments)), weight)
    return found


def _key(size: Size) -> str:
    """A text that is the same in every process, for ordering: indices depend on what was built
    before. A long one is cut, and a digest of all of it put at its end.
    """
    if type(size) is int:
        return str(size)
    text = "+".join(sorted(f"{c}*{_key_of_monomial(m)}" for m, c in terms_of(size)))
    return text if len(text) <= 200 else text[:120] + sha256(text.encode()).hexdigest()


def _weight(sizes: tuple[Size, ...]) -> int:
    """How many symbols a function of these is written with; shared parts count as often as they
    are written, since texts and values are made that way.
    """
    weight = 1 + sum(
        _WEIGHTS[index] for size in sizes for monomial, _ in terms_of(size) for index in monomial
    )
    if weight > MOST_WEIGHT:
        raise ExpressionTooLarge(detail="symbols of an expression", size=weight, limit=MOST_WEIGHT)
    return weight


def _key_of_monomial(monomial: Monomial) -> str:
    return "*".join(sorted(_ATOMS[index].key for index in monomial))


def ordered_terms(size: Size) -> list[tuple[Monomial, int]]:
    """The terms, and the factors of each, in an order that is the same in every process: generated
    code is, too."""
    terms = [
        (tuple(sorted(monomial, key=lambda index: _ATOMS[index].key)), number)
        for monomial, number in terms_of(size)
    ]
    return sorted(terms, key=lambda term: [_ATOMS[index].key for index in term[0]])


def ordered_arguments(atom: Min | Max) -> list[Size]:
    """The arguments in such an order."""
    return sorted(atom.arguments, key=_key)


def leading_coefficient(size: Expr) -> int:
    """The coefficient whose sign decides between `e` and `-e`: of the term whose text comes first,
    the constant aside."""
    terms = [term for term in size.terms if term[0] != ()]
    if len(terms) == 1:
        return terms[0][1]
    return min(terms, key=lambda term: _key_of_monomial(term[0]))[1]


def _register(
    key: tuple[object, ...], node: Atom, symbols: frozenset[Symbol], weight: int = 1
) -> Expr:
    # The index is taken before the append, so a second thread may have taken it too: the append
    # decides.
    _ATOMS.append(node)
    while _ATOMS[node.index] is not node:
        object.__setattr__(node, "index", node.index + 1)
    _WEIGHTS[node.index] = weight
    terms: Terms = (((node.index,), 1),)
    expression = _EXPRS.setdefault(terms, Expr(terms, symbols))
    return _ATOM_OF.setdefault(key, expression)


def polynomial(terms: dict[Monomial, int]) -> Size:
    """The interned sum of these terms; a plain integer if nothing but the constant is left."""
    items = sorted(item for item in terms.items() if item[1])
    if not items:
        return 0
    if len(items) == 1 and items[0][0] == ():
        return items[0][1]
    key = tuple(items)
    found = _EXPRS.get(key)
    if found is None:
        if len(items) > MOST_TERMS:
            raise ExpressionTooLarge(detail="terms of a sum", size=len(items), limit=MOST_TERMS)
        bits = max(coefficient.bit_length() for _, coefficient in items)
        if bits > MOST_BITS:
            raise ExpressionTooLarge(detail="bits of a coefficient", size=bits, limit=MOST_BITS)
        symbols = _NO_SYMBOLS.union(
            *(_symbols_of_atom(_ATOMS[index]) for monomial, _ in items for index in monomial)
        )
        found = _EXPRS.setdefault(key, Expr(key, symbols))
    return found


def _symbols_of_atom(atom: Atom) -> frozenset[Symbol]:
    return _EXPRS[(((atom.index,), 1),)].symbols


def of_atom(atom: Atom) -> Expr:
    return _EXPRS[(((atom.index,), 1),)]


def bare_symbol(size: Size) -> Symbol | None:
    """The symbol that a size is, if it is nothing else."""
    if isinstance(size, int) or len(size.symbols) != 1:
        return None
    (symbol,) = size.symbols
    return symbol if size == of_atom(symbol) else None


_SUMS: Final[dict[tuple[Size, Size], Size]] = {}
_PRODUCTS: Final[dict[tuple[Size, Size], Size]] = {}


def add(a: Size, b: Size) -> Size:
    if type(a) is int:
        if type(b) is int:
            return a + b
        a, b = b, a
    if type(a) is not Expr or (type(b) is not Expr and type(b) is not int):
        # Before the look-up: True is 1 to a dictionary.
        return add(check_size(a), check_size(b))
    key = (a, b)
    found = _SUMS.get(key)
    if found is None:
        if b == 0:
            return a
        total = dict(a.terms)
        for monomial, coefficient in terms_of(b):
            total[monomial] = total.get(monomial, 0) + coefficient
        found = _SUMS[key] = polynomial(total)
    return found


def negate(a: Size) -> Size:
    return multiply(a, -1)


def subtract(a: Size, b: Size) -> Size:
    if a is b:
        check_size(a)
        return 0
    return add(a, multiply(b, -1))


def multiply(a: Size, b: Size) -> Size:
    if type(a) is int:
        if type(b) is int:
            return a * b
        a, b = b, a
    if type(a) is not Expr or (type(b) is not Expr and type(b) is not int):
        # Before the look-up: True is 1 to a dictionary.
        return multiply(check_size(a), check_size(b))
    key = (a, b)
    found = _PRODUCTS.get(key)
    if found is None:
        found = _PRODUCTS[key] = _product(a, b)
    return found


def _product(a: Expr, b: Size) -> Size:
    if type(b) is int:
        if b.bit_length() > MOST_BITS:
            raise ExpressionTooLarge(
                detail="bits of a factor", size=b.bit_length(), limit=MOST_BITS
            )
        return polynomial({monomial: coefficient * b for monomial, coefficient in a.terms})
    product: dict[Monomial, int] = {}
    other = terms_of(b)
    count = len(a.terms) * len(other)
    if count > 8 * MOST_TERMS:
        raise ExpressionTooLarge(detail="terms of a product", size=count, limit=8 * MOST_TERMS)
    for left, left_coefficient in a.terms:
        for right, right_coefficient in other:
            monomial = tuple(sorted(left + right))
            product[monomial] = product.get(monomial, 0) + left_coefficient * right_coefficient
    degree = max(map(len, product))
    if degree > MOST_DEGREE:
        raise ExpressionTooLarge(detail="degree of a product", size=degree, limit=MOST_DEGREE)
    return polynomial(product)


def power(base: Size, exponent: Size) -> Size:
    """`base ** exponent` for a natural number as exponent; other exponents do not stay integers."""
    base = check_size(base)
    if type(exponent) is not int or exponent < 0:
        raise SymbolicTypeError(
            detail=f"the exponent of `{base}` must be a natural number, not {exponent!r}"
        )
    if type(base) is int:
        bits = base.bit_length() * exponent
        if bits > MOST_BITS:
            raise ExpressionTooLarge(detail="bits of a power", size=bits, limit=MOST_BITS)
        return base**exponent
    if exponent > MOST_DEGREE:
        raise ExpressionTooLarge(detail="exponent of a power", size=exponent, limit=MOST_DEGREE)
    result: Size = 1
    for _ in range(exponent):
        result = multiply(result, base)
    return result


def product(sizes: tuple[Size, ...] | list[Size]) -> Size:
    """The product of all of them; 1 for none."""
    result: Size = 1
    for size in sizes:
        result = multiply(result, size)
    return result


def total(sizes: tuple[Size, ...] | list[Size]) -> Size:
    """The sum of all of them; 0 for none."""
    result: Size = 0
    for size in sizes:
        result = add(result, size)
    return result
