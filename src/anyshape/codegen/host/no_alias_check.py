"""Whether tensors that are written to share memory with none other, as a function of Python.

    PyObject* anyshape_host_apart(PyObject* self, PyObject** args, Py_ssize_t n)

The first argument says how many of the tensors that follow are written to. True: each of these is
contiguous, and no two of all overlap if one of them is written to. False: perhaps not; somebody
else has to look closer. All tensors are sorted by where they begin, so that one walk tells.
"""

from __future__ import annotations

from typing import Final

APART: Final = "anyshape_host_apart"

_DECLARATIONS: Final = """
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
declare void @Py_IncRef(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare void @qsort(ptr, i64, i64, ptr)
declare i64 @aoti_torch_dtype_element_size(i32)
"""

#: What a tensor reaches: its first byte, and the one behind its last; equal if it has none. Fails
#: for tensors that are to be contiguous and are not.
_SPAN: Final = """
define internal i32 @anyshape_host_span(ptr %handle, i1 %strict, ptr %span) nounwind {
entry:
  %data.slot = alloca ptr
  %rank.slot = alloca i64
  %dtype.slot = alloca i32
  %sizes.slot = alloca ptr
  %strides.slot = alloca ptr
  %f0 = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %data.slot)
  %f1 = call i32 @aoti_torch_get_dim(ptr %handle, ptr %rank.slot)
  %f2 = call i32 @aoti_torch_get_dtype(ptr %handle, ptr %dtype.slot)
  %f3 = call i32 @aoti_torch_get_sizes(ptr %handle, ptr %sizes.slot)
  %f4 = call i32 @aoti_torch_get_strides(ptr %handle, ptr %strides.slot)
  %g0 = or i32 %f0, %f1
  %g1 = or i32 %f2, %f3
  %g2 = or i32 %g0, %g1
  %g3 = or i32 %g2, %f4
  %failed = icmp ne i32 %g3, 0
  br i1 %failed, label %unsure, label %known
known:
  %data = load i64, ptr %data.slot
  %rank = load i64, ptr %rank.slot
  %dtype = load i32, ptr %dtype.slot
  %sizes = load ptr, ptr %sizes.slot
  %strides = load ptr, ptr %strides.slot
  %bytes = call i64 @aoti_torch_dtype_element_size(i32 %dtype)
  br label %test
test:
  %left = phi i64 [%rank, %known], [%k, %next]
  %reach = phi i64 [0, %known], [%reach.next, %next]
  %count = phi i64 [1, %known], [%count.next, %next]
  %dense = phi i1 [true, %known], [%dense.next, %next]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %next, label %done
next:
  %k = sub i64 %left, 1
  %size.at = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.at
  %stride.at = getelementptr i64, ptr %strides, i64 %k
  %stride = load i64, ptr %stride.at
  %less = sub i64 %size, 1
  %here = mul i64 %less, %stride
  %reach.next = add i64 %reach, %here
  %single = icmp eq i64 %size, 1
  %follows = icmp eq i64 %stride, %count
  %fits = or i1 %single, %follows
  %dense.next = and i1 %dense, %fits
  %count.next = mul i64 %count, %size
  br label %test
done:
  %empty = icmp eq i64 %count, 0
  %elements = add i64 %reach, 1
  %length = mul i64 %elements, %bytes
  %long = select i1 %empty, i64 0, i64 %length
  %end = add i64 %data, %long
  store i64 %data, ptr %span
  %end.at = getelementptr i64, ptr %span, i64 1
  store i64 %end, ptr %end.at
  %fine = or i1 %dense, %empty
  %loose = xor i1 %strict, true
  %good = or i1 %fine, %loose
  ; Zeros that torch has not made yet have no memory.
  %placed = icmp ne i64 %data, 0
  %there = or i1 %placed, %empty
  %known.well = and i1 %good, %there
  br i1 %known.well, label %sure, label %unsure
sure:
  ret i32 0
unsure:
  ret i32 1
}
"""

_BEFORE: Final = """
define internal i32 @anyshape_host_before(ptr %a, ptr %b) nounwind {
  %x = load i64, ptr %a
  %y = load i64, ptr %b
  %less = icmp ult i64 %x, %y
  %more = icmp ugt i64 %x, %y
  %l = zext i1 %less to i32
  %m = zext i1 %more to i32
  %order = sub i32 %m, %l
  ret i32 %order
}
"""

