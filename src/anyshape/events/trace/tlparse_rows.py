"""Events as the envelopes that `tlparse` shows: one row for each kind.

Names of envelopes and of their fields are those that `tlparse` knows; what it has no name for is
an artefact, which it shows under the name it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from anyshape.events import kinds
from anyshape.events.kinds import Event, Measures, Place, Stage
from anyshape.events.log_lines import stopped_lines
from anyshape.events.trace.envelope import EXPORT, Json, Writing, to_json

# -- rows -------------------------------------------------------------------------------------


def _frame_start(event: kinds.FrameStart, to: Writing) -> None:
    to.begin(event.compile_id)
    own = Place(event.file, event.line, event.function)
    to.write(event, "dynamo_start", {"stack": to.out.stack([*event.stack, own])})


def _create_symbol(event: kinds.CreateSymbol, to: Writing) -> None:
    held: dict[str, Json] = {
        "symbol": event.symbol,
        "vr": event.range,
        "source": event.source,
        "user_stack": to.out.stack([event.user_frame]),
        "stack": [],
    }
    if event.value is None:
        to.write(event, "create_unbacked_symbol", {**held, "node_id": _number(event.symbol)})
    else:
        to.write(event, "create_symbol", {**held, "val": repr(event.value)})


def _number(symbol: str) -> int:
    digits = re.fullmatch(r"[a-z]+([0-9]{1,9})", symbol)
    return int(digits[1]) if digits else 0


def _about_symbols(event: Event, key: str, metadata: Mapping[str, Json], to: Writing) -> None:
    # The page of a compile takes those of its first attempt, whichever attempt it is of.
    to.out.envelope(key, metadata, None, event.compile_id)


def _guard_added(event: kinds.GuardAdded, to: Writing) -> None:
    held = {"expr": event.expr, "user_stack": to.out.stack([event.user_frame]), "stack": []}
    _about_symbols(event, "guard_added_fast", held, to)
    if event.compile_id == EXPORT:
        to.write(event, "guard_added", {**held, **_as_export_shows(event, to)})


def _as_export_shows(event: kinds.GuardAdded, to: Writing) -> Mapping[str, Json]:
    """What `tlparse --export` makes a page of for each guard."""
    frame = event.user_frame
    return {
        "prefix": "runtime_assert" if event.at_run_time else "eval",
        "expr_node_id": to.next_number(),
        "symbol_to_sources": {},
        "frame_locals": {
            "loc": "" if frame is None else f"{frame.filename}:{frame.line}",
            "locals": {},
            "symbols": {"in terms of the inputs": event.text} if event.text else {},
        },
    }


def _exported(event: kinds.ProgramExported, to: Writing) -> None:
    to.write(event, "exported_program", {}, event.code)
    said = [*event.constraints, *(f"note: {note}" for note in event.notes)]
    to.artifact(event, "constraints", "\n".join((event.function, *said)))


def _specialised(event: kinds.Specialised, to: Writing) -> None:
    held = {
        "symbol": event.symbol,
        "sources": list(event.sources),
        "value": str(event.value),
        "reason": event.reason,
        "user_stack": to.out.stack([event.user_frame]),
        "stack": [],
    }
    _about_symbols(event, "symbolic_shape_specialization", held, to)


def _recompile(event: kinds.Recompile, to: Writing) -> None:
    # It is told before the compile begins that it leads to.
    texts = [_reason(each) for each in event.reasons]
    payload = to_json(texts[0] if len(texts) == 1 else texts)
    to.write(event, "artifact", {"name": "recompile_reasons", "encoding": "json"}, payload)


def _reason(failure: kinds.GuardFailure) -> str:
    frame = failure.user_frame
    where = f"  # {frame.filename}:{frame.line} in {frame.function}" if frame else ""
    return f"{failure.entry_id}: {failure.text}{where}"


def _graph(event: kinds.GraphCompiled, to: Writing) -> None:
    sizes = {name: list(dims) for name, dims in event.sizes.items()}
    to.write(event, "dynamo_output_graph", {"sizes": sizes}, event.code)
    if event.backend:
        to.artifact(event, "native_operators", "\n".join(event.backend))


def _stopped(event: kinds.GraphBreak | kinds.RunsEagerly, to: Writing) -> None:
    to.breaks.setdefault(event.compile_id, []).append(event.reason)
    lines, frame = stopped_lines(event), event.user_frame
    if frame is not None:
        lines += ["User code traceback:"]
        lines += [f'  File "{frame.filename}", line {frame.line}, in {frame.function}']
    to.artifact(event, "dynamo_graph_break_reason", "\n".join(lines))
    if isinstance(event, kinds.RunsEagerly):
        _metrics(event, event.measures, {}, to)


def _output_code(event: kinds.OutputCode, to: Writing) -> None:
    held = {"filename": _file_name(event.filename)} if event.filename else {}
    to.write(event, "inductor_output_code", held, event.code)


def _training_graphs(event: kinds.TrainingGraphs, to: Writing) -> None:
    to.write(event, "aot_joint_graph", {}, event.joint)
    to.write(event, "aot_forward_graph", {}, event.forward)
    to.write(event, "aot_backward_graph", {}, event.backward)


def _file_name(path: str) -> str:
    """`tlparse` makes a file of this name."""
    return re.sub(r"[^\w.-]", "_", path[-80:].rpartition("/")[2], flags=re.ASCII)


def _profile_state(event: kinds.ProfileState, to: Writing) -> None:
    place = "remote" if event.remote else "local"
    to.artifact(event, f"{event.action}_{place}_code_state", event.text)


def _collective(event: kinds.CompilerCollective, to: Writing) -> None:
    held: dict[str, Json] = {
        "function": event.function,
        "round": event.round,
        "ranks": list(event.ranks),
        "missing": list(event.missing),
        "seconds": event.seconds,
        "differing": dict(event.differing),
    }
    to.artifact(event, "compiler_collective", held)


def _compiled(event: kinds.Compiled, to: Writing) -> None:
    items = [
        {
            "code": guard.text if not guard.reason else f"{guard.text}  # {guard.reason}",
            "stack": [],
            "user_stack": to.out.stack([guard.user_frame]),
        }
        for guard in event.guard_lines
    ]
    to.write(event, "dynamo_guards", {}, to_json(items))
    to.write(event, "dynamo_cpp_guards_str", {}, event.guard_tree)
    on_sizes = sum(guard.kind == "SHAPE_GUARD" for guard in event.guard_lines)
    counts = {"guard_count": event.guards, "shape_env_guard_count": on_sizes}
    _metrics(event, event.measures, counts, to)


def _failed(event: kinds.CompileFailed, to: Writing) -> None:
    to.artifact(event, "dynamo_error", f"{event.error}: {event.text}")
    frame = event.user_frame
    held: dict[str, Json] = {
        "fail_type": _no_tags(event.error),
        "fail_reason": _no_tags(event.text),
    }
    if frame is not None:
        held["fail_user_frame_filename"] = _no_tags(frame.filename)
        held["fail_user_frame_lineno"] = max(frame.line, 0)
    _metrics(event, event.measures, held, to)


def _no_tags(text: str) -> str:
    """The page of failures shows these texts as they are: nothing in them may be markup."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _metrics(event: Event, measures: Measures, more: Mapping[str, Json], to: Writing) -> None:
    """The page that a compile ends with, and its stages on the time line."""
    stages = {stage.name: stage.seconds for stage in measures.stages}
    whole = sum(stages.values())
    started = min((stage.started for stage in measures.stages), default=0.0)
    if measures.stages:
        whole_stage = Stage("compile", started, whole)
        for stage in (whole_stage, *measures.stages):
            _on_time_line(event, stage, measures, to)
    held: dict[str, Json] = {
        "co_name": measures.function,
        "co_filename": measures.file,
        "co_firstlineno": measures.line,
        "cache_size": max(measures.entries - 1, 0),
        "accumulated_cache_size": max(measures.entries - 1, 0),
        "guard_count": 0,
        "shape_env_guard_count": 0,
        "graph_op_count": measures.operations,
        "graph_node_count": measures.nodes,
        "graph_input_count": measures.inputs,
        "start_time": started,
        "entire_frame_compile_time_s": whole,
        "backend_compile_time_s": stages.get("backend", 0.0),
        "dynamo_time_before_restart_s": 0.0,
        "non_compliant_ops": [],
        "compliant_custom_ops": [],
        "restart_reasons": [_no_tags(text) for text in to.breaks.pop(event.compile_id, [])],
        "compile_id": event.compile_id,
        "num_graph_breaks": 0,
        "duration_us": round(whole * 1e6),
        **more,
    }
    to.write(event, "compilation_metrics", held)


