"""Loads and stores: of one element, of consecutive ones, of scattered ones.

The kind of an access follows from how its address moves from lane to lane: not at all (one element,
in all lanes), by one (a vector), or otherwise (a gather). In the last round of a loop some lanes do
not exist; they touch no memory.
"""

from __future__ import annotations

from anyshape.codegen.ir_builder import MEMORY, REGISTER, suffix, vector
from anyshape.codegen.llvm.arithmetic import ROWS, OperationCall
from anyshape.codegen.llvm.casts import from_memory, round_half, to_memory
from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.sizes import lane_numbers, narrow_size, terms_by_level, wide_size
from anyshape.loops.expr import FLOATS, WIDTH, Dtype, Scalar
from anyshape.symbolic import Size
from anyshape.symbolic.expr import of_atom, polynomial

# -- addresses -------------------------------------------------------------------------------------


def base(e: Emitter, buffer: str) -> str:
    """Where a buffer begins."""
    return e.once(0, ("base", buffer), lambda: _base(e, buffer))


def _base(e: Emitter, buffer: str) -> str:
    if buffer in e.kernel.private:
        offset = narrow_size(e, e.plan.private_offsets()[buffer])
        return e.let(f"getelementptr i8, ptr %scratch, i64 {offset}")
    place = e.let(f"getelementptr ptr, ptr %buffers, i64 {int(buffer.removeprefix('k'))}")
    return e.let(f"load ptr, ptr {place}, align 8, !invariant.load !0")


def pointer(e: Emitter, buffer: str, address: Size, dtype: Dtype) -> str:
    """To the element at an address; where lanes differ, to that of the first one."""
    element = MEMORY[dtype]
    steady = e.steady_parts(address)
    apart = e.vector_axis is not None and e.loops[e.vector_axis].places
    if e.copy and steady is not None and steady[0] == 1 and not apart:
        # The other vectors of a round are at fixed distances from the first.
        copy, e.copy = e.copy, 0
        first = pointer(e, buffer, address, dtype)
        e.copy = copy
        level, _ = e.traits_of_size(address)
        distance = copy * e.lanes
        return e.once(
            level,
            ("further", first, copy),
            lambda: e.let(f"getelementptr {element}, ptr {first}, i64 {distance}"),
        )
    text, reached = base(e, buffer), 0
    for level, terms in terms_by_level(e, address):
        reached = max(reached, level)
        for monomial, coefficient in terms:
            size = narrow_size(e, polynomial({monomial: coefficient}))
            text = e.once(
                reached,
                ("pointer", element, text, size),
                lambda a=text, b=size: e.let(f"getelementptr {element}, ptr {a}, i64 {b}"),
            )
    return text


def _is_private_to_lanes(e: Emitter, buffer: str) -> bool:
    return e.plan.column is not None and buffer in e.kernel.private


def _is_whole_row(e: Emitter, buffer: str, address: Size) -> bool:
    """Whether the vectors of the stage run through a private buffer from its beginning to its end,
    behind which there is memory for lanes that do not exist. (A masked store would keep the loads
    of the next stage waiting.)"""
    axis = e.vector_axis
    private = e.kernel.private.get(buffer)
    return (
        private is not None
        and axis is not None
        and address == of_atom(axis)
        and e.loops[axis].extent == private[1]
    )


def _nowhere(e: Emitter) -> str:
    """Memory that may be read and written for no reason, instead of what must not be touched."""
    return e.once(0, "nowhere", lambda: e.slot("i64", 1))


# -- loads -----------------------------------------------------------------------------------------


def load(e: Emitter, scalar: Scalar) -> IrValue:
    buffer, _ = scalar.data
    if buffer in e.held:
        return e.held[buffer][1][e.copy]
    aligned = e.is_aligned
    e.is_aligned = aligned and (e.aligns_private or buffer not in e.kernel.private)
    found = _loaded(e, scalar)
    e.is_aligned = aligned
    return found


