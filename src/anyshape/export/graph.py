"""From a trace to a graph that stands alone: the user's own parameters, weights inside, sizes read
from the inputs, checks of data, the result as the program returns it."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from linecache import getline
from typing import Any, Final, cast

import torch
import torch.fx

from anyshape.capture.record.segments import RuntimeAssert
from anyshape.capture.trace import Trace, TracedSegment
from anyshape.errors import CannotExport
from anyshape.export import results
from anyshape.export.program import CONSTANTS, place_of, place_text, put_tensor
from anyshape.export.recipe_nodes import NotData, Outside, RecipeNodes
from anyshape.guards.guard import Kind
from anyshape.guards.path import Access, Path, find
from anyshape.ops.node_meta import RESULT
from anyshape.ops.size_nodes import SizeNodes
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Expr, Fact, Symbol, to_text
from anyshape.symbolic.logic import And, Nonnegative, Nonzero, Or, Truth, Zero


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Where the tensors of a module are, by identity."""

    parameters: Mapping[int, str]
    buffers: Mapping[int, str]

    @staticmethod
    def of(module: torch.nn.Module | None) -> Weights:
        if module is None:
            return Weights({}, {})
        # The first name of a shared one counts.
        named = reversed(list(module.named_parameters(remove_duplicate=False)))
        buffers = reversed(list(module.named_buffers(remove_duplicate=False)))
        return Weights({id(t): name for name, t in named}, {id(t): name for name, t in buffers})


