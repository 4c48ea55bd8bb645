"""Programs whose way, sizes or effects depend on data, and twins that run them.

A row builds the program afresh, so that the eager and the compiled twin share nothing but their
code, and makes the arguments of a call from a seeded generator. `run_twins` calls both side by side
and compares everything a program can see: result or exception, arguments, state, what was printed,
and the three random number generators.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers as tf
from torch import Tensor, nn
from torch.nn import functional

import anyshape
from tests import devices
from tests.zoo.compare import difference, tensors


@dataclass
class Built:
    """A program, and the state that its calls may change."""

    function: Callable[..., Any]
    watch: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Program:
    """A row of the table."""

    name: str
    build: Callable[[], Built]
    inputs: Callable[[random.Random], tuple[Any, ...]]
    calls: int = 50
    most_graphs: int = 64
    """Over all calls; the bound of an entry where a program has no better one."""


# -- twins -----------------------------------------------------------------------------------------


@dataclass
class Seen:
    """All that one call left behind."""

    result: Any
    raised: BaseException | None
    printed: str
    arguments: Any
    state: Any
    generators: Any


def run_twins(
    program: Program, dynamic: bool | None, first_seed: int = 0, **settings: Any
) -> anyshape.api.Compiled:
    """Call the twins side by side; returns the compiled one for further questions."""
    eager, other = program.build(), program.build()
    # Both backends in turn: one gives the bits of eager, the other what people run.
    settings.setdefault("backend", "eager" if dynamic is None else "native")
    exact = settings["backend"] == "eager"
    compiled = anyshape.compile(other.function, dynamic=dynamic, **settings)
    for call in range(program.calls):
        seed = first_seed + call
        expected = _observe(eager.function, eager.watch, program.inputs, seed)
        found = _observe(compiled, other.watch, program.inputs, seed)
        problem = _different(expected, found, exact)
        assert not problem, f"{program.name}, call {call}, dynamic={dynamic}: {problem}"
    return compiled


def _observe(
    function: Callable[..., Any],
    watch: Callable[[], Any],
    inputs: Callable[[random.Random], tuple[Any, ...]],
    seed: int,
) -> Seen:
    devices.seed(seed)
    result, raised = None, None
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
        # Growth without end is said in a warning; torch says what is new in it once per process.
        warnings.filterwarnings("ignore", "anyshape:|Sparse ")
        arguments = inputs(random.Random(seed))
        devices.seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            result = function(*arguments)
        except (Exception, KeyboardInterrupt) as error:
            raised = error
    numbers = np.random.get_state(legacy=False)["state"]
    generators = (
        devices.random_state(),
        hash(random.getstate()),
        (numbers["key"].tobytes(), numbers["pos"]),
    )
    # Copies, since a later call must not change what this one is seen to have left.
    state = copy.deepcopy(_plain(watch()))
    return Seen(_plain(result), raised, printed.getvalue(), _plain(arguments), state, generators)


def _different(expected: Seen, found: Seen, exact: bool) -> str | None:
    """The first disagreement, in words."""
    if (expected.raised is None) != (found.raised is None):
        return f"raised {found.raised!r}, where eager raised {expected.raised!r}"
    for name in ("raised", "result", "printed", "arguments", "state", "generators"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        problem = difference(ours, theirs, name)
        if exact and not problem:
            problem = _inexact(ours, theirs, name)
        if problem:
            return problem
    return None


def _inexact(ours: Any, theirs: Any, name: str) -> str | None:
    """The same kernels ran on the same data: every bit is the same."""
    for left, right in zip(tensors(ours), tensors(theirs), strict=True):
        if not torch.equal(left.detach().nan_to_num(123.0), right.detach().nan_to_num(123.0)):
            return f"{name}: not the same to the last bit: {left} != {right}"
    return None


def _plain(value: Any) -> Any:
    """Ragged and sparse tensors by their parts, which can be compared."""
    if isinstance(value, Tensor):
        return _parts(value)
    if type(value) in (tuple, list):
        return type(value)(_plain(each) for each in value)
    if type(value) is dict:
        return {key: _plain(each) for key, each in value.items()}
    return value


def _parts(tensor: Any) -> Any:
    if tensor.is_nested:
        lengths = tensor.lengths()
        return "jagged", tensor.values(), tensor.offsets(), lengths, tensor.requires_grad
    shape = tuple(tensor.shape)
    if tensor.layout is torch.sparse_coo:
        return "coo", shape, tensor._indices(), tensor._values(), tensor.is_coalesced()
    if tensor.layout is torch.sparse_csr:
        return "csr", shape, tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor


def matrix(rng: random.Random, least: int = 1, most: int = 6, columns: int = 4) -> Tensor:
    """A varying number of rows."""
    return torch.randn(rng.randint(least, most), columns)


@contextlib.contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Twins get the same weights."""
    with torch.random.fork_rng([]):
        devices.seed(seed)
        yield


