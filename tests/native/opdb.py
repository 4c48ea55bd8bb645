"""Torch's table of operators (`op_db`), compiled to native code and held against eager.

A sample is compiled with dynamic sizes and called at its own sizes twice (the first call is the
capture), then at other sizes: larger ones, each size 1, each size 0. Where eager raises, the
compiled function has to raise too. Everything else has to be equal: values up to torch's own
tolerance, dtypes, sizes, and strides where they matter. All of it on torch's default device.
"""

from __future__ import annotations

import linecache
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
from torch.utils._pytree import tree_leaves, tree_map, tree_unflatten

import anyshape
from anyshape.symbolic import Expr
from tests.native.plans import watched
from tests.ops.samples import (
    NotStrided,
    Sample,
    Template,
    TensorTemplate,
    by_value,
    plain,
    template,
)

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
        # of an empty batch it is uninitialised
        "nn.functional.multi_margin_loss",
        *("nn.functional.fractional_max_pool3d", "nn.functional.gumbel_softmax"),
        *("nn.functional.multi_head_attention_forward", "native_dropout_backward"),
        *("normal.in_place", "normal.number_mean", "randperm", "bernoulli.tensor"),
        *(
            "resize_",
            "resize_as_",
            "nn.functional.dropout1d",
            "torch.ops.aten._safe_softmax.default",
            "torch.ops.aten._efficient_attention_forward",
            "torch.ops.aten._flash_attention_forward",
        ),
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

