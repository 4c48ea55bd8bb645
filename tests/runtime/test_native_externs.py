"""Calls of torch's C functions from segments, against the same calls from Python."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import anyshape.backends.native.build
from anyshape.codegen.host import HostUnsupported
from anyshape.loops.program import Area, Extern, Launch
from anyshape.runtime.loader.errors import NativeFailed
from anyshape.symbolic import Size, product
from tests.runtime.native_samples import (
    ADD,
    S0,
    S1,
    S2,
    buffer,
    called,
    function,
    kernel_of,
    segment,
)


@pytest.fixture(params=["as a builtin", "with addresses"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "with addresses":
        monkeypatch.setattr(anyshape.backends.native.build, "torch_abi", lambda: None)
    return request.param


def whole(
    name: str, *sizes: Size, strides: tuple[Size, ...] | None = None, offset: Size = 0
) -> Area:
    made = buffer(name, "input", *sizes)
    return Area(name, sizes, made.strides if strides is None else strides, offset)


SHAPES = [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 0, 5), (64, 33, 17)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_mm(m: int, k: int, n: int):
    """Of a transposed part of a buffer."""
    buffers = [
        buffer("x", "input", S0, S1),
        buffer("w", "input", S2 + 1, S1),
        buffer("y", "output", S0, S2),
    ]
    weight = whole("w", S1, S2, strides=(1, S1), offset=S1)
    step = called("mm_out", whole("y", S0, S2), whole("x", S0, S1), weight)
    run = function(segment(buffers, [step], (S0, S1, S2)))
    x, w = torch.randn(m, k), torch.randn(n + 1, k)
    assert torch.equal(run(x, w, m, k, n), x @ w[1:].t())


def test_addmm_then_kernel():
    """Into a temporary, which a kernel reads."""
    buffers = [
        buffer("b", "input", S2),
        buffer("x", "input", S0, S1),
        buffer("w", "input", S1, S2),
        buffer("t", "temporary", S0, S2),
        buffer("y", "output", S0, S2),
    ]
    bias = whole("b", S0, S2, strides=(0, 1))
    shapes = whole("t", S0, S2), bias, whole("x", S0, S1), whole("w", S1, S2)
    steps = [
        called("addmm_out", *shapes, 1.0, "alpha"),
        Launch(kernel_of(ADD), ("t", "t", "y"), (S0 * S2,), ()),
    ]
    run = function(segment(buffers, steps, (S0, S1, S2), ("alpha",)))
    for m, k, n in SHAPES:
        b, x, w = torch.randn(n), torch.randn(m, k), torch.randn(k, n)
        want = torch.addmm(b, x, w, alpha=0.5) * 2
        assert torch.equal(run(b, x, w, m, k, n, 0.5), want)


def convolved(strides_of_result):
    image, filters = (S0, 3, S1, S1), (8, 3, 3, 3)
    result = (S0, 8, S1, S1)
    t = buffer("t", "temporary", *result)
    t = type(t)("t", "f32", result, strides_of_result, "temporary")
    buffers = [
        buffer("x", "input", *image),
        buffer("w", "input", *filters),
        buffer("b", "input", 8),
        t,
        buffer("y", "output", *result),
    ]
    area = Area("t", result, t.strides)
    arguments = whole("x", *image), whole("w", *filters), whole("b", 8)
    steps = [
        called("convolution", area, *arguments, (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
        Launch(kernel_of(ADD), ("t", "t", "y"), (product(result),), ()),
    ]
    return segment(buffers, steps, (S0, S1))


@pytest.mark.parametrize("n", [1, 2])
def test_convolution_is_adopted(n: int):
    run = function(convolved((8 * S1 * S1, S1 * S1, S1, 1)))
    x, w, b = torch.randn(n, 3, 6, 6), torch.randn(8, 3, 3, 3), torch.randn(8)
    assert torch.equal(run(x, w, b, n, 6), F.conv2d(x, w, b, padding=1) * 2)


def test_convolution_of_another_layout_is_copied():
    """The buffer is channels-last, torch gives a contiguous tensor: the kernel sees the former."""
    run = function(convolved((8 * S1 * S1, 1, 8 * S1, 8)))
    x, w, b = torch.randn(2, 3, 6, 6), torch.randn(8, 3, 3, 3), torch.randn(8)
    want = F.conv2d(x, w, b, padding=1) * 2
    got = run(x, w, b, 2, 6).reshape(2, 6, 6, 8).permute(0, 3, 1, 2)
    assert torch.equal(got, want)


def test_result_of_other_sizes_is_an_error():
    made = convolved((8 * S1 * S1, S1 * S1, S1, 1))
    step = made.steps[0]
    assert isinstance(step, Extern)
    arguments = list(step.arguments)
    arguments[5] = (0, 0)  # no padding: the result is smaller
    wrong = segment(
        [*made.inputs, *made.temporaries, *made.outputs],
        [called("convolution", *arguments), made.steps[1]],
        (S0, S1),
    )
    x, w, b = torch.randn(2, 3, 6, 6), torch.randn(8, 3, 3, 3), torch.randn(8)
    with pytest.raises(NativeFailed, match="convolution"):
        function(wrong)(x, w, b, 2, 6)


def test_attention_into_an_output():
    """The result is copied to the output; the second is not wanted."""
    shape = (S0, 2, S1, 8)
    names = ("q", "k", "v")
    buffers = [*(buffer(name, "input", *shape) for name in names), buffer("y", "output", *shape)]
    areas = [whole(name, *shape) for name in names]
    name = "_scaled_dot_product_flash_attention_for_cpu"
    step = called(name, whole("y", *shape), None, *areas, 0.0, True, None, 0.3)
    run = function(segment(buffers, [step], (S0, S1)))
    q, k, v = (torch.randn(3, 2, 5, 8) for _ in names)
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    torch.testing.assert_close(run(q, k, v, 3, 5), want)


def test_two_results():
    buffers = [
        buffer("x", "input", S0),
        buffer("y", "output", S0),
        buffer("i", "output", S0, dtype="i64"),
    ]
    areas = whole("y", S0), whole("i", S0), whole("x", S0)
    run = function(segment(buffers, [called("sort_stable", *areas, True, 0, False)]))
    for size in (0, 1, 100):
        x = torch.randint(10, (size,)).float()
        values, indices = run(x, size)
        want = torch.sort(x, stable=True)
        assert torch.equal(values, want.values)
        assert torch.equal(indices, want.indices)


def test_strings_and_dtypes():
    buffers = [
        buffer("x", "input", S0),
        buffer("i", "input", S0, dtype="i64"),
        buffer("y", "output", 4),
        buffer("c", "output", S0, dtype="f64"),
    ]
    y = whole("y", 4)
    steps = [
        called("cumsum", whole("c", S0), whole("x", S0), 0, "f64"),
        called("scatter_reduce_two_out", y, y, 0, whole("i", S0), whole("x", S0), "amax", False),
    ]
    run = function(segment(buffers, steps))
    x, i = torch.rand(20), torch.arange(20) % 4
    y, c = run(x, i, 20)
    assert torch.equal(c, torch.cumsum(x, 0, dtype=torch.float64))
    want = torch.zeros(4).scatter_reduce(0, i, x, "amax", include_self=False)
    assert torch.equal(y, want)


def test_failure_of_torch_is_told(capfd: pytest.CaptureFixture[str]):
    buffers = [buffer("x", "input", S0, S1), buffer("y", "output", S0, S0)]
    areas = whole("y", S0, S0), whole("x", S0, S1), whole("x", S0, S1)
    run = function(segment(buffers, [called("mm_out", *areas)], (S0, S1)))
    with pytest.raises(NativeFailed, match="mm_out failed"):
        run(torch.ones(2, 3), 2, 3)
    assert run(torch.ones(3, 3), 3, 3)[0, 0] == 3
    if not torch.__version__.startswith("2.11"):  # which prints what went wrong
        assert capfd.readouterr().err == ""


BAD = {
    "unknown": called("mm_outer", whole("x", S0)),
    "too few": called("mm_out", whole("x", S0)),
    "no area": called("mm_out", 1, 2, 3),
    "float for int": called("cummax", None, None, whole("x", S0), 1.5),
}


@pytest.mark.parametrize("step", BAD.values(), ids=BAD.keys())
def test_wrong_calls_are_refused(step):
    with pytest.raises(HostUnsupported):
        function(segment([buffer("x", "input", S0)], [step]))


def test_requires_grad_and_modes_do_not_matter():
    buffers = [buffer("x", "input", S0, S0), buffer("y", "output", S0, S0)]
    areas = whole("y", S0, S0), whole("x", S0, S0), whole("x", S0, S0)
    run = function(segment(buffers, [called("mm_out", *areas)]))
    weight = torch.nn.Parameter(torch.randn(4, 4))
    with torch.no_grad():
        assert torch.equal(run(weight, 4), weight @ weight)
    with torch.inference_mode():
        made = run(weight, 4)
        assert made.is_inference()
        assert torch.equal(made, weight @ weight)
