"""Random programs and specs: never a wrong answer, and what is suggested works."""

from __future__ import annotations

import importlib.util
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anyshape
from anyshape.errors import ConstraintViolation, ExportInputError
from tests.export.random_programs import Case, random_case

COUNT = 300
BLOCK = 50


def programs(cases: list[Case], folder: Path) -> Any:
    """The programs as a module: what is captured has source."""
    file = folder / "random_programs_made.py"
    file.write_text("import torch\n\n\n" + "\n\n".join(case.source for case in cases))
    spec = importlib.util.spec_from_file_location("random_programs_made", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def inputs(case: Case, values: dict[str, int], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn([values[s] if isinstance(s, str) else s for s in shape], generator=generator)
        for shape in case.shapes
    ]


def sizes_to_try(case: Case, count: int) -> Iterator[dict[str, int]]:
    chance = random.Random(case.number + 1000)
    yield case.example
    for _ in range(count):
        values = {name: chance.choice((0, 1, 2, chance.randint(0, 12))) for name in case.example}
        for name, dim in case.strict.items():
            high = 20 if dim.max is None else dim.max
            values[name] = chance.choice((dim.min, high, chance.randint(dim.min, high)))
        yield values
        yield case.example | {"a": values["a"], "b": values["a"]}


def outcome(function: Any, args: list[torch.Tensor]) -> Any:
    try:
        return function(*args)
    except ExportInputError:
        raise
    except Exception as error:
        return type(error).__name__


def judge(case: Case, function: Any, exported: anyshape.Exported, is_strict: bool) -> int:
    """How many of the sizes it took; each was right."""
    taken = 0
    for seed, values in enumerate(sizes_to_try(case, 6)):
        args = inputs(case, values, seed)
        expected = outcome(function, args)
        try:
            found = outcome(exported, args)
        except ExportInputError:
            # All sizes named, all within their ranges: it must not be refused.
            assert not (is_strict and _is_inside(case, values)), (case.source, case.spec, values)
            continue
        if isinstance(expected, str):
            assert isinstance(found, str), (case.source, values, expected)
            continue
        torch.testing.assert_close(found, expected, equal_nan=True)
        taken += 1
    return taken


def _is_inside(case: Case, values: dict[str, int]) -> bool:
    """Whether the spec, all strict, allows these sizes."""
    for shape, said in zip(case.shapes, case.spec.values(), strict=True):
        for size, item in zip(shape, said, strict=True):
            if isinstance(size, int):
                continue
            if item is None and values[size] != case.example[size]:
                return False
            if isinstance(item, anyshape.Dim):
                high = values[size] if item.max is None else item.max
                if not item.min <= values[size] <= high:
                    return False
            elif item is anyshape.Dim.AUTO:
                return False  # it may have come out narrower
    return True


@pytest.mark.parametrize("start", range(0, COUNT, BLOCK))
def test_random_programs(start: int, tmp_path: Path):
    cases = [random_case(number) for number in range(start, start + BLOCK)]
    module = programs(cases, tmp_path)
    exports = suggestions = taken = 0
    for case in cases:
        function = getattr(module, case.name)
        args = inputs(case, case.example, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exported = anyshape.export(function, args, dynamic_shapes=case.spec)
                is_strict = True
            except ConstraintViolation as error:
                suggestions += 1
                exported = anyshape.export(function, args, dynamic_shapes=error.suggested)
                is_strict = False
            again = anyshape.export(function, args, dynamic_shapes=exported.suggested)
        exports += 1
        taken += judge(case, function, exported, is_strict)
        judge(case, function, again, False)
        if case.number % 10 == 0:
            exported.save(tmp_path / "package.zip")
            judge(case, function, anyshape.load(tmp_path / "package.zip"), is_strict)
    print(f"{exports} exported, {suggestions} after a suggestion, right at {taken} sizes")
    assert taken > 2 * exports
