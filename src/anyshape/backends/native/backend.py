"""The backend `"native"`: kernels where operators have native code, torch for the rest.

What cannot be lowered at all, and what fails on the way, runs as the backend `"eager"` does, with
an event that says why. The graph carries a report of it (`REPORT`), which `explain` shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.backends.eager import run_graph, run_graph_later
from anyshape.backends.native.attention_variants import by_attention_kernels
from anyshape.backends.native.listing import output_code_event, schedule_event
from anyshape.backends.native.no_autocast import is_any_autocast, without_autocast
from anyshape.backends.native.placed import built_in_places, placed, wants_cuda_graphs
from anyshape.backends.native.python_host import Host, python_host
from anyshape.backends.native.report import NativeReport, StagedReport, TrainingReport
from anyshape.backends.native.segment_functions import Functions, segment_functions, tuner_of
from anyshape.backends.native.small_graphs import least_elements
from anyshape.backends.native.training import Backward, in_stages, or_as_it_is, trained
from anyshape.backends.native.variant import Variant
from anyshape.backends.reproduction import write_reproduction
from anyshape.config import config
from anyshape.errors import InternalError
from anyshape.events import kinds
from anyshape.events.progress import progress
from anyshape.events.stream import stream
from anyshape.graph.autograd import is_recorded
from anyshape.graph.backward_graph import MODES, TrainingGraphs, training_graphs
from anyshape.graph.explicit_autocast import explicit_autocast
from anyshape.graph.functionalize import FunctionalGraph, functionalized
from anyshape.graph.given_results import as_written, without_given_results
from anyshape.graph.graph_text import graph_text
from anyshape.graph.inline_backward import computes_gradients
from anyshape.graph.known_masks import mark_known_masks
from anyshape.graph.lowered import lowered
from anyshape.graph.plan import PythonCall, Unlowerable
from anyshape.graph.recorded_operators import NothingNative
from anyshape.graph.saving_operators import SavingOperators
from anyshape.graph.stage import Stage
from anyshape.graph.training_stages import stages
from anyshape.loops import expr
from anyshape.loops.program import Segment
from anyshape.ops.node_meta import (
    AUTOTUNE,
    COMPILE_ID,
    CUDA_GRAPHS,
    EXPECTED,
    FACTS,
    LAYOUT,
    REPORT,
)
from anyshape.runtime.loader.errors import NativeUnavailable
from anyshape.support.error_notes import with_notes
from anyshape.support.lazy_dataclass import replace
from anyshape.support.user_warning import warn_user

if TYPE_CHECKING:
    pass

#: Warned of once in a process: it is the same for every graph.
_told: Final[set[str]] = set()


def run_native(
    graph: torch.fx.GraphModule, examples: list[Any], *, now: bool = False
) -> Callable[..., Any]:
    """A function of the graph's inputs that runs native code, which is there `now` or when it is
    called for the first time."""
    try:
        with expr.fresh_scope():
            return _built(without_given_results(graph), examples, now)
    except Exception as error:
        _failed(graph, error, examples)
    return run_graph(graph, examples)


def _failed(graph: torch.fx.GraphModule, error: Exception, examples: Sequence[Any]) -> None:
    """Tell why a graph runs eagerly; raise it if that is wanted."""
    if isinstance(error, Unlowerable):
        graph.meta[REPORT] = NativeReport(whole=str(error))
    elif isinstance(error, NativeUnavailable):
        graph.meta[REPORT] = NativeReport(whole=str(error))
        _report_once(f"no native code on this machine, graphs run eagerly: {error}")
    elif config.on_compile_error == "raise":
        raise error
    else:
        _report_defect(graph, list(examples), error)


def _failed_later(graph: torch.fx.GraphModule, error: Exception, args: Sequence[Any]) -> None:
    """The same when the graph is run."""
    try:
        _failed(graph, error, args)
    except Exception as same:
        raise InternalError(stage="backend", detail=with_notes(same)) from same


def _failed_with_list(graph: torch.fx.GraphModule, error: Exception, args: Sequence[Any]) -> None:
    _failed_later(graph, error, args[0])


def _built(
    graph: torch.fx.GraphModule,
    examples: list[Any],
    now: bool,
    *,
    variant: Variant | None = None,
    functions_made: Functions | None = None,
) -> Callable[..., Any]:
    """`variant`: the code is for what is recorded at one shape. `functions_made` gets the functions
    of segments."""
    if config.native_training and is_recorded(graph.graph.nodes):
        return _built_with_gradients(graph, now)
    if variant is None and (parts := placed(graph)):
        return built_in_places(graph, parts, partial(_built, examples=[], now=now))
    every: Functions = [] if functions_made is None else functions_made
    host, device = _host(graph, examples, now, every, variant=variant)
    if variant is None and _is_by_shape(graph, device):
        return _by_shape(graph, device, host, every)
    return host.run


def _host(
    graph: torch.fx.GraphModule,
    examples: list[Any],
    now: bool,
    every: Functions,
    *,
    at_once: bool = False,
    gives_up: int | None = None,
    variant: Variant | None = None,
) -> tuple[Host, torch.device]:
    """Code for a graph as a whole, and its device. `every` gets the functions of segments.
    `at_once`: outputs are stored where they are made. `gives_up`: the function takes its inputs
    in a list, which it empties, and lets go of each as soon as nothing reads it; so many, the first
    ones, nobody else has."""
    own = variant or Variant()
    progress.graph()
    plan, made = lowered(
        graph,
        at_once=at_once,
        gives_up=gives_up,
        few_rows=own.few_rows,
        few_keys=own.few_keys,
    )
    segments = [part for part in made.parts if isinstance(part, Segment)]
    called = sum(isinstance(part, PythonCall) for part in made.parts)
    tuner = tuner_of(graph, plan.device, own.branches)
    graph.meta[REPORT] = NativeReport(
        plan.native,
        plan.called,
        len(segments),
        called,
        tuning=tuner,
        fused=plan.fused,
        unfused=plan.unfused,
    )
    id = graph.meta.get(COMPILE_ID, "")
    scope = expr.copied_scope() if stream.listening(kinds.Schedule) else None
    if scope is not None:
        make = partial(schedule_event, made, plan, id, scope)
        stream.emit_made(kinds.Schedule, make)
    if not segments:
        run = _in_program_layout(graph, run_graph(graph, examples))
        taking = run if gives_up is None else lambda given: run(*given)
        return Host(taking, "", None), plan.device
    texts: dict[str, str] = {}
    hint = graph.meta[FACTS].hint
    functions = segment_functions(texts, now, plan.device, every, hint, own.branches, tuner)
    expected = graph.meta.get(EXPECTED, ())
    failed = partial(_failed_later if gives_up is None else _failed_with_list, graph)
    otherwise = _in_program_layout(graph, run_graph_later(as_written(graph)))
    host = python_host(made, functions, otherwise, expected, failed)
    if stream.listening(kinds.OutputCode):
        scope = scope or expr.copied_scope()
        own_code = host.source, segments, id, scope, texts, plan.device, gives_up is not None
        make = partial(output_code_event, *own_code)
        stream.emit_made(kinds.OutputCode, make)
    return host, plan.device


def _in_program_layout(graph: torch.fx.GraphModule, run: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that runs operator by operator is given tensors as the program has them: the layouts
    of its results follow from theirs."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    relaid = [number for number, node in enumerate(inputs) if LAYOUT in node.meta]
    if not relaid:
        return run

    def given(*args: Any) -> Any:
        own = list(args)
        for number in relaid:
            own[number] = own[number].contiguous()
        return run(*own)

    return given


def _is_by_shape(graph: torch.fx.GraphModule, device: torch.device) -> bool:
    """Whether hot shapes are CUDA graphs."""
    return device.type == "cuda" and wants_cuda_graphs(graph)


def _by_shape(
    graph: torch.fx.GraphModule, device: torch.device, host: Host, functions: Functions
) -> Callable[..., Any]:
    """The same function, by CUDA graphs."""
    from anyshape.backends.native.cuda_graphs import by_shape

    every = list(functions)

    def variant(chosen: Variant) -> Callable[..., Any]:
        said = graph.meta[REPORT]
        try:
            with expr.fresh_scope():
                return _built(graph, [], now=True, variant=chosen, functions_made=every)
        except Unlowerable:
            return host.run
        finally:
            graph.meta[REPORT] = said

    compile_id = graph.meta.get(COMPILE_ID, "")
    made, said = by_shape(graph.graph, device, host.run, host.is_apart, every, variant, compile_id)
    graph.meta[REPORT] = replace(graph.meta[REPORT], cuda_graphs=said)
    return made


def _built_with_gradients(graph: torch.fx.GraphModule, now: bool) -> Callable[..., Any]:
    if computes_gradients(graph.graph):
        raise Unlowerable("a result requires grad, and autograd computes gradients in the graph")
    explicit = explicit_autocast(graph)
    run = without_autocast(_built_without_autocast)(explicit, now)
    if explicit is graph:
        return run
    graph.meta[REPORT] = explicit.meta[REPORT]
    # Guards see to it that calls are under the autocast that is on now.
    return without_autocast(run) if is_any_autocast() else run


def _built_without_autocast(graph: torch.fx.GraphModule, now: bool) -> Callable[..., Any]:
    program = functionalized(graph)
    mark_known_masks(program.graph, graph.meta[FACTS])
    least = least_elements(program.graph, graph.meta[FACTS])
    parts = stages(program.graph)
    if len(parts) == 1:
        run = _built_stage(graph, program, now)
    else:
        run = _built_in_stages(graph, program, parts, now)
    graph.meta[REPORT] = replace(graph.meta[REPORT], least=least)
    return or_as_it_is(program, run, run_graph_later(as_written(graph)), least)


def _built_in_stages(
    graph: torch.fx.GraphModule, program: FunctionalGraph, parts: Sequence[Stage], now: bool
) -> Callable[..., Any]:
    # Modes are entered and left in order, and what is written to is known to the whole graph.
    is_apart = not program.written and not any(n.target in MODES for n in program.graph.nodes)
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    written = {inputs[number] for number in program.written}
    built: list[Callable[..., Any]] = []
    reports: list[Any] = []
    for part in parts:
        own = _LazyGraphModule(torch.nn.Module(), part.graph)
        own.meta |= graph.meta
        try:
            if is_recorded(part.graph.nodes):
                apart = functionalized(own)
                # What another stage writes to is not what it was, either.
                changed = tuple(n for n, node in enumerate(part.inputs) if node in written)
                built.append(_built_stage(own, apart._replace(written=changed, read=changed), now))
            else:
                built.append(_built(own, [], now))
        except Unlowerable as why:
            if not is_apart and not isinstance(why, NothingNative):
                raise
            own.meta[REPORT] = NativeReport(whole=str(why))
            built.append(run_graph(own, []))
        reports.append(own.meta[REPORT])
    if not any(isinstance(each, TrainingReport) for each in reports):
        raise Unlowerable(next((each.whole for each in reports if each.whole), "no native stage"))
    graph.meta[REPORT] = StagedReport(reports)
    return in_stages(program, parts, built)


def _built_stage(
    graph: torch.fx.GraphModule, program: FunctionalGraph, now: bool
) -> Callable[..., Any]:
    def build(own: FunctionalGraph) -> Callable[..., Any]:
        said = graph.meta.get(REPORT)
        try:
            with expr.fresh_scope():
                return _built_for_training(graph, own, now)
        finally:
            if isinstance(said, TrainingReport):
                graph.meta[REPORT] = said  # of the first

    failed = partial(_failed_later, graph, args=())
    as_it_is = run_graph_later(as_written(graph))
    return by_attention_kernels(program, graph.meta[FACTS], build, as_it_is, failed)


def _built_for_training(
    graph: torch.fx.GraphModule, program: FunctionalGraph, now: bool
) -> Callable[..., Any]:
    memory = config.training_memory
    graphs = training_graphs(graph, program, memory=memory)
    every: Functions = []
    host, device = _host(graphs.forward, [], now, every, at_once=True)
    pairs = said = None
    if _is_by_shape(graph, device):
        from anyshape.backends.native.paired_graphs import paired

        pairs, said = paired(graphs, device, host, every, graph.meta.get(COMPILE_ID, ""))
    report = TrainingReport(graphs.forward.meta[REPORT], {}, graphs.by_torch, _kept(graphs), said)
    graph.meta[REPORT] = report

    def backward(used: tuple[int, ...]) -> Backward | None:
        """Made when gradients come back: most programs need those of one output alone."""
        try:
            with expr.fresh_scope():
                is_whole = used == graphs.differentiable
                own = graphs if is_whole else training_graphs(graph, program, used, graphs, memory)
                kept = len(graphs.kept)
                made, _ = _host(own.backward, [], now, every, at_once=True, gives_up=kept)
        except Exception as error:
            _failed_later(graph, error, [])
            return None
        report.backward[used] = own.backward.meta[REPORT]
        return Backward(own, made.run, "" if pairs is None else pairs.why_not(own.backward.graph))

    eager = _LazyGraphModule(torch.nn.Module(), program.graph)
    if stream.listening(kinds.TrainingGraphs):
        texts = [graph_text(each) for each in (eager, graphs.forward, graphs.backward)]
        stream.emit(kinds.TrainingGraphs(*texts, compile_id=graph.meta.get(COMPILE_ID, "")))
    saving = SavingOperators(program.graph, graph.meta[FACTS])
    later = run_graph_later(eager), run_graph_later(as_written(graph))
    return trained(graphs, host.run, backward, *later, saving, pairs)


def _kept(graphs: TrainingGraphs) -> str:
    return (
        f"{len(graphs.kept)} results and {len(graphs.inputs)} inputs are saved, "
        f"{graphs.again} operators are recomputed"
    )


def _report_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        warn_user(text)


def _report_defect(graph: torch.fx.GraphModule, examples: list[Any], error: Exception) -> None:
    path = write_reproduction(graph, examples, error)
    where = "" if path is None else f"; {path} shows it"
    text = f"native code failed, the graph runs eagerly: {with_notes(error)}{where}"
    graph.meta[REPORT] = NativeReport(whole=text)
    stream.emit(kinds.Defect("native", text, compile_id=graph.meta.get(COMPILE_ID, "")))


class Switched:
    """A function that becomes another one, once that is made."""

    __slots__ = ("made", "run")

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run
        self.made: Future[Callable[..., Any]] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    def switch(self, made: Future[Callable[..., Any]]) -> None:
        if made.exception() is None:
            self.run = made.result()


def run_native_or_wait(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """Native code now, or as soon as another thread has made it (`config.background_compile`)."""
    # Another thread would not know that autocast is on.
    if not config.background_compile or is_any_autocast():
        return run_native(graph, examples)
    function = Switched(run_graph(graph, examples))
    function.made = _worker().submit(run_native, graph, examples, now=True)
    function.made.add_done_callback(function.switch)
    return function


def with_modes(*marks: str) -> Callable[..., Any]:
    """The backend where more is asked for: CUDA graphs, tuned kernels."""

    def run_native_with_modes(
        graph: torch.fx.GraphModule, examples: list[Any]
    ) -> Callable[..., Any]:
        graph.meta |= dict.fromkeys(marks, True)
        return run_native_or_wait(graph, examples)

    return run_native_with_modes


#: By whether CUDA graphs are asked for, and whether tuned kernels are.
MODES_OF_NATIVE: Final = {
    (True, False): with_modes(CUDA_GRAPHS),
    (False, True): with_modes(AUTOTUNE),
    (True, True): with_modes(CUDA_GRAPHS, AUTOTUNE),
}


@functools.cache
def _worker() -> ThreadPoolExecutor:
    # One: compiling in parallel would take the cores from the program.
    return ThreadPoolExecutor(1, thread_name_prefix="anyshape compile")