class GraphBuilder:
    """Makes the graph of one trace."""

    def __init__(
        self,
        trace: Trace,
        signature: Signature,
        self_name: str | None,
        bound: Mapping[str, object],
        weights: Weights,
        function: str,
        has_backward: bool = False,
    ) -> None:
        self._trace = trace
        self._signature = signature
        self._self_name = self_name
        self._bound = bound
        self._weights = weights
        self._function = function
        self._has_backward = has_backward
        self._graph = torch.fx.Graph()
        self._root = torch.nn.Module()
        self._paths: dict[Path, torch.fx.Node] = {}
        self._parameters: dict[str, torch.fx.Node] = {}
        self._tensors: dict[int, torch.fx.Node] = {}
        self._symbols: dict[Symbol, torch.fx.Node] = {}
        self._sizes = SizeNodes(self._graph, self._symbols.__getitem__)
        self._constants = 0
        #: effects that the artifact does not have, in words
        self.left_out: list[str] = []

    def build(self) -> torch.fx.GraphModule:
        (segment,) = self._trace.segments
        for parameter in self._signature.parameters.values():
            self._parameters[parameter.name] = self._placeholder(parameter)
        self._read_symbols()
        copies = self._inputs(segment)
        for each in self._trace.extra:
            if isinstance(each, Path):
                self._at(each)  # before anything is changed
        if self._has_backward:
            self._expect_gradients(segment, copies)
        outputs = self._copy(segment, copies)
        self._check(segment, outputs)
        self._return(outputs)
        for node in list(self._symbols.values()):
            if not node.users and node.op != "placeholder":
                self._graph.erase_node(node)
        self._graph.lint()
        return torch.fx.GraphModule(self._root, self._graph, self._function.replace(".", "_"))

    def _cannot(self, reason: str, *hints: str) -> CannotExport:
        return CannotExport(function=self._function, reason=reason, hints=hints)

    # -- inputs ------------------------------------------------------------------------------------

    def _placeholder(self, parameter: Parameter) -> torch.fx.Node:
        star = _STARS.get(parameter.kind, "")
        default = parameter.default
        if default is Parameter.empty or type(default) not in _PLAIN_DEFAULTS:
            return self._graph.placeholder(star + parameter.name)
        return self._graph.placeholder(parameter.name, default_value=default)

    def _read_symbols(self) -> None:
        for source in self._trace.symbols:
            if source.symbol in self._symbols or not self._is_given(source.path):
                continue
            node = self._at(source.path)
            if source.dim is not None:
                node = self._graph.call_method("size", (node, source.dim))
            self._symbols[source.symbol] = node

    def _inputs(self, segment: TracedSegment) -> dict[torch.fx.Node, object]:
        placeholders = [node for node in segment.graph.graph.nodes if node.op == "placeholder"]
        copies: dict[torch.fx.Node, object] = {}
        for node, source, example in zip(
            placeholders, segment.inputs, segment.examples, strict=True
        ):
            if isinstance(source, Expr):
                copies[node] = self._sizes.of(source)
            else:
                assert isinstance(source, Path), "one graph takes nothing from an earlier one"
                copies[node] = found = self._input(source, example)
                if RESULT in node.meta:
                    found.meta.setdefault(RESULT, node.meta[RESULT])
        return copies

    def _expect_gradients(
        self, segment: TracedSegment, copies: Mapping[torch.fx.Node, object]
    ) -> None:
        """A backward in the graph is for the tensors that required grad. The program may have set
        that of an example since."""
        given = {
            guard.path: guard.value.requires_grad
            for guard in self._trace.guards
            if guard.kind is Kind.TENSOR
        }
        for node, source, example in zip(copies, segment.inputs, segment.examples, strict=True):
            if isinstance(example, torch.Tensor) and example.is_floating_point():
                found: Any = copies[node]
                assert isinstance(source, Path), "a tensor is found at a path"
                expected = given.get(source, example.requires_grad)
                args = (found, expected, place_text(place_of(found)))
                self._graph.call_function(results.expect_requires_grad, args)

    def _is_given(self, path: Path) -> bool:
        """Whether it is found in what the caller gives."""
        return path.root.access is Access.LOCAL and path.root.key != self._self_name

    def _input(self, path: Path, value: object) -> torch.fx.Node:
        if self._is_given(path):
            return self._at(path)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        raise self._cannot(f"`{path.text}` is a {type(value).__name__} that lives outside of it")

    def _at(self, path: Path) -> Any:
        """The node of what is found at a path."""
        found = self._paths.get(path)
        if found is None:
            found = self._paths[path] = self._step(path)
        return found

    def _step(self, path: Path) -> Any:
        if not self._is_given(path):
            return self._held(path)
        if path.parent is None:
            return self._parameters[str(path.key)]
        parent, key = self._at(path.parent), cast("Any", path.key)
        match path.access:
            case Access.ITEM:
                return self._graph.call_function(operator.getitem, (parent, key))
            case Access.ATTRIBUTE | Access.INSTANCE:
                return self._graph.call_function(getattr, (parent, key))
            case _:
                raise self._cannot(f"it looks at `{path.text}`, which is no item or attribute")

    def _held(self, path: Path) -> object:
        """Something that the program returns and the caller did not give."""
        value = find(path, self._bound, {})
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if value is None or type(value) in (bool, int, float, str):
            return value
        return Outside(path)

    def _tensor(self, value: torch.Tensor, path: Path) -> torch.fx.Node:
        found = self._tensors.get(id(value))
        if found is not None:
            return found
        key = id(value)
        name = self._weights.parameters.get(key) or self._weights.buffers.get(key)
        if name is None:
            name = _name_in_module(path)
            name = name if name is not None and self._is_free(name) else None
        if name is None or not _OF_MODULES.isdisjoint(name.split(".")):
            name = f"{CONSTANTS}{_WORDS.sub('_', path.text).strip('_')}_{self._constants}"
            self._constants += 1
        put_tensor(self._root, name, value, isinstance(value, torch.nn.Parameter))
        found = self._tensors[id(value)] = self._graph.get_attr(name)
        return found

    def _is_free(self, name: str) -> bool:
        """Whether no weight has the name, or a name that goes on from it."""
        if name in {*self._weights.parameters.values(), *self._weights.buffers.values()}:
            return False
        held: Any = self._root
        for part in name.split("."):
            if not isinstance(held, torch.nn.Module):
                return False
            held = getattr(held, part, None)
            if held is None:
                return True
        return False

    # -- the program -------------------------------------------------------------------------------

    def _copy(self, segment: TracedSegment, copies: dict[torch.fx.Node, Any]) -> Sequence[object]:
        outputs: Sequence[object] = ()
        for node in segment.graph.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                outputs = torch.fx.map_arg(node.args[0], copies.__getitem__)
                continue
            copies[node] = self._graph.node_copy(node, copies.__getitem__)
        return outputs

    def _check(self, segment: TracedSegment, outputs: Sequence[Any]) -> None:
        """Conditions on data, each where the last number that it is about is known."""
        for symbol, place in segment.values.items():
            self._symbols[symbol] = outputs[place.output]
        for each in segment.expectations:
            numbers = [self._symbols[symbol] for symbol in each.symbols]
            if each.output is not None:
                numbers.append(outputs[each.output])
            nodes = [node for node in numbers if isinstance(node, torch.fx.Node)]
            order = {node: index for index, node in enumerate(self._graph.nodes)}
            last = max(nodes, key=order.__getitem__)
            with self._graph.inserting_before(_behind_inputs(last)):
                self._expect(each, outputs)

    def _expect(self, each: RuntimeAssert, outputs: Sequence[Any]) -> None:
        where = ""
        if each.frame is not None:
            # Whoever reads it has another machine: folders say nothing there.
            line = getline(each.frame.filename, each.frame.line).strip()
            where = f" at {os.path.basename(each.frame.filename)}:{each.frame.line}"
            where += f": {line}" if line else ""
        if each.fact is not None:
            # Sizes made here stay here: a later one may stand before them.
            sizes = SizeNodes(self._graph, self._symbols.__getitem__)
            condition, text = self._fact(each.fact, sizes), to_text(each.fact)
        else:
            assert each.output is not None, "an expectation is a fact or a value"
            value = outputs[each.output]
            condition = self._graph.call_function(operator.eq, (value, each.value))
            text = f"{value} == {each.value!r}"
        self._graph.call_function(results.expect, (condition, text, f"{each.reason}{where}"))

    def _fact(self, fact: Fact, sizes: SizeNodes) -> Any:
        match fact:
            case Truth():
                return fact.value
            case And() | Or():
                join = operator.and_ if isinstance(fact, And) else operator.or_
                first, *rest = (self._fact(part, sizes) for part in fact.parts)
                for part in rest:
                    first = self._graph.call_function(join, (first, part))
                return first
            case Nonnegative() | Zero() | Nonzero():
                compare = _COMPARISONS[type(fact)]
                return self._graph.call_function(compare, (sizes.of(fact.size), 0))

    def _return(self, outputs: Sequence[object]) -> None:
        known: dict[str, object] = {f"t{index}": node for index, node in enumerate(outputs)}
        sizes = SizeNodes(self._graph, self._symbols.__getitem__)
        for index, source in enumerate(self._trace.extra):
            known[f"x{index}"] = self._at(source) if isinstance(source, Path) else sizes.of(source)
        recipe = RecipeNodes(self._graph, known, self._trace.namespace, self._item)
        try:
            returned = recipe.result(self._trace.steps, self._trace.result)
        except NotData as error:
            raise self._cannot(
                f"its result, or something that it changes, is more than data: {error}",
                "return tensors and numbers, in containers or objects that the program makes",
                "return what it would store or print",
                *error.hints,
            ) from None
        self._leave_out(recipe.left_out)
        self._graph.output(returned)
        for node in reversed(recipe.without_grad):
            with self._graph.inserting_before(_behind_inputs(node)):
                name = place_text(place_of(node))
                self._graph.call_function(results.expect_no_grad, (node, name))

    def _item(self, path: Path, key: object) -> object:
        """The node of what a dictionary outside has by a key, if that is a tensor."""
        held = find(path, self._bound, {})
        return self._tensors.get(id(held.get(key))) if isinstance(held, dict) else None

    def _leave_out(self, changes: Mapping[tuple[Path, str], object]) -> None:
        """Plain values that the program sets on objects outside: an artifact without them is right
        as long as it does not depend on what they were before."""
        read: dict[object, list[object]] = {}
        for guard in self._trace.guards:
            if guard.kind is Kind.EQUALS and guard.path is not None:
                # By the name alone: it may have been found on a class, and set on an instance.
                read.setdefault(guard.path.key, []).append(guard.value)
        for (path, name), value in changes.items():
            text = f"{path.text}.{name}"
            others = [each for each in read.get(name, ()) if each != value]
            if others:
                raise self._cannot(
                    f"it sets `{text}` to {value!r} and depends on what it was, {others[0]!r}",
                    "give the value as an argument, and return the new one",
                )
            self.left_out.append(f"it sets `{text}` to {value!r}, which the artifact does not do")