def _loaded(e: Emitter, scalar: Scalar) -> IrValue:
    buffer, address = scalar.data
    dtype = scalar.dtype
    mask, other = (e.value(arg) for arg in scalar.args) if scalar.args else (None, None)
    _, wide = e.traits(scalar)
    if not wide:
        return IrValue(_load_one(e, buffer, address, dtype, mask, other), dtype, False)
    if _is_private_to_lanes(e, buffer):
        place = _private_place(e, buffer, address, dtype)
        raw = e.let(f"load {vector(MEMORY[dtype], e.lanes)}, ptr {place}, align {WIDTH[dtype]}")
    elif mask is None and _is_whole_row(e, buffer, address):
        exist, e.masks = e.masks, ()
        raw = _load_lanes(e, buffer, address, dtype, mask)
        e.masks = exist
    else:
        raw = _load_lanes(e, buffer, address, dtype, mask)
    text = from_memory(e, raw, dtype, e.lanes)
    if mask is not None and other is not None:
        type_ = e.type_of(dtype, True)
        truth = e.type_of("b1", mask.wide)
        text = e.select(truth, mask.text, type_, text, e.widen(other))
    return IrValue(text, dtype, True)


def _private_place(e: Emitter, buffer: str, address: Size, dtype: Dtype) -> str:
    return pointer(e, buffer, address * e.lanes, dtype)


def _load_one(
    e: Emitter,
    buffer: str,
    address: Size,
    dtype: Dtype,
    mask: IrValue | None,
    other: IrValue | None,
) -> str:
    place = pointer(e, buffer, address, dtype)
    raw = _masked_one(e, place, dtype, mask)
    text = from_memory(e, raw, dtype, 0)
    if mask is None or other is None:
        return text
    type_ = REGISTER[dtype]
    return e.let(f"select i1 {mask.text}, {type_} {text}, {type_} {other.text}")


def _masked_one(e: Emitter, place: str, dtype: Dtype, mask: IrValue | None) -> str:
    element, width = MEMORY[dtype], WIDTH[dtype]
    if mask is None or not e.machine.branches:
        if mask is not None:
            place = e.let(f"select i1 {mask.text}, ptr {place}, ptr {_nowhere(e)}")
        return e.let(f"load {element}, ptr {place}, align {width}")
    active = e.let(f"insertelement <1 x i1> poison, i1 {mask.text}, i64 0")
    name = f"@llvm.masked.load.{suffix(element, 1)}.p0"
    one = e.let(
        f"call <1 x {element}> {name}(ptr align {width} {place}, <1 x i1> {active},"
        f" <1 x {element}> zeroinitializer)"
    )
    return e.let(f"extractelement <1 x {element}> {one}, i64 0")


def _load_lanes(e: Emitter, buffer: str, address: Size, dtype: Dtype, mask: IrValue | None) -> str:
    steady = e.steady_parts(address)
    if steady is not None and steady[0] == 1:
        place = pointer(e, buffer, address, dtype)
        if mask is not None and not mask.wide and e.mask is None and e.machine.branches:
            return _load_vector_if(e, place, dtype, mask)
        if mask is None or WIDTH[dtype] in e.machine.masked:
            return _load_vector(e, place, dtype, None if mask is None else e.widen(mask))
    elif steady is not None and steady[0] == -1 and mask is None and e.mask is None:
        return _load_reversed(e, pointer(e, buffer, address, dtype), dtype)
    active = _active(e, mask)
    wide = vector(MEMORY[dtype], e.lanes)
    if WIDTH[dtype] in e.machine.gathered:
        places = _places(e, buffer, address, dtype)
        name = f"@llvm.masked.gather.{suffix(MEMORY[dtype], e.lanes)}.v{e.lanes}p0"
        return e.let(
            f"call {wide} {name}(<{e.lanes} x ptr> align {WIDTH[dtype]} {places},"
            f" <{e.lanes} x i1> {active or 'splat (i1 true)'}, {wide} zeroinitializer)"
        )
    text = "poison"
    for lane, place in enumerate(_each_place(e, buffer, address, dtype, active)):
        one = e.let(f"load {MEMORY[dtype]}, ptr {place}, align {WIDTH[dtype]}")
        text = e.let(f"insertelement {wide} {text}, {MEMORY[dtype]} {one}, i64 {lane}")
    return text


def _load_vector(e: Emitter, place: str, dtype: Dtype, mask: str | None) -> str:
    """Consecutive elements, of those lanes that exist and that the mask lets through."""
    element, width = MEMORY[dtype], WIDTH[dtype]
    wide = vector(element, e.lanes)
    if e.mask is None and mask is None:
        return e.let(f"load {wide}, ptr {place}, align {e.alignment(width)}")
    if width in e.machine.masked:
        active = _and(e, e.mask, mask)
        name = f"@llvm.masked.load.{suffix(element, e.lanes)}.p0"
        return e.let(
            f"call {wide} {name}(ptr align {width} {place}, <{e.lanes} x i1> {active},"
            f" {wide} zeroinitializer)"
        )
    through = e.once(0, "through", lambda: e.slot("i64", 64))
    e.do(_copy(through, place, _bytes(e, width)))
    return e.let(f"load {wide}, ptr {through}, align {width}")


