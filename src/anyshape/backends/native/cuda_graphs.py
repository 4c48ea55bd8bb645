"""The run of a graph as a CUDA graph, at each shape that is hot.

A CUDA graph is for one shape and for the addresses that it was recorded with. Inputs that stay
where they are (parameters, caches that are written to) are part of its key; others are copied to
where it reads them. Results are copied out of the memory that graphs share, so that no later call
changes what a caller holds.

`ShapeGraphs` stands for the function that runs the graph: a call either replays, or records, or
runs that function.
"""

from __future__ import annotations

import functools
import time
import types
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.backends.native.alias_check import may_write, no_alias
from anyshape.backends.native.recorded_graph import Pool, RecordedGraph, record
from anyshape.backends.native.variant import Variant
from anyshape.config import config
from anyshape.events import kinds
from anyshape.events.native_counts import count
from anyshape.events.stream import stream
from anyshape.graph.alias_analysis import function_of, match_of, result_of, root_of
from anyshape.graph.attention_logsumexp import argument_nodes
from anyshape.graph.placed_stages import device_of
from anyshape.graph.plan import leaves
from anyshape.ops.effects import changes_argument, writes_untold, written_by
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.meta import Meta
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.node_meta import CALL, PARAMETER, RESULT, SYMBOL
from anyshape.ops.origins import is_of_torch
from anyshape.ops.runtime_checks import check_dense, check_sizes
from anyshape.ops.table import lookup
from anyshape.runtime.cuda.graph_pool import CannotRecord, GraphDevice
from anyshape.symbolic import Size, Symbol, product, substitute
from anyshape.symbolic.expr import bare_symbol, symbols_of

#: Shapes whose calls are counted; the count begins anew behind it.
_MOST_COUNTED: Final = 4096
#: A graph that was replayed so often has been worth its recording.
_USED: Final = 16
#: Shapes that are named to people.
_MOST_NAMED: Final = 8


def _float32_precisions() -> Iterator[Callable[[], Any]]:
    """What of float32 may be rounded. The two older functions raise where a user has set it with
    the newer ones, and these know what was set with the older."""
    if (newer := getattr(torch._C, "_get_fp32_precision_getter", None)) is None:
        yield from (torch._C._get_cudnn_allow_tf32, torch._C._get_float32_matmul_precision)
    else:
        yield from (functools.partial(newer, "cuda", kind) for kind in ("matmul", "conv", "rnn"))


#: What the kernels that torch chooses depend on, beside their arguments.
_FLAGS: Final = (
    *_float32_precisions(),
    *(
        getattr(torch._C, name)
        for name in (
            "_get_cublas_allow_fp16_reduced_precision_reduction",
            "_get_cublas_allow_bf16_reduced_precision_reduction",
            "_get_cublas_allow_fp16_accumulation",
            "_get_cudnn_enabled",
            "_get_cudnn_benchmark",
            "_get_cudnn_deterministic",
            "_get_deterministic_algorithms",
            "_get_flash_sdp_enabled",
            "_get_mem_efficient_sdp_enabled",
            "_get_math_sdp_enabled",
            "_get_cudnn_sdp_enabled",
            "_get_blas_preferred_backend",
            "_get_linalg_preferred_backend",
        )
        if hasattr(torch._C, name)
    ),
)


def flags_now() -> tuple[Any, ...]:
    return tuple([flag() for flag in _FLAGS])


#: A stream, flags, and what there is to know of inputs.
CallKey = tuple[int, tuple[Any, ...], Any]


class Device(Protocol):
    """A GPU: `runtime/cuda/graph_pool.py`."""

    def stream(self) -> int | None: ...
    def synchronize(self) -> None: ...
    def pool(self, stream: int) -> Pool: ...


class Inputs(NamedTuple):
    """What is known of a graph's inputs, by their places."""

    #: whose sizes and strides the graph is for, and no others
    static: frozenset[int]
    #: that are hardly ever elsewhere
    parameters: frozenset[int]
    #: that the graph may write to
    written: frozenset[int]


def why_not(graph: torch.fx.Graph) -> str:
    """Why a graph cannot be recorded; empty if nothing is known that speaks against it."""
    found = {meta.device for node in graph.nodes for meta in _metas(node)}
    return _why_not_on(found) or next(filter(None, map(_why_not_node, graph.nodes)), "")


def _why_not_on(devices: Collection[torch.device]) -> str:
    if any(device.type != "cuda" for device in devices):
        return "it has tensors on the CPU"
    return "" if len(devices) == 1 else "it has tensors on several GPUs"


