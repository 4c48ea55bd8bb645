"""Calls of torch's C functions in the text of a host function."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from anyshape.codegen.host.abi import HostUnsupported
from anyshape.codegen.host.error_codes import Reasons
from anyshape.codegen.host.externs import EXTERNS, ExternFunction
from anyshape.codegen.host.ir_builder import FunctionBody
from anyshape.loops.expr import WIDTH
from anyshape.loops.program import Area, Buffer, Extern
from anyshape.symbolic import Expr, Size

#: letter -> (type in C, the letter of what it is when it is given by address)
_OPTIONAL: Final = {"t": "T", "j": "i", "g": "f", "c": "b", "d": "dtype"}
_TYPES: Final = {"T": "ptr", "i": "i64", "f": "double", "b": "i32", "dtype": "i32", "s": "ptr"}


class HasSizes(Protocol):
    """Tells the operand to write for a size."""

    def of(self, size: Size) -> str: ...


class ExternCalls:
    def __init__(
        self,
        prefix: str,
        lines: FunctionBody,
        sizes: HasSizes,
        numbers: Mapping[str, str],
        pointer: Callable[[str], str],
        buffers: Mapping[str, Buffer],
        given: Mapping[str, int | str],
        dtypes: Mapping[str, int],
        stop_if: Callable[[str, int | str], None],
    ) -> None:
        self._prefix = prefix
        self._lines = lines
        self._sizes = sizes
        self._numbers = numbers
        self._pointer = pointer
        self._buffers = buffers
        #: inputs and outputs, by their place in `%tensors`
        self._given = given
        self._dtypes = dtypes
        self._stop_if = stop_if
        self._strings: list[str] = []
        self._adopted: dict[str, str] = {}
        self._handles: dict[str, str] = {}
        self._slots: list[str] = []

    def adopt(self, buffer: str, data: str, handle: str) -> None:
        """The buffer is what a call gives; `data` and `handle` are where its address and its handle
        are to be kept. The handle is deleted by whoever has the place, if it is not given up."""
        self._adopted[buffer] = data
        self._handles[buffer] = handle

    def give_up(self, buffer: str) -> None:
        self._delete(self._handles[buffer])

    def clean_up(self) -> None:
        """Delete what an error has left."""
        for slot in self._slots:
            self._delete(slot)

    def globals(self) -> list[str]:
        """What has to stand beside the function."""
        return self._strings

    def call(self, step: Extern, why: Reasons) -> None:
        row = EXTERNS.get(step.function)
        if row is None:
            raise HostUnsupported(f"there is no C function {step.function}")
        results = step.arguments[: row.results]
        parameters = step.arguments[row.results :]
        if len(parameters) != len(row.parameters):
            raise HostUnsupported(f"{row.name} takes {len(row.parameters)} parameters")
        reason = why.number(f"torch's {row.name} failed")
        texts: list[str] = []
        inputs: list[str] = []
        for letter, value in zip(row.parameters, parameters, strict=True):
            texts += self._argument(letter, value, reason, inputs)
        given = [self._result_slot(area) for area in results]
        texts += [f"ptr {slot}" for slot in given]
        failed = self._lines.let(f"call i32 @{row.symbol}({', '.join(texts)})")
        self._check(failed, reason)
        for slot in inputs:
            self._delete(slot)
        for area, slot in zip(results, given, strict=True):
            self._take(area, slot, reason)

    # -- arguments -------------------------------------------------------------------------------

    def _argument(self, letter: str, value: Any, reason: int, inputs: list[str]) -> list[str]:
        if letter in _OPTIONAL:
            if value is None:
                return ["ptr null"]
            plain = _OPTIONAL[letter]
            if plain == "T":
                place = self._lines.stack("ptr")
                self._lines.do(f"store ptr {self._tensor(value, reason, inputs)}, ptr {place}")
                return [f"ptr {place}"]
            place = self._lines.stack(_TYPES[plain])
            self._lines.do(f"store {_TYPES[plain]} {self._operand(plain, value)}, ptr {place}")
            return [f"ptr {place}"]
        if letter == "T":
            return [f"ptr {self._tensor(value, reason, inputs)}"]
        if letter == "I":
            return [f"ptr {self._list(value)}", f"i64 {len(value)}"]
        return [f"{_TYPES[letter]} {self._operand(letter, value)}"]

    def _operand(self, kind: str, value: Any) -> str:
        match kind:
            case "i" if isinstance(value, int | Expr) and not isinstance(value, bool):
                return self._sizes.of(value)
            case "f" if isinstance(value, str):
                return self._numbers[value]
            case "f" if isinstance(value, float | int):
                return _double(float(value))
            case "b" if isinstance(value, bool):
                return str(int(value))
            case "dtype" if isinstance(value, str):
                return str(self._dtypes[value])
            case "s" if isinstance(value, str):
                return self._string(value)
            case _:
                raise HostUnsupported(f"{value!r} where a C function takes {kind}")

    def _string(self, value: str) -> str:
        name = f"@{self._prefix}.s{len(self._strings)}"
        data = value.encode() + b"\0"
        body = "".join(f"\\{byte:02X}" for byte in data)
        self._strings.append(f'{name} = private constant [{len(data)} x i8] c"{body}"')
        return name

    def _list(self, values: tuple[Size, ...]) -> str:
        if not values:
            return "null"
        array = self._lines.stack(f"[{len(values)} x i64]", hint="list")
        self._lines.fill(array, [self._sizes.of(size) for size in values], "i64")
        return array

    # -- tensors ---------------------------------------------------------------------------------

    def _slot(self) -> str:
        """A place for a handle, empty at first."""
        slot = self._lines.stack("ptr", hint="slot")
        self._lines.at_start(f"store ptr null, ptr {slot}")
        self._slots.append(slot)
        return slot

    def _tensor(self, area: Any, reason: int, inputs: list[str]) -> str:
        """A handle to an area; the slots of those that are made are added to `inputs`."""
        if not isinstance(area, Area):
            raise HostUnsupported(f"{area!r} where a C function takes a tensor")
        slot = self._slot()
        inputs.append(slot)
        let = self._lines.let
        start, shape = self._start(area), self._shape(area)
        given = self._given.get(area.buffer)
        if given is not None and is_whole(area, self._buffers[area.buffer]):
            place = f"ptr %tensors, i64 {given}"
            handle = let(
                f"call ptr @anyshape_host_tensor({place}, ptr {start}, {shape}, ptr {slot})"
            )
            self._stop_if(let(f"icmp eq ptr {handle}, null"), reason)
            return handle
        self._check(let(f"call i32 @anyshape_host_area(ptr {start}, {shape}, ptr {slot})"), reason)
        return let(f"load ptr, ptr {slot}", "h")

    def _start(self, area: Area) -> str:
        pointer = self._pointer(area.buffer)
        if area.offset == 0:
            return pointer
        width = WIDTH[self._buffers[area.buffer].dtype]
        return self._lines.let(
            f"getelementptr [{width} x i8], ptr {pointer}, i64 {self._sizes.of(area.offset)}"
        )

    def _shape(self, area: Area) -> str:
        """Rank, sizes and strides, and the number of the dtype: as the helpers take them."""
        dims = self._list((*area.sizes, *area.strides))
        dtype = self._dtypes[self._buffers[area.buffer].dtype]
        return f"i64 {len(area.sizes)}, ptr {dims}, i32 {dtype}"

    def _result_slot(self, area: Any) -> str:
        if isinstance(area, Area) and area.buffer in self._adopted:
            return self._handles[area.buffer]
        return self._slot()

    def _take(self, area: Any, slot: str, reason: int) -> None:
        """Make a tensor that torch gave what the segment has to have."""
        if area is None:
            self._delete(slot)
            return
        if area.buffer in self._adopted:
            data = self._adopted[area.buffer]
            failed = self._lines.let(
                f"call i32 @anyshape_host_adopt(ptr {slot}, {self._shape(area)}, ptr {data})"
            )
            self._check(failed, reason)
            return
        handle = self._lines.let(f"load ptr, ptr {slot}", "h")
        start, shape = self._start(area), self._shape(area)
        failed = self._lines.let(
            f"call i32 @anyshape_host_copy(ptr {handle}, ptr {start}, {shape})"
        )
        self._delete(slot)
        self._check(failed, reason)

    def _delete(self, slot: str) -> None:
        self._lines.do(f"call void @anyshape_host_delete(ptr {slot}, i64 1)")

    def _check(self, failed: str, reason: int) -> None:
        bad = self._lines.let(f"icmp ne i32 {failed}, 0")
        self._stop_if(bad, reason)


def is_whole(area: Area, buffer: Buffer) -> bool:
    return area.offset == 0 and area.sizes == buffer.sizes and area.strides == buffer.strides


def declaration(row: ExternFunction) -> str:
    types: list[str] = []
    for letter in row.parameters:
        if letter == "I":
            types += ["ptr", "i64"]
        else:
            types.append("ptr" if letter in _OPTIONAL else _TYPES[letter])
    types += ["ptr"] * row.results
    return f"declare i32 @{row.symbol}({', '.join(types)})"


def _double(value: float) -> str:
    """Exactly: LLVM reads the bits in hexadecimal."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
