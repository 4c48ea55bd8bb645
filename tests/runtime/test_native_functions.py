"""Segments as native functions, called in both ways: as a builtin, and with addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import anyshape.backends.native.build
from anyshape.loops.program import Launch, SizeRead
from anyshape.runtime.loader.errors import NativeFailed
from anyshape.symbolic import as_symbol, floordiv, maximum
from tests.runtime.native_samples import (
    ADD,
    FAIL,
    S0,
    S1,
    SCALE,
    THREADS,
    added,
    buffer,
    function,
    kernel_of,
    segment,
)


@pytest.fixture(params=["as a builtin", "with addresses"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "with addresses":
        monkeypatch.setattr(anyshape.backends.native.build, "torch_abi", lambda: None)
    return request.param


@pytest.mark.parametrize("size", [0, 1, 7, 100_000])
def test_adds(way: str, size: int):
    a, b = torch.randn(size), torch.randn(size)
    got = function(added())(a, b, size)
    assert torch.equal(got, a + b)
    assert (type(got), got.requires_grad, got.stride()) == (torch.Tensor, False, (1,))


def test_is_a_builtin():
    assert type(function(added())).__name__ == "builtin_function_or_method"


def test_parameters_and_views(way: str):
    base = torch.randn(10, 3)
    weight = torch.nn.Parameter(torch.randn(3))
    with torch.no_grad():
        got = function(added())(base[7], weight, 3)  # the address has the view's offset in it
        assert torch.equal(got, base[7] + weight)
    assert not got.requires_grad


def test_strides_are_the_program_s(way: str):
    buffers = [buffer("b0", "input", S0, S1), buffer("b1", "output", S0)]
    steps = [Launch(kernel_of(SCALE), ("b0", "b1"), (S0, S1), ("x",))]
    run = function(segment(buffers, steps, (S0, S1), ("x",)))
    base = torch.randn(5, 4)
    assert torch.equal(run(base[:, 2], 5, 4, 0.5), base[:, 2] * 0.5)
    assert torch.equal(run(base[:, 2], 5, 4, 2), base[:, 2] * 2)


def test_outputs_without_count_are_none(way: str):
    assert function(segment([buffer("b0", "input", S0)], []))(torch.ones(3), 3) is None


def test_several_outputs(way: str):
    outputs = [
        buffer("b1", "output", S0, S1 + 1, dtype="i64"),
        buffer("b2", "output", dtype="b1"),
        buffer("b3", "output", floordiv(S0, 2), dtype="bf16"),
    ]
    run = function(segment([buffer("b0", "input", S0), *outputs], [], (S0, S1)))
    got = run(torch.ones(5), 5, 0)
    assert isinstance(got, tuple)
    assert [tuple(t.shape) for t in got] == [(5, 1), (), (2,)]
    assert [t.dtype for t in got] == [torch.int64, torch.bool, torch.bfloat16]


def test_temporaries_lie_apart_and_are_aligned(way: str):
    """((a + b) + b) + (a + b): two temporaries are alive at once."""
    add = kernel_of(ADD)
    buffers = [
        buffer("a", "input", S0),
        buffer("b", "input", S0),
        buffer("t0", "temporary", S0),
        buffer("t1", "temporary", S0),
        buffer("t2", "temporary", S0),
        buffer("out", "output", S0),
    ]
    steps = [
        Launch(add, ("a", "b", "t0"), (S0,), ()),
        Launch(add, ("t0", "b", "t1"), (S0,), ()),
        Launch(add, ("t1", "t0", "t2"), (S0,), ()),
        Launch(add, ("t2", "a", "out"), (S0,), ()),
    ]
    run = function(segment(buffers, steps))
    for size in (0, 1, 13, 70_001):
        a, b = torch.randn(size), torch.randn(size)
        assert torch.equal(run(a, b, size), (a + b + b) + (a + b) + a)


def test_small_known_workspace_is_on_the_stack(way: str):
    add = kernel_of(ADD)
    buffers = [buffer("a", "input", 9), buffer("t", "temporary", 9), buffer("out", "output", 9)]
    steps = [Launch(add, ("a", "a", "t"), (9,), ()), Launch(add, ("t", "a", "out"), (9,), ())]
    run = function(segment(buffers, steps, ()))
    a = torch.randn(9)
    assert torch.equal(run(a), a + a + a)


def test_threads_have_memory_of_their_own(way: str):
    steps = [Launch(kernel_of(THREADS), ("b0",), (S0,), ())]
    run = function(segment([buffer("b0", "output", S0, dtype="i64")], steps), scratch=128)
    threads = torch.get_num_threads()
    assert run(threads).tolist() == list(range(1, threads + 1))


def test_checks_become_errors(way: str):
    kernel = kernel_of(FAIL, "the first is wrong", "the second is wrong")
    run = function(segment([buffer("b0", "output", 1)], [Launch(kernel, ("b0",), (S0,), ())]))
    run(0)
    for code, words in [(1, "the first"), (2, "the second")]:
        with pytest.raises(NativeFailed, match=words):
            run(code)
    run(0)


class Subclass(torch.Tensor):
    pass


WRONG: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    ("too few", (torch.ones(2), torch.ones(2)), NativeFailed),
    ("too many", (torch.ones(2), torch.ones(2), 2, 2), NativeFailed),
    ("no tensor", (torch.ones(2), 3, 2), NativeFailed),
    ("None", (torch.ones(2), None, 2), NativeFailed),
    ("a subclass", (torch.ones(2), torch.ones(2).as_subclass(Subclass), 2), NativeFailed),
    ("a class", (torch.Tensor, torch.ones(2), 2), NativeFailed),
    ("float for int", (torch.ones(2), torch.ones(2), 2.0), TypeError),
    ("text for int", (torch.ones(2), torch.ones(2), "2"), TypeError),
]


@pytest.mark.parametrize(("arguments", "error"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_arguments(way: str, arguments: tuple[Any, ...], error: type[Exception]):
    with pytest.raises(error):
        function(added())(*arguments)


def test_int_beyond_64_bits():
    with pytest.raises(OverflowError):
        function(added())(torch.ones(2), torch.ones(2), 2**63)


def test_minus_one_is_a_number():
    buffers = [buffer("b0", "output", maximum(S0, 1))]
    steps = [Launch(kernel_of(FAIL), ("b0",), (0,), ("x",))]
    run = function(segment(buffers, steps, (S0,), ("x",)))
    assert run(-1, -1.0).shape == (1,)


def test_text_for_a_float(way: str):
    run = function(segment([buffer("b0", "output", 1)], [], (), ("x",)))
    with pytest.raises(TypeError):
        run("1")


def test_negative_size_and_overflow_are_errors():
    run = function(added())
    with pytest.raises(NativeFailed, match=r"negative|cannot make"):
        run(torch.ones(1), torch.ones(1), -3)
    square = function(segment([buffer("b0", "output", S0, S0)], []))
    with pytest.raises(NativeFailed, match="beyond 64 bits"):
        square(2**40)


def test_undefined_size_is_an_error(way: str):
    buffers = [buffer("t", "temporary", floordiv(S0, S1)), buffer("b0", "output", 1)]
    steps = [Launch(kernel_of(FAIL), ("t",), (0,), ())]
    run = function(segment(buffers, steps, (S0, S1)))
    assert run(4, 2).shape == (1,)
    with pytest.raises(NativeFailed, match="undefined"):
        run(4, 0)


def test_too_much_memory_is_an_error(way: str):
    buffers = [buffer("t", "temporary", S0), buffer("b0", "output", 1)]
    run = function(segment(buffers, [Launch(kernel_of(FAIL), ("t",), (0,), ())]))
    with pytest.raises(NativeFailed, match="no memory"):
        run(2**50)


def test_inference_mode_makes_inference_tensors(way: str):
    run = function(added())
    with torch.inference_mode():
        assert run(torch.ones(2), torch.ones(2), 2).is_inference()
    made = run(torch.ones(2), torch.ones(2), 2)
    assert not made.is_inference()
    made.requires_grad_().sum().backward()


def test_function_keeps_its_code():
    """The function is all that is left of what it was made of."""
    run: Callable[..., Any] = function(added())
    for _ in range(3):
        function(added())  # others come and go
    a = torch.randn(4)
    assert torch.equal(run(a, a, 4), a + a)


@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_sizes_are_read_from_the_tensors(way: str, size: int):
    # `s1` is given, `s0` is the second dimension of the first tensor.
    buffers = [buffer("b0", "input", S1, S0), buffer("b1", "input", S0), buffer("b2", "output", S0)]
    steps = [Launch(kernel_of(ADD), ("b0", "b1", "b2"), (S0,), ())]
    made = segment(buffers, steps, (S0, S1))
    run = function(replace(made, read=(SizeRead(as_symbol(S0), 0, 1),)))
    a, b = torch.randn(3, size), torch.randn(size)
    assert torch.equal(run(a, b, 3), a[0] + b)
    with pytest.raises(NativeFailed, match="takes 3 arguments"):
        run(a, b, size, 3)