def _name_in_module(path: Path) -> str | None:
    """The name of a weight of a module that the program finds outside: `model.0.weight`. Those of
    an optimizer have one already."""
    if path.parent is None:
        return path.text if _STATE.fullmatch(path.text) else None
    if path.parent.key not in _HOLDS_TENSORS:
        return None
    first = _VARIABLE.fullmatch(path.root.text)
    steps = [each for each in path.line[1:] if each.access is not Access.CELL]
    parts = [str(each.key) for each in steps if each.key not in _HOLDERS]
    if first is not None:
        parts.insert(0, first[1])
    return ".".join(parts) if all(re.fullmatch(r"\w+", part) for part in parts) else None


_VARIABLE: Final = re.compile(r"L\['(\w+)'\]")
_STATE: Final = re.compile(r"optimizer\.\w+\.\d+")
_HOLDS_TENSORS: Final = ("_parameters", "_buffers")
_HOLDERS: Final = (*_HOLDS_TENSORS, "_modules", "__dict__")
#: what a module has anyway (`train`, `type`): nothing else is found there by such a name
_OF_MODULES: Final = frozenset(dir(torch.nn.Module()))
_STARS: Final = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
_PLAIN_DEFAULTS: Final = (type(None), bool, int, float, str)
_WORDS: Final = re.compile(r"[\W_]+")
_COMPARISONS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    Nonnegative: operator.ge,
    Zero: operator.eq,
    Nonzero: operator.ne,
}


def _behind_inputs(node: torch.fx.Node) -> torch.fx.Node:
    """The node behind this one, and behind the placeholders, which come first."""
    behind = node.next
    while behind.op == "placeholder":
        behind = behind.next
    return behind
