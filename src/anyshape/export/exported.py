"""An exported program: a graph with its weights, and what its inputs must be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Signature
from typing import Any

import torch
import torch.fx

from anyshape.arguments import bind, spelled
from anyshape.backends.native.alias_check import may_write
from anyshape.dispatch.entry import Entry
from anyshape.errors import CannotExport, ExportInputError
from anyshape.export import onnx, package, torch_bridge
from anyshape.export.attempt import undisturbed
from anyshape.export.examples import example_call
from anyshape.export.exported_call import Runs, check_backend, plain_module
from anyshape.export.graph_signature import GraphSignature, signature_of
from anyshape.export.inputs import Inputs, find
from anyshape.export.program import Program
from anyshape.export.show import readable
from anyshape.export.suggest import Suggestion
from anyshape.graph.inline_backward import computes_gradients
from anyshape.runtime.loader.code_bundle import CodeBundle
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Range


@dataclass(frozen=True, slots=True)
class DynamicSize:
    """A size or an integer that is not fixed."""

    #: where it is read: `x.shape[0]`
    source: str
    range: Range
    #: every place that has it
    places: tuple[str, ...]


class StateDict(dict[str, torch.Tensor]):
    """Weights by name, also for those who call it: torch's programs have an attribute of this name,
    and its modules a method."""

    def __call__(self) -> StateDict:
        return self


class Exported:
    """An exported program: callable like the one it was made of, for the inputs that its
    constraints describe.

    >>> linear = torch.nn.Linear(4, 2)
    >>> ep = anyshape.export(linear, (torch.ones(3, 4),), dynamic_shapes={"input": "batch 4"})
    >>> ep(torch.ones(7, 4)).shape
    torch.Size([7, 2])
    >>> sorted(ep.state_dict())
    ['bias', 'weight']
    """

    #: what calls the graph; made by the first call
    _runs: Runs | None = None

    def __init__(
        self,
        program: Program,
        suggested: Suggestion | None = None,
        notes: Sequence[str] = (),
        backend: str = "native",
        code: Mapping[str, bytes] | None = None,
        file: str = "",
    ) -> None:
        check_backend(backend)
        self._program = program
        self._backend = backend
        #: the graph with the changes that a call makes
        self._whole: torch.fx.GraphModule | None = None
        self._shelf = CodeBundle(code or {})
        #: the package that it was loaded from
        self._file = file
        #: a spec of which no size is fixed that could be dynamic; None if there is nothing to say
        self.suggested = suggested
        #: what was asked for and is not so, in words
        self.notes: tuple[str, ...] = tuple(notes)

    @property
    def name(self) -> str:
        """What the function or the class of the module is called."""
        return self._program.name

    @property
    def graph_module(self) -> torch.fx.GraphModule:
        """The graph with its weights: it runs by itself, does not look at its inputs first, and
        changes nothing. What the program changes is returned beside the result (`changes`)."""
        return self._program.graph_module

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph of `graph_module`."""
        return self.graph_module.graph

    @property
    def signature(self) -> Signature:
        """How it is called: that of the program, as Python has it."""
        return self._program.signature

    @property
    def graph_signature(self) -> GraphSignature:
        """Which nodes of the graph are weights, arguments, results and changes, as torch has it."""
        return signature_of(self._program)

    @property
    def inputs(self) -> Inputs:
        """What must be true of the arguments."""
        return self._program.inputs

    @property
    def example_inputs(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """Arguments and named ones of a call that it takes, made of zeros."""
        return example_call(self._program)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        try:
            call = bind(self.signature, args, kwargs)
        except TypeError as error:
            raise ExportInputError(function=self.name, problems=(str(error),)) from None
        call.apply_defaults()
        self.inputs.check(self.name, call.arguments)
        if self.changes:
            self._check_memory(call.arguments)
        return self._running()(*call.args, **call.kwargs)

    def _running(self) -> Runs:
        if self._runs is not None:
            return self._runs
        made = Runs(self._with_changes(), self.name, self._backend, self._shelf, self._file)
        # Threads that come at once take the same one, or each of them would compile. No lock: a
        # process that is forked meanwhile would wait for it.
        return vars(self).setdefault("_runs", made)

    def _check_memory(self, bound: Mapping[str, object]) -> None:
        """The graph takes what it changes for apart from all else."""
        state = {**dict(self.graph_module.named_parameters())}
        state |= dict(self.graph_module.named_buffers())
        given = {each.way: find(bound, each.way)[0] for each in self.inputs.conditions}
        found: dict[object, object] = {**given, **state}
        tensors = {place: each for place, each in found.items() if isinstance(each, torch.Tensor)}
        changed = [tensors.pop(each) for each in self._program.changed_places() if each in tensors]
        if may_write(changed, list(tensors.values())):
            return
        problem = (
            f"{', '.join(self.changes)}, which the program changes, share memory with each other"
            " or with something else that it reads"
        )
        raise ExportInputError(function=self.name, problems=(problem,))

    def module(self) -> torch.nn.Module:
        """For further training, or to be compiled: a plain module with the same parameters."""
        return plain_module(self._with_changes(), self.name)

    def _with_changes(self) -> torch.fx.GraphModule:
        if self._whole is None:
            self._whole = self._program.with_changes()
        return self._whole

    @property
    def entries(self) -> list[Entry]:
        """What calls have been compiled to so far; most programs have one for all sizes."""
        return [] if self._runs is None else self._runs.entries

    @property
    def changes(self) -> tuple[str, ...]:
        """Arguments and weights whose elements a call changes, by name."""
        return self._program.changes

    @property
    def gradients(self) -> tuple[str, ...]:
        """Arguments and weights whose `.grad` a call sets or adds to, by name: those of a program
        that calls `backward()`."""
        return self._program.gradients

    @property
    def state_dict(self) -> StateDict:
        """The weights by name; `ep.state_dict()` is the same."""
        return StateDict(self.graph_module.state_dict())

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Parameters with their names."""
        return self.graph_module.named_parameters()

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Parameters alone, as optimizers take them."""
        return self.graph_module.parameters()

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Buffers with their names, and tensors that the program had from elsewhere."""
        return self.graph_module.named_buffers()

    def buffers(self) -> Iterator[torch.Tensor]:
        """The same without the names."""
        return self.graph_module.buffers()

    @property
    def range_constraints(self) -> dict[str, Range]:
        """The range of each dynamic size, by name."""
        return dict(self.inputs.ranges)

    @property
    def symbols(self) -> dict[str, DynamicSize]:
        """What is dynamic, by name."""
        inputs = self.inputs
        return {
            name: DynamicSize(
                home.name,
                inputs.ranges[name],
                tuple(each.name for each in inputs.sources if each.symbol == name),
            )
            for name, home in inputs.homes.items()
        }

    @property
    def constraints(self) -> tuple[str, ...]:
        """What must hold of the sizes, one sentence each."""
        return tuple(self.inputs.constraints())

    def print_readable(self, print_output: bool = True) -> str:
        """The program as text: inputs, constraints, operators with the lines they come from."""
        text = readable(self._program)
        if print_output:
            print(text)  # noqa: T201 it is what it is called for
        return text

    def __repr__(self) -> str:
        lines = [f"Exported {self.name}{self._program.inputs_text()}"]
        lines += [f"    {each}" for each in self.constraints]
        lines += [f"    note: {each}" for each in self.notes]
        return "\n".join(lines)

    @spelled
    def save(self, path: str | os.PathLike[str], *, native_code: bool = False) -> None:
        """Write a package: a zip of JSON and safetensors; with the native code for this machine
        too, if asked for. `load` uses that only for those who trust it."""
        package.save(self._program, path, self._code() if native_code else None)

    def _code(self) -> Mapping[str, bytes]:
        """The native code of the program, made by a call if there was none yet."""
        if not self._shelf.used:
            runs = Runs(self._with_changes(), self.name, "native", self._shelf)
            module = self.graph_module
            recorded = computes_gradients(module.graph)
            with undisturbed(module), _put_back(module), torch.set_grad_enabled(recorded):
                args, kwargs = example_call(self._program, for_graph=True)
                try:
                    runs(*args, **kwargs)
                except Exception as error:
                    raise CannotExport(
                        function=self.name,
                        reason=f"native code is made by a call, which fails on zeros: {error}",
                        hints=["call it first, then save it"],
                    ) from error
        return self._shelf.used

    def to_torch(self) -> torch_bridge.ExportedProgram:
        """A `torch.export.ExportedProgram`, made by torch of this graph and these sizes."""
        return torch_bridge.to_torch(self._program)

    @spelled
    def to_onnx(self, path: str | os.PathLike[str], opset: int = 18) -> None:
        """Write an ONNX model with named dynamic sizes."""
        onnx.to_onnx(self._program, path, opset)


@contextmanager
def _put_back(module: torch.fx.GraphModule) -> Iterator[None]:
    """Parameters and their gradients are the same afterwards."""
    before = [(each, each.grad, each.detach().clone()) for each in module.parameters()]
    try:
        for each, _, _ in before:
            each.grad = None
        yield
    finally:
        with torch.no_grad():
            for each, grad, value in before:
                each.grad = grad
                each.copy_(value)


@spelled
def load(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[type] = (),
    native_code: str | None = None,
    backend: str = "native",
) -> Exported:
    """The program of a package. Results of classes that are not among `classes` are `Record`s:
    nothing is imported because a package says so.

    Native code is made of the graph, or found in the disk cache. `native_code="trusted"` takes that
    of the package, where it was made for this machine: as with any program, it can do whatever you
    can. `backend="eager"` runs operator by operator.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ep = anyshape.export(torch.sin, (torch.zeros(3),), dynamic_shapes=("n",))
    ...     ep.save(f"{folder}/sine.zip")
    ...     anyshape.load(f"{folder}/sine.zip")(torch.zeros(5))
    tensor([0., 0., 0., 0., 0.])
    """
    check_backend(backend)
    program, code, notes = package.load(path, classes, native_code)
    return Exported(program, None, notes, backend, code, os.path.basename(os.fspath(path)))
