"""Floats of eight bits: bit by bit what eager code has, and nothing that it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
import torch
import torch.nn.functional as F

import anyshape
from tests import devices

FLOAT8: Final = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
)
INTEGERS: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SIZES: Final = (0, 1, 3, 17, 1000)

each_dtype = pytest.mark.parametrize("dtype", FLOAT8, ids=lambda d: str(d).removeprefix("torch."))


def codes(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def every(dtype: torch.dtype) -> torch.Tensor:
    """All numbers of a dtype of two bytes."""
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)


def around(dtype: torch.dtype) -> torch.Tensor:
    """Numbers of f32 where it is decided which code they get: the codes themselves, the middle
    between two of them, the numbers next to these, and what is too large."""
    found = codes(dtype).float()
    numbers = found[found.isfinite()].double().sort().values
    largest = numbers[-1:]
    beyond = largest * torch.tensor([1 + 2**-5, 1 + 2**-4, 1 + 2**-3, 1.25, 2.0, 1e20])
    middles = (numbers[1:] + numbers[:-1]) / 2
    special = torch.tensor([float("inf"), float("nan"), 0.0, 1e-45, 1e-40])
    ties = torch.cat([numbers, middles, beyond, -beyond]).float()
    near = [ties.nextafter(torch.tensor(to)) for to in (float("inf"), -float("inf"))]
    return torch.cat([ties, *near, special, -special])


def random_bits(count: int) -> torch.Tensor:
    """Of f32: all exponents, NaN and numbers that are not normal among them."""
    generator = devices.generator(8)
    bits = torch.randint(-(2**31), 2**31, (count,), generator=generator, dtype=torch.int64)
    return bits.to(torch.int32).view(torch.float32)


def random_in_range(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Exponents that the dtype has, one less and one more; every other one is halfway."""
    low, high = torch.finfo(dtype).smallest_normal / 64, torch.finfo(dtype).max * 2
    generator = devices.generator(9)
    exponents = torch.empty(count).uniform_(
        torch.tensor(low).log2().item(), torch.tensor(high).log2().item(), generator=generator
    )
    found = exponents.exp2() * (1 - 2 * torch.randint(0, 2, (count,), generator=generator))
    halfway = found.view(torch.int32) & -(2**19)
    found[::2] = halfway.view(torch.float32)[::2]
    return found


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize])