# -- one of everything -----------------------------------------------------------------------------


class Mixture:
    """Two branches on data, a print, counters, a list, an in-place update, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.running = torch.zeros(4)
        self.calls = 0
        self.large = 0
        self.seen: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y = self.linear(x)
        if y.mean() > 0:
            self.large += 1
            mean = round(y.detach().mean().item(), 3)
            print("large", self.large, "of", self.calls, "at", mean)
            y = functional.dropout(y, 0.5, training=True)
        else:
            y = y * 2
        self.running.mul_(0.9).add_(y.detach().mean(0))
        if self.running.abs().max() > 0.3:
            self.seen.append(self.running.sum().item())
            self.running.zero_()
            y = y - 1
        x.add_(1)
        return y + self.calls


class MixtureModule(Mixture, nn.Module):
    """The same on a module, whose integers are static by default."""


def build_mixture(kind: type[Mixture]) -> Built:
    with seeded():
        made = kind()
    function = made if isinstance(made, nn.Module) else made.forward
    return Built(function, lambda: (made.calls, made.large, made.seen, made.running))


MIXTURE = Program(
    "mixture", lambda: build_mixture(Mixture), lambda rng: (matrix(rng),), 200, most_graphs=12
)
MIXTURE_MODULE = Program(
    "mixture on a module", lambda: build_mixture(MixtureModule), lambda rng: (matrix(rng),), 30, 12
)


# -- experts ---------------------------------------------------------------------------------------

_SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
}


def build_mixtral() -> Built:
    with seeded():
        config = tf.MixtralConfig(**_SIZES, num_local_experts=4)
        config._experts_implementation = "eager"
        return Built(tf.MixtralForCausalLM(config).eval())


def build_qwen_moe() -> Built:
    with seeded():
        config = tf.Qwen2MoeConfig(
            **_SIZES,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            decoder_sparse_step=1,
        )
        config._experts_implementation = "eager"
        return Built(tf.Qwen2MoeForCausalLM(config).eval())


def text(rng: random.Random) -> tuple[Any, ...]:
    return (torch.randint(3, 50, (rng.randint(1, 3), rng.randint(1, 9))),)


class Router(nn.Module):
    """Experts as most write them: each takes the rows that chose it, if there are any."""

    def __init__(self, experts: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(4, experts)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(experts))
        self.load = [0] * experts

    def forward(self, x: Tensor) -> Tensor:
        choice = self.gate(x).argmax(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            self.load[number] += 1
            y[rows] = expert(x[rows])
        return y


def build_router() -> Built:
    with seeded():
        module = Router()
    return Built(module, lambda: module.load)


# -- detection -------------------------------------------------------------------------------------


def overlap(box: Tensor, others: Tensor) -> Tensor:
    low = torch.maximum(box[:2], others[:, :2])
    high = torch.minimum(box[2:], others[:, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    area = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(-1)
    return common / (area - common)


def suppress(boxes: Tensor, scores: Tensor, threshold: float = 0.5) -> tuple[Tensor, Tensor, int]:
    """Keep the best box, drop those that overlap it, go on with the rest."""
    kept = (scores > 0.3).nonzero().squeeze(-1)
    boxes, scores = boxes[kept], scores[kept]
    order = scores.argsort(descending=True)
    chosen: list[Tensor] = []
    while order.numel() > 0:
        best = order[0]
        chosen.append(best)
        if order.numel() == 1:
            break
        order = order[1:]
        order = order[overlap(boxes[best], boxes[order]) <= threshold]
    if not chosen:
        return boxes.new_zeros((0, 4)), scores, 0
    index = torch.stack(chosen)
    return boxes[index], scores[index], len(chosen)


def detections(rng: random.Random) -> tuple[Any, ...]:
    count = rng.randint(0, 8)
    corner = torch.rand(count, 2) * 4
    return torch.cat([corner, corner + 1 + torch.rand(count, 2)], 1), torch.rand(count)


def suppress_by_class(
    boxes: Tensor, scores: Tensor, labels: Tensor
) -> dict[int, tuple[Tensor, Tensor]]:
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for label in labels.unique().tolist():
        mask = labels == label
        kept = scores[mask].topk(min(2, int(mask.sum()))).indices
        found[label] = boxes[mask][kept], scores[mask][kept]
    return found


def labelled(rng: random.Random) -> tuple[Any, ...]:
    boxes, scores = detections(rng)
    return boxes, scores, torch.randint(0, 3, scores.shape)


# -- loops that stop by data -----------------------------------------------------------------------


class Beam(nn.Module):
    """Beam search over a small model, with the beams in tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.head = nn.Linear(8, 7)
        self.longest = 0

    def forward(self, start: Tensor, beams: int = 2) -> tuple[Tensor, Tensor]:
        tokens = start.repeat_interleave(beams, 0)[:, None]
        scores = torch.zeros(tokens.shape[0])
        ended = torch.zeros(tokens.shape[0], dtype=torch.bool)
        for _ in range(5):
            logits = self.head(self.embedding(tokens).mean(1)).log_softmax(-1)
            logits = logits.masked_fill(ended[:, None], 0.0)
            total = (scores[:, None] + logits).view(start.shape[0], -1)
            scores, index = total.topk(beams, -1)
            rows = torch.arange(start.shape[0])[:, None] * beams + index // 7
            rows, scores = rows.flatten(), scores.flatten()
            token = index.flatten() % 7
            tokens = torch.cat([tokens[rows], token[:, None]], 1)
            ended = ended[rows] | (token == 0)
            if bool(ended.all()):
                break
        if tokens.shape[1] > self.longest:
            self.longest = tokens.shape[1]
        return tokens, scores


