"""The guards of an entry by what they look at, as torch's logs draw them.

TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GLOBAL_STATE: global state == (True, 0)
| +- GuardManager: source=L['x'], accessed_by=local
| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, torch.float32, device=cpu, size=[None, 4])
+- LAMBDA_GUARD: L['x'].size()[0] < 10

A size that is None is dynamic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyshape.guards.guard import Guard, Kind
from anyshape.guards.path import Path
from anyshape.guards.tensor_guard import check_tensor_text

#: Guards on several things at once are checked last, together.
_TOGETHER: Final = {Kind.SIZES, Kind.DISTINCT}


def tree_text(guards: Sequence[Guard], ranges: Sequence[str] = ()) -> str:
    """One line a guard, below the lines of the objects that lead to what it looks at. `ranges` is
    what is checked of sizes beside."""
    held: dict[Path, list[Guard]] = {}
    below: dict[Path | None, list[Path]] = {}
    for guard in guards:
        if guard.path is not None:
            _place(guard.path, held, below)
            held[guard.path].append(guard)
    lines = ["TREE_GUARD_MANAGER:", "+- RootGuardManager"]
    lines += [
        f"| +- {guard.kind.value}: {_told(guard)}"
        for guard in guards
        if guard.path is None and guard.kind not in _TOGETHER
    ]
    for root in below.get(None, []):
        _branch(root, "| ", held, below, lines)
    lines += [f"+- LAMBDA_GUARD: {_told(guard)}" for guard in guards if guard.kind in _TOGETHER]
    lines += [f"+- LAMBDA_GUARD: {text}" for text in ranges]
    return "\n".join(lines)


def _place(path: Path, held: dict[Path, list[Guard]], below: dict[Path | None, list[Path]]) -> None:
    while path not in held:
        held[path] = []
        below.setdefault(path.parent, []).append(path)
        if path.parent is None:
            return
        path = path.parent


def _branch(
    path: Path,
    edge: str,
    held: dict[Path, list[Guard]],
    below: dict[Path | None, list[Path]],
    lines: list[str],
) -> None:
    lines.append(f"{edge}+- GuardManager: source={path.text}, accessed_by={path.access.value}")
    edge += "| "
    lines += [f"{edge}+- {guard.kind.value}: {_told(guard)}" for guard in held[path]]
    for child in below.get(path, ()):
        _branch(child, edge, held, below, lines)


def _told(guard: Guard) -> str:
    text = check_tensor_text(guard) if guard.kind is Kind.TENSOR else guard.text
    if "\n" in text or "\r" in text:
        text = " ".join(text.split())
    frame = guard.user_frame
    return text if frame is None else f"{text}  # {frame}"
