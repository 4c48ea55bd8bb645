"""Which tests of other folders say nothing about a GPU, by patterns of their names, and why; and
what is right there, but not yet as good as on the processor."""

from __future__ import annotations

from typing import Final

_QUANTIZED: Final = "torch has packed weights for the processor alone"
_ASYNCHRONOUS: Final = (
    "an index out of range is no exception on a GPU: it ends the process's work there "
    "(tests/gpu/test_bad_cases.py)"
)
_NUMPY: Final = "arrays of numpy share memory with tensors of the processor alone"
_PROCESSOR: Final = "it is about the processor's own arithmetic, machine code or threads"
_ROUNDED: Final = "torch's kernels for GPUs round in other places, and begin sums otherwise"
_THREADS: Final = "the default device is the thread's own"
_OLD: Final = "`torch.LongTensor` and its like are on the processor whatever the default is"
_DRAWN: Final = "how many graphs there are depends on data, which are other ones on a GPU"
_LAST: Final = "of several writes to one element, any may be the last on a GPU"
_ABSENT: Final = "torch has no such operator for the dtype on GPUs"
_MEMORY: Final = "it measures the processor's memory"
_FLOAT64: Final = "variances are computed in float64 on the processor alone, by torch as well"
_WIDE: Final = "attention of float64, or of other widths, is one kernel on the processor alone"
_COUNTERS: Final = (
    "with another default device an optimizer has its counters on the GPU, and reads them"
)

LEFT_OUT: Final = {
    "tests/native/test_autotune.py::*": _PROCESSOR,
    "tests/native/test_training_channels_last.py::*": _PROCESSOR,
    "tests/native/test_float8.py::test_elements_are_moved_as_they_are[[]roll*": _ABSENT,
    "tests/native/test_float8.py::test_elements_are_moved_as_they_are[[]where of a large*": _ABSENT,
    "tests/native/test_float8.py::test_what_no_elements_were_tried_with*": _ABSENT,
    "tests/api/test_modules.py::test_as_a_submodule": _ROUNDED,
    "tests/api/test_modules.py::test_deepcopy_is_apart": _ROUNDED,
    "tests/api/test_modules.py::test_training_loop*": _ROUNDED,
    "tests/api/test_packed_weights.py::*": _QUANTIZED,
    "tests/api/test_errors_of_data.py::test_handlers_see_them*": _ASYNCHRONOUS,
    "tests/api/test_errors_of_data.py::test_they_are_of_a_class_of_torchs*": _ASYNCHRONOUS,
    "tests/api/test_reruns_and_defaults.py::test_nothing_is_written_twice*": _ASYNCHRONOUS,
    "tests/api/test_reruns_and_defaults.py::test_what_the_program_made_may_*": _ASYNCHRONOUS,
    "tests/api/test_python_semantics.py::*in_the_graph*": _ASYNCHRONOUS,
    "tests/api/test_torch_semantics.py::test_*an_error*": _ASYNCHRONOUS,
    "tests/data_dependent/test_failures_are_undone.py::test_errors_of_the_program*": _ASYNCHRONOUS,
    "tests/data_dependent/test_order_of_effects.py::test_failures[[]*out_of_range*": _ASYNCHRONOUS,
    "tests/data_dependent/test_failures_are_undone.py::test_random_numbers_of*": _ASYNCHRONOUS,
    "tests/data_dependent/test_failures_are_undone.py::*its_own_gradient*": _ASYNCHRONOUS,
    "tests/native/test_fuzz_views.py::*[[]7]": _ASYNCHRONOUS,
    "tests/native/test_bad_positions_in_order.py::*": _ASYNCHRONOUS,
    "tests/native/test_known_masks.py::test_checks_stay": _ASYNCHRONOUS,
    "tests/native/test_known_masks.py::*[[]of a tensor with a gradient]": (
        "torch's attention for GPUs stretches a mask of one column, and then refuses it"
    ),
    "tests/native/test_spreads.py::test_spreads[[]2e+19*": _FLOAT64,
    "tests/native/test_spreads.py::test_spreads[[]1e-25*": _FLOAT64,
    "tests/native/test_spreads.py::test_spreads[[]1.0-1000000*": _FLOAT64,
    "tests/native/test_updates_in_one_kernel.py::*_a_parameter[[]Adam*": _COUNTERS,
    "tests/native/test_updates_in_one_kernel.py::*_a_parameter[[]Adagrad]": _COUNTERS,
    "tests/native/test_updates_in_one_kernel.py::test_clipping_and_the_step*": _COUNTERS,
    "tests/api/test_fused_attention.py::test_scores[[]dtype0*": _WIDE,
    "tests/api/test_fused_attention.py::test_values_near_the_largest[[]*-dtype1]": _WIDE,
    "tests/api/test_fused_attention.py::test_many_columns": _WIDE,
    "tests/api/*numpy*": _NUMPY,
    "tests/api/test_bad_input.py::*[[]InNumpy*": _NUMPY,
    "tests/data_dependent/test_failures_are_undone.py::*_parts*": _NUMPY,
    "tests/data_dependent/test_tree.py::test_a_function_with_foreign_calls*": _NUMPY,
    "tests/api/test_bad_input.py::test_threads_and_a_module_with_state": _THREADS,
    "tests/api/test_reruns_and_defaults.py::test_reset_inside*": _THREADS,
    "tests/api/test_made_inside.py::test_made_inside[[]old_constructors]": _OLD,
    "tests/api/test_made_inside.py::test_made_inside[[]types_of_tensors]": _OLD,
    "tests/data_dependent/test_tensors_as_sizes.py::test_packed_sequences": (
        "torch wants lengths on the processor"
    ),
    "tests/data_dependent/test_programs.py::test_graphs_are_bounded[[]beam*": _DRAWN,
    "tests/data_dependent/test_programs.py::test_graphs_are_bounded[[]COO*": _DRAWN,
    "tests/data_dependent/test_programs.py::test_one_of_everything*": _DRAWN,
    "tests/native/test_shared_writes.py::test_an_expanded_tensor*[[]*-fill_where]": _LAST,
    "tests/native/test_shared_writes.py::test_an_expanded_tensor*[[]*-put_positions]": _LAST,
    "tests/native/test_two_bytes.py::test_other_operands_*": _ROUNDED,
    "tests/native/test_two_bytes.py::test_numbers_of_activations*": _ROUNDED,
    "tests/native/test_signed_zeros.py::*": _ROUNDED,
    "tests/native/test_machine_differences.py::*": _PROCESSOR,
    "tests/native/test_first_run.py::*": _PROCESSOR,
    "tests/native/test_training_benchmark.py::*": "generators and steps are the processor's",
    "tests/native/test_recorded_operators.py::*": "generators are the processor's",
    "tests/native/test_gradient_rows.py::test_other_dtypes[[]bilinear-dtype1]": _ROUNDED,
    "tests/native/test_workloads.py::test_peak_memory*": _MEMORY,
    "tests/native/test_accumulated_products.py::*take_less_memory*": _MEMORY,
    "tests/native/test_accumulated_products.py::test_they_are_products_that_add": (
        "products are added up by the processor's library alone"
    ),
    "tests/native/test_training_checkpoint.py::test_memory_is_that_of_eager_checkpoints*": _MEMORY,
}

