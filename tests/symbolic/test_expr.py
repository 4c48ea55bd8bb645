"""Interned polynomials: identity, ring laws, and what is refused."""

from __future__ import annotations

import copy
import pickle
import threading
from itertools import product

import pytest

from anyshape.errors import ExpressionTooLarge, SymbolicTypeError
from anyshape.symbolic import (
    EVERYTHING,
    Range,
    Size,
    as_symbol,
    evaluate,
    maximum,
    power,
    symbol,
    total,
)
from anyshape.symbolic import (
    product as size_product,
)
from anyshape.symbolic.expr import (
    Max,
    add,
    atom_at,
    multiply,
    of_atom,
    ordered_arguments,
    ordered_terms,
    single_atom,
    subtract,
)
from tests.symbolic.small_integers import SYMBOLS

a, b, s, t = (SYMBOLS[name] for name in "abst")


def test_equal_expressions_are_the_same_object():
    assert (s + t) * 2 is t * 2 + s + s
    assert symbol("s") is s
    assert symbol("s", EVERYTHING) is not s
    assert symbol("s", backed=False) is not s


def test_constants_are_plain_integers():
    assert [(value, type(value)) for value in (s - s, 0 * s)] == [(0, int), (0, int)]
    assert (s + 3) - s == 3


def test_ring_laws():
    for x, y, z in product((a, b, s, 3, -2, a * b + 1), repeat=3):
        assert x + y == y + x
        assert x * y == y * x
        assert (x + y) + z == x + (y + z)
        assert (x * y) * z == x * (y * z)
        assert x * (y + z) == x * y + x * z
        assert x - y == x + (-y)


def test_powers():
    assert (a + b) ** 2 == a * a + 2 * a * b + b * b
    assert a**0 == 1
    assert power(-2, 3) == -8


def test_sums_and_products_of_many():
    assert size_product((s, 2, t)) == 2 * s * t
    assert total((s, 2, s)) == 2 * s + 2
    assert (size_product(()), total(())) == (1, 0)


@pytest.mark.parametrize("wrong", [True, False, 1.0, "3", None, 2 + 0j])
@pytest.mark.parametrize("operator", [add, subtract, multiply])
def test_only_integers_mix_with_expressions(operator, wrong):
    operator(s, 1)  # so that a cached result for 1 cannot be taken for True
    for pair in ((s, wrong), (wrong, s)):
        with pytest.raises(SymbolicTypeError):
            operator(*pair)


def test_an_expression_has_no_truth_value_and_no_order():
    with pytest.raises(SymbolicTypeError, match="prove"):
        bool(s)
    with pytest.raises(TypeError):
        _ = s < t  # pyright: ignore[reportOperatorIssue] this is the point


def test_exponents_are_natural_numbers():
    for wrong in (-1, 1.5, s, True):
        with pytest.raises(SymbolicTypeError):
            power(s, wrong)  # pyright: ignore[reportArgumentType] this is the point


def test_huge_integers_are_exact_and_bounded():
    huge = 10**400
    assert evaluate(s * huge + 1, {as_symbol(s): 3}) == 3 * huge + 1
    with pytest.raises(ExpressionTooLarge):
        multiply(s, 2**20_000)
    with pytest.raises(ExpressionTooLarge):
        power(s, 10**9)
    with pytest.raises(ExpressionTooLarge):
        power(2, 10**9)


def test_too_many_terms_are_refused():
    wide = total([symbol(f"w{i}") for i in range(60)])
    with pytest.raises(ExpressionTooLarge):
        power(wide, 3)


def test_names_and_ranges_are_checked():
    for name in ("", "1s", "s 0", "s-0", "if", "None", "\u00b5", 3):
        with pytest.raises(SymbolicTypeError):
            symbol(name)  # pyright: ignore[reportArgumentType] this is the point
    for ends in (Range(0.5, 3), (0, 3), None):  # pyright: ignore[reportArgumentType] this is the point
        with pytest.raises(SymbolicTypeError):
            symbol("s", ends)  # pyright: ignore[reportArgumentType] this is the point
    with pytest.raises(SymbolicTypeError, match="no value"):
        symbol("s", Range(3, 2))


def test_copies_are_the_same_object_and_pickles_are_refused():
    assert copy.copy(s * t) is s * t
    assert copy.deepcopy([s * t])[0] is s * t
    with pytest.raises(SymbolicTypeError, match="to_text"):
        pickle.dumps(s * t)


def test_threads_intern_the_same_objects():
    found: list[list[object]] = []
    ready = threading.Barrier(4)

    def build():
        ready.wait()
        found.append([symbol(f"thread{i}") * symbol(f"thread{i + 1}") // 7 for i in range(300)])

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for others in found[1:]:
        assert all(x is y for x, y in zip(found[0], others, strict=True))


def test_every_expression_can_be_printed():
    assert len(str(s * 2**8000 + 1)) > 2000
    with pytest.raises(ExpressionTooLarge):
        s * 2**8000 * 2**8000  # pyright: ignore[reportUnusedExpression] this is the point


def test_nested_functions_are_bounded():
    """Shared parts are written out, so texts and values would grow without bound."""

    def nested(depth: int) -> Size:
        return nested(depth - 1) % 7 + nested(depth - 1) // 3 if depth else s

    assert str(nested(5))
    with pytest.raises(ExpressionTooLarge):
        nested(16)


def test_order_of_terms_is_not_that_in_which_symbols_were_made():
    late, early = symbol("order_b"), symbol("order_a")
    terms = ordered_terms(late * early + 2 * late + early)
    names = [[str(of_atom(atom_at(index))) for index in monomial] for monomial, _ in terms]
    assert names == [["order_a"], ["order_a", "order_b"], ["order_b"]]
    largest = single_atom(maximum(late, early))
    assert isinstance(largest, Max)
    assert list(map(str, ordered_arguments(largest))) == ["order_a", "order_b"]
