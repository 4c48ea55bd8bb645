"""LLVM IR as text becomes machine code: one relocatable object."""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

from anyshape.runtime.native.errors import NativeUnavailable

_LOCK: Final = threading.Lock()


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


def build_object(text: str, triple: str, cpu: str, features: str) -> bytes:
    """The object file of a module. Python threads go on meanwhile, but for others that build."""
    # llvmlite has a lock around each call; this one is around what belongs together.
    with _LOCK:
        module, machine = _optimised(text, triple, cpu, features)
        return machine.emit_object(module)


def build_assembly(text: str, triple: str, cpu: str, features: str) -> str:
    """The same as assembler text, to be read."""
    with _LOCK:
        module, machine = _optimised(text, triple, cpu, features)
        return machine.emit_assembly(module)


def optimised_text(text: str, triple: str, cpu: str, features: str) -> str:
    """The module after our passes, to be read."""
    with _LOCK:
        return str(_optimised(text, triple, cpu, features)[0])


def _optimised(text: str, triple: str, cpu: str, features: str) -> tuple[Any, Any]:
    binding = llvm()
    machine = _machine(triple, cpu, features)
    try:
        # A context of its own: types and constants go away with the module.
        module = binding.parse_assembly(text, binding.create_context())
    except RuntimeError as error:
        raise NativeUnavailable(f"LLVM cannot read the code: {error}") from error
    module.triple = triple
    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(machine, options)
    passes = binding.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return module, machine


#: The text is explicit: vectors, few branches, helpers that are `alwaysinline`, shared values. What
#: is left is to put helpers in place and tidy up after them. Measured on softmax, ten sines and
#: gelu: instruction_combine and new_gvn take 2-6 ms more and change no run by more than its noise,
#: and all of -O2 takes 20-45 ms more.
_PASSES: Final = ("always_inliner", "sroa", "simplify_cfg", "global_dead_code_eliminate")


@functools.cache
def _machine(triple: str, cpu: str, features: str) -> Any:
    binding = llvm()
    if binding.Triple is None or triple.split("-")[0] != binding.get_process_triple().split("-")[0]:
        _all_targets()
    target = binding.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small"
    )
