"""More words for the programs of `view_programs.py`: dtypes mixed, where all is exact to the bit,
and functions, reductions and writes of floats, where kernels of several stages meet writes."""

from __future__ import annotations

from typing import Final

import torch

from tests.native.view_programs import INPUTS, Maker, Vocabulary

_SHAPES: Final = ((3, 4, 2), (2, 3, 5), (1, 1, 1), (5, 1, 3), (0, 2, 3), (4, 6, 17), (3, 70, 66))


def _of(dtype: torch.dtype, layout: str) -> Maker:
    def make(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        base = INPUTS[layout](shape, generator)
        # Strides stay: a cast of what has gaps would close them.
        return (base * 40).round().to(dtype) if dtype != torch.bool else base > 0

    return make


_DTYPES: Final = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}

_CASTS: Final = tuple(f"{{a}}.to({dtype})" for dtype in _DTYPES.values())

#: Operators that give the same bits in whatever order they are computed.
EXACT: Final = Vocabulary(
    {
        f"{name} {layout}": _of(dtype, layout)
        for name, dtype in _DTYPES.items()
        for layout in ("contiguous", "transposed")
    },
    (
        *_CASTS,
        *("{a} + {b}", "{a} * {b}", "{a} - {b}", "{a} * 3", "{a} + 0.7", "1.3 * {a}", "{a} - 257"),
        *("-{a}", "{a}.abs()", "{a}.sign()", "torch.maximum({a}, {b})", "torch.minimum({a}, {b})"),
        *("{a} > {b}", "{a} == {b}", "{a} <= 0.7", "{a} != 3", "{a} % 7", "{a} // 3", "~{a}"),
        *("torch.where({a} > {b}, {a}, {b})", "torch.where({a} > 0, {a}, 0.3)", "{a} & {b}"),
        *(
            "{a} | {b}",
            "{a} ^ {b}",
            "{a} << 3",
            "{a} >> 2",
            "{a}.clamp(-3, 50)",
            "{a}.clamp(min=1)",
        ),
        *("{a}.masked_fill({b} > 0, 1)", "{a}.logical_not()", "torch.logical_and({a}, {b})"),
        *("{a}.amax({d})", "{a}.amin({d}, keepdim=True)", "{a}.max({d})[0]", "{a}.argmax({d})"),
        *("{a}.min({d})[1]", "{a}.any({d})", "{a}.all({d}, keepdim=True)", "({a} > 0).sum({d})"),
        *("{a}.long().sum({d})", "{a}.to(torch.int32).sum()", "({a} > 0).cumsum({d})"),
        *("{a}.count_nonzero({d})", "{a}.transpose({d}, {e})", "{a}.unsqueeze({d})", "{a}[1:]"),
        *("{a}[..., ::2]", "{a}[0]", "{a}.flatten({d}, {e})", "{a}.flip({d})", "{a}.roll(1, {d})"),
        *("torch.cat([{a}, {a}], {d})", "torch.cat([{a}, {b}], {d})", "torch.stack([{a}, {b}])"),
        *("torch.nn.functional.pad({a}, (1, 2), value=3)", "{a}[i % {a}.shape[0]]", "{a}.tril()"),
        *("{a}.gather({d}, ({a} > 0).long() * 0)", "{a}.index_select({d}, i % {a}.shape[{d}])"),
        *("{a}.expand(2, *{a}.shape)", "{a}.reshape(-1)", "{a}.contiguous()", "{a}.clone()"),
        *("{a}.float().round()", "{a}.double().floor()", "{a}.float().trunc() * 0.5"),
        *("torch.full_like({a}, 3)", "torch.zeros_like({a}) + {b}", "{a} + {a}.amax()", "{a}.t()"),
        *(
            "torch.arange({a}.shape[0]) + {a}.shape[0]",
            "{a} * ({b} > 0)",
            "{a}.square()",
            "{a} ** 2",
        ),
    ),
    (
        *("{a}.add_(1)", "{a}.mul_({b})", "{a}[0] = 2", "{a}[1:] = 3", "{a}[..., 0] += 1"),
        *("{a}.copy_({b})", "{a}.zero_()", "{a}.sub_({b})", "{a}[{a} > 3] = 1", "{a}.clamp_(0, 9)"),
        *("{a}[i % {a}.shape[0]] = 3", "{a}.transpose({d}, {e}).mul_(2)", "{a}[...] = {b}"),
        *("{a}.masked_fill_({b} > 0, 1)", "{a}.fill_(2)", "{a}.index_fill_({d}, i % 1, 1)"),
        *("{a}.index_add_(0, i % {a}.shape[0], {a}[i % {a}.shape[0]])", "{a}.neg_()", "{a} += {b}"),
        *("{a}.copy_({a}.amax({d}, keepdim=True))", "{a}.view(-1)[1:] = 4", "{a}.abs_()"),
    ),
    _SHAPES,
    0,
)

_FLOAT8: Final = {
    "e4m3fn": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
}