#: Three words a tensor: where it begins, where it ends, whether it is written to. In their order, a
#: tensor that is written to begins behind all before it, any other behind those written to. The
#: words are on the stack, so that there is a limit.
_APART: Final = """
define ptr @anyshape_host_apart(ptr %self, ptr %args, i64 %n) nounwind {
entry:
  %some = icmp ugt i64 %n, 1
  %few = icmp ult i64 %n, 16384
  %can = and i1 %some, %few
  br i1 %can, label %begin, label %unsure
begin:
  %first = load ptr, ptr %args
  %written = call i64 @PyLong_AsLongLong(ptr %first)
  %count = sub i64 %n, 1
  %words = mul i64 %count, 3
  %spans = alloca i64, i64 %words
  br label %take
take:
  %k = phi i64 [0, %begin], [%k.next, %taken]
  %kept = phi i64 [0, %begin], [%kept.next, %taken]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %look, label %sort
look:
  %k.next = add i64 %k, 1
  %place = getelementptr ptr, ptr %args, i64 %k.next
  %object = load ptr, ptr %place
  %type.at = getelementptr i8, ptr %object, i64 $type_offset
  %type = load ptr, ptr %type.at
  %tensor = icmp eq ptr %type, @anyshape_type_Tensor
  %parameter = icmp eq ptr %type, @anyshape_type_Parameter
  %plain = or i1 %tensor, %parameter
  br i1 %plain, label %measure, label %unsure
measure:
  %handle = getelementptr i8, ptr %object, i64 $tensor_offset
  %is.written = icmp slt i64 %k, %written
  %word = mul i64 %kept, 3
  %span = getelementptr i64, ptr %spans, i64 %word
  %failed = call i32 @anyshape_host_span(ptr %handle, i1 %is.written, ptr %span)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %unsure, label %taken
taken:
  %flag = zext i1 %is.written to i64
  %flag.at = getelementptr i64, ptr %span, i64 2
  store i64 %flag, ptr %flag.at
  %from = load i64, ptr %span
  %to.at = getelementptr i64, ptr %span, i64 1
  %to = load i64, ptr %to.at
  %has = icmp ne i64 %from, %to
  %one = zext i1 %has to i64
  %kept.next = add i64 %kept, %one
  br label %take
sort:
  %several = icmp ugt i64 %kept, 1
  br i1 %several, label %order, label %sure
order:
  call void @qsort(ptr %spans, i64 %kept, i64 24, ptr @anyshape_host_before)
  br label %walk
walk:
  %j = phi i64 [0, %order], [%j.next, %beyond]
  %end.all = phi i64 [0, %order], [%end.all.next, %beyond]
  %end.written = phi i64 [0, %order], [%end.written.next, %beyond]
  %last = icmp eq i64 %j, %kept
  br i1 %last, label %sure, label %compare
compare:
  %here.word = mul i64 %j, 3
  %here = getelementptr i64, ptr %spans, i64 %here.word
  %start = load i64, ptr %here
  %end.at = getelementptr i64, ptr %here, i64 1
  %end = load i64, ptr %end.at
  %kind.at = getelementptr i64, ptr %here, i64 2
  %kind = load i64, ptr %kind.at
  %writes = icmp ne i64 %kind, 0
  %bound = select i1 %writes, i64 %end.all, i64 %end.written
  %within = icmp ult i64 %start, %bound
  br i1 %within, label %unsure, label %beyond
beyond:
  %j.next = add i64 %j, 1
  %longer = icmp ugt i64 %end, %end.all
  %end.all.next = select i1 %longer, i64 %end, i64 %end.all
  %longer.written = icmp ugt i64 %end, %end.written
  %reaches = and i1 %writes, %longer.written
  %end.written.next = select i1 %reaches, i64 %end, i64 %end.written
  br label %walk
sure:
  call void @Py_IncRef(ptr @_Py_TrueStruct)
  ret ptr @_Py_TrueStruct
unsure:
  call void @Py_IncRef(ptr @_Py_FalseStruct)
  ret ptr @_Py_FalseStruct
}
"""

#: Its definition, to stand behind the helpers that Python's objects go through.
APART_MODULE: Final = "".join([_DECLARATIONS, _SPAN, _BEFORE, _APART])
