"""What cannot be compiled, or not as hoped: plain behaviour or a clear error of ours, no hang."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import math
import operator
import sys
import threading
import traceback
import types
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import anyshape
from tests.api.twins import different, outcome

SHARED = {"scale": 1.0}


def same_as_eager(function: Callable[..., Any], *calls: tuple[Any, ...], **settings: Any) -> Any:
    """Compare the call of the compiled function with eager's, for each tuple of arguments."""
    compiled = anyshape.compile(function, **settings)
    for number, args in enumerate(calls):
        twin = tuple(a.clone() if isinstance(a, Tensor) else a for a in args)
        problem = different(outcome(function, args), outcome(compiled, twin))
        assert not problem, f"call {number}: {problem}"
    return compiled


def sourceless(text: str) -> Any:
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    return names["f"]


# -- what has no source ----------------------------------------------------------------------------


def test_function_without_source() -> None:
    f = sourceless("def f(x, k=2):\n    return x * k + x.shape[0]")
    same_as_eager(f, (torch.ones(3),), (torch.ones(5), 4), (torch.ones(0),), dynamic=True)


def test_lambda_without_source() -> None:
    same_as_eager(eval("lambda x: x * 2"), (torch.ones(3),), (torch.ones(5),))


def test_callee_without_source_reads_global() -> None:
    f = sourceless("k = 2\ndef f(x):\n    return x * k")
    g = lambda x: f(x) + 1  # noqa: E731
    compiled = anyshape.compile(g)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    f.__globals__["k"] = 5
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))


@pytest.mark.parametrize("function", [math.sqrt, len, operator.neg, torch.sin, abs, Tensor.sum])
def test_builtin(function: Callable[..., Any]) -> None:
    arguments = (4.0,) if function is math.sqrt else (torch.rand(4),)
    same_as_eager(function, arguments, arguments)


