"""Expressions and facts as text that a person reads, Python runs and `parse` reads back.

    to_text(ge(9, s0))          "s0 <= 9"
    parse_fact("s0 % 8 == 0", {"s0": s0})

The text is Python: `+ - * // % **`, `min`, `max`, comparisons, `and`, `or`. `parse` also takes
`ceildiv(a, b)`, `abs(a)`, `not`, chained comparisons and the forms `Eq(a, b)`, `Ne(a, b)`, `Le`,
`Lt`, `Ge`, `Gt` known from logs. Terms are ordered by name, so equal expressions have equal text in
every process.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from anyshape.errors import ParseError, SymbolicTypeError, UndefinedDivision, UnknownSymbol
from anyshape.symbolic.division import ceildiv, floordiv, modulo
from anyshape.symbolic.expr import (
    Atom,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Size,
    Symbol,
    add,
    atom_at,
    check_size,
    multiply,
    negate,
    power,
    single_atom,
    subtract,
)
from anyshape.symbolic.extrema import absolute, maximum, minimum
from anyshape.symbolic.logic import (
    FALSE,
    TRUE,
    And,
    Fact,
    Nonnegative,
    Nonzero,
    Or,
    Truth,
    Zero,
    and_,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
    not_,
    or_,
)

Names = Callable[[Symbol], str]


def _own_name(symbol: Symbol) -> str:
    return symbol.name


def to_text(value: Size | Fact, names: Names = _own_name) -> str:
    """Python source for the expression or fact; `names` says what to write for a symbol (a
    variable, `x.shape[0]`)."""
    if type(value) is int:
        return str(value)
    if type(value) is Expr:
        return _sum(value.terms, names)
    if isinstance(value, Expr | int):
        raise SymbolicTypeError(detail=f"an expression or a fact was expected, not {value!r}")
    return _fact(value, names)


def _sum(terms: tuple[tuple[Monomial, int], ...], names: Names) -> str:
    """Added terms first, products of most factors first, the constant last: `s0*s1 + s0 - 3`."""
    parts = [(not m, c < 0, -len(m), *_term(m, abs(c), names)) for m, c in terms]
    text = ""
    for _, negative, _, body, is_division in sorted(parts):
        if not text:
            # A leading minus binds tighter than the division: -(a // b) is not -a // b.
            text = f"-({body})" if negative and is_division else f"-{body}" if negative else body
        else:
            text += f" - {body}" if negative else f" + {body}"
    return text or "0"


def _term(monomial: Monomial, coefficient: int, names: Names) -> tuple[str, bool]:
    """The text of a term, and whether it is a lone division (then it has no parentheses of its
    own)."""
    counts: dict[int, int] = {}
    for index in monomial:
        counts[index] = counts.get(index, 0) + 1
    if coefficient == 1 and len(monomial) == 1:
        atom = atom_at(monomial[0])
        return _atom(atom, names), isinstance(atom, FloorDiv | Mod)
    factors = sorted(_factor(atom_at(index), count, names) for index, count in counts.items())
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors), False


def _factor(atom: Atom, exponent: int, names: Names) -> str:
    text = _atom(atom, names)
    if isinstance(atom, FloorDiv | Mod):
        text = f"({text})"
    return f"{text}**{exponent}" if exponent > 1 else text


def _atom(atom: Atom, names: Names) -> str:
    match atom:
        case Symbol():
            return names(atom)
        case FloorDiv():
            return f"{_operand(atom.numerator, names)}//{_operand(atom.denominator, names)}"
        case Mod():
            return f"{_operand(atom.numerator, names)} % {_operand(atom.denominator, names)}"
        case Min():
            return f"min({', '.join(sorted(to_text(a, names) for a in atom.arguments))})"
        case Max():
            return f"max({', '.join(sorted(to_text(a, names) for a in atom.arguments))})"


def _operand(size: Size, names: Names) -> str:
    """As part of a division: in parentheses unless it is a symbol, a function call or a natural
    number."""
    text = to_text(size, names)
    if type(size) is int:
        return text if size >= 0 else f"({text})"
    bare = isinstance(single_atom(size), Symbol | Min | Max)
    return text if bare else f"({text})"


def _fact(fact: Fact, names: Names) -> str:
    match fact:
        case Truth():
            return str(fact.value)
        case Nonnegative():
            return _comparison(fact.size, "<=", ">=", names)
        case Zero():
            return _comparison(fact.size, "==", "==", names)
        case Nonzero():
            return _comparison(fact.size, "!=", "!=", names)
        case And():
            return " and ".join(_part(part, names) for part in fact.parts)
        case Or():
            return " or ".join(_part(part, names) for part in fact.parts)


def _part(fact: Fact, names: Names) -> str:
    text = _fact(fact, names)
    return f"({text})" if isinstance(fact, And | Or) else text


def _comparison(size: Expr, below: str, above: str, names: Names) -> str:
    """`size >= 0` (or == or !=) with the subtracted terms moved to the other side, so that no minus
    sign is left."""
    plus = tuple(term for term in size.terms if term[0] != () and term[1] > 0)
    minus = tuple((m, -c) for m, c in size.terms if m != () and c < 0)
    constant = size.terms[0][1] if size.terms[0][0] == () else 0
    if not plus:  # c - x >= 0 reads as x <= c.
        return f"{_sum(minus, names)} {below} {constant}"
    if not minus:
        return f"{_sum(plus, names)} {above} {-constant}"
    if constant > 0:
        plus += (((), constant),)
    elif constant < 0:
        minus += (((), -constant),)
    if above == ">=":
        return f"{_sum(minus, names)} <= {_sum(plus, names)}"
    return f"{_sum(plus, names)} {above} {_sum(minus, names)}"


def parse_size(text: str, symbols: Mapping[str, Size]) -> Size:
    """The expression that `text` is; `symbols` gives each name's meaning."""
    value = _Parser(text, symbols).value()
    if isinstance(value, Truth | Nonnegative | Zero | Nonzero | And | Or):
        raise ParseError(text=text, column=0, detail="an integer was expected, this is a fact")
    return value


