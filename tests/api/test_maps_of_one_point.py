"""Channels-last images whose feature maps shrink to one point: results are laid out as eager's at
all sizes, whichever came first."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape

torch.manual_seed(0)
_CONV, _SAME = nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.Conv2d(8, 8, 1)
_NORM = nn.BatchNorm2d(8).eval()

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "activation": lambda x: _CONV(x).relu(),
    "norm": lambda x: _NORM(_CONV(x)).relu(),
    "sum": lambda x: (lambda y: y + _SAME(y.relu()))(_CONV(x)),
    "pool": lambda x: F.max_pool2d(x, 4).relu(),
    "average": lambda x: F.avg_pool2d(x, 4).sigmoid() * 2,
    "sliced": lambda x: x[:, :, ::4, ::4].contiguous(memory_format=torch.channels_last).relu(),
    "and up again": lambda x: F.interpolate(_CONV(x).relu(), scale_factor=2.0, mode="bilinear"),
    "transposed": lambda x: x.permute(0, 2, 3, 1)[:, ::4, ::4].relu(),
}
SIZES = [(1, 3, 4, 4), (1, 3, 33, 48), (2, 3, 4, 4), (1, 3, 8, 4), (1, 3, 4, 8), (2, 3, 9, 8)]


def _image(sizes: tuple[int, ...], is_last: bool) -> Tensor:
    made = torch.randn(sizes)
    return made.contiguous(memory_format=torch.channels_last) if is_last else made


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_last", [True, False])
def test_layouts(name: str, is_last: bool) -> None:
    program = PROGRAMS[name]
    with torch.no_grad():
        for first, second in itertools.permutations(SIZES, 2):
            compiled = anyshape.compile(program, dynamic=True)
            for sizes in (first, second):
                x = _image(sizes, is_last)
                found, wanted = compiled(x), program(x)
                torch.testing.assert_close(found, wanted)
                dims = [dim for dim, size in enumerate(wanted.shape) if size != 1]
                assert [found.stride(d) for d in dims] == [wanted.stride(d) for d in dims]
                of = torch.channels_last
                is_so = wanted.is_contiguous(memory_format=of)
                assert found.is_contiguous(memory_format=of) == is_so
