"""Functions that all host functions call: the repeated parts, written and built once.

They are a module of their own, since LLVM takes a millisecond for each function. Those that return
i32 return 0 if all went well.
"""

from __future__ import annotations

import re
from string import Template
from typing import Final

from anyshape.codegen.host.abi import HostAbi
from anyshape.codegen.host.no_alias_check import APART_MODULE
from anyshape.codegen.host.tensor_match import ALIKE_MODULE

_HANDLE_DECLARATIONS: Final = """
declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_get_numel(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
"""

_ENTRY_DECLARATIONS: Final = """
@anyshape_type_Tensor = external global i8
@anyshape_type_Parameter = external global i8
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @PyErr_SetObject(ptr, ptr)
declare void @Py_DecRef(ptr)
declare ptr @$wrap(ptr)
"""

#: The data of a Python tensor. Only plain tensors and parameters: others may have no data, or mean
#: something else by it. Zeros that torch has not made yet have elements and no data.
_TAKE: Final = """
define i32 @anyshape_host_take(ptr %object, ptr %data, ptr %tensor.slot) nounwind {
  %count.slot = alloca i64
  %place = getelementptr i8, ptr %object, i64 $type_offset
  %type = load ptr, ptr %place
  %tensor = icmp eq ptr %type, @anyshape_type_Tensor
  %parameter = icmp eq ptr %type, @anyshape_type_Parameter
  %plain = or i1 %tensor, %parameter
  br i1 %plain, label %take, label %refuse
take:
  %handle = getelementptr i8, ptr %object, i64 $tensor_offset
  store ptr %handle, ptr %tensor.slot
  %failed = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %data)
  %known = icmp eq i32 %failed, 0
  br i1 %known, label %look, label %refuse
look:
  %address = load ptr, ptr %data
  %none = icmp eq ptr %address, null
  br i1 %none, label %count, label %fine
count:
  %uncounted = call i32 @aoti_torch_get_numel(ptr %handle, ptr %count.slot)
  %elements = load i64, ptr %count.slot
  %empty = icmp eq i64 %elements, 0
  %counted = icmp eq i32 %uncounted, 0
  %nothing = and i1 %empty, %counted
  br i1 %nothing, label %fine, label %refuse
fine:
  ret i32 0
refuse:
  ret i32 1
}
"""

#: A new tensor. `dims`: its sizes, then its strides.
_MAKE: Final = """
define i32 @anyshape_host_make(
    i64 %rank, ptr %dims, i32 %dtype, ptr %slot, ptr %data) nounwind {
  %strides = getelementptr i64, ptr %dims, i64 %rank
  %failed = call i32 @aoti_torch_empty_strided(
      i64 %rank, ptr %dims, ptr %strides, i32 %dtype, i32 $device_type, i32 $device_index,
      ptr %slot)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %made
made:
  %handle = load ptr, ptr %slot
  %last = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %data)
  ret i32 %last
fail:
  store ptr null, ptr %slot
  ret i32 %failed
}
"""

#: Memory for the temporaries of a call, or null. Much of it is a tensor of torch's: what torch has
#: given back serves again, and whoever measures torch's memory sees it. A little is had for less
#: from C. Of very much, which the system maps anew each time, pages are asked for by megabytes: one
#: by one they take longer than what is computed. `held`: the tensor, and what came from C.
_WORKSPACE: Final = """
declare ptr @aligned_alloc(i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
define ptr @anyshape_host_workspace(i64 %total, ptr %held) nounwind {
entry:
  %from.c = getelementptr ptr, ptr %held, i64 1
  store ptr null, ptr %held
  store ptr null, ptr %from.c
  %much = icmp uge i64 %total, 65536
  br i1 %much, label %torch, label %little
little:
  %own = call ptr @aligned_alloc(i64 64, i64 %total)
  store ptr %own, ptr %from.c
  ret ptr %own
torch:
  %made = call ptr @anyshape_host_tensor_of_bytes(i64 %total, ptr %held)
  %more = icmp uge i64 %total, 33554432
  %some = icmp ne ptr %made, null
  %both = and i1 %more, %some
  br i1 %both, label %large, label %done
large:
  %start = ptrtoint ptr %made to i64
  %end = add i64 %start, %total
  %above = add i64 %start, 2097151
  %first = and i64 %above, -2097152
  %last = and i64 %end, -2097152
  %length = sub i64 %last, %first
  %from = inttoptr i64 %first to ptr
  %ignored = call i32 @madvise(ptr %from, i64 %length, i32 14)
  br label %done
done:
  ret ptr %made
}
define void @anyshape_host_release(ptr %held) nounwind {
  %from.c = getelementptr ptr, ptr %held, i64 1
  %own = load ptr, ptr %from.c
  call void @free(ptr %own)
  call void @anyshape_host_delete(ptr %held, i64 1)
  ret void
}
"""

