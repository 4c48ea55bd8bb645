"""torch's C functions that segments may call, and what they take.

A row: the C symbol, what it gives by address (`T` a tensor, `i` an integer, which nobody wants),
and a letter for each parameter:

    T  tensor      i  int64      f  double      b  bool (int32)     s  string     I  list of int64
    t  T or None   j  i or None  g  f or None   c  b or None        d  dtype or None
    J  I or None   B  list of bool   u  T, or the tensor that there is none

`Extern.arguments` has the areas of the given tensors first (None for one that nobody wants), then
the parameters. What `_out` functions write to is a parameter, the first. A test compares the rows
with the header that torch is installed with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from anyshape.codegen.host.abi import HostUnsupported
from anyshape.loops.program import Area, Buffer, Extern, Segment, Step, buffers_of
from anyshape.support.lazy_dataclass import dataclass

#: letter -> the letter of what it is when it is given by address
OPTIONAL: Final = {"t": "T", "j": "i", "g": "f", "c": "b", "d": "dtype"}
#: letters of lists: what they take is an address and a length
LISTS: Final = "IJB"
#: letter -> the type in C
TYPES: Final = {
    **dict.fromkeys("Tus", "ptr"),
    "i": "i64",
    "f": "double",
    "b": "i32",
    "dtype": "i32",
}
#: Gives a handle to the tensor that there is none.
UNDEFINED: Final = "aoti_torch_new_uninitialized_tensor"


@dataclass(frozen=True, slots=True)
class ExternFunction:
    name: str
    parameters: str
    results: str

    def symbol(self, device: str) -> str:
        return f"aoti_torch_{device}_{self.name}"

    @property
    def signature(self) -> tuple[str, str]:
        """As C has it, where a dtype and a bool are one type, and so are all tensors."""
        return self.parameters.replace("d", "c").replace("u", "T"), self.results


def _rows(results: int | str, **rows: str) -> dict[str, ExternFunction]:
    given = results if isinstance(results, str) else "T" * results
    return {name: ExternFunction(name, parameters, given) for name, parameters in rows.items()}


EXTERNS: Final[dict[str, ExternFunction]] = {
    # Matrix products into memory of ours.
    **_rows(0, mm_out="TTT", bmm_out="TTT", _int_mm_out="TTT"),
    **_rows(0, addmm_out="TTTTff", baddbmm_out="TTTTff"),
    # Scatters: the target is the first, a copy of the second.
    **_rows(0, scatter_src_out="TTiTT", scatter_reduce_two_out="TTiTTsb"),
    # Products, convolutions, attention.
    **_rows(1, addbmm="TTTff", addmv="TTTff", _addmm_activation="TTTffb"),
    **_rows(1, convolution="TTtIIIbIi"),
    **_rows(3, convolution_backward="TTTJIIIbIiB"),
    **_rows(2, _scaled_dot_product_flash_attention_for_cpu="TTTfbtg"),
    **_rows(3, _scaled_dot_product_flash_attention_for_cpu_backward="TTTTTTfbtg"),
    **_rows(4, _scaled_dot_product_efficient_attention="TTTtbfbg"),
    **_rows(4, _scaled_dot_product_efficient_attention_backward="TTTTuTTuufBbg"),
    **_rows("TTTTiiTTT", _scaled_dot_product_flash_attention="TTTfbbg"),
    **_rows(3, _scaled_dot_product_flash_attention_backward="TTTTTTuuiifbuug"),
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


def row_of(step: Extern) -> ExternFunction:
    row = EXTERNS.get(step.function)
    if row is None:
        raise HostUnsupported(f"there is no C function {step.function}")
    return row


def declaration(row: ExternFunction, device: str) -> str:
    types: list[str] = []
    for letter in row.parameters:
        if letter in LISTS:
            types += ["ptr", "i64"]
        else:
            types.append("ptr" if letter in OPTIONAL else TYPES[letter])
    types += ["ptr"] * len(row.results)
    own = f"declare i32 @{row.symbol(device)}({', '.join(types)})"
    return f"declare i32 @{UNDEFINED}(ptr)\n{own}" if "u" in row.parameters else own


def is_whole(area: Area, buffer: Buffer) -> bool:
    return area.offset == 0 and area.sizes == buffer.sizes and area.strides == buffer.strides


#: Functions whose results are tensors like any that torch makes: with memory of their own, all of
#: it theirs.
_GIVE_FRESH: Final = frozenset({"convolution", "convolution_backward"})


def handed_over(segment: Segment) -> list[str]:
    """Outputs that are the very tensors which C functions gave: no memory is made for them before,
    and nothing is copied."""
    if segment.repeated is not None:
        return []
    fresh = {
        area.buffer
        for step in segment.steps
        if isinstance(step, Extern) and step.function in _GIVE_FRESH
        for area in results_of(step)
    }
    return [name for name in _filled(segment, segment.outputs) if name in fresh]


def adopted_buffers(segment: Segment) -> list[str]:
    """Temporaries that a C function fills whole, before anybody else touches them: its tensor is
    kept rather than copied."""
    return _filled(segment, segment.temporaries)


def _filled(segment: Segment, buffers: Sequence[Buffer]) -> list[str]:
    """Those that a C function fills whole, before anybody else touches them."""
    by_name = {buffer.name: buffer for buffer in buffers}
    seen: set[str] = set()
    found: list[str] = []
    # A buffer that two calls give would have to lose the first tensor at the second: it is copied
    # to instead.
    given = Counter(area.buffer for step in segment.steps for area in results_of(step))
    for step in segment.steps:
        for area in results_of(step):
            buffer = by_name.get(area.buffer)
            is_first = area.buffer not in seen and given[area.buffer] == 1
            if is_first and buffer is not None and is_whole(area, buffer):
                found.append(area.buffer)
        seen.update(buffers_of(step))
    return found


def results_of(step: Step) -> list[Area]:
    """The areas that a C function gives tensors for."""
    if not isinstance(step, Extern):
        return []
    results = step.arguments[: len(row_of(step).results)]
    return [area for area in results if isinstance(area, Area)]
