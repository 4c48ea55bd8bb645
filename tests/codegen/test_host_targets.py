"""Host functions for machines other than this one: they are made, and read."""

from __future__ import annotations

import pytest

from anyshape.backends.native.source import source_of
from anyshape.runtime.loader.host_target import HostTarget
from anyshape.runtime.loader.torch_abi import torch_abi
from anyshape.symbolic import floordiv
from tests.codegen.assembler import build_assembly
from tests.runtime.native_samples import S0, S1, added, buffer, called, segment, texts_of
from tests.runtime.test_native_externs import convolved, whole

TARGETS = {
    "AVX2": HostTarget("x86_64-unknown-linux-gnu", "haswell", "", 16),
    "NEON": HostTarget("aarch64-unknown-linux-gnu", "neoverse-n1", "", 16),
    "SVE": HostTarget("aarch64-unknown-linux-gnu", "neoverse-v1", "", 16),
}


def divided():
    sizes = (floordiv(S0, S1 + 1), S0 % 7)
    buffers = [buffer("x", "input", S0), buffer("y", "output", *sizes)]
    return segment(buffers, [called("cumsum", None, whole("x", S0), 0, "f64")], (S0, S1))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_assembly(target: HostTarget):
    for made in (added(), divided(), convolved((8 * S1 * S1, S1 * S1, S1, 1))):
        source = source_of(made, texts_of, lambda kernel: 0, target, torch_abi())
        text = build_assembly(source.text, *target[:3])
        assert "anyshape_segment.run" in text
