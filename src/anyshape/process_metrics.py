"""What compiled functions did so far, for whoever watches a service: `anyshape.metrics()`.

Calls count nothing for it that they do not count anyway: a scrape reads what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from anyshape.dispatch.entry import Counts, all_counts
from anyshape.events.native_counts import counts as native_counts
from anyshape.support.lazy_dataclass import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class FunctionMetrics:
    """What one compiled function did, or all of them together.

    >>> anyshape.metrics().functions["scaled"].recompiles  # doctest: +SKIP
    0
    """

    #: captures of the program, each for an entry or a way through it that was not known
    compiles: int = 0
    #: compiles of a function that had an entry, which did not fit
    recompiles: int = 0
    #: calls that compiled code has served
    hits: int = 0
    #: calls that ran as plain Python
    eager_calls: int = 0
    graph_breaks: int = 0
    graphs: int = 0
    #: that calls have spent on compiles, and on waiting for native code
    compile_seconds: float = 0.0
    #: what it is called, and "service.py:12", if that is known
    name: str = ""
    where: str = ""
    #: which of those of its name, counted from 1; 0: all functions together
    number: int = 0


@dataclass(frozen=True, slots=True)
class NativeMetrics:
    """Machine code of the process: made, found, refused.

    >>> anyshape.metrics().native.builds  # doctest: +SKIP
    12
    """

    #: modules that became machine code here, and how long that took, of all threads together
    builds: int = 0
    build_seconds: float = 0.0
    #: code found in `config.cache_dir`, and code fetched from `config.cache_url`
    cache_hits_local: int = 0
    cache_hits_remote: int = 0
    cache_misses_remote: int = 0
    #: code that was not loaded since its signature is missing or wrong
    cache_refused: int = 0
    cache_failures_remote: int = 0
    cache_uploads: int = 0
    #: code that another process made while this one waited for it
    made_by_others: int = 0
    #: shapes that were recorded as CUDA graphs
    cuda_graphs: int = 0


@dataclass(frozen=True, slots=True)
class Metrics:
    """Numbers of this process, since it started or since `reset`.

    >>> found = anyshape.metrics()  # doctest: +SKIP
    >>> found.total.compiles, found.native.builds  # doctest: +SKIP
    (1, 3)
    """

    #: each compiled function by its name; the second of a name, in the order of the calls of
    #: `compile`, by "name#2"
    functions: Mapping[str, FunctionMetrics]
    total: FunctionMetrics
    native: NativeMetrics

    def prometheus(self) -> str:
        """The same as text that Prometheus reads, for an endpoint `/metrics`.

        >>> print(anyshape.metrics().prometheus())  # doctest: +SKIP
        # HELP anyshape_compiles_total ...
        # TYPE anyshape_compiles_total counter
        anyshape_compiles_total{function="scaled",where="service.py:12",number="1"} 1
        """
        return "".join(f"{line}\n" for line in _exposition(self))


def metrics() -> Metrics:
    """What all compiled functions of the process did so far: `functions` has a row for each,
    `total` their sum, `native` the machine code and its caches; `prometheus()` is text for a
    scrape.

    Rows have `compiles`, `recompiles`, `hits`, `eager_calls`, `graph_breaks`, `graphs`,
    `compile_seconds`, and `name` and `where` of the function; two of one name are told apart by
    `number`, and by their keys.

    >>> double = anyshape.compile(lambda x: x * 2, dynamic=True, name="double")
    >>> for n in (3, 5, 8):
    ...     y = double(torch.ones(n))
    >>> row = anyshape.metrics().functions["double"]
    >>> row.compiles, row.hits, row.eager_calls
    (1, 2, 0)
    """
    every = list(all_counts)
    native = native_counts
    return Metrics(
        _rows(every),
        _together(every),
        NativeMetrics(
            native.builds,
            native.build_seconds,
            native.local_hits,
            native.remote_hits,
            native.remote_misses,
            native.refused,
            native.remote_failures,
            native.uploads,
            native.waited_for,
            native.cuda_graphs,
        ),
    )


#: So many functions of one name have rows of their own; later ones share one. A program that
#: compiles a function for each request must not make a time series for each.
_MOST_OF_A_NAME: Final = 100


def _rows(every: Iterable[Counts]) -> dict[str, FunctionMetrics]:
    """Each function under a key of its own, together with its parts."""
    functions: dict[Counts, list[Counts]] = {}
    for counts in every:
        functions.setdefault(counts.owner or counts, []).append(counts)
    of_a_name: dict[str, list[tuple[str, list[Counts]]]] = {}
    for function, each in functions.items():
        rows = of_a_name.setdefault(function.function, [])
        if len(rows) <= _MOST_OF_A_NAME:
            rows.append((function.where if len(rows) < _MOST_OF_A_NAME else "", each))
        else:
            rows[-1][1].extend(each)
    found: dict[str, FunctionMetrics] = {}
    for name, rows in of_a_name.items():
        for number, (where, each) in enumerate(rows, start=1):
            key = name if number == 1 else f"{name}#{number}"
            while key in found:  # somebody named a function so
                key += f"#{number}"
            found[key] = replace(_together(each), name=name, where=where, number=number)
    return found


def _together(every: Iterable[Counts]) -> FunctionMetrics:
    found = FunctionMetrics()
    for counts in every:
        found = replace(
            found,
            compiles=found.compiles + counts.captures,
            recompiles=found.recompiles + counts.recompiles,
            hits=found.hits + sum(counter[0] for counter in list(counts.hits)),
            # A part of a function that runs eagerly belongs to a call that is counted already.
            eager_calls=found.eager_calls + (0 if counts.is_part else counts.eager_calls),
            graph_breaks=found.graph_breaks + counts.graph_breaks,
            graphs=found.graphs + counts.graphs,
            compile_seconds=found.compile_seconds + counts.compile_seconds,
        )
    return found


# -- Prometheus ------------------------------------------------------------------------------------

#: By field: the name of the counter without its prefix, and what it says.
_OF_FUNCTIONS: Final = {
    "compiles": ("compiles_total", "Captures of a function."),
    "recompiles": ("recompiles_total", "Compiles for calls that no entry fitted."),
    "hits": ("hits_total", "Calls that compiled code served."),
    "eager_calls": ("eager_calls_total", "Calls that ran as plain Python."),
    "graph_breaks": ("graph_breaks_total", "Places where a graph had to end."),
    "graphs": ("graphs_total", "Graphs that were compiled."),
    "compile_seconds": ("compile_seconds_total", "Time that calls spent on compiles."),
}
_OF_THE_PROCESS: Final = {
    "builds": ("native_builds_total", "Modules that became machine code in this process."),
    "build_seconds": ("native_build_seconds_total", "Time of all threads that made it."),
    "cache_hits_local": ("cache_hits_local_total", "Code found in the cache on disk."),
    "cache_hits_remote": ("cache_hits_remote_total", "Code fetched from the shared cache."),
    "cache_misses_remote": ("cache_misses_remote_total", "Code the shared cache did not have."),
    "cache_refused": ("cache_refused_total", "Shared code without a right signature."),
    "cache_failures_remote": ("cache_failures_remote_total", "Requests that failed."),
    "cache_uploads": ("cache_uploads_total", "Code given to the shared cache."),
    "made_by_others": ("native_made_by_others_total", "Code another process made meanwhile."),
    "cuda_graphs": ("cuda_graphs_total", "Shapes that were recorded as CUDA graphs."),
}


def _exposition(found: Metrics) -> Iterator[str]:
    for field, (name, about) in _OF_FUNCTIONS.items():
        yield from _head(name, about)
        for each in sorted(found.functions.values(), key=lambda row: (row.name, row.number)):
            yield f"anyshape_{name}{{{_labels(each)}}} {getattr(each, field)}"
    for field, value in asdict(found.native).items():
        name, about = _OF_THE_PROCESS[field]
        yield from _head(name, about)
        yield f"anyshape_{name} {value}"


def _head(name: str, about: str) -> Iterator[str]:
    yield f"# HELP anyshape_{name} {about}"
    yield f"# TYPE anyshape_{name} counter"


def _labels(row: FunctionMetrics) -> str:
    """All three for all rows: a query by `function` alone finds all of that name."""
    labels = {"function": row.name, "where": row.where, "number": str(row.number)}
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
