"""The tensors and numbers of a result, each with a name that says where in it they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import torch.fx

from anyshape.export import results

_PARTS: Final = frozenset(results.OPERATORS.values())


def outputs_in(result: object) -> dict[str, torch.fx.Node]:
    """By name: `logits`, `past_0`, `output` if it is all. What is there twice is one output, and
    constants are none."""
    found: dict[torch.fx.Node, str] = {}
    for name, value in _leaves(result, ()):
        if isinstance(value, torch.fx.Node):
            found.setdefault(value, name)
    return _distinct(found)


def _distinct(found: dict[torch.fx.Node, str]) -> dict[str, torch.fx.Node]:
    made: dict[str, torch.fx.Node] = {}
    for node, name in found.items():
        unused, count = name, 0
        while unused in made:
            count += 1
            unused = f"{name}_{count}"
        made[unused] = node
    return made


def _leaves(value: object, at: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if isinstance(value, torch.fx.Node) and value.target in _PARTS:
        for key, item in _items(value):
            yield from _leaves(item, (*at, key))
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*at, str(index)))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*at, str(key)))
    else:
        first = at[0] if at else "output"
        # A position alone is no name.
        yield "_".join(("output", *at) if at and first.isdecimal() else at or ("output",)), value


def _items(node: torch.fx.Node) -> Iterator[tuple[str, object]]:
    """The parts of an object that a graph puts together, by key, name or position."""
    args: Any = node.args
    if node.target is results.as_dict:
        yield from ((str(key), item) for key, item in args)
    elif node.target is results.record:
        _, pairs, attributes = args
        yield from ((str(key), item) for key, item in pairs)
        yield from ((str(key), item) for key, item in attributes.items())
    elif node.target is results.named_tuple:
        _, names, *items = args
        yield from zip(names, items, strict=True)
    else:
        # What comes before the parts is what they are parts of.
        named = node.target in (results.return_type, results.container)
        yield from ((str(index), item) for index, item in enumerate(args[int(named) :]))


_NESTED: Final = re.compile(r", (?![^(]*\))")


def sizes_in_text(shape: str) -> list[str]:
    """`float32[n, min(a, b)]`: its sizes."""
    inner = shape.partition("[")[2].removesuffix("]")
    return _NESTED.split(inner) if inner else []
