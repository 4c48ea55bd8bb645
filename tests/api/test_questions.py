"""Questions about the process inside compiled functions: the answer is guarded."""

# The functions below are what users write, not what we would.
# pyright: basic, reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
import os
import platform
import sys
import typing
from collections.abc import Callable
from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035 as users write it

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import is_tensor_like

import anyshape
from anyshape.capture.builtins.process_queries import is_question
from tests.api.programs import check

linear = nn.Linear(4, 4)
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def devices(x):
    if torch.cuda.is_available() and torch.cuda.device_count() > 100:
        return x.cuda()
    return x + int(torch.xpu.is_available()) + int(torch.accelerator.is_available())


@program
def distributed(x):
    return x if dist.is_available() and dist.is_initialized() else x + 1


@program
def backends(x):
    read = (
        torch.backends.cudnn.enabled,
        torch.backends.mkldnn.is_available(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.mps.is_available(),
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.openmp.is_available(),
        torch.backends.cpu.get_cpu_capability(),
    )
    return x + int(read[0]), read


@program
def settings(x):
    read = torch.get_num_threads(), torch.get_default_device(), torch.is_anomaly_enabled()
    return x + read[0], read, torch.get_float32_matmul_precision()


@program
def scripting(x):
    sizes: List[int] = torch.jit.annotate(List[int], [])  # noqa: UP006 as users write it
    sizes.append(x.shape[0])
    if torch.jit.is_scripting() or torch.onnx.is_in_onnx_export():
        return x
    return x + sizes[0]


@program
def tensor_like(x):
    return x + is_tensor_like(x) * 1 + is_tensor_like(3) * 2 + is_tensor_like([]) * 4


@program
def refined_types(x):
    read = torch.jit.isinstance(x, Tensor), torch.jit.isinstance(x, (int, float))
    return x + read[0], read, torch.jit.isinstance(x.shape[0], int)


@program
def without_a_tangent(x):
    primal, tangent = forward_ad.unpack_dual(x * 2)
    return primal if tangent is None else x


@program
def constants(x):
    if sys.version_info >= (3, 8) and sys.platform and sys.byteorder and sys.maxsize > 3:
        x = x + sys.version_info[0] + sys.version_info.major
    if platform.system() and platform.machine() and tuple(platform.python_version_tuple()):
        x = x + len(os.sep) + len(os.path.join("a", "b")) + (os.cpu_count() or 1)
    if torch.__version__ >= "1.8" and int(torch.__version__.split(".")[0]) > 1:
        x = x * 2
    return x


@program
def subscripted_types(x):
    kinds = List[int], Optional[Tensor], Dict[str, Tuple[int, ...]], list[int], int | None  # noqa: UP006, UP045
    return x + len(kinds), typing.cast("Any", 3)


@program
def identity_of_a_module(x):
    known = {id(linear): 2, id(nn): 3}
    return x * known[id(linear)] + known[id(nn)]


@program
def contexts_without_an_effect(x):
    with torch.profiler.record_function("name"), torch.autograd.profiler.record_function("n"):
        y = x.exp()
    with torch.autograd.profiler.profile(enabled=False), torch.autograd.set_detect_anomaly(False):
        y = y + 1
    with contextlib.nullcontext(3) as three, contextlib.suppress(ValueError):
        y = y * three
        raise ValueError
    return y


@program
def contexts_in_a_stack(x):
    w = torch.ones(4, requires_grad=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.profiler.record_function("name"))
        stack.enter_context(torch.autocast(x.device.type, dtype=torch.bfloat16))
        y = (x @ x.T).float()
        z = x * w
    return y, z, (x * w).requires_grad, torch.is_grad_enabled()


@program
def attention_kernels(x):
    q = x[None, None]
    with sdpa_kernel(SDPBackend.MATH):
        a = F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        b = F.scaled_dot_product_attention(q, q, q)
    return a, b, torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize("name", PROGRAMS)
def test_questions(name: str) -> None:
    check(PROGRAMS[name])


def _by_item(name: str) -> str:
    if name not in os.environ:
        return "none"
    return os.environ[name]


@pytest.mark.parametrize(
    "read",
    [
        lambda: os.environ.get("ANYSHAPE_TEST_NAME", "none"),
        lambda: os.getenv("ANYSHAPE_TEST_NAME") or "none",
        lambda: _by_item("ANYSHAPE_TEST_NAME"),
    ],
)
def test_the_environment_is_guarded(read: Callable[[], str], monkeypatch: Any) -> None:
    def f(x):
        return x * len(read()), read()

    def change(step: int) -> None:
        if step in (2, 3):
            monkeypatch.setenv("ANYSHAPE_TEST_NAME", "longer text")
        elif step == 4:
            monkeypatch.setenv("ANYSHAPE_TEST_NAME", "x")
        else:
            monkeypatch.delenv("ANYSHAPE_TEST_NAME", raising=False)

    check(f, before=change, graphs=None)


def test_answers_that_change_are_asked_again() -> None:
    def f(x):
        if torch.backends.cuda.flash_sdp_enabled():
            x = x + 1
        if torch.backends.cudnn.enabled:
            x = x + 10
        return x + 100 * torch.get_num_threads() + 7 * torch.is_anomaly_enabled()

    before = torch.get_num_threads()
    # torch's table of operator samples, which other tests load, forbids it by assignment.
    enable_cudnn = torch._C._set_cudnn_enabled

    def change(step: int) -> None:
        torch.backends.cuda.enable_flash_sdp(step % 2 == 0)
        enable_cudnn(step < 3)
        torch.set_num_threads(2 if step == 4 else before)
        torch.autograd.set_detect_anomaly(step == 5)

    try:
        check(f, before=change, graphs=None)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
        enable_cudnn(True)
        torch.set_num_threads(before)
        torch.autograd.set_detect_anomaly(False)


# Torch imports parts of its own that it has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tangent_is_seen() -> None:
    def f(x):
        found = forward_ad.unpack_dual(x)
        return x.sin() if found.tangent is None else found.tangent * 3

    compiled = anyshape.compile(f)
    for size in (3, 4, 5):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), x.sin())
        with forward_ad.dual_level():
            torch.testing.assert_close(compiled(x), f(x))
            both = forward_ad.make_dual(x, x + 1)
            assert torch.equal(compiled(both), (x + 1) * 3)


