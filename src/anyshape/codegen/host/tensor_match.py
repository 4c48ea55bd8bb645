"""Whether tensors are of the kinds that a table says, as a function of Python.

    PyObject* anyshape_host_alike(PyObject* self, PyObject** args, Py_ssize_t n)

The first argument is the address of the table, the tensors follow. The table begins with where
things lie (`HEADER`): in bytes of the tensor its rank, the first size, the first stride, dtype and
device, the keys of the dispatcher, and the pointer to what autograd keeps of it; there, the pointer
to the function that made it, and the byte that says whether it requires grad. Rows follow (`ROW`):
type, rank, dtype and device, keys, whether it requires grad, and room for five sizes and five
strides. False: one tensor is of another kind, or cannot be told.
"""

from __future__ import annotations

from typing import Final

from anyshape.guards.fast_path.tensor_match import HEADER, MEANT, ROW, SIZES, STRIDES

ALIKE: Final = "anyshape_host_alike"

_HEADER_NAMES: Final = (
    *("rank", "sizes", "strides", "dtype", "keys", "autograd", "made", "requires"),
)

_LOADED: Final = "".join(
    f"""
  %at.{name} = getelementptr i64, ptr %table, i64 {place}
  %offset.{name} = load i64, ptr %at.{name}"""
    for place, name in enumerate(_HEADER_NAMES)
)

#: A word of the tensor that has to be that of the row.
_COMPARED: Final = "".join(
    f"""
  %own.{name}.at = getelementptr i8, ptr %tensor, i64 %offset.{name}
  %all.{name} = load i64, ptr %own.{name}.at
  %own.{name} = and i64 %all.{name}, {MEANT[name]}
  %its.{name}.at = getelementptr i64, ptr %row, i64 {place}
  %its.{name} = load i64, ptr %its.{name}.at
  %is.{name} = icmp eq i64 %own.{name}, %its.{name}"""
    for place, name in enumerate(MEANT, 1)
)

#: Its definition, to stand behind `APART_MODULE`, which declares what it calls.
ALIKE_MODULE: Final = f"""
define ptr @{ALIKE}(ptr %self, ptr %args, i64 %n) nounwind {{
entry:
  %first = load ptr, ptr %args
  %address = call i64 @PyLong_AsLongLong(ptr %first)
  %table = inttoptr i64 %address to ptr{_LOADED}
  %rows = getelementptr i64, ptr %table, i64 {HEADER}
  br label %next
next:
  %k = phi i64 [1, %entry], [%k.next, %same]
  %row = phi ptr [%rows, %entry], [%row.next, %same]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %look, label %yes
look:
  %k.next = add i64 %k, 1
  %row.next = getelementptr i64, ptr %row, i64 {ROW}
  %place = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %place
  %type.at = getelementptr i8, ptr %object, i64 $type_offset
  %type = load i64, ptr %type.at
  %its.type = load i64, ptr %row
  %is.type = icmp eq i64 %type, %its.type
  br i1 %is.type, label %read, label %no
read:
  %tensor.at = getelementptr i8, ptr %object, i64 $tensor_offset
  %tensor = load ptr, ptr %tensor.at{_COMPARED}
  %same.0 = and i1 %is.rank, %is.dtype
  %same.1 = and i1 %same.0, %is.keys
  br i1 %same.1, label %kept, label %no
kept:
  %autograd.at = getelementptr i8, ptr %tensor, i64 %offset.autograd
  %autograd = load ptr, ptr %autograd.at
  %nothing = icmp eq ptr %autograd, null
  br i1 %nothing, label %grad, label %asked
asked:
  %made.at = getelementptr i8, ptr %autograd, i64 %offset.made
  %made = load ptr, ptr %made.at
  %is.made = icmp ne ptr %made, null
  %requires.at = getelementptr i8, ptr %autograd, i64 %offset.requires
  %requires = load i8, ptr %requires.at
  %is.leaf = icmp ne i8 %requires, 0
  %either = or i1 %is.made, %is.leaf
  br label %grad
grad:
  %requires.grad = phi i1 [false, %kept], [%either, %asked]
  %grad.word = zext i1 %requires.grad to i64
  %its.grad.at = getelementptr i64, ptr %row, i64 4
  %its.grad = load i64, ptr %its.grad.at
  %is.grad = icmp eq i64 %grad.word, %its.grad
  br i1 %is.grad, label %dims, label %no
dims:
  %dim = phi i64 [0, %grad], [%dim.next, %equal]
  %left = icmp ult i64 %dim, %its.rank
  br i1 %left, label %compare, label %same
compare:
  %dim.next = add i64 %dim, 1
  %sizes = getelementptr i8, ptr %tensor, i64 %offset.sizes
  %size.at = getelementptr i64, ptr %sizes, i64 %dim
  %size = load i64, ptr %size.at
  %strides = getelementptr i8, ptr %tensor, i64 %offset.strides
  %stride.at = getelementptr i64, ptr %strides, i64 %dim
  %stride = load i64, ptr %stride.at
  %its.size.place = add i64 %dim, {SIZES}
  %its.size.at = getelementptr i64, ptr %row, i64 %its.size.place
  %its.size = load i64, ptr %its.size.at
  %its.stride.place = add i64 %dim, {STRIDES}
  %its.stride.at = getelementptr i64, ptr %row, i64 %its.stride.place
  %its.stride = load i64, ptr %its.stride.at
  %is.size = icmp eq i64 %size, %its.size
  %is.stride = icmp eq i64 %stride, %its.stride
  %is.both = and i1 %is.size, %is.stride
  br i1 %is.both, label %equal, label %no
equal:
  br label %dims
same:
  br label %next
yes:
  call void @Py_IncRef(ptr @_Py_TrueStruct)
  ret ptr @_Py_TrueStruct
no:
  call void @Py_IncRef(ptr @_Py_FalseStruct)
  ret ptr @_Py_FalseStruct
}}
"""