def test_source_that_changed_on_disk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loaded code counts, not what the file says now."""
    path = tmp_path / "changing_module.py"
    path.write_text("def f(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("changing_module")
    path.write_text("def f(x):\n    return x * 3\n")
    same_as_eager(module.f, (torch.ones(3),), (torch.ones(4),))
    sys.modules.pop("changing_module")


# -- what works on no tensors, or yields -----------------------------------------------------------


def test_no_tensors() -> None:
    def f(a: int, b: str = "x") -> tuple[int, str]:
        return a * 2, b * a

    same_as_eager(f, (1,), (2, "y"), (0, ""), (-3,), (10**30,))


def test_no_arguments() -> None:
    same_as_eager(lambda: torch.ones(3) * 2, (), ())


def test_returns_nothing() -> None:
    same_as_eager(lambda x: None, (torch.ones(1),), (torch.ones(2),))


def test_generator_function() -> None:
    def f(x: Tensor) -> Iterator[Tensor]:
        for k in range(3):
            yield x * k

    compiled = anyshape.compile(f)
    for size in (3, 5, 0):
        made: Any = compiled(torch.ones(size))
        assert inspect.isgenerator(made)
        assert [row.tolist() for row in list[Any](made)] == [[float(k)] * size for k in range(3)]


def test_generator_function_is_lazy() -> None:
    log: list[int] = []

    def f(x: Tensor) -> Iterator[Tensor]:
        log.append(1)
        yield x

    made = anyshape.compile(f)(torch.ones(1))
    assert log == []
    next(made)
    assert log == [1]


def test_async_function() -> None:
    async def f(x: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return x * 2

    compiled = anyshape.compile(f)
    for size in (3, 5):
        assert torch.equal(asyncio.run(compiled(torch.ones(size))), torch.full((size,), 2.0))


def test_async_generator() -> None:
    async def f(x: Tensor) -> AsyncIterator[Tensor]:
        yield x
        yield x + 1

    async def collect() -> list[Tensor]:
        return [value async for value in anyshape.compile(f)(torch.ones(2))]

    assert len(asyncio.run(collect())) == 2


# -- what is no function ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, "f", [len], {}, 2.5, torch.ones(1)])
def test_not_callable(value: Any) -> None:
    with pytest.raises(anyshape.AnyshapeError) as caught:
        anyshape.compile(value)
    assert str(value)[:10] in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"backend": "nope"}, {"dynamic": "yes"}, {"backend": 3}, {"dynamic": 2}]
)
def test_bad_option(settings: dict[str, Any]) -> None:
    with pytest.raises(anyshape.AnyshapeError) as caught:
        anyshape.compile(lambda x: x, **settings)
    assert str(next(iter(settings.values()))) in str(caught.value)


@pytest.mark.parametrize("dim", [2, -3, (0, 5)])
def test_mark_of_a_missing_dim(dim: Any) -> None:
    with pytest.raises(anyshape.AnyshapeError):
        anyshape.mark_dynamic(torch.ones(2, 3), dim)


def test_mark_of_no_tensor() -> None:
    with pytest.raises(anyshape.AnyshapeError):
        anyshape.mark_dynamic([1, 2], 0)  # pyright: ignore[reportArgumentType] because that is the case


def test_mark_that_the_program_fixes() -> None:
    def f(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 4 else x

    x = torch.ones(4)
    anyshape.mark_dynamic(x, 0)
    with pytest.raises(anyshape.AnyshapeError) as caught:
        anyshape.compile(f)(x)
    assert "test_bad_input.py" in str(caught.value)


@pytest.mark.parametrize("given", [torch.nn.Linear, torch.nn.Sequential])
def test_a_class_of_modules(given: type[torch.nn.Module]) -> None:
    with pytest.raises(
        TypeError, match=rf"compile an instance: anyshape.compile\({given.__name__}"
    ):
        anyshape.compile(given)


def test_a_decorator_below_the_wrong_one() -> None:
    with pytest.raises(TypeError, match="put @classmethod and @property above"):
        anyshape.compile(classmethod(lambda cls: cls))  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType] as it must


def test_shapes_of_a_static_function() -> None:
    with pytest.raises(ValueError, match="shapes= says which sizes change"):
        anyshape.compile(takes_two, shapes={"x": "n"}, dynamic=False)


def test_a_class_as_a_function() -> None:
    class Point:
        def __init__(self, x: Tensor) -> None:
            self.x = x * 2

    compiled = anyshape.compile(Point)
    for size in (2, 3):
        assert torch.equal(compiled(torch.ones(size)).x, torch.full((size,), 2.0))


# -- arguments -------------------------------------------------------------------------------------


def takes_two(x: Tensor, k: int = 1, *, name: str = "a") -> Tensor:
    return x * k + len(name)


X = torch.ones(2)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((X, 1, 2), {}),
        ((X,), {"z": 1}),
        ((X,), {"x": X}),
        ((), {"k": 2}),
        ((X, 1), {"k": 2}),
        ((X, 1, "a"), {"name": "b"}),
    ],
)
def test_wrong_arguments_raise_as_python_does(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    compiled = anyshape.compile(takes_two)
    compiled(X)
    with pytest.raises(TypeError) as expected:
        takes_two(*args, **kwargs)
    with pytest.raises(TypeError) as found:
        compiled(*args, **kwargs)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("kwargs", [{}, {"k": 3}, {"name": "long"}, {"name": "", "k": 0}])
def test_keywords(kwargs: dict[str, Any]) -> None:
    compiled = anyshape.compile(takes_two)
    for _ in range(2):
        assert torch.equal(compiled(X, **kwargs), takes_two(X, **kwargs))
        assert torch.equal(compiled(x=X, **kwargs), takes_two(x=X, **kwargs))


def test_names_that_look_like_ours() -> None:
    """No name of a parameter is taken by the machinery."""

    def f(self: Tensor, args: int, kwargs: int, function: int, L: int, G: int) -> Tensor:
        return self * args + kwargs - function * L + G

    same_as_eager(f, (X, 1, 2, 3, 4, 5), (X, 5, 4, 3, 2, 1))


def test_dynamic_rank() -> None:
    def f(x: Tensor) -> Tensor:
        return x.sum(-1) * x.dim() if x.dim() else x

    calls = [(torch.rand(shape),) for shape in [(3,), (2, 3), (2, 3, 4), (1,), (), (5, 5), (0, 2)]]
    for dynamic in (None, True, False):
        same_as_eager(f, *calls, dynamic=dynamic)


def test_other_type_for_a_tensor() -> None:
    def f(x: Any) -> Any:
        return x * 2

    same_as_eager(f, (X,), (3,), (2.5,), ("ab",), ([1],), (X.double(),), (None,), (True,), (X,))


def test_subclass_of_tensor() -> None:
    class Mine(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            made: Any = super().__torch_function__(func, kinds, args, kwargs or {})
            return made + 1 if func is Tensor.mul else made

    compiled = anyshape.compile(lambda x: x * 2)
    for x in (X, X.as_subclass(Mine), X, nn.Parameter(X), X.as_subclass(Mine)):
        expected = x * 2
        found = compiled(x)
        assert type(found) is type(expected)
        assert torch.equal(found.as_subclass(Tensor), expected.as_subclass(Tensor))


def test_other_layouts() -> None:
    def f(x: Tensor) -> Any:
        return x + x, x.device.type, x.layout

    compiled = anyshape.compile(f)
    for x in (X, X.to_sparse(), X):
        found, expected = compiled(x), f(x)
        assert found[1:] == expected[1:]
        assert found[0].shape == expected[0].shape


# -- errors of the user ----------------------------------------------------------------------------


def wrong_product(x: Tensor, w: Tensor) -> Tensor:
    y = x + 1
    return helper(y, w)


def helper(y: Tensor, w: Tensor) -> Tensor:
    z = y * 2
    return z @ w


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_shape_error_is_unchanged(dynamic: bool | None) -> None:
    """At the first call, after a right one, and again: type, message and the user's lines."""
    compiled = anyshape.compile(wrong_product, dynamic=dynamic)
    good, bad = (torch.ones(2, 3), torch.ones(3, 4)), (torch.ones(2, 3), torch.ones(5, 4))
    for args in (bad, good, bad, good, (torch.ones(4, 5), torch.ones(3, 4)), good):
        problem = different(outcome(wrong_product, args), outcome(compiled, args))
        assert not problem


