"""A graph with gradients under autocast, with casts as operators and without the mode.

    with torch.autocast("cpu", torch.bfloat16):
        y = F.linear(x, w)      # y = F.linear(x.to(torch.bfloat16), w.to(torch.bfloat16))

Casts have gradients like any operator: parameters get theirs in their own dtype. Weights are cast
once in a region, as torch's cache does it: gradients of all uses are added before they are cast.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from anyshape.errors import AnyshapeError
from anyshape.graph.checkpoint_regions import mark_behind
from anyshape.graph.plan import Unlowerable, leaves, paired_tree
from anyshape.graph.term_graph import RecordedTerms
from anyshape.ops.autocast_casts import (
    DEVICES,
    Autocast,
    AutocastState,
    CastsInside,
    autocast_casts,
    autocast_now,
    is_any_on,
    require_parts,
)
from anyshape.ops.bind import works_in_place
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import mapped_tree
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.node_meta import CALL, FACTS, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.op import CASTS_BETWEEN, OpKind
from anyshape.ops.table import lookup
from anyshape.symbolic import Expr, Size, evaluate

Node = torch.fx.Node


def explicit_autocast(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph itself if autocast has no part in it. Raises `Unlowerable` where it does more than
    to cast arguments. Autocast around the graph is as it is now."""
    around = autocast_now()
    is_on = is_any_on(around)
    if is_on and not torch.is_autocast_cache_enabled():
        raise Unlowerable("a result requires grad, and autocast keeps no casts")
    if not is_on and not any(_enters_autocast(node) for node in graph.graph.nodes):
        return graph
    made = _LazyGraphModule(torch.nn.Module(), _Explicit(graph, around).graph())
    made.meta |= graph.meta
    return made


def _enters_autocast(node: Node) -> bool:
    return node.target is enter_mode and node.args[0] == "autocast"


