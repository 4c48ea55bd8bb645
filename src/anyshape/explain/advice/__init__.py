"""From a trace to the changes that would spare compiles.

In: the folder of a trace (`ANYSHAPE_TRACE=dir`), of which only our own events are read. Out: what
led to compiles that could have been spared, with the line, the remedy, and how many it saves:

    for advice in advise("dir"):
        print(advice.title, advice.place, advice.remedy, advice.saves)

It must not know torch, nor look at anything but the trace, which may be of another machine.
"""

from anyshape.explain.advice.advice import Advice, environment_of
from anyshape.explain.advice.advisor import Summary, advise, summary_of_trace

__all__ = ["Advice", "Summary", "advise", "environment_of", "summary_of_trace"]
