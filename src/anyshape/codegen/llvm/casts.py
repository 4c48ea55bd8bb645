"""Conversions between dtypes as torch does them, and the rounding of f16 and bf16. Those of float8
are in float8.py."""

from __future__ import annotations

from anyshape.codegen.ir_builder import REGISTER, UNSIGNED, constant, register_bits, vector
from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.float8 import FORMATS, decoded, encoded
from anyshape.loops.expr import FLOAT8, FLOATS, HALVES, Dtype


def cast(e: Emitter, text: str, source: Dtype, target: Dtype, wide: bool) -> str:
    """A value of one dtype as another. Floats become integers towards zero; what does not fit gives
    what the processor's instruction gives, as in eager code."""
    if source == target:
        return text
    lanes = e.lanes_if(wide)
    if source in FLOAT8:
        found = cast(e, decoded(e, text, source, lanes), "f32", target, wide)
        if target in FLOATS or target == "b1" or not FORMATS[source].unsigned_zero:
            return found
        return _zero_for_nan(e, found, text, source, target, lanes)
    if target in FLOAT8:
        return encoded(e, cast(e, text, source, "f32", wide), target, lanes)
    have, want = vector(REGISTER[source], lanes), vector(REGISTER[target], lanes)
    if target == "b1":
        test = "fcmp une" if source in FLOATS else "icmp ne"
        zero = "zeroinitializer" if wide else "0.0" if source in FLOATS else "0"
        return e.let(f"{test} {have} {text}, {zero}")
    if source in FLOATS:
        if target not in FLOATS:
            return _to_integer(e, text, source, target, lanes)
        if have != want:
            text = e.let(f"{'fptrunc' if source == 'f64' else 'fpext'} {have} {text} to {want}")
        return round_half(e, text, target, lanes) if target in HALVES else text
    if target in FLOATS:
        name = "uitofp" if source in UNSIGNED else "sitofp"
        text = e.let(f"{name} {have} {text} to {want}")
        return round_half(e, text, target, lanes) if target in HALVES else text
    if have == want:
        return text
    if register_bits(source) > register_bits(target):
        return e.let(f"trunc {have} {text} to {want}")
    return e.let(f"{'zext' if source in UNSIGNED else 'sext'} {have} {text} to {want}")


def _zero_for_nan(
    e: Emitter, found: str, code: str, source: Dtype, target: Dtype, lanes: int
) -> str:
    """A format with a single code for NaN: torch's compiler has made it 0 as an integer."""
    if e.machine.saturates:
        return found  # the instruction gives that, too
    bytes, want = vector("i8", lanes), vector(REGISTER[target], lanes)
    nan = e.let(f"icmp eq {bytes} {code}, {constant(FORMATS[source].nan, 'i8', lanes)}")
    zero = constant(0, REGISTER[target], lanes)
    return e.select(vector("i1", lanes), nan, want, zero, found)


def _to_integer(e: Emitter, text: str, source: Dtype, target: Dtype, lanes: int) -> str:
    """Narrow integers by way of i32, of which they are the low bits; bytes without a sign by way of
    i64, as torch defines them. A float32 beyond i32 has no bits that low, and none are in the
    lowest i32 either: there i32 will do."""
    have = vector(REGISTER[source], lanes)
    by_64 = target == "i64" or (target == "u8" and (source == "f64" or e.machine.saturates))
    middle = vector("i64" if by_64 else "i32", lanes)
    text = e.let(f"fptosi {have} {text} to {middle}")
    want = vector(REGISTER[target], lanes)
    return text if want == middle else e.let(f"trunc {middle} {text} to {want}")


def round_half(e: Emitter, text: str, dtype: Dtype, lanes: int) -> str:
    """The nearest value of f16 or bf16, in f32."""
    floats = vector("float", lanes)
    if dtype == "f16":
        halves = vector("half", lanes)
        return e.let(f"fpext {halves} {e.let(f'fptrunc {floats} {text} to {halves}')} to {floats}")
    if e.machine.rounds_bf16:
        return _from_pairs(e, _bf16_pairs(e, text, lanes), lanes)
    # By integers: the instructions for bf16 flush denormals.
    ints, truth = vector("i32", lanes), vector("i1", lanes)
    bits = e.let(f"bitcast {floats} {text} to {ints}")
    last = e.let(f"and {ints} {e.let(f'lshr {ints} {bits}, {_all(16, lanes)}')}, {_all(1, lanes)}")
    half = e.let(f"add {ints} {e.let(f'add {ints} {bits}, {_all(0x7FFF, lanes)}')}, {last}")
    # The carry must not make an infinity of a NaN.
    nan = e.let(f"fcmp uno {floats} {text}, {text}")
    kept = e.let(f"select {truth} {nan}, {ints} {_all(0x7FC00000, lanes)}, {ints} {half}")
    cut = e.let(f"and {ints} {kept}, {_all(-65536, lanes)}")
    return e.let(f"bitcast {ints} {cut} to {floats}")