def _why_not_node(node: torch.fx.Node) -> str:
    if node.op not in ("call_function", "call_method"):
        return ""
    given = [meta for each in node.all_input_nodes for meta in _metas(each)]
    if (SYMBOL in node.meta and given) or _sizes_of_data(_metas(node)) - _sizes_of_data(given):
        return f"`{node.name}` waits for the GPU: its value is needed on the CPU"
    if region_of(node.target) is not None or not only_starts_kernels(function_of(node)):
        return f"`{node.name}` may do more than start kernels"
    return ""


def _sizes_of_data(metas: Sequence[Meta]) -> set[Symbol]:
    sizes = [size for meta in metas for size in meta.shape]
    return {each for size in sizes for each in symbols_of(size) if not each.backed}


def recordable_place(node: torch.fx.Node) -> tuple[torch.device, bool] | None:
    """The device of an operator, and whether it may be a part of a CUDA graph."""
    device = device_of(node)
    return None if device is None else (device, not _why_not_node(node))


#: What has code in Python and no row, and does nothing that a replay would miss: modes are compared
#: when a graph is recorded.
_OURS: Final = frozenset({check_dense, check_sizes, enter_mode, leave_mode})
_OF_TORCH: Final = ("torch.functional", "torch.nn.functional", "torch._tensor")
#: Whose native functions start kernels, or are about numbers.
_NATIVE: Final = frozenset({"torch", "_operator", "math"})
_NATIVE_KINDS: Final = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
)
#: has the functions of `torch` as methods
_FUNCTIONS: Final = type(vars(torch._C)["_VariableFunctions"])
_OF_NUMBERS: Final = frozenset({abs, min, max, int, float, bool, round, sum, pow, divmod})


