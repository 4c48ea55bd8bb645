"""Kernels for GPUs, run without one: the same text for this processor, a thread for each thread,
started by the same host code.

What the threads of a block have of their own is given to the function; barriers and shuffles are
calls of Python, where the threads wait for each other (`gpu_threads.py`). The driver is a function
of Python, too.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import torch
import torch.nn.functional as F

from anyshape.backends.native.source import host_abi
from anyshape.codegen.host import HostAbi, helpers_module
from anyshape.codegen.host.externs import EXTERNS
from anyshape.codegen.ir_builder import join_module
from anyshape.codegen.nvptx.choice import USUAL, GpuChoice
from anyshape.codegen.nvptx.kernel import MOST_EARLY
from anyshape.codegen.nvptx.launch import (
    DECLARATIONS,
    TABLE,
    TABLE_NAME,
    launch_function,
)
from anyshape.codegen.nvptx.launch_helpers import launch_helpers
from anyshape.codegen.nvptx.module import (
    Counts,
    LaunchRule,
    functions_of,
    module_text,
    nvptx_target,
)
from anyshape.codegen.nvptx.products import product_helpers
from anyshape.loops.kernels import Kernel
from anyshape.ops.families.attention_kernels import KERNELS, backward_name, forward_name
from anyshape.runtime.loader.build import Loaded, Source, build, disk_cache, load
from anyshape.runtime.loader.host_target import host_target
from anyshape.runtime.loader.symbols import find_symbol
from anyshape.runtime.loader.torch_abi import torch_abi
from anyshape.support.lazy_dataclass import replace
from tests.codegen.gpu_instructions import for_host
from tests.codegen.gpu_matrices import READ, WRITTEN, instruction, matrices_for_host
from tests.codegen.gpu_threads import Meeting, Turns, current_number
from tests.codegen.jit import host_machine, optimized

_REGISTERS = ("tid.x", "tid.y", "ntid.x", "ntid.y", "ctaid.x", "nctaid.x")
_CALLBACKS = ("barrier", "shuffle", "pause", "in_warp")
_GIVEN = ", ".join(
    [f"i32 %emu.{name}" for name in _REGISTERS] + [f"ptr %{name}" for name in _CALLBACKS]
)
_SHARED = 1 << 16
#: What there is of it for functions that know how much they need.
_MOST_SHARED: Final = 1 << 17
#: Shuffles, and where they end: the last lane, or the first one.
_SHUFFLES: Final = (("bfly", "31"), ("up", "0"), ("idx", "31"))
_BRANCH = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_LAUNCH: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_uint32] * 7, *[ctypes.c_void_p] * 3
)
_LAUNCH_TOGETHER: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_uint32] * 7, *[ctypes.c_void_p] * 2
)
_EARLY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
_MEMSET: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint8, ctypes.c_size_t, ctypes.c_void_p
)
#: Threads of a block of a group: few, since each is one of this process.
GROUP_THREADS: Final = 64
#: Blocks that there is room for.
_ROOM: Final = 4
#: What a launch gives where threads wait for others that are gone.
_STUCK: Final = 702
_STREAM: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
_HOST_FUNCTION: Final = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)


_capsule: Any = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_void_p]
_aoti: Any = torch._C._aoti  # pyright: ignore[reportAttributeAccessIssue]


def _tensor(handle: int) -> torch.Tensor:
    """The tensor of a handle, which stays its owner's."""
    copy = ctypes.c_void_p()
    duplicate = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    address = find_symbol("aoti_torch_new_tensor_handle")
    assert address is not None
    assert duplicate(address)(handle, ctypes.addressof(copy)) == 0
    return _aoti.alloc_tensor_by_stealing_from_void_ptr(_capsule(copy, None, None))


def _handle(tensor: torch.Tensor) -> int:
    return _pointer(_aoti.unsafe_alloc_void_ptr_from_tensor(tensor), None)


#: letter of a parameter -> its types in C (`codegen/host/externs.py`)
_C_TYPES: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys("Tutg", (ctypes.c_void_p,)),
    "f": (ctypes.c_double,),
    "b": (ctypes.c_int32,),
    "i": (ctypes.c_int64,),
    "B": (ctypes.c_void_p, ctypes.c_int64),
}