class _Explicit:
    def __init__(self, graph: torch.fx.GraphModule, around: AutocastState) -> None:
        self._old = graph.graph
        self._graph = torch.fx.Graph()
        self._terms = RecordedTerms(self._graph, graph.meta[FACTS])
        self._mapped: dict[Node, Node] = {}
        #: of all modes that the graph is in, innermost last; None for another one than autocast
        self._modes: list[AutocastState | None] = [around]
        #: what autocast does to calls, which equal layers have in common
        self._known: dict[Any, list[torch.dtype | None]] = {}
        #: casts of weights in this region
        self._cached: dict[tuple[Node, torch.dtype], Term] = {}

    def graph(self) -> torch.fx.Graph:
        for node in self._old.nodes:
            if _enters_autocast(node):
                self._enter(*node.args[1:])
            elif node.target is leave_mode and self._modes[-1] is not None:
                self._leave()
            else:
                if node.target is enter_mode:
                    self._modes.append(None)
                elif node.target is leave_mode:
                    self._modes.pop()
                last = self._graph._root.prev
                self._mapped[node] = self._node(node)
                mark_behind(last, node)
        return self._graph

    @property
    def _state(self) -> AutocastState:
        return next(each for each in reversed(self._modes) if each is not None)

    def _enter(self, device: Any, dtype: Any, enabled: Any, cached: Any) -> None:
        if enabled and not cached:
            raise Unlowerable("a result requires grad, and autocast keeps no casts")
        if enabled and device not in DEVICES:
            raise Unlowerable(f"a result requires grad, and autocast is on for {device}")
        self._modes.append({**self._state, device: Autocast(enabled, dtype)})

    def _leave(self) -> None:
        self._modes.pop()
        if sum(each is not None for each in self._modes) == 1 and not is_any_on(self._state):
            self._cached.clear()

    def _node(self, node: Node) -> Node:
        call = node.meta.get(CALL)
        if call is None or not is_any_on(self._state) or not _metas((call.args, call.kwargs)):
            return self._graph.node_copy(node, self._mapped.__getitem__)
        name = getattr(call.function, "__name__", str(call.function))
        if node.kwargs.keys() != call.kwargs.keys():
            raise Unlowerable(f"a result requires grad, and autocast is on for `{name}`")
        # In the order of the node's own arguments.
        given = call.args, {key: call.kwargs[key] for key in node.kwargs}
        try:
            casts = self._casts(node, call._replace(kwargs=given[1]))
        except CastsInside:
            return self._by_parts(node, call._replace(kwargs=given[1]), name)
        left = iter(casts)
        metas: list[Meta] = []

        def argument(each: Node, meta: Any) -> Node:
            if not isinstance(meta, Meta):
                return self._mapped[each]
            dtype = next(left)
            found = Term(self._terms, self._mapped[each], meta)
            found = found if dtype is None else self._cast(node, found, dtype)
            metas.append(found.meta)
            return found.node

        args, kwargs = paired_tree((node.args, node.kwargs), given, argument)
        if node.target is getattr:
            args = (*args, node.args[1])  # The name of an attribute is no argument of the call.
        made = self._graph.create_node(node.op, node.target, tuple(args), kwargs, node.name)
        made.meta = dict(node.meta)
        own = iter(metas)
        new = mapped_tree(given, lambda leaf: next(own) if isinstance(leaf, Meta) else leaf)
        made.meta[CALL] = RecordedCall(call.function, tuple(new[0]), new[1])
        self._check(made, name)
        return made

    def _by_parts(self, node: Node, call: RecordedCall, name: str) -> Node:
        """The calls that an operator is made of, each with its own casts."""
        entry = lookup(call.function)
        parts = None if entry is None else CASTS_BETWEEN.get(entry.op.name)
        hint = self._terms.facts.hint

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            metas, named = mapped_tree((args, kwargs), lambda each: getattr(each, "meta", each))
            casts = iter(autocast_casts(function, metas, named, self._state, hint))

            def cast(each: Any) -> Any:
                if not isinstance(each, Term):
                    return each
                dtype = next(casts)
                return each if dtype is None else self._cast(node, each, dtype)

            args, kwargs = mapped_tree((args, kwargs), cast)
            return self._terms.record(function, *args, **kwargs)

        def term(each: Node, meta: Any) -> Term:
            if not isinstance(meta, Meta):
                raise CastsInside
            return Term(self._terms, self._mapped[each], meta)

        try:
            if parts is None or UNRECORDED in node.meta:
                raise CastsInside
            require_parts(call.function, parts, *call[1:], self._state, hint)
            args, kwargs = paired_tree((node.args, node.kwargs), call[1:], term)
            with torch.set_grad_enabled(True):
                made = parts(run, *args, **kwargs)
        except (CastsInside, NoGradient):
            raise Unlowerable(
                f"a result requires grad, and autocast casts inside `{name}`"
            ) from None
        if _dtypes(made.meta) != _dtypes(node.meta.get(RESULT)):
            raise Unlowerable(f"a result requires grad, and autocast casts what `{name}` gives")
        return made.node

    def _casts(self, node: Node, call: RecordedCall) -> list[torch.dtype | None]:
        function, args, kwargs = call
        entry = lookup(function)
        if entry is None:
            raise CastsInside
        key = function, tuple(self._state.items()), repr(mapped_tree((args, kwargs), _described))
        found = self._known.get(key)
        if found is None:
            hint = self._terms.facts.hint
            found = autocast_casts(function, args, kwargs, self._state, hint)
            self._known[key] = found
        is_cast = any(each is not None for each in found)
        if is_cast and works_in_place(function, args, kwargs):
            raise CastsInside
        if not is_cast and entry.op.lowering in (OpKind.MATMUL, OpKind.CALL_OUT):
            # What an operator comes down to may be another thing for other sizes.
            hints = [self._terms.facts.hint(each) for each in _sizes((args, kwargs))]
            if None in hints:
                raise CastsInside
            if any(each is not None and each < 2 for each in hints):
                others = autocast_casts(function, args, kwargs, self._state, self._hint_above_one)
                if others != found:
                    raise CastsInside
        return found

    def _hint_above_one(self, size: Size) -> int | None:
        """As if no size that may change had been 0 or 1 in the run at hand."""
        facts = self._terms.facts
        if facts.hint(size) is None:
            return None
        return evaluate(size, {each: max(hint, 2) for each, hint in facts.hints.items()})

    def _cast(self, node: Node, source: Term, dtype: torch.dtype) -> Term:
        is_recorded = UNRECORDED not in node.meta
        # As torch's cache has it; a tensor that the graph gets may be none that gradients end at,
        # and then its gradients are added before they are rounded rather than behind.
        is_weight = (
            source.node.op == "placeholder"
            and source.meta.requires_grad
            and source.dtype is torch.float32
            and dtype is self._state[source.meta.device.type].dtype
        )
        key = source.node, dtype
        if is_weight and not is_recorded:
            raise Unlowerable("a result requires grad, and autocast keeps a cast without gradient")
        if is_weight and key in self._cached:
            return self._cached[key]
        with torch.set_grad_enabled(is_recorded):
            made: Term = source.to(dtype)
        if is_weight:
            self._cached[key] = made
        return made

    def _check(self, made: Node, name: str) -> None:
        """The program has seen the dtypes of results: those without autocast are the same."""
        function, args, kwargs = made.meta[CALL]
        try:
            found = infer(self._terms.facts, function, args, kwargs, seen=made.meta.get(RESULT))
        except AnyshapeError:
            raise Unlowerable(f"a result requires grad, and autocast is on for `{name}`") from None
        if _dtypes(found.value) != _dtypes(made.meta.get(RESULT)):
            raise Unlowerable(f"a result requires grad, and autocast casts what `{name}` gives")


def _described(leaf: Any) -> Any:
    return (leaf.dtype, leaf.shape, leaf.strides, leaf.device) if isinstance(leaf, Meta) else leaf


def _metas(tree: Any) -> list[Meta]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Meta)]


def _dtypes(tree: Any) -> list[torch.dtype]:
    return [meta.dtype for meta in _metas(tree)]


def _sizes(tree: Any) -> list[Expr]:
    sizes = [size for meta in _metas(tree) for size in meta.shape]
    return [leaf for leaf in (*sizes, *leaves(tree)) if isinstance(leaf, Expr)]