#: The same of a device: what runs there still when it is given back comes before all that gets it.
_WORKSPACE_OF_DEVICE: Final = """
define ptr @anyshape_host_workspace(i64 %total, ptr %held) nounwind {
  %made = call ptr @anyshape_host_tensor_of_bytes(i64 %total, ptr %held)
  ret ptr %made
}
define void @anyshape_host_release(ptr %held) nounwind {
  call void @anyshape_host_delete(ptr %held, i64 1)
  ret void
}
"""

#: A tensor, and its memory, or null.
_TENSOR_OF_BYTES: Final = """
define ptr @anyshape_host_tensor_of_bytes(i64 %total, ptr %held) nounwind {
  %dims = alloca [2 x i64]
  %data = alloca ptr
  %stride = getelementptr i64, ptr %dims, i64 1
  store i64 %total, ptr %dims
  store i64 1, ptr %stride
  store ptr null, ptr %data
  %failed = call i32 @anyshape_host_make(i64 1, ptr %dims, i32 $bytes, ptr %held, ptr %data)
  %made = load ptr, ptr %data
  ret ptr %made
}
"""

#: Give back the handles in an array; those that are null are gone already.
_DELETE: Final = """
define void @anyshape_host_delete(ptr %slots, i64 %count) nounwind {
entry:
  br label %test
test:
  %k = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %done
look:
  %slot = getelementptr ptr, ptr %slots, i64 %k
  %handle = load ptr, ptr %slot
  %gone = icmp eq ptr %handle, null
  br i1 %gone, label %next, label %give
give:
  %ignored = call i32 @aoti_torch_delete_tensor_object(ptr %handle)
  store ptr null, ptr %slot
  br label %next
next:
  %following = add i64 %k, 1
  br label %test
done:
  ret void
}
"""

#: A handle becomes a Python tensor.
_GIVE: Final = """
define ptr @anyshape_host_give(ptr %slot) nounwind {
  %handle = load ptr, ptr %slot
  %tensor = call ptr @$wrap(ptr %handle)
  call void @anyshape_host_delete(ptr %slot, i64 1)
  ret ptr %tensor
}
"""

#: `self` is called with the number of what went wrong, and says which exception that is.
_FAIL: Final = """
define ptr @anyshape_host_fail(ptr %self, i64 %code) nounwind {
  %number = call ptr @PyLong_FromLongLong(i64 %code)
  %none = icmp eq ptr %number, null
  br i1 %none, label %done, label %ask
ask:
  %error = call ptr @PyObject_CallOneArg(ptr %self, ptr %number)
  call void @Py_DecRef(ptr %number)
  %unknown = icmp eq ptr %error, null
  br i1 %unknown, label %done, label %raise
raise:
  %place = getelementptr i8, ptr %error, i64 $type_offset
  %type = load ptr, ptr %place
  call void @PyErr_SetObject(ptr %type, ptr %error)
  call void @Py_DecRef(ptr %error)
  br label %done
done:
  ret ptr null
}
"""

# A declaration is one line: modules are joined line by line.
_FROM_BLOB: Final = (
    "declare i32 @aoti_torch_create_tensor_from_blob_v2"
    "(ptr, i64, ptr, ptr, i64, i32, i32, i32, ptr, i32, ptr, i64)"
)
_EXTERN_DECLARATIONS: Final = """
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_sizes(ptr, ptr)
declare i32 @aoti_torch_get_strides(ptr, ptr)
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i32 @aoti_torch_copy_(ptr, ptr, i32)
"""

#: A handle to memory of ours. What has no elements may be anywhere, even where no memory is, and is
#: given none: of GPUs' memory torch asks whose it is. If it fails, this function of torch may say
#: that all is well, and give no tensor.
_AREA: Final = """
define i32 @anyshape_host_area(
    ptr %data, i64 %rank, ptr %dims, i32 %dtype, ptr %slot) nounwind {
entry:
  %strides = getelementptr i64, ptr %dims, i64 %rank
  br label %look
look:
  %k = phi i64 [0, %entry], [%next, %some]
  %more = icmp ult i64 %k, %rank
  br i1 %more, label %size, label %make
size:
  %place = getelementptr i64, ptr %dims, i64 %k
  %size.k = load i64, ptr %place
  %next = add i64 %k, 1
  %none = icmp eq i64 %size.k, 0
  br i1 %none, label %make, label %some
some:
  br label %look
make:
  %start = phi ptr [%data, %look], [null, %size]
  store ptr null, ptr %slot
  %failed = call i32 @aoti_torch_create_tensor_from_blob_v2(
      ptr %start, i64 %rank, ptr %dims, ptr %strides, i64 0, i32 %dtype, i32 $device_type,
      i32 $device_index, ptr %slot, i32 0, ptr null, i64 0)
  %made = load ptr, ptr %slot
  %nothing = icmp eq ptr %made, null
  %told = icmp ne i32 %failed, 0
  %bad = or i1 %nothing, %told
  br i1 %bad, label %fail, label %done
fail:
  store ptr null, ptr %slot
  br label %done
done:
  %answer = phi i32 [0, %make], [1, %fail]
  ret i32 %answer
}
"""

