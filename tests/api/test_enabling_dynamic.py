"""The reference's "Enabling Dynamic Behavior" and "User Annotations", heading by heading, and each
pitfall that the text warns of. Runs and ranks are real processes in `tests/profile`, `tests/ranks`
and `tests/slow`; here an attempt ends with `reset`, and another rank is a thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore

import anyshape
from anyshape import DynamicInt, config
from anyshape.errors import DataDependentError, DynamicDimWasFixed
from anyshape.policy.observations import of_sizes
from anyshape.profile import store
from anyshape.profile.show import dynamic_sources, function_lines
from anyshape.ranks import agree
from anyshape.ranks.agreement_protocol import AgreementProtocol, Patience
from anyshape.ranks.group import Current, Group


def times_its_size(x: Tensor) -> Tensor:
    return x * x.size()[0]


def specialised(x: Tensor) -> Tensor:
    if x.size()[0] == 10:
        return x * 10
    if x.size()[0] <= 30:
        return x * 200
    return x * x.size()[0]


def run(compiled: Any, function: Callable[..., Any], *sizes: int) -> int:
    for size in sizes:
        x = torch.rand(size)
        torch.testing.assert_close(compiled(x), function(x))
    return compiled.stats().graphs


def stands(compiled: Any, source: str) -> tuple[str, str, str]:
    """State, whose word, since which compile (the second number), in the last entry."""
    entry = compiled.explain().entries[-1]
    (found,) = [each for each in entry.sizes if each.source == source]
    return found.state, found.by, found.since.partition("/")[2]


# -- What does it mean for a size/integer to be dynamic? / What is a specialization? ---------------


@pytest.mark.parametrize(("dynamic", "graphs"), [(False, 4), (True, 1)])
def test_dynamic_means_one_graph(dynamic: bool, graphs: int) -> None:
    compiled = anyshape.compile(times_its_size, dynamic=dynamic)
    assert run(compiled, times_its_size, 10, 20, 30, 40) == graphs


def test_specialisation_makes_a_graph_for_each_branch() -> None:
    compiled = anyshape.compile(specialised, dynamic=True)
    assert run(compiled, specialised, 10, 20, 30, 40, 50) == 3
    first = compiled.explain().entries[0].sizes[0]
    assert (first.state, first.values) == ("specialized", "10")


# -- Automatic dynamic -----------------------------------------------------------------------------


def test_automatic_dynamic() -> None:
    compiled = anyshape.compile(times_its_size)
    assert run(compiled, times_its_size, 10) == 1
    assert stands(compiled, "L['x'].size()[0]") == ("static", "the default", "0")
    assert run(compiled, times_its_size, 20, 30, 40) == 2
    assert stands(compiled, "L['x'].size()[0]") == ("dynamic", "automatic dynamic", "1")
    assert "it was seen as 10, and it is 20 now" in str(compiled.explain())


def test_automatic_dynamic_of_integers() -> None:
    compiled = anyshape.compile(lambda x, n: x * n)
    x = torch.ones(2)
    assert [compiled(x, n)[0].item() for n in (3, 4, 5, -6)] == [3, 4, 5, -6]
    assert compiled.stats().graphs == 2
    assert stands(compiled, "L['n']") == ("dynamic", "automatic dynamic", "1")


def test_automatic_dynamic_of_all_sizes() -> None:
    """One size at a time is a compile for each; all at once are one, whatever changes next."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum(0) + y.sum()

    shapes = ((2, 3, 4), (5, 3, 4), (5, 6, 4), (5, 6, 7), (8, 1, 9))
    calls = [(torch.rand(a, b), torch.rand(c)) for a, b, c in shapes]
    graphs = {}
    for setting in (True, "all"):
        with config.patch(automatic_dynamic=setting):
            compiled = anyshape.compile(program)
            for x, y in calls:
                torch.testing.assert_close(compiled(x, y), program(x, y))
            graphs[setting] = compiled.stats().graphs
    assert graphs == {True: 4, "all": 2}
    assert stands(compiled, "L['x'].size()[0]") == ("dynamic", "automatic dynamic", "1")
    assert stands(compiled, "L['y'].size()[0]") == ("dynamic", "automatic_dynamic='all'", "1")
    assert "by automatic_dynamic='all', since" in str(compiled.explain())


