"""`torch.vmap` of functions of single numbers in programs, as libraries make their masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

import anyshape


def _mapped(function: Callable[..., Tensor], *, with_batch: bool = True) -> Callable[..., Tensor]:
    dims: list[tuple[int | None, ...]] = [(None, None, None, 0), (None, None, 0, None)]
    if with_batch:
        dims += [(None, 0, None, None), (0, None, None, None)]
    for each in dims:
        function = torch.vmap(function, in_dims=each, out_dims=0)
    return function


def _causal(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return column <= row


def _both(first: Callable[..., Tensor], other: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def both(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        found = row.new_ones((), dtype=torch.bool)
        for each in (first, other):
            found = found & each(batch, head, row, column).to(found.device)
        return found

    return both


def _window(size: int) -> Callable[..., Tensor]:
    return lambda batch, head, row, column: row - column < size


def _padding(given: Tensor) -> Callable[..., Tensor]:
    return lambda batch, head, row, column: given[batch, column]


def _masked(x: Tensor, function: Callable[..., Tensor], heads: int = 1) -> Tensor:
    batch, length = x.shape[0], x.shape[2]
    lines = [torch.arange(each) for each in (batch, heads, length, length)]
    with TransformGetItemToIndex():
        mask = _mapped(function)(*lines)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "causal": lambda x, seen: _masked(x, _causal),
    "a window": lambda x, seen: _masked(x, _both(_causal, _window(3))),
    "padding": lambda x, seen: _masked(x, _both(_causal, _padding(seen))),
    "of the head": lambda x, seen: _masked(x, lambda b, h, r, c: (c + h <= r + 1) | (c == r), 3),
    "of the batch": lambda x, seen: _masked(x, lambda b, h, r, c: (c <= r) | (b > 0)),
    "one level": lambda x, seen: x * torch.vmap(lambda n: n * 2 + 1)(torch.arange(x.shape[-1])),
    "two lines": lambda x, seen: (
        x * torch.vmap(lambda a, b: a - b)(torch.arange(8), torch.arange(8.0) * 3)
    ),
    "by name of func": lambda x, seen: x + torch.func.vmap(torch.sin)(torch.ones(x.shape[-1])),
    "without batch": lambda x, seen: x.masked_fill(
        ~_mapped(_causal, with_batch=False)(
            None, None, torch.arange(x.shape[2]), torch.arange(x.shape[3])
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_of_positions(name: str) -> None:
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True, fullgraph=True)
    for batch, length in ((2, 5), (3, 4), (2, 9), (1, 7)):
        x = torch.randn(batch, 3, length, 8)
        seen = torch.rand(batch, length) > 0.3
        seen[:, 0] = True
        torch.testing.assert_close(compiled(x, seen), program(x, seen))
    assert compiled.stats().captures == 1


def _of_shape(row: Tensor, column: Tensor) -> Tensor:
    return column <= row if row.dim() == 0 else column > row


OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "asks for its rank": lambda x: _square(x, _of_shape),
    "asks for its shape": lambda x: _square(x, lambda r, c: (r + c) * (1 + len(r.shape))),
    "asks later": lambda x: _square(x, lambda r, c: (r + c) * (1 + (r + c).ndim)),
    "asks for its size": lambda x: _square(x, lambda r, c: (r + c) * (1 + sum(r.size()))),
    "asks for its length": lambda x: _square(x, lambda r, c: (r + c) * (2 + (r * c).numel())),
    "rows": lambda x: torch.vmap(torch.sum)(x),
    "a product": lambda x: torch.vmap(torch.dot)(x, x * 2),
    "other axes": lambda x: torch.vmap(lambda row: row.softmax(0), in_dims=1, out_dims=1)(x),
    "a tensor of its own": lambda x: _square(x, lambda r, c: torch.arange(3)),
    "in a dictionary": lambda x: torch.vmap(lambda d: d["x"].sum(), in_dims=({"x": 0},))({"x": x}),
    "chunks": lambda x: torch.vmap(torch.sin, chunk_size=2)(x),
    "random": lambda x: torch.vmap(lambda r: r * 0 + torch.rand(()), randomness="same")(x) * 0,
}


def _square(x: Tensor, function: Callable[..., Tensor]) -> Tensor:
    line = torch.arange(x.shape[0])
    return torch.vmap(torch.vmap(function, in_dims=(None, 0)), in_dims=(0, None))(line, line)


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_as_eager(name: str) -> None:
    program = OTHERS[name]
    compiled = anyshape.compile(program, dynamic=True)
    for rows in (4, 3, 6):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(compiled(x), program(x))


def test_errors_are_torchs_own() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.vmap(lambda a, b: a + b)(torch.arange(3), torch.arange(4)) + x

    with pytest.raises(ValueError, match="mapped dimension"):
        anyshape.compile(program)(torch.ones(3))


def test_elements_that_others_take_in_the_mode() -> None:
    """They are copies there."""

    def program(x: Tensor) -> Tensor:
        with TransformGetItemToIndex():
            row = x[0]
        row.add_(1)
        return x * 2

    compiled = anyshape.compile(program, dynamic=True)
    for rows in (2, 3):
        assert torch.equal(compiled(torch.ones(rows, 2)), program(torch.ones(rows, 2)))


def test_a_capture_that_ends_in_the_mode() -> None:
    def program(x: Tensor, seen: Tensor) -> Any:
        n = x.shape[0]
        with TransformGetItemToIndex():
            print(end="")
            x.data_ptr()
            line = torch.arange(n)
            mapped = torch.vmap(torch.vmap(lambda r, c: seen[r, c], (None, 0)), (0, None))
            return mapped(line, line) & (x > 0)

    compiled = anyshape.compile(program, dynamic=True)
    for n in (3, 4, 5):
        x, seen = torch.randn(n, n), torch.rand(n, n) > 0.5
        assert torch.equal(compiled(x, seen), program(x, seen))


def test_what_is_handed_out_is_as_torchs() -> None:
    def program(x: Tensor) -> Any:
        """Documented."""
        return torch.vmap(program_inner), x + 1

    def program_inner(a: Tensor) -> Tensor:
        """Of each."""
        return a * 3

    made, _ = anyshape.compile(program)(torch.ones(2))
    assert made.__name__ == "program_inner"
    assert torch.equal(made(torch.ones(4, 2)), torch.full((4, 2), 3.0))


# -- functions with effects: they happen once, whether they can be followed or not -----------------


class _Counter:
    count = 0


_seen = 0


def _effects(kind: str) -> Callable[[Tensor], Any]:
    """A program whose mapped function has an effect, and then what cannot be followed."""
    held: list[int] = []
    counter, total, steps = _Counter(), torch.zeros(()), iter(range(100))
    outer = 0

    def effect(x: Tensor, inner: list[int], written: Tensor) -> Any:
        global _seen
        nonlocal outer
        match kind:
            case "a list from outside":
                held.append(1)
            case "an item":
                held[:0] = [1]
            case "a list":
                inner.append(1)
            case "more of a list":
                inner += [1]
            case "an attribute":
                counter.count += 1
            case "another attribute":
                setattr(counter, "count", counter.count + 1)  # noqa: B010 it is tried
            case "a global variable":
                _seen += 1
            case "a variable of a function":
                outer += 1
            case "an iterator":
                inner.append(next(steps))
            case "a step of an iterator":
                inner += [each for _, each in zip(range(1), steps, strict=False)]
            case "a tensor from outside":
                total.add_(1)
            case "a tensor":
                written.mul_(2)
            case "an argument":
                x.mul_(2)
            case "an argument, by an operator":
                x *= 2
            case _:
                raise ValueError(kind)
        return x

    def program(x: Tensor) -> Any:
        y, inner, written = x * 2, [0], torch.ones(())
        count = 0

        def mapped(n: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return effect(n, inner, written).reshape(1)

        def plain(n: Tensor) -> Tensor:
            return effect(n, inner, written) + 1

        found = [torch.vmap(each)(y) for each in (mapped, plain)]
        state = [*inner, *held, counter.count, _seen, outer, count]
        return *found, y, written.clone(), total.clone(), torch.tensor(state)

    return program


EFFECTS = (
    *("a list from outside", "an item", "a list", "more of a list", "an attribute"),
    *("another attribute", "a global variable", "a variable of a function", "an iterator"),
    *("a step of an iterator", "a tensor from outside", "a tensor", "an argument"),
    *("an argument, by an operator",),
)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", EFFECTS)
def test_effects_happen_once(kind: str, dynamic: bool | None) -> None:
    global _seen
    found: list[list[Any]] = []
    for compiles in (False, True):
        _seen, program = 0, _effects(kind)
        called = anyshape.compile(program, dynamic=dynamic) if compiles else program
        found.append([called(torch.arange(size) + 1.0) for size in (3, 4, 3, 6)])
    for expected, got in zip(*found, strict=True):
        for one, other in zip(expected, got, strict=True):
            torch.testing.assert_close(other, one)


def test_no_handler_of_a_mapped_function_sees_the_end_of_its_capture() -> None:
    def program(x: Tensor) -> tuple[Tensor, list[str]]:
        told: list[str] = []

        def mapped(n: Tensor) -> Tensor:
            try:
                return n.sum() if n > 0 else n
            except Exception as error:
                told.append(type(error).__name__)
                return n * 2
            finally:
                told.append("done")

        try:
            return torch.vmap(mapped)(x), told
        except RuntimeError as error:
            told.append(type(error).__name__)
            return x, told

    compiled = anyshape.compile(program, dynamic=True)
    for size in (3, 4, 3):
        x = torch.arange(size) + 1.0
        (found, told), (expected, wanted) = compiled(x), program(x)
        torch.testing.assert_close(found, expected)
        assert told == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_numbers_that_change(dtype: torch.dtype) -> None:
    """One graph for all floats and sizes beside positions, as for constants in their place."""

    def program(x: Tensor, by: float) -> Tensor:
        return torch.vmap(lambda n: n * by + (by * 2 - n / x.shape[0]))(x)

    compiled = anyshape.compile(program)
    for rows, by in ((4, 0.5), (3, 2.0), (6, -1.25), (5, 7.5), (1, 0.0)):
        x = torch.arange(rows).to(dtype)
        found, wanted = compiled(x, by), program(x, by)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted)
    assert compiled.stats().graphs <= 3
    assert compiled.stats().eager_calls == 0
