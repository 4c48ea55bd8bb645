"""Integers that a program is not specialised to, and what is known of them.

In: names with ranges, facts to assume, questions. Out: canonical expressions, answers (YES, NO,
UNKNOWN), text. No torch, no hidden state: a question never changes anything.

    s0 = symbol("s0")
    facts = Facts().declare(s0, hint=16).assume(eq(s0 % 8, 0), "a view by heads of 8")
    facts.prove(eq(s0 // 8 * 8, s0))      # Answer.YES

It must not know what a tensor, an operator or a guard is.
"""

from anyshape.symbolic.division import by_multiples, ceildiv, floordiv, modulo
from anyshape.symbolic.evaluate import evaluate, holds, substitute, substitute_fact
from anyshape.symbolic.expr import Expr, Size, Symbol, as_symbol, power, product, symbol, total
from anyshape.symbolic.extrema import absolute, maximum, minimum
from anyshape.symbolic.facts import Assumption, Facts
from anyshape.symbolic.logic import (
    FALSE,
    TRUE,
    Fact,
    and_,
    eq,
    ge,
    gt,
    is_data_dependent,
    le,
    lt,
    ne,
    not_,
    or_,
)
from anyshape.symbolic.prove import Answer
from anyshape.symbolic.ranges import EVERYTHING, NATURAL, Range
from anyshape.symbolic.text import parse_fact, parse_size, to_text

__all__ = [
    "EVERYTHING",
    "FALSE",
    "NATURAL",
    "TRUE",
    "Answer",
    "Assumption",
    "Expr",
    "Fact",
    "Facts",
    "Range",
    "Size",
    "Symbol",
    "absolute",
    "and_",
    "as_symbol",
    "by_multiples",
    "ceildiv",
    "eq",
    "evaluate",
    "floordiv",
    "ge",
    "gt",
    "holds",
    "is_data_dependent",
    "le",
    "lt",
    "maximum",
    "minimum",
    "modulo",
    "ne",
    "not_",
    "or_",
    "parse_fact",
    "parse_size",
    "power",
    "product",
    "substitute",
    "substitute_fact",
    "symbol",
    "to_text",
    "total",
]