def test_automatic_dynamic_of_all_sizes_but_those_that_the_program_fixes() -> None:
    with config.patch(automatic_dynamic="all"):
        linear = torch.nn.Linear(4, 3)
        compiled = anyshape.compile(lambda x: linear(x))
        for n in (2, 3, 5):
            compiled(torch.rand(n, 4))
        assert compiled.stats().graphs == 2
        assert stands(compiled, "L['x'].size()[1]")[:2] == ("specialized", "the program")


def test_automatic_dynamic_can_be_switched_off() -> None:
    with config.patch(automatic_dynamic=False):
        compiled = anyshape.compile(times_its_size)
        assert run(compiled, times_its_size, 10, 20, 30) == 3


# -- torch.compile (dynamic=true) ------------------------------------------------------------------


def test_dynamic_true_makes_all_sizes_and_integers_dynamic() -> None:
    compiled = anyshape.compile(lambda x, n: x.sum(0) * n, dynamic=True)
    compiled(torch.rand(3, 4), 5)
    assert len(compiled.entries[0].symbols) == 3
    assert stands(compiled, "L['n']") == ("dynamic", "compile(dynamic=...)", "0")


def test_assume_static_by_default_off_is_the_same() -> None:
    with config.patch(assume_static_by_default=False):
        compiled = anyshape.compile(times_its_size)
        assert run(compiled, times_its_size, 10, 20, 30) == 1


def test_pitfall_dynamic_true_is_error_prone() -> None:
    """The text warns of every size: one that the program needs as it is, is fixed, with its line,
    and the others stay free."""

    def f(x: Tensor) -> Tensor:
        return x.view(-1, 2, 3).sum(1) * x.size()[0]

    compiled = anyshape.compile(lambda x: f(x) if x.size()[1] == 6 else x, dynamic=True)
    for size in (4, 0, 1, 7):
        x = torch.rand(size, 6)
        torch.testing.assert_close(compiled(x), f(x))
    assert compiled.stats().graphs == 1
    assert stands(compiled, "L['x'].size()[1]")[:2] == ("specialized", "the program")


# -- Profile-Guided Optimization (PGO) -------------------------------------------------------------


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Path]:
    with config.patch(profile=True, cache_dir=tmp_path):
        anyshape.reset()
        yield store.file_in(str(tmp_path))
        anyshape.reset()


def attempt(function: Callable[..., Any], *sizes: int) -> Any:
    """A run of the program: `reset` makes the next one a new process, as far as it knows."""
    anyshape.reset()
    compiled = anyshape.compile(function)
    run(compiled, function, *sizes)
    return compiled


@pytest.mark.usefixtures("profile")
def test_what_was_dynamic_in_attempt_0_is_so_from_the_start_of_attempt_1() -> None:
    assert attempt(times_its_size, 10, 20).stats().graphs == 2
    again = attempt(times_its_size, 10, 20)
    assert again.stats().graphs == 1
    assert stands(again, "L['x'].size()[0]") == ("dynamic", "the profile", "0")


@pytest.mark.usefixtures("profile")
def test_a_size_that_is_new_in_attempt_1_becomes_dynamic() -> None:
    assert attempt(times_its_size, 10).stats().graphs == 1
    again = attempt(times_its_size, 20)
    assert again.stats().graphs == 1
    assert stands(again, "L['x'].size()[0]") == ("dynamic", "the profile", "0")
    assert "has it as 10, and it is 20 now" in str(again.explain())


def test_without_a_profile_attempt_1_repeats_attempt_0() -> None:
    for _ in range(2):
        assert attempt(times_its_size, 10, 20).stats().graphs == 2


