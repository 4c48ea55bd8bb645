"""Which of the recorded questions enter the corpus: canonical names, one of each, few of each
pattern, all families in turn.
"""

from __future__ import annotations

import ast
import collections
import random
import re
from collections.abc import Iterator

from tests.symbolic.corpus.collect.fold import folded
from tests.symbolic.corpus.collect.rows import Row, symbols_in

PER_PATTERN = 2
PER_PROGRAM = 24
PER_PROGRAM_AND_FAMILY = 6
TRIVIAL_PER_FAMILY = 3

# The first match decides: on the asking function and its operator, on the program, on the origin.
FAMILIES = (
    ("contiguity", r"contiguous|non_overlapping|memory_format|suggest_memory|channels_last"),
    ("conv", r"conv(?!ert)|fold"),
    ("pool", r"pool"),
    ("attention", r"attention|sdpa|split heads|KV cache|patch embed|transformers .*(mask|_attn)"),
    (
        "cat_split",
        r"\bcat\b|aten\.cat|_cat_meta|split|chunk|stack"
        r"|aten\.pad|constant_pad|reflection|replication|circular|pixel_|pads|resize",
    ),
    ("slice", r"slice|narrow|unbind|select_meta|aten\.select"),
    (
        "view",
        r"infersize|aten\.(_unsafe_)?view|compute_?[sS]tride|infer_size|view_to_kwargs|view_of"
        r"|view\b|flatten|unflatten|view_copy",
    ),
    ("reshape", r"reshape"),
    ("broadcast", r"broadcast|expand|infer_size_impl|elementwise|_maybe_broadcast"),
    (
        "index",
        r"index|gather|scatter|arange|take|diag|tril|triu|roll|topk|sort|embedding|one_hot"
        r"|kthvalue|select",
    ),
    ("stride", r"emptytensor|stride|as_strided|storage|empty_strided|apply_perm|permutation"),
)
BY_FORM = (("minmax", r"\b(min|max)\("), ("divisibility", r"%"), ("products", r"s\d+ \* .*s\d+"))


def chosen(rows: list[Row], limit: int) -> list[Row]:
    """At most `limit` rows, a family after the other."""
    waiting = {family: _in_turn(pool) for family, pool in sorted(_pools(rows).items())}
    counts: collections.Counter[tuple[str, ...]] = collections.Counter()
    found: list[Row] = []
    turns = collections.deque(waiting)
    while turns and len(found) < limit:
        family = turns.popleft()
        for row in waiting[family]:
            if _has_room(row, counts):
                found.append(row)
                turns.append(family)
                break
    return found


def _pools(rows: list[Row]) -> dict[str, list[Row]]:
    """The candidates of each family, each once; the larger ones, and those as written, first."""
    pools: dict[str, list[Row]] = collections.defaultdict(list)
    seen: set[tuple[str, ...]] = set()
    for raw in rows:
        ask = folded(raw["ask"])
        if not symbols_in(ask):
            continue
        row = _renamed({**raw, "ask": ask, "given": _relevant(map(folded, raw["given"]), ask)})
        key = (row["ask"], *sorted(row["given"]))
        large = len(row["symbols"]) > 7 or len(row["ask"]) > 260
        if large or _pinned(row) or row["ask"] in row["given"] or key in seen:
            continue
        seen.add(key)
        row["family"] = _family_of(row)
        pools[row["family"]].append(row)
    rng = random.Random(1)
    for pool in pools.values():
        rng.shuffle(pool)
        pool.sort(
            key=lambda r: min(len(r["ask"]) // 12, 6) + (r["form"] == "as written"), reverse=True
        )
    return pools


def _in_turn(pool: list[Row]) -> Iterator[Row]:
    """Two from the complex end of the family, then one from the simple end."""
    for i in range(len(pool)):
        yield pool[i // 2 if i % 3 else len(pool) - 1 - i // 3]


def _has_room(row: Row, counts: collections.Counter[tuple[str, ...]]) -> bool:
    """Whether a row is still wanted; if so it is counted."""
    family, program = row["family"], row["program"]
    trivial = ("trivial", family)
    limits = {
        ("pattern", _pattern(row["ask"])): PER_PATTERN,
        ("program", family, program): PER_PROGRAM_AND_FAMILY,
        ("program", program): PER_PROGRAM,
    }
    if row.get("taken"):
        return False
    if _trivial(row["ask"]):
        if counts[trivial] >= TRIVIAL_PER_FAMILY:
            return False
        counts[trivial] += 1
    if any(counts[key] >= most for key, most in limits.items()):
        return False
    row["taken"] = True
    counts.update(limits.keys())
    return True


def _family_of(row: Row) -> str:
    if re.search(r"\bu\d", row["ask"]):
        return "unbacked"
    for text in (f"{row['where']} {row['op']}", row["program"], row["origin"].lower()):
        for family, pattern in FAMILIES:
            if re.search(pattern, text):
                return family
    return next((family for family, form in BY_FORM if re.search(form, row["ask"])), "other")


def _renamed(row: Row) -> Row:
    """Symbols become s0, s1, ..., u0, ... in order of appearance in question, then facts."""
    count: collections.Counter[str] = collections.Counter()
    new: dict[str, str] = {}
    for name in symbols_in(row["ask"], *row["given"]):
        new[name] = f"{name[0]}{count[name[0]]}"
        count[name[0]] += 1

    def substituted(text: str) -> str:
        return re.sub(r"\b[su]\d+\b", lambda match: new[match[0]], text)

    return {
        **row,
        "ask": substituted(row["ask"]),
        "given": [substituted(fact) for fact in row["given"]],
        "symbols": {new[name]: row["symbols"][name] for name in new},
    }


def _relevant(given: Iterator[str], ask: str) -> list[str]:
    """At most five facts, those with the fewest symbols that the question lacks first."""
    names = set(symbols_in(ask))
    facts = [
        fact
        for fact in dict.fromkeys(given)
        if len(fact) <= 120 and fact != "True" and set(symbols_in(fact)) & names
    ]
    facts.sort(key=lambda fact: (len(set(symbols_in(fact)) - names), len(fact)))
    return facts[:5]


def _pinned(row: Row) -> bool:
    """Every symbol of the question has its value among the facts."""
    fixed = {m[1] for g in row["given"] if (m := re.fullmatch(r"([su]\d+) == \d+", g))}
    return set(symbols_in(row["ask"])) <= fixed


def _pattern(text: str) -> str:
    """Constants, directions of comparisons and repeated `* x // x` do not count."""
    text = re.sub(r"( \* (s\d+) // \2)+", r" * \2 // \2", text)
    text = re.sub(r" (<=|>=|>) ", " < ", text.replace(" != ", " == "))
    return re.sub(r"(?<![\w])\d+", "N", text)


def _trivial(text: str) -> bool:
    """A symbol against a number, or only comparisons of an expression with itself."""
    if re.fullmatch(r"(not )?\(?[su]\d+ (==|!=|<|<=|>|>=) \d+\)?", text):
        return True
    node = ast.parse(text, mode="eval").body
    return all(
        isinstance(part, ast.Compare) and ast.dump(part.left) == ast.dump(part.comparators[0])
        for part in (node.values if isinstance(node, ast.BoolOp) else [node])
    )
