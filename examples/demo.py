"""What works today: questions about sizes, and the shapes of a transformer block in symbols.

Run it with `make demo`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta, contiguous
from anyshape.symbolic import Facts, as_symbol, evaluate, parse_fact, symbol, to_text

BATCH, SEQUENCE = symbol("b"), symbol("s")
WIDTH, HEADS = 64, 4


def show_questions() -> None:
    print("Questions about sizes. Asking changes nothing; only an assumption does.\n")
    names = {"b": BATCH, "s": SEQUENCE}
    for given, question in [
        ("", "b*s*64 // 64 == b*s"),
        ("", "ceildiv(s, 8)*8 >= s"),
        ("", "s - min(s, 3) == max(s - 3, 0)"),
        ("", "s // 8 * 8 == s"),
        ("s % 8 == 0", "s // 8 * 8 == s"),
        ("s >= 3", "(s - 3)//2 + 1 >= 1"),
        ("b*s == 1", "b == 1 and s == 1"),
        ("b > 4 and b < 6", "b == 5"),
    ]:
        facts = Facts()
        if given:
            facts = facts.assume(parse_fact(given, names), "the program checked it")
        start = time.perf_counter()
        answer = facts.prove(parse_fact(question, names))
        taken = (time.perf_counter() - start) * 1e6
        premise = f"given {given}:" if given else ""
        print(f"  {premise:<24}{question:<36}{answer.name:<8} {taken:7.0f} us")


def block(
    call: Callable[..., Any], x: Any, weights: dict[str, Any], batch: Any, length: Any
) -> Any:
    """A transformer block for tensors and for metas: `call` runs an operator on either."""
    normed = call(F.layer_norm, x, (WIDTH,))
    projected = call(F.linear, normed, weights["qkv"])
    heads = call(torch.reshape, projected, (batch, length, 3, HEADS, WIDTH // HEADS))
    heads = call(torch.permute, heads, (2, 0, 3, 1, 4))
    query, key, value = call(torch.unbind, heads, 0)
    mixed = call(F.scaled_dot_product_attention, query, key, value)
    mixed = call(torch.reshape, call(torch.transpose, mixed, 1, 2), (batch, length, WIDTH))
    x = call(torch.add, x, call(F.linear, mixed, weights["out"]))
    hidden = call(F.gelu, call(F.linear, call(F.layer_norm, x, (WIDTH,)), weights["up"]))
    return call(torch.add, x, call(F.linear, hidden, weights["down"]))


def show_shapes() -> None:
    print("\nA transformer block on metadata alone, with symbolic batch b and sequence s:\n")
    weights = {
        "qkv": torch.randn(3 * WIDTH, WIDTH),
        "out": torch.randn(WIDTH, WIDTH),
        "up": torch.randn(4 * WIDTH, WIDTH),
        "down": torch.randn(WIDTH, 4 * WIDTH),
    }
    facts = Facts().declare(BATCH, 3).declare(SEQUENCE, 10)

    def meta(*shape: Any) -> Meta:
        return Meta(shape, torch.float32, contiguous(len(shape)), torch.device("cpu"))

    def in_symbols(function: Callable[..., Any], *args: Any) -> Any:
        nonlocal facts
        start = time.perf_counter()
        inferred = infer(facts, function, args, {})
        taken = (time.perf_counter() - start) * 1e6
        facts = inferred.facts
        first = inferred.value if isinstance(inferred.value, Meta) else inferred.value[0]
        shape = ", ".join(to_text(size) for size in first.shape)
        print(f"  {function.__name__:<32}[{shape}]".ljust(66) + f"{taken:6.0f} us")
        return inferred.value

    symbolic_weights = {name: meta(*weight.shape) for name, weight in weights.items()}
    said = block(in_symbols, meta(BATCH, SEQUENCE, WIDTH), symbolic_weights, BATCH, SEQUENCE)
    print(f"\n  assumed on the way: {[str(a) for a in facts.assumptions] or 'nothing'}")

    print("\nThe same block on real tensors; 0 and 1 are sizes like any other:\n")
    for batch, length in [(3, 10), (7, 33), (1, 1), (1, 10), (0, 5)]:
        real = block(lambda f, *a: f(*a), torch.randn(batch, length, WIDTH), weights, batch, length)
        values = {as_symbol(BATCH): batch, as_symbol(SEQUENCE): length}
        shape = tuple(evaluate(size, values) for size in said.shape)
        print(f"  b={batch} s={length:<4} symbols say {shape!s:<16} torch says {tuple(real.shape)}")
        assert shape == tuple(real.shape), "the symbols must say what torch does"


if __name__ == "__main__":
    show_questions()
    show_shapes()