def _emulated(name: str, function: Callable[..., Sequence[torch.Tensor]]) -> Any:
    """A C function that torch has for GPUs alone, by one of Python: it is given tensors and
    numbers, and gives the first results. The others are tensors of nothing."""
    row = EXTERNS[name]
    types = [each for letter in row.parameters for each in _C_TYPES[letter]]
    types += [ctypes.c_void_p] * len(row.results)

    def called(*given: Any) -> int:
        left = iter(given)
        values: list[Any] = []
        for letter in row.parameters:
            value: Any = next(left)
            if letter == "B":
                value = tuple((ctypes.c_int32 * next(left)).from_address(value))
            elif letter == "t":
                value = _tensor(ctypes.c_void_p.from_address(value).value or 0) if value else None
            elif letter == "g":
                value = ctypes.c_double.from_address(value).value if value else None
            values.append(_tensor(value) if letter in "Tu" else value)
        found = iter(function(*values))
        for letter, slot in zip(row.results, left, strict=True):
            if letter == "i":
                ctypes.c_int64.from_address(slot).value = 1
            else:
                made = next(found, None)
                made = torch.empty(0) if made is None else made
                ctypes.c_void_p.from_address(slot).value = _handle(made)
        return 0

    return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(called)


def _check_aligned(*tensors: torch.Tensor | None) -> None:
    """Rows have to begin at multiples of 16 bytes."""
    for each in tensors:
        if each is not None:
            assert each.stride(-1) == 1
            assert each.data_ptr() % 16 == 0
            assert all(stride * each.element_size() % 16 == 0 for stride in each.stride()[:-1])