def parse_fact(text: str, symbols: Mapping[str, Size]) -> Fact:
    """The fact that `text` states; `symbols` gives each name's meaning."""
    value = _Parser(text, symbols).value()
    if isinstance(value, Truth | Nonnegative | Zero | Nonzero | And | Or):
        return value
    raise ParseError(text=text, column=0, detail="a fact was expected, this is an integer")


_BINARY: Final[dict[type[ast.operator], Callable[[Size, Size], Size]]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.FloorDiv: floordiv,
    ast.Mod: modulo,
    ast.Pow: power,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Size, Size], Fact]]] = {
    ast.Eq: eq,
    ast.NotEq: ne,
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}
#: name -> (function, how many arguments: exactly, or None for one or more)
_SIZE_FUNCTIONS: Final[dict[str, tuple[Callable[..., Size], int | None]]] = {
    "min": (minimum, None),
    "max": (maximum, None),
    "Min": (minimum, None),
    "Max": (maximum, None),
    "ceildiv": (ceildiv, 2),
    "FloorDiv": (floordiv, 2),
    "Mod": (modulo, 2),
    "abs": (absolute, 1),
}
_FACT_FUNCTIONS: Final[dict[str, Callable[[Size, Size], Fact]]] = {
    "Eq": eq,
    "Ne": ne,
    "Lt": lt,
    "Le": le,
    "Gt": gt,
    "Ge": ge,
}


