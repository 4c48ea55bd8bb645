"""Settings: one typed object, `config`, for the whole process.

    config.recompile_limit = 8
    with config.patch(duck_shape=True, specialize_zero_one=True): ...

    @config.patch(error_on_recompile=True)
    def test(): ...

The environment variable `ANYSHAPE_<NAME>` gives the start value of a setting. It is read when the
setting is first used, so that `import anyshape` never fails because of one. A change holds in all
threads.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ContextDecorator
from difflib import get_close_matches
from functools import cache, wraps
from pathlib import Path
from textwrap import fill, indent
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, cast

from anyshape.errors import BadSetting, UnknownSetting
from anyshape.support.comment_docs import field_comments
from anyshape.support.lazy_dataclass import MISSING, dataclass, fields
from anyshape.support.spelling import similar

OnCompileError = Literal["warn", "raise"]
OnVerify = Literal["raise", "event"]
AutomaticDynamic = Literal[True, False, "all"]
CudaGraphs = Literal[True, False, "auto"]
TrainingMemory = Literal["speed", "eager", "least"]
ShareOrCount = float
CpuFeatures = Literal["native", "baseline", "avx2", "avx512", "neon"]

F = TypeVar("F", bound=Callable[..., object])

#: Variables of the environment that are no settings.
OTHER_VARIABLES: Final = {
    "ANYSHAPE_LOGS": "logs to show: see `anyshape.set_logs`",
    "ANYSHAPE_TRACE": "a folder to write a trace to, for `anyshape report`",
    "ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED": "a guard whose making is to be told in full",
    "ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL": "a symbol whose making is to be told in full",
    "ANYSHAPE_EXTENDED_ADVICE": "0: logs without advice",
}

_LOCK: Final = RLock()
_UNSET: Final = object()


class _Started:
    """Where start values come from; not a setting itself, hence in a class of its own."""

    __slots__ = ("_chosen", "_environment")

    _environment: Mapping[str, str]
    #: settings that the program has set
    _chosen: set[str]


@dataclass(slots=True, init=False, eq=False, repr=False)
class Config(_Started):
    """The settings, with their defaults. A slot stays empty until its setting is first used."""

    # -- what is dynamic ------------------------------------------------------------------------
    #: what was seen to change is dynamic in the next compile; "all": so is every size of the inputs
    #: from the second compile on, unless the program fixes it
    automatic_dynamic: AutomaticDynamic = True
    #: what nothing is known of is static; False: dynamic, as with `compile(dynamic=True)`
    assume_static_by_default: bool = True
    #: sizes 0 and 1 are always static, and dynamic sizes are at least 2
    specialize_zero_one: bool = False
    #: do not tell 0 and 1 from other sizes where a program does not ask
    backed_size_oblivious: bool = True
    #: sizes that are equal in the first call are one symbol
    duck_shape: bool = False
    #: parameters have static shapes, whatever marks say
    force_parameter_static_shapes: bool = True
    #: tensors that are attributes of modules have static shapes, whatever marks say
    force_nn_module_property_static_shapes: bool = True
    #: integers that are attributes of modules may be dynamic. Those that the program itself counts
    #: up are dynamic anyway, unless this is set to False by hand
    allow_unspec_int_on_nn_module: bool = False
    #: integers are always static
    specialize_int: bool = False
    #: floats are static until they are seen to change; chosen True: always; False: as sizes are,
    #: dynamic from the start where `compile(dynamic=True)` or `dynamic_sources` asks
    specialize_float: bool = True
    #: `.item()` and its kin stay in the graph
    capture_scalar_outputs: bool = True
    #: operators whose result's shape depends on data (`nonzero`) stay in the graph
    capture_dynamic_output_shape_ops: bool = True
    #: names of inputs that are dynamic above all other rules: see `anyshape.policy.sources`
    dynamic_sources: str = ""

    # -- recompiling ----------------------------------------------------------------------------
    #: after so many entries a function runs eagerly (1000 with `dynamic=False`, unless it is set)
    recompile_limit: int = 64
    #: so many decisions on data may follow each other in one call
    max_data_decisions: int = 64
    #: so many graphs an entry may have before it counts as growing without end
    max_graphs_per_entry: int = 32
    #: so often an entry may grow at one line before it counts as growing without end
    max_growths_per_line: int = 8
    #: a second compile of a function is an error
    error_on_recompile: bool = False
    #: when a compile fails: warn and go on eagerly, or raise
    on_compile_error: OnCompileError = "warn"
    #: go on eagerly while a compile runs in another thread
    background_compile: bool = False
    #: native code for graphs with gradients, forward and backward; else operator by operator
    native_training: bool = True
    #: what such a graph keeps for its backward: also what takes long to compute ("speed"), no more
    #: than eager code does ("eager"), or little, and products are computed again ("least")
    training_memory: TrainingMemory = "eager"
    #: replay hot shapes on GPUs as CUDA graphs: always, never, or where `compile(mode=...)` asks
    cuda_graphs: CudaGraphs = "auto"
    #: so many calls at a shape before it is recorded
    cuda_graph_after: int = 2
    #: so many shapes of a graph are kept; what was not used for longest goes first
    cuda_graph_limit: int = 256
    #: memory of a GPU that CUDA graphs of a stream may take; shapes beyond it are not recorded
    cuda_graph_memory_mb: int = 4096
    #: try several plans of each kernel where it is hot, and keep the fastest: as with
    #: `compile(mode="max-autotune-no-cudagraphs")`, for all that is compiled
    max_autotune: bool = False
    #: run each kernel by itself where it is hot, and tell how long it takes and how that compares
    #: with a copy (`explain()`, `anyshape report`)
    measure_kernels: bool = False
    #: so many threads make machine code at most; never more than there are cores
    compile_threads: int = 8
    #: the instructions that native code may use: all that this processor has, or the part of them
    #: that others have too. "baseline" is "avx2" on x86-64 and "neon" on aarch64
    cpu_features: CpuFeatures = "native"

    #: a line on the terminal while a compile takes long
    progress: bool = True
    #: a line on stderr at the end of the process if compiled functions ran eagerly, or if modules
    #: were compiled and trained, and never called
    report_eager: bool = True

    # -- trust, checked -------------------------------------------------------------------------
    #: calls that are compared with eager, on copies: a share of them (1.0 for all), or as a whole
    #: number the first so many of each compiled entry
    verify_calls: ShareOrCount = 0.0
    #: when such a call differs from eager: raise, or tell by an event only
    on_verify: OnVerify = "raise"

    # -- several processes ----------------------------------------------------------------------
    #: ranks tell each other the sizes that they have seen
    enable_compiler_collectives: bool = False
    #: how long a rank waits for the others
    collective_timeout_seconds: float = 30

    # -- on disk --------------------------------------------------------------------------------
    #: remember the sizes seen, for the next run
    profile: bool = True
    #: where machines share profiles: any fsspec URL
    profile_url: str | None = None
    #: where profiles and compiled code are kept; at the start a folder in the user's cache
    cache_dir: str = ""
    #: how much compiled code is kept there; what was not used for longest goes first
    cache_size_mb: int = 512

    # -- shared by a team -----------------------------------------------------------------------
    #: where machines share compiled code and profiles: any fsspec URL ("s3://bucket/folder")
    cache_url: str | None = None
    #: what is signed there, and believed only if it is: a secret of at least 16 characters
    cache_key: str | None = None
    #: a file with that secret, if it is not in `cache_key`
    cache_key_file: str | None = None
    #: how long a request to `cache_url` may take, and the end of the program waits for uploads
    cache_timeout_seconds: float = 5

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        # Not as a default, which `help` would print with everything that is in it.
        object.__setattr__(self, "_environment", os.environ if environment is None else environment)
        object.__setattr__(self, "_chosen", set())

    def watch(self, name: str, changed: Callable[[], None]) -> None:
        """Call a function whenever the setting may have another value."""
        _setting(name)
        _WATCHERS.setdefault(name, []).append(changed)

    if not TYPE_CHECKING:  # so that a type checker still sees misspelt names

        def __getattr__(self, name: str) -> object:
            """Only called for an empty slot, and for what is no setting."""
            if name.startswith("__"):
                raise AttributeError(name)
            setting = _setting(name)
            with _LOCK:  # another thread may set it meanwhile, and then that counts
                if _current(self, name) is _UNSET:
                    object.__setattr__(self, name, _start_value(setting, self._environment))
                return _current(self, name)

        def __setattr__(self, name: str, value: object) -> None:
            checked = _checked(_setting(name), value)
            with _LOCK:
                object.__setattr__(self, name, checked)
                self._chosen.add(name)
            _changed(self, name)

    def __delattr__(self, name: str) -> None:
        """Back to the start value."""
        _setting(name)
        self._chosen.discard(name)
        if _current(self, name) is not _UNSET:
            object.__delattr__(self, name)
            _changed(self, name)

    def __dir__(self) -> list[str]:
        return [*_SETTINGS, "patch"]

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {self.shown(name)}" for name in _SETTINGS)

    def shown(self, name: str) -> str:
        """The value of a setting, for people: secrets are not told."""
        value = getattr(self, name)
        return "'...'" if name in SECRETS and value is not None else repr(value)

    def describe(self) -> list[SettingDescription]:
        """Every setting: what it is, was at the start, and by which variable it is set.

        >>> {each.name: each.default for each in anyshape.config.describe()}["recompile_limit"]
        64
        """
        without = Config({})
        said = {each.name: each for each in field_comments(Config)}
        return [
            SettingDescription(
                name,
                getattr(self, name),
                getattr(without, name),
                _variable(name),
                setting.kind.accepted,
                said[name].text if name in said else "",
                said[name].group if name in said else "",
            )
            for name, setting in _SETTINGS.items()
        ]

    def check_environment(self) -> None:
        """An error for a variable that is no setting and looks like one, or has no value for it:
        now, and not while something is compiled, where errors are reasons to run eagerly."""
        ours = frozenset(name for name in self._environment if _is_ours(name))
        _check_variables(ours)
        for name in _SETTINGS:
            if _variable(name) in ours:
                getattr(self, name)

    def is_chosen(self, name: str) -> bool:
        """Whether the program or the environment has set it, be it to the default."""
        return name in self._chosen or _variable(name) in self._environment

    def patch(self, **changes: object) -> Patch:
        """Other values for a while: a context manager, and a decorator.

        >>> with anyshape.config.patch(recompile_limit=8):
        ...     anyshape.config.recompile_limit
        8
        """
        return Patch(self, changes)


class SettingDescription(NamedTuple):
    """A setting, for people."""

    name: str
    value: object
    default: object
    #: of the environment
    variable: str
    accepted: str
    text: str
    #: what settings it stands among
    group: str


class _Help:
    """The text of `help(anyshape.config)`: made when somebody asks, with nothing of the
    environment in it."""

    def __get__(self, instance: object, owner: object = None) -> str:
        lines = [_HELP]
        for each in Config({}).describe():
            what = f"{each.text} Takes {each.accepted}. ({each.variable})"
            lines += ["", f"{each.name}: {plain(each.default)}", indent(fill(what, 92), "    ")]
        return "\n".join(lines)


_HELP: Final = """The settings of the process, with their defaults.

