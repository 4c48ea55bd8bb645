"""Traces made of events, by the sink that writes real ones."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from anyshape.events.kinds import (
    CallRun,
    CallsServed,
    Compiled,
    CreateSymbol,
    Decided,
    Event,
    FrameStart,
    GraphCompiled,
    GuardAdded,
    GuardFailure,
    GuardSaid,
    Measures,
    Recompile,
    SizesSeen,
    Stage,
)
from anyshape.events.trace import TraceSink


class Place(NamedTuple):
    filename: str
    line: int
    function: str


def written(folder: Path, events: list[Event], rank: int | None = None) -> Path:
    sink = TraceSink(folder, lambda: rank, {"torch": "2.13"})
    for event in events:
        sink(event)
    sink.close()
    assert not sink.failures
    return folder


def compile_of(
    function: str, frame: int, number: int, *, size: int, dynamic: bool = False, text: str = ""
) -> list[Event]:
    """One compile of a function of one tensor, and two calls that its entry serves."""
    id = f"{frame}/{number}"
    place = Place(f"{text}model.py", 10 + frame, function)
    source = "L['x'].size()[0]"
    events: list[Event] = []
    if number:
        reasons = [
            GuardFailure(f"{frame}/{n}", f"tensor 'x' size mismatch at index 0. {text}", place)
            for n in range(max(number - 30, 0), number)
        ]
        events.append(Recompile(function, place.filename, 10, reasons, compile_id=id))
    events.append(FrameStart(function, place.filename, 10, [place], compile_id=id))
    if dynamic:
        events.append(CreateSymbol("s0", size, source, "[0, int_oo]", place, text, compile_id=id))
        events.append(GuardAdded("s0 < 900", place, text, f"{source} < 900", compile_id=id))
    choice = "dynamic" if dynamic else "static"
    seen = {"L['x']": f"tensor size=[{size}, 4] stride=[4, 1]"}
    shown = "s0" if dynamic else str(size)
    code = [f'        mul_{i}: "f32[{shown}, 4]" = l_x * {i};  l_x = None' for i in range(30)]
    head = f'class GraphModule(torch.nn.Module):\n    def forward(self, L_x: "f32[{shown}, 4]"):\n'
    events += [
        SizesSeen(function, seen, {source: Decided(choice, text)}, compile_id=id),
        GraphCompiled(
            head + "\n".join(code),
            {},
            function,
            ["mul"] * 30,
            {"L_x": f"f32[{shown}, 4]"},
            ["native code: 30 operators in 1 native calls"],
            compile_id=id,
        ),
        Compiled(
            0.01,
            1,
            40,
            [
                GuardSaid("SHAPE_GUARD", f"{source} < 900", "", text, place),
                *(GuardSaid("ID_MATCH", f"G[{n}] is {text}", f"G[{n}]") for n in range(40)),
            ],
            "",
            Measures(function, place.filename, 10, [Stage("capture", 1e9 + number, 0.01)]),
            compile_id=id,
        ),
        CallsServed(
            function,
            ["L['x']"],
            [CallRun(1e9 + number, 1e9 + number, 2, [[size, 4]])],
            0,
            compile_id=id,
        ),
    ]
    return events


def many(folder: Path, functions: int, entries: int) -> Path:
    """A trace of so many compiles."""
    events = [
        event
        for frame in range(functions)
        for number in range(entries)
        for event in compile_of(f"layer_{frame}", frame, number, size=number + 2)
    ]
    return written(folder, events)
