"""Which tests of other folders say nothing about a GPU, by patterns of their names, and why."""

from __future__ import annotations

from typing import Final

_QUANTIZED: Final = "torch has packed weights for the processor alone"
_ASYNCHRONOUS: Final = (
    "an index out of range is no exception on a GPU: it ends the process's work there "
    "(tests/gpu/test_bad_cases.py)"
)
_NUMPY: Final = "arrays of numpy share memory with tensors of the processor alone"
_PROCESSOR: Final = "it is about the processor's own arithmetic, machine code or threads"
_MEMORY: Final = "it measures the processor's memory"

LEFT_OUT: Final = {
    "tests/api/test_packed_weights.py::*": _QUANTIZED,
    "tests/api/test_errors_of_data.py::test_handlers_see_them*": _ASYNCHRONOUS,
    "tests/api/test_errors_of_data.py::test_they_are_of_a_class_of_torchs*": _ASYNCHRONOUS,
    "tests/api/*numpy*": _NUMPY,
    "tests/native/test_machine_differences.py::*": _PROCESSOR,
    "tests/native/test_first_run.py::*": _PROCESSOR,
    "tests/native/test_workloads.py::test_peak_memory*": _MEMORY,
}
