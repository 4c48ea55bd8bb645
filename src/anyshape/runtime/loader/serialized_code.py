"""Built code as bytes: what the disk cache keeps. A line of JSON, then machine code."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Literal

from anyshape.runtime.loader.image import Image
from anyshape.support.lazy_dataclass import asdict, dataclass

Kind = Literal["image", "object"]


@dataclass(frozen=True, slots=True)
class Built:
    """The code of a segment, and its functions in it. An `image` is linked by us, an `object` is
    for LLVM to link, or several one after the other."""

    entry: str | None
    run: str | None
    reasons: tuple[str, ...]
    kind: Kind
    code: bytes
    slots: tuple[tuple[str, int], ...] = ()
    rebased: tuple[int, ...] = ()
    exports: tuple[tuple[str, int], ...] = ()
    #: where each object of several ends
    ends: tuple[int, ...] = ()

    def objects(self) -> tuple[bytes, ...]:
        return tuple(self.code[a:b] for a, b in pairwise((0, *self.ends)))

    def image(self) -> Image:
        return Image(self.code, self.slots, self.rebased, self.exports)

    def to_bytes(self) -> bytes:
        fields = asdict(self)
        del fields["code"]
        return json.dumps(fields).encode() + b"\n" + self.code


def from_bytes(data: bytes) -> Built:
    head, _, code = data.partition(b"\n")
    fields = json.loads(head)
    return Built(
        entry=fields["entry"],
        run=fields["run"],
        reasons=tuple(fields["reasons"]),
        kind=fields["kind"],
        code=code,
        slots=tuple((name, place) for name, place in fields["slots"]),
        rebased=tuple(fields["rebased"]),
        exports=tuple((name, place) for name, place in fields["exports"]),
        ends=tuple(fields["ends"]),
    )
