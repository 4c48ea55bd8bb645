"""What the compiler tells about its work, as one stream of plain values.

In: events (`kinds.py`), emitted where something happens. Out: whatever listens, for example lines
for people (`log_lines.py`). Nobody has to listen, and then nothing is built:

    if stream.listening(CreateSymbol):
        stream.emit(CreateSymbol("s0", 20, "L['x'].size()[0]", "[0, int_oo]", frame, reason))

It must not know how any of it came about: an event holds texts, numbers and places, nothing else.
"""

from anyshape.events.kinds import *  # noqa: F403 all of them: whoever listens names some
from anyshape.events.stream import Stream as Stream
from anyshape.events.stream import stream as stream
