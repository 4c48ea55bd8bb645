"""The examples of the reference texts, with the number of graphs that the texts state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from tests.zoo.compare import difference


def times_its_size(x: Tensor) -> Tensor:
    return x * x.size()[0]


def specialised(x: Tensor) -> Tensor:
    if x.size()[0] == 10:
        return x * 10

    if x.size()[0] <= 30:
        return x * 200

    return x * x.size()[0]


def ten_sines(x: Tensor) -> Tensor:
    for _ in range(10):
        x = x.sin()
    return x


def attend(x: Tensor, w: Tensor) -> Tensor:
    """Elementwise work, matrix products and a softmax over the dynamic size."""
    hidden = torch.relu(x @ w) * 2 + 1
    scores = torch.softmax(hidden @ hidden.transpose(-1, -2) / 4.0, dim=-1)
    return scores @ hidden


def graphs(
    function: Callable[..., Any],
    sizes: Iterable[int],
    mark: Callable[[Tensor], None] = lambda x: None,
    **settings: Any,
) -> int:
    """Compile, compare with eager at each size, and count the graphs."""
    compiled: Any = anyshape.compile(function, **settings)
    for size in sizes:
        x = torch.rand(size)
        expected = function(x)
        mark(x)
        problem = difference(compiled(x), expected)
        assert not problem, f"at size {size}: {problem}"
    stats = compiled.stats()
    assert stats.graphs == len([graph for entry in compiled.entries for graph in entry.graphs])
    assert stats.eager_calls == 0
    return stats.graphs


@pytest.mark.parametrize(("dynamic", "count"), [(False, 4), (True, 1), (None, 2)])
def test_size_times_tensor(dynamic: bool | None, count: int) -> None:
    assert graphs(times_its_size, (10, 20, 30, 40), dynamic=dynamic) == count


def test_specialisation() -> None:
    assert graphs(specialised, (10, 20, 30, 40, 50), dynamic=True) == 3


def test_specialisation_in_any_order() -> None:
    assert graphs(specialised, (50, 40, 30, 20, 10, 31, 0, 1, 9), dynamic=True) == 3


def test_ten_sines_static() -> None:
    assert graphs(ten_sines, range(2, 100), dynamic=False) == 98


def test_ten_sines_marked() -> None:
    mark = lambda x: anyshape.mark_dynamic(x, 0)  # noqa: E731
    assert graphs(ten_sines, range(2, 100), mark, dynamic=None) == 1


def test_ten_sines_automatic() -> None:
    assert graphs(ten_sines, range(2, 100), dynamic=None) == 2


@pytest.mark.parametrize("first", [0, 1, 2, 3, 7, 16])
def test_zero_and_one_are_ordinary_sizes(first: int) -> None:
    """One graph whatever size comes first."""
    compiled = anyshape.compile(attend, dynamic=True)
    w = torch.randn(8, 8)
    for size in (first, 0, 1, 2, 3, 7, 16):
        x = torch.randn(size, 8)
        assert not difference(compiled(x, w), attend(x, w)), size
    assert compiled.stats().graphs == 1
    assert compiled.stats().hits == 6


def test_batched_zero_and_one() -> None:
    compiled = anyshape.compile(attend, dynamic=True)
    w = torch.randn(8, 8)
    for batch, length in [(2, 3), (1, 3), (3, 1), (1, 1), (0, 3), (3, 0), (0, 0), (5, 7)]:
        x = torch.randn(batch, length, 8)
        assert not difference(compiled(x, w), attend(x, w)), (batch, length)
    assert compiled.stats().graphs == 1


# -- config.specialize_zero_one: sizes 0 and 1 are constants, the others are at least 2 ------------


def test_specialize_zero_one_counts() -> None:
    with anyshape.config.patch(specialize_zero_one=True):
        assert graphs(times_its_size, (10, 1, 0, 20, 2, 1, 0), dynamic=True) == 3


def test_specialize_zero_one_ranges() -> None:
    with anyshape.config.patch(specialize_zero_one=True):
        compiled = anyshape.compile(times_its_size, dynamic=True)
        compiled(torch.rand(10))
    ranges = [str(symbol.range) for entry in compiled.entries for symbol in entry.symbols.values()]
    assert ranges == ["[2, int_oo]"]


def test_ranges_start_at_zero() -> None:
    compiled = anyshape.compile(times_its_size, dynamic=True)
    compiled(torch.rand(10))
    ranges = [str(symbol.range) for entry in compiled.entries for symbol in entry.symbols.values()]
    assert ranges == ["[0, int_oo]"]


# -- what the texts say of entries and guards ------------------------------------------------------


def test_entries_tell_what_decided_them() -> None:
    compiled = anyshape.compile(specialised, dynamic=True)
    for size in (10, 20, 50):
        compiled(torch.rand(size))
    assert [entry.id.partition("/")[2] for entry in compiled.entries] == ["0", "1", "2"]
    texts = [[guard.text for guard in entry.guards] for entry in compiled.entries]
    assert "L['x'].size()[0] == 10" in texts[0]
    assert any("30" in text or "31" in text for text in texts[1])
    for entry in compiled.entries:
        for guard in entry.guards:
            if "size()[0]" in guard.text and any(k in guard.text for k in ("10", "30", "31")):
                assert guard.reason
                assert __file__ in str(guard.user_frame)


def test_graphs_are_fx() -> None:
    compiled = anyshape.compile(ten_sines, dynamic=True)
    compiled(torch.rand(3))
    (graph,) = compiled.entries[0].graphs
    assert isinstance(graph, torch.fx.GraphModule)
    assert sum("sin" in str(node.target) for node in graph.graph.nodes) == 10


def test_automatic_dynamic_is_per_source() -> None:
    """The size that changed is dynamic; the one that did not change stays static."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y * y.shape[0]

    compiled = anyshape.compile(f)
    for size in (3, 5, 7, 9):
        compiled(torch.rand(size), torch.rand(4))
    assert compiled.stats().graphs == 2
    compiled(torch.rand(3), torch.rand(6))
    compiled(torch.rand(3), torch.rand(8))
    assert compiled.stats().graphs == 3


