"""`config.cpu_features`: native code uses no instruction beyond the cap, and is kept apart."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch

import anyshape
from anyshape.codegen.target import Target
from anyshape.config import config
from anyshape.errors import BadSetting
from anyshape.loops.expr import fresh_scope
from anyshape.runtime.loader import build
from anyshape.runtime.loader.build import disk_cache
from anyshape.runtime.loader.host_target import HostTarget, capped, host_target
from anyshape.runtime.loader.workers import workers
from tests.codegen.cpu_emulator import emulator
from tests.codegen.kernel_samples import SAMPLES
from tests.codegen.llvm_jit import assembly, emulated
from tests.codegen.one_module import module
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import check_kernel

#: What LLVM says of some processors, abridged.
_V3 = (
    "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,"
    "+popcnt,+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
)
_V4 = "+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"
X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"
MACHINES = {
    "sapphirerapids": HostTarget(
        X86, "sapphirerapids", f"+amx-bf16,+avx512fp16,{_V3},{_V4},+avxvnni,+gfni", 16
    ),
    "znver4": HostTarget(X86, "znver4", f"{_V4},+avx512bf16,{_V3},+sse4a,-amx-bf16", 16),
    "haswell": HostTarget(X86, "haswell", f"{_V3},-avx512f,+invpcid", 16),
    "nehalem": HostTarget(X86, "nehalem", "+64bit,+cmov,+sse,+sse2,+sse4.2,-avx,-avx2", 16),
    "neoverse-v1": HostTarget(ARM, "neoverse-v1", "+bf16,+fp-armv8,+lse,+neon,+sve", 16),
    "cortex-a53": HostTarget(ARM, "cortex-a53", "+crc,+fp-armv8,+neon,-sve", 16),
}


def test_a_cap_is_one_target_for_all_that_have_it():
    avx2 = {capped(MACHINES[name], "avx2") for name in ("sapphirerapids", "znver4", "haswell")}
    assert len(avx2) == 1
    assert "avx512" not in avx2.pop().features
    assert capped(MACHINES["znver4"], "avx512") == capped(MACHINES["sapphirerapids"], "avx512")
    neon = {capped(MACHINES[name], "neon") for name in ("neoverse-v1", "cortex-a53")}
    assert neon == {HostTarget(ARM, "generic", "+fp-armv8,+neon", 16)}


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_is_added(name: str):
    machine = MACHINES[name]
    assert capped(machine, "native") == machine
    for features in ("baseline", "avx2", "avx512", "neon"):
        found = capped(machine, features).features.split(",")
        assert set(found) <= set(machine.features.split(","))


def test_baseline_is_the_lesser_one():
    assert capped(MACHINES["znver4"], "baseline") == capped(MACHINES["znver4"], "avx2")
    assert capped(MACHINES["cortex-a53"], "baseline") == capped(MACHINES["cortex-a53"], "neon")


#: registers and instructions that a cap leaves out
BEYOND = {
    "avx2": r"%zmm|%k[1-7]\b|vdpb|vcvtne2?ps2bf16",
    "neon": r"\bz\d+\.[bhsd]\b|\bptrue\b|\b[su]dot\b|\bbfcvt|\bcas[al]*\b|\bldadd",
}
WIDEST = {"avx2": ("sapphirerapids", r"%ymm"), "neon": ("neoverse-v1", r"\bv\d+\.(4s|2d|16b|8h)")}


@pytest.mark.parametrize("features", WIDEST)
@pytest.mark.parametrize("sample", SAMPLES)
def test_instructions(sample: str, features: str):
    machine, vectors = WIDEST[features]
    with fresh_scope():
        text = assembly(SAMPLES[sample](), Target(*capped(MACHINES[machine], features)))
    assert not re.search(BEYOND[features], text)
    assert re.search(vectors, text)


def test_what_the_cap_leaves_out_is_used_without_it():
    """So that the test above can fail."""
    with fresh_scope():
        kernel = SAMPLES["softmax"]()
        assert re.search(BEYOND["avx2"], assembly(kernel, Target(*MACHINES["sapphirerapids"])))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(300, 302))
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_on_a_processor_that_has_no_more(
    kind: str, seed: int, architecture: str, monkeypatch: pytest.MonkeyPatch
):
    """Code that is capped runs on an emulated Haswell or Cortex-A53."""
    _need(architecture)
    machine = MACHINES["sapphirerapids" if architecture == "x86_64" else "neoverse-v1"]
    target = Target(*capped(machine, "baseline"))
    with monkeypatch.context() as patched:
        patched.setattr(
            "tests.codegen.test_llvm_kernels.compiled",
            lambda kernel, target: emulated(kernel, module({"kernel": kernel}, target), target),
        )
        check_kernel(kind, seed, target)


@pytest.mark.slow
def test_the_emulated_processor_has_no_more():
    _need("x86_64")
    with fresh_scope():
        kernel, target = SAMPLES["softmax"](), Target(*MACHINES["sapphirerapids"])
        run = emulated(kernel, module({"kernel": kernel}, target), target)
        x = torch.randn(64, 64).numpy()
        with pytest.raises(AssertionError):
            run([x, x.copy()], [64, 64])


def _need(architecture: str) -> None:
    if emulator(architecture) is None:
        pytest.skip(f"no qemu-{architecture}")


def test_code_is_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Code of one cap is not found under another, nor made twice."""
    made: list[HostTarget] = []
    original = build.begin

    def counted(source: build.Source, target: HostTarget, *rest: object):
        made.append(target)
        return original(source, target, *rest)  # pyright: ignore[reportArgumentType] as it came

    monkeypatch.setattr(build, "begin", counted)

    def builds(features: str) -> int:
        made.clear()
        with config.patch(cpu_features=features, cache_dir=tmp_path):
            run = anyshape.compile(lambda x: (x.sin() + 1).sum(1), dynamic=True)
            x = torch.randn(5, 70)
            for _ in range(2):
                torch.testing.assert_close(run(x), (x.sin() + 1).sum(1))
            here = host_target(disk_cache())
        assert all(target == here for target in made)
        workers.finish()
        return len(made)

    assert builds("native")
    assert builds("baseline")
    assert builds("baseline") == 0


def test_a_cap_of_another_architecture_is_an_error():
    other = {"x86_64": "neon", "aarch64": "avx2"}[os.uname().machine]
    with pytest.raises(BadSetting, match=r"'avx2' or 'avx512' \(on x86-64\)"):
        config.cpu_features = other  # pyright: ignore[reportAttributeAccessIssue] a mistake
    with pytest.raises(BadSetting):
        config.patch(cpu_features="sse9")