>>> anyshape.config.duck_shape
False
>>> with anyshape.config.patch(duck_shape=True):
...     anyshape.config.duck_shape
True

The variable in brackets sets the start value; `anyshape config` shows the values of now."""

type.__setattr__(Config, "__doc__", _Help())


def plain(default: object) -> str:
    """A default as anybody sees it: not with the home folder of whoever asks."""
    return repr(default).replace(str(Path.home()), "~")


class Patch(ContextDecorator):
    """Settings that hold within a `with` block or a function. May be entered again while it holds,
    as the decorator of a recursive function is.

    It holds from the start of a function to its end; of a coroutine or generator that is until it
    is done, and not only for the call that makes it."""

    def __init__(self, config: Config, changes: Mapping[str, object]) -> None:
        # Checked here, so that the error points at the line that has the mistake.
        self._changes = {name: _checked(_setting(name), v) for name, v in changes.items()}
        self._config = config
        self._before: list[tuple[dict[str, object], set[str]]] = []

    def __call__(self, func: F) -> F:
        return cast("F", self._around(func))

    def _around(self, func: Callable[..., Any]) -> Callable[..., object]:
        if isinstance(func, type) or inspect.isasyncgenfunction(func):
            raise BadSetting(
                origin="what config.patch decorates",
                value=repr(func),
                accepted="a function; decorate the methods of a class, or use `with` inside",
            )
        if inspect.iscoroutinefunction(func):

            @wraps(func)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await func(*args, **kwargs)

            return awaited
        if inspect.isgeneratorfunction(func):

            @wraps(func)
            def generated(*args: Any, **kwargs: Any) -> Any:
                with self:
                    made: Generator[Any, Any, Any] = func(*args, **kwargs)
                    return (yield from made)

            return generated
        return super().__call__(func)

    def __enter__(self) -> Config:
        config = self._config
        with _LOCK:
            values = {name: _current(config, name) for name in self._changes}
            chosen = config._chosen & self._changes.keys()  # pyright: ignore[reportPrivateUsage] its own patch
            self._before.append((values, chosen))
            for name, value in self._changes.items():
                setattr(config, name, value)
        return config

    def __exit__(self, *_: object) -> None:
        config = self._config
        with _LOCK:
            values, chosen = self._before.pop()
            for name, value in values.items():
                if value is _UNSET:
                    delattr(config, name)
                    continue
                object.__setattr__(config, name, value)
                if name not in chosen:
                    config._chosen.discard(name)  # pyright: ignore[reportPrivateUsage] its own patch
                _changed(config, name)


#: By setting: who wants to know when it changes.
_WATCHERS: Final[dict[str, list[Callable[[], None]]]] = {}


def _changed(changed: Config, name: str) -> None:
    if changed is config:
        for watcher in _WATCHERS.get(name, ()):
            watcher()


def _current(config: Config, name: str) -> object:
    """What the slot holds, without filling it."""
    try:
        return object.__getattribute__(config, name)
    except AttributeError:
        return _UNSET


# -- kinds of settings ----------------------------------------------------------------------------


SECRETS: Final = frozenset({"cache_key"})


class Kind(NamedTuple):
    """What a setting takes, by the annotation of its field."""

    accepted: str
    #: whether a value of the program is fine
    fits: Callable[[object], bool]
    #: from the text of an environment variable; ValueError if it is none
    parse: Callable[[str], object]
    #: one of which a misspelt one may have meant
    words: tuple[str, ...] = ()


class Setting(NamedTuple):
    name: str
    default: object
    kind: Kind


_SWITCH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def _parse_switch(text: str) -> bool:
    found = _SWITCH.get(text.strip().lower())
    if found is None:
        raise ValueError(text)
    return found


def _parse_switch_or(other: str) -> Callable[[str], object]:
    return lambda text: other if text.strip().lower() == other else _parse_switch(text)


def _one_of(*words: bool | str) -> Callable[[object], bool]:
    # By type as well: 1 is equal to True, and no switch.
    return lambda value: any(isinstance(value, type(word)) and value == word for word in words)


def _words(*words: str) -> Kind:
    *others, last = map(repr, words)
    return Kind(f"{', '.join(others)} or {last}", _one_of(*words), str.strip, words)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_duration(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_share_or_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value >= 0 if isinstance(value, int) else 0.0 <= value <= 1.0


def _parse_share_or_count(text: str) -> object:
    return int(text) if text.strip().isdecimal() else float(text)


def _optional_text(text: str) -> str | None:
    return None if text.strip().lower() in {"", "none"} else text


#: by `os.uname().machine`
_CPU_FEATURES: Final = {"x86_64": ("avx2", "avx512"), "aarch64": ("neon",)}


def _is_for_this_cpu(value: object) -> bool:
    return value in ("native", "baseline", *_CPU_FEATURES.get(os.uname().machine, ()))


_KINDS: Final = {
    "bool": Kind("True or False (1/0, yes/no, on/off)", _one_of(True, False), _parse_switch),
    "AutomaticDynamic": Kind(
        "True, False or 'all' (1/0, yes/no, on/off, all)",
        _one_of(True, False, "all"),
        _parse_switch_or("all"),
        ("all",),
    ),
    "CudaGraphs": Kind(
        "True, False or 'auto' (1/0, yes/no, on/off, auto)",
        _one_of(True, False, "auto"),
        _parse_switch_or("auto"),
        ("auto",),
    ),
    "int": Kind("a whole number of at least 1", _is_count, int),
    "float": Kind("a number of seconds above 0", _is_duration, float),
    "str": Kind("a text", _is_text, str),
    "str | None": Kind("a text or None", _is_text_or_none, _optional_text),
    "OnCompileError": _words("warn", "raise"),
    "OnVerify": _words("raise", "event"),
    "TrainingMemory": _words("speed", "eager", "least"),
    "CpuFeatures": Kind(
        "'native', 'baseline', 'avx2' or 'avx512' (on x86-64), 'neon' (on aarch64)",
        _is_for_this_cpu,
        str.strip,
        ("native", "baseline", "avx2", "avx512", "neon"),
    ),
    "ShareOrCount": Kind(
        "a share of the calls from 0.0 to 1.0, or a whole number: the first so many of each entry",
        _is_share_or_count,
        _parse_share_or_count,
    ),
}

_SETTINGS: Final = {
    field.name: Setting(field.name, field.default, _KINDS[str(field.type)])
    for field in fields(Config)
    if field.default is not MISSING
}


def _setting(name: str) -> Setting:
    found = _SETTINGS.get(name)
    if found is None:
        raise UnknownSetting(setting=name, similar=similar(name, _SETTINGS))
    return found


def _checked(setting: Setting, value: object) -> object:
    if isinstance(value, Path):
        value = str(value)
    if not setting.kind.fits(value):
        raise _bad(setting, f"config.{setting.name}", value)
    return value


def _bad(setting: Setting, origin: str, value: object) -> BadSetting:
    said = "(not shown)" if setting.name in SECRETS else repr(value)
    accepted = setting.kind.accepted
    if origin.startswith("config."):
        accepted = accepted.partition(" (1/0")[0]  # other spellings are for the environment
    words = () if setting.name in SECRETS else setting.kind.words
    return BadSetting(origin=origin, value=said, accepted=accepted, words=words)


# -- the environment ------------------------------------------------------------------------------


def _variable(name: str) -> str:
    return f"ANYSHAPE_{name.upper()}"


def _is_ours(variable: str) -> bool:
    return variable.startswith("ANYSHAPE_")


@cache
def _check_variables(variables: frozenset[str]) -> None:
    for variable in sorted(variables - known_variables()):
        if meant := meant_variable(variable):
            raise UnknownSetting(setting=variable, similar=[meant])


def known_variables() -> set[str]:
    return {*map(_variable, _SETTINGS), *OTHER_VARIABLES}


def meant_variable(variable: str) -> str | None:
    """The variable that an unknown one must be meant to be. Others may have names that begin as
    ours do (a container's links to a service, say): only what looks much alike is a mistake."""
    short = {each.removeprefix("ANYSHAPE_"): each for each in known_variables()}
    near = get_close_matches(variable.removeprefix("ANYSHAPE_"), short, n=1, cutoff=0.8)
    return short[near[0]] if near else None


def _start_value(setting: Setting, environment: Mapping[str, str]) -> object:
    variable = _variable(setting.name)
    text = environment.get(variable)
    special = _SPECIAL.get(setting.name)
    if special is not None:
        return special(text, environment)
    if text is None:
        return setting.default
    try:
        value = setting.kind.parse(text)
    except ValueError:
        value = _UNSET
    if value is _UNSET or not setting.kind.fits(value):
        raise _bad(setting, f"the environment variable {variable}", text)
    return value


def _dynamic_sources(text: str | None, environment: Mapping[str, str]) -> str:
    """People have such lists under the name that PyTorch gave them; both count."""
    lists = (text, environment.get("TORCH_COMPILE_DYNAMIC_SOURCES"))
    return ",".join(part for part in lists if part)


def _cache_dir(text: str | None, environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return str(Path(text).expanduser() if text else Path(base) / "anyshape")


_SPECIAL: Final[dict[str, Callable[[str | None, Mapping[str, str]], object]]] = {
    "dynamic_sources": _dynamic_sources,
    "cache_dir": _cache_dir,
}

config: Final = Config()
