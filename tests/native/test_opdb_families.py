"""Some of torch's table of operators as native code, for every run of the tests; all of it is in
tests/slow/test_native_opdb.py."""

from __future__ import annotations

import pytest
import torch

from tests.native.opdb import dtypes_of, infos, try_operator

FAMILIES = {
    "arithmetic": "add sub mul true_divide remainder fmod pow lerp addcmul clamp where",
    "functions": "exp log sqrt sin tanh erf sigmoid xlogy logaddexp sinc logit nan_to_num",
    "comparisons": "eq lt logical_and isclose maximum fmin isnan sign heaviside",
    "integers": "bitwise_and bitwise_left_shift bitwise_right_shift floor_divide bitwise_not",
    "activations": "nn.functional.relu nn.functional.gelu nn.functional.silu nn.functional.elu"
    " nn.functional.softplus nn.functional.glu nn.functional.hardswish nn.functional.softshrink",
    "casts": "to clone contiguous float bool half fill",
    "factories": "zeros ones full arange eye linspace zeros_like new_full full_like scalar_tensor",
    "reductions": "sum mean prod amax amin argmax all any var std logsumexp nansum count_nonzero",
    "norms": "nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm"
    " nn.functional.batch_norm softmax log_softmax linalg.vector_norm nn.functional.normalize",
    "losses": "nn.functional.mse_loss nn.functional.cross_entropy nn.functional.nll_loss"
    " nn.functional.huber_loss nn.functional.kl_div nn.functional.smooth_l1_loss"
    " nn.functional.binary_cross_entropy_with_logits nn.functional.cosine_similarity",
}
BY_NAME = {info.full_name: info for info in infos()}
#: How many samples there are of each dtype.
DTYPES = {torch.float32: 2, torch.bfloat16: 1}
OF_INTEGERS = {torch.int64: 2}


@pytest.mark.parametrize("family", FAMILIES)
def test_as_eager(family: str) -> None:
    torch.set_num_threads(1)
    native = 0
    for name in FAMILIES[family].split():
        wanted = OF_INTEGERS if family == "integers" else DTYPES
        for dtype in dtypes_of(BY_NAME[name], tuple(wanted)):
            outcome = try_operator(BY_NAME[name], dtype, most=wanted[dtype])
            assert outcome.wrong == [], f"{name} of {dtype}"
            assert not outcome.late, f"{name} of {dtype} took too long"
            native += bool(outcome.native)
    assert native, "nothing of it is native"
