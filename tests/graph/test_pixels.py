"""Images that native code stores for convolutions have the channels of a pixel side by side; the
program sees none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

import anyshape
from anyshape.graph.plan import Native, Plan
from anyshape.loops.program import Area
from tests.graph.test_equal_layers import Lowered
from tests.native.checks import check

torch.manual_seed(0)
W3, W8, B8 = torch.randn(8, 3, 3, 3) / 8, torch.randn(8, 8, 3, 3) / 16, torch.randn(8)
DEPTH, POINT = torch.randn(8, 1, 3, 3) / 4, torch.randn(4, 8, 1, 1) / 4
WIDE = torch.randn(8, 16, 3, 3) / 32
SCALE, MEAN, SPREAD = torch.rand(8), torch.rand(8), torch.rand(8) + 0.5


def enter(x: Tensor) -> Tensor:
    return F.conv2d(x, W3, B8, padding=1).relu()


def chain(x: Tensor) -> Tensor:
    return F.conv2d(F.conv2d(enter(x), W8, padding=1).relu(), W8, B8, padding=1)


def returned_between(x: Tensor) -> tuple[Tensor, Tensor]:
    y = enter(x)
    return y, F.conv2d(y, W8, padding=1)


def viewed_between(x: Tensor) -> tuple[Tensor, Tensor]:
    y = enter(x)
    return y.flatten(1).sum(1) + y[:, 1].amax((1, 2)), F.conv2d(y, W8, padding=1)


def viewed_result(x: Tensor) -> tuple[Tensor, Tensor]:
    y = F.conv2d(enter(x), W8, padding=1)
    return y.permute(0, 2, 3, 1), y.reshape(x.shape[0], 4, -1)


def written_between(x: Tensor) -> Tensor:
    y = enter(x)
    y[:, 2] *= 2
    y.add_(1)
    return F.conv2d(y, W8, padding=1).mul_(2)


def side_by_side(x: Tensor) -> Tensor:
    y = enter(x)
    z = F.conv2d(y, W8, padding=1).tanh()
    return F.conv2d(torch.cat([y, z], 1), WIDE, padding=1)


def resized(x: Tensor) -> Tensor:
    low = F.conv2d(enter(x), W8, stride=2, padding=1)
    high = F.interpolate(low.tanh(), size=x.shape[-2:], mode="bilinear", align_corners=False)
    return F.conv2d(torch.cat([enter(x), high], 1), WIDE)


def by_torch_between(x: Tensor) -> tuple[Tensor, Tensor]:
    """torch resizes it, which native code does not do in this way."""
    y = enter(x)
    return F.interpolate(y, scale_factor=2, mode="bicubic"), F.conv2d(y, W8, padding=1)


def normalised(x: Tensor) -> Tensor:
    y = F.batch_norm(F.conv2d(enter(x), W8), MEAN, SPREAD, SCALE, B8)
    return F.conv2d(y.relu() + 1, W8)


def normalised_by_groups(x: Tensor) -> Tensor:
    return F.conv2d(F.group_norm(F.conv2d(enter(x), W8), 4, SCALE, B8).relu(), W8)


def separable(x: Tensor) -> Tensor:
    return F.conv2d(F.conv2d(enter(x), DEPTH, padding=1, groups=8).relu(), POINT)


def skipped(x: Tensor) -> Tensor:
    y = enter(x)
    for _ in range(3):
        y = y + F.conv2d(y.relu(), W8, padding=1)
    return F.conv2d(y, POINT) + x.mean(1, keepdim=True)


def reduced(x: Tensor) -> tuple[Tensor, Tensor]:
    y = F.conv2d(enter(x), W8, dilation=2, padding=2).sigmoid()
    return y.mean((2, 3)), F.conv2d(y, POINT).softmax(1)


def pooled(x: Tensor) -> Tensor:
    return F.conv2d(F.max_pool2d(F.conv2d(enter(x), W8).relu(), 2), W8)


PROGRAMS: list[Callable[[Tensor], Any]] = [
    *(chain, returned_between, viewed_between, viewed_result, written_between, side_by_side),
    *(resized, by_torch_between, normalised, normalised_by_groups, separable, skipped, reduced),
    pooled,
]
#: The first decides; the others run what was decided.
SIZES = ((2, 40, 36), (1, 33, 47), (3, 24, 24), (2, 9, 10), (1, 64, 9))


def channels_side_by_side(plans: list[Plan]) -> list[Area]:
    """The images that convolutions read so."""
    return [
        step.extern.arguments[1]
        for plan in plans
        for step in plan.steps
        if isinstance(step, Native)
        and step.extern.function == "convolution"
        and step.extern.arguments[1].strides[1] == 1
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_as_eager(program: Callable[[Tensor], Any]) -> None:
    called = ["interpolate"] if program is by_torch_between else []
    plans = check(program, [(torch.randn(n, 3, h, w),) for n, h, w in SIZES], called=called)
    assert channels_side_by_side(plans.made)
    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad():
        for n, h, w in SIZES:
            image = torch.randn(n, 3, h, w)
            found, expected = tree_leaves(compiled(image.clone())), tree_leaves(program(image))
            assert [each.stride() for each in found] == [each.stride() for each in expected]


def test_the_first_image_is_small() -> None:
    plans = check(chain, [(torch.randn(2, 3, 4, 5),), (torch.randn(2, 3, 90, 50),)])
    assert not channels_side_by_side(plans.made)


def test_a_given_image_is_copied_if_the_result_is_larger() -> None:
    def one(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, padding=1)

    small, large = torch.randn(8, 3, 3, 3), torch.randn(4, 3, 3, 3)
    image = torch.randn(1, 3, 30, 30)
    assert channels_side_by_side(check(lambda x: one(x, small), [(image,)]).made)
    assert not channels_side_by_side(check(lambda x: one(x, large), [(image,)]).made)


def test_images_that_the_program_has_so() -> None:
    image = torch.randn(2, 3, 40, 36).to(memory_format=torch.channels_last)
    check(chain, [(image,), (torch.randn(1, 3, 30, 9).to(memory_format=torch.channels_last),)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_stay(dtype: torch.dtype) -> None:
    def program(x: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(x, W3.to(dtype)).relu(), W8.to(dtype))

    assert not channels_side_by_side(check(program, [(torch.randn(1, 3, 40, 40).to(dtype),)]).made)


def test_equal_layers() -> None:
    """What is left out of many layers is what was lowered of the first ones."""
    layers = [torch.randn(8, 8, 3, 3) / 32 for _ in range(12)]

    class Deep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterList(layers)

        def forward(self, x: Tensor) -> Tensor:
            y = enter(x)
            for weight in self.weights:
                y = y + F.conv2d(y.relu(), weight, padding=1)
            return y

    found = Lowered()
    with torch.no_grad():
        anyshape.compile(Deep(), dynamic=True, backend=found)(torch.randn(1, 3, 40, 40))
        check(Deep(), [(torch.randn(n, 3, h, w),) for n, h, w in SIZES[:3]])
    assert channels_side_by_side(found.plans)