def _on_time_line(event: Event, stage: Stage, measures: Measures, to: Writing) -> None:
    held: dict[str, Json] = {
        "name": stage.name,
        "cat": "anyshape",
        "ph": "X",
        "ts": round(stage.started * 1e6),
        "dur": round(stage.seconds * 1e6),
        "pid": 0,
        "tid": 0,
        "args": {"compile_id": event.compile_id, "function": measures.function},
    }
    to.write(event, "chromium_event", {}, to_json(held))


def _verification_failed(event: kinds.VerificationFailed, to: Writing) -> None:
    lines = [event.function, *event.differences, event.file]
    to.artifact(event, "verification_failed", "\n".join(lines))


# -- the table --------------------------------------------------------------------------------

Row = Callable[[Event, Writing], None]
_E = TypeVar("_E", bound=Event)


def _row(kind: type[_E], write: Callable[[_E, Writing], None]) -> tuple[type[Event], Row]:
    def checked(event: Event, to: Writing) -> None:
        assert isinstance(event, kind), f"the row of {kind.__name__} got {event!r}"
        write(event, to)

    return kind, checked


def _text(kind: type[Event], name: str, template: str) -> tuple[type[Event], Row]:
    """An artefact of text; `{0}` is the event."""
    return kind, lambda event, to: to.artifact(event, name, template.format(event))


