"""`flex_attention` in compiled functions: one graph for all lengths, and eager's results."""

from __future__ import annotations

import contextlib
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.flex_attention import math_attention
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    _identity,
    _ordered_to_dense,
    and_masks,
    create_block_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

import anyshape
from anyshape.capture.builtins.flex_attention import MODELS
from anyshape.capture.tracer import Tracer
from tests import devices

#: Heads, and lengths of queries and keys.
SIZES: Final = ((2, 8, 8), (3, 17, 17), (1, 1, 1), (2, 130, 130), (1, 33, 33))
HEADS: Final = 4
WIDTH: Final = 8
DEVICE: Final = str(torch.get_default_device())

slopes = torch.linspace(0.1, 1.0, HEADS)
table = torch.randn(HEADS, 300, generator=devices.generator(0))
learnt = nn.Parameter(torch.randn(HEADS, 64, generator=devices.generator(1)))
documents = torch.arange(300) // 7
by_batch = torch.stack([torch.arange(300) // (3 + k) for k in range(3)])
number = torch.tensor(0.5)
number64 = torch.tensor(0.3, dtype=torch.float64)


def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + slopes[h] * (k - q)


def relative(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + table[h, (q - k).abs()]


def learnt_bias(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + learnt[h, (q - k).clamp(-20, 20) + 20] * number


def capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return 5.0 * torch.tanh(score / 5.0)


def causal_score(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(q >= k, score, -math.inf)


def by_choice(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(b % 2 == 0, score, score * 0.5).to(torch.float32)


def wider(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score * number64


def chained(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + table[h][(q - k).abs()]


def of_a_row(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + table[h].sum()


def noisy(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + torch.rand_like(score)


def noisy_once(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + torch.rand(())


def dropped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return nn.functional.dropout(score, 0.5)


def doubled(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score.double()


SCORES: Final = (alibi, relative, learnt_bias, capped, causal_score, by_choice)
#: What is not a step for each position alone is left to torch.
LEFT: Final = (chained, of_a_row, wider, doubled)
DRAWING: Final = (noisy, noisy_once, dropped)


def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def window(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q - k).abs() <= 3


def document(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return documents[q] == documents[k]


def document_of_batch(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return by_batch[b, q] == by_batch[b, k]


def some_rows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q % 3 != 0) & (h > 0)


MASKS: Final = {
    "causal": causal,
    "window": and_masks(causal, window),
    "either": or_masks(window, lambda b, h, q, k: k < 2),
    "document": document,
    "document of a batch": document_of_batch,
    "rows without a key": some_rows,
    "everything": noop_mask,
}


def _reference(
    q: Tensor, k: Tensor, v: Tensor, score: Any = None, mask: BlockMask | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """What torch's own function comes down to on processors, without torch.compile around it."""
    mod = noop_mask if mask is None else mask.mask_mod
    scale = 1 / math.sqrt(q.size(-1))
    out, lse, largest = math_attention(q, k, v, score or _identity, (mod,), scale, {}, (), ())
    return out, lse * math.log(2), largest * math.log(2)


def _inputs(batch: int, queries: int, keys: int, dtype: torch.dtype, heads: int) -> list[Tensor]:
    made = devices.generator(batch + queries)
    shapes = ((batch, HEADS, queries, WIDTH), *((batch, heads, keys, WIDTH),) * 2)
    return [torch.randn(s, generator=made).to(dtype).requires_grad_() for s in shapes]


def _check(
    compiled: Any, reference: Callable[..., Tensor], dtype: torch.dtype, heads: int = HEADS
) -> None:
    relative, absolute = (2e-5, 1e-4) if dtype.itemsize > 2 else (0.05, 0.05)
    for size in (*SIZES, SIZES[1]):
        results, grads = [], []
        for call in (compiled, reference):
            learnt.grad = None
            given = _inputs(*size, dtype, heads)
            result = call(*given)
            assert result.dtype == dtype
            result.float().square().sum().backward()
            results.append(result.detach())
            grads.append([*(each.grad for each in given), learnt.grad])
        torch.testing.assert_close(*results)
        for ours, theirs in zip(*grads, strict=True):
            if ours is not None or theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=relative, atol=absolute)


@pytest.mark.parametrize("score", SCORES, ids=lambda each: each.__name__)
def test_scores(score: Any) -> None:
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, score), dynamic=True)
    _check(compiled, lambda q, k, v: _reference(q, k, v, score)[0], torch.float32)
    assert compiled.stats().graphs == 1
    assert not compiled.stats().eager_calls


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(dtype: torch.dtype) -> None:
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, alibi), dynamic=True)
    _check(compiled, lambda q, k, v: _reference(q, k, v, alibi)[0], dtype)
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("name", MASKS)
def test_masks_made_inside(name: str) -> None:
    mod = MASKS[name]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = create_block_mask(mod, q.size(0), HEADS, q.size(2), k.size(2), device=DEVICE)
        return flex_attention(q, k, v, capped, block_mask=mask)

    def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = create_block_mask(mod, q.size(0), HEADS, q.size(2), k.size(2), device=DEVICE)
        return _reference(q, k, v, capped, mask)[0]

    compiled = anyshape.compile(run, dynamic=True)
    _check(compiled, reference, torch.float32)
    assert compiled.stats().graphs == 1
    assert not compiled.stats().eager_calls


def test_masks_from_outside() -> None:
    compiled = anyshape.compile(
        lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask), dynamic=True
    )
    masks = {
        size: create_block_mask(causal, None, None, size[1], size[2], device=DEVICE)
        for size in SIZES
    }
    for size in (*SIZES, SIZES[0]):
        q, k, v = _inputs(*size, torch.float32, HEADS)
        expected = _reference(q, k, v, None, masks[size])[0]
        torch.testing.assert_close(compiled(q, k, v, masks[size]), expected)
    q, k, v = (each.detach() for each in _inputs(2, 8, 8, torch.float32, HEADS))
    with pytest.raises(ValueError, match="block_mask was created for"):
        compiled(q, k, v, masks[SIZES[1]])


def test_groups() -> None:
    compiled = anyshape.compile(
        lambda q, k, v: flex_attention(q, k, v, alibi, enable_gqa=True), dynamic=True
    )
    _check(compiled, lambda q, k, v: _reference(q, k, v, alibi)[0], torch.float32, heads=2)
    assert compiled.stats().graphs == 1


def test_floats_that_change() -> None:
    """A cap and a slope beside scores are inputs."""
    caps = iter(range(2, 100))
    scores: list[Any] = []

    def score_of(cap: float, slope: float) -> Any:
        return lambda score, b, h, q, k: cap * torch.tanh(score / cap) + (k - q) * slope

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, *scores[-1])

    attend = anyshape.compile(
        lambda q, k, v, cap, slope: flex_attention(q, k, v, score_mod=score_of(cap, slope))
    )

    def changed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores.append((next(caps) / 4, next(caps) / 8))
        return function(q, k, v)

    def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _reference(q, k, v, score_of(*scores[-1]))[0]

    _check(changed, reference, torch.float32)
    assert attend.stats().graphs <= 3
    assert attend.stats().eager_calls == 0


def test_what_comes_beside() -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, alibi, return_aux=AuxRequest(lse=True, max_scores=True))

    compiled = anyshape.compile(run, dynamic=True)
    for size in SIZES:
        q, k, v = _inputs(*size, torch.float32, HEADS)
        out, aux = compiled(q, k, v)
        expected = _reference(q, k, v, alibi)
        torch.testing.assert_close((out, aux.lse, aux.max_scores), expected)
    assert compiled.stats().graphs == 1


def test_other_lengths_of_keys() -> None:
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, alibi), dynamic=True)
    for queries, keys in ((5, 9), (1, 12), (7, 1)):
        q, k, v = _inputs(2, queries, keys, torch.float32, HEADS)
        torch.testing.assert_close(compiled(q, k, v), _reference(q, k, v, alibi)[0])
    # Eager code cannot map over none.
    assert compiled(*_inputs(2, 0, 3, torch.float32, HEADS)).shape == (2, HEADS, 0, WIDTH)
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("score", LEFT, ids=lambda each: each.__name__)
def test_what_is_not_elementwise_is_torchs(score: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    monkeypatch.setattr(module, True)
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, score), dynamic=True)
    for size in SIZES[:3]:
        q, k, v = (each.detach() for each in _inputs(*size, torch.float32, HEADS))
        torch.testing.assert_close(compiled(q, k, v), _reference(q, k, v, score)[0])
    assert not compiled.stats().hits


def row_of_a_row(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + table[h].gather(0, (q - k).abs())


def looked_up(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + nn.functional.embedding(q, table.t())[h]


@pytest.mark.parametrize("score", [chained, row_of_a_row, looked_up], ids=lambda x: x.__name__)
def test_no_index_is_tried_that_may_be_out_of_range(
    score: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all positions at once, as captures do it: a GPU does not go on behind that."""
    failed: list[str] = []
    told = Tracer.abort

    def abort(self: Tracer, reason: str, *args: Any, **kwargs: Any) -> None:
        failed.append(reason)
        told(self, reason, *args, **kwargs)

    monkeypatch.setattr(Tracer, "abort", abort)
    module = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    monkeypatch.setattr(module, True)
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, score), dynamic=True)
    q, k, v = (each.detach() for each in _inputs(2, 5, 5, torch.float32, HEADS))
    for _ in range(2):
        with contextlib.suppress(RuntimeError, IndexError):
            compiled(q, k, v)
    assert not any("raised an error" in reason for reason in failed)


@pytest.mark.parametrize("score", DRAWING, ids=lambda each: each.__name__)
def test_what_draws_is_torchs(score: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which refuses to draw for single positions."""
    module = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    monkeypatch.setattr(module, True)
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v, score), dynamic=True)
    for size in SIZES[:2]:
        q, k, v = (each.detach() for each in _inputs(*size, torch.float32, HEADS))
        with pytest.raises(RuntimeError, match="randomness"):
            compiled(q, k, v)


def test_logsumexp_of_doubles_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    monkeypatch.setattr(module, True)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, doubled, return_aux=AuxRequest(lse=True))

    compiled = anyshape.compile(run, dynamic=True)
    for size in SIZES[:2]:
        q, k, v = (each.detach() for each in _inputs(*size, torch.float32, HEADS))
        for (out, aux), (expected, own) in ((compiled(q, k, v), run(q, k, v)),):
            torch.testing.assert_close((out, aux.lse), (expected, own.lse))


def test_blocks_without_a_number_of_columns() -> None:
    """As torch 2.11 calls it."""
    counts = torch.tensor([[[2, 0, 1]]], dtype=torch.int32)
    columns = torch.tensor([[[[2, 0, 1], [0, 1, 2], [1, 0, 2]]]], dtype=torch.int32)

    class Mock:
        call = staticmethod(lambda function, *args, **kwargs: function(*args, **kwargs))
        item = staticmethod(operator.getitem)
        compare = staticmethod(lambda name, a, b: getattr(operator, name)(a, b))
        binary = compare

    model = MODELS[_ordered_to_dense]
    takes_number = len(inspect.signature(_ordered_to_dense).parameters) == 3
    expected = _ordered_to_dense(counts, columns, *([3] if takes_number else []))
    for given in ((counts, columns), (counts, columns, 3)):
        torch.testing.assert_close(model(Mock, *given), expected)


def test_what_torch_refuses() -> None:
    compiled = anyshape.compile(lambda q, k, v: flex_attention(q, k, v), dynamic=True)
    q, k, v = (each.detach() for each in _inputs(2, 5, 5, torch.float32, HEADS))
    torch.testing.assert_close(compiled(q, k, v), _reference(q, k, v)[0])
    for given, error in (
        ((q, k[:, :2], v[:, :2]), "same number of heads"),
        ((q, k[:1], v[:1]), "same batch size"),
        ((q[0], k, v), "dim|4D|rank"),
        ((q, k[..., :4], v), "dimension|embed"),
    ):
        with pytest.raises((ValueError, RuntimeError, NotImplementedError), match=error):
            compiled(*given)


def test_a_mask_that_changes_is_seen() -> None:
    reach = 2

    def near(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q - k).abs() <= reach

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = create_block_mask(near, None, None, q.size(2), k.size(2), device=DEVICE)
        return flex_attention(q, k, v, block_mask=mask)

    compiled = anyshape.compile(run, dynamic=True)
    q, k, v = _inputs(1, 9, 9, torch.float32, HEADS)
    for now in (2, 2, 0, 5):
        reach = now
        mask = create_block_mask(near, None, None, 9, 9, device=DEVICE)
        torch.testing.assert_close(compiled(q, k, v), _reference(q, k, v, None, mask)[0])


def test_a_mask_over_an_argument() -> None:
    """Functions that the program makes at each call, over what it is given."""

    def run(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
        def same(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (ids[b, i] == ids[b, j]) & (i >= j)

        mask = create_block_mask(same, q.size(0), None, q.size(2), k.size(2), device=DEVICE)
        return flex_attention(q, k, v, block_mask=mask)

    compiled = anyshape.compile(run, dynamic=True)
    for size in SIZES:
        q, k, v = _inputs(*size, torch.float32, HEADS)
        ids = torch.randint(0, 3, (size[0], size[1])).sort(1).values
        i = torch.arange(size[1])
        allowed = (ids[:, None, :, None] == ids[:, None, None, :]) & (i[:, None] >= i)
        expected = nn.functional.scaled_dot_product_attention(q, k, v, allowed)
        torch.testing.assert_close(compiled(q, k, v, ids), expected)
    assert compiled.stats().graphs == 1


def test_a_mask_that_is_turned_around() -> None:
    """`__invert__` begins as the names of operators do that write."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        def before(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return ~(i < j)

        mask = create_block_mask(before, None, None, q.size(2), k.size(2), device=DEVICE)
        return flex_attention(q, k, v, block_mask=mask)

    compiled = anyshape.compile(run, dynamic=True)
    for size in (*SIZES, SIZES[0]):
        q, k, v = _inputs(*size, torch.float32, HEADS)
        expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.testing.assert_close(compiled(q, k, v), expected)
    assert not compiled.stats().eager_calls


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_torch_compiles_functions_that_a_program_makes() -> None:
    """What cannot be captured torch's own compiler reads: the program's code, without hooks."""

    def run(q: Tensor, k: Tensor, v: Tensor, n: int) -> Tensor:
        def hidden(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return torch.stack([i, j]).sum() % 5 != n

        def near(far: int, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (i - j).abs() < far

        def moved(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + torch.stack([i, j]).amax().to(score.dtype) * 0.1

        def close(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return near(n + 4, b, h, i, j)

        mask = and_masks(hidden, close)
        blocks = create_block_mask(mask, None, None, q.size(2), k.size(2), device=DEVICE)
        return flex_attention(q, k, v, score_mod=moved, block_mask=blocks)

    compiled = anyshape.compile(run, dynamic=True)
    for size in SIZES[:2]:
        q, k, v = (each.detach() for each in _inputs(*size, torch.float32, HEADS))
        for n in (2, 3):
            torch.testing.assert_close(compiled(q, k, v, n), run(q, k, v, n))