def test_no_frames_of_ours_at_the_end() -> None:
    """Whoever reads the traceback from its end sees his own line first."""
    compiled = anyshape.compile(wrong_product)
    with pytest.raises(RuntimeError) as caught:
        compiled(torch.ones(2, 3), torch.ones(5, 4))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.name, last.line) == (__file__, "helper", "return z @ w")


def test_missing_attribute_of_a_module() -> None:
    class Broken(nn.Module):
        missing: Any

        def forward(self, x: Tensor) -> Tensor:
            return x + self.missing

    module = Broken()
    compiled = anyshape.compile(module)
    for _ in range(2):
        problem = different(outcome(module, (X,)), outcome(compiled, (X,)))
        assert not problem
    module.missing = 3
    assert torch.equal(compiled(X), X + 3)
    del module.missing
    with pytest.raises(AttributeError, match="missing"):
        compiled(X)


def test_missing_global() -> None:
    def f(x: Tensor) -> Tensor:
        return x * SHARED_LATER  # noqa: F821  # pyright: ignore[reportUndefinedVariable] because that is the case

    compiled = anyshape.compile(f)
    with pytest.raises(NameError, match="SHARED_LATER"):
        compiled(X)
    globals()["SHARED_LATER"] = 4
    try:
        assert torch.equal(compiled(X), X * 4)
        globals()["SHARED_LATER"] = 5
        assert torch.equal(compiled(X), X * 5)
    finally:
        del globals()["SHARED_LATER"]
    with pytest.raises(NameError, match="SHARED_LATER"):
        compiled(X)


def test_builtin_hidden_by_a_global() -> None:
    def f(x: Tensor) -> Tensor:
        return x * len(x.shape) * max(2, 3)

    compiled = anyshape.compile(f)
    assert torch.equal(compiled(X), X * 3)
    globals()["max"] = min
    try:
        assert torch.equal(compiled(X), X * 2)
    finally:
        del globals()["max"]
    assert torch.equal(compiled(X), X * 3)


def test_builtin_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = anyshape.compile(lambda x: x * abs(-3))
    assert torch.equal(compiled(X), X * 3)
    monkeypatch.setattr(builtins, "abs", lambda k: 7)
    assert torch.equal(compiled(X), X * 7)


