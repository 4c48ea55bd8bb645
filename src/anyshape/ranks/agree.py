"""One function among the ranks: what they know together, asked for before each compile of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyshape.config import config
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.policy.observations import ALONE, Observation, Observations, OtherRanks
from anyshape.ranks.agreement_protocol import AgreementProtocol, Result
from anyshape.ranks.arguments import seen_in
from anyshape.ranks.group import Group, Silent, current, within
from anyshape.ranks.wire import Damaged
from anyshape.support.lazy_dataclass import dataclass
from anyshape.support.user_warning import warn_user


@dataclass(slots=True)
class AmongRanks:
    """A compiled function, under the name that it has on all ranks."""

    function: str
    file: str
    line: int
    _group: Group | None = None
    _rounds: AgreementProtocol | None = None
    #: what came out last
    _last: OtherRanks = ALONE

    def agree(
        self,
        bound: Mapping[str, Any],
        seen: Mapping[str, Observation],
        dynamic: bool | None,
        compile_id: str,
    ) -> OtherRanks:
        """What all ranks have seen of the function's sources, this call on this rank included."""
        # With `dynamic` given, or without automatic dynamic shapes, nobody would look at it.
        if not config.enable_compiler_collectives or dynamic is not None:
            return ALONE
        group = current.group() if config.automatic_dynamic else None
        if group is None:
            return ALONE
        if group.broken:
            return self._last
        limit = config.collective_timeout_seconds
        mine = _told_to_others(seen, bound)
        try:
            result = within(limit, lambda: self._rounds_in(group).agree(mine, limit))
        # The store's errors are RuntimeErrors. A rank alone is slower, not wrong.
        except (RuntimeError, Silent, Damaged) as error:
            group.broken = str(error) or type(error).__name__
            self._warn_alone(group)
            return self._last
        self._last = result.ranks
        self._tell(result, group.rank, compile_id)
        return result.ranks

    def _rounds_in(self, group: Group) -> AgreementProtocol:
        if self._rounds is None or self._group is not group:
            # Without the folder: the program may lie elsewhere on another machine.
            name = f"{Path(self.file).name}:{self.line}:{self.function}"
            self._group, self._rounds = group, group.rounds(name)
        return self._rounds

    def _tell(self, result: Result, rank: int, compile_id: str) -> None:
        if stream.listening(kinds.CompilerCollective):
            stream.emit(
                kinds.CompilerCollective(
                    self.function,
                    result.round,
                    result.came,
                    result.missing,
                    result.seconds,
                    result.ranks.told,
                    compile_id=compile_id,
                )
            )
        # Who came after the end has waited for nobody.
        if result.missing and rank in result.came:
            one = len(result.missing) == 1
            names = ", ".join(map(str, result.missing))
            warn_user(
                f"{'rank' if one else 'ranks'} {names} did not come to compile"
                f" {self.function} (compile {result.round}) in {result.seconds:.1f} s"
                f" (config.collective_timeout_seconds); the others go on without"
                f" {'it' if one else 'them'}. Has {'it' if one else 'each of them'} died, is it"
                " elsewhere in the program, or has it an entry that serves the call?",
            )

    def _warn_alone(self, group: Group) -> None:
        warn_user(
            f"rank {group.rank} cannot reach the store of the process group, and decides"
            f" alone what is dynamic from now on: {group.broken}",
        )


def _told_to_others(
    seen: Mapping[str, Observation], bound: Mapping[str, Any]
) -> Mapping[str, Observation]:
    told = Observations(seen)
    told.add_all(seen_in(bound))
    if not config.force_parameter_static_shapes:
        return told
    # Most of what a model has seen, and static whatever anybody says.
    return {source: each for source, each in told.items() if "._parameters[" not in source}
