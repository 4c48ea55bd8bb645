"""Compiles that no dynamic shape can spare: a float of a schedule, and a first call without grad.

anyshape explain --verify examples/guide/not_a_size.py
"""

import torch


@torch.compile
def update(weights, gradient, rate):
    return weights - rate * gradient


weights, gradient = torch.ones(4), torch.full((4,), 0.5)
with torch.no_grad():
    update(weights, gradient, 0.1)
for step in range(4):
    weights = update(weights, gradient, 0.1 * 0.5**step)
