"""Launches of kernels and calls of torch's C functions in the text of a function that runs steps.

Where one fails, the function goes to its end with the number of a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from anyshape.codegen.host.abi import HostAbi, HostUnsupported, Reasons
from anyshape.codegen.host.externs import (
    LISTS,
    OPTIONAL,
    TYPES,
    UNDEFINED,
    is_whole,
    row_of,
)
from anyshape.codegen.ir_builder import FunctionBody, float_literal
from anyshape.loops.expr import WIDTH
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Area, Buffer, Extern, Launch
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Expr, Size

CLEANUP: Final = "%cleanup"


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The function of a kernel, and how many bytes each of its threads needs to itself."""

    name: str
    scratch: Size = 0
    #: what it means if the function gives 1, 2, ...; None: a check of the kernel has failed
    failures: tuple[str, ...] | None = None


class HasSizes(Protocol):
    """Tells the operand to write for a size."""

    def of(self, size: Size) -> str: ...


@dataclass(frozen=True, slots=True)
class Known:
    """What all functions of a segment know: its buffers and kernels, torch's numbers and names, and
    what may go wrong."""

    buffers: Mapping[str, Buffer]
    kernels: Mapping[Kernel, KernelCode]
    abi: HostAbi
    why: Reasons


class ProductAreas(Protocol):
    """A product: `codegen/host/products.py`."""

    @property
    def kind(self) -> int: ...
    @property
    def words(self) -> tuple[Size, ...]: ...
    @property
    def a(self) -> Area: ...
    @property
    def b(self) -> Area: ...
    @property
    def d(self) -> Area: ...
    @property
    def bias(self) -> Area | None: ...


