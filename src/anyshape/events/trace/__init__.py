"""What the compiler tells, in files: `ANYSHAPE_TRACE=dir`.

In: events. Out, in the folder, for each process and rank:

    dedicated_log_torch_trace_[rank_N_]XXXX.log     envelopes that the `tlparse` program reads
    anyshape_events_[rank_N_]XXXX.jsonl             every event as it is (`own_events.py`)

Files are opened at the first event; nothing is written by calls that an entry serves. It must not
know torch: the rank of the process is asked of whoever starts the trace. It is loaded when it is
first asked for.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from anyshape.events.trace.sink import TraceSink, start_trace

__all__ = ["VARIABLE", "TraceSink", "start_trace"]

VARIABLE: Final = "ANYSHAPE_TRACE"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anyshape.events.trace import sink

    return getattr(sink, name)
