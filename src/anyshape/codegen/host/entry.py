"""The function that Python calls: `PyObject* name(PyObject* self, PyObject** args, Py_ssize_t n)`.

It takes tensors, integers and floats in the order of the segment, but reads integers itself that
are sizes of the tensors. It makes the outputs, runs the steps (`run.py`) and returns the outputs: a
tensor, or a tuple of them, or None if there is none.
`self` is called with the number of a reason where something goes wrong, and gives the exception to
raise.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from anyshape.codegen.host.abi import HostAbi, Reasons
from anyshape.codegen.host.externs import handed_over
from anyshape.codegen.host.sizes import Sizes
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.loops.program import Buffer, Extern, Segment
from anyshape.symbolic import Size, product, total

#: Other Python threads run meanwhile if a call touches so many elements. To let them costs some ten
#: nanoseconds, more if one is waiting.
_MANY_ELEMENTS: Final = 4096

DECLARATIONS: Final = "\n".join(
    [
        "@_Py_NoneStruct = external global i8",
        "declare void @Py_IncRef(ptr)",
        "declare void @Py_DecRef(ptr)",
        "declare i64 @PyLong_AsLongLong(ptr)",
        "declare double @PyFloat_AsDouble(ptr)",
        "declare ptr @PyErr_Occurred()",
        "declare ptr @PyEval_SaveThread()",
        "declare void @PyEval_RestoreThread(ptr)",
        "declare ptr @PyTuple_New(i64)",
        "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
        "declare i32 @aoti_torch_get_sizes(ptr, ptr)",
    ]
)


class Entry:
    """The function `name`, which calls the function `run`."""

    def __init__(self, segment: Segment, name: str, run: str, abi: HostAbi, why: Reasons) -> None:
        self._segment = segment
        self._name = name
        self._run = run
        self._abi = abi
        self._why = why
        handed = {*handed_over(segment)}
        #: numbers of outputs that the steps make
        self._handed = [k for k, each in enumerate(segment.outputs) if each.name in handed]
        self._read = {each.symbol: each for each in segment.read}
        self._lines = FunctionBody()
        self._code = self._lines.stack("i64", hint="code")
        tensors = len(segment.inputs) + len(segment.outputs)
        self._buffers = self._lines.stack(f"[{max(tensors, 1)} x ptr]", hint="buffers")
        self._symbols = self._lines.stack(f"[{max(len(segment.symbols), 1)} x i64]")
        self._numbers = self._lines.stack(f"[{max(len(segment.numbers), 1)} x double]")
        self._tensors = self._lines.stack(f"[{max(tensors, 1)} x ptr]", hint="tensors")
        self._handles = self._lines.stack(f"[{max(len(segment.outputs), 1)} x ptr]")

    def text(self) -> str:
        lines, segment = self._lines, self._segment
        for k in range(len(segment.outputs)):
            lines.do(f"store ptr null, ptr {lines.element(self._handles, k, 'ptr')}")
        count = len(segment.inputs) + len(segment.given) + len(segment.numbers)
        wrong = lines.let(f"icmp ne i64 %n, {count}")
        self._fail_if(wrong, f"the function takes {count} arguments")
        self._take_tensors()
        sizes = self._take_integers()
        self._take_floats()
        self._make_outputs(sizes)
        self._call(sizes)
        self._give()
        self._endings()
        head = f"define ptr @{self._name}(ptr %self, ptr %args, i64 %n) nounwind {{"
        return "\n".join([head, lines.text(), "}"])

    # -- arguments -------------------------------------------------------------------------------

    def _argument(self, position: int) -> str:
        place = self._lines.element("%args", position, "ptr")
        return self._lines.let(f"load ptr, ptr {place}", "o")

    def _take_tensors(self) -> None:
        lines, inputs = self._lines, self._segment.inputs
        if not inputs:
            return
        first = self._why.numbers(
            f"argument {k} ({buffer.name}) is no plain tensor with memory"
            for k, buffer in enumerate(inputs)
        )
        at, counter, head, done = lines.counting(len(inputs), "k")
        argument, place, tensor = (
            lines.let(f"getelementptr ptr, ptr {array}, i64 {at}", "p")
            for array in ("%args", self._buffers, self._tensors)
        )
        given = lines.let(f"load ptr, ptr {argument}", "o")
        failed = lines.let(f"call i32 @anyshape_host_take(ptr {given}, ptr {place}, ptr {tensor})")
        lines.do(f"store i64 {lines.let(f'add i64 {at}, 1')}, ptr {counter}")
        reason = lines.let(f"add i64 {at}, {first}")
        lines.do(f"store i64 {reason}, ptr {self._code}")
        wrong = lines.let(f"icmp ne i32 {failed}, 0")
        lines.do(f"br i1 {wrong}, label %fail, label {head}")
        lines.label(done)

    def _take_integers(self) -> Sizes:
        lines, segment = self._lines, self._segment
        shapes = {
            tensor: self._shape(tensor) for tensor in sorted({r.tensor for r in segment.read})
        }
        position = len(segment.inputs)
        values: list[str] = []
        for symbol in segment.symbols:
            read = self._read.get(symbol)
            if read is not None:
                place = lines.element(shapes[read.tensor], read.dim)
                values.append(lines.let(f"load i64, ptr {place}", "s"))
                continue
            value = lines.let(f"call i64 @PyLong_AsLongLong(ptr {self._argument(position)})", "s")
            self._raise_if_error(lines.let(f"icmp eq i64 {value}, -1"))
            values.append(value)
            position += 1
        lines.fill(self._symbols, values, "i64")
        return Sizes(lines, dict(zip(segment.symbols, values, strict=True)))

    def _shape(self, tensor: int) -> str:
        """Where torch keeps the sizes of an input."""
        lines = self._lines
        handle = lines.let(f"load ptr, ptr {lines.element(self._tensors, tensor, 'ptr')}", "h")
        slot = lines.stack("ptr", hint="shape")
        self._check(
            f"call i32 @aoti_torch_get_sizes(ptr {handle}, ptr {slot})",
            f"torch does not tell the sizes of argument {tensor}",
        )
        return lines.let(f"load ptr, ptr {slot}", "shape")

    def _take_floats(self) -> None:
        lines, segment = self._lines, self._segment
        first = len(segment.inputs) + len(segment.given)
        values: list[str] = []
        for k in range(len(segment.numbers)):
            value = lines.let(
                f"call double @PyFloat_AsDouble(ptr {self._argument(first + k)})", "f"
            )
            self._raise_if_error(lines.let(f"fcmp oeq double {value}, -1.0"))
            values.append(value)
        lines.fill(self._numbers, values, "double")

    # -- outputs ---------------------------------------------------------------------------------

    def _make_outputs(self, sizes: Sizes) -> None:
        lines, segment = self._lines, self._segment
        for buffer in segment.outputs:
            for size in (*buffer.sizes, *buffer.strides):
                sizes.of(size)
        sizes.of(self._elements())
        self._fail_if(sizes.trouble(), "a size is beyond 64 bits or undefined")
        for k, buffer in enumerate(segment.outputs):
            if k in self._handed:
                for array in (self._buffers, self._tensors):
                    at = lines.element(array, len(segment.inputs) + k, "ptr")
                    lines.do(f"store ptr null, ptr {at}")
                continue
            values = [sizes.of(size) for size in (*buffer.sizes, *buffer.strides)]
            dims = lines.array("i64", values, "dims")
            handle = lines.element(self._handles, k, "ptr")
            place = lines.element(self._buffers, len(segment.inputs) + k, "ptr")
            dtype = self._abi.dtypes[buffer.dtype]
            shape = f"i64 {len(buffer.sizes)}, ptr {dims}, i32 {dtype}"
            self._check(
                f"call i32 @anyshape_host_make({shape}, ptr {handle}, ptr {place})",
                f"torch cannot make the output {buffer.name}",
            )
            made = lines.let(f"load ptr, ptr {handle}", "h")
            tensor = lines.element(self._tensors, len(segment.inputs) + k, "ptr")
            lines.do(f"store ptr {made}, ptr {tensor}")

    def _give(self) -> None:
        lines, outputs = self._lines, self._segment.outputs
        if len(outputs) == 1:
            tensor = lines.let(f"call ptr @anyshape_host_give(ptr {self._handles})")
            lines.do(f"ret ptr {tensor}")
            return
        if not outputs:
            lines.do("call void @Py_IncRef(ptr @_Py_NoneStruct)")
            lines.do("ret ptr @_Py_NoneStruct")
            return
        group = lines.let(f"call ptr @PyTuple_New(i64 {len(outputs)})", "tuple")
        self._leave_if(lines.let(f"icmp eq ptr {group}, null"), "%raise")
        for k in range(len(outputs)):
            handle = lines.element(self._handles, k, "ptr")
            tensor = lines.let(f"call ptr @anyshape_host_give(ptr {handle})")
            missing = lines.let(f"icmp eq ptr {tensor}, null")
            with lines.only_if(missing, "lost"):
                lines.do(f"call void @Py_DecRef(ptr {group})")
                lines.do("br label %raise")
            lines.let(f"call i32 @PyTuple_SetItem(ptr {group}, i64 {k}, ptr {tensor})")
        lines.do(f"ret ptr {group}")

    # -- the steps -------------------------------------------------------------------------------

    def _elements(self) -> Size:
        """How much a call touches, roughly."""
        segment = self._segment
        every: tuple[Buffer, ...] = (*segment.inputs, *segment.temporaries, *segment.outputs)
        # Equal layers have buffers of equal sizes.
        sizes = Counter(buffer.sizes for buffer in every)
        return total([product(each) * count for each, count in sizes.items()])

    def _call(self, sizes: Sizes) -> None:
        lines = self._lines
        is_big = (
            "true"
            if any(isinstance(step, Extern) for step in self._segment.steps)
            else lines.let(f"icmp sge i64 {sizes.of(self._elements())}, {_MANY_ELEMENTS}")
        )
        apart, together, after = lines.new("apart"), lines.new("together"), lines.new("after")
        lines.do(f"br i1 {is_big}, label {apart}, label {together}")
        arrays = (self._buffers, self._tensors, self._symbols, self._numbers)
        call = f"call i64 @{self._run}({', '.join(f'ptr {array}' for array in arrays)})"
        lines.label(apart)
        state = lines.let("call ptr @PyEval_SaveThread()")
        first = lines.let(call)
        lines.do(f"call void @PyEval_RestoreThread(ptr {state})")
        lines.do(f"br label {after}")
        lines.label(together)
        second = lines.let(call)
        lines.do(f"br label {after}")
        lines.label(after)
        code = lines.let(f"phi i64 [{first}, {apart}], [{second}, {together}]")
        lines.do(f"store i64 {code}, ptr {self._code}")
        for k in self._handed:
            tensor = lines.element(self._tensors, len(self._segment.inputs) + k, "ptr")
            handle = lines.let(f"load ptr, ptr {tensor}", "h")
            lines.do(f"store ptr {handle}, ptr {lines.element(self._handles, k, 'ptr')}")
        self._leave_if(lines.let(f"icmp ne i64 {code}, 0"), "%fail")

    # -- errors ----------------------------------------------------------------------------------

    def _check(self, call: str, reason: str) -> None:
        """Make a call that gives 0 if all went well."""
        failed = self._lines.let(call)
        self._fail_if(self._lines.let(f"icmp ne i32 {failed}, 0"), reason)

    def _fail_if(self, condition: str, reason: str) -> None:
        with self._lines.only_if(condition):
            self._lines.do(f"store i64 {self._why.number(reason)}, ptr {self._code}")
            self._lines.do("br label %fail")

    def _raise_if_error(self, suspicious: str) -> None:
        """The value may also be that of a number: only Python knows."""
        lines = self._lines
        with lines.only_if(suspicious, "ask") as on:
            error = lines.let("call ptr @PyErr_Occurred()")
            none = lines.let(f"icmp eq ptr {error}, null")
            lines.do(f"br i1 {none}, label {on}, label %raise")

    def _leave_if(self, condition: str, ending: str) -> None:
        on = self._lines.new("on")
        self._lines.do(f"br i1 {condition}, label {ending}, label {on}")
        self._lines.label(on)

    def _endings(self) -> None:
        lines = self._lines
        count = len(self._segment.outputs)
        lines.label("%fail")
        code = lines.let(f"load i64, ptr {self._code}")
        lines.let(f"call ptr @anyshape_host_fail(ptr %self, i64 {code})")
        lines.do("br label %raise")
        # The exception is set: give back what was made.
        lines.label("%raise")
        lines.do(f"call void @anyshape_host_delete(ptr {self._handles}, i64 {count})")
        lines.do("ret ptr null")
