"""torch's C functions that segments may call, and what they take.

A row: the C symbol, how many tensors it gives by handles, and a letter for each parameter:

    T  tensor      i  int64      f  double      b  bool (int32)     s  string     I  list of int64
    t  T or None   j  i or None  g  f or None   c  b or None        d  dtype or None

`Extern.arguments` has the areas of the given tensors first (None for one that nobody wants), then
the parameters. What `_out` functions write to is a parameter, the first. A test compares the rows
with the header that torch is installed with.
"""

from __future__ import annotations

from typing import Final

from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExternFunction:
    name: str
    symbol: str
    parameters: str
    results: int

    @property
    def signature(self) -> tuple[str, int]:
        """As C has it, where a dtype and a bool are one type."""
        return self.parameters.replace("d", "c"), self.results


def _rows(results: int, **rows: str) -> dict[str, ExternFunction]:
    return {
        name: ExternFunction(name, f"aoti_torch_cpu_{name}", parameters, results)
        for name, parameters in rows.items()
    }


EXTERNS: Final[dict[str, ExternFunction]] = {
    # Matrix products into memory of ours.
    **_rows(0, mm_out="TTT", bmm_out="TTT", _int_mm_out="TTT"),
    **_rows(0, addmm_out="TTTTff", baddbmm_out="TTTTff"),
    # Scatters: the target is the first, a copy of the second.
    **_rows(0, scatter_src_out="TTiTT", scatter_reduce_two_out="TTiTTsb"),
    # Products, convolutions, attention.
    **_rows(1, addbmm="TTTff", addmv="TTTff", _addmm_activation="TTTffb"),
    **_rows(1, convolution="TTtIIIbIi"),
    **_rows(2, _scaled_dot_product_flash_attention_for_cpu="TTTfbtg"),
    # Pools.
    **_rows(1, avg_pool2d="TIIIbbj", avg_pool3d="TIIIbbj"),
    **_rows(1, _adaptive_avg_pool2d="TI", _adaptive_avg_pool3d="TI"),
    **_rows(2, max_pool2d_with_indices="TIIIIb", max_pool3d_with_indices="TIIIIb"),
    **_rows(2, adaptive_max_pool2d="TI", adaptive_max_pool3d="TI"),
    # Orders and running folds.
    **_rows(2, sort_stable="Tcib", topk="Tiibb", kthvalue="Tiib"),
    **_rows(2, cummax="Ti", cummin="Ti"),
    **_rows(1, cumsum="Tid", cumprod="Tid", logcumsumexp="Ti"),
    **_rows(1, bucketize_Tensor="TTbb"),
    # Bags of embeddings, distances.
    **_rows(4, _embedding_bag_forward_only="TTTbibtbi"),
    **_rows(1, _cdist_forward="TTfj", _pdist_forward="Tf", grid_sampler_3d="TTiib"),
}
