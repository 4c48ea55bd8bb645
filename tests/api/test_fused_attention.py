"""Attention as one kernel: `flex_attention` and what is written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import math_attention
from torch.nn.attention.flex_attention import (
    AuxOutput,
    AuxRequest,
    _identity,
    create_block_mask,
    flex_attention,
    noop_mask,
)

import anyshape
from anyshape.graph.plan import PythonCall
from anyshape.loops.attention import TILE
from tests import devices
from tests.native.plans import watched

HEADS: Final = 4
DEVICE: Final = str(torch.get_default_device())
#: Borders of tiles, of vectors, of both; one query and one key, or many.
LENGTHS: Final = (
    *((33, 33), (1, 1), (TILE - 1, TILE + 1), (TILE + 1, TILE - 1), (2 * TILE, TILE)),
    *((16, 3 * TILE), (31, 300), (257, 5)),
)

_made = devices.generator(0)
documents = torch.arange(400) // 23
short_documents = documents.to(torch.int32)
numbers = torch.randint(0, 5, (400,), generator=_made)
lengths = torch.tensor([7, 150])
flags = torch.rand(400, generator=_made) > 0.4
slopes = torch.linspace(0.1, 1.0, HEADS)
huge = torch.full((400,), 2**63 - 1)


def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def window(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q - k).abs() <= 3


def dilated(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q >= k) & ((q - k) % 2 == 0)


def chunks(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q // 40 == k // 40) & (q >= k)


def document(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (documents[q] == documents[k]) & (q >= k)


def other_document(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return short_documents[q] != short_documents[k]


def unsorted(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return numbers[q] + 1 < numbers[k]


def prefix(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (k < lengths[b]) | (q >= k)


def padded(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (k < lengths[b]) & (q < lengths[b])


def some_keys(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return flags[k] & ~flags[q]


def by_head(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (k - q < h * 5) ^ (h == 2)


def wrapping(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Where numbers begin anew behind the largest, bounds of them say nothing."""
    return huge[q] + k > 0


