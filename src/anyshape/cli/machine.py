"""This machine: its processors, and native code tried on them at several sizes, beside eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from anyshape import api
from anyshape.cli.self_test_programs import NATIVE, PROGRAMS
from anyshape.config import config
from anyshape.ops.node_meta import REPORT
from anyshape.runtime.loader.build import available_cores, disk_cache
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.runtime.loader.host_target import host_target

SIZES: Final = (5, 1, 0, 2, 64, 1000)


def described() -> Iterator[tuple[str, bool, str]]:
    """What is said of processors: about what, whether native code is made for it, and the text."""
    try:
        target = host_target(disk_cache())
    except NativeUnavailable as error:
        yield "CPU", False, str(error)
    else:
        enabled = {each[1:] for each in target.features.split(",") if each.startswith("+")}
        vectors = [each for each in _VECTORS if each in enabled]
        said = f"{target.cpu}, {', '.join(vectors) or 'no vectors'}, {available_cores()} cores"
        yield "CPU", True, f"{said} ({target.triple})"
    if not torch.cuda.is_available():
        yield "GPU", True, "none that torch knows of"
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        yield (
            "GPU",
            True,
            f"{torch.cuda.get_device_name(index)}, compute capability {major}.{minor}",
        )


#: Features of processors that decide how fast native code is.
_VECTORS: Final = (
    "avx2",
    "fma",
    "avx512f",
    "avx512bf16",
    "amx-bf16",
    "neon",
    "sve",
    "sve2",
    "bf16",
)


def devices() -> list[str]:
    """Those that programs are tried on."""
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def problems(device: str) -> Iterator[str]:
    """What is wrong, one sentence each."""
    for name, program in PROGRAMS.items():
        try:
            with config.patch(on_compile_error="raise", profile=False):
                yield from _problems(name, program, device)
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}"


def _problems(name: str, program: Callable[..., torch.Tensor], device: str) -> Iterator[str]:
    compiled: Any = api.compile(program, dynamic=True)
    for size in SIZES:
        x = torch.linspace(-2, 2, size * 3, device=device).view(size, 3)
        # The first call runs the program itself.
        for _ in range(2):
            if not torch.allclose(compiled(x), program(x), rtol=1e-4, atol=1e-5):
                yield f"{name}: another answer than eager at {size} rows"
    if not compiled.stats().hits:
        yield f"{name}: no call was served by what was compiled"
    reports = [graph.meta.get(REPORT) for entry in compiled.entries for graph in entry.graphs]
    eager = [report.whole for report in reports if report is not None and report.whole]
    if name in NATIVE and (eager or not reports):
        yield f"{name}: {'; '.join(eager) or 'no graph'}; it runs operator by operator"
