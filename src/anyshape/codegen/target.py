"""The machine that code is made for, as text: what LLVM calls it, and what its instructions can do
with memory. And code for it that is made of several modules."""

from __future__ import annotations

from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    triple: str
    cpu: str
    #: `+avx2,-avx512f,...`
    features: str
    #: of a vector of f32; LLVM splits what is wider than a register
    lanes: int = 16


@dataclass(frozen=True, slots=True)
class Texts:
    """Code that is made of several modules."""

    #: what goes into the module of the function that calls it
    beside: str
    #: modules of their own; equal ones are the same code
    apart: tuple[str, ...] = ()


#: processors whose name stands for AVX-512 though `features` may not say so
_AVX512 = ("skylake-avx512", "cascadelake", "icelake", "sapphirerapids", "graniterapids", "znver4")
_AVX512 += ("znver5", "emeraldrapids", "cooperlake", "tigerlake", "rocketlake", "x86-64-v4")


@dataclass(frozen=True, slots=True)
class Machine:
    """Widths in bytes of the elements for which LLVM makes one instruction of a masked access, or
    of a gather; of others it makes a branch for each lane."""

    masked: frozenset[int]
    gathered: frozenset[int]
    #: whether a masked access takes no longer than another, for all widths
    masks_freely: bool = False
    #: values of four bytes that a register has
    register: int = 4
    #: whether a float too large for an integer becomes the largest one; the lowest otherwise
    saturates: bool = False
    #: whether a branch costs little beside memory: there is no place to access for no reason
    branches: bool = False
    #: whether there is an instruction that rounds to bf16 and keeps denormals
    rounds_bf16: bool = False
    #: whether a kernel can be started before the one before it has ended, and wait for that itself
    starts_early: bool = False
    #: whether one instruction gives the larger of two floats, and NaN if one is
    has_extremes: bool = False
    #: whether LLVM makes code for every `select` of four bytes: where ones and zeros are left of
    #: it, LLVM 22 fails for GPUs, and ends the process
    selects_bytes: bool = True

    @staticmethod
    def of(target: Target) -> Machine:
        if target.triple.startswith("nvptx64"):
            every, capability = frozenset({1, 2, 4, 8}), int(target.cpu.removeprefix("sm_"))
            return Machine(
                every,
                every,
                saturates=True,
                branches=True,
                rounds_bf16=capability >= 80,
                starts_early=capability >= 90,
                has_extremes=True,
                selects_bytes=False,
            )
        features = target.features.split(",")
        if not target.triple.startswith("x86_64"):
            return Machine(frozenset(), frozenset(), saturates=True)
        named = target.cpu.startswith(_AVX512)
        if "+avx512bw" in features or (named and "-avx512bw" not in features):
            return Machine(frozenset({1, 2, 4, 8}), frozenset({4, 8}), True, 16)
        if target.cpu == "x86-64" and "+avx2" not in features:
            return Machine(frozenset(), frozenset())
        # AVX2 has gathers, but they are slow on many processors.
        return Machine(frozenset({4, 8}), frozenset(), register=8)
