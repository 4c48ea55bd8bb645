"""What the gallery shows, and in which words."""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    title: str
    about: str
    steps: int = 60
    ranks: int = 1


SHOWN = {
    "train_gpt": Shown(
        "Train a GPT",
        "A small GPT learns sequences; batch and length are others at each step. A learning rate "
        "that is set by hand, clipped gradients and AdamW stay as they are; then it samples, one "
        "token longer each time.",
    ),
    "generate_text": Shown(
        "Generate text",
        "`generate()` of a Llama and a T5 of transformers, with caches of keys and values that "
        "grow.",
        steps=20,
    ),
    "train_images": Shown(
        "Train a U-Net",
        "Images of any height and width, with skips that are cut to fit and batch norm.",
    ),
    "graph_network": Shown(
        "A graph network",
        "Message passing over graphs with any number of nodes and edges, by `scatter_add` and "
        "`index_add`.",
    ),
    "policy_gradient": Shown(
        "Policy gradients",
        "An environment in NumPy, actions drawn from a `Categorical`, episodes of any length.",
    ),
    "suppress_boxes": Shown(
        "Suppress boxes",
        "A detector with non-maximum suppression as a Python loop: how often it runs depends on "
        "the data.",
    ),
    "adapt_and_quantize": Shown(
        "Adapters, then eight bits",
        "Low-rank adapters are put into a model while it is in use, then its linear layers become "
        "integers.",
    ),
    "attention_variants": Shown(
        "Kinds of attention",
        "Causal, windowed, grouped, biased and cross attention, at lengths that change.",
    ),
    "per_sample_gradients": Shown(
        "Gradients of each sample",
        "`vmap`, `grad` and `jacrev` of `torch.func` around a compiled model. anyshape does not "
        "follow `torch.func.grad` yet: what calls it runs eagerly, and torch.compile is faster.",
    ),
    "distributed": Shown(
        "Data parallel",
        "DDP around a compiled module, and a compiled DDP, on two ranks with batches of their own "
        "sizes.",
        ranks=2,
    ),
}
