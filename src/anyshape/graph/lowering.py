"""The walk through a captured graph: every node becomes a value, a view, or a call-out.

Values stay expressions as long as that is cheaper than a buffer. They are stored where Python or
the tensor library needs them, where the program writes to them in part, and where they would be
computed several times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import Sharing
from anyshape.graph.aliasing import Foreign, Storage, TensorView, handles_in, values_in
from anyshape.graph.autograd import Settling, refuse_recorded
from anyshape.graph.autograd_step import Step
from anyshape.graph.channels_last import CHANNELS_LAST, ChannelsLast
from anyshape.graph.early_checks import check_kernel, checks_of_step, position_checks
from anyshape.graph.fallback import may_write
from anyshape.graph.fused_attention import AttentionFusion
from anyshape.graph.local_order import in_local_order
from anyshape.graph.plan import (
    ElidedRepeats,
    Plan,
    TensorRef,
    Unlowerable,
    View,
    computing,
    leaves,
)
from anyshape.graph.repeat_elision import Skipping
from anyshape.graph.size_symbols import shown_by
from anyshape.graph.training_layout import TrainingLayout
from anyshape.ops.bind import OpCall, Unbound, bind_match
from anyshape.ops.effects import raises_on_integers
from anyshape.ops.lowering.float8 import FLOAT8_DTYPES, is_as_on_processors
from anyshape.ops.lowering.scalar_range_check import INTEGERS, must_be_within
from anyshape.ops.lowering.values import (
    DTYPES,
    Memory,
    NotAView,
    NotLowered,
    NumberRef,
    Rearranged,
    Value,
)
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, LAYOUT, RESULT, SYMBOL, VERSION
from anyshape.ops.op import MOVES, NATIVE, VIEWS, VIEWS_OF_EACH, WRITES, Op, OpKind
from anyshape.ops.signature import not_taken, taken_by
from anyshape.ops.table import OpMatch, lookup
from anyshape.support.error_notes import noting
from anyshape.symbolic import Expr, Symbol, product
from anyshape.symbolic.expr import atoms_in, bare_symbol, of_atom, operands_of

#: An expression of more operations than this is stored rather than computed twice, or grown on.
MOST_TWICE: Final = 6

MOST_AT_ALL: Final = 120

#: What is used twice and would read so many tensors of its own size each time is stored.
MOST_READ: Final = 3


class Lowering(Settling):
    """One graph on its way to a plan. Rows of operators get it as their first argument."""

    #: whether memory goes back as early as can be; inputs are the caller's
    _at_once = False
    _kept: set[str]
    _fusion: AttentionFusion
    few_rows = 0
    few_keys = False
    #: whether the program may see what was written when a position turns out to be bad
    _checks_early = False
    #: whether the graph writes to tensors that it is given on another device
    _writes_elsewhere = False

    def run(self, graph: torch.fx.Graph, *, whole: bool = False, at_once: bool = False) -> Plan:
        """`whole`: equal parts are not left out. `at_once`: outputs are stored where the program
        makes them, which lets go of what they are made of, and not at its end."""
        inputs: list[str | Symbol] = []
        outputs: list[object] = []
        nodes: list[torch.fx.Node] = list(graph.nodes)
        refuse_recorded(nodes)
        self.device = _device_of(nodes)
        self._uses = {node: len(node.users) for node in nodes}
        self._sharing = Sharing(graph, may_write)
        if self._sharing.is_written:
            nodes = in_local_order(nodes, self._sharing, may_write)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        # A GPU tells of a bad position when other calls have been made since.
        self._checks_early = not self.on_gpu and any(map(self._sharing.is_written_to, placeholders))
        self._writes_elsewhere = any(
            self._sharing.is_written_to(node) and _is_elsewhere(node, self.device)
            for node in placeholders
        )
        symbols = {node.meta[SYMBOL] for node in placeholders if SYMBOL in node.meta}
        self.unbounded = symbols - shown_by(placeholders)
        layout = TrainingLayout if at_once else ChannelsLast
        self.pixels = layout(nodes, self.facts.hints)
        matters = self._sharing.matters
        self._at_once, self._kept = at_once, set[str]()
        results = set(nodes[-1].all_input_nodes) if at_once else set[torch.fx.Node]()
        fusion = self._fusion = AttentionFusion(self, nodes)
        skipping = Skipping(self, nodes, self._env, self._uses, matters, whole=whole)
        position = -1
        while position + 1 < len(nodes):
            position += 1
            position = skipping.go_on(position)
            node = self._node = nodes[position]
            if node.op == "placeholder":
                inputs.append(self._placeholder(node))
            elif node.op == "output":
                given: Any = node.args[0]
                outputs = [self._output(each) for each in given]
            else:
                self._see_modes(node)
                if node in fusion.deferred:
                    continue
                for each in fusion.lower(node):
                    self._let_go(each)
                if node in results:
                    self._store_result(node)
            self._let_go(node)
        changed = [each for each in inputs if isinstance(each, str) and each in self.changed]
        return Plan(
            inputs,
            self.held,
            self.steps,
            outputs,
            self.assumed,
            _in_all_repeats(self.aligned, skipping.elided_repeats),
            changed,
            self.bumps,
            self.native,
            self.called,
            self.fused,
            self.unfused,
            skipping.elided_repeats,
            self.device,
        )

    def _let_go(self, node: torch.fx.Node) -> None:
        """A node has used what it uses."""
        for each in node.all_input_nodes:
            self._uses[each] -= 1
            if not self._uses[each]:
                self._env.pop(each, None)
        if not self._uses[node]:
            self._env.pop(node, None)  # a write, mostly

    def handle(self, node: object) -> TensorView | None:
        """What a node is, if it is a tensor that native code handles."""
        found = self._env.get(node) if isinstance(node, torch.fx.Node) else None
        return found if isinstance(found, TensorView) else None

    def live_buffers(self, but: set[torch.fx.Node]) -> set[str]:
        """What tensors of the program are in, or would be computed of; but for these."""
        found: set[str] = set()
        for handle in handles_in([held for node, held in self._env.items() if node not in but]):
            found |= handle.root.value.buffers()
        return found

    def begin(self, node: torch.fx.Node) -> None:
        """What is done from here on is for this node."""
        self._node = node
        self.result = self.settled(node.meta.get(RESULT))

    def lower_node(self, node: torch.fx.Node) -> None:
        self.begin(node)
        self._lower(node)

    def bind_value(self, node: torch.fx.Node, value: Value) -> None:
        """The result of a node, which was computed with others."""
        self.begin(node)
        self._env[node] = self._bound(value, self.result)

    def _placeholder(self, node: torch.fx.Node) -> str | Symbol:
        symbol = node.meta.get(SYMBOL)
        if symbol is not None:
            self._env[node] = of_atom(symbol)
            return symbol
        name = self.input_names[node] = self._name("a")
        self._kept.add(name)
        if RESULT not in node.meta:
            self._env[node] = NumberRef(name)
            self.early.add(name)
        else:
            layout, meta = node.meta.get(LAYOUT), self.settled(node.meta[RESULT])
            if isinstance(meta, tuple):
                raise Unlowerable("several tensors at once come from another device")
            given = self._given(name, meta, layout)
            if isinstance(given, Foreign):
                given.is_constant = not self._writes_elsewhere
            self._env[node] = given
        return name

    def _lower(self, node: torch.fx.Node) -> None:
        call = node.meta.get(CALL)
        if call is None:
            self._env[node] = self._without_meta(node)
            return
        entry = lookup(call.function)
        args = self._arguments(node.args, call.args)
        result = self.result = self.settled(node.meta.get(RESULT))
        if result is None and RESULT in node.meta:
            self._env[node] = self._call_out(node, entry, "a tensor that only Python handles")
            return
        if result is None and entry is not None and entry.in_place and args:
            # `x[i] = v` gives nothing; what it is about is its first argument.
            result = self.result = args[0].meta if isinstance(args[0], TensorView) else None
        if result is None:
            self._env[node] = self._without_meta(node)
            return
        kwargs = self._arguments(node.kwargs, call.kwargs)
        if node.target is getattr:
            args = args[:1]
        name = entry.op.name if entry is not None else _name_of(call.function)
        begin = len(self.steps)
        try:
            with noting(f"in the native code of `{name}`"):
                made = self._env[node] = self._by_row(entry, args, kwargs)
                if self._checks_early and raises_on_integers(call.function, call.kwargs):
                    self._check_early(made, begin)
            self.native[name] = self.native.get(name, 0) + 1
        except NotLowered as why:
            self.called.setdefault(name, str(why))
            self._env[node] = self._call_out(node, entry, str(why))
            return
        self._materialize_if_shared(node)

    def _check_early(self, made: object, begin: int) -> None:
        """Look at the positions that the result of the node at hand reads by, before anything else
        is written. `begin`: its first step."""
        for number in reversed(range(begin, len(self.steps))):
            self.steps[number:number] = map(computing, checks_of_step(self.steps[number]))
        for value in {handle.root.value: None for handle in handles_in(made)}:
            if value.memory is not None:
                continue
            axes, index = self._loops(value, None)
            checks = position_checks(value.at(index))
            if checks:
                self.compute(self._with_stored(partial(check_kernel, axes, checks)))

    def _by_row(self, entry: OpMatch | None, args: Any, kwargs: dict[str, object]) -> object:
        if self._node is not None and isinstance(self._node.target, Step):
            raise NotLowered("it is a step in Python")
        if entry is None:
            raise NotLowered("not in the table of operators")
        if entry.in_place and entry.op.restrides:
            raise Unlowerable(f"`{entry.op.name}` in place")
        self._stay_in_64_bits((args, kwargs))
        try:
            call = bind_match(entry, args, kwargs)
        except Unbound as error:
            raise NotLowered(f"unforeseen arguments ({error})") from None
        if call.out is not None:
            raise Unlowerable("a result is written into a given tensor")
        given = None if self._node is None else self._node.meta.get(ARGUMENT)
        if given is not None and isinstance(args[given], TensorView):
            return args[given]  # a cast to the dtype that it has, and the like
        view = VIEWS.get(entry.op.name)
        if view is not None:
            try:
                return self._view(view, call, args, kwargs)
            except NotAView:
                pass
        of_each = VIEWS_OF_EACH.get(entry.op.name)
        if of_each is not None:
            return self._views_of_each(of_each, call)
        if call.in_place:
            if not isinstance(call.first, TensorView):
                raise NotLowered("a tensor that only Python handles")
            self.read = handles_in((args, kwargs))[1:]
            if entry.op.name != "setitem":  # which writes to a part only
                self.check_no_overlap(call.first)
        self._require_moves(entry.op, handles_in((args, kwargs)))
        if entry.in_place and entry.op.name in WRITES:
            return self._write_into(WRITES[entry.op.name], call)
        row = NATIVE.get(entry.op.name)
        if row is None:
            raise NotLowered("no native code yet")
        values = self._values(call.arguments, self._takes_host_scalars(entry.op))
        made = self._not_an_argument(row(self, **_for_row(row, call.op, values)), values)
        if call.in_place:
            target = call.first
            self._agrees(made, target.meta)
            self.write(target, made)
            return target
        return self._bound(made, self.result)

    def _takes_host_scalars(self, op: Op) -> bool:
        result = self.result
        return (
            op.lowering is OpKind.POINTWISE
            and isinstance(result, Meta)
            and result.device == self.device
        )

    def _require_moves(self, op: Op, handles: Sequence[TensorView]) -> None:
        """Of dtypes that torch only stores, elements are moved and cast: it may have nothing else,
        and must not be outdone. What it has depends on version and device; it has what the run at
        hand did, unless there were no elements, of which it asks nothing."""
        metas = [meta for meta in leaves(self.result) if isinstance(meta, Meta)]
        metas += [handle.meta for handle in handles]
        for dtype in {meta.dtype for meta in metas} & FLOAT8_DTYPES:
            if op.name not in MOVES or not is_as_on_processors(dtype, self.device.type):
                raise NotLowered(f"no native code for {dtype}")
            if not all(self.facts.hint(meta.numel) for meta in metas):
                raise NotLowered(f"{dtype} without elements, of which torch asks nothing")

    def _not_an_argument(self, made: object, values: object) -> Any:
        """A result is a tensor of its own: a row that hands on an argument means a copy of it."""
        if isinstance(made, tuple | list):
            return tuple(self._not_an_argument(each, values) for each in made)
        if not isinstance(made, Value) or not any(made is each for each in values_in(values)):
            return made
        return self.values.new(made.sizes, made.dtype, made.at, (made,), factors=made.factors)

    def _stay_in_64_bits(self, tree: object) -> None:
        """Python's integers have no end, and native code's begin anew behind the largest. One by
        itself is checked where it is given."""
        for size in leaves(tree):
            if not isinstance(size, Expr) or self.unbounded.isdisjoint(size.symbols):
                continue
            inner = (each for atom in atoms_in(size) for each in operands_of(atom))
            for each in (size, *inner):
                if isinstance(each, Expr) and bare_symbol(each) is None:
                    must_be_within(self, each, *INTEGERS["i64"])

    def _bound(self, made: Any, meta: Any, place: int | None = None) -> object:
        """The handles of a row's result. `place`: among several results."""
        if isinstance(made, TensorView):
            return made
        if isinstance(made, Value):
            if not isinstance(meta, Meta):
                raise TypeError(
                    "a row of native code gave one Value, where there are several results"
                )
            self._agrees(made, meta)
            stored = self.stored_as(meta, place)
            if made.memory is not None and not self.has_layout(made.memory, stored):
                made = self.values.new(made.sizes, made.dtype, made.at, (made,))
            self._laid_out[made] = stored
            root = self._own_root(meta, made)
            root.relaid = stored.layout != meta.layout
            return TensorView(root, meta)
        if not isinstance(made, tuple | list):
            raise TypeError(f"a row of native code gave {made!r}, not a Value")
        if not isinstance(meta, tuple) or len(meta) != len(made):
            raise NotLowered("another number of results")
        pairs = enumerate(zip(made, meta, strict=True))
        return tuple(self._bound(each, item, place) for place, (each, item) in pairs)

    def _own_root(self, meta: Meta, made: Value) -> Storage:
        """A tensor that native code makes: autograd knows nothing of it."""
        if meta.requires_grad:
            raise Unlowerable("a result requires grad")
        assert self._node is not None
        writes = 0 if meta.shares_if is not None else self._node.meta.get(VERSION, 0)
        return Storage(meta, made, native_writes=writes)

    def stored_as(self, meta: Meta, place: int | None = None) -> Meta:
        """How the result of the node at hand is laid out if it is stored; one of several, by its
        place."""
        node = self._node
        if node is not None and place is not None:
            parts = (each for each in node.users if each.target is operator.getitem)
            node = next((each for each in parts if each.args[1] == place), None)
        return meta.like(layout=CHANNELS_LAST) if node in self.pixels.stored else meta

    def _agrees(self, made: Value, meta: Meta) -> None:
        if meta.device != self.device or DTYPES.get(meta.dtype) != made.dtype:
            raise NotLowered(f"the result is {meta.dtype} on {meta.device}, not {made.dtype}")
        if not self.same_sizes(made.sizes, meta.shape):
            raise NotLowered(f"the result has sizes {meta.shape}, not {made.sizes}")

    def _view(
        self, view: Callable[..., Any], call: OpCall, args: object, kwargs: dict[str, object]
    ) -> object:
        base = call.first
        if isinstance(base, tuple) and len(base) == 1:
            (base,) = base  # of several tensors, each of which would have a view
        if not isinstance(base, TensorView):
            raise NotLowered("a view of what only Python handles")
        rest = self._metas(call.behind_first())
        found = view(self, base.meta, **_for_row(view, call.op, rest))
        how = self._how_viewed(args, kwargs)
        if isinstance(found, list):
            return tuple(
                TensorView(base.root, meta, base, index_map, how and how._replace(place=place))
                for place, (meta, index_map) in enumerate(zip(self.result, found, strict=True))
            )
        if self.result.dtype is not base.meta.dtype:
            raise NotLowered("a view of another dtype")
        if found is None:
            base.root.by_strides = True
        if found is None or not self._comes_out(base, found):
            self.materialize_storage(base.root)
        return TensorView(base.root, self.result, base, found, how)

    def _views_of_each(self, views: Callable[..., Any], call: OpCall) -> tuple[TensorView, ...]:
        """Several tensors, of each a view."""
        given = call.first
        bases = [base for base in given if isinstance(base, TensorView)]
        if len(bases) != len(given):
            raise NotLowered("views of what only Python handles")
        maps = views(self, [base.meta for base in bases], **self._metas(call.behind_first()))
        return tuple(
            TensorView(base.root, meta, base, index_map)
            for base, meta, index_map in zip(bases, self.result, maps, strict=True)
        )

    def _how_viewed(self, args: Any, kwargs: dict[str, object]) -> View | None:
        node = self._node
        assert node is not None
        if not args or handles_in((args[1:], kwargs)):
            return None
        if node.target is getattr:
            return View("getattr", node.args[1], (), {})
        return View(node.op, node.target, tuple(args[1:]), kwargs)

    def _comes_out(self, base: TensorView, found: object) -> bool:
        """Whether a view of an expression needs no division: what was merged is not split anew."""
        if not isinstance(found, Rearranged) or base.root.value.memory is not None:
            return True
        return found.factors(base.value(self.values).split_sizes()) is not None

    def _write_into(self, write: Callable[..., None], call: OpCall) -> TensorView:
        target = call.first
        assert isinstance(target, TensorView)
        write(self, target, **_for_row(write, call.op, self._values(call.behind_first())))
        return target

    def _store_result(self, node: torch.fx.Node) -> None:
        for handle in handles_in(self._env[node]):
            root = handle.root
            stored = self._laid_out.get(root.value)
            # Where channels are last inside, a copy that has them first comes at the end.
            if LAYOUT in node.meta:
                self._store_relaid(node)
            elif stored is None or stored.layout == root.meta.layout:
                self.materialize_storage(root)

    def _store_relaid(self, node: torch.fx.Node) -> Memory:
        """Store what is kept for another graph in the layout that it reads."""
        (handle,) = handles_in(self._env[node])
        assert not handle.is_view
        value = handle.root.value
        meta = handle.meta.like(layout=node.meta[LAYOUT])
        memory = self.materialize(value, meta)
        if not self.has_layout(memory, meta):
            copy = self.values.new(value.sizes, value.dtype, value.at, (value,))
            memory = self.materialize(copy, meta)
        return memory

    def _output(self, node: object) -> object:
        if not isinstance(node, torch.fx.Node):
            return node
        found = self._env[node]
        if LAYOUT in node.meta:
            return TensorRef(self._store_relaid(node).buffer)
        refs = self._references(found)
        for handle in handles_in(found):
            root = handle.root
            if handle.counts_apart and root.written_apart:
                raise Unlowerable("`.data` is written to and returned")
            if root.native_writes and not root.outside:
                self.bumps[self.materialize_storage(root).buffer] = root.native_writes
        return refs

    def _materialize_if_shared(self, node: torch.fx.Node) -> None:
        """Store what would be computed several times, or has grown long."""
        # A cast to the dtype that it has is no user, unless it has one.
        users = sum(ARGUMENT not in user.meta or bool(user.users) for user in node.users)
        for handle in handles_in(self._env[node]):
            value = handle.root.value
            if handle.is_view or value.memory is not None or node in self._fusion.unstored:
                continue
            twice = users > 1 and (value.cost > MOST_TWICE or bool(value.axes))
            if users > 1 or self._at_once:
                twice = twice or self._reads_many(value)
            for_all = not value.sizes and value.cost > MOST_TWICE and self._is_for_all(node)
            if twice or for_all or value.cost > MOST_AT_ALL:
                self.materialize(value, handle.root.meta)

    def _is_for_all(self, node: torch.fx.Node) -> bool:
        """Whether a single number is read for each element of some tensor. On a GPU, to compute it
        as often is cheaper than another kernel."""
        results = (user.meta.get(RESULT) for user in node.users)
        return not self.on_gpu and any(isinstance(each, Meta) and each.rank for each in results)

    def materialize_if_expensive(self, value: Value, times: int) -> None:
        """Store what a row reads so many times, unless it is nothing to compute it as often."""
        if value.memory is None and value.cost * (times - 1) > MOST_TWICE:
            self.materialize(value)

    def _reads_many(self, value: Value) -> bool:
        """Whether it keeps several tensors of its own size from being released: the sum that runs
        through all layers of a network would keep what each of them adds to it."""
        own = product(value.sizes)
        found = 0
        for name in value.buffers():
            held = self.held[name]
            # What calls have given can be released, too.
            is_held = name in self._kept if self._at_once else held.given
            found += not is_held and self.same(product(held.sizes), own)
        return found >= MOST_READ

    @property
    def node(self) -> torch.fx.Node:
        """The node at hand."""
        assert self._node is not None
        return self._node

    @property
    def function(self) -> Callable[..., Any]:
        """The function of torch that the node at hand calls."""
        return self.node.meta[CALL].function

    @property
    def is_channels_last(self) -> bool:
        """Whether the node at hand is a convolution of images with their channels last."""
        return self.node in self.pixels.convolutions

    def is_read_by_a_loop(self) -> bool:
        """Whether all that uses the result at hand is one operator of single elements."""
        users = list(self.node.users)
        if len(users) != 1 or CALL not in users[0].meta:
            return False
        match = lookup(users[0].meta[CALL].function)
        return match is not None and match.op.lowering is OpKind.POINTWISE

    def sharing_matters(self) -> bool:
        """Whether anybody could tell if the result at hand is a view or a copy."""
        return self._node is None or self._sharing is None or self._sharing.matters(self._node)


