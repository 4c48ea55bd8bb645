"""Numbers as unevaluated sums of floats, the largest first: more digits than one float has."""

from __future__ import annotations

from typing import Final

from anyshape.codegen.ir_builder import round_to

#: With so many binary digits behind the point.
_DIGITS: Final = 256
_NUMBERS: Final = {
    "ln2": 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2C,
    "log2e": 0x171547652B82FE1777D0FFDA0D23A7D11D6AEF551BAD2B4B1164A2CD9A3426490,
    "log10e": 0x6F2DEC549B9438CA9AADD557D699EE191F71A30122E4D1011D1F96A27BC7529E,
    "log10_2": 0x4D104D427DE7FBCC47C4ACD605BE48BC13569862A1E8F9A4C52F37935BE631E6,
    "pi": 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89,
    "two_over_pi": 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC562,
    "gelu_linear": 0x19884533D436508D0FCB3C500BAB8E2FF4E0A7CC1449C1B63011C6D20098E74BA,
}
_NUMBERS["gelu_cubic"] = _NUMBERS["gelu_linear"] * 44715 // 10**6
_NUMBERS["log2_linear"] = _NUMBERS["log2e"] * 2
_NUMBERS["log2_cubic"] = _NUMBERS["log2_linear"] // 3
_NUMBERS["half_pi"] = _NUMBERS["pi"] >> 1
_NUMBERS["quarter_pi"] = _NUMBERS["pi"] >> 2
_NUMBERS["three_quarters_pi"] = _NUMBERS["pi"] * 3 >> 2


def _value(number: int) -> float:
    return float(number) * 2.0**-_DIGITS


def _split(number: int, kind: str, count: int = 3) -> tuple[float, ...]:
    pieces: list[float] = []
    for _ in range(count):
        pieces.append(round_to(_value(number), kind))
        number -= int(pieces[-1] * 2.0**_DIGITS)
    return tuple(pieces)


def _short(number: int, kind: str) -> tuple[float, ...]:
    """The first piece is short enough that its product with an exponent is exact."""
    unit = 1 << (_DIGITS - (14 if kind == "f32" else 40))
    high = (number + unit // 2) // unit * unit
    return _value(high), *_split(number - high, kind, 1)


def _from_below(number: int, bits: int) -> tuple[float, ...]:
    """Pieces of so many bits that are all positive."""
    pieces: list[float] = []
    for _ in range(3):
        shift = number.bit_length() - bits
        pieces.append(_value(number >> shift << shift))
        number &= (1 << shift) - 1
    return tuple(pieces)


_KINDS: Final = ("f32", "f64")
SPLIT: Final[dict[tuple[str, str], tuple[float, ...]]] = {
    **{(name, kind): _split(each, kind) for name, each in _NUMBERS.items() for kind in _KINDS},
    **{
        (f"{name}_short", kind): _short(_NUMBERS[name], kind)
        for name in ("ln2", "log10_2")
        for kind in _KINDS
    },
    ("pi_from_below", "f32"): _from_below(_NUMBERS["pi"], 24),
}

#: (2^-16i, 2^16i 2 / pi modulo 4 as two doubles)
TWO_OVER_PI_BY_EXPONENT: Final = (
    (1.0, 0.6366197723675814, -3.935735335036497e-17),
    (1.52587890625e-05, 1.5134018818108999, -5.337836035525533e-17),
    (2.3283064365386963e-10, 2.3057263591291792, -1.135182530699217e-16),
    (3.552713678800501e-15, 0.08267188988231296, 2.8658837463471963e-18),
    (5.421010862427522e-20, 1.9849753272621515, -3.1178565966641257e-17),
    (8.271806125530277e-25, 3.3430474523609095, -6.404466966325114e-17),
    (1.262177448353619e-29, 1.9578379245607584, 7.76958470400183e-17),
)