def below_zero(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """So do numbers without a sign below zero, however small they are."""
    return (q >= k).to(torch.uint8) - 1 > 5


def cast_below_zero(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return ((q >= k).long() - 1).to(torch.uint8) > 5


def constants_that_wrap(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A number takes the dtype of the tensor beside it: 200 is -56."""
    return ((q >= k).to(torch.int8) < 200) != (k < 100 + b)


def far_keys(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.minimum(q, k) * -2 + torch.maximum(k, q) > 40


def nothing(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q < 0


MASKS: Final = (
    *(causal, window, dilated, chunks, document, other_document, unsorted, prefix, padded),
    *(some_keys, by_head, wrapping, below_zero, cast_below_zero, constants_that_wrap, far_keys),
    *(nothing, noop_mask),
)


def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + slopes[h] * (k - q)


def capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return 5.0 * torch.tanh(score / 5.0)


def hidden(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(q >= k, score, -math.inf)


def infinite(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(q - k == 4, math.inf, torch.where(q - k == 9, math.nan, score))


SCORES: Final = (alibi, capped, hidden, infinite)


def _reference(q: Tensor, k: Tensor, v: Tensor, score: Any = None, mask: Any = None) -> Any:
    """In double precision, but for the result."""
    scale = 1 / math.sqrt(q.size(-1))
    q, k, v = (each.double() for each in (q, k, v))
    made = math_attention(q, k, v, score or _identity, (mask or noop_mask,), scale, {}, (), ())
    return made[0], made[1] * math.log(2), made[2] * math.log(2)


def _inputs(
    queries: int, keys: int, dtype: torch.dtype = torch.float32, heads: int = HEADS, width: int = 8
) -> tuple[Tensor, Tensor, Tensor]:
    made = devices.generator(queries + 7 * keys)
    shapes = ((2, HEADS, queries, width), *((2, heads, keys, width),) * 2)
    q, k, v = (torch.randn(shape, generator=made).to(dtype) for shape in shapes)
    return q, k, v


def _check(found: Any, expected: Any, dtype: torch.dtype = torch.float32) -> None:
    bound = {torch.float64: 1e-12, torch.float32: 2e-5}.get(dtype, 2e-2)
    torch.testing.assert_close(
        found, expected, rtol=bound, atol=bound, check_dtype=False, equal_nan=True
    )


def _is_one_kernel(compiled: Any) -> bool:
    return "attention is one kernel" in str(compiled.explain())


@pytest.mark.parametrize("mod", MASKS, ids=lambda each: each.__name__)
def test_masks(mod: Any) -> None:
    def run(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        aux = AuxRequest(lse=True, max_scores=True)
        return flex_attention(q, k, v, block_mask=mask, return_aux=aux)

    compiled = anyshape.compile(run, dynamic=True)
    with torch.no_grad():
        for queries, keys in LENGTHS:
            given = _inputs(queries, keys)
            mask = create_block_mask(mod, 2, HEADS, queries, keys, device=DEVICE)
            out, aux = compiled(*given, mask)
            out, aux = compiled(*given, mask)
            expected = _reference(*given, None, mod)
            _check((out, aux.lse, aux.max_scores), expected)
            assert out.dtype == torch.float32
            assert out.is_contiguous()
    assert _is_one_kernel(compiled)
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("score", SCORES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_scores(score: Any, dtype: torch.dtype) -> None:
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, score), dynamic=True)
    with torch.no_grad():
        for queries, keys in LENGTHS:
            given = _inputs(queries, keys, dtype)
            compiled(*given)
            found = compiled(*given)
            assert found.dtype == dtype
            _check(found, _reference(*given, score)[0], dtype)
    assert _is_one_kernel(compiled)


def _spoiled(kind: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    last = k.size(2) - 1
    match kind:
        case "an infinite value":
            v[0, 0, last // 2, 3] = math.inf
        case "a value that is NaN":
            v[1, 1, last, 0] = math.nan
        case "a key that is NaN":
            k[0, 2, last // 3] = math.nan
        case "an infinite key":
            k[0, 0, last, 0] = math.inf
        case "an infinite query":
            q[1, 3, q.size(2) // 2] = -math.inf
        case "products that are too large":
            q *= 1e20
            k *= 1e20
        case _:
            q *= 300


SPOILED: Final = (
    *("an infinite value", "a value that is NaN", "a key that is NaN", "an infinite key"),
    *("an infinite query", "products that are too large", "scores that are far apart"),
)


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("mod", [causal, document, padded, nothing], ids=lambda m: m.__name__)
def test_what_is_not_finite(mod: Any, kind: str) -> None:
    """A weight of zero makes NaN of an infinite value, also where the mask hides whole tiles."""

    def run(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        return flex_attention(q, k, v, block_mask=mask, return_lse=True)

    compiled = anyshape.compile(run, dynamic=True)
    with torch.no_grad():
        for queries, keys in ((20, 20), (20, 20), (40, 3 * TILE), (200, 200)):
            given = _inputs(queries, keys)
            _spoiled(kind, *given)
            mask = create_block_mask(mod, 2, HEADS, queries, keys, device=DEVICE)
            scale = 1 / math.sqrt(8)
            made = math_attention(*given, _identity, (mod,), scale, {}, (), ())
            found = compiled(*given, mask)
            torch.testing.assert_close(
                found, (made[0], made[1] * math.log(2)), rtol=3e-4, atol=3e-5, equal_nan=True
            )
    assert _is_one_kernel(compiled)


#: Masks that are given a number.
GIVEN: Final[dict[str, Callable[..., Tensor]]] = {
    "far": lambda q, k, s: (q - k + s).abs() < 40,
    "window": lambda q, k, s: (q >= k) & (q - k < s),
    "moved": lambda q, k, s: q + s >= k + s,
    "turned": lambda q, k, s: -(q - s) <= -(k - s),
    "the smaller one": lambda q, k, s: torch.minimum(q + s, k - s) > 5,
    "stretched": lambda q, k, s: q * s >= k * s,
}


@pytest.mark.parametrize("name", GIVEN)
def test_masks_that_are_given_a_number(name: str) -> None:
    """It may be any: beyond the largest of 64 bits, sums of it begin anew."""

    def run(q: Tensor, k: Tensor, v: Tensor, s: int) -> Tensor:
        def mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return GIVEN[name](i, j, s)

        blocks = create_block_mask(mask, None, None, q.size(2), k.size(2), device=DEVICE)
        return flex_attention(q, k, v, block_mask=blocks)

    compiled = anyshape.compile(run, dynamic=True)
    ends = (2**63 - 5, -(2**63) + 5, 2**63 - 150, 2**62, 2**40)
    with torch.no_grad():
        for queries, keys in ((33, 33), (200, 2 * TILE)):
            given = _inputs(queries, keys)
            for s in (3, 50, -50, *ends):
                own = GIVEN[name]
                expected = _reference(*given, None, lambda b, h, i, j, s=s, own=own: own(i, j, s))
                _check(compiled(*given, s), expected[0])
    assert _is_one_kernel(compiled)


@pytest.mark.filterwarnings("ignore:return_lse is deprecated")
def test_nothing_is_told_of_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager code gives None in place of what it would tell of each row."""
    module = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    monkeypatch.setattr(module, True)

    def by_rows(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, return_lse=True)

    def beside(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, return_aux=AuxRequest(lse=True))

    for function in (by_rows, beside):
        compiled = anyshape.compile(function, dynamic=True)
        for length in (20, 0, 7, 0):
            q, k, v = _inputs(length, 5)
            for given in ((q, k, v), (q[:0], k[:0], v[:0])):
                found, expected = compiled(*given), function(*given)
                assert type(found[1]) is type(expected[1])
                torch.testing.assert_close(found[0], expected[0])
                if isinstance(found[1], AuxOutput):
                    found, expected = [*found[1]], [*expected[1]]
                assert [each is None for each in found] == [each is None for each in expected]


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_groups(heads: int, dtype: torch.dtype) -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, alibi, enable_gqa=True)

    compiled = anyshape.compile(run, dynamic=True)
    with torch.no_grad():
        for queries, keys in LENGTHS:
            q, k, v = _inputs(queries, keys, dtype, heads)
            compiled(q, k, v)
            more_k, more_v = (each.repeat_interleave(HEADS // heads, 1) for each in (k, v))
            _check(compiled(q, k, v), _reference(q, more_k, more_v, alibi)[0], dtype)
    assert _is_one_kernel(compiled)


def test_strides_and_widths() -> None:
    """Values may be of another width than keys; heads side by side, columns apart."""
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, hidden), dynamic=True)
    with torch.no_grad():
        for width, other in ((8, 8), (1, 3), (5, 17), (64, 32)):
            q, k, _ = _inputs(50, 110, width=width)
            *_, v = _inputs(50, 110, width=other)
            sides = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)]
            apart = [torch.stack([each, each], -1)[..., 0] for each in (q, k, v)]
            turned = [each.mT.contiguous().mT for each in (q, k, v)]
            expected = _reference(q, k, v, hidden)[0]
            for given in ((q, k, v), sides, apart, turned, (q, apart[1], turned[2])):
                _check(compiled(*given), expected)
                _check(compiled(*given), expected)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * 0.3, -1) @ v


