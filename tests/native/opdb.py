"""Torch's table of operators (`op_db`), compiled to native code and held against eager.

A sample is compiled with dynamic sizes and called at its own sizes twice (the first call is the
capture), then at other sizes: larger ones, each size 1, each size 0. Where eager raises, the
compiled function has to raise too. Everything else has to be equal: values up to torch's own
tolerance, dtypes, sizes, and strides where they matter.
"""

from __future__ import annotations

import random
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves

import anyshape
from tests.native.plans import watched
from tests.ops.samples import NotStrided, Sample, by_value, plain, template

#: Their results are random, uninitialised, or not determined.
UNDETERMINED = frozenset(
    {
        *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial"),
        *("normal", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform"),
        *("nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d"),
        *("nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu"),
        *("empty", "empty_like", "new_empty", "new_empty_strided", "empty_permuted"),
        *("empty_strided", "nn.functional.scaled_dot_product_attention", "pca_lowrank"),
        *("svd_lowrank", "nn.functional.fractional_max_pool2d"),
        *("nn.functional.fractional_max_pool3d", "nn.functional.gumbel_softmax"),
        *("nn.functional.multi_head_attention_forward", "native_dropout_backward"),
        *("normal.in_place", "normal.number_mean", "randperm", "bernoulli.tensor"),
        *("nn.functional.dropout1d", "torch.ops.aten._safe_softmax.default"),
    }
)

#: See tests/ops/opdb.py: with other integers or sizes they read beyond their tensors.
DANGEROUS = frozenset(
    {
        "_segment_reduce.lengths",
        "_segment_reduce.offsets",
        "linalg.ldl_solve",
        "linalg.lu_solve",
        "lu_solve",
        "lu_unpack",
        "nn.functional.embedding_bag",
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
    }
)


@dataclass
class Outcome:
    """Of one operator and dtype."""

    name: str
    dtype: torch.dtype
    samples: int = 0
    compared: int = 0
    native: set[str] = field(default_factory=set[str])
    called: dict[str, str] = field(default_factory=dict[str, str])
    wrong: list[str] = field(default_factory=list[str])
    late: bool = False


def infos() -> list[OpInfo]:
    return [
        info
        for info in op_db
        if info.full_name not in UNDETERMINED and info.full_name not in DANGEROUS
    ]


def samples_of(info: OpInfo, dtype: torch.dtype, most: int) -> list[Sample]:
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    found = [
        Sample(plain((each.input, *each.args)), plain(each.kwargs))
        for each in islice(info.sample_inputs("cpu", dtype, requires_grad=False), 40)
    ]
    step = max(1, len(found) // most)
    return found[::step][:most]


def try_operator(
    info: OpInfo, dtype: torch.dtype, *, most: int = 2, seconds: int = 30
) -> Outcome:
    outcome = Outcome(info.full_name, dtype)
    try:
        with _at_most(seconds), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for sample in samples_of(info, dtype, most):
                outcome.samples += 1
                _try_sample(info, sample, outcome)
    except Late:
        outcome.late = True
    return outcome


def _try_sample(info: OpInfo, sample: Sample, outcome: Outcome) -> None:
    try:
        made = template(sample, by_value)
    except NotStrided:
        return
    except Exception:
        return
    compiled = anyshape.compile(_calling(info.op), dynamic=True)
    own = made.values
    sizes = [own, own, {k: v * 2 + 1 for k, v in own.items()}]
    sizes += [dict.fromkeys(own, number) for number in (1, 0)] if own else []
    sizes += [{**own, k: number} for k in list(own)[:1] for number in (1, 0) if len(own) > 1]
    with watched() as plans:
        for values in sizes:
            _compare(info, made, values, compiled, outcome, sample)
    outcome.native |= plans.native
    outcome.called.update(plans.called)
    outcome.wrong += [
        f"{sample}: the native program failed: {error!r}"
        for error in plans.errors
        if not _is_of_user(error)
    ]


def _calling(op: Any) -> Any:
    def function(args: Any, kwargs: Any) -> Any:
        return op(*args, **kwargs)

    return function


def _is_of_user(error: BaseException) -> bool:
    """Errors of the program's own data or sizes, which eager raises too."""
    return not isinstance(error, NameError | AttributeError | TypeError | AssertionError)


def _compare(
    info: OpInfo, made: Any, values: Any, compiled: Any, outcome: Outcome, sample: Sample
) -> None:
    zeroed = made.has_integers and values != made.values
    try:
        args, kwargs = made.build(values, zeroed)
        expected = info.op(*args, **kwargs)
    except Exception:
        expected = None
    args, kwargs = made.build(values, zeroed)
    try:
        found = compiled(args, kwargs)
    except (Late, anyshape.errors.InternalError) as error:
        if isinstance(error, Late):
            raise
        outcome.wrong.append(f"{sample}: {error.__cause__!r}")
        return
    except Exception as error:
        if expected is not None:
            outcome.wrong.append(f"{sample} at {_shown(values)}: raised {error!r}")
        return
    if expected is None:
        outcome.wrong.append(f"{sample} at {_shown(values)}: no error, but eager raises one")
        return
    outcome.compared += 1
    try:
        same(found, expected)
    except AssertionError as error:
        text = " ".join(str(error).split())
        outcome.wrong.append(f"{sample} at {_shown(values)}: {text[:300]}")


def _shown(values: Any) -> str:
    return str({symbol.name: size for symbol, size in values.items()})


def same(found: Any, expected: Any) -> None:
    """Raise an AssertionError if they differ."""
    ours, theirs = tree_leaves(found), tree_leaves(expected)
    assert len(ours) == len(theirs), f"{len(ours)} results, not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor) or other.layout is not torch.strided:
            continue
        assert one.dtype == other.dtype, f"{one.dtype}, not {other.dtype}"
        assert one.shape == other.shape, f"{tuple(one.shape)}, not {tuple(other.shape)}"
        torch.testing.assert_close(one, other, equal_nan=True, **_tolerance(other.dtype))
        if other.numel():
            steps = zip(other.shape, one.stride(), other.stride(), strict=True)
            for size, ours_, theirs_ in steps:
                assert size < 2 or ours_ == theirs_, f"strides {one.stride()}, {other.stride()}"


def _tolerance(dtype: torch.dtype) -> dict[str, float]:
    if dtype in (torch.bfloat16, torch.float16):
        return {"rtol": 2e-2, "atol": 1e-2}
    if dtype in (torch.float32, torch.complex64):
        return {"rtol": 2e-5, "atol": 2e-5}
    return {}


class Late(BaseException):
    """It took too long."""


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def dtypes_of(info: OpInfo, wanted: Sequence[torch.dtype]) -> list[torch.dtype]:
    return [dtype for dtype in wanted if dtype in info.dtypes]