#: The handle to a whole input or output: the one that the caller has, or one made as above.
_TENSOR: Final = """
define ptr @anyshape_host_tensor(
    ptr %tensors, i64 %k, ptr %data, i64 %rank, ptr %dims, i32 %dtype, ptr %slot) nounwind {
  %unknown = icmp eq ptr %tensors, null
  br i1 %unknown, label %make, label %known
known:
  %place = getelementptr ptr, ptr %tensors, i64 %k
  %given = load ptr, ptr %place
  ret ptr %given
make:
  %failed = call i32 @anyshape_host_area(
      ptr %data, i64 %rank, ptr %dims, i32 %dtype, ptr %slot)
  %made = load ptr, ptr %slot
  ret ptr %made
}
"""

#: Whether the tensor of a handle has this rank, these sizes and this dtype (0), and these strides
#: too (bit 1 is set if not; unless `exact`, a stride does not matter where the size is 1, and none
#: if one is 0).
_COMPARE: Final = """
define i32 @anyshape_host_compare(
    ptr %handle, i64 %rank, ptr %dims, i32 %dtype, i1 %exact) nounwind {
entry:
  %rank.slot = alloca i64
  %dtype.slot = alloca i32
  %sizes.slot = alloca ptr
  %strides.slot = alloca ptr
  %f0 = call i32 @aoti_torch_get_dim(ptr %handle, ptr %rank.slot)
  %f1 = call i32 @aoti_torch_get_dtype(ptr %handle, ptr %dtype.slot)
  %f2 = call i32 @aoti_torch_get_sizes(ptr %handle, ptr %sizes.slot)
  %f3 = call i32 @aoti_torch_get_strides(ptr %handle, ptr %strides.slot)
  %g0 = or i32 %f0, %f1
  %g1 = or i32 %f2, %f3
  %g2 = or i32 %g0, %g1
  %failed = icmp ne i32 %g2, 0
  br i1 %failed, label %other, label %kinds
kinds:
  %rank.is = load i64, ptr %rank.slot
  %dtype.is = load i32, ptr %dtype.slot
  %sizes = load ptr, ptr %sizes.slot
  %strides = load ptr, ptr %strides.slot
  %same.rank = icmp eq i64 %rank.is, %rank
  %same.dtype = icmp eq i32 %dtype.is, %dtype
  %same = and i1 %same.rank, %same.dtype
  br i1 %same, label %test, label %other
test:
  %k = phi i64 [0, %kinds], [%following, %next]
  %answer = phi i32 [0, %kinds], [%answer.next, %next]
  %empty = phi i1 [false, %kinds], [%empty.next, %next]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %look, label %done
look:
  %size.at = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.at
  %wanted.at = getelementptr i64, ptr %dims, i64 %k
  %wanted = load i64, ptr %wanted.at
  %same.size = icmp eq i64 %size, %wanted
  br i1 %same.size, label %next, label %other
next:
  %stride.at = getelementptr i64, ptr %strides, i64 %k
  %stride = load i64, ptr %stride.at
  %j = add i64 %k, %rank
  %wanted.stride.at = getelementptr i64, ptr %dims, i64 %j
  %wanted.stride = load i64, ptr %wanted.stride.at
  %differs = icmp ne i64 %stride, %wanted.stride
  %several = icmp ne i64 %size, 1
  %matters = or i1 %several, %exact
  %off = and i1 %differs, %matters
  %answer.next = select i1 %off, i32 2, i32 %answer
  %zero = icmp eq i64 %size, 0
  %empty.next = or i1 %empty, %zero
  %following = add i64 %k, 1
  br label %test
done:
  %tolerant = xor i1 %exact, true
  %any = and i1 %empty, %tolerant
  %result = select i1 %any, i32 0, i32 %answer
  ret i32 %result
other:
  ret i32 1
}
"""