def only_starts_kernels(function: Any) -> bool:
    """Whether all that a call does is on the GPU, or follows from the key. Operators of libraries
    may have code in Python, which a replay leaves out; kernels of the program may be tuned at some
    call, and follow addresses to what is copied."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return str(function).partition(".")[0] in ("aten", "prims")
    if lookup(function) is not None or function in _OURS or function in _OF_NUMBERS:
        return True
    if isinstance(function, types.FunctionType):
        return is_of_torch(function) and function.__module__ in _OF_TORCH
    if isinstance(function, types.MethodWrapperType):  # `x.T`, as the call of its descriptor
        function = function.__self__
    owner = getattr(function, "__objclass__", None) or getattr(function, "__self__", None)
    if owner is _FUNCTIONS:
        return True
    home = owner.__name__ if isinstance(owner, types.ModuleType) else _module_of(owner)
    return isinstance(function, _NATIVE_KINDS) and home.partition(".")[0] in _NATIVE


def _module_of(owner: object) -> str:
    return str((owner if isinstance(owner, type) else type(owner)).__module__)


def _metas(node: torch.fx.Node) -> list[Meta]:
    return [leaf for leaf in leaves(result_of(node)) if isinstance(leaf, Meta)]


def inputs_of(graph: torch.fx.Graph) -> Inputs:
    places = [node for node in graph.nodes if node.op == "placeholder"]
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    written = {root_of(each) for node in calls for each in _written(node)}
    chosen = (_is_static, lambda node: PARAMETER in node.meta, written.__contains__)
    numbered = list(enumerate(places))
    return Inputs(*(frozenset(n for n, node in numbered if is_so(node)) for is_so in chosen))


def _is_static(node: torch.fx.Node) -> bool:
    meta = node.meta.get(RESULT)
    return isinstance(meta, Meta) and all(isinstance(n, int) for n in (*meta.shape, *meta.strides))


def _written(node: torch.fx.Node) -> list[torch.fx.Node]:
    """What a call may write to."""
    function, match = function_of(node), match_of(node)
    if match is None or writes_untold(function):
        is_told = not changes_argument(function, node.args, node.kwargs)
        return [] if is_told and not writes_untold(function) else node.all_input_nodes
    found: list[Any] = [*written_by(match, node.args, node.kwargs).values()]
    if match.in_place or changes_argument(function, node.args, node.kwargs):
        found += [node.args[:1], node.kwargs.get("out"), node.kwargs.get("input")]
    return [each for each in leaves(found) if isinstance(each, torch.fx.Node)]


class Variants:
    """Other code for a graph where it is recorded, by how many rows there are of what is multiplied
    with weights. Of few, products of our own read the weight once, and the library's are made for
    more; of some more, products that are independent of each other have room side by side. And by
    what attention is over: torch's kernels take longer to begin with few keys than ours does."""

    #: by rows at most: elements of a weight at most, up to which ours are faster on an H200
    _FEW: Final = {1: 1 << 24, 4: 1 << 20}
    #: so many rows leave room for other products
    _SOME: Final = 1024
    #: keys of attention, and scores, up to which a kernel of ours is faster on an H200
    _MOST_KEYS: Final = 128
    _MOST_SCORES: Final = 1 << 21

    def __init__(
        self, graph: torch.fx.Graph, build: Callable[[Variant], Callable[..., Any]]
    ) -> None:
        self._build = build
        self._built: dict[Variant, Callable[..., Any]] = {}
        self._inputs = [
            node.meta.get(SYMBOL, node.meta.get(RESULT))
            for node in graph.nodes
            if node.op == "placeholder"
        ]
        self._rows: list[Size] = []
        #: of each attention
        self._keys: list[Size] = []
        self._scores: list[Size] = []
        for node in graph.nodes:
            match = match_of(node)
            if match is not None and match.op.name == "linear":
                operands = [meta for each in node.all_input_nodes[:1] for meta in _metas(each)]
                self._rows += [product(list(meta.shape[:-1])) for meta in operands]
            attention = argument_nodes(node) if CALL in node.meta else None
            if attention is not None:
                query, key = (attention[name].meta[RESULT].shape for name in ("query", "key"))
                self._keys += key[-2:-1]
                self._scores.append(product([*query[:-1], *key[-2:-1]]))

    def run_for(self, args: Sequence[Any]) -> Callable[..., Any] | None:
        """The code for these inputs, if it is not what all have."""
        values = self._values(args)
        few_keys = (
            0 < _most(self._keys, values) <= self._MOST_KEYS
            and 0 < _most(self._scores, values) <= self._MOST_SCORES
        )
        chosen = self._variant(_most(self._rows, values), few_keys)
        if chosen == Variant():
            return None
        if chosen not in self._built:
            self._built[chosen] = self._build(chosen)
        return self._built[chosen]

    def _values(self, args: Sequence[Any]) -> dict[Symbol, int]:
        values: dict[Symbol, int] = {}
        for known, value in zip(self._inputs, args, strict=True):
            if isinstance(known, Symbol):
                values[known] = value
            elif isinstance(known, Meta):
                for size, actual in zip(known.shape, value.shape, strict=True):
                    if (symbol := bare_symbol(size)) is not None:
                        values[symbol] = actual
        return values

    def _variant(self, rows: int, few_keys: bool) -> Variant:
        for most, elements in self._FEW.items():
            if 0 < rows <= most:
                return Variant(elements, branches=True, few_keys=few_keys)
        return Variant(branches=0 < rows <= self._SOME, few_keys=few_keys)


def _most(sizes: Sequence[Size], values: dict[Symbol, int]) -> int:
    """The largest; 0 if not all are known."""
    found = [substitute(each, values) for each in sizes]
    known = [each for each in found if isinstance(each, int)]
    return max(known) if known and len(known) == len(found) else 0


_TENSORS: Final = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_NUMBERS: Final = (int, float, bool, type(None), torch.dtype, torch.device)


def has_address(value: Any) -> bool:
    """Whether it is a tensor whose elements lie in memory, and nothing else does."""
    return type(value) in _TENSORS and value.layout == torch.strided and not value.is_quantized