def by_hand_with_a_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows, columns = (torch.arange(each.size(-2)) for each in (q, k))
    scores = (q @ k.mT / 3).masked_fill(rows[:, None] < columns, -math.inf)
    return (scores.softmax(-1).type_as(q) @ v).transpose(-3, -2)


def of_three_dimensions(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (each.flatten(0, 1) for each in (q, k, v))
    return torch.bmm(torch.softmax(torch.bmm(q, k.mT), dim=2), v)


def of_rows_that_see_nothing(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = torch.arange(q.size(-2))
    scores = torch.where((rows % 3 == 0)[:, None], q @ k.mT, -math.inf)
    return torch.softmax(scores, -1) @ v


def with_a_bias(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    bias = torch.tanh(q.sum(-1))[..., None] - k.amax(-1)[..., None, :]
    return torch.softmax(q @ k.mT + bias, -1) @ v


def of_what_is_computed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.sin(q) @ torch.cos(k * 2).mT, -1) @ (v * 3 - 1)


BY_HAND: Final = (
    *(by_hand, by_hand_with_a_mask, of_three_dimensions, of_rows_that_see_nothing),
    *(with_a_bias, of_what_is_computed),
)


@pytest.mark.parametrize("function", BY_HAND, ids=lambda each: each.__name__)
def test_by_hand(function: Callable[..., Tensor]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for queries, keys in (*LENGTHS, (0, 4), (20, 0), (0, 0)):
            if not keys and function is with_a_bias:
                continue  # the largest of none
            given = _inputs(queries, keys)
            compiled(*given)
            found = compiled(*given)
            expected = function(*given)
            assert found.stride() == expected.stride()
            _check(found, function(*(each.double() for each in given)))
    assert _is_one_kernel(compiled)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [0.9, -0.5])
def test_values_near_the_largest(dtype: torch.dtype, share: float) -> None:
    """A mean of values is finite where their sum is not."""
    compiled = anyshape.compile(by_hand, dynamic=True)
    with torch.no_grad():
        for queries, keys in (*LENGTHS, (20, 2000)):
            q, k, v = _inputs(queries, keys, dtype)
            v = v.sigmoid() * torch.finfo(dtype).max * share
            compiled(q, k, v)
            found, expected = (call(q, k, v) for call in (compiled, by_hand))
            torch.testing.assert_close(found, expected, rtol=2e-5, atol=0.0)
    assert _is_one_kernel(compiled)


def test_values_of_a_wider_dtype() -> None:
    """Weights of less precision than values: what is read of these is not rounded to it."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT, -1).to(torch.float64) @ v

    compiled = anyshape.compile(run, dynamic=True)
    with torch.no_grad():
        for scale in (1e-60, 1.0, 1e60):
            q, k, v = _inputs(40, 200)
            given = q, k, v.double().abs() * scale
            compiled(*given)
            torch.testing.assert_close(compiled(*given), run(*given), rtol=1e-5, atol=0.0)


def scores_too(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT
    return torch.softmax(scores, -1) @ v, scores


def weights_too(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(q @ k.mT, -1)
    return weights @ v, weights


def along_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT, -2) @ v


def of_whole_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    return torch.softmax(scores - scores.mean(-1, keepdim=True), -1) @ v


def of_two_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT + v @ k.mT, -1) @ v


def turned(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    return torch.softmax(scores + scores.mT, -1) @ v


def broadcast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT, -1) @ v[:1, :1]


def written_on_the_way(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q = q.clone()
    scores = q @ k.mT
    q.zero_()
    return torch.softmax(scores, -1) @ v + q


def scores_written_to(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    scores[..., 0] = 3
    return torch.softmax(scores, -1) @ v


def divided_in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    scores /= 3
    return torch.softmax(scores, -1) @ v


NOT_ONE: Final = (
    *(scores_too, weights_too, along_queries, of_whole_rows, of_two_products, turned, broadcast),
    *(written_on_the_way, scores_written_to, divided_in_place),
)


@pytest.mark.parametrize("function", NOT_ONE, ids=lambda each: each.__name__)
def test_what_is_several_steps(function: Callable[..., Any]) -> None:
    """Or one kernel: eager's results in any case."""
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for length in (20, 1, 100):
            given = _inputs(length, length)
            compiled(*given)
            _check(compiled(*given), function(*given))


def _in_place(x: Tensor) -> None:
    x.mul_(2)


def _by_data(x: Tensor) -> None:
    x.data.mul_(2)


def _a_part(x: Tensor) -> None:
    x[..., 0] = 3


def _by_a_view(x: Tensor) -> None:
    x.transpose(1, 2)[:, ::2].add_(1)


@pytest.mark.parametrize("write", [_in_place, _by_data, _a_part, _by_a_view])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("are_far_apart", [False, True])
def test_written_between_the_products(write: Any, place: int, are_far_apart: bool) -> None:
    """Also what is stored for the first product only, and not before."""

    def run(*given: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (each + 1 for each in given)
        scores = q @ k.mT
        write((q, k, v)[place])
        return torch.softmax(scores * 0.1, -1) @ v, (q, k, v)[place]

    compiled = anyshape.compile(run, dynamic=True)
    with torch.no_grad():
        for length in (100, 100, 30):
            given = _inputs(length, length)
            if are_far_apart:
                given = tuple(_far_apart(each) for each in given)
            _check(compiled(*given), run(*given))


def _far_apart(x: Tensor) -> Tensor:
    """Heads side by side, as a linear layer leaves them."""
    return torch.stack([x] * 20, -1).permute(0, 2, 1, 4, 3).contiguous()[..., 3, :].transpose(1, 2)


@pytest.mark.parametrize("function", [by_hand, by_hand_with_a_mask], ids=lambda f: f.__name__)
def test_rows_far_apart(function: Any) -> None:
    """Keys and values are stored anew; what is then read is what the program had."""
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for queries, keys in ((100, 100), *LENGTHS, (20, 0)):
            q, k, v = (_far_apart(each) for each in _inputs(queries, keys))
            assert k.stride(2) >= 256 or not keys
            for given in ((q, k, v), (q, k.mT.contiguous().mT, v), (q, k.contiguous(), v)):
                _check(compiled(*given), function(*given))
    assert _is_one_kernel(compiled)


def test_many_columns() -> None:
    """The library's products are faster, and stay."""
    compiled = anyshape.compile(by_hand, dynamic=True)
    with torch.no_grad():
        for length in (20, 100):
            given = _inputs(length, length, width=256)
            compiled(*given)
            _check(compiled(*given), by_hand(*given))
    assert "attention is not one kernel: columns that are many" in str(compiled.explain())


def test_few_queries() -> None:
    """A step of decoding has one query: scores are no more than its keys."""
    compiled = anyshape.compile(by_hand, dynamic=False)
    with torch.no_grad():
        given = _inputs(1, 40)
        compiled(*given)
        _check(compiled(*given), by_hand(*given))
    assert "attention is not one kernel: fewer than 16 queries" in str(compiled.explain())


def test_in_a_row() -> None:
    """Two of them, the one in the other's value, and steps that interleave."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        one, two = q @ k.mT, k @ q.mT
        first = torch.softmax(one * 0.5, -1) @ v
        second = torch.softmax(two, -1) @ first
        return by_hand(first, second, second) + first

    compiled = anyshape.compile(run, dynamic=True)
    with torch.no_grad():
        for length in (20, 1, 100):
            given = _inputs(length, length)
            compiled(*given)
            _check(compiled(*given), run(*(each.double() for each in given)))
    assert _is_one_kernel(compiled)


def test_with_gradients() -> None:
    compiled = anyshape.compile(by_hand, dynamic=True)
    for length in (20, 20, 100):
        found, expected = (
            torch.autograd.grad(call(*given).square().sum(), given)
            for call in (compiled, by_hand)
            for given in [[each.requires_grad_() for each in _inputs(length, length)]]
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_memory_is_linear() -> None:
    """No step writes as much as all scores are."""

    def run(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        return flex_attention(q, k, v, alibi, block_mask=mask)

    with watched() as plans, torch.no_grad():
        compiled = anyshape.compile(run, dynamic=False)
        mask = create_block_mask(causal, None, None, 333, 335, device=DEVICE)
        compiled(*_inputs(333, 335), mask)
    (plan,) = plans.made
    steps = [step for step in plan.steps if not isinstance(step, PythonCall)]
    written = {name for step in steps for name in step.writes}
    assert written
    for name in written:
        sizes = [size for size in plan.held[name].sizes if isinstance(size, int)]
        assert len(sizes) == len(plan.held[name].sizes)
        assert math.prod(sizes) < 333 * 335
