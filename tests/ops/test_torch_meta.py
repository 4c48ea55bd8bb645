"""Operators by torch's own shape functions: as if none of them had a row of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from anyshape.errors import UnknownOperator
from anyshape.ops import infer as inference
from anyshape.ops.actual_strides import actual_strides, dense_order, layout_of
from anyshape.ops.infer import How, Inferred, infer
from anyshape.ops.meta import Dense, Meta, Strided, contiguous
from anyshape.ops.shape_query import NeedKind
from anyshape.symbolic import NATURAL, Facts, Size, maximum, symbol
from tests import forks
from tests.ops.driver import check, dynamic

pytestmark = pytest.mark.filterwarnings("ignore")

CPU = torch.device("cpu")
a, b = symbol("a"), symbol("b")


@pytest.fixture(autouse=True)
def _no_rows(monkeypatch: pytest.MonkeyPatch):
    """No operator that is called has a row; those that torch's functions call inside still do."""
    monkeypatch.setattr(inference, "lookup", lambda function: None)


def inferred(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Inferred:
    return infer(Facts().declare(a, 5).declare(b, 7), function, args, kwargs)


def meta(*shape: Size, dtype: torch.dtype = torch.float32, **more: Any) -> Meta:
    return Meta(shape, dtype, contiguous(len(shape)), CPU, **more)


FIRST = {"a": 5, "b": 7, "c": 3}

DYNAMIC: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (torch.special.bessel_j0, ("a b",), {}),
    (torch.special.zeta, ("a b", "b"), {}),
    (torch.xlogy, ("a 1", "a b"), {}),
    (torch.linalg.det, ("c a a",), {}),
    (torch.linalg.inv, ("a a",), {}),
    (torch.linalg.qr, ("a b",), {}),
    (torch.linalg.qr, ("b a",), {"mode": "complete"}),
    (torch.linalg.eigh, ("c a a",), {}),
    (torch.linalg.matrix_exp, ("a a",), {}),
    (torch.block_diag, ("a b", "c a"), {}),
    (torch.renorm, ("a b", 2, 0, 1.0), {}),
    (torch.addbmm, ("a c", "b a 4", "b 4 c"), {}),
    (torch.logcumsumexp, ("a b", 1), {}),
    (torch.cummax, ("a b", 0), {}),
    (F.silu, ("a b",), {}),
    (F.celu, ("a b",), {"alpha": 0.5}),
    (F.glu, ("a 6",), {}),
    (F.pixel_shuffle, ("a 8 b c", 2), {}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "specs", "kwargs"), DYNAMIC)
def test_dynamic(function: Callable[..., Any], specs: tuple[Any, ...], kwargs: dict[str, Any]):
    used = {n for spec in specs if isinstance(spec, str) for n in spec.split()}
    first = {name: size for name, size in FIRST.items() if name in used}
    outcome = check(function, *specs, first=first, **kwargs)
    assert outcome.hows == {How.META}
    assert dynamic(outcome), outcome.needs


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.int32, torch.bool]
)
def test_dtypes(dtype: torch.dtype):
    for function in (torch.positive, torch.square, torch.isfinite, torch.angle, torch.sinc):
        if dtype is torch.bool and function is torch.positive:
            continue
        if dtype is torch.bfloat16 and function is torch.angle:
            continue
        assert dynamic(check(function, "a b", first={"a": 3, "b": 4}, dtype=dtype))


@pytest.mark.parametrize(
    "prepare",
    [
        lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        lambda x: x.to(memory_format=torch.channels_last) if x.dim() == 4 else x,
        lambda x: x.requires_grad_(),
    ],
)
def test_layouts_and_grad(prepare: Callable[[torch.Tensor], torch.Tensor]):
    for function in (F.softsign, torch.special.entr, F.dropout2d, torch.clone, torch.sgn):
        assert dynamic(
            check(
                function,
                "a b 3 4",
                first={"a": 2, "b": 5},
                then=[{"a": 4, "b": 6}],
                prepare=prepare,
            )
        )


def test_layouts_that_shape_functions_state_wrong():
    # Torch's function says that the vectors of `eig` lie in rows; the operator gives columns.
    assert dynamic(check(torch.linalg.eig, "a a", first={"a": 4}))
    assert dynamic(check(torch.linalg.svd, "a a", first={"a": 4}))


def test_kernels_that_treat_nothing_apart():
    # At size 0 the operator returns its argument as it is; its shape function does not say so.
    outcome = check(F.pixel_unshuffle, "1 1 a a", 3, first={"a": 6}, then=[{"a": 9}, {"a": 0}])
    assert outcome.served == [{"a": 9}]


def test_in_place_forms_return_their_target():
    for function in (torch.Tensor.erfinv_, torch.Tensor.exponential_, torch.Tensor.cauchy_):
        outcome = check(function, "a b", first={"a": 3, "b": 4})
        assert dynamic(outcome)
    given = meta(a, b)
    assert inferred(torch.Tensor.erfinv_, given).value is given


def test_in_place_forms_check_their_target():
    with pytest.raises(UnknownOperator):
        inferred(torch.Tensor.xlogy_, meta(b), meta(a, b))


def test_out():
    given = meta(a, b)
    assert inferred(torch.special.erfcx, meta(a, b), out=given).value is given
    resized = inferred(torch.special.erfcx, meta(a, b), out=meta(0)).value
    assert resized.shape == (a, b)