def _load_vector_if(e: Emitter, place: str, dtype: Dtype, mask: IrValue) -> str:
    """Consecutive elements, or none of them: what is masked as one integer is one load."""
    whole, width = f"i{8 * WIDTH[dtype] * e.lanes}", WIDTH[dtype]
    active = e.let(f"insertelement <1 x i1> poison, i1 {mask.text}, i64 0")
    one = e.let(
        f"call <1 x {whole}> @llvm.masked.load.v1{whole}.p0(ptr align {e.alignment(width)} {place},"
        f" <1 x i1> {active}, <1 x {whole}> zeroinitializer)"
    )
    return e.let(f"bitcast <1 x {whole}> {one} to {vector(MEMORY[dtype], e.lanes)}")


def _load_reversed(e: Emitter, place: str, dtype: Dtype) -> str:
    """Consecutive elements, the last one first."""
    element = MEMORY[dtype]
    wide = vector(element, e.lanes)
    first = e.let(f"getelementptr {element}, ptr {place}, i64 {1 - e.lanes}")
    text = e.let(f"load {wide}, ptr {first}, align {WIDTH[dtype]}")
    order = ", ".join(f"i32 {lane}" for lane in reversed(range(e.lanes)))
    return e.let(f"shufflevector {wide} {text}, {wide} poison, <{e.lanes} x i32> <{order}>")


# -- stores ----------------------------------------------------------------------------------------


def store(
    e: Emitter, buffer: str, address: Size, value: IrValue, mode: str, mask: IrValue | None
) -> None:
    dtype = value.dtype
    if e.vector_axis is None:
        place = pointer(e, buffer, address, dtype)
        if mask is not None and e.machine.branches:
            e.run_if(mask.text, lambda: _put_one(e, place, value.text, dtype, mode))
            return
        if mask is not None:
            place = e.let(f"select i1 {mask.text}, ptr {place}, ptr {_nowhere(e)}")
        _put_one(e, place, value.text, dtype, mode)
        return
    steady = e.steady_parts(address)
    if _is_private_to_lanes(e, buffer):
        # Lanes that do not exist have memory all the same, which nobody reads.
        place = _private_place(e, buffer, address, dtype)
        exist, e.masks = e.masks, ()
        _store_vector(e, place, value, mode, mask)
        e.masks = exist
    elif steady is not None and steady[0] == 1:
        place = pointer(e, buffer, address, dtype)
        exist, aligned = e.masks, e.is_aligned
        if _is_whole_row(e, buffer, address):
            e.masks = ()
        e.is_aligned = aligned and (e.aligns_private or buffer not in e.kernel.private)
        _store_vector(e, place, value, mode, mask)
        e.masks, e.is_aligned = exist, aligned
    else:
        _store_lanes(e, buffer, address, value, mode, mask)


def _put_one(e: Emitter, place: str, text: str, dtype: Dtype, mode: str) -> None:
    if mode == "add" and e.is_atomic:
        name = "fadd" if dtype in FLOATS else "add"
        e.do(f"atomicrmw {name} ptr {place}, {REGISTER[dtype]} {text} monotonic")
        return
    if mode != "set":
        before = e.let(f"load {MEMORY[dtype]}, ptr {place}, align {WIDTH[dtype]}")
        text = _combined(e, mode, from_memory(e, before, dtype, 0), text, dtype, 0)
    raw = to_memory(e, text, dtype, 0)
    e.do(f"store {MEMORY[dtype]} {raw}, ptr {place}, align {WIDTH[dtype]}")


