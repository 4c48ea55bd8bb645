"""The arguments of `compile`: those of `torch.compile`, with its meanings; words for mistakes."""

from __future__ import annotations

import inspect
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.compiler import arguments
from anyshape.config import Config
from anyshape.errors import BadOption, BadSetting, BadShapeSpec, UnknownArgument, UnknownSetting


def double(x: Tensor) -> Tensor:
    return x * 2


def served(compiled: Any) -> int:
    """Compare some sizes with eager; how many calls were hits."""
    for n in (3, 5, 0, 1, 8):
        x = torch.randn(n)
        assert torch.equal(compiled(x), x * 2)
    return compiled.stats().hits


# -- mode= and options= ----------------------------------------------------------------------------


def test_the_default_mode_says_nothing():
    assert served(anyshape.compile(double, mode="default", dynamic=True)) == 4
    assert served(anyshape.compile(double, options={}, dynamic=True)) == 4


@pytest.mark.parametrize(
    "asked",
    [
        {"mode": "max-autotune"},
        {"mode": "max-autotune-no-cudagraphs"},
        {"options": {"max_autotune": True}},
        {"options": {"max_autotune_pointwise": True, "triton.cudagraphs": True}},
    ],
)
def test_tuned_kernels_can_be_asked_for(asked: Any):
    compiled: Any = anyshape.compile(double, dynamic=True, **asked)
    assert served(compiled) == 4
    assert "not tuned yet" in str(compiled.explain())


def test_an_option_that_is_a_wish():
    with pytest.warns(UserWarning, match="torch's own") as told:
        compiled = anyshape.compile(double, options={"max_autotune_gemm": True}, dynamic=True)
    assert told[0].filename == __file__, "the warning points at the line that asks"
    assert served(compiled) == 4


def test_cuda_graphs_can_be_asked_for_anywhere():
    """Without a GPU there is nothing that they change, and nothing to be told."""
    asked: list[dict[str, Any]] = [{"mode": "reduce-overhead"}]
    asked.append({"options": {"triton.cudagraphs": True}})
    for more in asked:
        assert served(anyshape.compile(double, dynamic=True, **more)) == 4


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"mode": "reduce_overhead"}, "'reduce-overhead'"),
        ({"mode": "Max-Autotune"}, "'max-autotune'"),
        ({"backend": "natve"}, "'native'"),
        ({"backend": "Inductor"}, "'inductor'"),
        ({"options": {"epilog_fusion": True}}, "'epilogue_fusion'"),
        ({"options": {"recompile_limt": 3}}, "'recompile_limit'"),
        ({"shapes": "annotation"}, "'annotations'"),
        ({"shapes": {"y": "batch"}}, ""),
        ({"shapes": {"xx": "batch"}}, "'x'"),
        ({"shapes": anyshape.Shapes({"x": "batch"})}, None),
    ],
)
def test_typos_are_told(given: dict[str, Any], meant: str | None):
    if meant is None:
        assert anyshape.compile(double, **given) is not None
        return
    with pytest.raises(ValueError) as caught:  # noqa: PT011 several, all of them ours
        anyshape.compile(double, **given)
    assert isinstance(caught.value, anyshape.AnyshapeError)
    assert f"did you mean {meant}?" in str(caught.value) or not meant


def test_typos_in_the_names_of_dims_are_told():
    with pytest.raises(ValueError, match="did you mean 'batch'"):
        anyshape.Shapes({"x": "batch 4"}, "bacth % 8 == 0")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"guard_filter_fn": list}, "mark_static"),
        ({"trace.enabled": True}, "anyshape report"),
        ({"epilogue_fusion": False}, "cannot be turned off"),
        ({"recompile_limit": 3}, "anyshape.config.recompile_limit"),
        ({"xyz": 1}, "there is no such option"),
        ("fast", "a dict"),
        ({3: 4}, "there is no such option"),
    ],
)
def test_options_that_mean_nothing(options: Any, said: str):
    with pytest.raises(BadOption, match=said):
        anyshape.compile(double, options=options)


def test_options_that_are_wishes():
    assert served(anyshape.compile(double, options={"epilogue_fusion": True}, dynamic=True)) == 4
    assert served(anyshape.compile(double, options={"max_autotune": False}, dynamic=True)) == 4
    with pytest.warns(UserWarning, match="never padded"):
        anyshape.compile(double, options={"shape_padding": True})


