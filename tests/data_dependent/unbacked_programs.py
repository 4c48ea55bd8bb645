"""Small programs whose sizes and integers depend on data, with what is to be said of each.

A program is a function, the inputs it is tried on, and how it compiles:

    ONE_GRAPH    one graph serves every input
    NEEDS_CHECK  it asks something that only the data knows; the check that the error suggests makes
                 it one graph
    BRANCHES     it asks about a truth or a float, of which no check is suggested
    MEANINGS     torch itself does something else at some sizes: it stretches a 1, counts from the
                 end, returns its argument instead of a copy; a graph for each

Inputs are made for a count `n`: how many elements are chosen, or the number in the tensor. The
counts 0 and 1 are always among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape import check


class Expected(Enum):
    """See the module."""

    ONE_GRAPH = auto()
    NEEDS_CHECK = auto()
    BRANCHES = auto()
    MEANINGS = auto()


ONE_GRAPH, NEEDS_CHECK = Expected.ONE_GRAPH, Expected.NEEDS_CHECK
BRANCHES, MEANINGS = Expected.BRANCHES, Expected.MEANINGS

#: The arguments for a count, among so many elements where that matters.
Inputs = Callable[[int, int, torch.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A function, and what is expected of it."""

    function: Callable[..., Any]
    inputs: Inputs
    expected: Expected
    #: why the expectation is not met yet
    todo: str = ""
    #: what is wrong with its answers, if something is
    wrong: str = ""
    #: so many checks have to be pasted at most, one after the other
    checks: int = 1
    #: the most graphs without fullgraph
    graphs: int = 4
    #: why it is not compiled yet, if it is not
    leaves: str = ""
    #: counts that it is never given: it fails in eager
    never: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


PROGRAMS: list[Program] = []


