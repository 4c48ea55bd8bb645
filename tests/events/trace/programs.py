"""Ten programs of which traces are made. Each is a file of its own, run in a process of its own."""

from __future__ import annotations

HEAD = """\
import torch
import anyshape
"""

#: name -> source
PROGRAMS: dict[str, str] = {
    "static_each_time": """
@anyshape.compile(dynamic=False)
def f(x):
    return x * x.size()[0]

for size in (10, 20, 30, 40):
    f(torch.rand(size))
""",
    "automatic": """
@anyshape.compile
def f(x):
    return torch.relu(x) * x.size()[0] + 1

for size in (10, 20, 30, 40):
    f(torch.rand(size, 4))
""",
    "specialised": """
@anyshape.compile(dynamic=True)
def f(x):
    if x.size()[0] == 10:
        return x * 10

    if x.size()[0] <= 30:
        return x*200

    return x*x.size()[0]

for size in (10, 20, 30, 40, 50):
    f(torch.rand(size))
""",
    "accidental_equality": """
@anyshape.compile
def fn(x, y):
    return x * y

x = torch.randn(5)
anyshape.maybe_mark_dynamic(x, 0)
fn(x, torch.randn(5))
""",
    "unbacked": """
@anyshape.compile
def fn(x, y):
    torch._check(x.shape[0] < 10)
    if x.shape[0] < 10:
        return x * y

for size in (5, 0, 1):
    x, y = torch.randn(size), torch.randn(size)
    anyshape.mark_unbacked(x, 0)
    anyshape.mark_unbacked(y, 0)
    fn(x, y)
""",
    "branches_on_data": """
@anyshape.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    print("negative")
    return x - 1

f(torch.ones(3))
f(-torch.ones(3))
f(torch.ones(4))
""",
    "module": """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 8)
        self.x = 33

    def forward(self, x):
        if x.shape[0] == self.x:
            return self.second(torch.relu(self.first(x))) * 2
        return x + self.second(torch.relu(self.first(x)))

block = anyshape.compile(Block())
for size in (3, 5, 33, 7):
    block(torch.rand(size, 8))
with torch.no_grad():
    block(torch.rand(9, 8))
""",
    "broken_mark": """
@anyshape.compile
def fn(x):
    return x.reshape(2, 3) * 2

x = torch.randn(6)
anyshape.mark_dynamic(x, 0)
try:
    fn(x)
except anyshape.AnyshapeError as error:
    print(error.code)
""",
    "an_error_of_the_program": """
@anyshape.compile
def fn(x, y):
    return (x @ y).sum()

fn(torch.rand(2, 3), torch.rand(3, 4))
try:
    fn(torch.rand(2, 3), torch.rand(4, 4))
except RuntimeError:
    pass

@anyshape.compile
def generator(x):
    return (part * 2 for part in x)

for size in (2, 3, 4):
    list(generator(torch.rand(size)))
""",
    "hostile_names": """
namespace = {"torch": torch}
name = 'a <script>alert(1)</script>&"quoted"'
source = "def g(x):\\n    return x + 1  # </script><b>\\n"

class Holder:
    pass

holder = Holder()
setattr(holder, "<script>alert(2)</script>\\r\\n\\tname", 3)
table = {"<b>\\r\\nkey\\u2028": 4, "plain": torch.rand(3)}

def work(x, table):
    return x * table["<b>\\r\\nkey\\u2028"] + getattr(
        holder, "<script>alert(2)</script>\\r\\n\\tname")

work.__qualname__ = work.__name__ = name
compiled = anyshape.compile(work, name=name)
for size in (3, 4, 5):
    compiled(torch.rand(size), table)
table["<b>\\r\\nkey\\u2028"] = 5
compiled(torch.rand(5), table)
""",
}

#: Programs of which some records come that the ten have no reason for.
MORE: dict[str, str] = {
    "second_run": """
import tempfile

anyshape.config.profile_url = tempfile.mkdtemp()

@anyshape.compile
def f(x):
    return x * 2

for run in range(2):
    for size in (4, 5):
        f(torch.rand(size))
    anyshape.reset()
""",
    "exported": """
class Model(torch.nn.Module):
    def forward(self, x, n):
        if x.shape[0] > 3:
            x = x * 2
        count = n.item()
        torch._check(count < 100)
        return x + torch.zeros(count).sum()

shapes = {"x": {0: anyshape.Dim.AUTO}}
anyshape.export(Model(), (torch.rand(5, 4), torch.tensor(3)), dynamic_shapes=shapes)
""",
}
