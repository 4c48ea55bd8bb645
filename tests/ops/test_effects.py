"""What the table says operators do beside giving a result is what they do: on torch's own samples
of each, in all its forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_map

from anyshape.ops.op import PURE, OpKind
from anyshape.ops.table import ROWS, entries, lookup
from tests.ops.opdb import can_be_run, sampled
from tests.ops.samples import NotStrided, Template, by_value, template
from tests.ops.watched import Watching

INFOS = {info.full_name: info for info in op_db if can_be_run(info)}


def _forms(info: OpInfo) -> list[tuple[Callable[..., Any], bool]]:
    """The functions of an operator; the last is called with `out`, if it takes that."""
    found = (
        *(info.op, info.method_variant, info.inplace_variant),
        *(info.operator_variant, info.inplace_operator_variant),
    )
    forms = [(function, False) for function in dict.fromkeys(found) if function is not None]
    return [*forms, (info.op, True)] if info.supports_out else forms


def _watch(info: OpInfo, watching: Watching, samples: int = 12) -> None:
    """Calls all forms of an operator with samples that they take."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, sample in enumerate(sampled(info)[:samples]):
            try:
                made = template(sample, by_value)
            except NotStrided:
                continue
            for place, (function, takes_out) in enumerate(_forms(info)):
                call = partial(_call, function, made, takes_out)
                try:
                    call(nullcontext())
                except Exception:
                    continue  # Not each form takes each sample.
                # Other numbers in tensors take a call each.
                is_tried = place == 0 and number < _TRIED
                call(replace(watching, failing=watching.failing and is_tried))


#: Of so many samples it is tried whether other numbers make them fail.
_TRIED = 4


def _call(
    function: Callable[..., Any], made: Template, takes_out: bool, context: AbstractContextManager
) -> None:
    args, kwargs = made.build(made.values)
    if takes_out:
        result = function(*args, **kwargs)
        kwargs = {**kwargs, "out": tree_map(torch.empty_like, result)}
    with context:
        function(*args, **kwargs)


@pytest.mark.parametrize("name", INFOS)
def test_nothing_is_done_that_is_not_said(name: str) -> None:
    watching = Watching(failing=True)
    _watch(INFOS[name], watching)
    assert not watching.unsaid


#: Some of each effect, for every run of the tests.
NAMES = (
    *("add", "sort", "reshape", "squeeze", "__getitem__", "contiguous", "uniform", "index_add"),
    *("nn.functional.dropout", "nn.functional.embedding", "nn.functional.batch_norm", "norm.nuc"),
)


def test_of_some_of_each_effect() -> None:
    watching = Watching(failing=True)
    for name in NAMES:
        _watch(INFOS[name], watching)
    assert not watching.unsaid
    assert all(seen.calls for seen in watching.seen.values())
    drew = {op.name for op in ROWS if watching.of(op).drew}
    written = {op.name: watching.of(op).written for op in ROWS if watching.of(op).written}
    assert {"uniform_", "dropout"} <= drew
    assert written["embedding"] == {"weight"}
    assert written["functional_batch_norm"] == {"running_mean", "running_var"}


# -- what is said is done -------------------------------------------------------------------------

X = torch.randn(4, 4)
VOLUME = torch.randn(2, 3, 6, 6, 6)
KEPT = (torch.zeros(4), torch.ones(4))
F = torch.nn.functional
#: What torch's stubs do not have.
OWN: Any = torch
HIDDEN: Any = OWN._C._nn


def _recurrent(name: str, gates: int) -> Callable[[], Any]:
    """With dropout between two layers."""
    weights = [torch.randn(gates * 4, 4) for _ in range(4)]
    state = torch.zeros(2, 1, 4)
    states = [state, state] if name == "lstm" else state
    function = getattr(torch, name)
    return lambda: function(X[None], states, weights, False, 2, 0.5, True, False, True)


def _attention() -> Any:
    return F.multi_head_attention_forward(
        *(X, X, X, 4, 2, torch.randn(12, 4), None, None, None, False, 0.5, X, None)
    )


