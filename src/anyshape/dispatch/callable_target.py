"""What is compiled: a function, a method or a module as it is called and spoken of."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import types
from collections.abc import Callable
from inspect import Signature
from typing import Any, Final

import torch
from torch.nn.modules.module import _has_any_global_hook

from anyshape.ops.origins import is_of_torch
from anyshape.profile.identity import Identity, call_of, identity_of, identity_of_module
from anyshape.support.lazy_dataclass import dataclass
from anyshape.support.plain_attributes import plain_attribute


@dataclass(frozen=True, slots=True)
class Target:
    """What is compiled: how it is called, and under which name it is spoken of."""

    call: Callable[..., Any]
    signature: Signature
    name: str
    file: str
    line: int
    #: as Python names it in messages about wrong arguments
    called: str
    #: the default values of its parameters now; the signature has those of before
    defaults: Callable[[], tuple[object, ...]]
    #: the Python function whose body it is, if it is called directly: what runs in parts when it
    #: cannot be compiled whole
    body: Callable[[tuple[Any, ...]], Any] = lambda args: None
    #: what profiles know it by
    identity: Callable[[], Identity | None] = lambda: None
    #: of one that takes anything and hands it on: the parameters of whom it is handed to
    behind: Signature | None = None

    @property
    def where(self) -> str:
        """ "train.py:12"; nothing if its file is not known."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else ""


def _defaults_of(function: Any) -> tuple[object, ...]:
    """All that decides how the arguments of a call are bound: code, default values and the names of
    the keyword ones, of the function behind an object too. They are compared by identity."""
    if type(function) is types.MethodType:
        function = function.__func__
    if type(function) is types.FunctionType:
        keyword = function.__kwdefaults__ or {}
        return (function.__code__, function.__defaults__, *keyword, *keyword.values())
    if isinstance(function, functools.partial):
        given = function.keywords
        return (*function.args, *given, *given.values(), *_defaults_of(function.func))
    call = call_of(function)
    return (call, *_defaults_of(call)) if type(call) is types.FunctionType else (call,)


def code_of(function: Any) -> types.CodeType | None:
    """The code of a function or method. An object is not asked: it may answer by code of its own,
    which has effects."""
    if type(function) is types.MethodType:
        function = function.__func__
    return function.__code__ if type(function) is types.FunctionType else None


def target_of(function: Any, name: str | None) -> Target:
    is_partial = isinstance(function, functools.partial)
    code = plain_attribute(function.func if is_partial else _unwrapped(function), "__code__")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except Exception:
        # It asks an object for its signature: the program's own code may raise anything.
        signature = _ANYTHING
    called = plain_attribute(function, "__qualname__") or type(function).__name__
    return Target(
        function,
        signature,
        name or called,
        code.co_filename if code else "",
        code.co_firstlineno if code else 0,
        called,
        functools.partial(_defaults_of, function),
        lambda args: function,
        functools.partial(identity_of, function),
        _behind(function, signature),
    )


def _unwrapped(function: Any) -> Any:
    """The innermost function of those that wrap each other."""
    seen: set[int] = set()
    while (inner := plain_attribute(function, "__wrapped__")) is not None:
        if id(inner) in seen:
            break
        seen.add(id(inner))
        function = inner
    return function


def _behind(function: Any, signature: Signature) -> Signature | None:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if kinds != [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return None
    try:
        found = inspect.signature(function)
    except Exception:  # as above
        return None
    return None if found == signature else found


def _anything(*args: Any, **kwargs: Any) -> None: ...


_ANYTHING = inspect.signature(_anything)


def module_target(module: torch.nn.Module, name: str | None) -> Target:
    forward = module.forward
    # Not the method: a unit for a class must not keep the module alive that it was made for.
    original = getattr(forward, "__func__", forward)
    if sees_how_it_is_called(module):
        forward = _anything
    try:
        # As it is called, not as a decorator says it is: both how arguments are passed and what is
        # seen of them must be the caller's.
        signature = inspect.signature(forward, follow_wrapped=False)
    except (TypeError, ValueError):
        signature = _ANYTHING
    parameters = list(signature.parameters.values())
    first = inspect.Parameter(_self_name(signature), inspect.Parameter.POSITIONAL_ONLY)
    code = getattr(forward, "__code__", None)
    return Target(
        operator.call,
        inspect.Signature([first, *parameters]),
        name or type(module).__name__,
        code.co_filename if code else "",
        code.co_firstlineno if code else 0,
        getattr(forward, "__qualname__", "forward"),
        functools.partial(_defaults_of, _ANYTHING if forward is _anything else original),
        _forward_of,
        functools.partial(identity_of_module, module),
        _behind(module.forward, signature),
    )


def is_module_call(target: Target) -> bool:
    """Whether the first argument is the module that is called."""
    return target.call is operator.call


def _forward_of(args: tuple[Any, ...]) -> Any:
    """The method that a call of a module comes to, unless somebody else is called on the way."""
    module = args[0]
    if sees_how_it_is_called(module) or has_other_hooks(module) or "forward" in module.__dict__:
        return None
    return type(module).forward


def sees_how_it_is_called(module: torch.nn.Module) -> bool:
    """Whether somebody sees which arguments were given by name: a hook, or a `__call__` that is not
    torch's."""
    held = module.__dict__
    return bool(
        held["_forward_hooks"]
        or held["_forward_pre_hooks"]
        or type(module).__call__ is not _CALL
        or type(module)._call_impl is not _CALL_IMPL
    )


def _own(name: str) -> object:
    """A method of modules as torch has it; nothing that a module could have if it was replaced
    before it was looked at."""
    found = getattr(torch.nn.Module, name)
    return found if is_of_torch(found) else object()


_CALL: Final = _own("__call__")
_CALL_IMPL: Final = _own("_call_impl")


def _self_name(signature: inspect.Signature) -> str:
    return "self" if "self" not in signature.parameters else "self_"


def has_other_hooks(module: torch.nn.Module) -> bool:
    """Whether a call of a module does more than to call `forward`, though nobody sees how."""
    held = module.__dict__
    return bool(
        held["_backward_hooks"]
        or held["_backward_pre_hooks"]
        or "_compiled_call_impl" in held
        or _has_any_global_hook()
    )