def test_a_mode_and_options_are_one_too_many():
    with pytest.raises(BadOption, match="one of the two"):
        anyshape.compile(double, mode="default", options={})


# -- disable= --------------------------------------------------------------------------------------


def test_disable_gives_back_what_it_got():
    net = nn.Linear(2, 2)
    assert anyshape.compile(double, disable=True) is double
    assert anyshape.compile(net, disable=True) is net
    assert anyshape.compile(disable=True)(double) is double
    assert isinstance(anyshape.compile(double, disable=False), anyshape.Compiled)


def test_mistakes_are_told_though_it_is_disabled():
    with pytest.raises(BadOption, match="mode"):
        anyshape.compile(double, disable=True, mode="fast")  # pyright: ignore[reportCallIssue, reportArgumentType] wrong on purpose


@pytest.mark.parametrize("option", ["fullgraph", "disable"])
@pytest.mark.parametrize("value", ["yes", 2, None])
def test_switches_are_switches(option: str, value: object):
    with pytest.raises(BadOption, match=option):
        anyshape.compile(double, **{option: value})  # pyright: ignore[reportCallIssue, reportArgumentType] wrong on purpose


# -- backend= --------------------------------------------------------------------------------------


def test_inductor_means_native():
    with pytest.warns(UserWarning, match='"native"') as told:
        compiled = anyshape.compile(double, backend="inductor", dynamic=True)
    assert told[0].filename == __file__
    assert served(compiled) == 4


def test_a_decorator_tells_once_and_at_its_line():
    with pytest.warns(UserWarning, match='"native"') as told:

        @anyshape.compile(backend="inductor")
        def f(x: Tensor) -> Tensor:
            return x

    assert len(told) == 1
    assert told[0].filename == __file__
    assert f(torch.ones(2)).shape == (2,)


def test_a_backend_of_another_package(monkeypatch: pytest.MonkeyPatch):
    graphs: list[torch.fx.GraphModule] = []

    def theirs(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    there = SimpleNamespace(name="theirs", load=lambda: theirs)
    monkeypatch.setattr(arguments, "entry_points", lambda group: [there] if group else [])
    assert served(anyshape.compile(double, backend="theirs", dynamic=True)) == 4
    assert len(graphs) == 1
    with pytest.raises(BadOption, match="did you mean 'theirs'"):
        anyshape.compile(double, backend="their")


def test_names_of_torch_that_run_operators_one_by_one():
    with pytest.raises(BadOption, match='"aot_eager" is "eager" here'):
        anyshape.compile(double, backend="aot_eager")


# -- names of arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given", "meant"),
    [
        (anyshape.compile, {"dynamci": True}, "dynamic"),
        (anyshape.compile, {"full_graph": True}, "fullgraph"),
        (anyshape.mark_dynamic, {"tensor": None, "dim": 0, "mim": 2}, "min"),
        (anyshape.maybe_mark_dynamic, {"tensr": None}, "tensor"),
        (anyshape.mark_unbacked, {"tensor": None, "dim": 0, "hnt": 2}, "hint"),
        (anyshape.mark_static, {"tensor": None, "dims": 2}, "dim"),
        (anyshape.export, {"function": None, "dynamic_shape": 2}, "dynamic_shapes"),
        (anyshape.set_logs, {"recompile": True}, "recompiles"),
        (anyshape.disable, {"function": None, "reson": "slow"}, "reason"),
        (anyshape.graph_break, {"mgs": "here"}, "msg"),
        (anyshape.Dim, {"name": "batch", "mx": 64}, "max"),
        (anyshape.load, {"path": "x.zip", "native": "trusted"}, "native_code"),
        (anyshape.Exported.save, {"path": "x.zip", "native_cod": True}, "native_code"),
        (anyshape.Exported.to_onnx, {"path": "x.onnx", "opsets": 18}, "opset"),
    ],
)
def test_a_misspelt_argument(function: Any, given: dict[str, Any], meant: str):
    with pytest.raises(TypeError, match=f"did you mean '{meant}'") as caught:
        function(**given)
    assert isinstance(caught.value, UnknownArgument)


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [
        ("on_compile_error", "wran", "warn"),
        ("on_verify", "events", "event"),
        ("automatic_dynamic", "al", "all"),
        ("cuda_graphs", "aut", "auto"),
        ("cpu_features", "avx_2", "avx2"),
    ],
)
def test_a_misspelt_value_of_a_setting(setting: str, value: str, meant: str):
    with pytest.raises(BadSetting, match=f"did you mean '{meant}'"):
        setattr(anyshape.config, setting, value)


