"""The text of a program: all that anyshape makes of it, section by section.

Nothing of it is run but the graphs, operator by operator. Native code is written for machines that
are named here, and not for the one at hand; how torch's memory is laid out is fixed here as well.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
import torch.fx

import anyshape
import tests.golden.functions
import tests.golden.models  # noqa: F401 so does this
from anyshape.backends.eager import run_graph_later
from anyshape.backends.native.listing import schedule_text
from anyshape.backends.native.python_host import python_host
from anyshape.backends.native.source import helpers_source, source_of
from anyshape.codegen.host import HostUnsupported
from anyshape.graph.lowered import lowered
from anyshape.graph.plan import Unlowerable
from anyshape.loops import expr
from anyshape.loops.canonical import own_names
from anyshape.loops.program import Segment
from anyshape.ops.node_meta import EXPECTED
from anyshape.runtime.loader.build import Source
from anyshape.runtime.loader.host_target import HostTarget
from anyshape.runtime.loader.torch_abi import TorchAbi
from tests.golden.normalise import kernel_names, log_lines, places, renumbered
from tests.golden.onnx_text import model_text
from tests.golden.program import PROGRAMS, Program

__all__ = ["NAMES", "helpers_text", "program_text"]

NAMES = tuple(PROGRAMS)

AVX2 = HostTarget("x86_64-unknown-linux-gnu", "haswell", "", 16)
TARGETS = {
    "x86-64": AVX2,
    "aarch64": HostTarget("aarch64-unknown-linux-gnu", "neoverse-n1", "", 16),
}
#: What generated text is called where it is compiled.
_OURS = re.compile(r"<anyshape: (?!native program)")
_DTYPES = {"f32": 6, "f64": 7, "f16": 5, "bf16": 15, "i8": 1, "i16": 2, "i32": 3, "i64": 4}
ABI = TorchAbi(16, 8, tuple((_DTYPES | {"u8": 0, "b1": 11}).items()))


def program_text(name: str, folder: Path) -> str:
    """The sections of a program; `folder` is for files that are read back at once."""
    with _one_thread():
        compiled = _compiled(PROGRAMS[name])
        sections = {**compiled, **_exported(PROGRAMS[name], folder)}
    file = PROGRAMS[name].__module__.rpartition(".")[2]
    parts = (
        # LLVM has no places, and floats that look like addresses.
        f"==== {title}\n{(text if title == 'llvm' else places(text, file)).rstrip()}\n\n"
        for title, text in sections.items()
    )
    return "".join(parts)


def helpers_text() -> str:
    """What all segments call."""
    return helpers_source(ABI).text


def _begin(make: Callable[[], Program]) -> Program:
    """The program, from a state that is the same whatever ran before."""
    anyshape.reset()
    torch.manual_seed(0)
    return make()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Some shapes depend on how many there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# -- compile ----------------------------------------------------------------------------------


def _compiled(make: Callable[[], Program]) -> dict[str, str]:
    program = _begin(make)
    segments = _Segments(program.llvm)
    sources: list[tuple[str, str]] = []
    with _logs() as logs, _generated(sources), torch.set_grad_enabled(program.grad):
        function: Any = anyshape.compile(
            program.function, backend=segments.backend, **program.options
        )
        results = [_outcome(function, call) for call in program.calls]
    frames = re.findall(r"\[(\d+)/\d+\]", logs.getvalue())
    # Of the dispatchers of a function, the last one has all entries.
    dispatchers = {
        (file, source.partition("\n")[0]): f"{file}\n{source}"
        for file, source in sources
        if _is_dispatcher(source)
    }
    others = dict.fromkeys(source for _, source in sources if not _is_dispatcher(source))
    sections = {
        "calls": "\n".join(results),
        "explanation": renumbered(str(function.explain()), frames),
        "logs": log_lines(logs.getvalue()),
        "dispatcher": "\n".join(dispatchers.values()),
        "entries": "\n\n".join(others),
        "segments": "\n\n".join(segments.texts),
    }
    return sections | ({"llvm": segments.llvm_text()} if program.llvm else {})


def _is_dispatcher(source: str) -> bool:
    return source.startswith("def _as_dispatcher(")


@contextlib.contextmanager
def _logs() -> Iterator[io.StringIO]:
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        anyshape.set_logs(
            dynamic=logging.DEBUG, guards=True, recompiles=True, graph_breaks=True, graph_code=True
        )
        try:
            yield text
        finally:
            anyshape.set_logs()


@contextlib.contextmanager
def _generated(sources: list[tuple[str, str]]) -> Iterator[None]:
    """Every text of Python that anyshape writes and compiles, wherever it does that, but for that
    of native programs, which goes with their segments."""
    original = builtins.compile

    def recording(source: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(source, str) and _OURS.match(str(filename)):
            sources.append((str(filename), source))
        return original(source, filename, *args, **kwargs)

    builtins.compile = recording
    try:
        yield
    finally:
        builtins.compile = original


def _outcome(function: Callable[..., Any], call: Sequence[Any]) -> str:
    """What a call gives, or raises, and the warnings that it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = _kind(function(*call))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    given = ", ".join(map(_kind, call))
    told = (f"\n  warning: {each.message}" for each in caught)
    return f"({given}) -> {result}{''.join(told)}"


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}{list(value.shape)}:{list(value.stride())}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_kind, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_kind(each)}' for key, each in value.items())}}}"
    return repr(value)


