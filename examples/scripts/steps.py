"""Numbered steps, with the time that they take."""

import statistics
import sys
import time
from collections.abc import Iterator


def steps(count: int) -> Iterator[int]:
    """From 0 up to `count`; the median time of the second half goes to stderr."""
    taken = list[float]()
    for number in range(count):
        start = time.perf_counter()
        yield number
        taken.append(time.perf_counter() - start)
    median = statistics.median(taken[count // 2 :])
    print(f"median step: {1e3 * median:.3f} ms", file=sys.stderr)
