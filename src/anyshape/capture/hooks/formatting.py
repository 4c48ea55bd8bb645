"""The text of a value: what `str`, `repr`, `format` and f-strings make of it.

Numbers that another run may have otherwise, and tensors, give a text that a compiled run writes
anew (`traced_text`). Objects are asked through hooks.
"""

from __future__ import annotations

import functools
import re
import string
import types
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.hooks.reference import CONVERSIONS
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.numbers.traced_text import (
    TRACED_VALUES,
    Piece,
    Snapshot,
    TracedText,
    bare,
    joined,
)
from anyshape.capture.record.data_dependent_shapes import is_opaque
from anyshape.capture.value_kinds import ATOMS, TENSORS

Hooks = Any

#: Containers in containers, as deep as they are looked into.
_DEEPEST: Final = 20


def text_of(hooks: Hooks, value: Any, conversion: str | None, spec: str, depth: int = 0) -> str:
    """What a value is formatted to, as an f-string has it: conversion first, then the format."""
    kind = type(value)
    spec = hooks.specialized(spec, "it is a format")
    if kind in ATOMS:
        return _formatted(value, conversion, spec)
    if kind is TracedText and conversion in (None, "s") and not spec:
        return value
    if isinstance(value, torch.Tensor):
        return _piece(hooks, snapshot(hooks, value), value, conversion, spec)
    if kind in TRACED_VALUES and kind is not TracedText and conversion != "a":
        return _piece(hooks, value, bare(value), conversion, spec)
    if kind in _BRACKETS and not spec and conversion != "a" and _holds_pieces(value):
        return _of_container(hooks, value, depth)
    found = _through_own_method(hooks, value, conversion, spec)
    if found is not None:
        return found
    value = hooks.specialized(hooks.operand(value), "it is formatted")
    if not hooks.prints_itself(value):
        raise AbortCapture(f"a {kind.__name__} is formatted")
    return _formatted(value, conversion, spec)


def _formatted(value: object, conversion: str | None, spec: str) -> str:
    if conversion == "%":
        return spec % (value,)
    if conversion is not None:
        value = CONVERSIONS[conversion](value)
    return format(value, spec)


def _piece(hooks: Hooks, value: object, real: object, conversion: str | None, spec: str) -> str:
    with torch._C.DisableTorchFunction():
        text = _formatted(real, conversion, spec)
    hooks.tracer.cannot_replay("a text is made")
    return TracedText(text, (Piece(value, conversion, spec),), hooks.tracer)


def snapshot(hooks: Hooks, tensor: torch.Tensor) -> Snapshot:
    """A copy of a tensor, made by the graph at this point: it may be written to later."""
    kind = type(tensor)
    with torch._C.DisableTorchFunction():
        if kind not in TENSORS or is_opaque(tensor) or tensor.is_quantized or tensor.is_meta:
            raise AbortCapture(f"a {kind.__name__} of layout {tensor.layout} is formatted")
        function = tensor.grad_fn
        requires_grad = tensor.requires_grad
    run = hooks.recorder.run
    copy = run(torch.Tensor.clone, (run(torch.Tensor.detach, (tensor,), {}),), {})
    name = None if function is None else _name_of_function(function)
    return Snapshot(copy, kind is torch.nn.Parameter, requires_grad, name)


def _name_of_function(function: Any) -> str:
    name = type(function).__name__
    return function.name().rpartition("::")[2] if name == "CppFunction" else name


def shown(
    tensor: torch.Tensor, parameter: bool, requires_grad: bool, grad_fn: str | None
) -> torch.Tensor:
    """A snapshot in a compiled run: a tensor that looks like the one that the program showed."""
    if parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    if grad_fn is not None:
        with torch.enable_grad():
            return _named_function(grad_fn).apply(tensor.requires_grad_())
    return tensor.requires_grad_() if requires_grad else tensor


