"""Attention on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import anyshape
from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic

SIZES = {"n": 2, "h": 3, "l": 4, "s": 5, "e": 6, "v": 7}
ATTEND = F.scaled_dot_product_attention
#: torch itself ends the process there.
nothing_to_attend = pytest.mark.skipif(
    torch.__version__.startswith("2.11"), reason="attention to nothing divides by zero"
)


def _used(*specs: str) -> dict[str, int]:
    return {name: size for name, size in SIZES.items() if any(name in spec for spec in specs)}


def heads_inside(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(-3, -2).contiguous().transpose(-3, -2) if tensor.dim() > 2 else tensor


@nothing_to_attend
@pytest.mark.parametrize(
    ("specs", "kwargs"),
    [
        (("l e", "s e", "s v"), {}),
        (("n l e", "n s e", "n s v"), {}),
        (("n h l e", "n h s e", "n h s v"), {}),
        (("n h l e", "n h s e", "n h s e"), {"is_causal": True}),
        (("n h l e", "n h s e", "n h s e", "l s"), {}),
        (("n h l e", "n h s e", "n h s e", "n 1 l s"), {}),
        (("n h l e", "n h s e", "n h s e", "1 s"), {}),
        (("n h l e", "1 h s e", "n 1 s e"), {}),
        (("n h l e", "n h s e", "n h s e"), {"dropout_p": 0.1}),
    ],
)
def test_attention(specs: tuple[str, ...], kwargs: Any) -> None:
    assert dynamic(check(ATTEND, *specs, first=_used(*specs), **kwargs))


@nothing_to_attend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_layout_of_heads(dtype: torch.dtype) -> None:
    specs = ("n h l 8", "n h l 8", "n h l 8")
    assert dynamic(check(ATTEND, *specs, first=_used("n h l"), prepare=heads_inside, dtype=dtype))
    other = check(
        ATTEND,
        "n h l 8",
        "n h s 8",
        "n h s 8",
        first=_used("nhls"),
        prepare=heads_inside,
        dtype=dtype,
    )
    assert [str(need.fact) for need in other.needs] == ["s >= 1 or l == 0"]
    choices: tuple[dict[str, Any], ...] = ({"dropout_p": 0.1}, {"is_causal": True})
    for kwargs in choices:
        assert dynamic(
            check(ATTEND, *specs, first=_used("nhl"), prepare=heads_inside, dtype=dtype, **kwargs)
        )
    check(ATTEND, *specs, "l l", first=_used("nhl"), prepare=heads_inside, dtype=dtype)
    check(ATTEND, *specs, "h l l", first=_used("nhl"), prepare=heads_inside, dtype=dtype)
    check(
        ATTEND,
        "n h l 8",
        "n h l 8",
        "n h l 9",
        first=_used("nhl"),
        prepare=heads_inside,
        dtype=dtype,
    )
    check(
        ATTEND,
        "n h l 8",
        "1 h l 8",
        "n h l 8",
        first=_used("nhl"),
        prepare=heads_inside,
        dtype=dtype,
    )
    check(
        ATTEND,
        *specs,
        first=_used("nhl"),
        prepare=lambda t: t.mT.contiguous().mT,
        dtype=dtype,
        then=[],
    )


def test_grouped_heads() -> None:
    for prepare in (None, heads_inside):
        outcome = check(
            ATTEND,
            "n 6 l 8",
            "n 2 l 8",
            "n 2 l 8",
            enable_gqa=True,
            first=_used("nl"),
            prepare=prepare,
        )
        assert dynamic(outcome)
    outcome = check(
        ATTEND,
        "n h l 8",
        "n g l 8",
        "n g l 8",
        enable_gqa=True,
        first={"n": 2, "h": 6, "g": 3, "l": 4},
    )
    assert {"n": 4, "h": 9, "g": 7, "l": 9} in outcome.guarded


_CALL = ("need_weights", "average_attn_weights")


def _multi_head(**kwargs: Any) -> Any:
    call = {name: kwargs.pop(name) for name in _CALL if name in kwargs}
    module = torch.nn.MultiheadAttention(8, 2, **kwargs)

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *masks: torch.Tensor) -> Any:
        named = dict(zip(("attn_mask", "key_padding_mask"), masks, strict=False))
        return module(q, k, v, **call, **named)

    return run


@pytest.mark.parametrize(
    "kwargs", [{}, {"need_weights": False}, {"average_attn_weights": False}], ids=str
)
@pytest.mark.parametrize(
    ("specs", "more"),
    [
        (("l n 8", "s n 8", "s n 8"), {}),
        (("l 8", "s 8", "s 8"), {}),
        (("l n 8", "s n 8", "s n 8", "l s"), {}),
        (("l n 6", "s n 5", "s n 5"), {"kdim": 5, "vdim": 5}),
        (("l n 8", "s n 8", "s n 8"), {"add_bias_kv": True, "add_zero_attn": True}),
    ],
)
def test_multi_head(specs: tuple[str, ...], more: Any, kwargs: Any) -> None:
    specs = tuple(spec.replace("6", "8") for spec in specs)
    assert dynamic(check(_multi_head(**more, **kwargs), *specs, first=_used(*specs)))


@pytest.mark.parametrize(
    ("specs", "kwargs"),
    [
        (("4 6", "5 7", "5 6"), {}),
        (("4 6", "5 6", "4 6"), {}),
        (("6", "5 6", "5 6"), {}),
        (("2 8 4 6", "2 2 5 6", "2 2 5 6"), {}),
        (("2 8 4 6", "2 3 5 6", "2 3 5 6"), {"enable_gqa": True}),
        (("2 3 4 6", "2 3 5 6", "2 3 5 6", "3 5"), {}),
        (("3 4 6", "3 4 6", "3 4 6", "4 4"), {"is_causal": True}),
    ],
)
def test_rejected(specs: tuple[str, ...], kwargs: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(ATTEND, *specs, first={}, **kwargs)


def test_rejected_masks() -> None:
    for mask in ("1 5", "3 4 5"):
        with pytest.raises(ShapeMismatch):
            check(_multi_head(), "4 2 8", "5 2 8", "5 2 8", mask, first={})


@pytest.mark.parametrize("prepare", [lambda x: x, lambda x: x.transpose(0, 1)])
def test_a_layer_of_an_encoder_in_one_step(prepare: Any) -> None:
    """torch takes it in evaluation; its result is contiguous, whatever the source is."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    compiled: Any = anyshape.compile(layer, dynamic=True)
    with torch.no_grad():
        for batch, length in ((3, 5), (2, 7), (1, 1), (4, 1)):
            source = prepare(torch.randn(batch, length, 8))
            expected = layer(source)
            result = compiled(source)
            torch.testing.assert_close(result, expected)
            assert result.stride() == expected.stride()
        assert compiled.stats().captures == 1
        for shape in ((0, 5, 8), (5, 0, 8)):
            empty = prepare(torch.randn(shape))
            assert compiled(empty).stride() == layer(empty).stride()
        mask = torch.tensor([[False, True, True], [False, False, True]])
        source = torch.randn(2, 3, 8)
        masked = compiled(source, src_key_padding_mask=mask)
        torch.testing.assert_close(masked, layer(source, src_key_padding_mask=mask))


@nothing_to_attend
@pytest.mark.parametrize("is_bool", [True, False])
@pytest.mark.parametrize(
    "made",
    [
        lambda mask: mask[..., :1].expand(mask.shape),
        lambda mask: mask.mT.contiguous().mT,
        lambda mask: torch.cat([mask, mask], -1)[..., ::2],
    ],
    ids=["stretched", "transposed", "with steps"],
)
def test_the_layout_of_masks_does_not_matter(made: Any, is_bool: bool) -> None:
    def program(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x.transpose(1, 2)
        given = made(mask > -9 if is_bool else mask)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=given)

    compiled = anyshape.compile(program, dynamic=True, backend="eager")
    for n, length in ((2, 5), (3, 4), (1, 7)):
        x, mask = torch.randn(n, length, 3, 8), torch.randn(n, 1, length, length)
        found, wanted = compiled(x, mask), program(x, mask)
        assert found.stride() == wanted.stride()
        torch.testing.assert_close(found, wanted)
    assert compiled.stats().captures == 1