def require_same(ours: torch.Tensor, theirs: torch.Tensor, *, which_nan: bool = True) -> None:
    """Bit by bit; `which_nan`: also where they are NaN. GPUs know one NaN."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if ours.numel():
        assert _steps(ours) == _steps(theirs)
    differs = bits(ours) != bits(theirs)
    if not which_nan or ours.is_cuda:
        differs &= ~(ours.float().isnan() & theirs.float().isnan())
    assert not differs.any(), f"{ours[differs][:5]} instead of {theirs[differs][:5]}"


def _steps(x: torch.Tensor) -> list[int]:
    return [step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def native(f: Callable[..., Any]) -> Any:
    """Compiled, with a check that torch is called for nothing."""
    compiled = anyshape.compile(f, dynamic=True)

    def call(*args: Any) -> Any:
        found = compiled(*args)
        said = str(compiled.explain())
        assert "torch is called for" not in said, said
        assert re.search(r"native code: [1-9]", said), said
        return found

    return call


# -- casts -----------------------------------------------------------------------------------------


@each_dtype
def test_every_code_means_what_it_means_in_eager_code(dtype: torch.dtype) -> None:
    cast = native(lambda x: x.float())
    require_same(cast(codes(dtype)), codes(dtype).float())
    # Fewer than a vector, and beside each other in other ways.
    for part in (codes(dtype)[3:4], codes(dtype)[120:137], codes(dtype)[::7]):
        require_same(cast(part), part.float())


@each_dtype
@pytest.mark.parametrize("to", [torch.float64, torch.float16, torch.bfloat16, *FLOAT8])
def test_codes_as_other_floats(dtype: torch.dtype, to: torch.dtype) -> None:
    if dtype == to:
        return
    cast = native(lambda x: x.to(to))
    require_same(cast(codes(dtype)), codes(dtype).to(to), which_nan=to in FLOAT8)


@each_dtype
@pytest.mark.parametrize("to", [*INTEGERS, torch.bool])
def test_codes_as_integers(dtype: torch.dtype, to: torch.dtype) -> None:
    cast = native(lambda x: x.to(to))
    found = codes(dtype)
    if to is not torch.bool:  # of others, processors have what they have
        limit = 2 ** (8 * to.itemsize - 1)
        numbers = found.float()
        on_cpu = torch.get_default_device().type == "cpu"
        found = found[(numbers.abs() < limit) | (numbers.isnan() & on_cpu)]
    if to is torch.uint8:
        found = found[~(found.float() < 0)]
    require_same(cast(found), found.to(to))


@each_dtype
@pytest.mark.parametrize("of", [torch.float16, torch.bfloat16])
def test_every_number_of_two_bytes(dtype: torch.dtype, of: torch.dtype) -> None:
    cast = native(lambda x: x.to(dtype))
    require_same(cast(every(of)), every(of).to(dtype))


@each_dtype
def test_numbers_of_four_bytes(dtype: torch.dtype) -> None:
    cast = native(lambda x: x.to(dtype))
    for numbers in (around(dtype), random_bits(2**21), random_in_range(dtype, 2**21)):
        require_same(cast(numbers), numbers.to(dtype))
        require_same(cast(numbers[1:8]), numbers[1:8].to(dtype))


@each_dtype
def test_numbers_of_eight_bytes_are_rounded_twice(dtype: torch.dtype) -> None:
    cast = native(lambda x: x.to(dtype))
    exact = around(dtype).double()
    for numbers in (exact, exact * (1 + 2**-40), exact * (1 - 2**-40), exact * 1e30):
        require_same(cast(numbers), numbers.to(dtype))


@each_dtype
@pytest.mark.parametrize("of", [*INTEGERS, torch.bool])
def test_integers(dtype: torch.dtype, of: torch.dtype) -> None:
    cast = native(lambda x: x.to(dtype))
    numbers = torch.arange(-70_000, 70_000)
    if of is torch.int64:
        numbers = torch.cat([numbers, numbers << 40, numbers + 2**62])
    require_same(cast(numbers.to(of)), numbers.to(of).to(dtype))


@each_dtype
def test_numbers_that_are_flushed_make_no_difference(dtype: torch.dtype) -> None:
    if torch.get_default_device().type != "cpu" or not torch.set_flush_denormal(True):
        pytest.skip("nothing is flushed here")
    try:
        encode, decode = native(lambda x: x.to(dtype)), native(lambda x: x.float())
        require_same(encode(around(dtype)), around(dtype).to(dtype))
        require_same(decode(codes(dtype)), codes(dtype).float(), which_nan=False)
    finally:
        torch.set_flush_denormal(False)


# -- programs --------------------------------------------------------------------------------------


def quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row by row, by the largest element."""
    scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448.0
    return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def again(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x.float() * scale).to(torch.bfloat16)


def there_and_back(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x / scale).to(torch.float8_e5m2).float() * scale + 1.0


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.to(torch.float8_e5m2), y], 1).t().contiguous().float().t()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantization_row_by_row(size: int, dtype: torch.dtype) -> None:
    x = (torch.randn(size, 33) * 30).to(dtype)
    compiled = native if size else partial(anyshape.compile, dynamic=True)
    ours, theirs = compiled(quantized)(x), quantized(x)
    for mine, other in zip(ours, theirs, strict=True):
        require_same(mine, other)
    require_same(compiled(again)(*ours), again(*theirs))


@pytest.mark.parametrize("size", SIZES)
def test_programs_with_casts_inside(size: int) -> None:
    x, scale = torch.randn(size) * 100, torch.tensor(0.37)
    compiled = native if size else partial(anyshape.compile, dynamic=True)
    require_same(compiled(there_and_back)(x, scale), there_and_back(x, scale))
    y = torch.randn(3, size).to(torch.float8_e5m2)
    rows = torch.randn(3, size + 2)
    require_same(anyshape.compile(joined, dynamic=True)(rows, y), joined(rows, y))


