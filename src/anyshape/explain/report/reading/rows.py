"""What each kind of event says: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from anyshape.explain.report.reading.building import Building, id_of, when
from anyshape.explain.report.reading.fields import (
    Record,
    each_of,
    int_of,
    items_of,
    mapping_of,
    maybe_int,
    parts_of,
    place_of,
    seconds_of,
    text_of,
    texts_of,
)
from anyshape.explain.report.reading.model import (
    Assumed,
    Attempt,
    Break,
    Collective,
    Failed,
    Fixed,
    Graph,
    Served,
    Stage,
    TracedGuard,
    TracedSymbol,
)

_LONGEST_CODE: Final = 200_000


def _source(to: Building, event: Record) -> None:
    known = to.process.sources.setdefault(text_of(event.get("file"), 1000), {})
    first = int_of(event.get("first_line"), 1)
    for number, line in enumerate(items_of(event.get("lines"))[:1000], first):
        known[number] = text_of(line, 1000)


def _named(to: Building, event: Record) -> None:
    to.name(
        id_of(event),
        text_of(event.get("function"), 500),
        text_of(event.get("file"), 1000),
        int_of(event.get("line")),
    )


def _frame_start(to: Building, event: Record) -> None:
    _named(to, event)
    attempt = to.begin(id_of(event), when(event))
    attempt.stack = [p for p in each_of(event.get("stack"), place_of) if p is not None]


def _recompile(to: Building, event: Record) -> None:
    _named(to, event)
    to.recompiles[id_of(event)] = each_of(event.get("reasons"), _failed)


def _failed(value: object) -> Failed:
    entry_id, text, place = parts_of(value, 3)
    return Failed(text_of(entry_id, 40), text_of(text), place_of(place))


def _recompile_limit(to: Building, event: Record) -> None:
    _named(to, event)
    limit = int_of(event.get("limit")), text_of(event.get("last_reason"))
    to.function(id_of(event)).limit = limit


def _create_symbol(to: Building, event: Record) -> None:
    to.attempt(event).symbols.append(
        TracedSymbol(
            text_of(event.get("symbol"), 100),
            maybe_int(event.get("value")),
            text_of(event.get("source")),
            text_of(event.get("range"), 200),
            text_of(event.get("reason")),
            place_of(event.get("user_frame")),
        )
    )


def _symbol(to: Building, event: Record) -> TracedSymbol | None:
    name = text_of(event.get("symbol"), 100)
    found = [each for each in to.attempt(event).symbols if each.name == name]
    return found[-1] if found else None


def _range_updated(to: Building, event: Record) -> None:
    if (symbol := _symbol(to, event)) is not None:
        symbol.ranges.append(text_of(event.get("range"), 200))


def _replaced(to: Building, event: Record) -> None:
    if (symbol := _symbol(to, event)) is not None:
        symbol.replaced_by = text_of(event.get("by"))


def _specialised(to: Building, event: Record) -> None:
    if (symbol := _symbol(to, event)) is not None:
        reason, place = text_of(event.get("reason")), place_of(event.get("user_frame"))
        symbol.fixed = Fixed(int_of(event.get("value")), reason, place)


def _guard_added(to: Building, event: Record) -> None:
    to.attempt(event).assumed.append(
        Assumed(
            text_of(event.get("expr")),
            text_of(event.get("text")) or text_of(event.get("expr")),
            text_of(event.get("reason")),
            place_of(event.get("user_frame")),
            event.get("at_run_time") is True,
        )
    )


def _sizes_seen(to: Building, event: Record) -> None:
    to.start_over(id_of(event))
    attempt = to.attempt(event)
    attempt.seen = {text_of(k): text_of(v) for k, v in mapping_of(event.get("seen")).items()}
    decisions = mapping_of(event.get("decisions"))
    pairs = {text_of(source): parts_of(value, 2) for source, value in decisions.items()}
    attempt.decisions = {k: (text_of(a, 40), text_of(b)) for k, (a, b) in pairs.items()}


def _graph(to: Building, event: Record) -> None:
    inputs = mapping_of(event.get("inputs"))
    to.attempt(event).graphs.append(
        Graph(
            text_of(event.get("code"), _LONGEST_CODE),
            texts_of(event.get("operators")),
            {text_of(name): text_of(what) for name, what in inputs.items()},
            texts_of(event.get("backend")),
            int_of(event.get("number")),
            maybe_int(event.get("after")),
            text_of(event.get("outcome"), 200),
            text_of(event.get("asks")),
            place_of(event.get("user_frame")),
        )
    )


def _break(event: Record) -> Break:
    place, hints = place_of(event.get("user_frame")), texts_of(event.get("hints"))
    return Break(text_of(event.get("reason")), place, hints)


def _graph_break(to: Building, event: Record) -> None:
    to.attempt(event).breaks.append(_break(event))


def _measured(to: Building, event: Record, status: str) -> Attempt:
    attempt = to.attempt(event)
    measures = mapping_of(event.get("measures"))
    attempt.status = status
    attempt.stages = each_of(measures.get("stages"), _stage)
    attempt.operations = int_of(measures.get("operations"))
    listed = sum(stage.seconds for stage in attempt.stages)
    attempt.seconds = max(seconds_of(event.get("seconds")) or listed, 0.0)
    _named(to, {**measures, "compile_id": id_of(event)})
    return attempt


def _stage(value: object) -> Stage:
    name, started, seconds = parts_of(value, 3)
    return Stage(text_of(name, 100), seconds_of(started), max(seconds_of(seconds), 0.0))


def _compiled(to: Building, event: Record) -> None:
    _measured(to, event, "compiled")
    to.entry(id_of(event)).guards = each_of(event.get("guard_lines"), _guard)


def _guard(value: object) -> TracedGuard:
    kind, text, source, reason, place = parts_of(value, 5)
    return TracedGuard(
        text_of(kind, 100), text_of(text), text_of(source), text_of(reason), place_of(place)
    )


def _runs_eagerly(to: Building, event: Record) -> None:
    _measured(to, event, "eager").stopped = _break(event)


def _compile_failed(to: Building, event: Record) -> None:
    attempt = _measured(to, event, "failed")
    attempt.error = text_of(event.get("error"), 500)
    attempt.stopped = Break(text_of(event.get("text")), place_of(event.get("user_frame")), ())


def _run_count(to: Building, event: Record) -> None:
    entry = to.entry(id_of(event))
    entry.run_count = (entry.run_count or 0) + max(int_of(event.get("hits")), 0)


def _calls_served(to: Building, event: Record) -> None:
    entry = to.entry(id_of(event))
    sources = texts_of(event.get("sources"))
    entry.left_out += max(int_of(event.get("left_out")), 0)
    for call in items_of(event.get("calls")):
        first, last, count, values = parts_of(call, 4)
        told = [_value(each) for each in items_of(values)]
        pairs = dict(zip(sources, told, strict=False))
        known = {source: value for source, value in pairs.items() if value is not None}
        entry.served.append(
            Served(seconds_of(first), seconds_of(last), max(int_of(count), 0), known)
        )


def _value(value: object) -> list[int] | int | None:
    is_list = isinstance(value, list)
    return each_of(cast("object", value), int_of) if is_list else maybe_int(value)


def _profile_state(to: Building, event: Record) -> None:
    action, text = text_of(event.get("action"), 20), text_of(event.get("text"))
    to.attempt(event).profile.append((action, event.get("remote") is True, text))


def _collective(to: Building, event: Record) -> None:
    differing = mapping_of(event.get("differing"))
    to.attempt(event).collective = Collective(
        int_of(event.get("round")),
        each_of(event.get("ranks"), int_of),
        each_of(event.get("missing"), int_of),
        seconds_of(event.get("seconds")),
        {text_of(source): text_of(what) for source, what in differing.items()},
    )


def _mark_ignored(to: Building, event: Record) -> None:
    pair = text_of(event.get("source")), text_of(event.get("reason"))
    if id_of(event):
        to.attempt(event).ignored.append(pair)
    else:
        to.process.defects.append(f"the mark of {pair[0]} is not used: {pair[1]}")


def _defect(to: Building, event: Record) -> None:
    text = f"{text_of(event.get('stage'), 100)}: {text_of(event.get('text'))}"
    if id_of(event):
        to.attempt(event).defects.append(text)
    to.process.defects.append(text)


def _schedule(to: Building, event: Record) -> None:
    if id_of(event):
        to.attempt(event).schedules.append(text_of(event.get("text"), _LONGEST_CODE))


def _output_code(to: Building, event: Record) -> None:
    if id_of(event):
        to.attempt(event).code.append(text_of(event.get("code"), _LONGEST_CODE))


Row = Callable[[Building, Record], None]

ROWS: Final[dict[str, Row]] = {
    "source": _source,
    "frame_start": _frame_start,
    "recompile": _recompile,
    "recompile_limit": _recompile_limit,
    "create_symbol": _create_symbol,
    "range_updated": _range_updated,
    "replaced": _replaced,
    "specialised": _specialised,
    "guard_added": _guard_added,
    "sizes_seen": _sizes_seen,
    "graph_compiled": _graph,
    "graph_break": _graph_break,
    "compiled": _compiled,
    "runs_eagerly": _runs_eagerly,
    "compile_failed": _compile_failed,
    "run_count": _run_count,
    "calls_served": _calls_served,
    "profile_state": _profile_state,
    "compiler_collective": _collective,
    "mark_ignored": _mark_ignored,
    "defect": _defect,
    "schedule": _schedule,
    "output_code": _output_code,
}