def test_module_function_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = anyshape.compile(
        lambda x: helper(x, X[:, None]) if x.dim() > 1 else math.sqrt(4) * x
    )
    assert torch.equal(compiled(X), X * 2)
    monkeypatch.setattr(math, "sqrt", lambda k: 9.0)
    assert torch.equal(compiled(X), X * 9)


def test_infinite_recursion() -> None:
    def f(x: Tensor) -> Tensor:
        return f(x + 1)

    with pytest.raises(RecursionError):
        anyshape.compile(f)(X)


def test_deep_recursion() -> None:
    def down(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else down(x, n - 1) + 1

    same_as_eager(down, (X, 150), (X, 150), (torch.ones(3), 20))


def test_recursion_through_the_compiled_function() -> None:
    @anyshape.compile(dynamic=True)
    def down(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else down(x, n - 1) + 1

    for n in (3, 5, 0, 3):
        assert torch.equal(down(X, n), X + n)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, StopIteration, GeneratorExit])
def test_exceptions_that_are_no_errors(error: type[BaseException]) -> None:
    def f(x: Tensor, stop: bool) -> Tensor:
        if stop:
            raise error
        return x + 1

    compiled = anyshape.compile(f)
    with pytest.raises(error):
        compiled(X, True)
    assert torch.equal(compiled(X, False), X + 1)
    with pytest.raises(error):
        compiled(X, True)


def test_own_exception_keeps_its_identity() -> None:
    class Mine(Exception):
        pass

    kept = Mine("once")

    def f(x: Tensor) -> Tensor:
        if x.shape[0] == 2:
            raise kept
        return x

    compiled = anyshape.compile(f, dynamic=True)
    for _ in range(2):
        with pytest.raises(Mine) as caught:
            compiled(X)
        assert caught.value is kept
    assert compiled(torch.ones(3)).shape == (3,)


# -- threads ---------------------------------------------------------------------------------------


def test_global_changed_by_a_thread() -> None:
    """Each call sees one of the values that the global had, never a mixture or an old one."""

    def f(x: Tensor) -> Tensor:
        return x * SHARED["scale"] - x * SHARED["scale"] + SHARED["scale"]

    compiled = anyshape.compile(f)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            SHARED["scale"] = 3.0 - SHARED["scale"]

    SHARED["scale"] = 1.0
    thread = threading.Thread(target=change)
    thread.start()
    try:
        seen = {compiled(X).tolist()[0] for _ in range(200)}
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert seen <= {1.0, 2.0, 0.0, 3.0}
    for value in (5.0, 7.0):
        SHARED["scale"] = value
        assert compiled(X).tolist() == [value, value]
    SHARED["scale"] = 1.0


def test_many_threads_at_once() -> None:
    def f(x: Tensor, k: int) -> Tensor:
        return (x * k).cumsum(0) + x.shape[0]

    compiled = anyshape.compile(f)
    start = threading.Barrier(4, timeout=20)

    def work(seed: int) -> bool:
        start.wait()
        for step in range(25):
            x, k = torch.full(((seed + step) % 5,), float(seed)), step % 3
            if not torch.equal(compiled(x, k), f(x, k)):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4), timeout=60))


def test_threads_and_a_module_with_state() -> None:
    """Gradient mode and hooks of one thread are not seen in another."""
    net = nn.Linear(3, 3)
    compiled = anyshape.compile(net)
    start = threading.Barrier(2, timeout=20)

    def work(grad: bool) -> bool:
        start.wait()
        with torch.set_grad_enabled(grad):
            return all(compiled(torch.ones(2, 3)).requires_grad is grad for _ in range(20))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, (True, False), timeout=60))


def test_call_from_inside_a_hook() -> None:
    inner = anyshape.compile(lambda x: x * 2)
    net = nn.Linear(3, 3)
    net.register_forward_hook(lambda module, args, result: inner(result))
    compiled = anyshape.compile(net)
    for size in (2, 3):
        x = torch.ones(size, 3)
        assert torch.allclose(compiled(x), net(x))


# -- limits ----------------------------------------------------------------------------------------