def test_one_graph_serves_all_sizes() -> None:
    compiled = anyshape.compile(quantized, dynamic=True)
    for size in reversed(SIZES):
        x = torch.randn(size, 9)
        require_same(compiled(x)[0], quantized(x)[0])
    assert compiled.stats().graphs == 1


# -- what only moves elements ----------------------------------------------------------------------

INDEX: Final = torch.tensor([2, 0, 1])
MASK: Final = torch.tensor([True, False, True])

#: of a tensor of 3 rows
MOVES: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "clone": lambda x: x.clone(),
    "permuted": lambda x: x.permute(1, 0).clone(memory_format=torch.contiguous_format),
    "cat": lambda x: torch.cat([x, x[1:]]),
    "cat of columns": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x], 1),
    "hstack": lambda x: torch.hstack([x, x]),
    "vstack": lambda x: torch.vstack([x, x]),
    "slice": lambda x: x[1:, ::2].clone(),
    "select": lambda x: x[1].clone(),
    "index": lambda x: x[INDEX],
    "index_select": lambda x: x.index_select(0, INDEX),
    "embedding": lambda x: F.embedding(INDEX, x),
    "where": lambda x: torch.where(MASK[:, None], x, x.clone()),
    "where of a number": lambda x: torch.where(MASK[:, None], x, -1.5),
    "where of a large number": lambda x: torch.where(MASK[:, None], x, -1e6),
    "roll": lambda x: x.roll(1, 0),
    "repeat": lambda x: x.repeat(2, 1),
    "tile": lambda x: x.tile(2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "expand": lambda x: x[None].expand(2, -1, -1).contiguous(),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad with a number": lambda x: F.pad(x, (1, 2), value=3),
    "zeros_like": lambda x: torch.cat([torch.zeros_like(x), x]),
    "ones_like": lambda x: torch.cat([torch.ones_like(x), x]),
    "full_like": lambda x: torch.cat([torch.full_like(x, 0.4), x]),
    "new_full": lambda x: torch.cat([x.new_full((1, x.shape[1]), -3), x]),
    "full of a size": lambda x: x.new_full((2,), x.shape[0]),
    "NaN": lambda x: torch.full_like(x, float("nan")),
    "fill_": lambda x: x.clone().fill_(0.3),
    "zero_": lambda x: x.clone().zero_(),
    "copy_": lambda x: x.clone().copy_(x.float() * 2),
    "copy_ to f32": lambda x: torch.zeros_like(x, dtype=torch.float32).copy_(x),
    "setitem": lambda x: _set(x.clone(), 0, 1.7),
    "setitem of a slice": lambda x: _set(x.clone(), slice(0, 2), x[1:].float()),
    "unbind": lambda x: [each.clone() for each in x.unbind()],
    "chunk": lambda x: [each.float() for each in x.chunk(2)],
    "type_as": lambda x: (x.float() * 1.1).type_as(x),
}


