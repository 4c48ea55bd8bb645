"""A segment on a GPU: its kernels there, and a host function that starts them one after the other
in torch's current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import torch

from anyshape.backends.native.build import host_helpers, key_of_code, source_text
from anyshape.codegen.nvptx.block_reduce import LEFT_FOR_KERNELS
from anyshape.codegen.nvptx.choice import USUAL, GpuChoice
from anyshape.codegen.nvptx.fitting import place_of_first
from anyshape.codegen.nvptx.launch import TABLE, TABLE_NAME
from anyshape.codegen.nvptx.module import (
    Counts,
    LaunchRule,
    NoSuchFunction,
    functions_of,
    module_text,
    nvptx_target,
)
from anyshape.codegen.nvptx.strips import MOST_THREADS as GROUP_THREADS
from anyshape.codegen.target import Machine
from anyshape.graph.plan import Unlowerable
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Extern, Launch, Segment
from anyshape.loops.text import kernel_key
from anyshape.runtime.cuda.branch_streams import branch
from anyshape.runtime.cuda.code import GpuTarget, Module, gpu_target, module_of
from anyshape.runtime.cuda.driver import driver
from anyshape.runtime.cuda.product_plans import ProductPlans, product_plans
from anyshape.runtime.loader.build import Loaded, Source, disk_cache, found_or_begun
from anyshape.runtime.loader.engine import assembly
from anyshape.runtime.loader.errors import OutOfRangeBefore
from anyshape.runtime.loader.host_target import host_target
from anyshape.runtime.loader.image import Built
from anyshape.runtime.loader.load import python_function, torch_said
from anyshape.runtime.loader.torch_abi import torch_abi
from anyshape.symbolic import Symbol, evaluate
from anyshape.symbolic.expr import symbols_of

_NAME: Final = "kernel"
_LOAD: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_BRANCH: Final = _LOAD(branch)
_NO_CHOICES: Final[Mapping[Kernel, GpuChoice]] = {}
_NO_SIZES: Final[Mapping[Symbol, int]] = {}


def cuda_function(
    segment: Segment,
    key: str,
    device: torch.device,
    branches: bool = False,
    choices: Mapping[Kernel, GpuChoice] = _NO_CHOICES,
    sizes: Mapping[Symbol, int] = _NO_SIZES,
) -> Callable[..., Any]:
    """What runs the segment: called with its tensors, integers and floats, gives its outputs.
    `key`: all that the segment's text depends on. `branches`: to be recorded, with products that
    are independent of each other side by side. `sizes`: of the call that is to come; what other
    sizes need is made when they come."""
    index = _index(device)
    target = gpu_target(index)
    launches = [step for step in segment.steps if isinstance(step, Launch)]
    with torch.cuda.device(index):
        codes = {
            step.kernel: _code(step, target, choices.get(step.kernel, USUAL), sizes)
            for step in launches
        }
    cache, abi = disk_cache(), torch_abi()
    host = host_target(cache)
    rules = {kernel: (code.rules, code.counts) for kernel, code in codes.items()}
    source = partial(_host_source, segment, rules, index, branches)
    key = key_of_code("cuda", repr(abi), str(index), str(branches), key)
    built = found_or_begun(key, source, host, cache)
    helpers = host_helpers(host, abi, index, driver()).code
    with torch.cuda.device(index):
        has_products = any(isinstance(step, Extern) for step in segment.steps)
        # In deterministic mode torch refuses products unless its library is told to be so.
        is_free = not torch.are_deterministic_algorithms_enabled()
        plans = product_plans(index) if has_products and is_free else None
        table = _Table(list(codes.values()), index, target, plans)
    function = python_function(
        built if isinstance(built, Built) else built.result(),
        segment,
        table.beside(helpers),
        torch.device("cuda", index),
        table.said,
    )
    if table.checks is None and torch.cuda.device_count() == 1:
        return function
    return _Watched(function, table, index)


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _host_source(
    segment: Segment,
    rules: Mapping[Kernel, tuple[tuple[LaunchRule, ...], Counts]],
    index: int,
    branches: bool = False,
) -> Source:
    text = source_text()
    return text.gpu_source_of(segment, rules, text.host_abi(torch_abi(), index, branches=branches))


def cuda_source(segment: Segment, device: torch.device) -> str:
    """The PTX of a segment's kernels and the text of its host function, to be looked at."""
    index = _index(device)
    target = gpu_target(index)
    given = nvptx_target(target.capability, target.ptx)
    texts: list[str] = []
    rules: dict[Kernel, tuple[tuple[LaunchRule, ...], Counts]] = {}
    for step in segment.steps:
        if isinstance(step, Launch) and step.kernel not in rules:
            functions, counts = functions_of(_NAME, step.kernel), _counts(step)
            rules[step.kernel] = tuple(each.rule for each in functions), counts
            made = [module_text(each, counts, given) for each in functions]
            texts += [assembly(each, given.triple, given.cpu, given.features) for each in made]
    return "\n\n".join([*texts, _host_source(segment, rules, index).text])


def _counts(launch: Launch) -> Counts:
    return len(launch.buffers), len(launch.sizes), len(launch.numbers)


class _KernelCode(NamedTuple):
    """The functions of a kernel, and how they are launched."""

    modules: tuple[Module, ...]
    rules: tuple[LaunchRule, ...]
    counts: Counts


_codes: Final[dict[tuple[str, Counts, GpuTarget, GpuChoice], _KernelCode]] = {}