def test_identifying_dynamic_elements_marked_by_pgo(profile: Path) -> None:
    """Each `?` stands for several values; names can be copied into the list."""

    def func(m: Any, x: Tensor) -> Tensor:
        return x * m

    anyshape.reset()
    compiled = anyshape.compile(func)
    for m, size in ((2, 3), (torch.rand(4), 4)):
        compiled(m, torch.rand(size))
    anyshape.reset()
    (record,) = store.read(profile).values()
    assert list(function_lines(record)) == [
        "L['m']: fully dynamic scalar or tensor",
        "L['x']: tensor size=[?] stride=[1]",
    ]
    copied = ",".join(dynamic_sources([record]))
    assert copied == "L['m'],L['x']"
    with config.patch(profile=False, dynamic_sources=copied):
        compiled = anyshape.compile(func)
        compiled(2, torch.rand(3))
        assert stands(compiled, "L['x'].size()[0]")[1] == "config.dynamic_sources"


@pytest.mark.usefixtures("profile")
def test_pitfall_pgo_is_no_guarantee_that_it_stays_dynamic() -> None:
    attempt(specialised, 10, 20)
    again = attempt(specialised, 10)
    assert stands(again, "L['x'].size()[0]") == ("specialized", "the program", "0")
    assert "x.size()[0] == 10" in str(again.explain())


# -- Compiler Collective ---------------------------------------------------------------------------


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """This is rank 0 of two."""
    held = HashStore()

    class Two(Current):
        made = Group(0, 2, weakref.ref(held))

        def group(self) -> Group | None:
            return self.made

    monkeypatch.setattr(agree, "current", Two())
    return held


@config.patch(enable_compiler_collectives=True, collective_timeout_seconds=20.0)
def test_compiler_collective(ranks: Any) -> None:
    code, file = times_its_size.__code__, Path(__file__).name
    name = f"anyshape/1/1/{file}:{code.co_firstlineno}:{times_its_size.__qualname__}#0"
    other = AgreementProtocol(ranks, name, 1, 2, Patience())
    thread = threading.Thread(target=lambda: other.agree({"L['x']": of_sizes((20,))}, 20.0))
    thread.start()
    compiled = anyshape.compile(times_its_size)
    assert run(compiled, times_its_size, 10, 20, 30) == 1
    thread.join()
    assert stands(compiled, "L['x'].size()[0]") == ("dynamic", "rank 0 and rank 1", "0")


@pytest.mark.usefixtures("ranks")
@config.patch(enable_compiler_collectives=True, collective_timeout_seconds=0.2)
def test_pitfall_a_rank_that_does_not_compile_is_no_deadlock() -> None:
    compiled = anyshape.compile(times_its_size)
    with pytest.warns(UserWarning, match="rank 1 did not come to compile times_its_size"):
        compiled(torch.rand(10))
    assert run(compiled, times_its_size, 20, 30) == 2


# -- User Annotations: Dynamic Allow List ----------------------------------------------------------


class Model(nn.Module):
    shift: Tensor

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size))
        self.register_buffer("shift", torch.rand(size))
        self.times = size

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.shift * self.times


class Sums(Model):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum() * self.weight.sum() + self.shift.sum() * self.times


LISTED = [
    ("L['self']._parameters['weight']", "L['self']._parameters['weight'].size()[0]"),
    ("L['self']._buffers['shift']", "L['self']._buffers['shift'].size()[0]"),
    ("L['self'].times", "L['self'].times"),
    ("L['x']", "L['x'].size()[0]"),
]


@pytest.mark.parametrize(("name", "source"), LISTED)
def test_the_list_stands_above_all_flags_that_force_static_shapes(name: str, source: str) -> None:
    with config.patch(
        dynamic_sources=name,
        force_parameter_static_shapes=True,
        force_nn_module_property_static_shapes=True,
        allow_unspec_int_on_nn_module=False,
        specialize_int=True,
    ):
        compiled: Any = anyshape.compile(Model(), dynamic=False)
        compiled(torch.rand(4))
    assert [symbol.source for symbol in compiled.entries[0].symbols.values()] == [source]


def test_the_list_is_no_error_if_it_gets_specialised_or_does_not_exist() -> None:
    with config.patch(dynamic_sources="L['x'],L['nobody']"):
        compiled = anyshape.compile(specialised)
        assert run(compiled, specialised, 10, 20, 40) == 3