def _set(x: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    x[key] = value
    return x


@each_dtype
@pytest.mark.parametrize("name", MOVES)
def test_elements_are_moved_as_they_are(dtype: torch.dtype, name: str) -> None:
    """Also those that are NaN, of which some formats have several."""
    f = MOVES[name]
    compiled = anyshape.compile(f, dynamic=True)
    for columns in (85, 0, 1, 3, 17):
        x = codes(dtype)[256 - 3 * columns :].view(3, columns)
        ours, theirs = compiled(x), f(x)
        several = isinstance(theirs, list)
        pairs = zip(ours, theirs, strict=True) if several else [(ours, theirs)]
        for mine, other in pairs:
            require_same(mine, other)
    assert "no native code for torch.float8" not in str(compiled.explain())


@each_dtype
def test_transposed_copies_in_tiles(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.t().clone(memory_format=torch.contiguous_format)

    compiled = native(f)
    for shape in ((100, 130), (65, 64), (3, 700), (1, 1), (0, 5)):
        x = codes(dtype).repeat(500)[: shape[0] * shape[1]].view(shape)
        require_same(compiled(x), f(x))


def test_dtypes_are_told_apart() -> None:
    compiled = anyshape.compile(lambda x: x.float() * 2, dynamic=True)
    for _ in range(2):
        for dtype in (*FLOAT8, torch.float8_e8m0fnu, torch.uint8):
            x = codes(dtype)
            require_same(compiled(x), x.float() * 2, which_nan=False)
    assert compiled.stats().graphs == 6


# -- what eager code refuses -----------------------------------------------------------------------

REFUSED: Final[dict[str, Callable[[torch.Tensor], object]]] = {
    "add": lambda x: x + x,
    "mul": lambda x: x * 2.0,
    "with f32": lambda x: x + torch.ones(()),
    "neg": lambda x: -x,
    "lt": lambda x: x < x,
    "sum": lambda x: x.sum(),
    "amax": lambda x: x.amax(),
    "clamp": lambda x: x.clamp(-1, 1),
    "relu": lambda x: x.relu(),
    "exp": lambda x: x.exp(),
    "flip": lambda x: x.flip(0),
    "tril": lambda x: x.tril(),
    "gather": lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)),
    "masked_fill": lambda x: x.masked_fill(MASK[:, None], 0.0),
    "setitem of a mask": lambda x: _set(x.clone(), MASK, 0.0),
    "cat with f32": lambda x: torch.cat([x, x.float()]),
    "reflection": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "where with f32": lambda x: torch.where(MASK[:, None], x, x.float()),
    "a number that is too large": lambda x: x.clone().fill_(1e6),
    "softmax": lambda x: x.softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "cumsum": lambda x: x.cumsum(0),
    "index_add": lambda x: x.index_add(0, INDEX, x),
}


def _said(f: Callable[..., object], x: torch.Tensor) -> object:
    try:
        return f(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _require_said(ours: Callable[..., object], theirs: Callable[..., object], x: Any) -> None:
    """The same result, or the same error."""
    mine, other = _said(ours, x), _said(theirs, x)
    if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
        require_same(mine, other)
    else:
        assert mine == other


@each_dtype
@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_code_refuses_is_refused(dtype: torch.dtype, name: str) -> None:
    """Whatever the size is that the graph was captured at."""
    f = REFUSED[name]
    compiled = anyshape.compile(f, dynamic=True)
    for rows in (0, 3):
        _require_said(compiled, f, torch.ones(rows, 4).to(dtype))


def test_what_no_elements_were_tried_with_is_left_to_torch() -> None:
    """It may have the operator for none of them, in some version."""
    compiled = anyshape.compile(lambda x: x.roll(1, 0), dynamic=True)
    for rows in (0, 3):
        x = torch.randn(rows, 4).to(torch.float8_e5m2)
        require_same(compiled(x), x.roll(1, 0))
    assert "of which torch asks nothing" in str(compiled.explain())


#: what torch has for some of these dtypes and computes: that stays its own
CALLED: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "eq": lambda x: x == x,
    "ne of a number": lambda x: x != 1.0,
    "isnan": lambda x: x.isnan(),
    "any": lambda x: x.any(),
    "sum in f32": lambda x: x.sum(dtype=torch.float32),
    "cumsum in f32": lambda x: x.cumsum(0, dtype=torch.float32),
    "abs": lambda x: x.abs(),
    "matmul": lambda x: x @ x.t(),
    "setitem by index": lambda x: _set(x.clone(), INDEX, 1.0),
    "view as bytes": lambda x: x.view(torch.uint8) + 1,
}


@each_dtype
@pytest.mark.parametrize("name", CALLED)
def test_torch_is_called_for_what_it_computes(dtype: torch.dtype, name: str) -> None:
    f = CALLED[name]
    compiled = anyshape.compile(f, dynamic=True)
    for columns in (5, 1):
        _require_said(compiled, f, torch.randn(3, columns).to(dtype))


def test_what_requires_grad_is_autograds() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * 3).to(torch.float8_e5m2).float() * 2

    x, y = (torch.randn(7, requires_grad=True) for _ in range(2))
    y.data.copy_(x.data)
    with anyshape.config.patch(native_training=True):
        ours = anyshape.compile(f, dynamic=True)(x)
    ours.sum().backward()
    f(y).sum().backward()
    require_same(ours.detach(), f(y).detach())
    assert x.grad is not None
    assert y.grad is not None
    require_same(x.grad, y.grad)