@functools.lru_cache(maxsize=1024)
def _named_function(name: str) -> Any:
    """A function whose results say that they come from one of that name."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, tensor: torch.Tensor) -> torch.Tensor:
            return tensor.view_as(tensor)

        @staticmethod
        def backward(ctx: object, *grads: torch.Tensor) -> torch.Tensor:
            return grads[0]

    Made._backward_cls.__name__ = name
    return Made


# -- templates -------------------------------------------------------------------------------------

_PERCENT: Final = re.compile(r"%([#0\- +]*\d*(?:\.\d+)?)([diouxXeEfFgGrsa%])")
_BY_NUMBER: Final = frozenset("diouxXeEfFgG")


def percent(hooks: Hooks, template: str, values: object) -> str:
    """`template % values`."""
    given = values if type(values) is tuple else (values,)
    matches = list(_PERCENT.finditer(template))
    taken = [match for match in matches if match[2] != "%"]
    others = _PERCENT.sub("", template)
    if "%" in others or len(taken) != len(given) or not _holds_pieces(given):
        return _plainly(hooks, template, values)
    parts: list[str] = []
    end, each = 0, iter(given)
    for match in matches:
        parts += [template[end : match.start()], "%" if match[2] == "%" else ""]
        if match[2] != "%":
            parts.append(_percent_piece(hooks, match[0], match[2], next(each)))
        end = match.end()
    return joined((*parts, template[end:]))


def _plainly(hooks: Hooks, template: str, values: object) -> str:
    values = hooks.specialized(hooks.operand(values), "it is formatted")
    if not hooks.prints_itself(values):
        raise AbortCapture("an object is formatted")
    return template % values


def _percent_piece(hooks: Hooks, form: str, letter: str, value: object) -> str:
    if letter in _BY_NUMBER and isinstance(value, torch.Tensor):
        if letter not in "eEfFgG":
            raise AbortCapture(f"a tensor is formatted by `{form}`")
        value = hooks.recorder.run(torch.Tensor.__float__, (value,), {})
    if type(value) in (TracedInt, TracedFloat):
        return _piece(hooks, value, bare(value), "%", form)
    if letter in "rsa":
        text = text_of(hooks, value, letter, "")
        if form == f"%{letter}":
            return text
        return form.replace(letter, "s") % hooks.specialized(text, "it is formatted")
    return _plainly(hooks, form, (value,))


def braces(hooks: Hooks, template: str, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """`template.format(*args, **kwargs)`: each value is asked for its text where it stands."""
    fields = list(string.Formatter().parse(template))
    if not _are_plain(fields, args, kwargs):
        values = [*args, *kwargs.values()]
        if _holds_pieces(values) or not all(map(_is_plainly_formatted, values)):
            raise AbortCapture(f"`{template}` is formatted with parts of its values")
        return template.format(*args, **kwargs)
    parts: list[str] = []
    position = 0
    for literal, field, spec, conversion in fields:
        parts.append(literal)
        if field is None:
            continue
        if field == "":
            field, position = str(position), position + 1
        value = args[int(field)] if field.isdecimal() else kwargs[field]
        parts.append(hooks.format(value, conversion, spec or ""))
    return joined(tuple(parts))


def _are_plain(
    fields: list[tuple[str, str | None, str | None, str | None]],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> bool:
    """Whether all fields of a template are arguments as they are, and are there."""
    names = [field for _, field, _, _ in fields if field is not None]
    numbers = [int(name) for name in names if name.isdecimal()]
    unnamed = names.count("")
    return (
        not any("{" in (spec or "") for _, _, spec, _ in fields)
        and all(name == "" or name.isdecimal() or name in kwargs for name in names)
        and not (unnamed and numbers)
        and max([unnamed, *(number + 1 for number in numbers)]) <= len(args)
    )


def _is_plainly_formatted(value: object) -> bool:
    return type(value) in ATOMS


# -- containers and objects ------------------------------------------------------------------------

_BRACKETS: Final = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    torch.Size: ("torch.Size([", "])"),
}


def _holds_pieces(value: Any, depth: int = 0) -> bool:
    """Whether a number or tensor in it may be another one in another run."""
    kind = type(value)
    if kind in TRACED_VALUES or isinstance(value, torch.Tensor):
        return True
    if kind not in _BRACKETS or depth > _DEEPEST:
        return False
    items = (*value.keys(), *value.values()) if kind is dict else value
    return any(_holds_pieces(item, depth + 1) for item in items)


def _of_container(hooks: Hooks, value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise AbortCapture("a container that holds itself is formatted")
    if hooks.outside.is_external(value):
        value = hooks.operand(value)

    def text(item: object) -> str:
        return text_of(hooks, item, "r", "", depth + 1)

    opening, closing = _BRACKETS[type(value)]
    if type(value) is dict:
        parts = [(text(key), ": ", text(item)) for key, item in value.items()]
    else:
        parts = [(text(item),) for item in value]
    inner = [piece for part in parts for piece in (", ", *part)][1:]
    last = ",)" if type(value) is tuple and len(value) == 1 else closing
    return joined((opening, *inner, last))


def _through_own_method(
    hooks: Hooks, value: object, conversion: str | None, spec: str
) -> str | None:
    """What the object's own Python code makes of itself; None if it has none."""
    kind = type(value)
    for name in _METHODS[conversion]:
        own = getattr(kind, name, None)
        if isinstance(own, types.FunctionType):
            hooks.attributes.class_attribute(kind, name)
            result = hooks.call(own, value, *((spec,) if name == "__format__" else ()))
            if type(result) is not str and type(result) is not TracedText:
                raise AbortCapture(f"`{name}` of a {kind.__name__} returns no string")
            if name == "__format__" or not spec:
                return result
            return text_of(hooks, result, None, spec)
        if getattr(own, "__objclass__", None) is not object:
            return None
        if name == "__format__" and spec:
            return None
        hooks.attributes.class_attribute(kind, name)
    return None


#: What is asked in turn, for as long as it is the method of `object`, which asks the next.
_METHODS: Final[dict[str | None, tuple[str, ...]]] = {
    None: ("__format__", "__str__", "__repr__"),
    "s": ("__str__", "__repr__"),
    "r": ("__repr__",),
    "a": (),
}


def written(*pieces: Any) -> str:
    """A text in a compiled run: of strings, and of values with their conversion and format."""
    return "".join(piece if type(piece) is str else _formatted(*piece) for piece in pieces)
