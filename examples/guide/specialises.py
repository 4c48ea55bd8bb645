"""A specialisation in the program itself: one value of an attribute takes a way of its own.

anyshape explain --verify examples/guide/specialises.py
"""

import torch


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.x = 30

    def forward(self, values):
        if self.x == 33:
            return values * 2
        return values + self.x


model = Shifted()
compiled = torch.compile(model)
for step in range(30, 36):
    model.x = step
    expected = torch.full((4,), 2.0 if step == 33 else 1.0 + step)
    assert torch.equal(compiled(torch.ones(4)), expected)
