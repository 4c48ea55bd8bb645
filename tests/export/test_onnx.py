"""ONNX models of exported programs, run by onnxruntime at three sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import Dim
from anyshape.errors import CannotExport
from anyshape.ops.op import ONNX
from tests.export.onnx_programs import PROGRAMS, Sizes

MISSING = (
    importlib.util.find_spec("onnx") is None or importlib.util.find_spec("onnxruntime") is None
)
needs_onnx = pytest.mark.skipif(MISSING, reason="onnx and onnxruntime are not installed")


def session_of(exported: anyshape.Exported, path: Path) -> Any:
    runtime: Any = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    exported.to_onnx(path)
    return runtime.InferenceSession(path, options)


def made(sizes: Sizes, n: int, m: int) -> Tensor:
    named = {"n": n, "m": m}
    return torch.randn([named[each] if isinstance(each, str) else each for each in sizes])


def leaves(value: Any) -> list[Any]:
    """Tensors and numbers, each object once."""
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(items, list | tuple) and not isinstance(value, dict):
        return [value]
    return [leaf for item in items for leaf in leaves(item)]


@needs_onnx
@pytest.mark.parametrize(
    ("program", "sizes"), [row[1:] for row in PROGRAMS], ids=[row[0] for row in PROGRAMS]
)
def test_right_at_three_sizes(program: Any, sizes: Sizes, tmp_path: Path):
    torch.manual_seed(0)
    if isinstance(program, nn.Module):
        program.eval()
    takes = 3 if isinstance(program, nn.MultiheadAttention) else 1

    def inputs(n: int, m: int) -> tuple[Tensor, ...]:
        return tuple(made(sizes, n, m) for _ in range(takes))

    spec = tuple(
        tuple(Dim.AUTO if isinstance(s, str) else None for s in sizes) for _ in range(takes)
    )
    with torch.no_grad():
        exported = anyshape.export(program, inputs(4, 6), dynamic_shapes=spec)
        assert exported.symbols
        session = session_of(exported, tmp_path / "model.onnx")
        given = session.get_inputs()
        assert any(isinstance(size, str) for size in given[0].shape)
        for n, m in ((4, 6), (2, 5), (7, 9)):
            args = inputs(n, m)
            expected = [leaf for leaf in leaves(program(*args)) if leaf is not None]
            found = session.run(
                None, {each.name: x.numpy() for each, x in zip(given, args, strict=True)}
            )
            for mine, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(
                    torch.tensor(mine),
                    torch.as_tensor(theirs),
                    rtol=1e-4,
                    atol=1e-5,
                    equal_nan=True,
                )


@needs_onnx
def test_sizes_and_results_have_names(tmp_path: Path):
    def program(x: Tensor, tree: dict[str, Any], **more: Tensor) -> Any:
        joined = torch.cat([x, more["other"]])
        return {
            "joined": joined,
            "pair": (tree["a"][0] * 2, joined),
            "rows": x.shape[0],
            "no": None,
        }

    n = Dim("n", max=50)
    args = torch.ones(3), {"a": [torch.ones(7)]}
    exported = anyshape.export(
        program,
        args,
        {"other": torch.ones(2)},
        dynamic_shapes={"x": (n,), "tree": {"a": [(2 * n + 1,)]}, "other": (Dim.AUTO,)},
    )
    session = session_of(exported, tmp_path / "model.onnx")
    assert {each.name: each.shape for each in session.get_inputs()} == {
        "x": ["n"],
        "tree_a_0": ["2*n + 1"],
        "other": ["s1"],
    }
    outputs = {each.name: each.shape for each in session.get_outputs()}
    assert outputs == {"joined": ["n + s1"], "pair_0": ["2*n + 1"], "rows": []}


@needs_onnx
def test_an_integer_is_an_input(tmp_path: Path):
    exported = anyshape.export(
        lambda x, count: x * count, (torch.ones(3), 5), dynamic_shapes={"count": Dim.AUTO}
    )
    session = session_of(exported, tmp_path / "model.onnx")
    numpy: Any = pytest.importorskip("numpy")
    (found,) = session.run(None, {"x": numpy.ones(3, "float32"), "count": numpy.array(7)})
    assert found.tolist() == [7.0, 7.0, 7.0]


@needs_onnx
def test_functions_of_an_element_that_do_not_map_are_named(tmp_path: Path):
    exported = anyshape.export(lambda x: torch.erfinv(x) + 1, (torch.zeros(4),))
    with pytest.raises(CannotExport, match=r"ONNX has no operator here for .*erfinv"):
        exported.to_onnx(tmp_path / "model.onnx")


@needs_onnx
def test_everything_that_does_not_map_is_named(tmp_path: Path):
    exported = anyshape.export(
        lambda x: torch.fft.rfft(torch.logcumsumexp(x, 0)), (torch.zeros(4),)
    )
    with pytest.raises(CannotExport, match=r"ONNX has no operator here for .*logcumsumexp.*rfft"):
        exported.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def changes_its_input(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


@needs_onnx
@pytest.mark.parametrize(
    ("program", "says"),
    [
        (lambda x: x.norm(3), "a norm of order 3"),
        (lambda x: torch.linalg.norm(x[None], 2), "a norm of order 2"),
        (lambda x: torch.nn.functional.dropout(x, 0.5), "dropout in training"),
        (lambda x: x.quantile(0.5), "quantile"),
        (
            lambda x: torch.nn.functional.relu(x * 1, inplace=True).sum() + changes_its_input(x),
            "changing x in place",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(program: Any, says: str, tmp_path: Path):
    exported = anyshape.export(program, (torch.rand(4),))
    with pytest.raises(CannotExport, match=says):
        exported.to_onnx(tmp_path / "model.onnx")


def test_there_are_rows_for_what_is_common():
    assert len(ONNX) > 160


@pytest.mark.skipif(not MISSING, reason="onnx is installed")
def test_without_the_package(tmp_path: Path):
    exported = anyshape.export(lambda x: x + 1, (torch.eye(3),))
    with pytest.raises(CannotExport, match=r"pip install anyshape\[onnx\]"):
        exported.to_onnx(tmp_path / "model.onnx")