#: A tensor that torch gave becomes a buffer: its own memory if it is laid out as the buffer has to
#: be, else a copy that is.
_ADOPT: Final = """
define i32 @anyshape_host_adopt(
    ptr %slot, i64 %rank, ptr %dims, i32 %dtype, i1 %exact, ptr %data) nounwind {
  %fresh = alloca ptr
  %handle = load ptr, ptr %slot
  %answer = call i32 @anyshape_host_compare(
      ptr %handle, i64 %rank, ptr %dims, i32 %dtype, i1 %exact)
  switch i32 %answer, label %other [i32 0, label %keep  i32 2, label %copy]
keep:
  %kept = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %data)
  ret i32 %kept
copy:
  %failed = call i32 @anyshape_host_make(i64 %rank, ptr %dims, i32 %dtype, ptr %fresh, ptr %data)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %other, label %made
made:
  %new = load ptr, ptr %fresh
  %copied = call i32 @aoti_torch_copy_(ptr %new, ptr %handle, i32 0)
  store ptr %new, ptr %slot
  %ignored = call i32 @aoti_torch_delete_tensor_object(ptr %handle)
  ret i32 %copied
other:
  ret i32 1
}
"""

#: A tensor that torch gave is copied to memory of ours.
_COPY: Final = """
define i32 @anyshape_host_copy(
    ptr %handle, ptr %data, i64 %rank, ptr %dims, i32 %dtype) nounwind {
  %slot = alloca ptr
  %answer = call i32 @anyshape_host_compare(
      ptr %handle, i64 %rank, ptr %dims, i32 %dtype, i1 false)
  %other = icmp eq i32 %answer, 1
  br i1 %other, label %fail, label %view
view:
  %failed = call i32 @anyshape_host_area(ptr %data, i64 %rank, ptr %dims, i32 %dtype, ptr %slot)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %copy
copy:
  %target = load ptr, ptr %slot
  %copied = call i32 @aoti_torch_copy_(ptr %target, ptr %handle, i32 0)
  call void @anyshape_host_delete(ptr %slot, i64 1)
  ret i32 %copied
fail:
  ret i32 1
}
"""

#: A tensor that torch gave becomes an output: it goes to the places of the output's address and
#: handle. Where somebody has made the output already it is copied to that.
_HAND_OVER: Final = """
define i32 @anyshape_host_hand_over(
    ptr %slot, ptr %tensor, ptr %place, i64 %rank, ptr %dims, i32 %dtype) nounwind {
  %data = load ptr, ptr %place
  %missing = icmp eq ptr %data, null
  br i1 %missing, label %adopt, label %copy
adopt:
  %failed = call i32 @anyshape_host_adopt(
      ptr %slot, i64 %rank, ptr %dims, i32 %dtype, i1 true, ptr %place)
  %handle = load ptr, ptr %slot
  store ptr %handle, ptr %tensor
  store ptr null, ptr %slot
  ret i32 %failed
copy:
  %given = load ptr, ptr %slot
  %copied = call i32 @anyshape_host_copy(
      ptr %given, ptr %data, i64 %rank, ptr %dims, i32 %dtype)
  call void @anyshape_host_delete(ptr %slot, i64 1)
  ret i32 %copied
}
"""


def _declarations(definitions: str) -> list[str]:
    heads = re.findall(r"^define (\w+) (@\w+)\(([^)]*)\)", definitions, re.MULTILINE)
    return [
        f"declare {result} {name}({', '.join(each.split()[0] for each in given.split(','))})"
        for result, name, given in heads
    ]


#: What host functions declare.
DECLARATIONS: Final = "\n".join(
    declaration
    for each in (
        *(_TAKE, _MAKE, _WORKSPACE, _DELETE, _GIVE, _FAIL),
        *(_AREA, _TENSOR, _ADOPT, _COPY, _HAND_OVER),
    )
    for declaration in _declarations(each)
)


def helpers_module(abi: HostAbi) -> str:
    """Their definitions; those that Python's objects go through only where these are known."""
    workspace = _WORKSPACE_OF_DEVICE if abi.is_launched else _WORKSPACE
    parts = [_HANDLE_DECLARATIONS, _MAKE, _TENSOR_OF_BYTES, workspace, _DELETE]
    parts += [_FROM_BLOB, _EXTERN_DECLARATIONS, _AREA, _TENSOR, _COMPARE, _ADOPT, _COPY, _HAND_OVER]
    if abi.tensor_offset is not None:
        parts += [_ENTRY_DECLARATIONS, _TAKE, _GIVE, _FAIL, APART_MODULE, ALIKE_MODULE]
    return Template("".join(parts)).substitute(
        wrap=abi.wrap,
        type_offset=abi.type_offset,
        tensor_offset=abi.tensor_offset,
        device_type=abi.device_type,
        device_index=abi.device_index,
        bytes=abi.dtypes["u8"],
    )