#: Calls that show what an operator is said to do, where torch's samples do not.
CALLS: tuple[Callable[[], Any], ...] = (
    lambda: HIDDEN.rrelu_with_noise(-X.abs(), X.clone(), 0.1, 0.3, True),
    lambda: torch.rrelu(-X.abs(), 0.1, 0.3, True),
    *(lambda: F.scaled_dot_product_attention(X, X, X, dropout_p=0.5), _attention),
    *(lambda: F.dropout1d(X), lambda: torch.feature_dropout(X, 0.5, True)),
    *(lambda: torch.native_dropout(X, 0.5, True), lambda: F.gumbel_softmax(X)),
    lambda: F.embedding_bag(torch.arange(4)[None], X * 9, max_norm=1.0),
    lambda: torch.batch_norm(X, None, None, *KEPT, True, 0.1, 1e-5, False),
    lambda: torch.instance_norm(X[None], None, None, *KEPT, True, 0.1, 1e-5, False),
    *(lambda: torch.rand(3), lambda: torch.rand_like(X), lambda: torch.randperm(9)),
    *(lambda: torch.poisson(X.abs()), lambda: torch.binomial(X.abs().ceil(), X.sigmoid())),
    *(lambda: OWN._standard_gamma(X.abs()), lambda: OWN._sample_dirichlet(X.abs())),
    *(lambda: X.clone().bernoulli_(), lambda: X.clone().random_()),
    *(_recurrent("lstm", 4), _recurrent("gru", 3)),
    *(_recurrent("rnn_tanh", 1), _recurrent("rnn_relu", 1)),
    lambda: F.fractional_max_pool3d_with_indices(VOLUME, [2] * 3, output_size=[3] * 3),
    *(lambda: X.detach(), lambda: X.clone().detach_(), lambda: X.clone().requires_grad_()),
    *(lambda: torch.as_tensor(X), lambda: torch.asarray(X)),
    *(lambda: X.swapdims(0, 1), lambda: X.swapaxes(0, 1), lambda: X.adjoint()),
    *(lambda: X.moveaxis(0, 1), lambda: torch.einsum("ij->ji", X)),
)

#: Torch cannot run them on every machine.
QUANTIZED = {"quantized_lstm", "quantized_gru"}


def test_of_calls_that_torch_has_no_samples_of() -> None:
    watching = Watching()
    for call in CALLS:
        with watching:
            call()
    assert not watching.unsaid


def _may_do_something(info: OpInfo) -> bool:
    """Whether more is said of it than that it gives a result."""
    matches = [lookup(function) for function, _ in _forms(info)]
    return any(
        match is None or match.op.effects is not PURE or match.op.lowering in SHARING
        for match in matches
    )


#: Their results have memory of an argument.
SHARING = (OpKind.VIEW, OpKind.NOTHING)


def _is_watched(value: Any) -> bool:
    home = getattr(value, "__module__", None) or ""
    return not isinstance(value, type) and not home.startswith("anyshape.")


@pytest.mark.slow
def test_what_is_said_is_done() -> None:
    """By one call of many: with these arguments an operator may well do nothing of it."""
    watching = Watching()
    for info in filter(_may_do_something, INFOS.values()):
        _watch(info, watching, samples=6)
    for call in CALLS:
        with watching:
            call()
    missing: list[str] = []
    # A class is no function of torch that could be watched, nor is a function of our own.
    known = {id(match.op): match.op for each, match in entries().items() if _is_watched(each)}
    for op in known.values():
        seen, said = watching.of(op), op.effects
        if said.draws and not seen.drew and op.name not in QUANTIZED:
            missing.append(f"{op.name} draws nothing")
        missing += [f"{op.name} does not write to {name}" for name in {*said.writes} - seen.written]
        if op.lowering in SHARING and not seen.shared:
            missing.append(f"{op.name} shares no memory")
    assert not missing