class ShapeGraphs:
    """A function of a graph's inputs, by CUDA graphs where shapes are hot.

    `apart`: of what native code writes to, whether it may, sharing memory with nothing else.
    `check`: called before a replay."""

    def __init__(
        self,
        run: Callable[..., Any],
        inputs: Inputs,
        device: Device,
        apart: Callable[..., bool] | None = None,
        check: Callable[[], None] = lambda: None,
        variants: Variants | None = None,
        compile_id: str = "",
    ) -> None:
        self._compile_id = compile_id
        self._run = run
        self._inputs = inputs
        self._device = device
        self._apart = apart
        self._check = check
        self._variants = variants
        self._graphs: OrderedDict[Any, Any] = OrderedDict()
        self._calls: dict[Any, int] = {}
        #: the address that each input had last which may stay where it is
        self._last: dict[int, int] = {}
        #: inputs that did not
        self._moving: set[int] = set()
        self._key: Callable[..., Any] | None = None
        #: inputs by place, since there is a key: those that are copied, and written to
        self._copied: list[int] = []
        self._written: list[int] = []
        #: shapes that are not recorded, and why
        self._refused: dict[Any, str] = {}
        #: why none is recorded from now on
        self._given_up = ""
        self._replays = 0

    def __call__(self, *args: Any) -> Any:
        key = self._key_of_call(args)
        if key is None:
            return self._run(*args)
        found = self._graphs.get(key)
        if found is None:
            return self._plain_or_recorded(key, args)
        if not self._is_apart(args):
            return self._run(*args)
        self._check()
        with found.pool.lock:
            self._touch(key)
            self._replays += 1
            return found.replay(args)

    # -- keys --------------------------------------------------------------------------------------

    def _key_of_call(self, args: Sequence[Any]) -> CallKey | None:
        """None if the call cannot be by a graph."""
        stream = self._device.stream()
        if stream is None or self._given_up:
            return None
        key_of = self._key or self._make_key(args)
        return None if key_of is None else (stream, flags_now(), key_of(*args))

    def _make_key(self, args: Sequence[Any]) -> Callable[..., Any] | None:
        """A function of the inputs: their sizes, numbers, and addresses of those that stay. None if
        there is one whose memory is not known by its address."""
        odd = [value for value in args if not has_address(value) and type(value) not in _NUMBERS]
        if odd:
            self._given_up = f"an input is a {type(odd[0]).__name__}"
            return None
        parts: list[str] = []
        for place, value in enumerate(args):
            name = f"a{place}"
            if not isinstance(value, torch.Tensor):
                parts.append(f"{name}.hex()" if isinstance(value, float) else name)
                continue
            if place not in self._inputs.static:
                parts += [f"{name}.shape", f"{name}.stride()"]
            if self._stays(place):
                parts.append(f"{name}.data_ptr()")
        tensors = [p for p, value in enumerate(args) if isinstance(value, torch.Tensor)]
        self._copied = [place for place in tensors if not self._stays(place)]
        self._written = [place for place in tensors if place in self._inputs.written]
        names = "".join(f"a{place}, " for place in range(len(args)))
        made: dict[str, Any] = {}
        exec(f"def key({names}): return ({''.join(f'{part}, ' for part in parts)})", made)
        self._key = made["key"]
        return made["key"]

    def _stays(self, place: int) -> bool:
        inputs = self._inputs
        if place in inputs.parameters or place in inputs.written:
            return True
        return place in inputs.static and place not in self._moving

    def _look(self, args: Sequence[Any]) -> None:
        """See which inputs have moved: they are copied from now on."""
        inputs = self._inputs
        for place in inputs.static - inputs.parameters - inputs.written - self._moving:
            address = args[place].data_ptr()
            if self._last.setdefault(place, address) != address:
                self._moving.add(place)
                self._forget()

    def _forget(self) -> None:
        """Keys are others now."""
        self._key = None
        self._graphs.clear()

    # -- recording ---------------------------------------------------------------------------------

    def _is_hot(self, key: CallKey, args: Sequence[Any]) -> bool:
        """Whether a shape may be recorded now. It counts the call."""
        self._look(args)
        if self._key is None:
            return False
        if len(self._calls) >= _MOST_COUNTED:
            self._calls.clear()
            self._refused.clear()
        calls = self._calls[key] = self._calls.get(key, 0) + 1
        if calls <= config.cuda_graph_after or key in self._refused:
            return False
        return self._is_apart(args)

    def _pool(self, key: CallKey) -> Pool | None:
        try:
            return self._device.pool(key[0])
        except CannotRecord as error:
            self._given_up = str(error)
            return None

    def _has_room(self, pool: Pool, key: CallKey, more: int = 0) -> bool:
        """Whether one more may be recorded, which takes so many bytes as far as is known."""
        if pool.taken + more > config.cuda_graph_memory_mb << 20:
            self._refused[key] = "config.cuda_graph_memory_mb is used up"
            return False
        return len(self._graphs) < config.cuda_graph_limit or self._made_room()

    def _plain_or_recorded(self, key: CallKey, args: Sequence[Any]) -> Any:
        pool = self._pool(key) if self._is_hot(key, args) else None
        if pool is None:
            return self._run(*args)
        with pool.lock:
            if not self._has_room(pool, key):
                return self._run(*args)
            try:
                with self._told(pool, args) as told:
                    own = None if self._variants is None else self._variants.run_for(args)
                    recorded = told(record(pool, own or self._run, args, self._copied))
            except CannotRecord as error:
                self._refuse(key, str(error))
                return self._run(*args)
            count("cuda_graphs")
            self._graphs[key] = recorded
            return recorded.replay(args, is_first=True)

    @contextmanager
    def _told(
        self, pool: Pool, args: Sequence[Any], part: str = ""
    ) -> Iterator[Callable[[RecordedGraph], RecordedGraph]]:
        """Tell of what is recorded meanwhile, which is given to the function, or why it is not."""
        made: list[RecordedGraph] = []

        def told(recorded: RecordedGraph) -> RecordedGraph:
            made.append(recorded)
            return recorded

        taken, begun, why = pool.taken, time.perf_counter(), ""
        try:
            yield told
        except CannotRecord as error:
            why = str(error)
            raise
        finally:
            if stream.listening(kinds.GraphRecorded) and (made or why):
                changing = [
                    "x".join(map(str, value.shape)) or "a number"
                    for place, value in enumerate(args)
                    if isinstance(value, torch.Tensor) and place not in self._inputs.static
                ]
                seconds = time.perf_counter() - begun
                copied = sum(each.copied for each in made)
                stream.emit(
                    kinds.GraphRecorded(
                        *(", ".join(changing), part, seconds, pool.taken - taken, copied, why),
                        compile_id=self._compile_id,
                    )
                )

    def _refuse(self, key: CallKey, why: str) -> None:
        self._refused[key] = why
        if len(self._refused) >= _MOST_NAMED and not self._graphs:
            self._given_up = why

    def _touch(self, key: Any) -> None:
        """It is what was used last, unless a thread with another stream has let go of it."""
        if key in self._graphs:
            self._graphs.move_to_end(key)

    def _made_room(self) -> bool:
        """Let go of what was not used for longest. Where there are more shapes than may be kept,
        and all of them come by turns, each would be gone before it is used again: one that was
        hardly used stays, until it has been in the way as often as there are others."""
        key, oldest = next(iter(self._graphs.items()))
        oldest.wanted += 1
        if oldest.replays < _USED and oldest.wanted < config.cuda_graph_limit:
            return False
        del self._graphs[key]
        return True

    def _is_apart(self, args: Sequence[Any]) -> bool:
        """Whether what is written to may be, and shares no memory with what is copied: that would
        be what it was before the call."""
        if self._apart is not None and not self._apart(*args):
            return False
        written = [args[place] for place in self._written]
        copied = [args[place] for place in self._copied]
        if not written or not copied:
            return True
        return no_alias()(len(written), *written, *copied) or may_write(written, copied)

    # -- for people --------------------------------------------------------------------------------

    @property
    def recorded(self) -> int:
        """How many shapes have one now."""
        return len(self._graphs)

    def lines(self) -> list[str]:
        if self._given_up:
            return [f"no CUDA graphs: {self._given_up}"]
        lines = [f"CUDA graphs: {len(self._graphs)} shapes, replayed {self._replays} times"]
        return lines + [f"no CUDA graph: {why}" for why in dict.fromkeys(self._refused.values())]