_LIMIT: Final = "{0.function} was compiled {0.limit} times. Last reason: {0.last_reason}"

ROWS: Final[dict[type[Event], Row]] = dict(
    [
        _row(kinds.FrameStart, _frame_start),
        _row(kinds.CreateSymbol, _create_symbol),
        _row(kinds.GuardAdded, _guard_added),
        _row(kinds.Specialised, _specialised),
        _row(kinds.Recompile, _recompile),
        _text(kinds.RecompileLimit, "recompile_limit", _LIMIT),
        _row(kinds.ProgramExported, _exported),
        _row(kinds.GraphCompiled, _graph),
        _row(kinds.GraphBreak, _stopped),
        _row(kinds.RunsEagerly, _stopped),
        _row(kinds.OutputCode, _output_code),
        _row(
            kinds.Schedule,
            lambda event, to: to.write(event, "graph_dump", {"name": "schedule"}, event.text),
        ),
        _text(kinds.KernelMeasured, "kernel_measured", "{0.text}"),
        _text(kinds.GraphRecorded, "cuda_graph_recorded", "{0.text}"),
        _row(kinds.TrainingGraphs, _training_graphs),
        _row(kinds.ProfileState, _profile_state),
        _row(kinds.CompilerCollective, _collective),
        _row(kinds.Compiled, _compiled),
        _row(kinds.CompileFailed, _failed),
        _text(kinds.NotVerified, "not_verified", "{0.function}: {0.reason}"),
        _row(kinds.VerificationFailed, _verification_failed),
        _text(kinds.Defect, "defect", "{0.stage}: {0.text}"),
    ]
)
