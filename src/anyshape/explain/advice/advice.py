"""One piece of advice: what led to compiles that could be spared, and what spares them."""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.support.lazy_dataclass import asdict, dataclass, field

Setting = bool | int | str


@dataclass(frozen=True, slots=True)
class Advice:
    """What happened, where, and what to do about it."""

    #: the row of the table that found it: "static_first", "branch", "grad_mode" (`KINDS` has all)
    kind: str
    #: one line: "score: sizes that change were static in the first compile"
    title: str
    #: why the compiles happened, in words
    cause: str
    #: the line of the program that is to blame; no line is 0, and no file is empty
    file: str
    line: int
    #: that line, and the lines around it by number
    code: str
    excerpt: Mapping[int, str]
    #: what to do, in words
    remedy: str
    #: the same as a change of the program: a unified diff; empty where there is none to propose
    patch: str = ""
    #: the same as settings of `anyshape.config`, by name; empty where no setting helps
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    #: how many compiles there would be less
    saves: int = 0
    #: the function that was compiled, and the compiles that this is about
    function: str = ""
    compile_ids: tuple[str, ...] = ()
    #: where it was seen, if there are several ranks
    ranks: tuple[int, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def environment(self) -> dict[str, str]:
        """The settings as environment variables."""
        return environment_of(self.settings)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "environment": self.environment}


def environment_of(settings: Mapping[str, Setting]) -> dict[str, str]:
    def text(value: Setting) -> str:
        return str(int(value)) if isinstance(value, bool) else str(value)

    return {f"ANYSHAPE_{name.upper()}": text(value) for name, value in settings.items()}