def _in_all_repeats(names: set[str], repeats: ElidedRepeats | None) -> set[str]:
    """Inputs, and those in their place in equal parts that a plan is without."""
    alike = () if repeats is None else repeats.inputs
    return names.union(*(own for own in alike if names.intersection(own)))


def _for_row(row: Callable[..., object], op: Op, arguments: dict[str, object]) -> dict[str, object]:
    """What a row gets of the arguments of a call. A row has native code only for what it takes."""
    taken = taken_by(row, arguments)
    if len(taken) < len(arguments):
        for name in not_taken(row, op, arguments):
            raise NotLowered(f"`{name}` is given")
    return taken


def _name_of(function: object) -> str:
    return getattr(function, "__name__", str(function))


def _is_elsewhere(node: torch.fx.Node, device: torch.device) -> bool:
    meta = node.meta.get(RESULT)
    return isinstance(meta, Meta) and meta.device != device


def _device_of(nodes: Sequence[torch.fx.Node]) -> torch.device:
    """Where native code works: on the one GPU that the graph has tensors on, or on the processor.
    Tensors elsewhere are Python's."""
    metas = [leaf for node in nodes for leaf in leaves(node.meta.get(RESULT))]
    found = dict.fromkeys(meta.device for meta in metas if isinstance(meta, Meta))
    gpus = [device for device in found if device.type == "cuda"]
    if len(gpus) > 1:
        raise Unlowerable("tensors on several GPUs")
    return gpus[0] if gpus else torch.device("cpu")
