"""`python -m benchmarks.gpu.decoding`: tokens a second of a small Llama, token by token.

--batches 1,4,16     how many sequences at once
--tokens 128         of each sequence, behind a prompt of 16
--caches static,dynamic
--systems A,B        of eager, graph (eager, in a CUDA graph made by hand: static caches only),
                     anyshape, anyshape-graphs (mode="reduce-overhead"), torch-graphs
--rounds 4           the last one counts: shapes of a growing cache come back with the next text
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import anyshape

PROMPT = 16
Step = Callable[[torch.Tensor, Any, torch.Tensor], torch.Tensor]
#: with what the first step is called
Make = Callable[[torch.Tensor, Any, torch.Tensor], Step]


def model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=32000,
        max_position_embeddings=2048,
    )
    made: Any = LlamaForCausalLM(config)
    return made.cuda().bfloat16().eval()


def cache_of(kind: str, llama: Any, tokens: int) -> Any:
    from transformers import DynamicCache, StaticCache

    if kind == "static":
        return StaticCache(config=llama.config, max_cache_len=PROMPT + tokens + 1)
    return DynamicCache()


def step_of(call: Callable[..., Any]) -> Step:
    def step(token: torch.Tensor, cache: Any, position: torch.Tensor) -> torch.Tensor:
        found = call(
            input_ids=token, past_key_values=cache, cache_position=position, use_cache=True
        )
        return found.logits[:, -1].argmax(-1, keepdim=True)

    return step


def by_hand(step: Step, token: torch.Tensor, cache: Any, position: torch.Tensor) -> Step:
    """The step as one CUDA graph, for one cache and batch."""
    given = token.clone(), position.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(given[0], cache, given[1])

    def replayed(token: torch.Tensor, cache: Any, position: torch.Tensor) -> torch.Tensor:
        given[0].copy_(token)
        given[1].copy_(position)
        graph.replay()
        return found.clone()

    return replayed


def speed(llama: Any, make: Make, kind: str, batch: int, tokens: int) -> float:
    """Tokens a second."""
    prompt = torch.randint(0, 32000, (batch, PROMPT), device="cuda")
    cache = cache_of(kind, llama, tokens)
    position = torch.arange(PROMPT, device="cuda")
    token = step_of(llama)(prompt, cache, position)
    position = position[-1:]
    step = make(token, cache, position)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(tokens):
        position = position + 1
        token = step(token, cache, position)
    torch.cuda.synchronize()
    return batch * tokens / (time.perf_counter() - started)


def systems(llama: Any, kind: str) -> dict[str, Make]:
    plain = anyshape.compile(llama, dynamic=True)
    graphs = anyshape.compile(llama, dynamic=True, mode="reduce-overhead")
    compiled = torch.compile(llama, mode="reduce-overhead")
    found: dict[str, Make] = {
        "eager": lambda *_: step_of(llama),
        "anyshape": lambda *_: step_of(plain),
        "anyshape-graphs": lambda *_: step_of(graphs),
        "torch-graphs": lambda *_: step_of(compiled),
    }
    if kind == "static":
        found["graph"] = lambda *first: by_hand(step_of(llama), *first)
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--caches", default="static,dynamic")
    parser.add_argument("--systems", default="eager,graph,anyshape,anyshape-graphs,torch-graphs")
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args(arguments)
    llama = model()
    with torch.no_grad():
        for kind in chosen.caches.split(","):
            for batch in map(int, chosen.batches.split(",")):
                anyshape.reset()
                for name, make in systems(llama, kind).items():
                    if name not in chosen.systems.split(","):
                        continue
                    rates = [
                        speed(llama, make, kind, batch, chosen.tokens)
                        for _ in range(
                            chosen.rounds if name.startswith("anyshape") or "-graphs" in name else 2
                        )
                    ]
                    print(f"{kind} cache, batch {batch}, {name}: {rates[-1]:.0f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
