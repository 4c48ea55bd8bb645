"""What LLVM makes of a module's text, to be read."""

from __future__ import annotations

from anyshape.runtime.loader.engine import _machine, _optimise, _parsed, begun_object


def build_object(text: str, triple: str, cpu: str, features: str, *, quick: bool = False) -> bytes:
    return begun_object(text, triple, cpu, features, quick=quick)()


def build_assembly(text: str, triple: str, cpu: str, features: str) -> str:
    with _machine(triple, cpu, features, 2) as machine:
        module = _parsed(text, machine)
        _optimise(module, machine)
        return machine.emit_assembly(module)