def _store_vector(e: Emitter, place: str, value: IrValue, mode: str, mask: IrValue | None) -> None:
    dtype, width = value.dtype, WIDTH[value.dtype]
    text = e.widen(value)
    allowed = None if mask is None else e.widen(mask)
    element, wide = MEMORY[dtype], vector(MEMORY[dtype], e.lanes)
    before = None
    if mode != "set" or (mask is not None and width not in e.machine.masked):
        before = from_memory(e, _load_vector(e, place, dtype, None), dtype, e.lanes)
    if mode != "set" and before is not None:
        text = _combined(e, mode, before, text, dtype, e.lanes)
    if width not in e.machine.masked and allowed is not None and before is not None:
        # Written back as it was where the mask says no.
        type_ = e.type_of(dtype, True)
        truth = e.type_of("b1", True)
        text = e.select(truth, allowed, type_, text, before)
        allowed = None
    raw = to_memory(e, text, dtype, e.lanes)
    active = _and(e, e.mask, allowed)
    if active is None:
        e.do(f"store {wide} {raw}, ptr {place}, align {e.alignment(width)}")
    elif width in e.machine.masked:
        name = f"@llvm.masked.store.{suffix(element, e.lanes)}.p0"
        e.do(
            f"call void {name}({wide} {raw}, ptr align {width} {place}, <{e.lanes} x i1> {active})"
        )
    else:
        through = e.once(0, "through", lambda: e.slot("i64", 64))
        e.do(f"store {wide} {raw}, ptr {through}, align {width}")
        e.do(_copy(place, through, _bytes(e, width)))


def _store_lanes(
    e: Emitter, buffer: str, address: Size, value: IrValue, mode: str, mask: IrValue | None
) -> None:
    """Lane after lane, as the rounds would be: two of them may mean the same element."""
    dtype = value.dtype
    active = _active(e, mask)
    text, type_ = e.widen(value), e.type_of(dtype, True)
    for lane, place in enumerate(_each_place(e, buffer, address, dtype, active)):
        one = e.let(f"extractelement {type_} {text}, i64 {lane}")
        _put_one(e, place, one, dtype, mode)


def _combined(e: Emitter, mode: str, a: str, b: str, dtype: Dtype, lanes: int) -> str:
    if dtype == "b1" and mode == "add":
        return e.let(f"or {vector('i1', lanes)} {a}, {b}")
    text = ROWS[mode](OperationCall(e, dtype, lanes, (a, b)))
    return round_half(e, text, dtype, lanes) if dtype in ("f16", "bf16") else text


# -- lanes -----------------------------------------------------------------------------------------


def _places(e: Emitter, buffer: str, address: Size, dtype: Dtype) -> str:
    """A pointer for each lane."""
    element, lanes = MEMORY[dtype], e.lanes
    steady = e.steady_parts(address)
    if steady is None:
        start, offsets = base(e, buffer), wide_size(e, address)
    else:
        start, offsets = pointer(e, buffer, address, dtype), lane_offsets(e, steady[0])
    return e.let(f"getelementptr {element}, ptr {start}, <{lanes} x i64> {offsets}")


def lane_offsets(e: Emitter, step: Size) -> str:
    """How far each lane is from the first."""
    if step == 1:
        return lane_numbers(e.lanes)
    level, _ = e.traits_of_size(step)
    wide = f"<{e.lanes} x i64>"
    return e.once(
        level,
        ("offsets", step, e.copy_if(False)),
        lambda: e.let(f"mul {wide} {wide_size(e, step)}, {lane_numbers(e.lanes)}"),
    )


def _each_place(
    e: Emitter, buffer: str, address: Size, dtype: Dtype, active: str | None
) -> list[str]:
    """A pointer for each lane, one by one; to nowhere for those that are not active."""
    places = _places(e, buffer, address, dtype)
    pointers = f"<{e.lanes} x ptr>"
    if active is not None:
        none = e.once(0, "nowheres", lambda: e.splat("ptr", _nowhere(e)))
        places = e.let(f"select <{e.lanes} x i1> {active}, {pointers} {places}, {pointers} {none}")
    return [e.let(f"extractelement {pointers} {places}, i64 {lane}") for lane in range(e.lanes)]


def _active(e: Emitter, mask: IrValue | None) -> str | None:
    return _and(e, e.mask, None if mask is None else e.widen(mask))


def _and(e: Emitter, a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return a or b
    return e.let(f"and <{e.lanes} x i1> {a}, {b}")


def _copy(to: str, from_: str, count: str) -> str:
    return f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {from_}, i64 {count}, i1 false)"


def _bytes(e: Emitter, width: int) -> str:
    """Of the lanes that exist."""
    return (
        e.let(f"mul i64 {e.counts[e.copy]}, {width}")
        if e.mask is not None
        else str(e.lanes * width)
    )
