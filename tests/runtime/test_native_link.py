"""Our linker against LLVM's: the same object, the same results."""

from __future__ import annotations

import ctypes

import pytest

from anyshape.runtime.native.build import Source as Text
from anyshape.runtime.native.build import build, disk_cache, load
from anyshape.runtime.native.elf import NotAnObject, read_object
from anyshape.runtime.native.engine import build_assembly, build_object, optimised_text
from anyshape.runtime.native.errors import NativeUnavailable
from anyshape.runtime.native.host_target import HostTarget, host_target
from anyshape.runtime.native.image import LoadedImage
from anyshape.runtime.native.link import CannotLink, link_image
from anyshape.runtime.native.linked_by_llvm import LoadedByLlvm
from anyshape.runtime.native.stored import from_bytes
from anyshape.runtime.native.symbols import address_of

#: Constants, a table of jumps, calls within and out, the address of a function, an outer object, a
#: table of addresses, text.
MANY_RELOCATIONS = """
@outer = external global i8
@table = private constant [2 x ptr] [ptr @one, ptr @two]
@words = private constant [3 x i8] c"abc"
@kept = constant <4 x float> <float 1.5, float 2.5, float 3.5, float 4.5>
declare ptr @memchr(ptr, i32, i64)
declare double @exp(double)
define internal i64 @one(i64 %x) noinline { %y = add i64 %x, 1  ret i64 %y }
define internal i64 @two(i64 %x) noinline { %y = mul i64 %x, 2  ret i64 %y }
define i64 @f(i64 %k, ptr %out) {
  switch i64 %k, label %other [
    i64 0, label %a0  i64 1, label %a1  i64 2, label %a2  i64 3, label %a3  i64 4, label %a4
    i64 5, label %a5 ]
a0:
  %x0 = call i64 @one(i64 41)
  ret i64 %x0
a1:
  %v = load <4 x float>, ptr @kept
  %w = fadd <4 x float> %v, <float 1.0, float 2.0, float 3.0, float 4.0>
  store <4 x float> %w, ptr %out
  ret i64 0
a2:
  %second = ptrtoint ptr %out to i64
  %odd = and i64 %second, 1
  %other.index = xor i64 %odd, 1
  %at = getelementptr ptr, ptr @table, i64 %other.index
  %function = load ptr, ptr %at
  %x2 = call i64 %function(i64 21)
  ret i64 %x2
a3:
  %found = call ptr @memchr(ptr @words, i32 98, i64 3)
  %from = ptrtoint ptr @words to i64
  %to = ptrtoint ptr %found to i64
  %x3 = sub i64 %to, %from
  ret i64 %x3
a4:
  %x4 = ptrtoint ptr @outer to i64
  ret i64 %x4
a5:
  %e = call double @exp(double 1.0)
  store double %e, ptr %out
  ret i64 5
other:
  ret i64 -1
}
"""

WANTED = [42, 0, 42, 1, 4242, 5, -1, -1]


def target() -> HostTarget:
    return host_target(disk_cache())


def made() -> bytes:
    return build_object(MANY_RELOCATIONS, *target()[:3])


def resolve(name: str) -> int:
    return 4242 if name == "outer" else address_of(name)


def results(address: int) -> tuple[list[int], list[float], float]:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)
    floats = (ctypes.c_float * 16)()
    doubles = (ctypes.c_double * 16)()
    got = [function(k, doubles if k == 5 else floats) for k in range(8)]
    return got, list(floats)[:4], doubles[0]


def test_both_linkers_agree():
    data = made()
    ours = LoadedImage(link_image(data), resolve)
    theirs = LoadedByLlvm(data, resolve)
    for loaded in (ours, theirs):
        address = loaded.address("f")
        assert address is not None
        assert results(address) == (WANTED, [2.5, 4.5, 6.5, 8.5], pytest.approx(2.718281828))
    assert ours.address("one") is None  # internal


def test_code_of_llvm_is_kept_too():
    """What our linker refuses is kept as an object."""
    text = "@state = global i64 3\ndefine i64 @g() { %x = load i64, ptr @state  ret i64 %x }"
    built = build(Text(text), target())
    assert built.kind == "object"
    loaded = load(from_bytes(built.to_bytes()))
    address = loaded.address("g")
    assert address is not None
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 3


def test_images_survive_the_disk():
    built = build(Text("define i64 @g() { ret i64 7 }", "g", None, ("why",)), target())
    assert built.kind == "image"
    assert from_bytes(built.to_bytes()) == built


def test_image_may_lie_anywhere():
    image = link_image(made())
    loaded = [LoadedImage(image, resolve) for _ in range(3)]
    addresses = [one.address("f") for one in loaded]
    assert len(set(addresses)) == 3
    for address in addresses:
        assert address is not None
        assert results(address)[0] == WANTED


def test_other_machines_are_refused():
    features = ("aarch64-unknown-linux-gnu", "neoverse-v1", "+neon")
    data = build_object("define i64 @g() { ret i64 7 }", *features)
    with pytest.raises(CannotLink):
        link_image(data)


@pytest.mark.parametrize("size", [0, 3, 63, 64, 200, -1])
def test_damaged_objects_are_refused(size: int):
    with pytest.raises(NotAnObject):
        read_object(made()[:size])


def test_wrong_text_is_told():
    with pytest.raises(NativeUnavailable, match="LLVM cannot read"):
        build_object("define i64 @g() { ret i32 %x }", *target()[:3])


def test_missing_symbols_are_told():
    text = (
        "declare void @nobody_has_this()\n"
        "define void @g() { call void @nobody_has_this() ret void }"
    )
    with pytest.raises(NativeUnavailable, match="nobody_has_this"):
        load(build(Text(text), target()))


def test_texts_to_read():
    assert "ret" in build_assembly("define i64 @g() { ret i64 7 }", *target()[:3])
    assert "ret i64 7" in optimised_text("define i64 @g() { ret i64 7 }", *target()[:3])
