"""Programs on sizes that only the data knows: one graph, or the check that makes it one."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape.errors import DataDependentError
from tests import devices
from tests.data_dependent.unbacked_programs import PROGRAMS, Expected, Program

pytestmark = [
    # Of nothing there is no variance, and no way to say so but a warning.
    pytest.mark.filterwarnings("ignore:.*degrees of freedom"),
    pytest.mark.filterwarnings("ignore:_check_is_size"),
]

#: How much is chosen in each call, after the first.
COUNTS = (0, 1, 7, 2, 1, 0, 9, 3, 5, 8, 6)
#: A capture may meet 0 and 1 first: they are sizes as others are.
FIRST = (4, 0, 1)
AMONG = 10


def inputs_of(program: Program, first: int, *, vary: bool = False) -> Iterator[tuple[Any, ...]]:
    rng = devices.generator(first)
    for index, count in enumerate((first, *COUNTS)):
        if count not in program.never:
            yield program.inputs(count, AMONG + (index if vary else 0), rng)


def firsts(program: Program) -> list[int]:
    return [first for first in FIRST if first not in program.never]


def seeded(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    torch.manual_seed(3)
    return function(*arguments)


def _steps(tensor: torch.Tensor) -> list[int]:
    """The strides that mean something: of sizes above 1, in a tensor with elements."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1] if tensor.numel() else []


def assert_same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted), f"{type(found)} for {type(wanted)}"
    if isinstance(wanted, torch.Tensor):
        assert found.dtype is wanted.dtype
        assert found.shape == wanted.shape
        assert _steps(found) == _steps(wanted)
        assert found.requires_grad == wanted.requires_grad
        torch.testing.assert_close(found, wanted, equal_nan=True)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key, value in wanted.items():
            assert_same(found[key], value)
    elif isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert found == wanted


def cases(*expected: Expected) -> list[Any]:
    """The programs of which this is expected; all, for how they run without fullgraph."""
    return [
        pytest.param(each, id=each.name, marks=_failing(each.todo if expected else "", each.wrong))
        for each in PROGRAMS
        if not expected or each.expected in expected
    ]


def _failing(*reasons: str) -> Any:
    reason = "; ".join(filter(None, reasons))
    return pytest.mark.xfail(strict=True, reason=reason) if reason else ()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    anyshape.reset()


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 70
    assert len({each.name for each in PROGRAMS}) == len(PROGRAMS)


@pytest.mark.parametrize("program", cases(Expected.ONE_GRAPH))
def test_one_graph_serves_all(program: Program) -> None:
    for first in firsts(program):
        compiled = anyshape.compile(program.function, fullgraph=True)
        for arguments in inputs_of(program, first):
            assert_same(seeded(compiled, arguments), seeded(program.function, arguments))
        stats = compiled.stats()
        assert (stats.graphs, stats.captures, stats.eager_calls) == (1, 1, 0), f"{first} first"


@pytest.mark.parametrize("program", cases(Expected.ONE_GRAPH))
def test_one_graph_serves_all_among_any_number(program: Program) -> None:
    first = firsts(program)[0]
    compiled = anyshape.compile(program.function, fullgraph=True, dynamic=True)
    for arguments in inputs_of(program, first, vary=True):
        assert_same(seeded(compiled, arguments), seeded(program.function, arguments))
    stats = compiled.stats()
    assert (stats.graphs, stats.captures, stats.eager_calls) == (1, 1, 0)


@pytest.mark.parametrize("program", cases(Expected.MEANINGS))
def test_a_graph_for_each_meaning(program: Program) -> None:
    for first in firsts(program):
        compiled = anyshape.compile(program.function, fullgraph=True)
        for arguments in inputs_of(program, first):
            assert_same(seeded(compiled, arguments), seeded(program.function, arguments))
        stats = compiled.stats()
        assert stats.graphs <= 3
        assert stats.eager_calls == 0


@pytest.mark.parametrize("program", cases())
def test_is_eager_without_fullgraph(program: Program) -> None:
    one = program.expected is Expected.ONE_GRAPH
    for first in firsts(program)[-1:] if one else firsts(program):
        compiled = anyshape.compile(program.function)
        for arguments in inputs_of(program, first):
            assert_same(seeded(compiled, arguments), seeded(program.function, arguments))
        stats = compiled.stats()
        assert stats.graphs <= program.graphs
        assert bool(stats.eager_calls) == bool(program.leaves), compiled.explain()


@pytest.mark.parametrize("program", cases(Expected.BRANCHES))
def test_a_question_without_a_check(program: Program) -> None:
    compiled = anyshape.compile(program.function, fullgraph=True)
    with pytest.raises(DataDependentError) as raised:
        compiled(*next(inputs_of(program, 4)))
    assert not raised.value.suggestions


@pytest.mark.parametrize("program", cases(Expected.NEEDS_CHECK))
def test_the_suggested_check_makes_one_graph(program: Program, tmp_path: Path) -> None:
    held = violated = 0
    for first in firsts(program):
        directory = tmp_path / str(first)
        directory.mkdir()
        function = checked(program, first, directory)
        compiled = anyshape.compile(function, fullgraph=True)
        for arguments in inputs_of(program, first):
            try:
                wanted = function(*arguments)
            except RuntimeError:
                violated += 1
                with pytest.raises(RuntimeError):
                    compiled(*arguments)
            else:
                held += 1
                assert_same(compiled(*arguments), wanted)
        assert compiled.stats().graphs == 1, f"{first} first"
    assert held
    assert violated


def checked(program: Program, first: int, directory: Path) -> Callable[..., Any]:
    """The program with the checks that its errors suggest; it has to ask at least once."""
    function = program.function
    source = inspect.getsource(sys.modules[function.__module__])
    for pasted in range(program.checks + 1):
        error = asked(function, program, first)
        if error is None:
            break
        assert pasted < program.checks, f"it still asks: {error}"
        source = with_check(source, error)
        function = loaded(source, program.name, directory / f"pasted_{pasted}.py")
    assert function is not program.function, "nothing was asked"
    return function


def asked(function: Callable[..., Any], program: Program, first: int) -> DataDependentError | None:
    try:
        anyshape.compile(function, fullgraph=True)(*next(inputs_of(program, first)))
    except DataDependentError as error:
        return error
    return None


def with_check(source: str, error: DataDependentError) -> str:
    """The text of a module with the first suggestion pasted above the line that asks."""
    found = re.search(r":(\d+)( in |$)", error.where or "")
    assert found is not None, error.where
    lines = source.splitlines()
    asking = int(found[1]) - 1
    indent = len(lines[asking]) - len(lines[asking].lstrip())
    lines.insert(asking, textwrap.indent(error.suggestions[0], " " * indent))
    return "\n".join(lines) + "\n"


def loaded(source: str, name: str, file: Path) -> Callable[..., Any]:
    """A function of a module with this text, in a file of its own."""
    file.write_text(source)
    module = types.ModuleType(f"pasted_{name}_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    exec(compile(source, str(file), "exec"), vars(module))
    return getattr(module, name)