# -- mark_dynamic ----------------------------------------------------------------------------------


def marked(size: int, mark: Any = anyshape.mark_dynamic) -> Tensor:
    x = torch.rand(size)
    mark(x, 0)
    return x


def test_mark_dynamic_avoids_the_first_static_compile() -> None:
    compiled = anyshape.compile(times_its_size)
    for size in (10, 20, 30):
        x = marked(size)
        torch.testing.assert_close(compiled(x), times_its_size(x))
    assert compiled.stats().graphs == 1
    assert stands(compiled, "L['x'].size()[0]") == ("dynamic", "a mark", "0")


def test_mark_dynamic_fails_if_it_gets_specialised() -> None:
    with pytest.raises(DynamicDimWasFixed, match=r"if x\.size\(\)\[0\] == 10"):
        anyshape.compile(specialised)(marked(10))


def test_pitfall_the_error_misleads() -> None:
    """Where graphs do not converge to one, the text warns of a misleading error. Graphs that leave
    the size free are none: there is nothing to complain about, and each has its range."""
    compiled = anyshape.compile(specialised)
    for size in (20, 40):
        x = marked(size)
        torch.testing.assert_close(compiled(x), specialised(x))
    ranges = [str(s.range) for e in compiled.entries for s in e.symbols.values()]
    assert ranges == ["[0, 30]", "[31, int_oo]"]
    with pytest.raises(DynamicDimWasFixed) as raised:
        compiled(marked(10))
    (condition,) = raised.value.conditions
    assert "x.size()[0] == 10" in condition


def test_pitfall_marks_do_not_work_for_integers() -> None:
    compiled = anyshape.compile(lambda x, n: x * n)
    for n in (3, 4, 5):
        compiled(torch.ones(2), DynamicInt(n))
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize(
    ("flag", "which"),
    [
        ("force_parameter_static_shapes", "weight"),
        ("force_nn_module_property_static_shapes", "shift"),
    ],
)
def test_pitfall_flags_stand_above_mark_dynamic(flag: str, which: str) -> None:
    others = {
        "force_parameter_static_shapes": False,
        "force_nn_module_property_static_shapes": False,
    }
    for forced in (True, False):
        model = Sums()
        anyshape.mark_dynamic(getattr(model, which), 0)
        with config.patch(**others | {flag: forced}):
            compiled: Any = anyshape.compile(model)
            compiled(torch.rand(4))
        is_dynamic = any(which in s.source for s in compiled.entries[0].symbols.values())
        assert is_dynamic is not forced
        assert (f"mark_dynamic: config.{flag} is on" in str(compiled.explain())) is forced


# -- maybe_mark_dynamic ----------------------------------------------------------------------------


def test_maybe_mark_dynamic_does_not_fail() -> None:
    compiled = anyshape.compile(specialised)
    for size in (10, 20, 30, 40, 50):
        x = marked(size, anyshape.maybe_mark_dynamic)
        torch.testing.assert_close(compiled(x), specialised(x))
    assert compiled.stats().graphs == 3


@pytest.mark.parametrize("size", [0, 1])
def test_zero_and_one(size: int) -> None:
    """The text: sizes 0 and 1 specialise, so `maybe` is needed. Here they are ordinary sizes."""
    compiled = anyshape.compile(times_its_size)
    compiled(marked(size))
    assert run(compiled, times_its_size, 0, 1, 2, 7) == 1
    with config.patch(specialize_zero_one=True):
        anyshape.reset()
        with pytest.raises(DynamicDimWasFixed, match="specialize_zero_one"):
            compiled(marked(size))
        compiled(marked(size, anyshape.maybe_mark_dynamic))
        assert stands(compiled, "L['x'].size()[0]")[0] == "static"


# -- mark_unbacked ---------------------------------------------------------------------------------


