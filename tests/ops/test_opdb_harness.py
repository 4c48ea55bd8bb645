"""The judge of all operators is not fooled: every kind of mistake in a rule is found, and an honest
rule passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import UnknownOperator
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.op import Op, OpKind
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.table import OpMatch, entries
from anyshape.symbolic import eq, gt, le, maximum, ne
from tests.ops import tracking
from tests.ops.judge import Judgement, Operator, Verdict, judge
from tests.ops.opdb import operators
from tests.ops.samples import NotStrided, Sample, by_place, by_value, template

SQUARE = Sample((torch.randn(5, 5),), {})
OBLONG = Sample((torch.randn(3, 4),), {})


@pytest.fixture
def rule_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Any], None]:
    """Give a torch function another rule for the time of a test."""

    def put(function: Any, rule: Any) -> None:
        row = Op("tested", (), rule, OpKind.CALL_OUT)
        monkeypatch.setitem(entries(), function, OpMatch(row, in_place=False))

    return put


def verdict_on(function: Callable[..., Any], *samples: Sample) -> Judgement:
    return judge(Operator("tested", function, lambda: samples))


# Rules for torch.t, the transposed view of a matrix: honest, then wrong in one way each.


def honest_t(q: ShapeQuery, input: Meta) -> Meta:
    (rows, columns), (down, along) = input.shape, input.strides
    return input.viewed((columns, rows), (along, down))


def not_transposed(q: ShapeQuery, input: Meta) -> Meta:
    return input.viewed(input.shape, input.strides[::-1])


def with_a_number_for_a_size(q: ShapeQuery, input: Meta) -> Meta:
    hint = q.facts.hint(input.shape[0])
    assert hint is not None
    return input.viewed((input.shape[1], hint), input.strides[::-1])


def wrong_at_size_1(q: ShapeQuery, input: Meta) -> Meta:
    return input.viewed((input.shape[1], maximum(input.shape[0], 2)), input.strides[::-1])


def wrong_stride(q: ShapeQuery, input: Meta) -> Meta:
    return input.like(input.shape[::-1])


def wrong_dtype(q: ShapeQuery, input: Meta) -> Meta:
    return honest_t(q, input.like(dtype=torch.float64))


def two_results(q: ShapeQuery, input: Meta) -> tuple[Meta, Meta]:
    return honest_t(q, input), honest_t(q, input)


def rejects_everything(q: ShapeQuery, input: Meta) -> Meta:
    raise q.fail("no")


def requires_what_is_false(q: ShapeQuery, input: Meta) -> Meta:
    q.require(gt(input.shape[0], 100), "more than a hundred rows")
    return honest_t(q, input)


def broken(q: ShapeQuery, input: Meta) -> Meta:
    return {}["missing"]


def refuses_size_1(q: ShapeQuery, input: Meta) -> Meta:
    q.decide(ne(input.shape[0], 1), "one row")
    return honest_t(q, input)


def refuses_larger_sizes(q: ShapeQuery, input: Meta) -> Meta:
    q.require(le(input.shape[0], 5), "at most five rows")
    return honest_t(q, input)


def specialised(q: ShapeQuery, input: Meta) -> Meta:
    rows = q.specialize(input.shape[0], "no formula")
    return input.viewed((input.shape[1], rows), input.strides[::-1])


def specialised_by_a_guard(q: ShapeQuery, input: Meta) -> Meta:
    rows = q.count(input.shape[0], "no formula")
    return input.viewed((input.shape[1], rows), input.strides[::-1])


def refuses_size_0(q: ShapeQuery, input: Meta) -> Meta:
    q.require(gt(input.shape[0], 0), "some rows")
    return honest_t(q, input)


@pytest.mark.parametrize(
    ("rule", "sample", "verdict"),
    [
        (honest_t, SQUARE, Verdict.DYNAMIC),
        (honest_t, OBLONG, Verdict.DYNAMIC),
        (not_transposed, SQUARE, Verdict.WRONG),
        (with_a_number_for_a_size, OBLONG, Verdict.WRONG),
        (wrong_at_size_1, OBLONG, Verdict.WRONG),
        (wrong_stride, OBLONG, Verdict.WRONG),
        (wrong_stride, SQUARE, Verdict.WRONG),
        (wrong_dtype, OBLONG, Verdict.WRONG),
        (two_results, OBLONG, Verdict.WRONG),
        (rejects_everything, OBLONG, Verdict.WRONG),
        (requires_what_is_false, OBLONG, Verdict.WRONG),
        (broken, OBLONG, Verdict.CRASH),
        (refuses_size_1, OBLONG, Verdict.SPECIALISED),
        (refuses_larger_sizes, OBLONG, Verdict.SPECIALISED),
        (specialised, OBLONG, Verdict.SPECIALISED),
        (specialised_by_a_guard, OBLONG, Verdict.SPECIALISED),
        (refuses_size_0, OBLONG, Verdict.DYNAMIC),
    ],
)
def test_mistakes_in_a_rule_are_found(
    rule_of: Callable[[Any, Any], None], rule: Any, sample: Sample, verdict: Verdict
) -> None:
    rule_of(torch.t, rule)
    judgement = verdict_on(torch.t, sample)
    assert judgement.verdict is verdict, judgement.reason
    assert bool(judgement.reason) == (verdict is not Verdict.DYNAMIC)
    if verdict is Verdict.DYNAMIC:
        assert judgement.served > 0
    assert bool(judgement.at_zero) or rule is not refuses_size_0


def test_two_dimensions_of_one_size_are_told_apart(rule_of: Callable[[Any, Any], None]) -> None:
    """In a square matrix the wrong one of two dimensions has the right size."""

    def sum_over_the_wrong_dimension(q: ShapeQuery, input: Meta, dim: int) -> Meta:
        return input.like((input.shape[dim],))

    rule_of(torch.sum, sum_over_the_wrong_dimension)
    assert verdict_on(torch.sum, Sample((torch.randn(5, 5), 0), {})).verdict is Verdict.WRONG


# torch.mm: inner sizes must be equal.


def mm_without_check(q: ShapeQuery, input: Meta, mat2: Meta) -> Meta:
    return input.like((input.shape[0], mat2.shape[1]))


def honest_mm(q: ShapeQuery, input: Meta, mat2: Meta) -> Meta:
    q.require(eq(input.shape[1], mat2.shape[0]), "inner sizes are equal")
    return input.like((input.shape[0], mat2.shape[1]))


@pytest.mark.parametrize(
    ("rule", "verdict"), [(mm_without_check, Verdict.WRONG), (honest_mm, Verdict.DYNAMIC)]
)
def test_a_missing_check_is_found(
    rule_of: Callable[[Any, Any], None], rule: Any, verdict: Verdict
) -> None:
    rule_of(torch.mm, rule)
    judgement = verdict_on(torch.mm, Sample((torch.randn(3, 4), torch.randn(4, 5)), {}))
    assert judgement.verdict is verdict, judgement.reason


# torch.amax: nothing to take the maximum of.


def amax_without_check(q: ShapeQuery, input: Meta, dim: int) -> Meta:
    return input.like(input.shape[1:])


def honest_amax(q: ShapeQuery, input: Meta, dim: int) -> Meta:
    q.require(gt(input.shape[0], 0), "something to take the maximum of")
    return input.like(input.shape[1:])


@pytest.mark.parametrize(
    ("rule", "verdict"), [(amax_without_check, Verdict.WRONG), (honest_amax, Verdict.DYNAMIC)]
)
def test_a_missing_check_of_size_0_is_found(
    rule_of: Callable[[Any, Any], None], rule: Any, verdict: Verdict
) -> None:
    rule_of(torch.amax, rule)
    judgement = verdict_on(torch.amax, Sample((torch.randn(3, 4), 0), {}))
    assert judgement.verdict is verdict, judgement.reason
    assert not judgement.at_zero


def test_a_guard_is_justified_where_the_result_has_another_form(
    rule_of: Callable[[Any, Any], None],
) -> None:
    def squeeze(q: ShapeQuery, input: Meta, dim: int) -> Meta:
        if q.decide(eq(input.shape[dim], 1), "a dimension of size 1 is dropped"):
            raise AssertionError("not in this test")
        return input

    def unbind(q: ShapeQuery, input: Meta) -> tuple[Meta, ...]:
        count = q.count(input.shape[0], "as many results as rows")
        step = input.strides[0]
        return tuple(
            input.viewed(input.shape[1:], input.strides[1:], row * step) for row in range(count)
        )

    rule_of(torch.squeeze, squeeze)
    rule_of(torch.unbind, unbind)
    assert verdict_on(torch.squeeze, Sample((torch.randn(3, 4), 0), {})).verdict is Verdict.DYNAMIC
    assert verdict_on(torch.unbind, OBLONG).verdict is Verdict.DYNAMIC


def test_the_worst_sample_decides(rule_of: Callable[[Any, Any], None]) -> None:
    def right_for_few(q: ShapeQuery, input: Meta) -> Meta:
        return honest_t(q, input) if q.facts.hint(input.shape[0]) == 3 else not_transposed(q, input)

    rule_of(torch.t, right_for_few)
    assert verdict_on(torch.t, OBLONG).verdict is Verdict.DYNAMIC
    assert verdict_on(torch.t, OBLONG, SQUARE, OBLONG).verdict is Verdict.WRONG


# -- what cannot be tracked or run ----------------------------------------------------------------


def test_an_operator_without_rule_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    def knows_nothing(*_: Any, **__: Any) -> Any:
        raise UnknownOperator(op="t")

    monkeypatch.setattr(tracking, "infer", knows_nothing)
    assert verdict_on(torch.t, OBLONG).verdict is Verdict.UNSUPPORTED


def test_a_result_that_no_call_made_is_not_taken_for_known() -> None:
    kept = torch.randn(3)
    assert verdict_on(lambda x: kept, OBLONG).verdict is Verdict.UNSUPPORTED


def test_samples_that_torch_rejects_are_not_judged() -> None:
    judgement = verdict_on(torch.mm, Sample((torch.randn(3, 4), torch.randn(5, 6)), {}))
    assert judgement.verdict is Verdict.NOT_SAMPLED
    assert "cannot be multiplied" in judgement.reason


def test_indices_are_made_valid(rule_of: Callable[[Any, Any], None]) -> None:
    """Shrinking what is indexed must not fail because of an element of the index."""

    def index_select(q: ShapeQuery, input: Meta, dim: int, index: Meta) -> Meta:
        q.require(gt(input.shape[dim], 0), "something to select")
        return input.like((*index.shape, *input.shape[1:]))

    rule_of(torch.index_select, index_select)
    call = Sample((torch.randn(4, 3), 0, torch.tensor([3, 0])), {})
    judgement = verdict_on(torch.index_select, call)
    assert judgement.verdict is Verdict.DYNAMIC, judgement.reason


def test_a_kernel_that_trusts_its_arguments_is_not_given_made_up_ones(
    rule_of: Callable[[Any, Any], None],
) -> None:
    def checked(q: ShapeQuery, input: Meta, index: Meta) -> Meta:
        return input.like(index.shape)

    def really(input: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        given.append(index)
        return torch.take(input, index)

    given: list[torch.Tensor] = []
    rule_of(torch.take, checked)
    call = Sample((torch.randn(5), torch.tensor([4, 3])), {})
    judgement = judge(Operator("tested", really, lambda: [call], trusting=True))
    assert judgement.verdict is Verdict.DYNAMIC, judgement.reason
    assert judgement.served > 0
    assert all(index.is_meta or index.tolist() == [4, 3] for index in given)


def test_elements_that_torch_rejects_are_not_held_against_a_rule(
    rule_of: Callable[[Any, Any], None],
) -> None:
    """A larger matrix made of the same elements is not positive definite: torch's meta function is
    asked instead.
    """

    def honest(q: ShapeQuery, input: Meta) -> Meta:
        q.require(eq(input.shape[0], input.shape[1]), "a square matrix")
        return input.like(layout=Dense((1, 0)))

    def wrong(q: ShapeQuery, input: Meta) -> Meta:
        return honest(q, input).like((input.shape[0], q.facts.hint(input.shape[1]) or 0))

    call = Sample((torch.eye(4),), {})
    rule_of(torch.linalg.cholesky, honest)
    judgement = verdict_on(torch.linalg.cholesky, call)
    assert judgement.verdict is Verdict.DYNAMIC, judgement.reason
    assert judgement.served > 0
    rule_of(torch.linalg.cholesky, wrong)
    assert verdict_on(torch.linalg.cholesky, call).verdict is Verdict.WRONG


# -- Python code around calls ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (lambda x: zeros_of(x.shape), Verdict.DYNAMIC),
        (lambda x: zeros_of((x.size(0), x.shape[1])), Verdict.DYNAMIC),
        (lambda x: zeros_of((x.shape[0] * 2 + 1, 7 - -x.shape[1])), Verdict.DYNAMIC),
        (lambda x: zeros_of((x.numel() // 2, 5 % (x.stride(0) + 5))), Verdict.DYNAMIC),
        # A comparison is a guard; the result differs on the other side of it.
        (lambda x: zeros_of((2,) if x.shape[0] > 3 else (1, 2)), Verdict.DYNAMIC),
        # … and here it does not, so that the guard refuses without cause.
        (lambda x: zeros_of((2,) if x.shape[0] > 3 else [2]), Verdict.SPECIALISED),
        # The number escapes, which shows at other sizes.
        (lambda x: zeros_of((len(range(x.shape[0])),)), Verdict.WRONG),
    ],
)
def test_python_code_that_reads_sizes(
    rule_of: Callable[[Any, Any], None], function: Any, verdict: Verdict
) -> None:
    def zeros(q: ShapeQuery, size: Any) -> Meta:
        return Meta(tuple(size), torch.float32, Dense(tuple(range(len(size)))), torch.device("cpu"))

    rule_of(torch.zeros, zeros)
    judgement = verdict_on(function, OBLONG)
    assert judgement.verdict is verdict, judgement.reason


def zeros_of(size: Any) -> torch.Tensor:
    return torch.zeros(size)


# -- samples at other sizes -----------------------------------------------------------------------

LAYOUTS = {
    "contiguous": torch.randn(3, 4, 5),
    "permuted": torch.randn(5, 3, 4).permute(1, 2, 0),
    "sliced": torch.randn(3, 4, 9)[:, :, 2:7],
    "stepped": torch.randn(6, 4, 10)[::2, :, ::2],
    "expanded": torch.randn(3, 1, 5).expand(3, 4, 5),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "with a size of 1": torch.randn(3, 1, 5),
    "empty": torch.randn(3, 0, 5),
    "a number": torch.tensor(2.0),
    "part of a storage": torch.randn(20)[3:9],
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("naming", [by_value, by_place])
def test_a_sample_at_its_own_sizes_is_itself(name: str, naming: Any) -> None:
    original = LAYOUTS[name]
    made = template(Sample((original,), {}), naming)
    ((built,), _) = made.build(made.values)
    assert torch.equal(built, original)
    assert built.stride() == original.stride()
    assert built.storage_offset() == original.storage_offset()
    assert built.untyped_storage().nbytes() == original.untyped_storage().nbytes()
    assert built is not original
    assert not built.numel() or built.data_ptr() != original.data_ptr()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("grow", [lambda n: n + 1, lambda n: 2 * n, lambda n: 1, lambda n: 0])
def test_other_sizes_keep_the_layout(name: str, grow: Callable[[int], int]) -> None:
    original = LAYOUTS[name]
    made = template(Sample((original,), {}), by_value)
    values = {symbol: grow(size) for symbol, size in made.values.items()}
    ((built,), _) = made.build(values)
    assert built.shape == tuple(grow(n) if n > 1 else n for n in original.shape)
    assert built.dtype == original.dtype
    for dim, stride in enumerate(original.stride()):
        if original.shape[dim] > 1:
            assert (built.stride(dim) == 0) == (stride == 0)
    if built.numel():
        assert set(built.flatten().tolist()) <= set(original.flatten().tolist())


def test_equal_sizes_share_a_symbol_or_not() -> None:
    call = Sample((torch.randn(5, 5, 1, 0), [torch.randn(5)]), {})
    assert len(template(call, by_value).symbols) == 1
    assert len(template(call, by_place).symbols) == 3


def test_integers_have_symbols_where_there_are_no_tensors() -> None:
    alone, beside = (
        Sample(((5, 1), 5), {"dtype": torch.float32}),
        Sample((torch.tensor(1.0), 5), {}),
    )
    assert len(template(alone, by_value).symbols) == 1
    assert len(template(alone, by_place).symbols) == 2
    assert not template(beside, by_place).symbols
    made = template(alone, by_value)
    args, kwargs = made.build(dict.fromkeys(made.values, 7))
    assert (args, kwargs) == (((7, 1), 7), {"dtype": torch.float32})


def test_a_tensor_given_twice_is_given_twice_again() -> None:
    tensor = torch.randn(3)
    made = template(Sample((tensor, tensor), {}), by_place)
    (first, second), _ = made.build(made.values)
    assert first is second
    assert len(made.symbols) == 1


def test_tensors_without_strides_are_refused() -> None:
    with pytest.raises(NotStrided, match="sparse"):
        template(Sample((torch.eye(3).to_sparse(),), {}), by_value)


# -- torch's table --------------------------------------------------------------------------------


def test_names_are_unique_and_samples_are_always_the_same() -> None:
    found = operators()
    assert len({operator.name for operator in found}) == len(found) >= 600
    for operator in found[:: len(found) // 8]:
        assert [*map(str, operator.samples())] == [*map(str, operator.samples())]


def test_samples_are_of_many_kinds() -> None:
    (operator,) = (found for found in operators() if found.name == "matmul")
    samples = operator.samples()
    assert len(samples) == 12
    assert len({tuple(t.dim() for t in sample.args) for sample in samples}) >= 8
