"""The function of an entry: run the graph, then make the result and the changes it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshape.ops.modes import back_to, modes_now
from anyshape.runtime.loader.errors import OutOfRange
from anyshape.support.random_state import default_generators


class GraphFailed(Exception):
    """The graph of an entry raised. `repeatable`: nothing has been changed, so that the call can be
    made again, eagerly, to get the user's own error."""

    def __init__(self, error: Exception, repeatable: bool) -> None:
        super().__init__(error)
        self.error = error
        self.repeatable = repeatable


def assemble(
    compiled: Callable[..., Any],
    *,
    inputs: int,
    extra: int,
    outputs: int,
    lines: Sequence[str],
    namespace: dict[str, Any],
    result: str,
    repeatable: bool,
    fails_first: bool,
    changes_state: bool,
    draws_random: bool,
    name: str,
) -> Callable[..., Any]:
    """A function of the graph's inputs and the extra ones. `fails_first`: where a position in a
    tensor turns out to be bad, nothing has been changed."""
    arguments = [f"g{index}" for index in range(inputs)]
    parameters = ", ".join([*arguments, *(f"x{index}" for index in range(extra))])
    targets = "".join(f"t{index}, " for index in range(outputs))
    call = f"graph({', '.join(arguments)})"
    source = [f"def run({parameters}):"]
    # A failed graph is run again, eagerly, if that is possible: from the same state.
    draws_random = draws_random and repeatable
    unchanged = "type(error) is OutOfRange" if fails_first and not repeatable else f"{repeatable}"
    if changes_state:
        source.append("    state = before()")
    if draws_random:
        source.append("    random = generator.get_state()")
    source += [
        "    try:",
        f"        {f'{targets}= {call}' if targets else call}",
        "    except Exception as error:",
        *(["        restore(state)"] if changes_state else []),
        *(["        generator.set_state(random)"] if draws_random else []),
        f"        raise GraphFailed(error, {unchanged}) from error",
        *(f"    {line}" for line in lines),
        f"    return {result}",
    ]
    values = {
        **namespace,
        "graph": compiled,
        "GraphFailed": GraphFailed,
        "OutOfRange": OutOfRange,
        "before": modes_now,
        "restore": back_to,
        "generator": default_generators,
    }
    exec(compile("\n".join(source), f"<anyshape: {name}>", "exec"), values)
    return values["run"]