# -- two at a time, by an instruction of GPUs ------------------------------------------------------

#: The function that `_bf16_pairs` calls: two floats as bf16, the first one in the low bits.
BF16_PAIR = "as.gpu.bf16x2"


def _bf16_pairs(e: Emitter, text: str, lanes: int) -> list[str]:
    floats = vector("float", lanes)
    each = [text]
    if lanes:
        each = [e.let(f"extractelement {floats} {text}, i64 {lane}") for lane in range(lanes)]
    each += ["0.0"] * (len(each) % 2)
    return [
        e.let(f"call i32 @{BF16_PAIR}(float {low}, float {high})")
        for low, high in zip(each[::2], each[1::2], strict=True)
    ]


def _from_pairs(e: Emitter, pairs: list[str], lanes: int) -> str:
    """In f32."""
    each: list[str] = []
    for pair in pairs:
        each += [e.let(f"shl i32 {pair}, 16"), e.let(f"and i32 {pair}, -65536")]
    floats = [e.let(f"bitcast i32 {one} to float") for one in each[: max(lanes, 1)]]
    if not lanes:
        return floats[0]
    text = "poison"
    for lane, one in enumerate(floats):
        text = e.let(f"insertelement <{lanes} x float> {text}, float {one}, i64 {lane}")
    return text


def _packed(e: Emitter, pairs: list[str], lanes: int) -> str:
    """As i16."""
    if lanes < 2:
        one = e.let(f"trunc i32 {pairs[0]} to i16")
        return e.let(f"insertelement <1 x i16> poison, i16 {one}, i64 0") if lanes else one
    text, wide = "poison", f"<{len(pairs)} x i32>"
    for number, pair in enumerate(pairs):
        text = e.let(f"insertelement {wide} {text}, i32 {pair}, i64 {number}")
    return e.let(f"bitcast {wide} {text} to <{lanes} x i16>")


def _unpacked(e: Emitter, text: str, lanes: int) -> list[str]:
    """Pairs of i16: each half of a word is a float but for 16 bits that are 0."""
    wide = f"<{lanes // 2} x i32>"
    words = e.let(f"bitcast <{lanes} x i16> {text} to {wide}")
    return [e.let(f"extractelement {wide} {words}, i64 {n}") for n in range(lanes // 2)]


def from_memory(e: Emitter, text: str, dtype: Dtype, lanes: int) -> str:
    """What a load gave, as the registers have it."""
    if dtype == "b1":
        bytes_ = vector("i8", lanes)
        return e.let(f"icmp ne {bytes_} {text}, {_all(0, lanes)}")
    floats = vector("float", lanes)
    if dtype == "f16":
        return e.let(f"fpext {vector('half', lanes)} {text} to {floats}")
    if dtype == "bf16" and e.machine.rounds_bf16 and lanes > 1:
        return _from_pairs(e, _unpacked(e, text, lanes), lanes)
    if dtype == "bf16":
        ints = vector("i32", lanes)
        wide = e.let(f"zext {vector('i16', lanes)} {text} to {ints}")
        return e.let(f"bitcast {ints} {e.let(f'shl {ints} {wide}, {_all(16, lanes)}')} to {floats}")
    return text


def to_memory(e: Emitter, text: str, dtype: Dtype, lanes: int) -> str:
    """What a store takes."""
    if dtype == "b1":
        return e.let(f"zext {vector('i1', lanes)} {text} to {vector('i8', lanes)}")
    floats = vector("float", lanes)
    if dtype == "f16":
        return e.let(f"fptrunc {floats} {text} to {vector('half', lanes)}")
    if dtype == "bf16" and e.machine.rounds_bf16:
        return _packed(e, _bf16_pairs(e, text, lanes), lanes)
    if dtype == "bf16":
        ints = vector("i32", lanes)
        bits = e.let(f"bitcast {floats} {text} to {ints}")
        high = e.let(f"lshr {ints} {bits}, {_all(16, lanes)}")
        return e.let(f"trunc {ints} {high} to {vector('i16', lanes)}")
    return text


def _all(value: int, lanes: int) -> str:
    return "zeroinitializer" if lanes and value == 0 else constant(value, "i32", lanes)