class NotRecorded(NamedTuple):
    """Where nothing can be recorded."""

    why: str
    recorded: int = 0

    def lines(self) -> list[str]:
        return [f"no CUDA graphs: {self.why}"]


def by_shape(
    graph: torch.fx.Graph,
    device: torch.device,
    run: Callable[..., Any],
    is_apart: Callable[..., bool] | None,
    functions: Sequence[Any],
    variant: Callable[[Variant], Callable[..., Any]],
    compile_id: str,
) -> tuple[Callable[..., Any], ShapeGraphs | NotRecorded]:
    """The function of a graph, and what there is to say of it. `functions`: those of its segments,
    to which `variant` adds its own."""
    why = why_not(graph)
    if why:
        return run, NotRecorded(why)

    variants = Variants(graph, variant)
    check = checks_of(functions)
    inputs = inputs_of(graph)
    made = ShapeGraphs(
        run, inputs, graph_device(device), is_apart, check, variants, compile_id=compile_id
    )
    return made, made


def checks_of(functions: Sequence[Any]) -> Callable[[], None]:
    """Raises what an earlier call of some function has found."""

    def check() -> None:
        for each in functions:
            if (look := getattr(each, "check", None)) is not None:
                look()

    return check


def graph_device(device: torch.device) -> Device:
    return GraphDevice(torch.cuda.current_device() if device.index is None else device.index)