NOT_YET: Final = {
    "tests/native/test_training.py::test_dropout_of_all_kinds[[]in place*": (
        "dropout in place is left to torch, whose random numbers it takes"
    ),
    "tests/native/test_optimizer_numbers.py::test_numbers_are_those_of_eager[[]adamax-foreach*": (
        "torch 2.11 takes numbers of `_foreach_addcdiv_` from no list of tensors; 2.13 does"
    ),
    "tests/native/test_training_checkpoint.py::*nested]": (
        "with another default device, an empty tensor of torch's own is on the processor in forward"
    ),
    "tests/native/test_training_checkpoint.py::test_models_of_transformers[[]bert*": (
        "transformers makes a mask under a compiler, so that dropout draws other numbers"
    ),
    "tests/native/test_training_as_eager.py::test_another_result_may_be_written_to": (
        "an error where eager has none: gradients of both results are in one graph there"
    ),
    "tests/native/test_shared_writes.py::test_roots_of_halves_are_powers": (
        "the root of minus infinity is infinite for us, and no number in torch's code for GPUs"
    ),
    "tests/api/test_made_inside.py::test_random_numbers[[]forked]": (
        "`fork_rng` asks which GPUs there are, and the function is split there"
    ),
    "tests/data_dependent/test_unbacked.py::test_one_graph_serves_all*[[]unique_columns]": (
        "`unique` of columns has other strides on a GPU"
    ),
    "tests/native/test_gradient_rows.py::test_program[[]both ends]": (
        "torch has no gradient of `aminmax` on a GPU"
    ),
}