def program(
    inputs: Inputs,
    expected: Expected = ONE_GRAPH,
    *,
    todo: str = "",
    wrong: str = "",
    checks: int = 1,
    graphs: int = 4,
    leaves: str = "",
    never: frozenset[int] = frozenset(),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(
            Program(function, inputs, expected, todo, wrong, checks, graphs, leaves, never)
        )
        return function

    return register


# -- inputs ---------------------------------------------------------------------------------------


def number(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.tensor(n),)


def small_number(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.tensor(n, dtype=torch.uint8),)


def number_and_vector(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.tensor(n), torch.randn(among, generator=rng))


def number_and_matrix(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.tensor(n), torch.randn(among, 4, generator=rng))


def two_numbers(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.tensor([n, int(torch.randint(0, 6, (), generator=rng))]),)


def lengths_and_matrix(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    second = int(torch.randint(0, among - n + 1, (), generator=rng))
    lengths = torch.tensor([n, second, among - n - second])
    return (lengths, torch.randn(among, 4, generator=rng))


def real_and_matrix(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.randn((), generator=rng), torch.randn(among, 4, generator=rng))


def chosen(n: int, among: int, rng: torch.Generator) -> Tensor:
    mask = torch.zeros(among, dtype=torch.bool)
    mask[torch.randperm(among, generator=rng)[:n]] = True
    return mask


def mask_only(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (chosen(n, among, rng),)


def vector_and_mask(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.randn(among, generator=rng), chosen(n, among, rng))


def matrix_and_mask(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.randn(among, 4, generator=rng), chosen(n, among, rng))


def two_masks(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    other = int(torch.randint(0, among + 1, (), generator=rng))
    x = torch.randn(among, 4, generator=rng)
    return (x, chosen(n, among, rng), chosen(other, among, rng))


def plane_mask(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    mask = chosen(n, 3 * among, rng).reshape(3, among)
    return (torch.randn(3, among, generator=rng), mask)


def repeats(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    counts = torch.zeros(4, dtype=torch.int64)
    for row in torch.randint(0, 4, (n,), generator=rng).tolist():
        counts[row] += 1
    return (torch.randn(4, 3, generator=rng), counts)


def distinct(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    """`n` different values, in a vector of that many elements or twice as many."""
    values = torch.randperm(20, generator=rng)[: max(n, 1)]
    return (values[torch.randint(0, len(values), (among,), generator=rng)],)


def small_integers(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    """None above `n`."""
    return (torch.randint(0, n + 1, (among,), generator=rng),)


def masked_edges(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    """Features of 5 nodes, edges between them, and which edges count."""
    edges = torch.randint(0, 5, (2, among), generator=rng)
    return (torch.randn(5, 4, generator=rng), edges, chosen(n, among, rng))


def tokens_and_mask(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    return (
        torch.randint(0, 11, (among,), generator=rng),
        chosen(n, among, rng),
        torch.randn(11, 4, generator=rng),
    )


NOT_0 = frozenset({0})

# -- numbers taken out of tensors -----------------------------------------------------------------


@program(number)
def arange_of_item(t: Any) -> Any:
    return torch.arange(t.item())


@program(number)
def arange_from_to(t: Any) -> Any:
    n = t.item()
    return torch.arange(n, 2 * n + 3)


@program(number)
def arange_with_step(t: Any) -> Any:
    n = t.item()
    return torch.arange(0, n, 2)


@program(number)
def zeros_of_item(t: Any) -> Any:
    n = t.item()
    return torch.zeros(n, 3)


@program(number)
def sizes_are_arithmetic(t: Any) -> Any:
    n = t.item()
    return torch.ones(n + 2, 2 * n).sum(1)


@program(number)
def full_of_item(t: Any) -> Any:
    n = t.item()
    return torch.full((n,), 2.5) + 1


@program(number)
def new_zeros_of_item(t: Any) -> Any:
    return t.new_zeros(t.item())


@program(number)
def empty_then_filled(t: Any) -> Any:
    n = t.item()
    made = torch.empty(n, 2)
    made.fill_(3)
    return made


@program(number)
def item_as_result(t: Any) -> Any:
    n = t.item()
    return n, n + 1, 2 * n - 1, -n


@program(number)
def item_divided(t: Any) -> Any:
    n = t.item()
    return n // 3, n % 3, n / 4


@program(number)
def converted_by_int(t: Any) -> Any:
    n = int(t)
    return torch.zeros(n) + n


@program(number_and_vector)
def item_as_operand(t: Any, x: Tensor) -> Any:
    n = t.item()
    return x * n + n, x - n


@program(number_and_vector)
def item_as_fill(t: Any, x: Tensor) -> Any:
    return torch.full_like(x, t.item())


@program(small_number)
def item_of_bytes(t: Any) -> Any:
    n = t.item()
    if n >= 0:
        return torch.zeros(n)
    return torch.ones(3)


@program(number)
def square_of_item(t: Any) -> Any:
    n = t.item()
    return torch.eye(n), torch.zeros(n, n).tril()


@program(real_and_matrix)
def float_as_scalar(t: Any, x: Tensor) -> Any:
    return x * t.item()


@program(real_and_matrix)
def float_arithmetic(t: Any, x: Tensor) -> Any:
    scale = float(t) * 2 + 1
    return x / scale, scale


@program(real_and_matrix)
def float_in_clamp(t: Any, x: Tensor) -> Any:
    return x.clamp(max=x.max().item())


@program(real_and_matrix)
def float_in_add_alpha(t: Any, x: Tensor) -> Any:
    return torch.add(x, x, alpha=t.item())


@program(real_and_matrix, BRANCHES)
def branch_on_float(t: Any, x: Tensor) -> Any:
    if t.item() > 0:
        return x
    return -x


@program(real_and_matrix, BRANCHES)
def branch_on_tensor(t: Any, x: Tensor) -> Any:
    if t > 0:
        return x + 1
    return x - 1


@program(matrix_and_mask, BRANCHES)
def branch_on_any(x: Tensor, mask: Tensor) -> Any:
    if mask.any():
        return x[mask]
    return x


@program(number, NEEDS_CHECK)
def branch_on_item(t: Any) -> Any:
    n = t.item()
    if n > 2:
        return torch.zeros(n)
    return torch.ones(3)


@program(number, NEEDS_CHECK)
def branch_on_zero(t: Any) -> Any:
    n = t.item()
    if n == 0:
        return torch.ones(1)
    return torch.zeros(n)


@program(number, NEEDS_CHECK)
def branch_on_parity(t: Any) -> Any:
    n = t.item()
    return torch.zeros(n) if n % 2 == 0 else torch.ones(n)


@program(number, NEEDS_CHECK)
def branch_in_callee(t: Any) -> Any:
    n = t.item()
    return _by_size(n)


def _by_size(length: Any) -> Tensor:
    if length < 3:
        return torch.zeros(length)
    return torch.ones(length)


@program(two_numbers, NEEDS_CHECK)
def numbers_compared(t: Any) -> Any:
    n = t[0].item()
    m = t[1].item()
    if n >= m:
        return torch.zeros(n)
    return torch.ones(m)


@program(number, NEEDS_CHECK, graphs=24)
def loop_over_item(t: Any) -> Any:
    n = t.item()
    total = torch.zeros(2)
    for i in range(n):
        total = total + i
    return total


@program(two_numbers)
def numbers_combined(t: Any) -> Any:
    n = t[0].item()
    m = t[1].item()
    return torch.zeros(n, m), torch.ones(n + m), torch.ones(n * m + 1)


@program(two_numbers)
def list_of_two(t: Any) -> Any:
    n, m = t.tolist()
    return torch.zeros(n, m).sum(0)


@program(number)
def facts_of_arithmetic(t: Any) -> Any:
    n = t.item()
    rows = torch.zeros(n, 2)
    if rows.shape[0] + 1 > 0:
        return rows + rows.shape[0]
    return rows


@program(number)
def size_answers_itself(t: Any) -> Any:
    n = t.item()
    rows = torch.zeros(n, 2)
    if rows.shape[0] == n and rows.numel() == 2 * n:
        return rows
    return rows[:1]


@program(number)
def min_and_max(t: Any) -> Any:
    n = t.item()
    return torch.zeros(min(n, 3)), torch.ones(max(n, 3))


@program(number)
def truth_of_arange(t: Any) -> Any:
    n = t.item()
    steps = torch.arange(n)
    if steps.numel() >= 0:
        return steps * 2
    return steps


# -- views by data --------------------------------------------------------------------------------


@program(number_and_matrix)
def narrowed(t: Any, x: Tensor) -> Any:
    return x.narrow(0, 0, t.item())


@program(number_and_matrix)
def narrowed_from(t: Any, x: Tensor) -> Any:
    n = t.item()
    return x.narrow(0, n, x.shape[0] - n).sum(0)


@program(number_and_matrix)
def sliced_to(t: Any, x: Tensor) -> Any:
    return x[: t.item()]


@program(number_and_matrix)
def sliced_from(t: Any, x: Tensor) -> Any:
    return x[t.item() :] + 1


@program(number_and_matrix)
def sliced_from_to(t: Any, x: Tensor) -> Any:
    n = t.item()
    return x[n : n + 2]


@program(number_and_matrix)
def sliced_twice(t: Any, x: Tensor) -> Any:
    n = t.item()
    return x[:n].sum(0) + x[n:].sum(0)


@program(number_and_matrix)
def row_by_item(t: Any, x: Tensor) -> Any:
    return x[t.item()]


@program(number_and_matrix)
def row_by_tensor(t: Any, x: Tensor) -> Any:
    return x[t]


@program(number_and_matrix)
def selected(t: Any, x: Tensor) -> Any:
    return torch.select(x, 0, t.item()) * 2


@program(number_and_matrix)
def written_slice(t: Any, x: Tensor) -> Any:
    made = x.clone()
    made[: t.item()] = 0
    return made


@program(number)
def viewed(t: Any) -> Any:
    n = t.item()
    return torch.arange(4 * n).view(n, 4)


@program(number)
def viewed_with_inferred(t: Any) -> Any:
    n = t.item()
    return torch.arange(4 * n).view(-1, 4)


@program(number, never=NOT_0)
def reshaped_to_rows(t: Any) -> Any:
    n = t.item()
    return torch.arange(4 * n).reshape(n, -1)


@program(number)
def flattened(t: Any) -> Any:
    n = t.item()
    return torch.ones(n, 3, 2).flatten(), torch.ones(2, n, 3).flatten(1)


@program(number)
def expanded(t: Any) -> Any:
    n = t.item()
    return torch.arange(3).expand(n, 3)


@program(number, MEANINGS)
def expanded_and_copied(t: Any) -> Any:
    n = t.item()
    return torch.arange(3).unsqueeze(1).expand(3, n).contiguous()


@program(number)
def repeated(t: Any) -> Any:
    n = t.item()
    return torch.arange(3).repeat(n), torch.arange(3).repeat(2, n)


@program(number)
def transposed(t: Any) -> Any:
    n = t.item()
    return torch.ones(n, 3).t(), torch.ones(2, n, 3).permute(1, 2, 0)


@program(number)
def unsqueezed(t: Any) -> Any:
    n = t.item()
    return torch.ones(n).unsqueeze(0), torch.ones(n)[:, None]


@program(number, MEANINGS)
def squeezed(t: Any) -> Any:
    return torch.ones(2, t.item()).squeeze(1)


@program(number_and_matrix)
def top_k_of_data(t: Any, x: Tensor) -> Any:
    return torch.topk(x.sum(1), t.item())


@program(number)
def padded_by_data(t: Any) -> Any:
    n = t.item()
    return F.pad(torch.ones(2, 3), (0, n))


@program(number)
def one_hot_rows(t: Any) -> Any:
    n = t.item()
    return F.one_hot(torch.arange(n) % 3, 3)


@program(lengths_and_matrix)
def split_by_data(lengths: Any, x: Tensor) -> Any:
    return torch.split(x, lengths.tolist())


@program(lengths_and_matrix)
def sums_of_parts(lengths: Any, x: Tensor) -> Any:
    a, b, c = x.split(lengths.tolist())
    return a.sum(0), b.sum(0), torch.cat([c, a])


@program(lengths_and_matrix)
def halves_by_data(lengths: Any, x: Tensor) -> Any:
    n = lengths[0].item()
    first, second = torch.split(x, [n, x.shape[0] - n])
    return torch.cat([second, first])


# -- selections -----------------------------------------------------------------------------------


@program(mask_only)
def positions(mask: Tensor) -> Any:
    return mask.nonzero()


@program(mask_only)
def positions_as_tuple(mask: Tensor) -> Any:
    return mask.nonzero(as_tuple=True)


@program(mask_only)
def positions_flat(mask: Tensor) -> Any:
    return mask.nonzero().squeeze(1) * 2


@program(plane_mask)
def where_of_condition(x: Tensor, mask: Tensor) -> Any:
    rows, columns = torch.where(mask)
    return x[rows, columns], rows + columns


@program(plane_mask)
def argwhere_of_plane(x: Tensor, mask: Tensor) -> Any:
    return torch.argwhere(mask)


@program(matrix_and_mask)
def rows_by_mask(x: Tensor, mask: Tensor) -> Any:
    return x[mask]


@program(plane_mask)
def elements_by_mask(x: Tensor, mask: Tensor) -> Any:
    return x[mask] * 2


@program(vector_and_mask)
def masked_selected(x: Tensor, mask: Tensor) -> Any:
    return torch.masked_select(x, mask).exp()


@program(matrix_and_mask)
def masked_select_broadcast(x: Tensor, mask: Tensor) -> Any:
    return x.masked_select(mask.unsqueeze(1)).view(-1, 4)


@program(matrix_and_mask)
def count_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.shape[0], kept.numel(), len(kept), kept.size()


@program(matrix_and_mask)
def mean_of_selection(x: Tensor, mask: Tensor) -> Any:
    return x[mask].mean(), x[mask].mean(0)


@program(matrix_and_mask)
def mean_by_hand(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.sum() / (kept.shape[0] + 1)


@program(matrix_and_mask)
def softmax_of_selection(x: Tensor, mask: Tensor) -> Any:
    return x[mask].softmax(-1), x[mask].log_softmax(0)


@program(matrix_and_mask)
def reductions_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.sum(0), kept.prod(1), kept.amax(1), kept.std(1), kept.norm(), kept.sum(1, True)


@program(matrix_and_mask, never=NOT_0)
def maximum_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.max(0).values, kept.argmax(0), kept.max()


@program(matrix_and_mask)
def variance_of_selection(x: Tensor, mask: Tensor) -> Any:
    return x[mask].var(0, unbiased=False)


@program(matrix_and_mask)
def sorted_selection(x: Tensor, mask: Tensor) -> Any:
    return x[mask].sort(0), x[mask].argsort(1)


@program(matrix_and_mask)
def cumulative_selection(x: Tensor, mask: Tensor) -> Any:
    return x[mask].cumsum(0), x[mask].flip(0)


@program(matrix_and_mask)
def normalized_selection(x: Tensor, mask: Tensor) -> Any:
    return F.layer_norm(x[mask], (4,)), F.normalize(x[mask], dim=1)


@program(matrix_and_mask)
def product_with_rows(x: Tensor, mask: Tensor) -> Any:
    return x[mask] @ x.t()


@program(matrix_and_mask)
def product_over_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.t() @ kept


@program(matrix_and_mask)
def scores_among_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return (kept @ kept.t()).softmax(-1) @ kept


@program(matrix_and_mask)
def attention_over_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask].unsqueeze(0)
    return F.scaled_dot_product_attention(kept, kept, kept)


@program(matrix_and_mask)
def batched_product(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return torch.bmm(kept.unsqueeze(2), kept.unsqueeze(1)), torch.einsum("ni,nj->ij", kept, kept)


@program(matrix_and_mask)
def broadcast_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept + torch.arange(4), kept * kept.sum(1, keepdim=True), kept - kept.mean(0)


@program(matrix_and_mask)
def distances_among_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return (kept[:, None] - kept[None]).pow(2).sum(-1), torch.cdist(kept, kept)


@program(matrix_and_mask)
def same_selection_twice(x: Tensor, mask: Tensor) -> Any:
    where = mask.nonzero().squeeze(1)
    return x[where] + x.index_select(0, where) * where[:, None]


@program(two_masks)
def joined_selections(x: Tensor, first: Tensor, second: Tensor) -> Any:
    return torch.cat([x[first], x[second], x[first & second]])


@program(two_masks)
def product_of_selections(x: Tensor, first: Tensor, second: Tensor) -> Any:
    return x[first] @ x[second].t()


@program(two_masks)
def outer_of_selections(x: Tensor, first: Tensor, second: Tensor) -> Any:
    a, b = x[first], x[second]
    return a[:, None] + b[None, :]


@program(two_masks)
def selection_of_selection(x: Tensor, first: Tensor, second: Tensor) -> Any:
    kept = x[first]
    return kept[kept[:, 0] > 0].sum(), kept[second[first]]


@program(matrix_and_mask)
def parts_joined(x: Tensor, mask: Tensor) -> Any:
    return torch.cat([x[mask], x[~mask]]), torch.cat([x, x[mask]]).sum(0)


@program(matrix_and_mask)
def joined_across(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return (
        torch.cat([kept, kept * 2], dim=1),
        torch.stack([kept, -kept]),
        torch.hstack([kept, kept]),
    )


@program(matrix_and_mask)
def stacked_at_end(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return torch.stack([kept, kept], dim=-1).flatten(1)


@program(matrix_and_mask)
def chunks_of_columns(x: Tensor, mask: Tensor) -> Any:
    a, b = x[mask].chunk(2, dim=1)
    return a * b


@program(matrix_and_mask)
def columns_unbound(x: Tensor, mask: Tensor) -> Any:
    a, b, c, d = x[mask].unbind(1)
    return a + b, c * d


@program(matrix_and_mask)
def padded_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return F.pad(kept, (1, 1)), F.pad(kept, (0, 0, 0, x.shape[0] - kept.shape[0]))


@program(matrix_and_mask)
def convolved_selection(x: Tensor, mask: Tensor) -> Any:
    kept = F.pad(x[mask].t().unsqueeze(0), (1, 1))
    return F.conv1d(kept, torch.ones(2, 4, 3), padding=1)


@program(matrix_and_mask)
def pooled_selection(x: Tensor, mask: Tensor) -> Any:
    kept = F.pad(x[mask].t().unsqueeze(0), (2, 2))
    return F.avg_pool1d(kept, 2)


@program(matrix_and_mask)
def scattered_back(x: Tensor, mask: Tensor) -> Any:
    made = torch.zeros_like(x)
    made[mask] = x[mask] * 2
    return made


@program(matrix_and_mask)
def scattered_by_masked_scatter(x: Tensor, mask: Tensor) -> Any:
    return torch.zeros_like(x).masked_scatter(mask[:, None], x[mask] + 1)


@program(matrix_and_mask)
def put_by_index(x: Tensor, mask: Tensor) -> Any:
    where = mask.nonzero().squeeze(1)
    return x.index_put((where,), x[where] * 3), x.index_copy(0, where, x[where] + 1)


@program(matrix_and_mask)
def gathered_rows(x: Tensor, mask: Tensor) -> Any:
    where = mask.nonzero()
    return x.gather(0, where.expand(-1, 4))


@program(masked_edges)
def summed_by_index_add(x: Tensor, edges: Tensor, mask: Tensor) -> Any:
    source, target = edges[:, mask]
    return torch.zeros_like(x).index_add(0, target, x[source])


@program(masked_edges)
def summed_by_scatter(x: Tensor, edges: Tensor, mask: Tensor) -> Any:
    kept = edges[:, mask]
    sums = torch.zeros_like(x).scatter_add(0, kept[1][:, None].expand(-1, 4), x[kept[0]])
    counts = torch.bincount(kept[1], minlength=5)
    return sums / counts.clamp(min=1)[:, None]


@program(
    matrix_and_mask,
    MEANINGS,
)
def dropout_of_selection(x: Tensor, mask: Tensor) -> Any:
    return F.dropout(x[mask], 0.5)


@program(matrix_and_mask)
def random_for_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return torch.rand(kept.shape[0]) + torch.randn_like(kept[:, 0]), torch.randperm(kept.shape[0])


@program(tokens_and_mask)
def embedded_selection(tokens: Tensor, mask: Tensor, table: Tensor) -> Any:
    return F.embedding(tokens[mask], table).sum(0), table[tokens[mask]]


@program(tokens_and_mask)
def loss_of_selection(tokens: Tensor, mask: Tensor, table: Tensor) -> Any:
    scores = table[tokens[mask]]
    return F.cross_entropy(scores, tokens[mask] % 4), F.mse_loss(scores, scores * 2)


@program(matrix_and_mask, NEEDS_CHECK)
def empty_selection_apart(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    if kept.shape[0] == 0:
        return torch.zeros(4)
    return kept.mean(0)


@program(matrix_and_mask, NEEDS_CHECK)
def selection_by_length(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    if len(kept) > 2:
        return kept[:2]
    return kept * 2


@program(matrix_and_mask, NEEDS_CHECK)
def elements_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    if kept.numel() < 8:
        return kept.sum()
    return kept.mean()


@program(
    matrix_and_mask,
    NEEDS_CHECK,
    graphs=24,
)
def loop_over_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    total = torch.zeros(4)
    for row in kept:
        total = total * 2 + row
    return total


@program(matrix_and_mask)
def never_more_than_all(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    if kept.shape[0] > x.shape[0]:
        return kept
    return kept + 1


@program(matrix_and_mask, MEANINGS)
def rows_against_all(x: Tensor, mask: Tensor) -> Any:
    return x[mask] * torch.ones(1, 4)


# -- sizes made by operators ----------------------------------------------------------------------


@program(distinct)
def unique_values(x: Tensor) -> Any:
    return x.unique()


@program(distinct)
def unique_with_counts(x: Tensor) -> Any:
    values, where, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values[where], counts * values


@program(distinct)
def unique_runs(x: Tensor) -> Any:
    values, counts = torch.unique_consecutive(x, return_counts=True)
    return torch.repeat_interleave(values, counts)


@program(distinct)
def unique_columns(x: Tensor) -> Any:
    return torch.stack([x, x]).unique(dim=1).sum(0)


@program(distinct)
def sums_for_each_value(x: Tensor) -> Any:
    values, where = x.unique(return_inverse=True)
    return torch.zeros(values.shape[0]).index_add(0, where, x.float())


@program(repeats)
def repeated_rows(x: Tensor, counts: Any) -> Any:
    return x.repeat_interleave(counts, dim=0)


@program(repeats)
def repeated_positions(x: Tensor, counts: Any) -> Any:
    return x[torch.repeat_interleave(counts)].sum(0)


@program(repeats)
def repeated_to_given_size(x: Tensor, counts: Any) -> Any:
    total = counts.sum().item()
    return x.repeat_interleave(counts, dim=0, output_size=total)


@program(small_integers)
def counted(x: Tensor) -> Any:
    return torch.bincount(x)


@program(small_integers)
def counted_to_least(x: Tensor) -> Any:
    counts = torch.bincount(x, minlength=4)
    return counts[:4], counts.cumsum(0)


@program(small_integers)
def counted_with_weights(x: Tensor) -> Any:
    return torch.bincount(x, weights=x.double()).sum()


@program(small_integers)
def one_hot_of_largest(x: Any) -> Any:
    return F.one_hot(x, x.max().item() + 1)


@program(small_integers)
def zeros_of_largest(x: Any) -> Any:
    return torch.zeros(x.max().item() + 1).index_add(0, x, torch.ones(x.shape[0]))


@program(repeats)
def ragged_positions(x: Tensor, counts: Any) -> Any:
    starts = counts.cumsum(0) - counts
    rows = torch.repeat_interleave(counts)
    return torch.arange(rows.shape[0]) - starts[rows]


@program(repeats)
def ragged_mask(x: Tensor, counts: Any) -> Any:
    longest = counts.max().item()
    return torch.arange(longest)[None] < counts[:, None]


# -- facts that the program states ----------------------------------------------------------------


@program(number)
def checked_is_size(t: Any) -> Any:
    n = t.item()
    torch._check_is_size(n)
    if n < 0:
        return torch.ones(3)
    return torch.zeros(n)


@program(number_and_matrix)
def checked_slice(t: Any, x: Tensor) -> Any:
    n = t.item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    if n > x.shape[0]:
        return x
    return x[:n], x[n:]


@program(number)
def checked_value(t: Any) -> Any:
    n = t.item()
    torch._check_value(n >= 0)
    return torch.zeros(n) if n > -1 else torch.ones(2)


@program(number)
def checked_with_message(t: Any) -> Any:
    n = t.item()
    torch._check(n < 100, lambda: f"too many: {n}")
    if n > 200:
        return torch.ones(1)
    return torch.zeros(2, n)


@program(number)
def checked_by_name(t: Any) -> Any:
    n = t.item()
    check(n >= 0)
    check(n < 50, "too many")
    return torch.zeros(n) if 0 <= n <= 60 else torch.ones(2)


@program(
    number,
)
def checked_by_anyshape(t: Any) -> Any:
    n = t.item()
    anyshape.check(n >= 0)
    anyshape.check(n < 50)
    return torch.zeros(n) if 0 <= n <= 60 else torch.ones(2)


@program(matrix_and_mask, never=NOT_0)
def checked_not_empty(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    torch._check(kept.shape[0] != 0)
    if kept.shape[0] == 0:
        return torch.zeros(4)
    return kept.amax(0)


@program(two_masks, NEEDS_CHECK)
def checked_equal(x: Tensor, first: Tensor, second: Tensor) -> Any:
    a, b = x[first], x[second]
    if a.shape[0] == b.shape[0]:
        return a + b
    return a.sum(0) + b.sum(0)


@program(two_numbers)
def checked_order(t: Any) -> Any:
    n, m = t.tolist()
    torch._check(n >= 0)
    torch._check(m >= 0)
    if n + m + 1 > 0:
        return torch.zeros(n + m)
    return torch.ones(1)


# -- modules and nests ----------------------------------------------------------------------------


class KeepsPositive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.norm(torch.relu(self.linear(x[mask])))


class Router(nn.Module):
    """Two experts, each for the rows that choose it."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        made = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            where = (mask == bool(index)).nonzero().squeeze(1)
            made = made.index_add(0, where, expert(x[where]))
        return made


def _seeded(made: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return made()


program(matrix_and_mask)(_seeded(KeepsPositive))
program(matrix_and_mask)(_seeded(Router))


@program(matrix_and_mask)
def nested_functions(x: Tensor, mask: Tensor) -> Any:
    def keep(rows: Tensor) -> Tensor:
        return rows[mask]

    def double(rows: Tensor) -> Tensor:
        return keep(rows) * 2

    return double(x), [double(row) for row in (x[:, 0], x[:, 1])]


@program(matrix_and_mask)
def loop_of_selections(x: Tensor, mask: Tensor) -> Any:
    kept = []
    for level in (-1.0, 0.0, 1.0):
        kept.append(x[x[:, 0] > level])
    return torch.cat(kept), [rows.shape[0] for rows in kept]


@program(matrix_and_mask)
def results_in_a_dict(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return {"rows": kept, "count": kept.shape[0], "shape": kept.shape, "rest": (x[~mask],)}


# -- more on numbers ------------------------------------------------------------------------------


def signed(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    """A number of either sign, and rows to be cut by it."""
    return (torch.tensor(n if n % 2 else -n), torch.randn(among, 4, generator=rng))


@program(signed, MEANINGS)
def slice_by_signed(t: Any, x: Tensor) -> Any:
    n = t.item()
    return x[:n], x[n:]


@program(signed, MEANINGS)
def row_by_signed(t: Any, x: Tensor) -> Any:
    return x[t.item()] + 1


@program(signed)
def signed_arithmetic(t: Any, x: Tensor) -> Any:
    n = t.item()
    return x * n, n // 2, n % 5, abs(n), -n, n * n


@program(number)
def sliced_beyond(t: Any) -> Any:
    n = t.item()
    return torch.arange(4)[:n], torch.arange(4)[n:]


@program(number_and_matrix)
def sliced_by_tensor(t: Any, x: Tensor) -> Any:
    return x[:t], x[t:]


@program(number)
def functions_of_number(t: Any) -> Any:
    n = t.item()
    return math.sqrt(n), float(n), n**2, n << 1, divmod(n, 3), abs(n - 4)


@program(number)
def rounded_numbers(t: Any) -> Any:
    n = t.item()
    return torch.zeros(math.ceil(n / 2)), torch.zeros(int(n * 1.5)), math.floor(n / 3)


@program(number)
def ceiling_by_integers(t: Any) -> Any:
    n = t.item()
    return torch.zeros((n + 1) // 2), torch.zeros(-(-n // 3))


@program(number, graphs=24)
def bits_of_number(t: Any) -> Any:
    n = t.item()
    return n & 1, n | 2, n ^ 3


@program(number)
def shifted_number(t: Any) -> Any:
    n = t.item()
    return n >> 1, torch.zeros(n << 1)


@program(number)
def tensor_of_number(t: Any) -> Any:
    n = t.item()
    return torch.tensor(n) + 1, torch.tensor([n, n + 1]), torch.tensor([[0.5, n]])


@program(number)
def scalar_tensor_of_number(t: Any) -> Any:
    n = t.item()
    return torch.scalar_tensor(n), torch.full((), n), torch.zeros(n).fill_(n)


@program(number)
def numbers_in_containers(t: Any) -> Any:
    n = t.item()
    sizes = [n, n + 1, 2]
    return sum(sizes), tuple(sizes), {"n": n}, torch.zeros(sizes[1], sizes[2])


@program(number, NEEDS_CHECK, graphs=24)
def list_of_that_length(t: Any) -> Any:
    n = t.item()
    return [0] * n


@program(number)
def text_of_number(t: Any) -> Any:
    n = t.item()
    return f"n={n}", torch.zeros(n)


@program(number, NEEDS_CHECK)
def truth_of_number(t: Any) -> Any:
    n = t.item()
    return torch.zeros(n) if n else torch.ones(2)


@program(number, NEEDS_CHECK)
def number_or_default(t: Any) -> Any:
    n = t.item()
    n = n or 5
    return torch.zeros(n)


@program(number, NEEDS_CHECK, checks=2, graphs=8)
def number_between(t: Any) -> Any:
    n = t.item()
    if 1 <= n < 6:
        return torch.zeros(n)
    return torch.ones(2)


@program(number, NEEDS_CHECK, graphs=24)
def number_as_key(t: Any) -> Any:
    n = t.item()
    return {0: torch.zeros(1), 4: torch.ones(1)}.get(n)


@program(number, NEEDS_CHECK, graphs=24, checks=4)
def number_among(t: Any) -> Any:
    n = t.item()
    return torch.zeros(n) if n in (1, 2, 3) else torch.ones(1)


@program(number, NEEDS_CHECK)
def number_asserted(t: Any) -> Any:
    n = t.item()
    sign = 1 if n < 5 else -1
    return sign * torch.ones(n)


@program(number, NEEDS_CHECK, graphs=48, checks=10)
def halved_until_done(t: Any) -> Any:
    n = t.item()
    steps = 0
    while n > 1:
        n = n // 2
        steps += 1
    return torch.full((2,), steps)


@program(number_and_matrix, NEEDS_CHECK, checks=3, graphs=8)
def early_exit(t: Any, x: Tensor) -> Any:
    n = t.item()
    for row in range(3):
        if row == n:
            return x[row]
    return x.sum(0)


@program(real_and_matrix)
def float_as_text(t: Any, x: Tensor) -> Any:
    return f"{t.item():.1f}", x


@program(real_and_matrix)
def float_functions(t: Any, x: Tensor) -> Any:
    value = t.item()
    return x * math.exp(value), abs(value), -value, value**2, x.pow(value)


@program(real_and_matrix)
def float_to_int(t: Any, x: Tensor) -> Any:
    return torch.zeros(int(abs(t.item()) * 3))


@program(real_and_matrix)
def float_tensor(t: Any, x: Tensor) -> Any:
    return torch.tensor(t.item()), torch.tensor([t.item(), 1.0]), torch.full((2,), t.item())


# -- more on selections ---------------------------------------------------------------------------


def equal_masks(n: int, among: int, rng: torch.Generator) -> tuple[Any, ...]:
    """Two masks that choose as many."""
    x = torch.randn(among, 4, generator=rng)
    return (x, chosen(n, among, rng), chosen(n, among, rng))


@program(equal_masks)
def sum_of_equal_selections(x: Tensor, first: Tensor, second: Tensor) -> Any:
    return x[first] + x[second]


@program(equal_masks)
def equal_selections_checked(x: Tensor, first: Tensor, second: Tensor) -> Any:
    a = x[first]
    b = x[second]
    torch._check(a.shape[0] == b.shape[0])
    return a + b, torch.stack([a, b]), torch.where(a > b, a, b)


@program(equal_masks)
def joined_equal_selections(x: Tensor, first: Tensor, second: Tensor) -> Any:
    return torch.cat([x[first], x[second]], dim=1)


@program(equal_masks)
def written_from_selection(x: Tensor, first: Tensor, second: Tensor) -> Any:
    made = x.clone()
    made[first] = x[second]
    return made


@program(matrix_and_mask)
def written_number(x: Tensor, mask: Tensor) -> Any:
    made = x.clone()
    made[mask] = 7.0
    made[mask, 1] = x[mask, 0]
    return made


@program(matrix_and_mask)
def broadcast_into_mask(x: Tensor, mask: Tensor) -> Any:
    made = x.t().clone().t()
    made[mask] = torch.arange(4.0)
    return made


@program(matrix_and_mask)
def in_place_on_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    kept += 1
    kept[:, 0] *= 2
    return kept


@program(matrix_and_mask, MEANINGS)
def rows_against_one(x: Tensor, mask: Tensor) -> Any:
    return x[mask] + x[:1]


@program(vector_and_mask)
def products_of_vectors(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept @ kept, torch.dot(kept, kept), torch.outer(kept, kept), kept @ torch.ones_like(kept)


@program(matrix_and_mask)
def products_with_vectors(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept @ x[0], kept.t() @ kept[:, 0], torch.mv(kept, x[1])


@program(matrix_and_mask)
def linear_of_selection(x: Tensor, mask: Tensor) -> Any:
    weight = torch.ones(3, 4)
    return F.linear(x[mask], weight, torch.ones(3)), torch.addmm(torch.ones(3), x[mask], weight.t())


@program(matrix_and_mask, MEANINGS)
def contiguous_transpose(x: Tensor, mask: Tensor) -> Any:
    return x[mask].t().contiguous()


@program(matrix_and_mask)
def reshaped_transpose(x: Tensor, mask: Tensor) -> Any:
    return x[mask].t().reshape(-1), x[mask].reshape(-1, 2, 2).transpose(1, 2).flatten(1)


@program(matrix_and_mask)
def heads_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    heads = kept.view(kept.shape[0], 2, 2).transpose(0, 1)
    return heads.transpose(0, 1).reshape(kept.shape[0], 4), heads.softmax(-1)


@program(
    matrix_and_mask,
    NEEDS_CHECK,
    graphs=8,
    todo="`a or b` in a check states only the part that held",
)
def contiguity_asked(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.t() if kept.t().is_contiguous() else kept


@program(
    matrix_and_mask,
    NEEDS_CHECK,
    todo="how many chunks there are is expected, not asked",
    graphs=24,
)
def chunks_of_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.chunk(3)


@program(
    matrix_and_mask,
    NEEDS_CHECK,
    graphs=24,
)
def pieces_of_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.split(2)


@program(
    matrix_and_mask,
    NEEDS_CHECK,
    graphs=24,
)
def unbound_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.unbind(0)


@program(matrix_and_mask)
def rows_shifted(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.roll(1, 0), kept.flip(0), kept[::2], kept[1:], kept[:-1], kept[-2:]


@program(matrix_and_mask)
def differences_of_rows(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept[1:] - kept[:-1]


@program(matrix_and_mask, MEANINGS)
def diff_of_rows(x: Tensor, mask: Tensor) -> Any:
    return x[mask].diff(dim=0)


@program(matrix_and_mask, never=NOT_0)
def first_and_last_row(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept[0], kept[-1], kept.select(0, 0)


@program(matrix_and_mask, never=NOT_0)
def best_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    best = kept[:, 0].argmax()
    return kept[best], mask.nonzero().squeeze(1)[best]


@program(matrix_and_mask)
def top_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept[:, 0].topk(min(kept.shape[0], 3))


@program(matrix_and_mask)
def triangle_of_selection(x: Tensor, mask: Tensor) -> Any:
    n = x[mask].shape[0]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    return torch.zeros(n, n).masked_fill(~causal, float("-inf")).softmax(-1)


@program(matrix_and_mask)
def grid_of_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask][:, 0]
    rows, columns = torch.meshgrid(kept, kept, indexing="ij")
    return rows * columns, torch.cartesian_prod(kept, kept)


@program(matrix_and_mask)
def like_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return torch.zeros_like(kept), kept.new_ones(kept.shape), torch.full_like(kept[:, 0], 2)


@program(matrix_and_mask)
def cast_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask]
    return kept.double(), kept.to(torch.int32), kept > 0, kept.half().float()


@program(matrix_and_mask)
def interpolated_selection(x: Tensor, mask: Tensor) -> Any:
    kept = torch.cat([x[:1], x[mask]]).t().unsqueeze(0)
    return F.interpolate(kept, scale_factor=2.0, mode="nearest")


@program(matrix_and_mask)
def max_pooled_selection(x: Tensor, mask: Tensor) -> Any:
    kept = F.pad(x[mask].t().unsqueeze(0), (1, 2))
    return F.max_pool1d(kept, 3, stride=2), F.adaptive_avg_pool1d(kept, 2)


@program(matrix_and_mask)
def strided_convolution(x: Tensor, mask: Tensor) -> Any:
    kept = F.pad(x[mask].t().unsqueeze(0), (2, 2))
    return F.conv1d(kept, torch.ones(4, 1, 3), stride=2, groups=4)


@program(matrix_and_mask)
def unfolded_selection(x: Tensor, mask: Tensor) -> Any:
    kept = torch.cat([x[:3], x[mask]])
    return kept.unfold(0, 3, 1).sum(-1), kept.unfold(0, 2, 2)


@program(matrix_and_mask)
def searched_selection(x: Tensor, mask: Tensor) -> Any:
    kept = x[mask][:, 0].sort().values
    return torch.searchsorted(kept, x[:, 1].contiguous()), torch.bucketize(x, kept)


@program(matrix_and_mask)
def counted_selection(x: Tensor, mask: Any) -> Any:
    n = mask.sum().item()
    return x.sum(0) / max(n, 1), torch.zeros(n)


@program(matrix_and_mask)
def histogram_of_selection(x: Tensor, mask: Tensor) -> Any:
    return torch.histc(x[mask], 4, -2, 2), x[mask].count_nonzero(), x[mask].isnan().any()


@program(matrix_and_mask, never=NOT_0)
def quantiles_of_selection(x: Tensor, mask: Tensor) -> Any:
    return x[mask].median(0).values, x[mask][:, 0].quantile(0.5), x[mask].logsumexp(0)


@program(plane_mask)
def selection_in_rows(x: Tensor, mask: Tensor) -> Any:
    rows, columns = mask.nonzero(as_tuple=True)
    return torch.zeros(3).index_add(0, rows, x[rows, columns]), torch.bincount(rows, minlength=3)


@program(matrix_and_mask)
def selected_columns(x: Tensor, mask: Tensor) -> Any:
    return x.t()[:, mask], x.t()[:, mask].contiguous().sum(0)


@program(matrix_and_mask)
def mask_of_three_dimensions(x: Tensor, mask: Tensor) -> Any:
    cube = x[:, :, None] * torch.ones(2)
    return cube[mask].sum(0), cube[cube > 0]


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        kept = x[mask].unsqueeze(0)
        return self.attention(kept, kept, kept, need_weights=False)[0]


class Remembers(nn.Module):
    """It keeps a sum and a count of what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.total = nn.Buffer(torch.zeros(4))

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        kept = x[mask]
        return self.total + kept.sum(0), kept.shape[0] + 1


program(matrix_and_mask)(_seeded(Attends))
program(matrix_and_mask)(_seeded(Remembers))