#: On a GPU: torch divides by a size of 0, or looks for elements that are not there.
FATAL_WHERE_SMALL = frozenset(
    {
        "__getitem__",
        "_batch_norm_with_update",
        "_native_batch_norm_legit",
        "native_batch_norm",
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
        for each in islice(
            info.sample_inputs(str(torch.get_default_device()), dtype, requires_grad=False), 40
        )
    ]
    step = max(1, len(found) // most)
    return found[::step][:most]


def try_operator(info: OpInfo, dtype: torch.dtype, *, most: int = 2, seconds: int = 30) -> Outcome:
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
    eager = calling(info.op, made)
    compiled = anyshape.compile(eager, dynamic=True)
    with watched() as plans:
        for values in _sizes(info, made):
            _compare((eager, compiled), made, values, outcome, sample)
    outcome.native |= plans.native
    outcome.called.update(plans.called)
    outcome.wrong += [
        f"{sample}: the native program failed: {error!r}"
        for error in plans.errors
        if not _is_of_user(error)
    ]


def _sizes(info: OpInfo, made: Template) -> list[Any]:
    own = made.values
    sizes = [own, own, {k: v * 2 + 1 for k, v in own.items()}]
    if _on_gpu() and info.full_name in FATAL_WHERE_SMALL:
        return sizes
    if _on_gpu() and info.full_name in ("index_copy", "scatter"):
        return sizes[:2]  # where all go to one place, anyone may be the last
    if _on_gpu() and made.has_integers:
        # Of nothing even the first element is out of range, which no later call would survive.
        return [*sizes, dict.fromkeys(own, 1)] if own else sizes
    sizes += [dict.fromkeys(own, number) for number in (1, 0)] if own else []
    return sizes + [{**own, k: n} for k in list(own)[:1] for n in (1, 0) if len(own) > 1]


def _on_gpu() -> bool:
    return torch.get_default_device().type == "cuda"


def calling(op: Any, made: Template) -> Any:
    """The operator as a function of tensors, and of the integers that are sizes; other arguments
    are part of the program, written as source."""
    names: dict[str, Any] = {"op": op}
    given = iter(range(len(made.leaves)))
    leaves = [
        _Text(f"given[{next(given)}]" if _is_given(leaf) else _literal(leaf, names))
        for leaf in made.leaves
    ]
    args, kwargs = tree_unflatten(leaves, made.spec)
    parts = [_source(each) for each in args]
    parts += [f"{name}={_source(each)}" for name, each in kwargs.items()]
    text = f"def function(given):\n    return op({', '.join(parts)})\n"
    file = f"<op_db {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), names)
    return names["function"]


class _Text(str):
    """Source of an argument."""


def _literal(leaf: Any, names: dict[str, Any]) -> str:
    if leaf is None or type(leaf) in (int, bool, str):
        return repr(leaf)
    name = f"value{len(names)}"
    names[name] = leaf
    return name


def _source(tree: Any) -> str:
    if type(tree) is tuple:
        return f"({''.join(f'{_source(each)}, ' for each in tree)})"
    if type(tree) is list:
        return f"[{', '.join(map(_source, tree))}]"
    if type(tree) is dict:
        return f"{{{', '.join(f'{key!r}: {_source(each)}' for key, each in tree.items())}}}"
    return str(tree)


def _is_given(leaf: Any) -> bool:
    return isinstance(leaf, TensorTemplate | Expr)


def arguments_at(made: Template, values: Any, zeroed: bool) -> list[Any]:
    leaves = tree_leaves(made.build(values, zeroed), is_leaf=lambda leaf: leaf is None)
    assert len(leaves) == len(made.leaves)
    return [value for value, leaf in zip(leaves, made.leaves, strict=True) if _is_given(leaf)]


def _is_of_user(error: BaseException) -> bool:
    """Errors of the program's own data or sizes, which eager raises too."""
    return not isinstance(error, NameError | AttributeError | TypeError | AssertionError)


def _compare(
    functions: tuple[Any, Any], made: Template, values: Any, outcome: Outcome, sample: Sample
) -> None:
    eager, compiled = functions
    zeroed = made.has_integers and values != made.values
    try:
        expected = eager(arguments_at(made, values, zeroed))
    except Exception:
        expected = None
    try:
        found = compiled(arguments_at(made, values, zeroed))
    except (Late, anyshape.errors.InternalError) as error:
        if isinstance(error, Late):
            raise
        outcome.wrong.append(f"{sample}: {error.__cause__!r}")
        return
    except Exception as error:
        if expected is not None:
            outcome.wrong.append(f"{sample} at {_shown(values)}: raised {error!r}")
        return
    if expected is None and _on_gpu() and _can_be(eager, made, values, zeroed):
        return  # torch's kernel for GPUs has not learnt it
    if expected is None:
        outcome.wrong.append(f"{sample} at {_shown(values)}: no error, but eager raises one")
        return
    outcome.compared += 1
    try:
        same(found, expected)
    except AssertionError as error:
        text = " ".join(str(error).split())
        outcome.wrong.append(f"{sample} at {_shown(values)}: {text[:300]}")


def _can_be(eager: Any, made: Template, values: Any, zeroed: bool) -> bool:
    """Whether the processor has an answer."""
    given = tree_map(
        lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf,
        arguments_at(made, values, zeroed),
    )
    try:
        with torch.device("cpu"):
            eager(given)
    except Exception:
        return False
    return True


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
        rtol, atol = _tolerance(other.dtype)
        torch.testing.assert_close(one, other, equal_nan=True, rtol=rtol, atol=atol)
        if other.numel():
            steps = zip(other.shape, one.stride(), other.stride(), strict=True)
            for size, ours_, theirs_ in steps:
                assert size < 2 or ours_ == theirs_, f"strides {one.stride()}, {other.stride()}"


def _tolerance(dtype: torch.dtype) -> tuple[float | None, float | None]:
    """Of the whole, and of small numbers; None for torch's own."""
    if dtype in (torch.bfloat16, torch.float16):
        return 2e-2, 1e-2
    if dtype in (torch.float32, torch.complex64):
        # Torch's own kernels for GPUs add up in an order of theirs, and take roots and quotients
        # that are not rounded as the processor's are.
        return (2e-4, 1e-4) if _on_gpu() else (2e-5, 2e-5)
    return None, None


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
    known = info.supported_dtypes(torch.get_default_device().type)
    return [dtype for dtype in wanted if dtype in known]
