"""LLVM IR as text becomes machine code: one relocatable object."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from anyshape.events.native_counts import count
from anyshape.runtime.loader.errors import InvalidCode, NativeUnavailable


@functools.cache
def llvm() -> Any:
    """llvmlite's bindings, imported when something is built: to load code takes less."""
    try:
        import llvmlite.binding as binding
    except ImportError as error:
        raise NativeUnavailable(f"llvmlite is needed to make native code: {error}") from error
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def _all_targets() -> None:
    """For code that is looked at and not run."""
    llvm().initialize_all_targets()
    llvm().initialize_all_asmprinters()


def begun_object(
    text: str, triple: str, cpu: str, features: str, *, quick: bool = False
) -> Callable[[], bytes]:
    """The object file of a module, in two steps: a module that is ready, and nine tenths of the
    work, without Python, which another thread may do. `quick`: of code that runs once a call, in a
    fourth of the time."""
    effort = 0 if quick else 2
    count("builds")
    with _timed(), _machine(triple, cpu, features, effort) as machine:
        module = _parsed(text, machine)
        if not quick:
            _optimise(module, machine)

    def emit() -> bytes:
        with _timed(), _machine(triple, cpu, features, effort) as machine:
            return _emitted(module, machine, _OBJECT)

    return emit


def assembly(text: str, triple: str, cpu: str, features: str) -> str:
    """The text of a module's machine code: PTX is nothing else. Several threads may do so."""
    count("builds")
    with _timed(), _machine(triple, cpu, features, 2) as machine:
        module = _parsed(text, machine)
        _optimise(module, machine)
        return _emitted(module, machine, _ASSEMBLY).decode()


@contextmanager
def _timed() -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        count("build_seconds", time.perf_counter() - start)


def _optimise(module: Any, machine: Any) -> None:
    binding = llvm()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(machine, options)
    passes = binding.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)


def _parsed(text: str, machine: Any) -> Any:
    binding = llvm()
    try:
        # A context of its own: types and constants go away with the module.
        module = binding.parse_assembly(text, binding.create_context())
    except RuntimeError as error:
        raise InvalidCode(f"LLVM cannot read the code: {error}") from error
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


#: The text is explicit: vectors, few branches, helpers that are `alwaysinline`, shared values. What
#: is left is to put helpers in place and tidy up after them. Measured on softmax, ten sines and
#: gelu: instruction_combine and new_gvn take 2-6 ms more and change no run by more than its noise,
#: and all of -O2 takes 20-45 ms more.
_PASSES: Final = ("always_inliner", "sroa", "simplify_cfg", "global_dead_code_eliminate")


#: What LLVM is asked for.
_ASSEMBLY, _OBJECT = 0, 1


def _emitted(module: Any, machine: Any, kind: int) -> bytes:
    """Machine code, by several threads at once: LLVM asks for a context and a machine that no other
    thread has. llvmlite asks for its one lock around everything, for the sake of programs that
    share a context."""
    library = llvm().ffi.lib
    emit = library.LLVMPY_TargetMachineEmitToMemory
    try:
        emit = emit._cfn
    except AttributeError:
        if kind == _ASSEMBLY:
            return machine.emit_assembly(module).encode()
        return machine.emit_object(module)
    with llvm().ffi.OutputString() as error:
        memory = emit(machine, module, kind, error)
        if not memory:
            raise NativeUnavailable(f"LLVM cannot make code: {error}")
    try:
        start = library.LLVMPY_GetBufferStart(memory)
        return ctypes.string_at(start, library.LLVMPY_GetBufferSize(memory))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(memory)


@contextmanager
def _machine(triple: str, cpu: str, features: str, effort: int) -> Iterator[Any]:
    """A machine that no other thread has meanwhile."""
    idle = _idle.setdefault((triple, cpu, features, effort), [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = _new_machine(triple, cpu, features, effort)
    try:
        yield machine
    finally:
        idle.append(machine)


_idle: Final[dict[tuple[str, str, str, int], list[Any]]] = {}


def _new_machine(triple: str, cpu: str, features: str, effort: int) -> Any:
    binding = llvm()
    if binding.Triple is None or triple.split("-")[0] != binding.get_process_triple().split("-")[0]:
        _all_targets()
    target = binding.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=effort, reloc="pic", codemodel="small"
    )