def _code(
    launch: Launch, target: GpuTarget, choice: GpuChoice, sizes: Mapping[Symbol, int]
) -> _KernelCode:
    """The code of a kernel. Equal ones, as equal layers have them, are made once."""
    counts = _counts(launch)
    key = kernel_key(launch)
    known = _codes.get((key, counts, target, choice))
    if known is not None:
        return known
    given = nvptx_target(target.capability, target.ptx)
    functions = functions_of(_NAME, launch.kernel, choice)
    chosen = "" if choice == USUAL else f" {choice}"
    first = _first_needed(launch, [each.rule for each in functions], sizes)
    try:
        modules = tuple(
            module_of(
                f"{each.rule.name} {key} {counts}{chosen}",
                partial(module_text, each, counts, given),
                target,
                is_rare=place != first,
            )
            for place, each in enumerate(functions)
        )
    except NoSuchFunction as error:
        raise Unlowerable(f"no code for GPUs: {error}") from None
    found = _KernelCode(modules, tuple(each.rule for each in functions), counts)
    return _codes.setdefault((key, counts, target, choice), found)


def _first_needed(launch: Launch, rules: Sequence[LaunchRule], sizes: Mapping[Symbol, int]) -> int:
    """The place of the function that is used first, as far as can be told."""
    if any(symbol not in sizes for size in launch.sizes for symbol in symbols_of(size)):
        return 0
    return place_of_first(rules, [evaluate(size, sizes) for size in launch.sizes])


def _early_launch(target: GpuTarget) -> int:
    """The driver's function that starts a kernel before the one before it has ended, where kernels
    are made to wait for that themselves; every driver that knows such GPUs has it."""
    machine = Machine.of(nvptx_target(target.capability, target.ptx))
    return (driver().address("cuLaunchKernelEx") or 0) if machine.starts_early else 0


def _resident_blocks(rule: LaunchRule, function: int, device: int) -> int:
    """Blocks that the GPU has room for at the same time; 0 if they share nothing."""
    if not rule.part_bytes:
        return 0
    shared = rule.part_bytes * GROUP_THREADS if rule.form == "strips" else 0
    return driver().resident_blocks(function, GROUP_THREADS, shared, device)


class _Table:
    """What the host function has to know of this process: `codegen/nvptx/launch.py`."""

    def __init__(
        self,
        codes: Sequence[_KernelCode],
        device: int,
        target: GpuTarget,
        products: ProductPlans | None = None,
    ) -> None:
        self._codes = codes
        # Two threads that ask at once may each be given plans of their own.
        self._products = products
        #: where checks leave their numbers: the GPU writes to it, and it is read without waiting
        self.checks: torch.Tensor | None = None
        if any(rule.checks for code in codes for rule in code.rules):
            self.checks = torch.zeros(len(codes), dtype=torch.int32, device="cpu").pin_memory()
        self._functions = [
            each for code in codes for each in zip(code.modules, code.rules, strict=True)
        ]
        self._device, self._target = device, target
        #: why there is no code
        self._failure = ""
        self._load = _LOAD(self._loaded)
        first = {
            "shared": max(0, target.most_shared - LEFT_FOR_KERNELS),
            "error": 0,
            "checks": 0 if self.checks is None else self.checks.data_ptr(),
            "load": ctypes.cast(self._load, ctypes.c_void_p).value or 0,
            "branch": ctypes.cast(_BRANCH, ctypes.c_void_p).value or 0,
            "products": 0 if products is None else products.head,
            "early": _early_launch(target),
            "follows": 0,
        }
        words = [*(first[name] for name in TABLE), *[0, 0] * len(self._functions)]
        self._words = (ctypes.c_int64 * len(words))(*words)

    def _loaded(self, place: int) -> int:
        """Put the handle of a function where it belongs. Called by machine code, which knows
        nothing of exceptions."""
        module, rule = self._functions[(place - len(TABLE)) // 2]
        try:
            function = module.function(self._device, rule.name, self._target.most_shared)
            self._words[place + 1] = _resident_blocks(rule, function, self._device)
        except Exception as error:
            self._failure = f"{rule.name}: {error}"
            return 0
        self._words[place] = function
        return function

    def beside(self, helpers: Loaded) -> Loaded:
        """The helpers, and the table by its name."""
        return _Beside(self, ctypes.addressof(self._words), helpers)

    def said(self, reason: str) -> str | None:
        """What CUDA or torch had to say of a failure."""
        if reason.startswith("cuda"):
            return self._failure or driver().message(self._words[TABLE.index("error")])
        return torch_said(reason)

    def raise_failed_check(self) -> None:
        """What an earlier call has found."""
        if self.checks is None:
            return
        for number, code in zip(self.checks.tolist(), self._codes, strict=True):
            if number:
                self.checks.zero_()
                raise OutOfRangeBefore(f"{code.rules[0].checks[number - 1]} (in an earlier call)")


class _Beside(NamedTuple):
    #: kept as long as there is code that has its address
    table: _Table
    words: int
    helpers: Loaded

    def address(self, name: str) -> int | None:
        return self.words if name == TABLE_NAME else self.helpers.address(name)


class _Watched:
    """A function of a segment that has checks, or where there are several GPUs."""

    def __init__(self, function: Callable[..., Any], table: _Table, device: int) -> None:
        self._function = function
        self.check = table.raise_failed_check
        self._device = device

    def __call__(self, *arguments: Any) -> Any:
        self.check()
        # torch.cuda's own function of this takes longer than a launch.
        if torch._C._cuda_getDevice() == self._device:
            return self._function(*arguments)
        with torch.cuda.device(self._device):
            return self._function(*arguments)
