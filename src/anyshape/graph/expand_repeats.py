"""The steps of parts that a plan is without, in their place: those of one part, again and again.

It is done when kernels are joined and have names of their own, so that a part is a list of launches
and calls with other buffers. What lowering did is repeated by what `repeat_elision.py` says;
whether kernels were joined in the same way again is seen here.

Every name that belongs to a part is known by the part and a place in it: `(0, place)` in the part
that stands for others, `(-1, place)` in the one before, `(1, place)` in the one behind. In a copy
that comes `n` parts later the same place of the part `n` later stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.graph.plan import FAR, BufferDecl, Compute, ElidedRepeats, Native, Plan, Step
from anyshape.loops.program import Area, Extern, Launch, Repeated, with_buffers
from anyshape.support.lazy_dataclass import replace

PartPosition = tuple[int, int]


class NotRepeated(Exception):
    """The steps of a part do not come again as they are: nothing may be left out."""


def expand_repeats(
    plan: Plan,
    elided_repeats: ElidedRepeats,
    steps: Sequence[Step],
    made_of: Sequence[Sequence[int]],
    native: Sequence[Launch | Extern],
    after: set[str],
) -> tuple[list[Launch | Extern], Repeated]:
    """All steps, and which of them are the same. `steps`: those of the plan before kernels were
    joined; `made_of`: which of them each of the `native` ones is; `after`: the buffers that are
    used later."""
    start, period = _found(plan, elided_repeats, steps)
    names = _Names(plan.held, elided_repeats)
    first, second, third = (_first_from(made_of, start + period * number) for number in range(3))
    _check_joined(made_of, (first, second, third), start, period)
    _check_read(plan, elided_repeats)
    if not names.known.isdisjoint(after):
        raise NotRepeated("a buffer of a part is used after all of them")
    result = [_renamed(step, names, 0) for step in native[:second]]
    template = native[first:second]
    for number in range(1, elided_repeats.count + 1):
        result += [_renamed(step, names, number) for step in template]
    # That it is the same is proved; if it is not there is a mistake in the proof.
    if not all(map(_is_same, template, native[second:third])):
        raise NotRepeated("the part behind is another one")
    result += [_renamed(step, names, elided_repeats.count, behind=True) for step in native[second:]]
    return result, Repeated(first, second - first, elided_repeats.count + 2)


def _found(plan: Plan, elided_repeats: ElidedRepeats, steps: Sequence[Step]) -> tuple[int, int]:
    """Where the steps of the part begin, and how many they are."""
    begin, middle, end = *elided_repeats.steps, elided_repeats.end
    period = middle - begin
    if not period or end - middle != period:
        raise NotRepeated("parts of different length")
    wanted = plan.steps[begin:end]
    start = next((n for n, step in enumerate(steps) if step is wanted[0]), None)
    if start is None or len(steps) < start + len(wanted):
        raise NotRepeated("steps that are not needed")
    if any(one is not other for one, other in zip(wanted, steps[start:], strict=False)):
        raise NotRepeated("steps that are not needed")
    return start, period


def _first_from(made_of: Sequence[Sequence[int]], step: int) -> int:
    return next((n for n, parts in enumerate(made_of) if parts[0] >= step), len(made_of))


def _check_joined(
    made_of: Sequence[Sequence[int]], places: tuple[int, int, int], start: int, period: int
) -> None:
    """Whether kernels were joined in the part as in the one behind, and would be again. That is
    decided by the steps so far that are near enough to join."""
    first, second, third = places
    if second - first != third - second or first < FAR:
        raise NotRepeated("joined in another way")
    # None reaches into the part behind the next.
    if any(parts[-1] >= start + period for parts in made_of[:first]) or any(
        parts[-1] >= start + 2 * period for parts in made_of[first:second]
    ):
        raise NotRepeated("joined over several parts")
    for one, other in zip(made_of[first:second], made_of[second:third], strict=True):
        if [number + period for number in one] != list(other):
            raise NotRepeated("joined in another way")

    def so_far(place: int, step: int) -> list[list[int]]:
        near = made_of[place - FAR : place]
        return [[number - step for number in parts if number < step] for parts in near]

    before = so_far(first, start)
    if before != so_far(second, start + period) or any(
        number < -period for parts in before for number in parts
    ):
        raise NotRepeated("joined in another way")


def _check_read(plan: Plan, elided_repeats: ElidedRepeats) -> None:
    """Whether each step of the part makes something for the part or the next one, or changes what
    the caller has: then no step of any part is in vain."""
    read: set[str] = set()
    begin, middle = elided_repeats.steps
    for number in reversed(range(begin, elided_repeats.end)):
        step = plan.steps[number]
        if not isinstance(step, Compute | Native):
            raise NotRepeated("Python is called")
        lasts = any(plan.held[name].given for name in step.writes)
        if number < middle and not lasts and step.writes.isdisjoint(read):
            raise NotRepeated("a step is there for what follows")
        read |= step.reads


class _Names:
    """The names of all parts."""

    def __init__(self, held: dict[str, BufferDecl], elided_repeats: ElidedRepeats) -> None:
        made, behind = elided_repeats.made, elided_repeats.made_behind
        if len(made) != len(behind):
            raise NotRepeated("another number of buffers")
        for one, other in zip(made, behind, strict=True):
            if replace(held[one], name=other) != held[other]:
                raise NotRepeated("other buffers")
        own = (*made, *elided_repeats.inputs[0])
        place = {name: number for number, name in enumerate(own)}
        before: dict[int, str] = {place[new]: old for old, new in elided_repeats.moved.items()}
        #: by part, from the one that comes before
        self._parts: list[Mapping[int, str]] = [before, dict(enumerate(own))]
        for number in range(1, elided_repeats.count + 1):
            fresh = [f"{name}_{number}" for name in made]
            for name, new in zip(made, fresh, strict=True):
                held[new] = replace(held[name], name=new, given=False)
            self._parts.append(dict(enumerate((*fresh, *elided_repeats.inputs[number]))))
        later = (*behind, *elided_repeats.inputs[-1])
        self._parts.append(dict(enumerate(later)))
        self._places: dict[str, PartPosition] = {
            name: (-1, number) for number, name in before.items()
        }
        self._places |= {name: (0, number) for number, name in enumerate(own)}
        #: what must not be used otherwise
        self.known = set(self._places)
        self._places |= {name: (1, number) for number, name in enumerate(later)}

    def later(self, name: str, by: int, behind: bool) -> str:
        """What stands for a name so many parts later. `behind`: in a step behind the part."""
        place = self._places.get(name)
        if place is None:
            return name
        part, number = place
        found = self._parts[part + by + 1].get(number)
        if found is None or (part == -1 and behind):
            raise NotRepeated("a buffer lives longer than a part")
        return found


def _renamed(step: Launch | Extern, names: _Names, by: int, *, behind: bool = False):
    """The step so many parts later."""
    return with_buffers(step, lambda name: names.later(name, by, behind))


def _is_same(one: Launch | Extern, other: Launch | Extern) -> bool:
    """Whether two steps do the same, with whatever buffers."""
    if isinstance(one, Launch) and isinstance(other, Launch):
        same = one.kernel is other.kernel and len(one.buffers) == len(other.buffers)
        return same and (one.sizes, one.numbers) == (other.sizes, other.numbers)
    if isinstance(one, Extern) and isinstance(other, Extern):
        return one.function == other.function and _without_names(one.arguments) == _without_names(
            other.arguments
        )
    return False


def _without_names(argument: object) -> object:
    if isinstance(argument, Area):
        return argument.sizes, argument.strides, argument.offset
    if isinstance(argument, tuple | list):
        return tuple(map(_without_names, argument))
    return type(argument), repr(argument)