def test_automatic_dynamic_ints() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return x * n

    compiled = anyshape.compile(f)
    for n in (3, 5, 7, 1, 0, -2):
        x = torch.rand(3)
        assert torch.equal(compiled(x, n), x * n)
    assert compiled.stats().graphs == 2


def test_equal_sizes_may_part() -> None:
    """No duck shaping: sizes that were equal once are not one symbol."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.sum() * y

    compiled = anyshape.compile(f, dynamic=True)
    for a, b in [(3, 3), (3, 5), (7, 2)]:
        x, y = torch.rand(a), torch.rand(b)
        torch.testing.assert_close(compiled(x, y), f(x, y))
    assert compiled.stats().graphs == 1


def test_unused_input_is_not_guarded() -> None:
    def f(x: Tensor, unused: Tensor) -> Tensor:
        return x + 1

    compiled = anyshape.compile(f, dynamic=False)
    for size in (2, 3, 0, 1):
        compiled(torch.rand(4), torch.rand(size))
    assert compiled.stats().graphs == 1


def test_maximum_does_not_guard() -> None:
    def f(x: Tensor) -> Tensor:
        return x * max(x.shape[0], 16)

    assert graphs(f, (3, 16, 17, 0, 40), dynamic=True) == 1


def test_dynamic_cache_grows_in_one_graph() -> None:
    """A step of decoding: the cache is one longer each time."""

    def step(cache: Tensor, new: Tensor) -> Tensor:
        return torch.cat([cache, new], dim=1)

    compiled = anyshape.compile(step, dynamic=None)
    cache = torch.rand(2, 0, 4)
    for length in range(1, 8):
        new = torch.rand(2, 1, 4)
        expected = step(cache, new)
        cache = compiled(cache, new)
        assert torch.equal(cache, expected)
        assert cache.shape[1] == length
    assert compiled.stats().graphs == 2


def test_reset_forgets() -> None:
    compiled = anyshape.compile(times_its_size, dynamic=True)
    compiled(torch.rand(3))
    anyshape.reset()
    assert compiled.entries == []
    compiled(torch.rand(4))
    assert len(compiled.entries) == 1


def test_stats_of_the_process() -> None:
    before = anyshape.stats().graphs
    assert graphs(times_its_size, (2, 3), dynamic=True) == 1
    assert graphs(ten_sines, (2, 3), dynamic=False) == 2
    assert anyshape.stats().graphs - before <= 3


def test_callable_backend_sees_graph_and_example_inputs() -> None:
    seen: list[Any] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append((module, inputs))
        return module

    compiled = anyshape.compile(ten_sines, dynamic=True, backend=backend)
    x = torch.rand(5)
    torch.testing.assert_close(compiled(x), ten_sines(x))
    torch.testing.assert_close(compiled(x), ten_sines(x))
    ((module, inputs),) = seen
    assert isinstance(module, torch.fx.GraphModule)
    assert any(isinstance(value, Tensor) for value in inputs)


def test_explain_says_why_a_call_was_not_compiled() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        anyshape.mark_static(x)
        return x + 1

    compiled = anyshape.compile(f)
    for how in ("the next is tried again", "runs"):
        compiled(torch.ones(2))
        text = str(compiled.explain())
        assert how in text
        assert "anyshape.mark_static(x)" in text


def test_explain_names_the_line() -> None:
    compiled = anyshape.compile(specialised, dynamic=True)
    text = str(compiled.explain(torch.rand(10)))
    assert "x" in text
    assert "test_reference_examples.py" in text


def test_check_teaches_and_raises() -> None:
    def f(x: Tensor) -> Tensor:
        anyshape.check(x.shape[0] < 9, "too long")
        return x * x.shape[0]

    compiled = anyshape.compile(f, dynamic=True)
    for size in (3, 8, 0):
        x = torch.rand(size)
        assert torch.equal(compiled(x), x * size)
    with pytest.raises(Exception, match="too long"):
        compiled(torch.rand(9))
    with pytest.raises(Exception, match="too long"):
        f(torch.rand(9))


def test_error_on_recompile() -> None:
    with anyshape.config.patch(error_on_recompile=True):
        compiled = anyshape.compile(times_its_size, dynamic=False)
        compiled(torch.rand(3))
        with pytest.raises(anyshape.AnyshapeError):
            compiled(torch.rand(4))
