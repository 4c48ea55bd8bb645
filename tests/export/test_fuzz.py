"""Random programs and specs: never a wrong answer, and what is suggested works."""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape import Dim, Shapes
from anyshape.errors import ConstraintViolation, ExportInputError
from tests.export.random_programs import Case, random_case
from tests.export.random_specs import Sample, declared

COUNT = 300
BLOCK = 50


def programs(cases: Sequence[Case], folder: Path) -> Any:
    """The programs as a module: what is captured has source."""
    file = folder / "random_programs_made.py"
    file.write_text("import torch\n\n\n" + "\n\n".join(case.source for case in cases))
    spec = importlib.util.spec_from_file_location("random_programs_made", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def inputs(sizes: Sequence[Sequence[int]], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(list(each), generator=generator) for each in sizes]


def other_sizes(case: Case, chance: random.Random, count: int) -> Iterator[Sample]:
    """Inside of the spec or not: equal sizes stay equal, or each goes its own way."""
    values = sorted({size for sizes in case.example for size in sizes})
    for _ in range(count):
        put = {value: chance.choice((0, 1, 2, value, chance.randint(0, 12))) for value in values}
        yield Sample([[put[size] for size in sizes] for sizes in case.example], False)
    free = [[chance.choice((0, 1, size, size + 1)) for size in sizes] for sizes in case.example]
    yield Sample(free, False)


def outcome(function: Any, args: list[torch.Tensor]) -> Any:
    try:
        return function(*args)
    except ExportInputError:
        raise
    except Exception as error:
        return type(error).__name__


def judge(case: Case, function: Any, exported: anyshape.Exported, spec: Any) -> int:
    """How many of the sizes it took; each was right. What the spec declares, it has to take."""
    chance = random.Random(case.number + 1000)
    samples = [
        Sample([list(sizes) for sizes in case.example], True),
        *declared(spec, case.parameters, case.example, chance, 8),
        *other_sizes(case, chance, 5),
    ]
    return sum(
        is_right(function, exported, sample, seed, f"{case.source}\n{spec}\n{sample.sizes}")
        for seed, sample in enumerate(samples)
    )


def is_right(
    function: Any, exported: anyshape.Exported, sample: Sample, seed: int, about: str
) -> bool:
    """False where it does not take the sizes, or the program fails with them too."""
    args = inputs(sample.sizes, seed)
    expected = outcome(function, args)
    try:
        found = outcome(exported, args)
    except ExportInputError as error:
        refused = f"{about}\n{error}"
    else:
        refused = ""
        assert isinstance(expected, str) == isinstance(found, str), f"{about}\n{expected} {found}"
        if not isinstance(expected, str):
            torch.testing.assert_close(found, expected, equal_nan=True, msg=about)
            return True
    # An error inside of what is declared is the program's own, if anyone's.
    assert not (refused and sample.must) or isinstance(expected, str), refused
    return False


def pasted(code: str) -> Any:
    names: dict[str, Any] = {"Dim": Dim, "Shapes": Shapes}
    exec(code, names)
    return names["dynamic_shapes"]


def run_case(case: Case, function: Any, seen: Counter[str], package: Path) -> None:
    args = inputs(case.example, 0)
    spec, violation = case.spec, None
    try:
        exported = anyshape.export(function, args, dynamic_shapes=spec)
    except ConstraintViolation as error:
        spec, violation = error.suggested, error
        exported = anyshape.export(function, args, dynamic_shapes=spec)
    if violation is not None:
        code = str(violation.suggested)
        assert all(line in str(violation) for line in code.splitlines())
        again = anyshape.export(function, args, dynamic_shapes=pasted(code))
        judge(case, function, again, spec)
        seen["disagreed"] += 1
        seen["with names"] += "Dim(" in code or "Dim.AUTO" not in code
    seen["taken"] += judge(case, function, exported, spec)
    again = anyshape.export(function, args, dynamic_shapes=exported.suggested)
    judge(case, function, again, exported.suggested)
    if case.number % 10 == 0:
        exported.save(package)
        judge(case, function, anyshape.load(package), spec)


@pytest.mark.filterwarnings("ignore:anyshape")
@pytest.mark.parametrize("start", range(0, COUNT, BLOCK))
def test_random_programs(start: int, tmp_path: Path):
    cases = [random_case(number) for number in range(start, start + BLOCK)]
    module = programs(cases, tmp_path)
    seen: Counter[str] = Counter()
    for case in cases:
        run_case(case, getattr(module, case.name), seen, tmp_path / "package.zip")
    assert seen["taken"] > 2 * BLOCK
    # Enough of them disagree that the suggestions are put to the test, and few of those give up the
    # user's names for AUTO.
    assert seen["disagreed"] > BLOCK / 5
    assert seen["with names"] > 0.8 * seen["disagreed"]
