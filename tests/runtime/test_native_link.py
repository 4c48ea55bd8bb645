"""Our linker against LLVM's: the same object, the same results."""

from __future__ import annotations

import ctypes

import pytest

from anyshape.runtime.loader.build import Source as Text
from anyshape.runtime.loader.build import build, disk_cache, load
from anyshape.runtime.loader.elf import NotAnObject, read_object
from anyshape.runtime.loader.errors import InvalidCode, NativeUnavailable
from anyshape.runtime.loader.host_target import HostTarget, host_target
from anyshape.runtime.loader.image import LoadedByLlvm, LoadedImage, from_bytes
from anyshape.runtime.loader.link import CannotLink, link_image
from anyshape.runtime.loader.symbols import address_of
from tests.codegen.assembler import build_assembly, build_object

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
    theirs = LoadedByLlvm([data], resolve)
    for loaded in (ours, theirs):
        address = loaded.address("f")
        assert address is not None
        assert results(address) == (WANTED, [2.5, 4.5, 6.5, 8.5], pytest.approx(2.718281828))
    assert ours.address("one") is None  # internal


#: They call each other, hand functions on, and have names of their own that are alike.
SEVERAL = (
    """
@own = private constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]
declare i64 @second(i64, ptr)
define internal i64 @hidden(i64 %x) noinline { %y = add i64 %x, 5  ret i64 %y }
define i64 @first(i64 %x) {
  %at = getelementptr i64, ptr @own, i64 %x
  %mine = load i64, ptr %at
  %theirs = call i64 @second(i64 %x, ptr @hidden)
  %both = add i64 %mine, %theirs
  ret i64 %both
}
define i64 @third(i64 %x) { %y = mul i64 %x, 1000  ret i64 %y }
""",
    """
@own = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
declare i64 @third(i64)
define internal i64 @hidden(i64 %x) noinline { %y = call i64 @third(i64 %x)  ret i64 %y }
define i64 @second(i64 %x, ptr %function) {
  %at = getelementptr i64, ptr @own, i64 %x
  %mine = load i64, ptr %at
  %given = call i64 %function(i64 %x)
  %own.hidden = call i64 @hidden(i64 %x)
  %a = add i64 %mine, %given
  %b = add i64 %a, %own.hidden
  ret i64 %b
}
""",
)


def test_several_objects_are_one():
    objects = [build_object(text, *target()[:3], quick=bool(n)) for n, text in enumerate(SEVERAL)]
    for order in (objects, objects[::-1]):
        for loaded in (
            LoadedImage(link_image(*order), resolve),
            LoadedByLlvm(order, resolve),
        ):
            address = loaded.address("first")
            assert address is not None
            function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
            assert [function(k) for k in range(4)] == [
                11 * (k + 1) + k + 5 + 1000 * k for k in range(4)
            ]


def test_several_objects_are_kept_for_llvm():
    state = (
        "@state = global i64 3\ndefine i64 @third(i64 %x) { %y = load i64, ptr @state ret i64 %y }"
    )
    caller = "declare i64 @third(i64)\ndefine i64 @g() { %y = call i64 @third(i64 1) ret i64 %y }"
    built = build(Text(caller, apart=(state,)), target())
    assert built.ends
    loaded = load(from_bytes(built.to_bytes()))
    address = loaded.address("g")
    assert address is not None
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 3


def test_code_of_llvm_is_kept_too():
    """What our linker refuses is kept as an object."""
    text = "@state = global i64 3\ndefine i64 @g() { %x = load i64, ptr @state  ret i64 %x }"
    built = build(Text(text), target())
    assert built.ends
    loaded = load(from_bytes(built.to_bytes()))
    address = loaded.address("g")
    assert address is not None
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 3


def test_images_survive_the_disk():
    built = build(Text("define i64 @g() { ret i64 7 }", "g", None, ("why",)), target())
    assert not built.ends
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
    data = bytearray(made())
    data[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    with pytest.raises(CannotLink, match="machine 243"):
        link_image(bytes(data))


#: Loads of every width from constants of its own, over more than one page; a jump that is a call.
WIDTHS = ("i8", "i16", "i32", "i64", "<2 x i64>")


def _all_widths() -> str:
    lines = [
        "@far = private constant [5000 x i8] zeroinitializer",
        "declare i32 @abs(i32)",
        "define i32 @jump(i32 %x) { %y = tail call i32 @abs(i32 %x)  ret i32 %y }",
        "define internal i64 @behind(i64 %x) noinline { %y = add i64 %x, 9  ret i64 %y }",
        "define i64 @within(i64 %x) { %y = tail call i64 @behind(i64 %x)  ret i64 %y }",
        "define i8 @distant(i64 %i) {",
        "  %at = getelementptr i8, ptr @far, i64 %i",
        "  %x = load i8, ptr %at  ret i8 %x }",
    ]
    for number, kind in enumerate(WIDTHS):
        value = "<i64 105, i64 205>" if kind.startswith("<") else str(101 + number)
        lines += [
            f"@c{number} = private constant {kind} {value}",
            f"define void @load{number}(ptr %out) {{",
            f"  %x = load volatile {kind}, ptr @c{number}",
            f"  store {kind} %x, ptr %out  ret void }}",
        ]
    return "\n".join(lines)


@pytest.mark.parametrize("quick", [False, True])
def test_all_widths(quick: bool):
    data = build_object(_all_widths(), *target()[:3], quick=quick)
    for loaded in (LoadedImage(link_image(data), resolve), LoadedByLlvm([data], resolve)):
        assert _called(loaded, "jump", ctypes.c_int32, -7) == 7
        assert _called(loaded, "within", ctypes.c_int64, 1) == 10
        assert _called(loaded, "distant", ctypes.c_int64, 4999) % 256 == 0
        for number in range(len(WIDTHS)):
            out = (ctypes.c_int64 * 2)()
            _called(loaded, f"load{number}", ctypes.c_void_p, ctypes.addressof(out))
            assert list(out) == [101 + number, 205 if number == 4 else 0]


def _called(loaded: LoadedImage | LoadedByLlvm, name: str, kind: type, argument: int) -> int:
    address = loaded.address(name)
    assert address is not None
    return ctypes.CFUNCTYPE(kind, kind)(address)(argument)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("triple", "cpu"),
    [("x86_64-unknown-linux-gnu", "haswell"), ("aarch64-unknown-linux-gnu", "neoverse-n1")],
)
def test_links_on_any_host(triple: str, cpu: str, quick: bool):
    """What is not run is linked all the same: nothing in it is unknown."""
    for text in (MANY_RELOCATIONS, _all_widths(), *SEVERAL):
        image = link_image(build_object(text, triple, cpu, "", quick=quick))
        assert image.code
        assert image.exports


@pytest.mark.parametrize("size", [0, 3, 63, 64, 200, -1])
def test_damaged_objects_are_refused(size: int):
    with pytest.raises(NotAnObject):
        read_object(made()[:size])


def test_wrong_text_is_told():
    with pytest.raises(InvalidCode, match="LLVM cannot read"):
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
