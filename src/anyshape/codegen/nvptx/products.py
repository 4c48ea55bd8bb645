"""Matrix products by the library's own function, without torch in between: what host functions
call.

torch looks for an algorithm at each call, which takes longer than most products. Here a product is
looked up by its key in a table of plans (`loops/product_plan.py`): a missing plan is asked for
once. Members of a group multiply one matrix; where their weights and results lie at equal
distances, they are one product of a batch.
"""

from __future__ import annotations

from string import Template
from typing import Final

from anyshape.codegen.nvptx.launch import TABLE
from anyshape.loops.product_plan import (
    ALIGNMENT_BITS,
    ALIGNMENTS,
    HEAD,
    KEY,
    MEMBER,
    PLAN_WORDS,
    plan_word,
)

_DECLARED: Final = """
declare i32 @memcmp(ptr, ptr, i64)
declare i64 @llvm.fshl.i64(i64, i64, i64)
"""

#: Whether the library has done it.
_ONE: Final = """
define internal i1 @anyshape_gpu_product(ptr %head, ptr %key, ptr %a, ptr %b, ptr %bias, ptr %d)
    nounwind {
entry:
  %held = alloca ptr
  %stream.slot = alloca ptr
  %bias.slot = alloca ptr
  store ptr null, ptr %held
  store ptr %bias, ptr %bias.slot
  %kind.all = load i64, ptr %key
  %kind = and i64 %kind.all, $kinds
  %a.address = ptrtoint ptr %a to i64
  %b.address = ptrtoint ptr %b to i64
  %d.address = ptrtoint ptr %d to i64
  %bias.address = ptrtoint ptr %bias to i64
  %a.low = and i64 %a.address, 15
  %b.low = and i64 %b.address, 15
  %d.low = and i64 %d.address, 15
  %bias.low = and i64 %bias.address, 15
  %a.bits = shl i64 %a.low, $a_bits
  %b.bits = shl i64 %b.low, $b_bits
  %d.bits = shl i64 %d.low, $d_bits
  %bias.bits = shl i64 %bias.low, $bias_bits
  %ab.bits = or i64 %a.bits, %b.bits
  %more.bits = or i64 %d.bits, %bias.bits
  %all.bits = or i64 %ab.bits, %more.bits
  %described = or i64 %kind, %all.bits
  store i64 %described, ptr %key
  br label %mix
mix:
  %word = phi i64 [0, %entry], [%word.next, %mix]
  %hash = phi i64 [0, %entry], [%hash.next, %mix]
  %word.place = getelementptr i64, ptr %key, i64 %word
  %word.value = load i64, ptr %word.place
  %mixed = xor i64 %hash, %word.value
  %spread = mul i64 %mixed, -7046029254386353131
  %hash.next = call i64 @llvm.fshl.i64(i64 %spread, i64 %spread, i64 29)
  %word.next = add i64 %word, 1
  %mixes = icmp ult i64 %word.next, $words
  br i1 %mixes, label %mix, label %search
search:
  %table = load atomic ptr, ptr %head acquire, align 8
  %mask = load i64, ptr %table
  %first = and i64 %hash.next, %mask
  br label %probe
probe:
  %place = phi i64 [%first, %search], [%following, %other]
  %behind = add i64 %place, 1
  %slot = getelementptr ptr, ptr %table, i64 %behind
  %there = load ptr, ptr %slot
  %is.free = icmp eq ptr %there, null
  br i1 %is.free, label %ask, label %compare
compare:
  %differs = call i32 @memcmp(ptr %there, ptr %key, i64 $key_bytes)
  %is.other = icmp ne i32 %differs, 0
  br i1 %is.other, label %other, label %found
other:
  %following = and i64 %behind, %mask
  br label %probe
ask:
  %missing.slot = getelementptr ptr, ptr %head, i64 $missing
  %missing = load ptr, ptr %missing.slot
  %made = call ptr %missing(ptr %key)
  %is.none = icmp eq ptr %made, null
  br i1 %is.none, label %refuse, label %found
refuse:
  ret i1 false
found:
  %plan = phi ptr [%there, %compare], [%made, %ask]
  %operation.slot = getelementptr ptr, ptr %plan, i64 $operation
  %operation = load ptr, ptr %operation.slot
  %is.refused = icmp eq ptr %operation, null
  br i1 %is.refused, label %refuse, label %address
address:
  %no.bias = icmp eq ptr %bias, null
  br i1 %no.bias, label %take, label %lock
lock:
  %busy.slot = getelementptr i64, ptr %plan, i64 $busy
  %locked = cmpxchg ptr %busy.slot, i64 0, i64 1 acquire monotonic
  %is.ours = extractvalue {i64, i1} %locked, 1
  br i1 %is.ours, label %tell, label %refuse
tell:
  %set.slot = getelementptr ptr, ptr %head, i64 $set
  %set = load ptr, ptr %set.slot
  %unset = call i32 %set(ptr %operation, i32 $bias_pointer, ptr %bias.slot, i64 8)
  %is.set = icmp eq i32 %unset, 0
  br i1 %is.set, label %take, label %unlock
take:
  %bytes.slot = getelementptr i64, ptr %plan, i64 $workspace
  %bytes = load i64, ptr %bytes.slot
  %needs.none = icmp eq i64 %bytes, 0
  br i1 %needs.none, label %multiply, label %memory
memory:
  %taken = call ptr @anyshape_host_workspace(i64 %bytes, ptr %held)
  %is.poor = icmp eq ptr %taken, null
  br i1 %is.poor, label %unlock, label %multiply
multiply:
  %workspace = phi ptr [null, %take], [%taken, %memory]
  %unknown = call i32 @aoti_torch_get_current_cuda_stream(i32 $device, ptr %stream.slot)
  %stream = load ptr, ptr %stream.slot
  %function.slot = getelementptr ptr, ptr %head, i64 $multiply
  %function = load ptr, ptr %function.slot
  %handle.slot = getelementptr ptr, ptr %head, i64 $handle
  %handle = load ptr, ptr %handle.slot
  %a.slot = getelementptr ptr, ptr %plan, i64 $layout_a
  %a.layout = load ptr, ptr %a.slot
  %b.slot = getelementptr ptr, ptr %plan, i64 $layout_b
  %b.layout = load ptr, ptr %b.slot
  %d.slot = getelementptr ptr, ptr %plan, i64 $layout_d
  %d.layout = load ptr, ptr %d.slot
  %alpha = getelementptr i64, ptr %plan, i64 $factors
  %beta = getelementptr i8, ptr %alpha, i64 4
  %algorithm = getelementptr i64, ptr %plan, i64 $algorithm
  ; The library stores columns side by side: it multiplies the transposed, the second factor first.
  %failed = call i32 %function(ptr %handle, ptr %operation, ptr %alpha, ptr %b, ptr %b.layout,
      ptr %a, ptr %a.layout, ptr %beta, ptr %d, ptr %d.layout, ptr %d, ptr %d.layout,
      ptr %algorithm, ptr %workspace, i64 %bytes, ptr %stream)
  call void @anyshape_host_release(ptr %held)
  br label %unlock
unlock:
  %status = phi i32 [1, %tell], [1, %memory], [%failed, %multiply]
  br i1 %no.bias, label %done, label %free
free:
  %lock.slot = getelementptr i64, ptr %plan, i64 $busy
  store atomic i64 0, ptr %lock.slot release, align 8
  br label %done
done:
  %is.done = icmp eq i32 %status, 0
  ret i1 %is.done
}
"""

