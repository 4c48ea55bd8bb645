"""Marks: what they make of a dimension, what they refuse, and whom they serve."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import DynamicInt, config
from anyshape.errors import BadOption, DynamicDimWasFixed, MarkOutOfRange


def marked(*sizes: int, dim: int = 0, **limits: Any) -> Tensor:
    x = torch.rand(*sizes)
    anyshape.mark_dynamic(x, dim, **limits)
    return x


def doubled(x: Tensor) -> Tensor:
    return x * 2 + x.shape[0]


def check(compiled: Any, function: Callable[..., Any], *args: Any) -> None:
    torch.testing.assert_close(compiled(*args), function(*args))


# -- whom an entry serves --------------------------------------------------------------------------


def test_unmarked_calls_that_fit_are_served() -> None:
    compiled = anyshape.compile(doubled)
    for size in (8, 3, 0, 1, 100):
        check(compiled, doubled, marked(size) if size == 8 else torch.rand(size))
    assert compiled.stats().graphs == 1


def test_a_mark_holds_for_the_tensor() -> None:
    compiled = anyshape.compile(doubled)
    x = marked(8)
    compiled(x)
    anyshape.reset()
    check(compiled, doubled, x)
    check(compiled, doubled, torch.rand(9))
    assert compiled.stats().graphs == 1


def test_a_mark_is_of_one_tensor_only() -> None:
    compiled = anyshape.compile(doubled)
    compiled(torch.rand(8))
    x = marked(8)
    compiled(x)
    assert compiled.stats().graphs == 1, "a mark is no guard: the static entry serves it"
    y = x.clone()
    anyshape.reset()
    compiled(y)
    assert [str(entry.symbols) for entry in compiled.entries] == ["{}"]


def test_marks_of_several_dimensions_and_from_the_end() -> None:
    def f(x: Tensor) -> Tensor:
        return x.sum(-1)

    x = torch.rand(2, 3, 4)
    anyshape.mark_dynamic(x, (0, -1))
    compiled = anyshape.compile(f)
    compiled(x)
    check(compiled, f, torch.rand(5, 3, 7))
    assert compiled.stats().graphs == 1
    compiled(torch.rand(5, 4, 7))
    assert compiled.stats().graphs == 2


def test_marks_do_not_keep_tensors_alive() -> None:
    x = marked(8)
    compiled = anyshape.compile(doubled)
    compiled(x)
    del x
    gc.collect()
    assert compiled.stats().graphs == 1


# -- ranges ----------------------------------------------------------------------------------------


def by_size(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 64 else x + 1


def test_sizes_outside_of_the_range_are_compiled_for_on_their_own() -> None:
    compiled = anyshape.compile(by_size)
    compiled(marked(8, min=4, max=64))
    (entry,) = compiled.entries
    assert [str(symbol.range) for symbol in entry.symbols.values()] == ["[4, 64]"]
    for size in (4, 64, 33):
        check(compiled, by_size, torch.rand(size))
    assert compiled.stats().graphs == 1
    for size in (65, 200, 3, 0):
        check(compiled, by_size, torch.rand(size))
    assert compiled.stats().recompiles >= 1


@pytest.mark.parametrize("size", [3, 65, 0])
def test_a_tensor_outside_of_its_own_range(size: int) -> None:
    with pytest.raises(MarkOutOfRange, match=rf"size {size}, .* allows 4 <= size <= 64"):
        marked(size, min=4, max=64)


def test_a_range_without_a_value() -> None:
    with pytest.raises(BadOption, match="above max=3"):
        marked(3, min=4, max=3)


def test_a_range_of_one_value_is_no_dynamic_dimension() -> None:
    with pytest.raises(DynamicDimWasFixed, match="the range of the mark"):
        anyshape.compile(doubled)(marked(4, min=4, max=4))


def test_a_refused_mark_leaves_none() -> None:
    x = torch.rand(8, 2)
    with pytest.raises(MarkOutOfRange):
        anyshape.mark_dynamic(x, (0, 1), min=4)
    compiled = anyshape.compile(doubled)
    compiled(x)
    assert not compiled.entries[0].symbols


# -- what fixes a marked dimension -----------------------------------------------------------------


def equal(x: Tensor) -> Tensor:
    if x.shape[0] == 8:
        return x * 2
    return x


def two_branches(x: Tensor) -> Tensor:
    if x.shape[0] >= 8:
        x = x + 1
    if x.shape[0] <= 8:
        x = x * 2
    return x


def through_another(x: Tensor) -> Tensor:
    n = x.shape[0] * 2 + 1
    if n > 16:
        x = x + 1
    if n < 18:
        x = x * 2
    return x


def by_operator(x: Tensor) -> Tensor:
    return x.reshape(4, 2)


def in_a_loop(x: Tensor) -> Tensor:
    for _ in range(x.shape[0]):
        x = x + 1
    return x


FIXED = [
    (equal, ["if x.shape[0] == 8:"], "=="),
    (two_branches, ["if x.shape[0] >= 8:", "if x.shape[0] <= 8:"], ">="),
    (through_another, ["if n > 16:", "if n < 18:"], "<"),
    (by_operator, ["return x.reshape(4, 2)"], "reshape"),
    (in_a_loop, ["for _ in range(x.shape[0]):"], "range"),
]


@pytest.mark.parametrize(("function", "lines", "operator"), FIXED)
def test_the_error_names_lines_operator_and_value(
    function: Callable[..., Any], lines: list[str], operator: str
) -> None:
    x = marked(8)
    with pytest.raises(DynamicDimWasFixed) as raised:
        anyshape.compile(function)(x)
    error = raised.value
    message = str(error)
    assert (error.source, error.value) == ("L['x'].size()[0]", 8)
    assert len(error.conditions) == len(lines), message
    for line, condition in zip(lines, error.conditions, strict=True):
        assert f"`{line}`" in condition
        assert f"{__file__}:" in condition
    assert operator in message
    assert " s0 " not in message
    assert error.where is not None
    assert error.where.endswith(function.__name__)


def test_only_the_lines_that_matter_are_named() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        if x.shape[0] > 2 and y.shape[0] > 2:
            x = x + 1
        if x.shape[0] == y.shape[0]:
            x = x + y
        if y.shape[0] == 8:
            x = x * 2
        return x

    with pytest.raises(DynamicDimWasFixed) as raised:
        anyshape.compile(f)(marked(8), marked(8))
    assert len(raised.value.conditions) == 2, raised.value


def test_the_same_program_with_maybe() -> None:
    for function, *_ in FIXED:
        compiled = anyshape.compile(function)
        x = torch.rand(8)
        anyshape.maybe_mark_dynamic(x, 0)
        check(compiled, function, x)
        assert compiled.stats().eager_calls == 0


def test_zero_and_one_with_the_setting_that_makes_them_special() -> None:
    with config.patch(specialize_zero_one=True):
        with pytest.raises(DynamicDimWasFixed, match="specialize_zero_one is on, and it is 1"):
            anyshape.compile(doubled)(marked(1))
        compiled = anyshape.compile(doubled)
        x = torch.rand(1)
        anyshape.maybe_mark_dynamic(x, 0)
        check(compiled, doubled, x)


# -- static ----------------------------------------------------------------------------------------


def test_mark_static_keeps_a_dimension() -> None:
    compiled = anyshape.compile(doubled, dynamic=True)
    for size in (3, 4, 5):
        x = torch.rand(size)
        anyshape.mark_static(x, 0)
        check(compiled, doubled, x)
    assert compiled.stats().graphs == 3


def test_mark_static_of_a_whole_tensor() -> None:
    compiled = anyshape.compile(lambda x: x + 1, dynamic=True)
    x = torch.rand(3, 4)
    anyshape.mark_static(x)
    compiled(x)
    assert not compiled.entries[0].symbols
    scalar = torch.tensor(1.0)
    anyshape.mark_static(scalar)
    assert compiled(scalar) == 2


class Scaled(nn.Module):
    shift: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size))
        self.register_buffer("shift", torch.rand(size))
        self.times = size

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.shift * self.times


FREE = {
    "force_parameter_static_shapes": False,
    "force_nn_module_property_static_shapes": False,
    "allow_unspec_int_on_nn_module": True,
}


def test_mark_static_of_a_class_of_modules() -> None:
    class Kept(Scaled):
        pass

    class Derived(Kept):
        pass

    anyshape.mark_static(Kept)
    with config.patch(**FREE):
        for kind, free in ((Scaled, True), (Kept, False), (Derived, False)):
            compiled: Any = anyshape.compile(kind(4), dynamic=True)
            compiled(torch.rand(4))
            sources = [symbol.source for symbol in compiled.entries[0].symbols.values()]
            assert "L['x'].size()[0]" in sources
            assert any("self" in source for source in sources) == free, sources
    with config.patch(dynamic_sources="L['self'].times", **FREE):
        compiled: Any = anyshape.compile(Kept(4))
        compiled(torch.rand(4))
        assert [s.source for s in compiled.entries[0].symbols.values()] == ["L['self'].times"]


def test_a_class_has_no_dimensions() -> None:
    with pytest.raises(BadOption, match="a class has no dimensions"):
        anyshape.mark_static(Scaled, 0)


@pytest.mark.parametrize(
    "mark",
    [
        lambda t: anyshape.mark_dynamic(t, 0),
        lambda t: anyshape.maybe_mark_dynamic(t, 0),
        lambda t: anyshape.mark_unbacked(t, 0),
        lambda t: anyshape.mark_static(t),
    ],
)
@pytest.mark.parametrize("value", [3, "x", int, None])
def test_marks_are_for_tensors(mark: Callable[[Any], None], value: object) -> None:
    with pytest.raises(BadOption, match="DynamicInt"):
        mark(value)


@pytest.mark.parametrize("dim", ["0", 0.0, True, None, (0, "1"), {}, 3, -4])
def test_what_is_no_dimension(dim: Any) -> None:
    x = torch.ones(2, 3, 4)
    with pytest.raises(BadOption, match="dim="):
        anyshape.mark_dynamic(x, dim)
    assert not vars(x)


def test_a_single_number_has_no_dimensions() -> None:
    with pytest.raises(BadOption, match="no dimensions"):
        anyshape.mark_dynamic(torch.tensor(1.0), 0)


@pytest.mark.parametrize("limits", [{"min": 1.5}, {"max": True}, {"min": "1"}, {"max": 4.0}])
@pytest.mark.parametrize("mark", [anyshape.mark_dynamic, anyshape.mark_unbacked])
def test_what_is_no_limit(mark: Callable[..., None], limits: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="an integer"):
        mark(torch.ones(2), 0, **limits)


def test_a_hint_outside_of_the_range() -> None:
    anyshape.mark_unbacked(torch.ones(2), 0, max=9, hint=9)
    for hint in (10, 1.5):
        with pytest.raises(BadOption, match="hint"):
            anyshape.mark_unbacked(torch.ones(2), 0, max=9, hint=hint)  # pyright: ignore[reportArgumentType] wrong on purpose


@pytest.mark.parametrize("value", [1.5, "5", True, None])
def test_what_is_no_dynamic_int(value: Any) -> None:
    with pytest.raises(BadOption, match="an integer"):
        DynamicInt(value)


def test_marked_tensors_are_saved_and_loaded(tmp_path: Path) -> None:
    x = marked(3, max=9)
    torch.save({"x": x, "p": nn.Parameter(marked(2))}, tmp_path / "saved")
    y = torch.load(tmp_path / "saved", weights_only=True)["x"]
    torch.testing.assert_close(y, x)
    compiled = anyshape.compile(doubled)
    check(compiled, doubled, y)
    check(compiled, doubled, torch.rand(4))
    assert compiled.stats().graphs == 1


def test_zero_and_one_are_explained_by_their_setting() -> None:
    with config.patch(specialize_zero_one=True, dynamic_sources="L['x']"):
        compiled = anyshape.compile(doubled)
        compiled(torch.rand(1))
    text = str(compiled.explain())
    assert "config.specialize_zero_one = False" in text
    assert "which overrides it" not in text, "the list does not help against this one"


# -- a mark that a setting stands above ------------------------------------------------------------


def test_a_mark_that_is_not_followed_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    module = Scaled(4)
    anyshape.mark_dynamic(module.weight, 0)
    anyshape.set_logs(dynamic=True)
    try:
        with caplog.at_level(logging.DEBUG, "anyshape"):
            compiled: Any = anyshape.compile(module)
            compiled(torch.rand(4))
    finally:
        anyshape.set_logs(dynamic=False)
    flag = "mark_dynamic: config.force_parameter_static_shapes is on"
    assert flag in str(compiled.explain())
    assert not compiled.entries[0].symbols


# -- unbacked --------------------------------------------------------------------------------------


def test_unbacked_sizes_are_explained() -> None:
    x = torch.rand(8)
    anyshape.mark_unbacked(x, 0, min=2, max=100)
    compiled = anyshape.compile(lambda x: x.sum())
    compiled(x)
    explained = compiled.explain()
    (size,) = explained.entries[0].sizes
    assert (size.state, size.values, size.by) == ("unbacked", "[2, 100]", "a mark")
    assert "dynamic: nothing" not in str(explained)


# -- integers --------------------------------------------------------------------------------------


def scaled(x: Tensor, n: int) -> Tensor:
    return x * n + (1 if n > 3 else 2)


def test_a_dynamic_int_is_dynamic_at_once() -> None:
    compiled = anyshape.compile(scaled)
    x = torch.ones(2)
    for n in (DynamicInt(4), 5, DynamicInt(6), 100):
        check(compiled, scaled, x, n)
    assert compiled.stats().graphs == 1
    for n in (DynamicInt(3), 2, DynamicInt(-1), 0):
        check(compiled, scaled, x, n)
    assert compiled.stats().graphs == 2
    assert compiled.stats().eager_calls == 0


def test_a_static_entry_serves_a_dynamic_int_of_its_value() -> None:
    compiled = anyshape.compile(scaled)
    x = torch.ones(2)
    for n in (4, DynamicInt(4)):
        check(compiled, scaled, x, n)
    assert compiled.stats().graphs == 1
    for n in (DynamicInt(5), 6, 7):
        check(compiled, scaled, x, n)
    assert compiled.stats().graphs == 2


def test_what_is_no_integer_is_no_dynamic_one() -> None:
    def f(x: Tensor, n: Any) -> Any:
        return x * n, type(n)

    compiled = anyshape.compile(f)
    x = torch.ones(2)
    compiled(x, DynamicInt(1))
    for value in (True, 2.5, 3, False):
        result, kind = compiled(x, value)
        assert kind is type(value)
        torch.testing.assert_close(result, x * value)


def test_the_program_sees_plain_integers() -> None:
    def f(x: Tensor, n: int, *more: int, k: int = 1, **named: int) -> Any:
        kinds = [type(v) for v in (n, k, *more, *named.values())]
        return x * n * k * sum(more) * sum(named.values()), kinds, n, [n + 1]

    compiled = anyshape.compile(f)
    for base in (3, 4, 5):
        given = [DynamicInt(base + i) for i in range(5)]
        result, kinds, n, made = compiled(
            torch.ones(1), given[0], given[1], given[2], k=given[3], z=given[4]
        )
        expected = base * (base + 3) * (2 * base + 3) * (base + 4)
        assert result.item() == expected
        assert kinds == [int] * 5
        assert (n, type(n), made) == (base, int, [base + 1])
    assert compiled.stats().graphs == 1


def test_dynamic_ints_inside_of_containers() -> None:
    def f(x: Tensor, sizes: list[int]) -> Tensor:
        return x * sizes[0] + (1 if sizes[0] > 3 else 2)

    compiled = anyshape.compile(f)
    x = torch.ones(2)
    for sizes in ([DynamicInt(4)], [DynamicInt(5)], [6], [DynamicInt(2)], [7], [DynamicInt(9)]):
        check(compiled, f, x, sizes)
    assert compiled.stats().eager_calls == 0
    with config.patch(specialize_int=True):
        anyshape.reset()
        for n in (4, 5, 4, 5):
            check(compiled, f, x, [DynamicInt(n)])
        assert compiled.stats().graphs == 2


def test_a_plain_integer_where_a_dynamic_one_was() -> None:
    def f(x: Tensor, held: dict[str, list[int]]) -> Tensor:
        return x * held["n"][0]

    for first, second in ((DynamicInt(4), 5), (4, DynamicInt(5))):
        compiled = anyshape.compile(f, dynamic=True)
        check(compiled, f, torch.ones(2), {"n": [first]})
        check(compiled, f, torch.ones(2), {"n": [second]})
        assert compiled.stats().graphs == 1
        for other in (True, 2.5, torch.tensor(3)):
            check(compiled, f, torch.ones(2), {"n": [other]})


def test_dynamic_ints_on_modules() -> None:
    module = Scaled(4)
    compiled: Any = anyshape.compile(module)
    x = torch.rand(4)
    for n in (2, 3, 4):
        module.times = DynamicInt(n)
        check(compiled, module.forward, x)
    assert compiled.stats().graphs == 3, "config.allow_unspec_int_on_nn_module stands above it"
    with config.patch(allow_unspec_int_on_nn_module=True):
        anyshape.reset()
        for n in (2, 3, 4):
            module.times = DynamicInt(n)
            check(compiled, module.forward, x)
    assert compiled.stats().graphs == 1


def test_a_dynamic_int_that_the_program_fixes() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return x if n == 4 else x + 1

    compiled = anyshape.compile(f)
    with pytest.raises(DynamicDimWasFixed, match="n == 4") as raised:
        compiled(torch.ones(2), DynamicInt(4))
    assert (raised.value.source, raised.value.value) == ("L['n']", 4)


def test_a_dynamic_int_is_of_one_call_only() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return x * n if n == 4 else x + n

    compiled = anyshape.compile(f)
    with pytest.raises(DynamicDimWasFixed):
        compiled(torch.ones(2), DynamicInt(4))
    check(compiled, f, torch.ones(2), 4)
    anyshape.reset()
    check(compiled, f, torch.ones(2), DynamicInt(5))
    check(compiled, f, torch.ones(2), 4)
    with config.patch(specialize_int=True):
        anyshape.reset()
        compiled(torch.ones(2), DynamicInt(5))
        first = str(compiled.explain())
        compiled(torch.ones(2), 6)
        assert first.count("not followed") == str(compiled.explain()).count("not followed") == 1


def test_a_dynamic_int_under_specialize_int() -> None:
    compiled = anyshape.compile(scaled)
    with config.patch(specialize_int=True):
        for n in (4, 5, 4):
            check(compiled, scaled, torch.ones(2), DynamicInt(n))
    assert compiled.stats().graphs == 2
    assert "DynamicInt: config.specialize_int is on" in str(compiled.explain())


def test_a_dynamic_int_where_the_way_depends_on_data() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        if x.sum() > 0:
            return x * n
        return x - n

    compiled = anyshape.compile(f)
    for n, sign in ((3, 1), (4, -1), (5, 1), (6, -1)):
        check(compiled, f, torch.ones(2) * sign, DynamicInt(n))
    assert compiled.stats().eager_calls == 0
    assert len(compiled.entries) == 1


def test_a_dynamic_int_after_compiling_has_stopped() -> None:
    def f(x: Tensor, n: int) -> Any:
        return x * n, type(n)

    compiled = anyshape.compile(f, dynamic=False)
    with config.patch(recompile_limit=1):
        assert compiled(torch.ones(2), DynamicInt(3))[1] is int
        with pytest.warns(UserWarning, match="recompile_limit"):
            compiled(torch.ones(3), 3)
        assert compiled(torch.ones(3), DynamicInt(3))[1] is int
    anyshape.reset()

    def broken(graph: Any, examples: Any) -> Any:
        raise RuntimeError("no")

    eager = anyshape.compile(f, backend=broken)
    with config.patch(on_compile_error="warn"), pytest.warns(UserWarning, match="backend failed"):
        assert eager(torch.ones(2), DynamicInt(3))[1] is int
    assert eager(torch.ones(2), DynamicInt(3))[1] is int


def test_a_dynamic_int_where_the_graph_fails() -> None:
    def fails(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            raise RuntimeError("no graph")

        return run

    compiled = anyshape.compile(lambda x, n: (x * n, type(n)), backend=fails)
    with anyshape.config.patch(on_compile_error="warn"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (2, 3):
            assert compiled(torch.ones(2), DynamicInt(n))[1] is int
            assert compiled(torch.ones(2), n=DynamicInt(n))[1] is int
    assert compiled.stats().eager_calls == 3


def test_a_dynamic_int_is_an_int() -> None:
    n = DynamicInt(8)
    assert isinstance(n, int)
    assert (n, n + 1, hash(n), str(n), repr(n)) == (8, 9, hash(8), "8", "8")
    assert torch.zeros(n).shape == (8,)


def test_marks_of_torch_count_too() -> None:
    compiled = anyshape.compile(lambda x: x * 2, dynamic=None)
    x = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
    for each in (x, torch.ones(5, 4), torch.ones(8, 4)):
        assert torch.equal(compiled(each), each * 2)
    assert compiled.stats().captures == 1
    compiled(torch.ones(9, 4))
    assert compiled.stats().captures == 2


def test_a_program_that_fixes_what_torch_marks_is_told() -> None:
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(anyshape.errors.AnyshapeError, match="mark_dynamic"):
        anyshape.compile(lambda x: x.view(4, 3))(x)
    torch._dynamo.maybe_mark_dynamic(y := torch.ones(4, 3), 0)
    assert anyshape.compile(lambda x: x.view(4, 3))(y) is not None


def test_our_own_marks_count_more() -> None:
    compiled = anyshape.compile(lambda x: x + 1, dynamic=True)
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0)
    anyshape.mark_static(x, 0)
    compiled(x)
    compiled(torch.ones(4))
    assert compiled.stats().captures == 2