# -- native code ------------------------------------------------------------------------------


class _Segments:
    """Takes the graphs of a compile as a backend does: writes their native code, and runs none."""

    def __init__(self, with_llvm: bool) -> None:
        self.texts: list[str] = []
        self._with_llvm = with_llvm
        self._modules: dict[str, None] = {}

    def backend(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        number = len(self.texts)
        try:
            with expr.fresh_scope():
                text = self._text(graph)
        except (Unlowerable, HostUnsupported) as error:
            text = f"no native code: {error}"
        self.texts.append(f"-- graph {number}\n{text}")
        return graph.forward

    def _text(self, graph: torch.fx.GraphModule) -> str:
        plan, made = lowered(graph)
        digests: list[str] = []
        modules: dict[str, None] = {}
        for part in made.parts:
            if isinstance(part, Segment):
                segment = own_names(part)
                sources = {name: _source(segment, target) for name, target in TARGETS.items()}
                digests += (f"{name}: {_digest(each)}" for name, each in sources.items())
                if self._with_llvm:
                    modules |= dict.fromkeys(_modules(sources["x86-64"]))
        self._modules = modules
        expected = graph.meta.get(EXPECTED, ())
        host = python_host(made, lambda _: _not_run, run_graph_later(graph), expected)
        native = "native: " + ", ".join(plan.native)
        return "\n".join([schedule_text(made, plan), native, host.source, *digests])

    def llvm_text(self) -> str:
        """Of the last graph, which is the most dynamic one: equal modules once."""
        return "\n".join(self._modules)


def _not_run(*args: Any) -> Any:
    raise AssertionError("segments are written, and not run")


def _source(segment: Segment, target: HostTarget) -> Source:
    return source_of(segment, None, None, target, ABI)


def _modules(source: Source) -> list[str]:
    return kernel_names("\0".join([*source.apart, source.text])).split("\0")


def _digest(source: Source) -> str:
    whole = "\n".join(_modules(source))
    return f"{whole.count('define ')} functions, {hashlib.sha256(whole.encode()).hexdigest()[:12]}"


# -- export -----------------------------------------------------------------------------------


def _exported(make: Callable[[], Program], folder: Path) -> dict[str, str]:
    program = _begin(make)
    if program.export is None:
        return {}
    try:
        with torch.set_grad_enabled(program.grad):
            exported = anyshape.export(program.function, program.calls[0], **program.export)
    except anyshape.AnyshapeError as error:
        return {"export": f"{type(error).__name__}: {error}"}
    text = f"{exported!r}\n\n{exported.print_readable(print_output=False)}"
    return {"export": text, "onnx": _onnx(exported, folder / "model.onnx")}


def _onnx(exported: anyshape.Exported, path: Path) -> str:
    try:
        exported.to_onnx(path)
    except anyshape.AnyshapeError as error:
        return f"{type(error).__name__}: {error}"
    return model_text(onnx.load(path))


def main(folder: Path) -> None:
    """Write the texts of all programs; that of one that fails is why."""
    for name in NAMES:
        scratch = folder / name
        scratch.mkdir()
        try:
            text = program_text(name, scratch)
        except Exception:
            text = traceback.format_exc()
        (folder / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