def test_grad_is_what_autograd_says():
    x = meta(a, b, requires_grad=True)
    assert inferred(torch.special.entr, x).value.requires_grad
    assert not inferred(torch.isfinite, x).value.requires_grad
    assert not inferred(torch.nextafter, x.like(), x.like()).value.requires_grad
    values, indices = inferred(torch.cummin, x, 0).value
    assert (values.requires_grad, indices.requires_grad) == (True, False)
    with torch.no_grad():
        assert not inferred(torch.special.entr, x).value.requires_grad


def test_random_numbers_are_not_drawn():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    inferred(torch.bernoulli, meta(a, b))
    inferred(F.rrelu, meta(a, b), training=True)
    inferred(torch.Tensor.geometric_, meta(a, b), 0.5, generator=torch.default_generator)
    assert torch.equal(before, torch.get_rng_state())


def test_device_is_the_tensors():
    other = torch.device("cuda", 1)
    value = inferred(torch.special.entr, Meta((a, b), torch.float32, contiguous(2), other)).value
    assert value.device == other
    mixed = inferred(torch.xlogy, meta(), Meta((a,), torch.float32, contiguous(1), other)).value
    assert mixed.device == other


def test_a_size_of_zero_or_one_that_differs_is_guarded():
    # Without channels torch's function and its operator differ from the formula.
    outcome = check(torch.conv1d, "2 c b", "4 c 3", first={"c": 3, "b": 8})
    assert {"c": 0, "b": 8} in outcome.guarded
    assert {"c": 1, "b": 8} in outcome.served


def test_sizes_that_must_agree_do():
    found = infer(
        Facts().declare(a, 5).declare(b, 5), torch.linalg.solve, (meta(a, a), meta(b, 3)), {}
    )
    assert found.facts.equal(a, b)
    assert all(need.kind is not NeedKind.SPECIALISED for need in found.needs)


@pytest.mark.parametrize(
    "function",
    [torch.nonzero, torch.unique, torch.argwhere, torch.bincount, torch.Tensor.item,
     torch.Tensor.tolist, F.one_hot, torch.equal, torch.Tensor.numpy],
)  # fmt: skip
def test_what_depends_on_data_is_refused(function: Callable[..., Any]):
    with pytest.raises(UnknownOperator):
        inferred(function, meta(a, dtype=torch.int64))
    with pytest.raises(UnknownOperator):
        inferred(function, meta(3, dtype=torch.int64))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.combinations(x),
        lambda x: torch.combinations(x, 3),
        lambda x: torch.combinations(x, 2, with_replacement=True),
    ],
)
def test_combinations_are_refused_or_right(call: Callable[..., Any]):
    """Before torch 2.14 they are made by a mask, whose number of elements is data."""
    try:
        outcome = check(call, "a", first={"a": 5}, then=[{"a": size} for size in range(9)])
    except UnknownOperator:
        return
    assert not outcome.needs
    assert len(outcome.served) == 9


@pytest.mark.parametrize("turned", [False, True])
def test_products_of_matrices_are_refused_or_right(turned: bool):
    first = {"a": 5, "b": 7}
    others = [{"a": a, "b": b} for a in (0, 1, 2, 5) for b in (0, 1, 3, 7)]
    lay = (lambda x: x.mT.contiguous().mT if x.dim() == 2 else x) if turned else None
    for specs in (("a b", "2 3"), ("a b", "b a"), ("a", "b")):
        try:
            outcome = check(torch.kron, *specs, first=first, then=others, prepare=lay)
        except UnknownOperator:
            continue
        assert first in outcome.served


def test_masks_are_refused_and_indices_are_not():
    x, mask = meta(a, b), meta(a, dtype=torch.bool)
    with pytest.raises(UnknownOperator):
        inferred(torch.ops.aten.index, x, [mask])
    index = meta(b, dtype=torch.int64)
    assert inferred(torch.ops.aten.index, x, [index]).value.shape == (b, b)


def test_unbacked_sizes():
    u = symbol("u0", NATURAL, backed=False)
    facts = Facts().declare(u)
    found = infer(facts, torch.special.entr, (meta(u, 3),), {})
    assert found.value.shape == (u, 3)
    assert not found.needs


def test_nobody_listens():
    seen: list[Any] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Functions(), Operators():
        assert inferred(torch.linalg.det, meta(a, a)).value.shape == ()
        assert not seen
        torch.ones(2)
        assert seen


def test_the_compilers_of_torch_are_not_loaded(tmp_path: Path):
    script = """
import sys, torch
from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta, contiguous
from anyshape.symbolic import Facts, symbol
a = symbol("a")
x = Meta((a, a), torch.float32, contiguous(2), torch.device("cpu"))
infer(Facts().declare(a, 5), torch.linalg.slogdet, (x,), {})
print(*{name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))})
"""
    (tmp_path / "script.py").write_text(script)
    run = forks.run(["script.py"], tmp_path, bare=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


@pytest.mark.parametrize(
    ("shape", "strides", "layout"),
    [
        ((a, b), (maximum(b, 1), 1), Dense((0, 1))),
        ((a, b), (b, 1), Dense((0, 1))),
        ((a, b), (1, maximum(a, 1)), Dense((1, 0))),
        ((a, 1, b), (b, 5, 1), Dense((0, 1, 2))),
        ((a, b), (b * 2, 1), Strided((b * 2, 1))),
        ((a, b), (0, 1), Strided((0, 1))),
        ((), (), Dense(())),
    ],
)
def test_layout_of_actual_strides(shape: Any, strides: Any, layout: Any):
    assert layout_of(shape, strides) == layout


def test_actual_strides_return():
    for order in ((0, 1, 2), (2, 0, 1), (0, 2, 1)):
        x = Meta((a, b, 4), torch.float32, Dense(order), CPU)
        assert dense_order(x.shape, actual_strides(x)) == order
