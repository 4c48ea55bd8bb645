"""Settings: defaults, values from the environment, patches, and what is refused."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from pydoc import render_doc

import pytest

import anyshape
from anyshape.config import Config, config
from anyshape.errors import AnyshapeError, BadSetting, UnknownSetting

DEFAULTS: dict[str, object] = {
    "automatic_dynamic": True,
    "assume_static_by_default": True,
    "specialize_zero_one": False,
    "backed_size_oblivious": True,
    "duck_shape": False,
    "force_parameter_static_shapes": True,
    "force_nn_module_property_static_shapes": True,
    "allow_unspec_int_on_nn_module": False,
    "specialize_int": False,
    "specialize_float": True,
    "capture_scalar_outputs": True,
    "capture_dynamic_output_shape_ops": True,
    "dynamic_sources": "",
    "recompile_limit": 64,
    "max_data_decisions": 64,
    "max_graphs_per_entry": 32,
    "max_growths_per_line": 8,
    "error_on_recompile": False,
    "enable_compiler_collectives": False,
    "collective_timeout_seconds": 30,
    "profile": True,
    "profile_url": None,
    "cache_dir": "/c/anyshape",
    "cache_size_mb": 512,
    "cache_url": None,
    "cache_key": None,
    "cache_key_file": None,
    "cache_timeout_seconds": 5,
    "background_compile": False,
    "cuda_graphs": "auto",
    "cuda_graph_after": 2,
    "cuda_graph_limit": 256,
    "cuda_graph_memory_mb": 4096,
    "native_training": True,
    "training_memory": "eager",
    "max_autotune": False,
    "measure_kernels": False,
    "compile_threads": 8,
    "cpu_features": "native",
    "progress": True,
    "report_eager": True,
    "verify_calls": 0.0,
    "on_verify": "raise",
    "on_compile_error": "warn",
}


@pytest.fixture
def fresh() -> Config:
    return Config({"XDG_CACHE_HOME": "/c"})


def test_defaults(fresh: Config):
    assert {name: getattr(fresh, name) for name in dir(fresh) if name != "patch"} == DEFAULTS


def test_cache_dir_is_in_the_home_folder():
    assert Config({}).cache_dir == str(Path.home() / ".cache" / "anyshape")


FROM_ENVIRONMENT = [
    ("DUCK_SHAPE", "1", True),
    ("DUCK_SHAPE", " Yes ", True),
    ("PROFILE", "off", False),
    ("CUDA_GRAPHS", " Auto", "auto"),
    ("CUDA_GRAPHS", "no", False),
    ("PROFILE", "FALSE", False),
    ("RECOMPILE_LIMIT", "8", 8),
    ("COLLECTIVE_TIMEOUT_SECONDS", "2.5", 2.5),
    ("PROFILE_URL", "s3://bucket/p", "s3://bucket/p"),
    ("PROFILE_URL", "none", None),
    ("ON_COMPILE_ERROR", "raise", "raise"),
    ("AUTOMATIC_DYNAMIC", "All", "all"),
    ("AUTOMATIC_DYNAMIC", "0", False),
    ("VERIFY_CALLS", "0.01", 0.01),
    ("VERIFY_CALLS", "1.0", 1.0),
    ("VERIFY_CALLS", "3", 3),
    ("ON_VERIFY", "event", "event"),
    ("CACHE_DIR", "/tmp/x", "/tmp/x"),
    ("CACHE_DIR", "~/x", str(Path.home() / "x")),
    ("DYNAMIC_SOURCES", "L['x'],L['y']", "L['x'],L['y']"),
]


@pytest.mark.parametrize(("name", "text", "value"), FROM_ENVIRONMENT)
def test_environment_gives_the_start_value(name: str, text: str, value: object):
    settings = Config({f"ANYSHAPE_{name}": text})
    assert getattr(settings, name.lower()) == value
    assert type(getattr(settings, name.lower())) is type(value)


def test_both_lists_of_dynamic_sources_count():
    both = {"ANYSHAPE_DYNAMIC_SOURCES": "L['x']", "TORCH_COMPILE_DYNAMIC_SOURCES": "L['y']"}
    assert Config(both).dynamic_sources == "L['x'],L['y']"
    assert Config({"TORCH_COMPILE_DYNAMIC_SOURCES": "L['y']"}).dynamic_sources == "L['y']"


BAD_TEXTS = [
    ("DUCK_SHAPE", "maybe", "True or False"),
    ("DUCK_SHAPE", "", "True or False"),
    ("RECOMPILE_LIMIT", "many", "a whole number of at least 1"),
    ("RECOMPILE_LIMIT", "0", "a whole number of at least 1"),
    ("RECOMPILE_LIMIT", "1.5", "a whole number of at least 1"),
    ("COLLECTIVE_TIMEOUT_SECONDS", "nan", "a number of seconds above 0"),
    ("COLLECTIVE_TIMEOUT_SECONDS", "-1", "a number of seconds above 0"),
    ("ON_COMPILE_ERROR", "ignore", "'warn' or 'raise'"),
]


@pytest.mark.parametrize(("name", "text", "accepted"), BAD_TEXTS)
def test_bad_text_in_the_environment_is_an_error_at_first_use(name: str, text: str, accepted: str):
    settings = Config({f"ANYSHAPE_{name}": text})
    assert settings.automatic_dynamic
    for _ in range(2):
        with pytest.raises(BadSetting) as caught:
            getattr(settings, name.lower())
        assert isinstance(caught.value, AnyshapeError)
        assert f"variable ANYSHAPE_{name} cannot be {text!r}" in str(caught.value)
        assert accepted in str(caught.value)


def test_a_set_value_hides_a_bad_text():
    settings = Config({"ANYSHAPE_RECOMPILE_LIMIT": "many"})
    with settings.patch(recompile_limit=3):
        assert settings.recompile_limit == 3
    with pytest.raises(BadSetting):
        _ = settings.recompile_limit
    settings.recompile_limit = 4
    assert settings.recompile_limit == 4


BAD_VALUES = [
    ("duck_shape", 1),
    ("duck_shape", "yes"),
    ("duck_shape", None),
    ("recompile_limit", True),
    ("recompile_limit", 0),
    ("recompile_limit", 2.0),
    ("recompile_limit", "8"),
    ("collective_timeout_seconds", False),
    ("collective_timeout_seconds", float("inf")),
    ("dynamic_sources", None),
    ("dynamic_sources", ["L['x']"]),
    ("profile_url", 3),
    ("on_compile_error", "ignore"),
    ("on_verify", "warn"),
    ("automatic_dynamic", "some"),
    ("automatic_dynamic", 1),
    ("verify_calls", 1.5),
    ("verify_calls", -1),
    ("verify_calls", True),
    ("on_compile_error", []),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_wrong_values_are_refused(fresh: Config, name: str, value: object):
    with pytest.raises(BadSetting, match=f"config.{name} cannot be"):
        setattr(fresh, name, value)
    with pytest.raises(BadSetting, match=f"config.{name} cannot be"):
        fresh.patch(**{name: value})
    assert getattr(fresh, name) == DEFAULTS[name]


def test_unknown_names_are_refused_with_a_suggestion(fresh: Config):
    for attempt in (
        lambda: getattr(fresh, "recompil_limit"),  # noqa: B009 the name is wrong on purpose
        lambda: setattr(fresh, "recompil_limit", 3),
        lambda: delattr(fresh, "recompil_limit"),
        lambda: fresh.patch(recompil_limit=3),
    ):
        with pytest.raises(AttributeError, match="similar names: `recompile_limit`") as caught:
            attempt()
        assert isinstance(caught.value, UnknownSetting)
    assert not hasattr(fresh, "qqq")
    with pytest.raises(UnknownSetting, match="no setting has a name like it"):
        _ = getattr(fresh, "qqq")  # noqa: B009 the name is wrong on purpose


def test_set_and_delete(fresh: Config):
    fresh.recompile_limit = 3
    fresh.cache_dir = Path("/x")  # pyright: ignore[reportAttributeAccessIssue] paths become texts
    assert (fresh.recompile_limit, fresh.cache_dir) == (3, "/x")
    del fresh.recompile_limit
    del fresh.recompile_limit
    assert fresh.recompile_limit == 64


def test_patch_as_context_manager(fresh: Config):
    fresh.recompile_limit = 5
    with fresh.patch(recompile_limit=2, duck_shape=True) as patched:
        assert patched is fresh
        assert (fresh.recompile_limit, fresh.duck_shape) == (2, True)
        with fresh.patch(recompile_limit=1):
            assert fresh.recompile_limit == 1
        assert fresh.recompile_limit == 2
    assert (fresh.recompile_limit, fresh.duck_shape) == (5, False)


def test_patch_is_undone_after_an_error(fresh: Config):
    with pytest.raises(KeyError), fresh.patch(duck_shape=True):
        raise KeyError
    assert not fresh.duck_shape


def test_patch_as_decorator_of_a_recursive_function(fresh: Config):
    @fresh.patch(recompile_limit=2)
    def count(n: int) -> list[int]:
        below = count(n - 1) if n else []
        return [fresh.recompile_limit, *below]

    assert count(2) == [2, 2, 2]
    assert fresh.recompile_limit == 64
    assert count(0) == [2]


def test_patch_as_decorator_of_what_runs_later(fresh: Config):
    @fresh.patch(duck_shape=True)
    async def awaited() -> bool:
        return fresh.duck_shape

    @fresh.patch(duck_shape=True)
    def generated() -> Generator[bool, None, str]:
        yield fresh.duck_shape
        return "done"

    assert asyncio.run(awaited())
    assert list(generated()) == [True]
    assert not fresh.duck_shape

    with pytest.raises(BadSetting, match="methods of a class"):
        fresh.patch(duck_shape=True)(type("Tests", (), {}))


def test_patch_holds_in_all_threads(fresh: Config):
    seen: list[int] = []
    with fresh.patch(recompile_limit=2):
        thread = threading.Thread(target=lambda: seen.append(fresh.recompile_limit))
        thread.start()
        thread.join()
    assert seen == [2]


def test_text_shows_every_setting(fresh: Config):
    lines = repr(fresh).splitlines()
    assert "recompile_limit = 64" in lines
    assert len(lines) == len(DEFAULTS)


def test_the_settings_of_the_process_are_one_object():
    assert isinstance(config, Config)
    with config.patch(recompile_limit=7):
        assert config.recompile_limit == 7


def test_help_shows_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "a-secret-of-this-test")
    for thing in (config, Config, anyshape.config, import_module("anyshape.config")):
        text = render_doc(thing)
        assert "a-secret-of-this-test" not in text
        assert "environ(" not in text


def test_no_default_is_the_environment() -> None:
    files = list(Path(anyshape.__file__).parent.rglob("*.py"))
    assert files
    for file in files:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "environ" in text else ():
            if isinstance(node, ast.arguments):
                defaults = [*node.defaults, *filter(None, node.kw_defaults)]
                assert not any("environ" in ast.unparse(each) for each in defaults), file
