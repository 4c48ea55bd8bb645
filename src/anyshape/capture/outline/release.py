"""Temporaries of split functions let go of their values after their last use, as Python's stack
does: an object that the program drops would live on otherwise."""

from __future__ import annotations

import ast
from typing import Final

from anyshape.capture.outline.dataflow import blocks_of, functions_inside
from anyshape.capture.rewrite.nodes import TEMPORARY, clear_at

_PREFIX: Final = TEMPORARY.partition("{}")[0] + "value_"
#: Nothing after them is run.
_ENDS: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def released(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements, with temporaries cleared after the last of them that uses each."""
    kept = set[str]().union(*map(_temporaries, functions_inside(body)))
    return _block(body, set[str]().union(*map(_temporaries, body)) - kept)


def _block(body: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """A block that alone uses these names."""
    places: dict[str, list[int]] = {}
    for index, statement in enumerate(body):
        for name in _temporaries(statement) & names:
            places.setdefault(name, []).append(index)
    out: list[ast.stmt] = []
    for index, statement in enumerate(body):
        last = {name for name, found in places.items() if found[-1] == index}
        only = {name for name in last if len(places[name]) == 1}
        inside = _delegated(statement, only)
        out.append(statement)
        cleared = sorted(last - inside)
        if cleared and not isinstance(statement, _ENDS):
            out.append(clear_at(cleared, statement))
    return out


def _delegated(statement: ast.stmt, names: set[str]) -> set[str]:
    """Clear in one of the blocks of a statement what only that uses; gives back these names."""
    blocks = list(blocks_of(statement))
    if not blocks or not names:
        return set()
    used = [set().union(*map(_temporaries, getattr(holder, field))) for holder, field in blocks]
    header = _temporaries(statement, blocks)
    done: set[str] = set()
    for (holder, field), found in zip(blocks, used, strict=True):
        own = {
            name for name in names & found - header if sum(name in others for others in used) == 1
        }
        if own:
            setattr(holder, field, _block(getattr(holder, field), own))
            done |= own
    return done


def _temporaries(node: ast.AST, without: list[tuple[ast.AST, str]] | None = None) -> set[str]:
    """The temporaries in a node; `without`: not in these blocks of it."""
    apart = {id(each) for holder, field in without or () for each in getattr(holder, field)}
    found: set[str] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if id(each) in apart:
            continue
        if isinstance(each, ast.Name) and each.id.startswith(_PREFIX):
            found.add(each.id)
        waiting.extend(ast.iter_child_nodes(each))
    return found