def build_beam() -> Built:
    with seeded(3):
        module = Beam()
    return Built(module, lambda: module.longest)


class ListBeam(Beam):
    """The same search with hypotheses in Python lists."""

    def forward(self, start: Tensor, beams: int = 2) -> list[tuple[float, list[int]]]:  # pyright: ignore[reportIncompatibleMethodOverride] another result
        live: list[tuple[float, list[Any]]] = [(0.0, [start[0].item()])]
        done: list[tuple[float, list[int]]] = []
        for _ in range(4):
            grown: list[tuple[float, list[int]]] = []
            for score, tokens in live:
                row = self.head(self.embedding(torch.tensor(tokens)).mean(0)).log_softmax(-1)
                best, index = row.topk(beams)
                for value, token in zip(best.tolist(), index.tolist(), strict=True):
                    (done if token == 0 else grown).append((score + value, [*tokens, token]))
            live = sorted(grown, key=lambda each: -each[0])[:beams]
            if not live:
                break
        return sorted(done + live, key=lambda each: -each[0])[:beams]


def build_list_beam() -> Built:
    with seeded(3):
        return Built(ListBeam())


class Recurrent(nn.Module):
    """A loop over time that stops when the state says so."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.steps = 0

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        state = x.new_zeros(x.shape[1], 4)
        last = 0
        for step, row in enumerate(x):
            state = self.cell(row, state)
            self.steps += 1
            last = step
            if state.abs().max() > 0.6:
                break
        return state, last


def build_recurrent() -> Built:
    with seeded():
        module = Recurrent()
    return Built(module, lambda: module.steps)


def sequence(rng: random.Random) -> tuple[Any, ...]:
    return (torch.randn(rng.randint(1, 6), rng.randint(1, 3), 4),)


def halve_until_small(x: Tensor) -> tuple[Tensor, int]:
    steps = 0
    while x.norm() > 1:
        x = x / 2
        steps += 1
    return x, steps


def must_be_positive(x: Tensor) -> Tensor:
    """Not in a test, where pytest writes asserts anew, with addresses in their messages."""
    assert x.mean() > 0, "the mean must be positive"
    return x


def names_across_a_break(x: Tensor) -> tuple[Tensor, Tensor]:
    """What is handed on and what is computed later would like the same names in the graph."""
    a = x + 1
    b = x + 2
    if x[0, 0] > 0:
        x = x * 2
    c = x + 3
    return a * c, b * c


def names_in_a_loop(x: Tensor) -> list[Tensor]:
    parts: list[Tensor] = []
    for number in range(3):
        if x[0, number] > 0:
            parts.append(x + 1)
    return [part.sum() * number for number, part in enumerate(parts)]


# -- calls that go a new way: what they did before is undone ---------------------------------------


class Reshaped:
    """Changes of a tensor's own shape, seen through it and through its memory."""

    def __init__(self) -> None:
        self.square = torch.arange(4.0).view(2, 2)
        self.memory = self.square.view(-1)
        self.row = torch.ones(4)
        self.grown = torch.ones(2)

    def transpose(self, x: Tensor) -> Tensor:
        self.square.t_()
        return self.square * 2 if x.sum() > 0 else self.square * 3

    def unsqueeze(self, x: Tensor) -> Tensor:
        if self.row.dim() > 3:
            self.row.squeeze_()
        self.row.unsqueeze_(0)
        return self.row * 2 if x.sum() > 0 else self.row * 3

    def resize(self, x: Tensor) -> Tensor:
        self.grown.resize_(self.grown.shape[0] % 5 + 1).fill_(1)
        return self.grown * 2 if x.sum() > 0 else self.grown * 3

    def watch(self) -> Any:
        strides = self.square.stride(), self.row.stride()
        return self.square, self.memory, self.row, self.grown, strides