#: The same with dtypes that are only stored: most words are refused for them, and fall away.
STORED: Final = EXACT._replace(
    inputs={
        f"{name} {layout}": _of(dtype, layout)
        for name, dtype in (*_FLOAT8.items(), ("f32", torch.float32), ("bf16", torch.bfloat16))
        for layout in ("contiguous", "transposed")
    },
    makes=(
        *EXACT.makes,
        *(f"{{a}}.{how}({dtype})" for dtype in _FLOAT8.values() for how in ("to", "type")),
        *(f"({{a}}.float() * 3.7).to({dtype}).t()" for dtype in _FLOAT8.values()),
        *(f"({{a}}.double() / 97).to({dtype})" for dtype in _FLOAT8.values()),
        *("{a}.float()", "{a}.bfloat16()", "{a}.half()", "{a}.repeat_interleave(2, {d})"),
        *("torch.where({a}.float() > {b}.float(), {a}, {b})", "torch.full_like({a}, 0.3)"),
        *("{b}.type_as({a})", "{a}.transpose({d}, {e}).contiguous()", "{a}.tile(2)"),
    ),
    writes=(*EXACT.writes, "{a}.copy_({b}.float() * 0.3)", "{a}[1:] = {b}[1:]", "{a}[0] = 0.3"),
)

_BOUNDED: Final = ("sin", "cos", "tanh", "sigmoid", "atan", "erf")

#: Functions whose results are small, so that errors do not grow.
FLOATS: Final = Vocabulary(
    {**INPUTS, "f64": lambda s, g: torch.randn(s, generator=g, dtype=torch.float64)},
    (
        *(f"{{a}}.{name}()" for name in _BOUNDED),
        *(f"{{a}}.{name}().mean({{d}})" for name in _BOUNDED),
        *(f"{{a}}.{name}().mean({{d}}, keepdim=True)" for name in _BOUNDED),
        *("torch.softmax({a}, {d})", "torch.log_softmax({a}, {d}) * 0.1", "{a}.logsumexp({d})"),
        *("torch.nn.functional.layer_norm({a}, {a}.shape[-1:])", "{a}.abs().mean()", "{a}.mean()"),
        *("torch.nn.functional.rms_norm({a}, {a}.shape[-1:])", "{a} - {a}.mean({d}, keepdim=True)"),
        *("{a} * 0.5 + {b} * 0.5", "{a} * {b}.sin()", "{a}.amax({d}, keepdim=True) - {a}"),
        *("torch.where({a}.abs() > 3, {a} * 0.1, {a})", "{a}.clamp(-2, 2)", "{a}.std({d})"),
        *("{a}.var({d}, keepdim=True).sqrt()", "{a}.cumsum({d}) * 0.1", "{a}.sum(({d}, {e}))"),
        *(
            "{a}.transpose({d}, {e})",
            "{a}.transpose({d}, {e}).contiguous()",
            "{a}[1:]",
            "{a}[None]",
        ),
        *("{a}.reshape(-1)", "{a}.flatten({d}, {e})", "{a}.unsqueeze({d})", "{a}[..., ::2]"),
        *("torch.cat([{a}, {b}], {d})", "torch.stack([{a}, {b}.tanh()], {d})", "{a}.flip({d})"),
        *("torch.nn.functional.pad({a}, (1, 2))", "{a}[i % {a}.shape[0]]", "{a}.clone()"),
        *("torch.nn.functional.gelu({a})", "torch.nn.functional.silu({a})", "{a}.norm(dim={d})"),
        *("torch.nn.functional.normalize({a}, dim={d})", "{a} / ({b}.abs() + 1)", "{a}.double()"),
        *("{a} @ {a}.transpose(-1, -2) * 0.1", "torch.nn.functional.softplus({a})", "{a}.float()"),
        *("{a} + {b}[0]", "{a} + {b}.mean()", "{a} * {b}.sigmoid().mean({d}, keepdim=True)"),
        *("{a}.sort({d})[0]", "{a}.expand(2, *{a}.shape)", "{a}.exp().sum({d}).log()"),
    ),
    (
        *(f"{{a}}.{name}_()" for name in _BOUNDED if name != "atan"),
        *("{a}.mul_(0.5)", "{a}.add_({b} * 0.1)", "{a}.sub_({a}.mean({d}, keepdim=True))"),
        *("{a}.copy_(torch.softmax({a}, {d}))", "{a}.div_({a}.abs().amax({d}, keepdim=True) + 1)"),
        *("{a}.add_({a}.sin().mean({d}, keepdim=True))", "{a}[0] = 0.5", "{a}[1:] *= 0.5"),
        *(
            "{a}[..., 0] += 1",
            "{a}.copy_({b})",
            "{a}.masked_fill_({b} > 0, 0.3)",
            "{a}.clamp_(-1, 1)",
        ),
        *("{a}[{a} > 0.5] = 0.25", "{a}.transpose({d}, {e}).mul_(0.5)", "{a}.mul_({b}.cos())"),
        *(
            "{a}.lerp_({b}, 0.3)",
            "{a}.index_add_(0, i % {a}.shape[0], {a}[i % {a}.shape[0]] * 0.1)",
        ),
        *("{a}.copy_({a}.cumsum({d}) * 0.1)", "{a}.addcmul_({b}, {b}, value=0.1)", "{a}.zero_()"),
    ),
    _SHAPES,
    2e-3,
)
