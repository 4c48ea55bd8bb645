"""A small just-in-time compiler for tests: run a function of vector math over numpy arrays."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from anyshape.codegen.ir_builder import REGISTER, vector
from anyshape.codegen.vector_math import FUNCTIONS, definitions
from anyshape.codegen.vector_math.builder import function_name
from anyshape.config import config
from anyshape.runtime.loader.host_target import capped, detected
from tests.codegen.gpu_instructions import for_host

NUMPY = {"f32": np.float32, "f64": np.float64}


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def host_machine(cpu: str = "") -> Any:
    """This machine, less what `config.cpu_features` leaves out, or an older one whose programs it
    runs."""
    _initialize()
    here = capped(detected(), config.cpu_features)
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu or here.cpu, features="" if cpu else here.features, opt=2
    )


def other_machine(triple: str, cpu: str) -> Any:
    _initialize()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)


def loop_text(name: str, kind: str, lanes: int, off: float | None = None) -> str:
    """A module with `void k(ptr out, ptr x, ptr y, i64 vectors)`. With `off`, it is the function of
    GPUs, whose instructions are off by so much."""
    type_, arity = vector(REGISTER[kind], lanes), FUNCTIONS[name.partition(".")[0]]
    align = 4 if kind == "f32" else 8
    loads = "\n".join(
        f"  %p{v} = getelementptr {type_}, ptr %{v}, i64 %i\n"
        f"  %a{v} = load {type_}, ptr %p{v}, align {align}"
        for v in "xy"[:arity]
    )
    arguments = ", ".join(f"{type_} %a{v}" for v in "xy"[:arity])
    return f"""
define void @k(ptr noalias %out, ptr noalias %x, ptr noalias %y, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{loads}
  %r = call {type_} {function_name(name, kind, lanes)}({arguments})
  %po = getelementptr {type_}, ptr %out, i64 %i
  store {type_} %r, ptr %po, align {align}
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
{_definitions(name, kind, lanes, off)}"""


def _definitions(name: str, kind: str, lanes: int, off: float | None) -> str:
    text = definitions([(name, kind, lanes)], on_gpu=off is not None)
    return text if off is None else for_host(text, off)


def optimized(text: str, machine: Any) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    builder.getModulePassManager().run(module, builder)
    return module


@dataclass
class Compiled:
    kind: str
    lanes: int
    engine: Any
    entry: Any
    milliseconds: float

    def __call__(self, x: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        dtype = NUMPY[self.kind]
        padding = -len(x) % self.lanes
        x = np.concatenate([x.astype(dtype, copy=False), np.ones(padding, dtype)])
        y = x if y is None else np.concatenate([y.astype(dtype), np.ones(padding, dtype)])
        out = np.empty_like(x)
        self.entry(out.ctypes.data, x.ctypes.data, y.ctypes.data, len(x) // self.lanes)
        return out[: len(out) - padding]


@cache
def compiled(
    name: str, kind: str = "f32", lanes: int = 16, cpu: str = "", off: float | None = None
) -> Compiled:
    machine = host_machine(cpu)
    start = time.perf_counter()
    module = optimized(loop_text(name, kind, lanes, off), machine)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    spent = (time.perf_counter() - start) * 1e3
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(
        engine.get_function_address("k")
    )
    return Compiled(kind, lanes, engine, entry, spent)


def assembly(name: str, kind: str, lanes: int, machine: Any) -> str:
    return machine.emit_assembly(optimized(loop_text(name, kind, lanes), machine))