def test_identity_is_guarded() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    weights = {id(first): 2.0, id(second): 3.0}

    def f(x, module):
        return x * weights[id(module)]

    compiled = anyshape.compile(f)
    x = torch.ones(3, 4)
    for module in (first, second, first, second):
        assert torch.equal(compiled(x, module), f(x, module))
    assert compiled.stats().eager_calls == 0


def test_anomaly_detection_that_is_switched_is_no_context_without_effect() -> None:
    def f(x):
        with torch.autograd.set_detect_anomaly(True):
            return x + torch.is_anomaly_enabled()

    compiled = anyshape.compile(f)
    for size in (3, 3, 5):
        x = torch.ones(size, 4)
        assert torch.equal(compiled(x), f(x))
        assert not torch.is_anomaly_enabled()


def test_what_changes_something_is_no_question() -> None:
    assert not is_question(torch.cuda.memory.mem_get_info)
    assert not is_question(torch.set_num_threads)
    assert not is_question(torch.cuda.set_device)
    assert is_question(torch.cuda.is_available)


class OwnAutocast(torch.autocast):
    """A class of the program's own, of which nothing is known."""


@pytest.mark.parametrize(
    ("make", "whole"),
    [
        (lambda: torch.autocast("cpu", dtype=torch.bfloat16), True),
        (torch.no_grad, True),
        (torch.enable_grad, True),
        (torch.inference_mode, True),
        (lambda: torch.set_grad_enabled(False), True),
        (lambda: torch.profiler.record_function("name"), True),
        (lambda: OwnAutocast("cpu", dtype=torch.bfloat16), False),
    ],
)
def test_contexts_that_are_entered_by_name(make: Any, whole: bool) -> None:
    def by_name(x):
        manager = make()
        manager.__enter__()
        y = x @ x.T
        manager.__exit__(None, None, None)
        return y, x @ x.T

    def by_a_stack(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(make())
            y = x @ x.T
        return y, x @ x.T

    for program in (by_name, by_a_stack):
        if whole:
            check(program)
        else:
            compiled = anyshape.compile(program)
            for size in (3, 5):
                x = torch.randn(size, 4)
                for found, expected in zip(compiled(x), program(x), strict=True):
                    assert torch.equal(found, expected)
