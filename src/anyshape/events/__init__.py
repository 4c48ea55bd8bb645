"""What the compiler tells about its work, as one stream of plain values.

In: events (`kinds.py`), emitted where something happens. Out: whatever listens, for example lines
for people (`log_lines.py`). Nobody has to listen, and then nothing is built:

    if stream.listening(CreateSymbol):
        stream.emit(CreateSymbol("s0", 20, "L['x'].size()[0]", "[0, int_oo]", frame, reason))

It must not know how any of it came about: an event holds texts, numbers and places, nothing else.
"""

from anyshape.events.kinds import (
    CallsServed,
    Compiled,
    CompileFailed,
    CompilerCollective,
    CreateSymbol,
    Defect,
    Event,
    Frame,
    FrameStart,
    GraphBreak,
    GraphCompiled,
    GuardAdded,
    GuardFailure,
    GuardSaid,
    MarkedDynamic,
    MarkIgnored,
    Measures,
    NotVerified,
    OutputCode,
    ProfileState,
    ProgramExported,
    RangeUpdated,
    Recompile,
    RecompileLimit,
    Replaced,
    RunCount,
    RunsEagerly,
    Schedule,
    SizesSeen,
    Specialised,
    Stage,
    SymbolShared,
    VerificationFailed,
)
from anyshape.events.settings import set_logs, set_logs_from_environment
from anyshape.events.stream import Sink, Stream, stream

__all__ = [
    "CallsServed",
    "CompileFailed",
    "Compiled",
    "CompilerCollective",
    "CreateSymbol",
    "Defect",
    "Event",
    "Frame",
    "FrameStart",
    "GraphBreak",
    "GraphCompiled",
    "GuardAdded",
    "GuardFailure",
    "GuardSaid",
    "MarkIgnored",
    "MarkedDynamic",
    "Measures",
    "NotVerified",
    "OutputCode",
    "ProfileState",
    "ProgramExported",
    "RangeUpdated",
    "Recompile",
    "RecompileLimit",
    "Replaced",
    "RunCount",
    "RunsEagerly",
    "Schedule",
    "Sink",
    "SizesSeen",
    "Specialised",
    "Stage",
    "Stream",
    "SymbolShared",
    "VerificationFailed",
    "set_logs",
    "set_logs_from_environment",
    "stream",
]