def build_reshaped(method: str) -> Callable[[], Built]:
    def build() -> Built:
        made = Reshaped()
        return Built(getattr(made, method), made.watch)

    return build


def own_generator(x: Tensor, generator: torch.Generator) -> Tensor:
    y = torch.rand(2, generator=generator)
    return y * 2 if x.sum() > 0 else y * 3


def generator_and_rows(rng: random.Random) -> tuple[Any, ...]:
    return matrix(rng), devices.generator(rng.randint(0, 9))


def build_kept_generator() -> Built:
    generator = devices.generator(0)

    def f(x: Tensor) -> Tensor:
        y = torch.rand(2, generator=generator)
        return y + torch.rand(1, generator=generator) if y[0] > 0.5 else y * x.sum()

    return Built(f, generator.get_state)


class Views:
    """In-place changes through views of kept tensors, before and between questions."""

    def __init__(self) -> None:
        self.kept = torch.zeros(3, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        row = self.kept[1]
        row.add_(x.sum(0))
        self.kept[0].copy_(row * 2)
        if x.sum() > 0:
            self.kept.mul_(0.5)
        if self.kept[0].sum() > 1:
            row.zero_()
        return row.clone(), self.kept * 2


def build_views() -> Built:
    made = Views()
    return Built(made.forward, lambda: made.kept)


def methods_of_numbers(x: Tensor) -> tuple[Any, ...]:
    value: Any = (x.max() * 4).item()  # to the last bit, whoever computes it
    count = int((x > 0).sum())
    return value.is_integer(), count.bit_length(), value.hex() if value > 3 else ""


# -- graphs, segments, ragged and sparse -----------------------------------------------------------


class Message(nn.Module):
    """One step of a graph network: messages along edges, summed and maximised at their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        source, target = edges
        message = self.linear(torch.cat([x[source], x[target]], -1)).relu()
        total = torch.zeros_like(x).index_add_(0, target, message)
        index = target[:, None].expand_as(message)
        largest = torch.zeros_like(x).scatter_reduce(0, index, message, "amax")
        degree = torch.bincount(target, minlength=x.shape[0])
        alone = (degree == 0).nonzero().squeeze(-1)
        total[alone] = x[alone]
        return total / degree.clamp(min=1)[:, None], largest, alone


def build_message() -> Built:
    with seeded():
        return Built(Message())


def graph(rng: random.Random) -> tuple[Any, ...]:
    nodes = rng.randint(1, 6)
    return torch.randn(nodes, 4), torch.randint(0, nodes, (2, rng.randint(0, 9)))


def prune(x: Tensor, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Edges below a threshold go; nodes that no edge reaches are numbered anew."""
    edges = edges[:, weights > 0]
    nodes, renamed = edges.unique(return_inverse=True)
    if nodes.numel() == 0:
        return x[:0], edges
    return x[nodes] * edges.shape[1], renamed


def weighted_graph(rng: random.Random) -> tuple[Any, ...]:
    x, edges = graph(rng)
    return x, edges, torch.randn(edges.shape[1])


def segments(values: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    owner = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
    total = values.new_zeros(lengths.numel(), values.shape[1]).index_add(0, owner, values)
    mean = total / lengths.clamp(min=1)[:, None]
    largest = torch.segment_reduce(values, "max", lengths=lengths, axis=0, initial=-9.0)
    return owner, mean, largest


def segment_list(values: Tensor, lengths: Tensor) -> list[Tensor]:
    return [part.sum(0) for part in values.split(lengths.tolist())]


def segment_slices(values: Tensor, lengths: Tensor) -> Tensor:
    ends = lengths.cumsum(0).tolist()
    parts = []
    start = 0
    for end in ends:
        if end > start:
            parts.append(values[start:end].amax(0))
        start = end
    return torch.stack(parts) if parts else values[:0]


def rows_of_segments(rng: random.Random) -> tuple[Any, ...]:
    lengths = torch.tensor([rng.randint(0, 4) for _ in range(rng.randint(1, 4))])
    return torch.randn(int(lengths.sum()), 4), lengths


def jagged_input(nested: Any) -> tuple[Tensor, Tensor, Tensor]:
    doubled = nested.sin() * 2
    return doubled, doubled.values().sum(0), nested.offsets().diff()


def jagged_linear(nested: Tensor, weight: Tensor) -> tuple[Tensor, list[Tensor]]:
    y = functional.linear(nested, weight)
    return y, [row.mean() for row in y.unbind()]


def jagged_padded(nested: Tensor) -> Tensor:
    return nested.to_padded_tensor(0.0).sum(1) + nested.size(0)


def jagged_inside(values: Tensor, lengths: Tensor) -> Tensor:
    offsets = functional.pad(lengths.cumsum(0), (1, 0))
    nested = torch.nested.nested_tensor_from_jagged(values, offsets)
    return (nested * 2 + 1).values()


def jagged_by_hand(values: Tensor, offsets: Tensor) -> Tensor:
    """Values and offsets as plain tensors, padded to the longest row of the batch."""
    lengths = offsets.diff()
    longest = int(lengths.max())
    padded = values.new_zeros(lengths.numel(), longest, values.shape[1])
    kept = torch.arange(longest) < lengths[:, None]
    padded[kept] = values
    return padded.softmax(-1) * kept[..., None]


def jagged(rng: random.Random) -> tuple[Any, ...]:
    values, lengths = rows_of_segments(rng)
    lengths = lengths + 1
    values = torch.randn(int(lengths.sum()), 4)
    offsets = functional.pad(lengths.cumsum(0), (1, 0))
    return (torch.nested.nested_tensor_from_jagged(values, offsets),)


def jagged_and_weight(rng: random.Random) -> tuple[Any, ...]:
    return *jagged(rng), torch.randn(3, 4)


def values_and_offsets(rng: random.Random) -> tuple[Any, ...]:
    values, lengths = rows_of_segments(rng)
    return values, functional.pad(lengths.cumsum(0), (1, 0))


def coo_product(matrix: Tensor, x: Tensor) -> tuple[Tensor, int]:
    return torch.sparse.mm(matrix, x).relu(), matrix._nnz()


def coo_values(matrix: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    whole = matrix.coalesce()
    scaled = torch.sparse_coo_tensor(
        whole.indices(), whole.values() * 2, matrix.shape, is_coalesced=True
    )
    return scaled, scaled.to_dense() @ x


def csr_product(matrix: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return matrix @ x, matrix.crow_indices().diff()


def sparse_inside(dense: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    dense = dense.relu()
    sparse = dense.to_sparse()
    return sparse @ x, sparse.values().cumsum(0)


def coo(rng: random.Random) -> tuple[Any, ...]:
    rows, columns, count = rng.randint(1, 5), rng.randint(1, 5), rng.randint(0, 9)
    index = torch.stack([torch.randint(0, rows, (count,)), torch.randint(0, columns, (count,))])
    built = torch.sparse_coo_tensor(index, torch.randn(count), (rows, columns))
    return built, torch.randn(columns, 4)


def csr(rng: random.Random) -> tuple[Any, ...]:
    dense, x = dense_pair(rng)
    return dense.relu().to_sparse_csr(), x


def dense_pair(rng: random.Random) -> tuple[Any, ...]:
    rows, columns = rng.randint(1, 5), rng.randint(1, 5)
    return torch.randn(rows, columns), torch.randn(columns, 4)


def plain(function: Callable[..., Any]) -> Callable[[], Built]:
    """A function without state."""
    return lambda: Built(function)


PROGRAMS: tuple[Program, ...] = (
    Program("Mixtral, eager experts", build_mixtral, text, most_graphs=100),
    Program("Qwen2-MoE, eager experts", build_qwen_moe, text, most_graphs=80),
    Program("router with skipped experts", build_router, lambda rng: (matrix(rng, 0),)),
    Program("detection", plain(suppress), detections, most_graphs=40),
    Program("detection by class", plain(suppress_by_class), labelled, most_graphs=32),
    Program(
        "beam search",
        build_beam,
        lambda rng: (torch.randint(1, 7, (rng.randint(1, 3),)),),
        most_graphs=16,
    ),
    Program("beam search, lists", build_list_beam, lambda rng: (torch.randint(1, 7, (1,)),)),
    Program("RNN, early stop", build_recurrent, sequence),
    Program(
        "while on data", plain(halve_until_small), lambda rng: (matrix(rng) * 3,), most_graphs=20
    ),
    Program(
        "names across a break",
        plain(names_across_a_break),
        lambda rng: (matrix(rng),),
        most_graphs=6,
    ),
    Program("names in a loop", plain(names_in_a_loop), lambda rng: (matrix(rng),), most_graphs=32),
    Program("undone: t_", build_reshaped("transpose"), lambda rng: (matrix(rng),)),
    Program("undone: unsqueeze_", build_reshaped("unsqueeze"), lambda rng: (matrix(rng),)),
    Program("undone: resize_", build_reshaped("resize"), lambda rng: (matrix(rng),)),
    Program("undone: a generator passed in", plain(own_generator), generator_and_rows),
    Program("undone: a kept generator", build_kept_generator, lambda rng: (matrix(rng),)),
    Program("undone: views", build_views, lambda rng: (matrix(rng),), most_graphs=6),
    Program("methods of numbers", plain(methods_of_numbers), lambda rng: (matrix(rng),)),
    Program("GNN step", build_message, graph, most_graphs=2),
    Program("GNN pruning", plain(prune), weighted_graph, most_graphs=6),
    Program("segments", plain(segments), rows_of_segments, most_graphs=2),
    Program("segments by split", plain(segment_list), rows_of_segments, most_graphs=6),
    Program("segments by slices", plain(segment_slices), rows_of_segments, most_graphs=50),
    Program("jagged input", plain(jagged_input), jagged, most_graphs=2),
    Program("jagged linear", plain(jagged_linear), jagged_and_weight, most_graphs=5),
    Program("jagged to padded", plain(jagged_padded), jagged),
    Program("jagged made inside", plain(jagged_inside), rows_of_segments, most_graphs=2),
    Program("values and offsets", plain(jagged_by_hand), values_and_offsets, most_graphs=2),
    Program("COO product", plain(coo_product), coo),
    Program("COO values", plain(coo_values), coo, most_graphs=2),
    Program("CSR product", plain(csr_product), csr, most_graphs=2),
    Program("sparse made inside", plain(sparse_inside), dense_pair, most_graphs=2),
)