class _Parser:
    """Reads the syntax tree that Python makes of the text; nothing is ever evaluated."""

    def __init__(self, text: str, symbols: Mapping[str, Size]) -> None:
        self.text = text
        self.symbols = symbols

    def value(self) -> Size | Fact:
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
            raise SymbolicTypeError(detail=f"text was expected, not {self.text!r}")
        source = self.text.strip()
        try:
            tree = ast.parse(source, mode="eval")
        except SyntaxError as error:
            column = max((error.offset or 1) - 1, 0)
            raise ParseError(text=source, column=column, detail=error.msg) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise ParseError(text=source, column=0, detail=str(error) or "too deep") from None
        self.text = source
        try:
            return self._value(tree.body)
        except RecursionError:
            raise ParseError(text=source, column=0, detail="nested too deeply") from None

    def _fail(self, node: ast.AST, detail: str) -> ParseError:
        return ParseError(text=self.text, column=getattr(node, "col_offset", 0), detail=detail)

    def _value(self, node: ast.expr) -> Size | Fact:
        match node:
            case ast.Constant(value=bool()):
                return TRUE if node.value else FALSE
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                found = self.symbols.get(name)
                if found is None:
                    raise UnknownSymbol(symbol=name, known=tuple(self.symbols))
                return check_size(found)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp(op=ast.USub()):
                return negate(self._size(node.operand))
            case ast.UnaryOp(op=ast.UAdd()):
                return self._size(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                return not_(self._fact(node.operand))
            case ast.BoolOp():
                parts = [self._fact(part) for part in node.values]
                return and_(*parts) if isinstance(node.op, ast.And) else or_(*parts)
            case ast.Compare():
                return self._compare(node)
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return self._call(node, name)
            case _:
                raise self._fail(node, f"{type(node).__name__} has no meaning in a size expression")

    def _size(self, node: ast.expr) -> Size:
        value = self._value(node)
        if isinstance(value, Truth | Nonnegative | Zero | Nonzero | And | Or):
            raise self._fail(node, "an integer was expected here, this is a fact")
        return value

    def _fact(self, node: ast.expr) -> Fact:
        value = self._value(node)
        if isinstance(value, Truth | Nonnegative | Zero | Nonzero | And | Or):
            return value
        raise self._fail(node, "a fact was expected here, this is an integer")

    def _binary(self, node: ast.BinOp) -> Size:
        function = _BINARY.get(type(node.op))
        if function is None:
            raise self._fail(node, f"operator {type(node.op).__name__} is not one of + - * // % **")
        return self._apply(node, function, [node.left, node.right])

    def _apply(
        self, node: ast.expr, function: Callable[..., Size], operands: list[ast.expr]
    ) -> Size:
        try:
            return function(*map(self._size, operands))
        except UndefinedDivision as error:
            raise self._fail(node, f"division by zero: {error.expression}") from None

    def _compare(self, node: ast.Compare) -> Fact:
        operands = [self._size(part) for part in (node.left, *node.comparators)]
        facts: list[Fact] = []
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            function = _COMPARE.get(type(operator))
            if function is None:
                raise self._fail(node, f"comparison {type(operator).__name__} has no meaning here")
            facts.append(function(left, right))
        return and_(*facts)

    def _call(self, node: ast.Call, name: str) -> Size | Fact:
        if name in _FACT_FUNCTIONS and len(node.args) == 2:
            return _FACT_FUNCTIONS[name](*(self._size(argument) for argument in node.args))
        if name in _SIZE_FUNCTIONS:
            function, count = _SIZE_FUNCTIONS[name]
            if len(node.args) == count or (count is None and node.args):
                return self._apply(node, function, node.args)
            raise self._fail(node, f"{name} takes {count or 'one or more'} arguments")
        raise self._fail(node, f"{name} is not a known function")


def _expr_text(self: Expr) -> str:
    return to_text(self)


def _fact_text(self: Fact) -> str:
    return to_text(self)


# Printing builds on the nodes, not the other way round: the nodes get their text form here.
Expr.__str__ = Expr.__repr__ = _expr_text
for _kind in (Truth, Nonnegative, Zero, Nonzero, And, Or):
    _kind.__str__ = _kind.__repr__ = _fact_text