def test_recompile_limit() -> None:
    def f(x: Tensor, name: str) -> Tensor:
        return x + len(name)

    with anyshape.config.patch(recompile_limit=3):
        compiled = anyshape.compile(f)
        for k in range(3):
            compiled(X, "a" * k)
        with pytest.warns(Warning, match="name"):
            assert torch.equal(compiled(X, "a" * 9), X + 9)
        assert torch.equal(compiled(X, "a" * 10), X + 10)
        assert torch.equal(compiled(X, "a"), X + 1)
    assert len(compiled.entries) == 3
    assert compiled.stats().eager_calls == 2


def test_static_has_no_limit_below_1000() -> None:
    compiled = anyshape.compile(lambda x: x + 1, dynamic=False, backend="eager")
    for size in range(66):
        compiled(torch.ones(size))
    assert compiled.stats().graphs == 66 > anyshape.config.recompile_limit
    assert compiled.stats().eager_calls == 0


def test_a_limit_that_was_set_holds_for_static_functions_too() -> None:
    with anyshape.config.patch(recompile_limit=3):
        compiled = anyshape.compile(lambda x: x + 1, dynamic=False, backend="eager")
        for size in range(3):
            compiled(torch.ones(size))
        with pytest.warns(Warning, match="dynamic=False.*leave it out, or raise config"):
            compiled(torch.ones(3))
        compiled(torch.ones(4))
    assert (compiled.stats().graphs, compiled.stats().eager_calls) == (3, 2)


def in_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(numpy.sort(x.numpy()))


def in_numpy_and_a_list(x: Tensor, seen: list[int] = []) -> Tensor:  # noqa: B006 it grows
    seen.append(1)
    return in_numpy(x)


class InNumpy(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return in_numpy(x)


@pytest.mark.parametrize("made", [in_numpy, in_numpy_and_a_list, InNumpy()])
def test_every_call_that_runs_as_plain_python_is_counted(made: Callable[..., Tensor]) -> None:
    compiled: Any = anyshape.compile(made, name=f"counted_{made}")
    for _ in range(20):
        compiled(X)
    found = compiled.stats()
    assert (found.eager_calls, found.hits) == (20, 0)
    assert anyshape.metrics().functions[f"counted_{made}"].eager_calls == 20


def test_calls_with_compiled_parts_are_not_eager() -> None:
    @anyshape.compile
    def split(x: Tensor) -> Tensor:
        y = x.relu() + x.cos() * x.sin()
        limit = float(numpy.percentile(y.cpu().numpy(), 90))
        return (y.clamp(max=limit) * y).relu() + y.cos()

    for _ in range(20):
        split(X)
    found = split.stats()
    assert found.graphs
    assert found.eager_calls <= 3


def test_sizes_beyond_32_bits() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return x + n // 3 + (n * n) % 7

    same_as_eager(f, (X, 3), (X, 2**40), (X, -(2**40)), (X, 2**62), (X, 2**70), dynamic=True)


def test_fullgraph_names_the_line() -> None:
    def f(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(anyshape.AnyshapeError) as caught:
        anyshape.compile(f, fullgraph=True)(X)
    assert "test_bad_input.py" in str(caught.value)


def test_backend_that_fails() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        raise ValueError("backend broke")

    compiled = anyshape.compile(lambda x: x * 2, backend=backend)
    with (
        anyshape.config.patch(on_compile_error="warn"),
        pytest.warns(Warning, match="backend broke"),
    ):
        assert torch.equal(compiled(X), X * 2)
    with anyshape.config.patch(on_compile_error="raise"):
        other = anyshape.compile(lambda x: x * 3, backend=backend)
        with pytest.raises(Exception, match="backend broke"):
            other(X)


def test_nothing_leaks_into_modules() -> None:
    """Compiling leaves user modules and functions as they were."""

    def f(x: Tensor) -> Tensor:
        return helper(x, x)

    code, names = helper.__code__, set(globals())
    compiled = anyshape.compile(f)
    compiled(torch.ones(2, 2))
    assert helper.__code__ is code
    assert f.__code__.co_name == "f"
    assert set(globals()) == names
    assert isinstance(helper, types.FunctionType)
