"""What the compiler tells, in files: `ANYSHAPE_TRACE=dir`.

In: events. Out, in the folder, for each process and rank:

    dedicated_log_torch_trace_[rank_N_]XXXX.log     envelopes that the `tlparse` program reads
    anyshape_events_[rank_N_]XXXX.jsonl             every event as it is (`own_events.py`)

Files are opened at the first event; nothing is written by calls that an entry serves. It must not
know torch: the rank of the process is asked of whoever starts the trace.
"""

from anyshape.events.trace.sink import TraceSink, start_trace, start_trace_from_environment

__all__ = ["TraceSink", "start_trace", "start_trace_from_environment"]
