"""A function that begins with a static graph and converges to a dynamic one.

anyshape explain --verify examples/guide/converges.py
"""

import torch


@torch.compile
def similarity(queries, documents):
    scores = queries @ documents.T
    return scores.softmax(-1).max(-1).values.mean()


documents = torch.randn(16, 8)
for batch in (3, 5, 6, 11):
    queries = torch.randn(batch, 8)
    assert similarity(queries, documents) > 0