#: A bit for each member of a group that is left for torch. Those whose second factors are at equal
#: distances, and their results and biases as well, are one product, from the lowest addresses on.
_GROUP: Final = """
define i64 @anyshape_gpu_products(ptr %table, ptr %key, i64 %count, ptr %a, ptr %members) nounwind {
entry:
  %head.slot = getelementptr ptr, ptr %table, i64 $products
  %head = load ptr, ptr %head.slot
  %none = icmp eq ptr %head, null
  br i1 %none, label %leave, label %kind
leave:
  %above = shl i64 1, %count
  %all = sub i64 %above, 1
  ret i64 %all
kind:
  %batch.place = getelementptr i64, ptr %key, i64 $batch
  %alone = icmp eq i64 %count, 1 ; of none, nothing is left
  br i1 %alone, label %single, label %next
single:
  %s.b = load ptr, ptr %members
  %s.bias.place = getelementptr ptr, ptr %members, i64 1
  %s.bias = load ptr, ptr %s.bias.place
  %s.d.place = getelementptr ptr, ptr %members, i64 2
  %s.d = load ptr, ptr %s.d.place
  %s.done = call i1 @anyshape_gpu_product(ptr %head, ptr %key, ptr %a, ptr %s.b, ptr %s.bias,
      ptr %s.d)
  %s.left = xor i1 %s.done, true
  %s.mask = zext i1 %s.left to i64
  ret i64 %s.mask
next:
  %i = phi i64 [0, %kind], [%i.next, %ended]
  %left = phi i64 [0, %kind], [%left.next, %ended]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %measure, label %finished
finished:
  ret i64 %left
measure:
  %b.step = call i64 @anyshape_gpu_distance(ptr %members, i64 %i, i64 0)
  %bias.step = call i64 @anyshape_gpu_distance(ptr %members, i64 %i, i64 1)
  %d.step = call i64 @anyshape_gpu_distance(ptr %members, i64 %i, i64 2)
  %bd.sign = xor i64 %b.step, %d.step
  %has.bias = icmp ne i64 %bias.step, 0
  %bias.sign.own = xor i64 %b.step, %bias.step
  %bias.sign = select i1 %has.bias, i64 %bias.sign.own, i64 0
  %signs = or i64 %bd.sign, %bias.sign
  %is.along = icmp sge i64 %signs, 0
  %b.some = icmp ne i64 %b.step, 0
  %d.some = icmp ne i64 %d.step, 0
  %some = and i1 %b.some, %d.some
  %steps.or = or i64 %b.step, %d.step
  %steps.all = or i64 %steps.or, %bias.step
  %odd = and i64 %steps.all, 1
  %even = icmp eq i64 %odd, 0
  %some.even = and i1 %some, %even
  %joins = and i1 %some.even, %is.along
  br label %grow
grow:
  %run = phi i64 [1, %measure], [%run.next, %same]
  %last = add i64 %i, %run
  %inside = icmp ult i64 %last, %count
  %goes.on = and i1 %inside, %joins
  br i1 %goes.on, label %look, label %grown
look:
  %before = sub i64 %last, 1
  %b.there = call i64 @anyshape_gpu_distance(ptr %members, i64 %before, i64 0)
  %bias.there = call i64 @anyshape_gpu_distance(ptr %members, i64 %before, i64 1)
  %d.there = call i64 @anyshape_gpu_distance(ptr %members, i64 %before, i64 2)
  %b.same = icmp eq i64 %b.there, %b.step
  %bias.same = icmp eq i64 %bias.there, %bias.step
  %d.same = icmp eq i64 %d.there, %d.step
  %bd.same = and i1 %b.same, %d.same
  %all.same = and i1 %bd.same, %bias.same
  br i1 %all.same, label %same, label %grown
same:
  %run.next = add i64 %run, 1
  br label %grow
grown:
  %is.batch = icmp ugt i64 %run, 1
  br i1 %is.batch, label %together, label %apart
together:
  %falls = icmp slt i64 %b.step, 0
  %end = sub i64 %last, 1
  %lowest = select i1 %falls, i64 %end, i64 %i
  %b.minus = sub i64 0, %b.step
  %d.minus = sub i64 0, %d.step
  %bias.minus = sub i64 0, %bias.step
  %b.up = select i1 %falls, i64 %b.minus, i64 %b.step
  %d.up = select i1 %falls, i64 %d.minus, i64 %d.step
  %bias.up = select i1 %falls, i64 %bias.minus, i64 %bias.step
  call void @anyshape_gpu_batch(ptr %batch.place, i64 %run, i64 %b.up, i64 %d.up, i64 %bias.up)
  %t.done = call i1 @anyshape_gpu_member(ptr %head, ptr %key, ptr %a, ptr %members, i64 %lowest)
  br i1 %t.done, label %ended, label %apart
apart:
  call void @anyshape_gpu_batch(ptr %batch.place, i64 1, i64 0, i64 0, i64 0)
  br label %each
each:
  %j = phi i64 [%i, %apart], [%j.next, %each]
  %left.now = phi i64 [%left, %apart], [%left.then, %each]
  %e.done = call i1 @anyshape_gpu_member(ptr %head, ptr %key, ptr %a, ptr %members, i64 %j)
  %e.left = xor i1 %e.done, true
  %e.bit = zext i1 %e.left to i64
  %e.mask = shl i64 %e.bit, %j
  %left.then = or i64 %left.now, %e.mask
  %j.next = add i64 %j, 1
  %e.more = icmp ult i64 %j.next, %last
  br i1 %e.more, label %each, label %ended
ended:
  %left.next = phi i64 [%left, %together], [%left.then, %each]
  %i.next = add i64 %i, %run
  br label %next
}

; From a member's to the next one's; 0 for the last, and where there is nothing.
define internal i64 @anyshape_gpu_distance(ptr %members, i64 %i, i64 %what) nounwind {
  %row = mul i64 %i, $member
  %at = add i64 %row, %what
  %then = add i64 %at, $member
  %place = getelementptr i64, ptr %members, i64 %at
  %next = getelementptr i64, ptr %members, i64 %then
  %from = load i64, ptr %place
  %to = load i64, ptr %next
  %far = sub i64 %to, %from
  ret i64 %far
}

; The words of a batch, in elements of two bytes.
define internal void @anyshape_gpu_batch(ptr %place, i64 %count, i64 %b, i64 %d, i64 %bias)
    nounwind {
  %b.place = getelementptr i64, ptr %place, i64 2
  %d.place = getelementptr i64, ptr %place, i64 3
  %bias.place = getelementptr i64, ptr %place, i64 4
  %b.step = ashr i64 %b, 1
  %d.step = ashr i64 %d, 1
  %bias.step = ashr i64 %bias, 1
  store i64 %count, ptr %place
  store i64 %b.step, ptr %b.place
  store i64 %d.step, ptr %d.place
  store i64 %bias.step, ptr %bias.place
  ret void
}

define internal i1 @anyshape_gpu_member(ptr %head, ptr %key, ptr %a, ptr %members, i64 %i)
    nounwind {
  %row = mul i64 %i, $member
  %place = getelementptr ptr, ptr %members, i64 %row
  %bias.place = getelementptr ptr, ptr %place, i64 1
  %d.place = getelementptr ptr, ptr %place, i64 2
  %b = load ptr, ptr %place
  %bias = load ptr, ptr %bias.place
  %d = load ptr, ptr %d.place
  %done = call i1 @anyshape_gpu_product(ptr %head, ptr %key, ptr %a, ptr %b, ptr %bias, ptr %d)
  ret i1 %done
}
"""

#: CUBLASLT_MATMUL_DESC_BIAS_POINTER
_BIAS_POINTER: Final = 8


def product_helpers(device: int) -> str:
    """A part of the host's helpers, behind those that launch kernels."""
    bits = [ALIGNMENTS + ALIGNMENT_BITS * place for place in range(4)]
    numbers = {
        "device": device,
        "words": len(KEY),
        "key_bytes": 8 * len(KEY),
        "batch": KEY.index("batch"),
        "kinds": (1 << ALIGNMENTS) - 1,
        **dict(zip(("a_bits", "b_bits", "d_bits", "bias_bits"), bits, strict=True)),
        **{each: HEAD.index(each) for each in ("missing", "multiply", "set", "handle")},
        **{e: plan_word(e) for e in ("operation", "busy", "workspace", "factors", "algorithm")},
        **{f"layout_{each}": plan_word(each) for each in "abd"},
        "member": len(MEMBER),
        "products": TABLE.index("products"),
        "bias_pointer": _BIAS_POINTER,
    }
    assert plan_word("algorithm") + 8 <= PLAN_WORDS
    return Template(_DECLARED + _ONE + _GROUP).substitute(numbers)
