"""Calls of torch's functions, watched from outside: which random numbers are drawn, what is written
to, whose memory a result has. Beside what the operator table says of them.

What is seen must have been said: code generation and capture rely on it. What is said need not be
seen in each call, since a momentum of 0 changes no statistics, and no elements take no random
numbers: `Seen` counts it over many calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from anyshape.capture.record.integer_arguments import tensors_read
from anyshape.errors import AnyshapeError
from anyshape.graph.alias_analysis import _MAY_BE_ITSELF as MAY_BE_ITSELF
from anyshape.ops import effects
from anyshape.ops.bind import Unbound, bind_match, works_in_place
from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta, of_tensor
from anyshape.ops.op import Op, OpKind
from anyshape.ops.table import OpMatch, lookup
from anyshape.symbolic import Facts

#: Operators of these kinds may give memory of their arguments: called by Python, they are taken to.
MAY_SHARE: Final = (OpKind.VIEW, OpKind.NOTHING, OpKind.INDEX_MAP)

#: What tensors are filled with to see whether that makes a call fail.
_FLOATS: Final = (float("nan"), float("-inf"), -3.0, 0.0, 1e6)
_INTEGERS: Final = (0, -1, 10_000)


@dataclass
class Seen:
    """What calls of one operator have done."""

    calls: int = 0
    drew: bool = False
    #: parameters beside the target of an in-place form
    written: set[str] = field(default_factory=set)
    #: whether one of those was written without a new version
    untold: bool = False
    #: whether a result had memory of an argument
    shared: bool = False


@dataclass
class Watching(TorchFunctionMode):
    """While active, compares each call of torch with what is said of it. `failing`: as well whether
    it fails where other numbers are in its tensors."""

    failing: bool = False
    #: by the identity of the row
    seen: dict[int, Seen] = field(default_factory=dict)
    #: where torch did what was not said
    unsaid: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def of(self, op: Op) -> Seen:
        return self.seen.setdefault(id(op), Seen())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        match = lookup(func)
        if match is not None and self.failing:
            self.unsaid += _failures(func, args, kwargs)
        call = Watched(func, match, args, kwargs)
        result = func(*args, **kwargs)
        self.unsaid += call.unsaid(result)
        if match is not None:
            call.count(result, self.of(match.op))
        return result


class Watched:
    """One call: made before it, asked after it."""

    def __init__(
        self,
        function: Callable[..., Any],
        match: OpMatch | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._function, self._match = function, match
        self._args, self._kwargs = args, kwargs
        self._tensors = _distinct(_tensors_in((args, kwargs)))
        self._versions = [tensor._version for tensor in self._tensors]
        self._contents = [_contents(tensor) for tensor in self._tensors]
        self._memory = [tensor.untyped_storage().data_ptr() for tensor in self._tensors]
        self._metas = {id(tensor): of_tensor(tensor) for tensor in self._tensors}
        self._random = torch.default_generator.get_state()

    def unsaid(self, result: Any) -> Iterator[str]:
        """What the call did that nobody says of it."""
        function = self._function
        name = getattr(function, "__name__", str(function))
        if self._drew() and not effects.may_draw(function):
            yield f"{name} draws random numbers"
        told, changed = self._told(), self._changed()
        by_rest = self._declared()
        in_place = works_in_place(function, self._args, self._kwargs)
        out = _tensors_in(self._kwargs.get("out"))
        for number in sorted(told | changed):
            tensor = self._tensors[number]
            said = any(tensor is each for each in (*by_rest, *out)) or (in_place and number == 0)
            if self._match is None:
                said |= effects.changes_argument(function, self._args, self._kwargs)
                said |= effects.writes_untold(function)
            if not said:
                yield f"{name} writes to its tensor {number}"
            # Of what is given by `out` torch does not count each write (`torch.kron`).
            if number not in told and not (
                effects.writes_untold(function)
                or effects.is_mutable(function)
                or any(tensor is each for each in out)
            ):
                yield f"{name} writes to its tensor {number} and tells nobody"
        if told and not by_rest and not self._changes_argument():
            yield f"{name} changes an argument"
        if self._match is None or in_place or out:
            return
        yield from self._shared_unsaid(name, self._match.op, result)

    def _shared_unsaid(self, name: str, op: Op, result: Any) -> Iterator[str]:
        try:
            args, kwargs = self._in_metas((self._args, dict(self._kwargs)))
            said = infer(Facts(), self._function, args, kwargs).value
        except AnyshapeError:
            return  # There is no rule for these arguments: nothing is said of them.
        metas = [leaf for leaf in tree_leaves(said) if isinstance(leaf, Meta)]
        tensors = _tensors_in(result)
        if len(metas) != len(tensors):
            metas = [None] * len(tensors)
        for place, (tensor, meta) in enumerate(zip(tensors, metas, strict=True)):
            given = next((each for each in self._tensors if self._metas[id(each)] is meta), None)
            if given is None:
                if (
                    self._shares(tensor)
                    and op.lowering not in MAY_SHARE
                    and op.name not in MAY_BE_ITSELF
                    and (meta is None or meta.shares_if is None)
                ):
                    yield f"{name} shares memory of its result {place} with an argument"
            elif tensor is not given and not _is_view_of_all(tensor, given):
                yield f"{name} does not give an argument as its result {place}"

    def count(self, result: Any, seen: Seen) -> None:
        seen.calls += 1
        seen.drew |= self._drew()
        seen.shared |= any(map(self._shares, _tensors_in(result)))
        told, changed = self._told(), self._changed()
        in_place = works_in_place(self._function, self._args, self._kwargs)
        for name, value in self._by_name().items():
            for tensor in _tensors_in(value):
                number = next(n for n, each in enumerate(self._tensors) if each is tensor)
                if number in told | changed and (number or not in_place):
                    seen.written.add(name)
                    seen.untold |= number not in told

    def _drew(self) -> bool:
        return not torch.equal(self._random, torch.default_generator.get_state())

    def _told(self) -> set[int]:
        return {
            number
            for number, (tensor, before) in enumerate(
                zip(self._tensors, self._versions, strict=True)
            )
            if tensor._version != before
        }

    def _changed(self) -> set[int]:
        return {
            number
            for number, (tensor, before) in enumerate(
                zip(self._tensors, self._contents, strict=True)
            )
            if not torch.equal(before, _contents(tensor))
        }

    def _changes_argument(self) -> bool:
        return effects.changes_argument(self._function, self._args, self._kwargs)

    def _declared(self) -> list[torch.Tensor]:
        """What it is said to write to beside the target of an in-place form."""
        if self._match is None:
            return []
        try:
            return _tensors_in(effects.written_by(self._match, self._args, self._kwargs))
        except Unbound:
            return self._tensors  # Who asks takes it to write to any of them.

    def _by_name(self) -> Mapping[str, Any]:
        if self._match is None:
            return {}
        try:
            return bind_match(self._match, self._args, self._kwargs).arguments
        except Unbound:
            return {}

    def _shares(self, tensor: torch.Tensor) -> bool:
        memory = tensor.untyped_storage().data_ptr()
        return memory != 0 and memory in self._memory

    def _in_metas(self, tree: Any) -> Any:
        def convert(leaf: Any) -> Any:
            return self._metas[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf

        return tree_map(convert, tree)


def _tensors_in(tree: Any) -> list[torch.Tensor]:
    return [
        leaf
        for leaf in tree_leaves(tree)
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and not leaf.is_nested
    ]


def _distinct(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _contents(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as bytes: a NaN is itself."""
    plain = (
        tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    )
    return plain.reshape(-1).view(torch.uint8)