def _attended(
    heads: Sequence[torch.Tensor], mask: torch.Tensor | None, causal: int, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, and the logsumexp of its scores."""
    query, key, value = heads
    _check_aligned(*heads, mask)
    if mask is not None:
        assert tuple(mask.shape) == (*query.shape[:3], key.shape[2])
    group = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = factor * query.float() @ key.float().transpose(-2, -1)
    if mask is not None:
        scores = scores + mask
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not()
        scores = scores.masked_fill(hidden, float("-inf"))
    made = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=bool(causal), scale=scale
    )
    return made, scores.logsumexp(-1)


def _laid_out(kernel: str, made: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """As torch's kernels do it: heads of a position side by side, or as what it belongs to."""
    if kernel == "efficient":
        return made.transpose(1, 2).contiguous().transpose(1, 2)
    return torch.empty_like(like).copy_(made)


def _state(kernel: str, logsumexp: torch.Tensor) -> torch.Tensor:
    if kernel == "efficient":
        return F.pad(logsumexp, (0, -logsumexp.shape[-1] % 32), value=float("inf"))
    return logsumexp


def _forward(kernel: str, *given: Any) -> Sequence[torch.Tensor]:
    heads, rest = given[:3], given[3:]
    mask, causal = (None, rest[1]) if kernel == "flash" else (rest[0], rest[3])
    with torch.no_grad():
        made, logsumexp = _attended(heads, mask, causal, rest[-1])
    return _laid_out(kernel, made, heads[0]), _state(kernel, logsumexp)


def _backward(kernel: str, *given: Any) -> Sequence[torch.Tensor]:
    """Of what the forward has given, which it is told: that has to be the same."""
    grad, *heads = given[:4]
    rest = list(given[4:])
    if kernel == "efficient":
        mask, causal = rest.pop(0), rest[-2]
        assert rest[-3] == (1, 1, 1, 0)
    else:
        mask, causal = None, rest[7]
        assert rest[4:6] == [heads[0].shape[2], heads[1].shape[2]]
    _check_aligned(grad)
    heads = [each.detach().requires_grad_() for each in heads]
    with torch.enable_grad():
        made, logsumexp = _attended(heads, mask, causal, rest[-1])
    torch.testing.assert_close(rest[0], made.detach(), atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(rest[1], _state(kernel, logsumexp.detach()))
    found = torch.autograd.grad(made, heads, grad)
    return [_laid_out(kernel, each, own) for each, own in zip(found, heads, strict=True)]


#: C functions that torch has for GPUs alone.
ATTENTION: Final = {
    f"aoti_torch_cpu_{name}": _emulated(name, partial(function, kernel))
    for kernel in KERNELS.values()
    for name, function in ((forward_name(kernel), _forward), (backward_name(kernel), _backward))
}


_FROM_BLOB: Final = "aoti_torch_create_tensor_from_blob_v2"
_BLOB: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
    *[ctypes.c_int32] * 3,
    *(ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64),
)


@_BLOB
def _from_blob(data: int | None, rank: int, sizes: int, *given: Any) -> int:
    """Of memory torch asks which GPU it is of: nothing is anywhere. If it does not know, torch 2.11
    gives no tensor, and says that all is well."""
    is_empty = 0 in (ctypes.c_int64 * rank).from_address(sizes)
    real = _BLOB(find_symbol(_FROM_BLOB) or 0)
    return 0 if is_empty and data else real(data, rank, sizes, *given)


def _for_host(text: str) -> str:
    text = for_host(text)
    text = re.sub(r"^target .*\n", "", text, flags=re.M)
    text = re.sub(r"^declare .*@llvm\.nvvm\..*\n", "", text, flags=re.M)
    text = re.sub(
        r"define ptx_kernel void @(\S+)\(ptr byval\(\[\d+ x i64\]\) align 8 %buffers\)",
        rf"define void @\1(ptr %buffers, {_GIVEN})",
        text,
    )
    text = re.sub(
        r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(\)", r"add i32 %emu.\1, 0", text
    )
    text = text.replace("call void @llvm.nvvm.barrier0()", "call void %barrier()")
    text = text.replace("call void @llvm.nvvm.membar.gl()", "fence seq_cst")
    text = matrices_for_host(text)
    text = re.sub(r'call void asm sideeffect "nanosleep[^\n]*', "call void %pause()", text)
    text = text.replace("  call void @llvm.trap()\n", "")
    text = re.sub(_WAITS, "", text)
    text = re.sub(
        r"call i32 @llvm\.nvvm\.shfl\.sync\.(\w+)\.i32\(i32 -1, (i32 \S+), (i32 \S+), i32 (\d+)\)",
        lambda m: f"call i32 %shuffle({m[2]}, {m[3]}, i32 {_SHUFFLES.index((m[1], m[4]))})",
        text,
    )
    text = re.sub(
        r"addrspacecast ptr addrspace\(3\) (\S+) to ptr", r"getelementptr i8, ptr \1, i64 0", text
    )
    text = re.sub(
        r"external addrspace\(3\) global \[0 x i8\]",
        f"internal global [{_MOST_SHARED} x i8] zeroinitializer",
        text,
    )
    return text.replace("addrspace(3) ", "")


#: The instructions of a kernel that is started before the one before it has ended.
_WAITS: Final = re.compile(r'  call void asm sideeffect "[^"]*griddepcontrol.wait[^\n]*\n')


def emulated_abi() -> HostAbi:
    """Tensors of the CPU, and kernels that are launched."""
    return replace(host_abi(torch_abi()), is_launched=True)


def _set_bytes(where: int, byte: int, count: int, stream: int | None) -> int:
    ctypes.memset(where, byte, count)
    return 0


class Started(NamedTuple):
    """A launch that the driver has seen."""

    name: str
    grid: int
    block: tuple[int, int]
    shared: int
    #: whether blocks wait for each other
    together: bool = False
    #: whether it may begin before the kernel before it has ended
    early: bool = False


class _Both(NamedTuple):
    """Code, and what it needs to exist."""

    first: Loaded
    second: Loaded

    def address(self, name: str) -> int | None:
        found = self.second.address(name)
        return self.first.address(name) if found is None else found


class Gpu:
    """Stands for the driver and a table of kernels: what host code finds by name."""

    def __init__(
        self,
        kernels: Sequence[tuple[Kernel, Counts]],
        shared: int = _SHARED,
        fails: int = 0,
        runs: bool = True,
        room: int = _ROOM,
        choice: GpuChoice = USUAL,
        products: int = 0,
    ) -> None:
        self.started: list[Started] = []
        #: what the host said of branches
        self.branches: list[int] = []
        self.texts: list[str] = []
        self.rules: list[tuple[LaunchRule, ...]] = []
        self.checks = (ctypes.c_int32 * max(len(kernels), 1))()
        self._fails, self._runs, self._choice = fails, runs, choice
        self._functions: list[tuple[str, list[int], bool]] = []
        self._engines: list[Any] = []
        for kernel, counts in kernels:
            self._add(kernel, counts)
        self._branch = _BRANCH(self.branched)
        branch = ctypes.cast(self._branch, ctypes.c_void_p).value
        self._early = _EARLY(self._launched_early)
        early = ctypes.cast(self._early, ctypes.c_void_p).value
        words = [shared, 0, ctypes.addressof(self.checks), 0, branch, products, early, 0]
        assert len(words) == len(TABLE)
        # Handles are numbers from 1: a null is no function.
        rules = [rule for each in self.rules for rule in each]
        for number, rule in enumerate(rules, start=1):
            words += [number, room if rule.part_bytes else 0]
        self.table = (ctypes.c_int64 * len(words))(*words)
        self._launch = _LAUNCH(partial(self._launched, False))
        #: of blocks that wait for each other
        self.launch_together: Callable[..., int] = partial(self._launched, True)
        self._launch_together = _LAUNCH_TOGETHER(lambda *given: self.launch_together(*given))
        self._memset = _MEMSET(_set_bytes)
        self._stream = _STREAM(lambda device, where: 0)

    def branched(self, number: int) -> int:
        self.branches.append(number)
        return 0

    def _add(self, kernel: Kernel, counts: Counts) -> None:
        functions = functions_of("kernel", kernel, self._choice)
        self.rules.append(tuple(each.rule for each in functions))
        for each in functions:
            text, rule = module_text(each, counts, nvptx_target((9, 0), 80)), each.rule
            self.texts.append(text)
            self._functions.append((rule.name, [], rule.form not in ("columns", "points")))
            self._address(len(self._functions) - 1, 0)

    def _address(self, function: int, block: int) -> int:
        """Of the code of a block: those that run at the same time have their own shared memory."""
        name, addresses, _ = self._functions[function]
        while len(addresses) <= block:
            machine = host_machine()
            text = _for_host(self.texts[function])
            engine = llvm.create_mcjit_compiler(optimized(text, machine), machine)
            engine.finalize_object()
            self._engines.append(engine)
            addresses.append(engine.get_function_address(name))
        return addresses[block]

    def address(self, name: str) -> int | None:
        if name == TABLE_NAME:
            return ctypes.addressof(self.table)
        known = {
            "cuLaunchKernel": self._launch,
            "cuLaunchCooperativeKernel": self._launch_together,
            "cuMemsetD8Async": self._memset,
            "aoti_torch_get_current_cuda_stream": self._stream,
            _FROM_BLOB: _from_blob,
            **ATTENTION,
        }
        function = known.get(name)
        return None if function is None else ctypes.cast(function, ctypes.c_void_p).value

    def helpers(self) -> Loaded:
        """What host code finds by name: what is the same for all, and then what is ours."""
        own = launch_helpers(0, GROUP_THREADS), product_helpers(0)
        text = join_module([helpers_module(emulated_abi()), *own])
        code = load(build(Source(text, quick=True), host_target(disk_cache())), self)
        return _Both(self, code)

    def host(self, text: str) -> Loaded:
        """Host code that is loaded."""
        helpers = self.helpers()
        code = load(build(Source(text, quick=True), host_target(disk_cache())), helpers)
        return _Both(helpers, code)

    def _launched_early(self, config: int, function: int, params: int, extra: int | None) -> int:
        (grid, one, two, x, y, three, shared, _), (_, attribute, count) = (
            (ctypes.c_uint32 * 8).from_address(config),
            (ctypes.c_uint64 * 3).from_address(config + 32),
        )
        assert (one, two, three, count, extra) == (1, 1, 1, 1, None)
        assert list((ctypes.c_uint32 * 3).from_address(attribute)) == [6, 0, 1]
        head, *rest = _WAITS.split(self.texts[function - 1])
        assert rest, "it does not wait"
        assert " load float" not in head
        assert grid <= MOST_EARLY
        done = self._launched(False, function, grid, 1, 1, x, y, 1, shared, None, params)
        if not done:
            self.started[-1] = self.started[-1]._replace(early=True)
        return done

    def _launched(self, blocks_meet: bool, function: int, grid: int, *rest: Any) -> int:
        """`blocks_meet`: blocks wait for each other, and are all there at once."""
        _, _, x, y, _, shared, _, params, *_ = rest
        if self._fails:
            return self._fails
        name, _, threads_meet = self._functions[function - 1]
        self.started.append(Started(name, grid, (x, y), shared, blocks_meet))
        (arguments,) = (ctypes.c_void_p * 1).from_address(params)
        turns = Turns()
        for block in range(grid if self._runs else 0):
            address = self._address(function - 1, block if blocks_meet else 0)
            _start(turns, address, block, grid, (x, y), arguments, threads_meet)
            is_last = block == grid - 1
            if (is_last or not blocks_meet) and not turns.run():
                return _STUCK
        return 0


def _start(
    turns: Turns,
    address: int,
    place: int,
    grid: int,
    block: tuple[int, int],
    arguments: Any,
    together: bool,
) -> None:
    """A block: its threads take part, or it is done where they do not wait for each other."""
    wait, swap = ctypes.CFUNCTYPE(None), ctypes.CFUNCTYPE(*[ctypes.c_int32] * 4)
    call = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    given = [ctypes.c_void_p, *[ctypes.c_int32] * 6, wait, swap, wait, call]
    entry = ctypes.CFUNCTYPE(None, *given)(address)
    width, height = block
    count = width * height
    barrier = Meeting(turns, count)
    warps = [Meeting(turns, 32) for _ in range(-(-count // 32))]

    def shuffle(value: int, by: int, kind: int) -> int:
        number = current_number()
        lane = number % 32
        # One that is before the first lane is the thread itself.
        from_ = (lane ^ by, lane - by if lane >= by else lane, by % 32)[kind]
        return warps[number // 32].wait(lane, value)[from_]

    def of_warp(kind: int, read: int, written: int) -> None:
        """An instruction that the threads of a warp run together. A thread's own memory is there
        in its turns alone."""
        number = current_number()
        brought = ctypes.string_at(read, READ)
        made = warps[number // 32].wait(number % 32, brought, partial(instruction, kind))
        ctypes.memmove(written, made[number % 32], WRITTEN)

    def one(number: int) -> None:
        coordinates = (number % width, number // width, width, height, place, grid)
        entry(arguments, *coordinates, waiting, swapping, pausing, calling)

    calling = call(of_warp)
    waiting, swapping = wait(barrier.wait if together else lambda: None), swap(shuffle)
    pausing = wait(turns.pause)
    for number in range(count):
        if together:
            turns.add(number, one)
        else:
            one(number)


class Emulated:
    """A kernel, called with arrays, sizes and numbers; gives the number of a check that failed."""

    def __init__(
        self,
        kernel: Kernel,
        counts: Counts,
        shared: int = _SHARED,
        runs: bool = True,
        room: int = _ROOM,
        choice: GpuChoice = USUAL,
    ) -> None:
        self.gpu = Gpu([(kernel, counts)], shared, runs=runs, room=room, choice=choice)
        text = launch_function("start", self.gpu.rules[0], counts, 0, 0)
        self._host = self.gpu.host(join_module([DECLARATIONS, text]))
        start = self._host.address("start")
        assert start is not None
        self._start = _HOST_FUNCTION(start)

    def __call__(
        self,
        buffers: Sequence[np.ndarray],
        sizes: Sequence[int] = (),
        numbers: Sequence[float] = (),
    ) -> int:
        self.gpu.checks[0] = 0
        assert self.start([each.ctypes.data for each in buffers], sizes, numbers) == 0
        return self.gpu.checks[0]

    def start(
        self, addresses: Sequence[int], sizes: Sequence[int], numbers: Sequence[float] = ()
    ) -> int:
        return self._start(
            (ctypes.c_void_p * max(len(addresses), 1))(*addresses),
            (ctypes.c_int64 * max(len(sizes), 1))(*sizes),
            (ctypes.c_double * max(len(numbers), 1))(*numbers),
            None,
        )