def test_what_is_like_no_value_of_a_setting():
    with pytest.raises(BadSetting) as caught:
        anyshape.config.on_verify = "quietly"  # pyright: ignore[reportAttributeAccessIssue] as it must
    assert "did you mean" not in str(caught.value)


def test_a_misspelt_name_in_a_spec_of_export():
    with pytest.raises(BadShapeSpec, match="did you mean 'input'"):
        anyshape.export(
            torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes={"inputs": "batch 4"}
        )


def test_misspelt_words_of_load(tmp_path: Path):
    path = tmp_path / "sine.zip"
    anyshape.export(torch.sin, (torch.zeros(3),)).save(path)
    with pytest.raises(BadOption, match="did you mean 'native'"):
        anyshape.load(path, backend="nativ")
    with pytest.raises(BadOption, match="did you mean 'trusted'"):
        anyshape.load(path, native_code="trust")


def test_python_asks_for_names_of_the_package():
    """As it does for attributes of any module, also of those that nobody has used so far."""
    program = "import anyshape; anyshape.maybe_mark_dynamc"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stderr.endswith("Did you mean: 'maybe_mark_dynamic'?\n")
    assert set(anyshape.__all__) <= set(dir(anyshape))


def test_help_shows_the_arguments():
    assert list(inspect.signature(anyshape.mark_dynamic).parameters)[:2] == ["tensor", "dim"]


# -- variables of the environment ------------------------------------------------------------------


def test_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANYSHAPE_RECOMPILE_LIMT", "3")
    with pytest.raises(UnknownSetting, match="ANYSHAPE_RECOMPILE_LIMIT"):
        anyshape.compile(double)


@pytest.mark.parametrize(
    "name", ["ANYSHAPE_PORT", "ANYSHAPE_SERVICE_HOST", "ANYSHAPE_PORT_80_TCP_ADDR", "ANYSHAPE_URL"]
)
def test_variables_of_others_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch):
    """A container has such ones if a service beside it is called so."""
    monkeypatch.setenv(name, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        anyshape.compile(double)


def test_importing_does_not_fail_because_of_one(tmp_path: Path):
    environment = {**os.environ, "ANYSHAPE_PROFLE": "0"}
    ran = subprocess.run([sys.executable, "-c", "import anyshape"], env=environment, check=False)
    assert ran.returncode == 0


def test_a_backend_of_the_users_is_given_its_options():
    given: list[dict[str, Any]] = []

    def theirs(graph: torch.fx.GraphModule, examples: list[Any], **chosen: Any) -> Any:
        given.append(chosen)
        return graph.forward

    for chosen in ({"options": {"a": 1}}, {"mode": "fast"}, {"mode": "default"}, {}):
        anyshape.compile(double, backend=theirs, **chosen)(torch.ones(2))  # pyright: ignore[reportCallIssue, reportArgumentType] names of their own
    assert given == [{"options": {"a": 1}}, {"mode": "fast"}, {}, {}]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NATIVE_TRAINING", "maybe"),
        ("RECOMPILE_LIMIT", "abc"),
        ("CPU_FEATURES", "avx3"),
        ("ON_VERIFY", "rase"),
        ("CACHE_SIZE_MB", "-3"),
    ],
)
def test_a_variable_with_a_bad_value_is_told_at_once(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
):
    settings = Config({f"ANYSHAPE_{variable}": value})
    monkeypatch.setattr("anyshape.api.config", settings)
    with pytest.raises(BadSetting, match=variable):
        anyshape.compile(double)


def test_a_name_is_a_text():
    with pytest.raises(BadOption, match="name"):
        anyshape.compile(double, name=cast("Any", 3))


def test_a_word_for_another_machine():
    """It is spelled right: nobody is asked whether it was meant."""
    other = "neon" if platform.machine() == "x86_64" else "avx2"
    with pytest.raises(BadSetting) as caught:
        anyshape.config.cpu_features = other
    assert "did you mean" not in str(caught.value)