class Steps:
    """`pointer`: where a buffer is. `given`: the places of inputs and outputs in `%tensors`.
    `handed`: outputs that are tensors of C functions, with their places."""

    def __init__(
        self,
        known: Known,
        prefix: str,
        lines: FunctionBody,
        sizes: HasSizes,
        numbers: Mapping[str, str],
        pointer: Callable[[str], str],
        given: Mapping[str, int | str],
        handed: Mapping[str, int] | None = None,
    ) -> None:
        self._known = known
        self._prefix = prefix
        self._lines = lines
        self._sizes = sizes
        self._numbers = numbers
        self._pointer = pointer
        self._given = given
        self._handed = handed or {}
        self._status = lines.stack("i64", hint="status")
        #: where buffers are that have changed places
        self._moved: dict[str, str] = {}
        #: strings, which have to stand beside the function
        self.globals: list[str] = []
        self._adopted: dict[str, str] = {}
        self._handles: dict[str, str] = {}
        #: handles to areas, in the call that is written
        self._shown: dict[Area, str] = {}
        self._slots: list[str] = []
        #: whether what runs before the next step is a kernel of ours
        self._is_behind_launch = False

    # -- kernels ---------------------------------------------------------------------------------

    def launch(self, step: Launch, scratch: str | None) -> None:
        """`scratch`: memory for the kernel's threads, if it needs some."""
        let = self._lines.let
        if self._known.abi.is_launched and self._is_behind_launch:
            # It needs none, and is told so that another one runs before it.
            scratch = "inttoptr (i64 1 to ptr)"
        self._is_behind_launch = True
        code = self._known.kernels[step.kernel]
        arrays = [
            self._array("ptr", [self._where(name) for name in step.buffers]),
            self._array("i64", [self._sizes.of(size) for size in step.sizes]),
            self._array("double", [self._numbers[name] for name in step.numbers]),
            scratch or "null",
        ]
        failed = let(f"call i32 @{code.name}({', '.join(f'ptr {array}' for array in arrays)})")
        messages = code.failures
        if messages is None:
            messages = [check.message for stage in step.kernel.stages for check in stage.checks]
        if not messages:
            return
        first = self._known.why.numbers(messages)
        bad = let(f"icmp ne i32 {failed}, 0")
        index = let(f"sext i32 {failed} to i64")
        self.stop_if(bad, let(f"add i64 {index}, {first - 1}"))

    def _array(self, type_: str, values: Sequence[str]) -> str:
        """On the stack, for one launch."""
        return self._lines.array(type_, values) if values else "null"

    # -- the end of the function -----------------------------------------------------------------

    def stop_if(self, condition: str, reason: int | str) -> None:
        """Go to the end with this reason."""
        with self._lines.only_if(condition):
            self._lines.do(f"store i64 {reason}, ptr {self._status}")
            self._lines.do(f"br label {CLEANUP}")

    def _check(self, failed: str, reason: int) -> None:
        self.stop_if(self._lines.let(f"icmp ne i32 {failed}, 0"), reason)

    def end(self) -> None:
        """All went well; what comes now is done in any case: delete what an error has left."""
        self._lines.do(f"store i64 0, ptr {self._status}")
        self._lines.do(f"br label {CLEANUP}")
        self._lines.label(CLEANUP)
        for slot in self._slots:
            self._delete(slot)

    def give(self) -> None:
        """Return the reason, or 0."""
        self._lines.do(f"ret i64 {self._lines.let(f'load i64, ptr {self._status}')}")

    # -- C functions -----------------------------------------------------------------------------

    def adopt(self, buffer: str, data: str, handle: str) -> None:
        """The buffer is what a call gives; `data` and `handle` are where its address and its handle
        are to be kept. The handle is deleted by whoever has the place, if it is not given up."""
        self._adopted[buffer] = data
        self._handles[buffer] = handle

    def give_up(self, buffer: str) -> None:
        self._delete(self._handles[buffer])

    def branch(self, number: int) -> None:
        """What is called from now on is in a branch: `branches.py`."""
        self._is_behind_launch = False
        self._lines.do(f"call void @anyshape_gpu_branch(i64 {number})")

    def _where(self, buffer: str) -> str:
        return self._moved.get(buffer) or self._pointer(buffer)

    def in_order_of(self, areas: Sequence[Area], groups: Sequence[Sequence[str]]) -> None:
        """Let buffers change places where that puts them in the order of these areas, from low
        addresses to high ones. `groups`: those in one place, for each of the areas."""
        let = self._lines.let
        first, last = self._start(areas[0]), self._start(areas[-1])
        places = [self._where(names[0]) for names in groups]
        falls = let(f"icmp ult ptr {last}, {first}")
        rises = let(f"icmp ult ptr {places[0]}, {places[-1]}")
        turns = let(f"icmp eq i1 {falls}, {rises}")
        for names, here, there in zip(groups, places, places[::-1], strict=True):
            moved = let(f"select i1 {turns}, ptr {there}, ptr {here}", "moved")
            self._moved |= dict.fromkeys(names, moved)

    def multiply(self, products: Sequence[ProductAreas]) -> str:
        """Products of one matrix by the library: a bit for each that is left, as a value."""
        self._is_behind_launch = False
        first = products[0]
        words = [str(first.kind), *(self._sizes.of(size) for size in first.words)]
        key = self._array("i64", words)
        # A row more, that the last member has a next one.
        members: list[str] = []
        for each in (*products, products[-1]):
            bias = "null" if each.bias is None else self._start(each.bias)
            members += [self._start(each.b), bias, self._start(each.d)]
        arrays = f"ptr {self._start(first.a)}, ptr {self._array('ptr', members)}"
        count, left = str(len(products)), "0"
        for each in products:
            if each.bias is not None and each.bias.sizes != each.d.sizes[-1:]:
                # One element may be a bias for all columns: that is torch's.
                sizes = (self._sizes.of(size) for size in (*each.bias.sizes, each.d.sizes[-1]))
                fits = self._lines.let(f"icmp eq i64 {', '.join(sizes)}")
                count = self._lines.let(f"select i1 {fits}, i64 {count}, i64 0")
                left = self._lines.let(f"select i1 {fits}, i64 {left}, i64 -1")
        given = f"ptr @anyshape_gpu, ptr {key}, i64 {count}, {arrays}"
        found = self._lines.let(f"call i64 @anyshape_gpu_products({given})", "left")
        return self._lines.let(f"or i64 {found}, {left}", "left")

    @contextmanager
    def only_if_bit(self, mask: str, place: int) -> Iterator[None]:
        """What is called where this bit is set."""
        bit = self._lines.let(f"and i64 {mask}, {1 << place}")
        with self._lines.only_if(self._lines.let(f"icmp ne i64 {bit}, 0"), "left") as on:
            yield
            self._lines.do(f"br label {on}")

    def call(self, step: Extern) -> None:
        self._is_behind_launch = False
        row = row_of(step)
        results = step.arguments[: len(row.results)]
        parameters = step.arguments[len(row.results) :]
        if len(parameters) != len(row.parameters):
            raise HostUnsupported(f"{row.name} takes {len(row.parameters)} parameters")
        reason = self._known.why.number(f"torch's {row.name} failed")
        texts: list[str] = []
        inputs: list[str] = []
        self._shown = {}
        for letter, value in zip(row.parameters, parameters, strict=True):
            texts += self._argument(letter, value, reason, inputs)
        given = [
            self._result_slot(area) if letter == "T" else self._lines.stack("i64", hint="number")
            for letter, area in zip(row.results, results, strict=True)
        ]
        texts += [f"ptr {slot}" for slot in given]
        symbol = row.symbol(self._known.abi.device)
        self._check(self._lines.let(f"call i32 @{symbol}({', '.join(texts)})"), reason)
        for slot in inputs:
            self._delete(slot)
        for letter, area, slot in zip(row.results, results, given, strict=True):
            if letter == "T":
                self._take(area, slot, reason)

    def _argument(self, letter: str, value: Any, reason: int, inputs: list[str]) -> list[str]:
        if letter in LISTS:
            return self._given_list(letter, value or ())
        plain = OPTIONAL.get(letter)
        if plain is None:
            return [f"{TYPES[letter]} {self._operand(letter, value, reason, inputs)}"]
        if value is None:
            return ["ptr null"]
        place = self._lines.stack(TYPES[plain])
        operand = self._operand(plain, value, reason, inputs)
        self._lines.do(f"store {TYPES[plain]} {operand}, ptr {place}")
        return [f"ptr {place}"]

    def _given_list(self, letter: str, values: Sequence[Any]) -> list[str]:
        if letter == "J" and values:
            raise HostUnsupported("a list by its address")
        array = self._list(values) if letter != "B" else self._list([*map(int, values)], "i32")
        return [f"ptr {array}", f"i64 {len(values)}"]

    def _operand(self, kind: str, value: Any, reason: int, inputs: list[str]) -> str:
        match kind:
            case "u" if value is None:
                return self._undefined(reason, inputs)
            case "T" | "u":
                return self._tensor(value, reason, inputs)
            case "i" if isinstance(value, int | Expr) and not isinstance(value, bool):
                return self._sizes.of(value)
            case "f" if isinstance(value, str):
                return self._numbers[value]
            case "f" if isinstance(value, float | int):
                return float_literal(float(value))
            case "b" if isinstance(value, bool):
                return str(int(value))
            case "dtype" if isinstance(value, str):
                return str(self._known.abi.dtypes[value])
            case "s" if isinstance(value, str):
                return self._string(value)
            case _:
                raise HostUnsupported(f"{value!r} where a C function takes {kind}")

    def _string(self, value: str) -> str:
        name = f"@{self._prefix}.s{len(self.globals)}"
        data = value.encode() + b"\0"
        body = "".join(f"\\{byte:02X}" for byte in data)
        self.globals.append(f'{name} = private constant [{len(data)} x i8] c"{body}"')
        return name

    def _list(self, values: Sequence[Size], kind: str = "i64") -> str:
        if not values:
            return "null"
        array = self._lines.stack(f"[{len(values)} x {kind}]", hint="list")
        self._lines.fill(array, [self._sizes.of(size) for size in values], kind)
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
        # One tensor for one area: what torch adds to in place it does not copy first.
        found = self._shown.get(area)
        if found is None:
            found = self._shown[area] = self._new_tensor(area, reason, inputs)
        return found

    def _undefined(self, reason: int, inputs: list[str]) -> str:
        slot = self._slot()
        inputs.append(slot)
        self._check(self._lines.let(f"call i32 @{UNDEFINED}(ptr {slot})"), reason)
        return self._lines.let(f"load ptr, ptr {slot}", "h")

    def _new_tensor(self, area: Area, reason: int, inputs: list[str]) -> str:
        slot = self._slot()
        inputs.append(slot)
        let = self._lines.let
        start, shape = self._start(area), self._shape(area)
        given = self._given.get(area.buffer)
        if given is not None and is_whole(area, self._known.buffers[area.buffer]):
            place = f"ptr %tensors, i64 {given}"
            handle = let(
                f"call ptr @anyshape_host_tensor({place}, ptr {start}, {shape}, ptr {slot})"
            )
            self.stop_if(let(f"icmp eq ptr {handle}, null"), reason)
            return handle
        self._check(let(f"call i32 @anyshape_host_area(ptr {start}, {shape}, ptr {slot})"), reason)
        return let(f"load ptr, ptr {slot}", "h")

    def _start(self, area: Area) -> str:
        pointer = self._where(area.buffer)
        if area.offset == 0:
            return pointer
        width = WIDTH[self._known.buffers[area.buffer].dtype]
        return self._lines.let(
            f"getelementptr [{width} x i8], ptr {pointer}, i64 {self._sizes.of(area.offset)}"
        )

    def _shape(self, area: Area) -> str:
        """Rank, sizes and strides, and the number of the dtype: as the helpers take them."""
        dims = self._list((*area.sizes, *area.strides))
        dtype = self._known.abi.dtypes[self._known.buffers[area.buffer].dtype]
        return f"i64 {len(area.sizes)}, ptr {dims}, i32 {dtype}"

    def _result_slot(self, area: Any) -> str:
        if isinstance(area, Area) and area.buffer in self._adopted:
            return self._handles[area.buffer]
        return self._slot()

    def _take(self, area: Any, slot: str, reason: int) -> None:
        """Make a tensor that torch gave what the segment has to have."""
        let = self._lines.let
        if area is None:
            self._delete(slot)
        elif area.buffer in self._handed:
            places = (
                self._lines.element(array, self._handed[area.buffer], "ptr")
                for array in ("%tensors", "%buffers")
            )
            where = ", ".join(f"ptr {place}" for place in (slot, *places))
            failed = let(f"call i32 @anyshape_host_hand_over({where}, {self._shape(area)})")
            self._check(failed, reason)
        elif area.buffer in self._adopted:
            kept = f"ptr {slot}, {self._shape(area)}, i1 false, ptr {self._adopted[area.buffer]}"
            self._check(let(f"call i32 @anyshape_host_adopt({kept})"), reason)
        else:
            handle = let(f"load ptr, ptr {slot}", "h")
            copied = f"ptr {handle}, ptr {self._start(area)}, {self._shape(area)}"
            failed = let(f"call i32 @anyshape_host_copy({copied})")
            self._delete(slot)
            self._check(failed, reason)

    def _delete(self, slot: str) -> None:
        self._lines.do(f"call void @anyshape_host_delete(ptr {slot}, i64 1)")
