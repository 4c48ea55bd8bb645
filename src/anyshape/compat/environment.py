"""Environment variables of PyTorch's compiler, as those of anyshape.

    TORCH_LOGS="+dynamic,guards"        ANYSHAPE_LOGS="+dynamic,guards"
    TORCH_TRACE=dir                     ANYSHAPE_TRACE=dir

To be translated before torch is loaded, which acts on them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Final

from anyshape.compat.unmapped import note
from anyshape.support.spelling import did_you_mean

#: logs of torch -> ours
LOGS: Final = {
    "dynamic": "dynamic",
    "guards": "guards",
    "verbose_guards": "guards",
    "recompiles": "recompiles",
    "recompiles_verbose": "recompiles",
    "graph_breaks": "graph_breaks",
    "graph": "graph_code",
    "graph_code": "graph_code",
    "graph_code_verbose": "graph_code",
    "graph_sizes": "graph_sizes",
    "output_code": "output_code",
    "kernel_code": "output_code",
    "schedule": "schedule",
    "fusion": "schedule",
    "aot_graphs": "aot_graphs",
    "aot_joint_graph": "aot_joint_graph",
}
ALL_LOGS: Final = tuple(dict.fromkeys(LOGS.values()))

#: variables with the same meaning
SAME: Final = {
    "TORCH_TRACE": "ANYSHAPE_TRACE",
    "TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED": "ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED",
    "TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL": "ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL",
    "TORCHDYNAMO_EXTENDED_ADVICE": "ANYSHAPE_EXTENDED_ADVICE",
}

_WITHOUT_COUNTERPART: Final = ("TORCH_LOGS_OUT", "TORCH_LOGS_FORMAT")


def translate(environment: MutableMapping[str, str]) -> None:
    """Set our variables from those of torch; ours win where both are set. Those of torch are taken
    away: it would write logs and traces of its own, with nothing in them."""
    logs = environment.pop("TORCH_LOGS", None)
    if logs:
        chosen = [*_logs(logs), *filter(None, [environment.get("ANYSHAPE_LOGS")])]
        environment["ANYSHAPE_LOGS"] = ",".join(chosen)
    for theirs, ours in SAME.items():
        value = environment.pop(theirs, None)
        if value is not None:
            environment.setdefault(ours, value)
    for name in _WITHOUT_COUNTERPART:
        if name in environment:
            note(name)


def _logs(text: str) -> Iterator[str]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        name = part.lstrip("+-")
        sign = part[: len(part) - len(name)]
        if name == "all":
            yield from (sign + log for log in ALL_LOGS)
        elif name in LOGS:
            yield sign + LOGS[name]
        else:
            note(f"TORCH_LOGS={name}{did_you_mean(name, LOGS)}")
