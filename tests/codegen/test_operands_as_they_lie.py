"""Operands of the library that torch copies, and that are read where they lie instead: what a copy
would be made of, and heads that are repeated for those that share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

import anyshape
from anyshape.backends.native import source
from anyshape.capture.record import result_metas
from anyshape.graph.materialize import Materialize
from anyshape.loops.program import Extern
from tests.codegen.test_gpu_host import Backend

WIDTH, HEADS = 8, 4
ROW = HEADS * WIDTH


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Materialize, "on_gpu", property(lambda self: True))
    monkeypatch.setattr(source, "_check_externs", lambda segment, device: None)
    monkeypatch.setattr(result_metas, "WITH_MANY_KERNELS", {"cpu"})


W = Parameter(torch.linspace(-1, 1, ROW * ROW).reshape(ROW, ROW).sin() / 4, requires_grad=False)


def _heads(x: Tensor, heads: int = HEADS) -> Tensor:
    return x[..., : heads * WIDTH].unflatten(-1, (heads, WIDTH)).transpose(1, 2)


def _attended(x: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(_heads(x), k, v)


def _of_batch(x: Tensor) -> Tensor:
    y = F.linear(x, W)
    made = _attended(y, _heads(y), _heads(y)).transpose(1, 2).contiguous()
    return F.linear(made.reshape(*x.shape[:-1], -1), W).relu()


def _twice(x: Tensor) -> Tensor:
    made = _attended(x, _heads(x), _heads(x)).transpose(1, 2).contiguous().flatten(2)
    return F.linear(made, W).relu() + made


def _written_between(x: Tensor) -> Tensor:
    y = x * 2
    copy = y.contiguous().clone()
    y.add_(1)
    return F.linear(copy, W).relu() + y


def _written_behind(x: Tensor) -> Tensor:
    y = x.sin()
    copy = y.clone()
    made = F.linear(copy, W).relu()
    copy.mul_(3)
    return made + copy + y


def _given_and_written(x: Tensor) -> Tensor:
    copy = x.clone()
    x.add_(1)
    made = F.linear(copy, W).relu()
    x.sub_(1)
    return made


#: Programs, and how many kernels a call starts; None: it is not said.
COPIES: dict[str, tuple[Callable[[Tensor], Any], int | None]] = {
    "attention": (_of_batch, 1),
    "attention, used twice": (_twice, None),
    "a clone": (lambda x: F.linear(x.clone(), W).relu(), 1),
    "a slice": (lambda x: F.linear(x[:, 1:].contiguous(), W).relu(), None),
    "every other row": (lambda x: F.linear(x[:, ::2].clone(), W).relu(), None),
    "columns": (lambda x: F.linear(x[..., :8].contiguous(), W[:, :8]).relu(), None),
    "transposed": (lambda x: (x.mT.contiguous() @ x).relu(), None),
    "flipped": (lambda x: F.linear(x.flip(1), W).relu(), None),
    "flipped, a matrix": (lambda x: F.linear(x[0].flip(0), W).relu(), None),
    "flipped, a batch": (lambda x: (x.flip(0) @ x.mT).relu(), None),
    "a matrix, turned": (lambda x: (torch.rot90(x[0]) @ x[0].flip(1)).relu(), None),
    "windows": (lambda x: F.linear(x[0].flatten().unfold(0, ROW, 1).clone(), W).relu(), None),
    "a row, stretched": (lambda x: F.linear(x[0, :1].expand(5, -1).clone(), W).relu(), None),
    "flipped columns": (lambda x: F.linear(x.flip(-1), W).relu(), None),
    "stretched": (lambda x: F.linear(x[:, :1].expand(-1, 3, -1).clone(), W).relu(), None),
    "by index": (lambda x: F.linear(x[:, torch.arange(x.shape[1]) // 2], W).relu(), None),
    "padded": (lambda x: F.linear(F.pad(x, (0, 0, 1, 1)), W).relu(), None),
    "joined": (lambda x: F.linear(torch.cat([x, x], 1), W).relu(), None),
    "cast": (lambda x: F.linear(x.double().float(), W).relu(), None),
    "rolled": (lambda x: F.linear(x.roll(1, 1), W).relu(), None),
    "a diagonal": (lambda x: F.linear(torch.diagonal(x, 0, 0, 1).mT.clone(), W).relu(), None),
    "reshaped": (lambda x: F.linear(x.reshape(-1, 2, ROW // 2).flatten(1), W).relu(), None),
    "written between": (_written_between, None),
    "written behind": (_written_behind, None),
    "an argument, written": (_given_and_written, None),
}


def _compared(function: Callable[[Tensor], Any], backend: Backend) -> None:
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for batch, rows in ((2, 5), (3, 4), (1, 5), (2, 1), (1, 1), (2, 5)):
            x = torch.randn(batch, rows, ROW)
            torch.testing.assert_close(compiled(x.clone()), function(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str) -> None:
    function, kernels = COPIES[name]
    backend = Backend()
    _compared(function, backend)
    if kernels is not None:
        assert backend.launches == 5 * kernels, "all calls but the first, which captures"


def _repeat(x: Tensor, group: int = 2) -> Tensor:
    """As transformers do it."""
    batch, heads, rows, width = x.shape
    made = x[:, :, None].expand(batch, heads, group, rows, width)
    return made.reshape(batch, heads * group, rows, width)


FACTORS = torch.arange(4.0).view(4, 1, 1).bfloat16()
#: Heads of keys and values, how they are repeated, and whether that is seen.
REPEATS: dict[str, tuple[int, Callable[[Tensor], Tensor], bool]] = {
    "each twice": (2, _repeat, True),
    "one four times, which is a view": (1, lambda x: _repeat(x, 4), False),
    "one, stretched": (1, lambda x: x.expand(-1, HEADS, -1, -1).clone(), True),
    "interleaved": (2, lambda x: x.repeat_interleave(2, 1), True),
    "all of them again": (2, lambda x: x.repeat(1, 2, 1, 1), False),
    "joined": (2, lambda x: torch.cat([x, x], 1), False),
    "reversed": (2, lambda x: _repeat(x).flip(1), False),
    "each with a factor": (2, lambda x: _repeat(x) * FACTORS, False),
    "none": (4, lambda x: x.clone(), False),
    "of positions": (
        4,
        lambda x: x.reshape(x.shape[0], -1, WIDTH).unflatten(1, (x.shape[1], -1)).clone(),
        False,
    ),
}


@pytest.mark.parametrize("name", REPEATS)
def test_repeated_heads(name: str) -> None:
    heads, repeated, is_seen = REPEATS[name]

    def function(x: Tensor) -> Tensor:
        x = x.bfloat16()
        k, v = (_heads(each, heads) for each in (F.linear(x, W.bfloat16()), x * 2))
        return _attended(x, repeated(k), repeated(v)).relu()

    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for batch, rows in ((2, 5), (3, 4), (1, 5), (2, 1), (1, 1)):
            x = torch.randn(batch, rows, ROW)
            torch.testing.assert_close(compiled(x), function(x), atol=2e-2, rtol=2e-2)
    assert {*_groups(backend)} == {HEADS // heads if is_seen else 1}


def _groups(backend: Backend) -> list[int]:
    """Heads of the query for each of the key's, of the calls of attention."""
    found: list[int] = []
    for segment in backend.segments:
        for step in segment.steps:
            if isinstance(step, Extern) and "flash_attention" in step.function:
                query, key = step.arguments[9:11]
                found.append(query.sizes[1] // key.sizes[1])
    return found


def test_only_one_of_two_is_repeated() -> None:
    def function(x: Tensor) -> Tensor:
        x = x.bfloat16()
        return _attended(x, _repeat(_heads(x, 2)), _heads(x * 2)).relu()

    backend = Backend()
    compiled = anyshape.compile(function, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (5, 3):
            x = torch.randn(2, rows, ROW)
            torch.testing.assert_close(compiled(x), function(x), atol=2e-2, rtol=2e-2)
    assert _groups(backend) == [1]


class Cached(torch.nn.Module):
    """Two layers that attend to what they are given."""

    def forward(self, x: Tensor, caches: list[tuple[Tensor, Tensor]]) -> Tensor:
        for k, v in caches:
            y = F.linear(x, W.bfloat16())
            made = F.scaled_dot_product_attention(_heads(y), k, v)
            x = x + made.transpose(1, 2).flatten(2)
        return x


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_inputs_are_read_where_they_lie(layers: int) -> None:
    """Where they begin at a multiple of 16 bytes; elsewhere the graph runs as it is."""

    def caches(rows: int, offset: int = 0) -> list[tuple[Tensor, Tensor]]:
        shape = (2, HEADS, rows, WIDTH)
        size = 2 * HEADS * rows * WIDTH
        whole = [torch.randn(size + 8).bfloat16()[8 - offset :][:size] for _ in range(2 * layers)]
        assert all(bool(each.data_ptr() % 16) == bool(offset) for each in whole)
        made = [each.view(shape) for each in whole]
        return list(zip(made[::2], made[1::2], strict=True))

    backend = Backend()
    model: Any = Cached()
    compiled = anyshape.compile(model, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows, offset in ((5, 0), (9, 0), (9, 1), (1, 0), (7, 4), (6, 0)):
            x, given = torch.randn(2, 3, ROW).bfloat16(), caches(rows, offset)
            want = model(x, given)
            before = backend.launches
            torch.testing.assert_close(compiled(x, given), want, atol=4e-2, rtol=4e-2)
            assert bool(backend.launches - before) == (not offset and rows != 5)
    assert backend.launches <= 3 * 2 * layers, "with copies it would be two more a layer"
    assert compiled.stats().graphs == 1


def test_an_input_that_was_seen_elsewhere_is_copied() -> None:
    backend = Backend()
    model: Any = Cached()
    compiled = anyshape.compile(model, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (5, 6, 7):
            whole = torch.randn(2, HEADS, rows, 2 * WIDTH).bfloat16()
            given = [(whole[..., 4 : 4 + WIDTH], whole[..., 2 : 2 + WIDTH])]
            x = torch.randn(2, 3, ROW).bfloat16()
            torch.testing.assert_close(compiled(x, given), model(x, given), atol=4e-2, rtol=4e-2)
    assert backend.launches == 2 * 4, "two more than above"


@pytest.mark.parametrize("name", ["flipped, a matrix", "flipped, a batch", "windows", "transposed"])
def test_on_the_processor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    function, _ = COPIES[name]
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for batch, rows in ((2, 5), (3, 4), (1, 5), (2, 1)):
            x = torch.randn(batch, rows, ROW)
            torch.testing.assert_close(compiled(x), function(x), atol=1e-5, rtol=1e-5)
    assert not compiled.stats().eager_calls


def test_heads_in_reverse() -> None:
    def function(x: Tensor) -> Tensor:
        y = F.linear(x, W)
        return _attended(y, _heads(y).flip(2), _heads(y).flip(1)).relu()

    _compared(function, Backend())
