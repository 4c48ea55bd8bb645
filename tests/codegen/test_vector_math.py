"""Vector math, run: edges exactly, samples within 2 ulp, in every width."""

from __future__ import annotations

import math
import platform
import re

import mpmath as mp
import numpy as np
import pytest

from anyshape.codegen.vector_math import FUNCTIONS, WITHIN, definitions, supports
from anyshape.codegen.vector_math.table import ON_GPUS
from tests.codegen.accuracy import (
    AS_GOOD_AS_EAGER,
    BOUND,
    allowed_error,
    bit_patterns,
    eager,
    exact,
    exact_ulp_error,
    reference,
    special_values,
    ulp_error,
)
from tests.codegen.jit import assembly, compiled, other_machine

UNARY = [name for name, arity in FUNCTIONS.items() if arity == 1]
BINARY = [name for name, arity in FUNCTIONS.items() if arity == 2]
IN_F64 = [name for name in FUNCTIONS if supports(name, "f64")]
# These begin with an estimate of a reciprocal, which may differ by the width of the vector.
ESTIMATING = ("sigmoid", "silu", "tanh", "gelu_tanh", "rsqrt")


def ordinary(count: int) -> np.ndarray:
    """Where functions are used: around zero, and a wider range."""
    random = np.random.default_rng(7)
    parts = [random.normal(0, scale, count) for scale in (0.3, 1.0, 10.0, 60.0)]
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("name", UNARY)
def test_float32_is_within_two_ulp(name: str):
    x = np.concatenate([bit_patterns("f32", 2**16), ordinary(2**14), special_values("f32")])
    error = ulp_error(compiled(name)(x), reference(name, x))
    worst = (error / allowed_error(name, x)).argmax()
    assert (error <= allowed_error(name, x)).all(), (
        f"{name}({x[worst]!r}) is {error[worst]} ulp off"
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the estimates are those of x86-64")
@pytest.mark.parametrize("name", ESTIMATING)
def test_a_coarser_estimate_of_reciprocals_is_as_good(name: str):
    x = np.concatenate([bit_patterns("f32", 2**16), ordinary(2**14), special_values("f32")])
    error = ulp_error(compiled(name, cpu="haswell")(x), reference(name, x))
    worst = (error / allowed_error(name, x)).argmax()
    assert (error <= allowed_error(name, x)).all(), (
        f"{name}({x[worst]!r}) is {error[worst]} ulp off"
    )


@pytest.mark.parametrize("name", ON_GPUS)
@pytest.mark.parametrize("off", [0.0, 2.0**-24, -(2.0**-24)])
def test_by_the_instructions_of_gpus(name: str, off: float):
    """Whose errors are one unit in the last place or so. A sum and a quotient beside come to what
    eager loses on a GPU."""
    x = np.concatenate([bit_patterns("f32", 2**16), ordinary(2**14), special_values("f32")])
    error = ulp_error(compiled(name, off=off)(x), reference(name, x))
    bound = np.maximum(allowed_error(name, x), 3.5 if name in AS_GOOD_AS_EAGER else BOUND)
    worst = (error / bound).argmax()
    assert (error <= bound).all(), f"{name}({x[worst]!r}) is {error[worst]} ulp off"


@pytest.mark.parametrize("off", [None, 0.0], ids=["processor", "gpu"])
def test_sines_of_what_is_small(off: float | None):
    x = np.linspace(-WITHIN["sin"], WITHIN["sin"], 2**16 + 1).astype(np.float32)
    x = np.concatenate([x, np.array([0.0, -0.0, 1e-40, -1e-20, np.nan], np.float32)])
    found = compiled("sin.within", off=off)(x)
    assert (ulp_error(found, reference("sin", x)) <= BOUND).all()
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(x[:-1]))


def test_sines_of_gpus_are_not_beyond_one():
    near = np.arange(np.float32(1.5).view(np.uint32), np.float32(1.6).view(np.uint32))
    x = near.astype(np.uint32).view(np.float32)
    for start in (0.0, np.pi, 2 * np.pi, 20 * np.pi):
        given = (x + np.float32(start)).astype(np.float32)
        assert np.abs(compiled("sin", off=0.0)(given)).max() == 1.0