def _is_view_of_all(tensor: torch.Tensor, given: torch.Tensor) -> bool:
    return (
        tensor.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
        and tensor.storage_offset() == given.storage_offset()
        and tensor.shape == given.shape
        and tensor.stride() == given.stride()
    )


# -- failures --------------------------------------------------------------------------------------


def _failures(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[str]:
    """Numbers in tensors that a call fails on, while others are not said to fail on any; where the
    call does not fail anyway."""
    if effects.raises_on_any(function, args, kwargs) or tensors_read(function, args, kwargs):
        return  # The second: capture reads those numbers, and checks them.
    ways = [(value, False) for value in _FLOATS]
    if not effects.raises_on_integers(function, kwargs):
        ways += [(value, True) for value in _INTEGERS]
    kinds = {_is_of_integers(tensor) for tensor in _tensors_in((args, kwargs))}
    ways = [way for way in ways if way[1] in kinds]
    if not ways or _failure(function, *_filled((args, kwargs), None, False)):
        return
    for value, integers in ways:
        failure = _failure(function, *_filled((args, kwargs), value, integers))
        if failure:
            name = getattr(function, "__name__", str(function))
            yield f"{name} fails on {value}: {failure}"


def _failure(function: Callable[..., Any], args: Any, kwargs: Any) -> str:
    try:
        function(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _is_of_integers(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def _filled(tree: Any, value: float | None, integers: bool) -> Any:
    """Copies of arguments with one number in all tensors of integers, or in all others; without a
    number as they are."""
    made: dict[int, torch.Tensor] = {}

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
            return leaf
        if id(leaf) not in made:
            storage = leaf.untyped_storage().clone()
            copy = torch.empty(0, dtype=leaf.dtype)
            copy.set_(storage, leaf.storage_offset(), leaf.shape, leaf.stride())
            if value is not None and _is_of_integers(leaf) == integers:
                in_range = abs(value) if leaf.dtype in _UNSIGNED else value
                torch.empty(0, dtype=leaf.dtype).set_(storage).fill_(in_range)
            made[id(leaf)] = copy
        return made[id(leaf)]

    return tree_map(copied, tree)


_UNSIGNED: Final = (torch.bool, torch.uint8)