def test_mark_unbacked() -> None:
    compiled = anyshape.compile(times_its_size)
    compiled(marked(1, anyshape.mark_unbacked))
    assert stands(compiled, "L['x'].size()[0]") == ("unbacked", "a mark", "0")
    assert run(compiled, times_its_size, 0, 1, 2, 7) == 1


def test_pitfall_unbacked_sizes_and_branches() -> None:
    """The text warns of an error that turns into a graph break: what is asked of the size is a
    branch of the compiled program, and an error where one graph was asked for."""
    compiled = anyshape.compile(specialised)
    compiled(marked(20, anyshape.mark_unbacked))
    assert run(compiled, specialised, 10, 20, 40) >= 1
    assert compiled.stats().graph_breaks >= 1
    whole = anyshape.compile(specialised, fullgraph=True)
    with pytest.raises(DataDependentError):
        whole(marked(20, anyshape.mark_unbacked))


# -- backed_size_oblivious -------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1, 2])
def test_backed_size_oblivious(first: int) -> None:
    """What does not ask about 0 and 1 is not compiled for them."""
    assert config.backed_size_oblivious

    def f(x: Tensor) -> Tensor:
        return (x.unsqueeze(0).expand(2, -1) + 1).sum(0)

    compiled = anyshape.compile(f, dynamic=True)
    assert run(compiled, f, first, 0, 1, 2, 5) == 1


# -- Why Is It Not Marked Dynamic? -----------------------------------------------------------------

FLAGS = [
    ("force_parameter_static_shapes", False, "_parameters['weight']"),
    ("force_nn_module_property_static_shapes", False, "_buffers['shift']"),
    ("allow_unspec_int_on_nn_module", True, ".times"),
]


@pytest.mark.parametrize(("flag", "free", "source"), FLAGS)
def test_the_flags_to_verify(flag: str, free: bool, source: str) -> None:
    # A parameter on a module is a property of the module too: both flags are about it.
    others: dict[str, Any] = {name: value for name, value, _ in FLAGS}
    for value in (not free, free):
        with config.patch(**others | {flag: value}):
            compiled: Any = anyshape.compile(Sums(), dynamic=True)
            compiled(torch.rand(4))
            explained = str(compiled.explain())
        found = any(source in s.source for s in compiled.entries[0].symbols.values())
        assert found is (value is free)
        assert (f"config.{flag}" in explained) is (value is not free)


@pytest.mark.parametrize("how", ["function", "method"])
def test_flags_hold_for_modules_that_are_not_called(how: str) -> None:
    """A module that is an argument, or whose method is compiled, is a module."""
    model = Model()
    target = Model.forward if how == "function" else model.forward
    compiled: Any = anyshape.compile(target, dynamic=True)
    given = (model,) if how == "function" else ()
    compiled(*given, torch.rand(4))
    assert [s.source for s in compiled.entries[0].symbols.values()] == ["L['x'].size()[0]"]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return x * self.steps


def test_counters_become_dynamic_unless_the_flag_is_set() -> None:
    compiled: Any = anyshape.compile(Counter())
    for _ in range(6):
        compiled(torch.ones(2))
    assert compiled.stats().graphs == 2
    with config.patch(allow_unspec_int_on_nn_module=False):
        strict: Any = anyshape.compile(Counter())
        for step in range(1, 7):
            assert strict(torch.ones(1)).item() == step
    assert strict.stats().graphs == 6


def test_specialize_int() -> None:
    with config.patch(specialize_int=True):
        compiled = anyshape.compile(lambda x, n: x * n, dynamic=True)
        for n in (3, 4, 5):
            compiled(torch.ones(2), n)
    assert compiled.stats().graphs == 3


def test_config_patch_is_a_decorator_and_a_context() -> None:
    @config.patch(specialize_int=True, automatic_dynamic=False)
    def inside() -> tuple[bool, bool | str]:
        return config.specialize_int, config.automatic_dynamic

    assert inside() == (True, False)
    assert (config.specialize_int, config.automatic_dynamic) == (False, True)
    with config.patch(specialize_int=True):
        assert config.is_chosen("specialize_int")
        assert config.specialize_int
    assert not config.specialize_int
    assert not config.is_chosen("specialize_int")
