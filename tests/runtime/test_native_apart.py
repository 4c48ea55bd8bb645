"""`apart` of native code against `may_write` of Python: it may be unsure, and never wrong."""

from __future__ import annotations

import random

import pytest
import torch

from anyshape.backends.native.alias_check import may_write, no_alias
from anyshape.backends.native.build import no_alias_function

BASE = torch.zeros(240)
WIDE = torch.zeros(60, dtype=torch.float64)

CASES = [
    ([BASE[:10]], [BASE[10:20]], True),
    ([BASE[:11]], [BASE[10:20]], False),
    ([BASE[10:20]], [BASE[:11]], False),
    ([BASE[:10], BASE[10:20]], [BASE[20:], WIDE], True),
    ([BASE[:10], BASE[9:20]], [], False),
    # readers may share memory with each other
    ([BASE[:10]], [BASE[10:40], BASE[20:60]], True),
    # a long reader hides behind a short one
    ([BASE[30:40]], [BASE[0:50], BASE[10:20]], False),
    # a reader with gaps reaches further than its count says
    ([BASE[30:32]], [BASE[0:60:10]], False),
    ([BASE[51:52]], [BASE[0:60:10]], True),
    # tensors without elements have no memory
    ([BASE[5:5]], [BASE[:10]], True),
    ([BASE[:10]], [BASE[5:5]], True),
    # bytes, not elements
    ([WIDE[:10]], [WIDE[10:]], True),
    ([WIDE[:10]], [WIDE.view(torch.float32)[19:]], False),
    ([WIDE[:10]], [WIDE.view(torch.float32)[20:]], True),
    ([torch.zeros(())], [BASE], True),
    ([torch.nn.Parameter(torch.zeros(3))], [], True),
    ([BASE.view(1, 240)[:, :3].expand(1, 3)], [], True),
]


def found_apart():
    found = no_alias_function()
    if found is None:
        pytest.skip("this torch's memory is not known")
    return found


@pytest.mark.parametrize(("changed", "others", "expected"), CASES)
def test_cases(changed: list[torch.Tensor], others: list[torch.Tensor], expected: bool) -> None:
    assert found_apart()(len(changed), *changed, *others) is expected
    if expected:
        assert may_write(changed, others)


UNSURE = [BASE[0:60:10], BASE.view(12, 20).t(), BASE[:1].expand(4), BASE.as_strided((3, 3), (1, 1))]


@pytest.mark.parametrize("tensor", UNSURE)
def test_changed_tensors_that_are_not_contiguous_are_for_python(tensor: torch.Tensor) -> None:
    assert found_apart()(1, tensor) is False


def test_other_kinds_of_tensors_are_for_python() -> None:
    class Own(torch.Tensor):
        pass

    assert found_apart()(1, torch.zeros(3).as_subclass(Own)) is False


def test_random_views_of_one_memory() -> None:
    apart, numbers = found_apart(), random.Random(0)
    sure = 0
    for _ in range(2000):
        views: list[torch.Tensor] = []
        for _ in range(numbers.randint(1, 5)):
            start = numbers.randint(0, 230)
            step = numbers.choice([1, 1, 1, 3])
            views.append(BASE[start : start + numbers.randint(0, 40) : step])
        written = numbers.randint(1, len(views))
        if apart(written, *views):
            sure += 1
            assert may_write(views[:written], views[written:])
        elif all(view.is_contiguous() for view in views[:written]):
            assert any(reach_overlaps(a, b) for a in views[:written] for b in views if a is not b)
    assert sure > 100


def elements(view: torch.Tensor) -> range:
    first = view.storage_offset()
    return range(first, first + view.numel() * (view.stride(0) or 1), view.stride(0) or 1)


def reach_overlaps(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Their first and last elements are not in order; those between may still be apart."""
    one, two = elements(a), elements(b)
    return bool(one) and bool(two) and one[0] <= two[-1] and two[0] <= one[-1]


def test_it_is_there_for_programs() -> None:
    assert no_alias()(1, torch.zeros(3)) is (no_alias_function() is not None)