def remainders(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """As torch defines them; its own fmod is NaN where the quotient overflows."""
    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
        mirrored = (rest != 0) & (np.signbit(rest) != np.signbit(y)) & (name == "remainder")
        return np.where(mirrored, rest + y, rest)


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_those_of_torch(name: str):
    random = np.random.default_rng(13)
    x, y = (np.concatenate([random.permutation(ordinary(999)), np.arange(-8, 8)]) for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    np.testing.assert_array_equal(compiled(name)(x, y), eager(name, x, y))


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_float32_are_within_two_ulp(name: str):
    random = np.random.default_rng(11)
    edges = special_values("f32")
    left, right = (side.ravel() for side in np.meshgrid(edges, edges))
    wild = [random.permutation(bit_patterns("f32", 2**16)) for _ in range(2)]
    tame = [random.permutation(ordinary(2**14)) for _ in range(2)]
    x = np.concatenate([left, wild[0], tame[0], np.abs(tame[0])])
    y = np.concatenate([right, wild[1], tame[1], tame[1]])
    result = compiled(name)(x, y)
    if name in ("fmod", "remainder"):  # exact, signs of zero included
        expected = remainders(name, x, y)
        same = (result == expected) & (np.signbit(result) == np.signbit(expected))
        same |= np.isnan(result) & np.isnan(expected)
        assert same.all(), (x[~same][0], y[~same][0], result[~same][0], expected[~same][0])
        return
    error = ulp_error(result, reference(name, x, y))
    worst = error.argmax()
    assert error[worst] <= BOUND, f"{name}({x[worst]!r}, {y[worst]!r}) is {error[worst]} ulp off"


@pytest.mark.parametrize("name", [name for name in IN_F64 if name in UNARY])
def test_float64_is_within_two_ulp(name: str):
    random = np.random.default_rng(3)
    x = np.concatenate(
        [
            *(random.normal(0, scale, 60) for scale in (0.3, 1.0, 8.0, 200.0)),
            random.uniform(0.4, 1.1, 60),
            np.exp(random.uniform(-700, 700, 60)),
        ]
    )
    result = compiled(name, "f64", 8)(x)
    for argument, got in zip(x.tolist(), result.tolist(), strict=True):
        if name in ("exp2", "erfc") and abs(argument) > 2000:
            continue  # Too large for mpmath.
        truth = exact(name, argument)
        if isinstance(truth, mp.mpc) or mp.isnan(truth):
            assert math.isnan(got), f"{name}({argument!r}) = {got!r}"
        elif abs(truth) > mp.mpf(np.finfo(np.float64).max):
            assert got == math.copysign(math.inf, float(mp.sign(truth))), f"{name}({argument!r})"
        else:
            error = exact_ulp_error(got, truth)
            assert error <= BOUND, f"{name}({argument!r}) = {got!r} is {error} ulp off"


@pytest.mark.parametrize("name", IN_F64)
def test_special_values_of_float64(name: str):
    edges = special_values("f64")
    arguments = [edges]
    if FUNCTIONS[name] == 2:
        arguments = [side.ravel() for side in np.meshgrid(edges, edges)]
    exact_ones = name in ("fmod", "remainder")
    expected = (remainders if exact_ones else reference)(name, *arguments)
    for *given, got, wanted in zip(
        *arguments, compiled(name, "f64", 8)(*arguments), expected, strict=True
    ):
        # The reference itself is off by some ulp, and by one denormal.
        close = math.isclose(got, wanted, rel_tol=4e-15, abs_tol=1e-323)
        same = close and (got == 0) == (wanted == 0) and np.signbit(got) == np.signbit(wanted)
        same |= abs(wanted) <= 1e-323 and close
        assert same or (np.isnan(got) and np.isnan(wanted)), f"{name}{given} = {got}, not {wanted}"


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_the_number_of_lanes_does_not_matter(name: str, lanes: int):
    x = np.concatenate([special_values("f32"), ordinary(64), bit_patterns("f32", 512)])
    y = np.random.default_rng(5).permutation(x)
    wide, other = compiled(name)(x, y), compiled(name, "f32", lanes)(x, y)
    if name not in ESTIMATING:
        np.testing.assert_array_equal(wide, other)
        return
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(other))
    np.testing.assert_array_max_ulp(np.nan_to_num(wide), np.nan_to_num(other), maxulp=1)


@pytest.mark.parametrize(
    ("triple", "cpu"),
    [("x86_64-unknown-linux-gnu", "haswell"), ("aarch64-unknown-linux-gnu", "neoverse-n1")],
)
def test_other_machines_need_no_library(triple: str, cpu: str):
    machine = other_machine(triple, cpu)
    for name in ("exp", "log", "tanh", "gelu", "erf", "pow", "atan2"):
        text = assembly(name, "f32", 16, machine)
        # The large code model of x86-64 calls through a register.
        called = re.findall(r"\t(?:callq|bl|movabsq)\t\$?([A-Za-z_][\w.]*)", text)
        assert [symbol for symbol in called if not symbol.startswith("as.")] == []


def test_a_definition_is_given_once_with_what_it_calls():
    text = definitions([("sin", "f32", 16), ("sin", "f32", 16), ("cos", "f32", 16)])
    assert text.count("@as.sin_huge.f32.v16(<16 x float> %x)") == 2  # its definition and one call
    assert text.count("declare <16 x float> @llvm.fma.v16f32") == 1
    assert text.count("define internal <16 x float> @as.sin.f32.v16(<16 x float> %x)") == 1


def test_what_is_not_written_is_refused():
    assert supports("exp", "f64")
    assert not supports("sin_huge", "f32")
    assert not supports("exp", "f16")


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_remainders_of_any_quotient(kind: str):
    """Numbers far apart, denormal ones among them."""
    random = np.random.default_rng(17)
    x, y = (random.permutation(bit_patterns(kind, 2**15)) for _ in range(2))
    with np.errstate(all="ignore"):
        near = np.repeat(y[: 2**12], 2) * random.integers(1, 2**31, 2**13).astype(y.dtype)
    x, y = np.concatenate([x, near]), np.concatenate([y, np.repeat(y[: 2**12], 2)])
    for name in ("fmod", "remainder"):
        with np.errstate(all="ignore"):
            expected = remainders(name, x, y)
        got = compiled(name, kind, 8)(x, y)
        same = (got == expected) & (np.signbit(got) == np.signbit(expected))
        same |= np.isnan(got) & np.isnan(expected)
        assert same.all(), (x[~same][0], y[~same][0], got[~same][0], expected[~same][0])


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "log", "fmod"])
def test_what_is_rare_has_one_lane_on_gpus(name: str):
    """A call takes its registers of all threads of a kernel."""
    text = definitions([(name, "f32", 4)], on_gpu=True)
    rare = re.findall(r"call <[^>]*> @as\.\w+_(?:huge|rare)\.f32\.v(\d+)", text)
    assert rare == ["1"] * 4
