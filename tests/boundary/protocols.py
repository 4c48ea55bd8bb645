"""The ways in which Python or a C extension reads a value: one line each.

A line is an expression of the value `v`, of `K` (a value equal to the first one of its row, found
in a global), and of `x`, a tensor of eight numbers; or statements, apart by semicolons, that end in
`return`. Protocols that change what they are given are marked: each call gets its own value.
"""

from __future__ import annotations

import keyword
import types
from dataclasses import dataclass
from typing import Any

from anyshape.capture.builtins.table import MODELS
from tests.boundary.values import Row


@dataclass(frozen=True)
class Protocol:
    """A way to read a value, as the body of a function."""

    text: str
    #: it changes the value, or uses it up
    changes: bool = False
    #: what it gives is a property of the object, not of its value: the twins read one object
    by_object: bool = False
    #: what `F` is
    function: Any = None

    @property
    def body(self) -> str:
        lines = [each.strip() for each in self.text.split(";")]
        last = lines[-1]
        if not last.startswith(("return", "if ", "for ", "while ", "with ", "match ", "try")):
            lines[-1] = f"return {last}"
        return "\n".join(lines)


TRUTH = """\
bool(v)
not v
1 if v else 2
v and 1
v or 1
(v and 1) is v
any([v])
all([v, 1])
list(filter(None, [v]))
operator.truth(v)
operator.not_(v)
[1 for _ in [0] if v]
assert v; return 1
r = [1, 2] if v else [3]; return r
n = 0; return (n := 1) if v else n
"""

NUMBERS = """\
int(v)
float(v)
complex(v)
operator.index(v)
round(v)
round(v, 1)
abs(v)
-v
+v
~v
math.floor(v)
math.ceil(v)
math.trunc(v)
math.sqrt(v)
math.isnan(v)
math.gcd(v, 4)
math.prod([v, 2])
math.copysign(1.0, v)
math.hypot(v, 1)
math.fsum([v])
hex(v)
bin(v)
chr(v)
ord(v)
divmod(v, 2)
divmod(7, v)
pow(v, 2)
pow(v, 2, 5)
pow(2, v, 5)
sum([v])
sum([v], 1)
int(v, 10)
int("11", v)
round(1.2345, v)
1 if v > 1 else 2
bool(v + 0)
float(v * 1)
statistics.mean([v, v])
"""

ARITHMETIC = """\
v + 1
1 + v
v + v
v - 1
1 - v
v - v
v * 2
2 * v
v / 2
2 / v
v // 2
7 // v
v % 2
7 % v
v ** 2
2 ** v
v << 1
1 << v
v >> 1
v & 1
v | 1
1 ^ v
v & v
v | v
v ^ v
v @ v
v + 1.5
1.5 * v
v + K
K - v
v * K
"a" + v
v + "a"
b"a" + v
[1] + v
v + [1]
(1,) + v
v + (1,)
"a" * v
[0] * v
(0,) * v
v * v
{1} | v
{1} & v
{1} - v
{"z": 1} | v
operator.add(v, 1)
operator.sub(1, v)
operator.neg(v)
str(v + 1)
repr(v * 2)
float(1 - v)
"""

IN_PLACE = """\
v += 1; return v
v -= 1; return v
v *= 2; return v
v /= 2; return v
v //= 2; return v
v %= 2; return v
v **= 2; return v
v <<= 1; return v
v &= 1; return v
v |= 1; return v
v ^= 1; return v
v += v; return v
v |= v; return v
v &= K; return v
v += [1]; return v
v += (1,); return v
n = 1; n += v; return n
n = 1.5; n *= v; return n
n = [1]; n += v; return n
n = [1]; n *= v; return n
n = (1,); n += v; return n
n = "a"; n += v; return n
n = {1}; n |= v; return n
n = {"z": 1}; n |= v; return n
n = [1]; n.extend(v); return n
operator.iadd(v, 1)
"""

COMPARISONS = """\
v == K
v != K
v < K
v <= K
v > K
v >= K
K == v
K < v
v == 1
1 == v
v != 1
v < 2
2 > v
v == "1"
v == (1, 2)
v == None
v is None
v is K
v == v
v < v
0 < v < 2
v in [K]
v in (K,)
K in [v]
v not in [K]
v in {1: 2}
v in {1, "1"}
[v] == [K]
(v,) == (K,)
(v,) < (K,)
{"a": v} == {"a": K}
[K].index(v)
[K].count(v)
[v].count(K)
n = [K]; n.remove(v); return n
max(v, K)
min(v, K)
max([v, K])
sorted([v, K])
sorted([v, 2])
max(v, 2)
n = [v, K]; n.sort(); return n
max([1, 2], key=lambda each: each == v)
operator.eq(v, K)
operator.lt(v, K)
bool(v == K)
1 if v == K else 2
"yes" if v != 1 else "no"
"""

HASHES = """\
hash(v)
{v: 1}
{v}
{v: 1}[K]
{K: 1}.get(v)
{K: 1}[v]
{1: 2, "1": 3}.get(v)
v in {K: 1}
v in {K}
frozenset([v])
len({v, K})
hash((v,))
dict.fromkeys([v])
{K: 1}.get(v, 0) + 1
{(v, 1): 2}[(K, 1)]
n = {}; n[v] = 1; return list(n)
n = set(); n.add(v); return len(n | {K})
"""

INDICES = """\
[10, 20, 30, 40][v]
(10, 20, 30, 40)[v]
"abcd"[v]
b"abcd"[v]
range(9)[v]
[10, 20, 30, 40][v:]
[10, 20, 30, 40][:v]
(10, 20, 30, 40)[::v]
"abcd"[v:]
[10, 20, 30][slice(v)]
range(v)
list(range(v))
range(1, 9, v)
list(range(v, 9))
[i for i in range(v)]
n = [1, 2, 3, 4]; del n[v]; return n
n = [1, 2, 3, 4]; n[v] = 9; return n
n = [1, 2, 3, 4]; return n.pop(v)
n = [1, 2, 3, 4]; n.insert(v, 9); return n
n = [1, 2, 3, 4]; n[v:] = [9]; return n
list(itertools.islice([1, 2, 3], v))
list(itertools.repeat(1, v))
list(enumerate("ab", v))
collections.deque([1, 2, 3], v)
"a,b,c".split(",", v)
"a".center(v)
"a".zfill(v)
operator.getitem([1, 2, 3, 4], v)
slice(v).indices(4)
int.from_bytes(b"12", "big") + operator.index(v)
"""

CONTAINERS = """\
len(v)
list(v)
tuple(v)
set(v)
dict(v)
sorted(v)
sum(v)
max(v)
min(v)
any(v)
all(v)
[i for i in v]
{i for i in v}
{i: 1 for i in v}
list(iter(v))
next(iter(v))
list(reversed(v))
list(enumerate(v))
list(zip(v, v))
list(map(str, v))
list(filter(None, v))
a, *b = v; return a, b
a, = v; return a
[*v]
(*v,)
{*v}
{**v}
max(*v)
dict(**v)
"".join(v)
",".join(map(str, v))
b"".join(v)
b"".join([v])
1 in v
"a" in v
K in v
2 not in v
v[0]
v[-1]
v["a"]
v[1:]
v[:1]
v[::-1]
v[()]
v[...]
v[K]
v[b"a"]
v[0][0]
v.a
v.get("a")
len(v) + 1
bool(len(v))
operator.length_hint(v)
operator.contains(v, 1)
operator.getitem(v, 0)
operator.itemgetter(0)(v)
collections.Counter(v)
collections.OrderedDict(v)
collections.deque(v)
frozenset(v)
bytes(v)
bytearray(v)
list(itertools.chain(v, [9]))
list(itertools.islice(v, 1))
list(itertools.product(v, repeat=1))
functools.reduce(lambda a, b: a, v)
heapq.nsmallest(1, v)
statistics.mean(v)
n = 0; r = [n for n in v][:3]; return r
r = []; r.extend(v); return r
r = {}; r.update(v); return r
r = set(); r.update(v); return r
r = [1, 2, 3]; r[1:2] = v; return r
isinstance(v, collections.abc.Sized) and len(v)
"""

CHANGES = """\
next(v)
next(v, 0)
v[0] = 5; return v[0]
v["a"] = 5; return v["a"]
del v[0]; return 1
del v["a"]; return 1
v.append(5); return len(v)
v.pop()
v.add(5); return len(v)
v.update({5: 6}); return len(v)
v.n = 5; return v.n
v.a = 5; return v.a
v.send(None)
v.close()
v.read()
v.readline()
v.tell()
v.get()
v.random()
v.acquire(False)
v.clear(); return len(v)
v.extend([5]); return len(v)
v.sort(); return v[0]
v.setdefault("z", 5); return len(v)
r = v; r *= 2; return r
random.shuffle(v); return 1
heapq.heappush(v, 5); return len(v)
"""

TEXTS = """\
str(v)
repr(v)
ascii(v)
f"{v}"
f"{v!r}"
f"{v!s:>5}"
f"{v:>5}"
f"{v:.2f}"
f"{v:d}"
f"{v:x}"
f"{v=}"
format(v)
format(v, "")
"{}".format(v)
"{0!r}".format(v)
"{v}".format(v=v)
"{a.real}".format(a=v)
"%s" % v
"%s" % (v,)
"%d" % v
"%r" % (v,)
"%(a)s" % {"a": v}
b"%d" % v
str([v])
repr((v,))
str({"a": v})
f"{[v]}"
str(v) + "a"
len(str(v))
" ".join([str(v)])
"a".join(["b", v])
"abc".replace("a", v)
"abc".startswith(v)
"a1b2".split(v)
"abc".find(v)
str(v, "ascii")
string.capwords(v)
logging.getLogger(v).name
"""

ATTRIBUTES = """\
type(v)
type(v).__name__
v.__class__
v.__doc__
vars(v)
v.__dict__
dir(v)
getattr(v, "real", 0)
getattr(v, "n", 0)
getattr(v, "a", 0)
hasattr(v, "a")
hasattr(v, "__len__")
isinstance(v, int)
isinstance(v, (str, tuple))
isinstance(v, collections.abc.Sequence)
isinstance(v, numbers.Number)
isinstance(1, v)
issubclass(v, int)
callable(v)
operator.attrgetter("real")(v)
object.__getattribute__(v, "a")
type(v) is type(K)
v.__class__.__name__
"""

COPIES = """\
copy.copy(v)
copy.deepcopy(v)
copy.deepcopy([v])
pickle.dumps(v)
pickle.loads(pickle.dumps(v))
v.__reduce__()
v.__reduce_ex__(4)
json.dumps(v)
marshal.dumps(v)
v.copy()
v.__sizeof__()
dataclasses.replace(v)
"""

BUFFERS = """\
memoryview(v)[0]
bytes(memoryview(v))
array.array("B", v)
struct.unpack("B", v)
struct.pack("i", v)
int.from_bytes(v, "big")
zlib.crc32(v)
binascii.hexlify(v)
hashlib.sha256(v).hexdigest()
base64.b64encode(v)
torch.frombuffer(v, dtype=torch.uint8)
b"a1" in v
b"a".join([v, v])
b"abc".find(v)
bytearray(b"a") + v
unicodedata.normalize("NFC", v)
"""

CALLS = """\
v()
v(1)
v(2)
v("aB")
v([1, 2])
v(x)
v(1, 2)
v(a=1)
list(map(v, [1]))
list(filter(v, [1]))
functools.reduce(v, [1, 2])
sorted([2, 1], key=v)
max([1, 2], key=v)
functools.partial(v)(1)
v.__call__(1)
operator.call(v)
v.method()
v.__name__
v.__self__
v.__func__
v.__wrapped__(1)
inspect.signature(v)
operator.methodcaller("__len__")(v)
"""

STATEMENTS = [
    "return v",
    "return [v]",
    "return {'a': v}",
    "return (lambda: v)()",
    "raise v",
    "with v: pass\nreturn 1",
    "with v as w: return w",
    "for i in v: return i",
    "r = []\nfor i in v: r.append(i)\nreturn r",
    "while v: return 1\nreturn 2",
    "if v: return 1\nreturn 2",
    "if not v: return 1\nelse: return 2",
    "if v == K: return 1\nreturn 2",
    "if v is K: return 1\nreturn 2",
    "if len(v) > 1: return 1\nreturn 2",
    "try:\n    return int(v)\nexcept (TypeError, ValueError): return 'no'",
    "try:\n    return v[0]\nexcept Exception as error: return type(error).__name__",
    "try:\n    raise v\nexcept v: return 1",
    "match v:\n    case 1: return 'one'\n    case [a, *b]: return a\n    case _: return 'other'",
    "match v:\n    case {'a': a}: return a\n    case str(): return v\n    case _: return 0",
    "match v:\n    case int(n) | float(n): return n\n    case _: return 'other'",
    "match v:\n    case object(a=a): return a\n    case object(n=n): return n\nreturn 0",
    "def g(): return v\nreturn g()",
    "def g(a=v): return bool(a)\nreturn g()",
    "class C: n = v\nreturn C.n",
    "g = (i for i in v)\nreturn list(g)",
    "a = b = v\nreturn a is b",
    "global G\nG = v\nreturn G",
    "x.v = v\nreturn x.v",
    "return [n for n in [1, 2, 3] if n == v]",
    "return {1: 'a', 2: 'b'}[v]",
    "return 1 < v and v < 3",
    "import math as m\nreturn m.floor(v)",
    "yield v",
]

TENSORS = """\
x[v]
x[v:]
x[:v]
x[..., v]
x[(v,)]
x[None, v]
x + v
v + x
x * v
x / v
x ** v
x == v
x < v
v * x
x @ v
x & v
x.int() << v
x.new(v).shape
x.new_zeros(v)
x.new_ones(v).shape
x.reshape(v)
x.view(v)
x.expand(v)
x.repeat(v)
x.sum(v)
x.sum(dim=v)
x.to(v)
x.to(dtype=v).dtype
x.type(v)
x.add(v)
x.add(1, alpha=v)
x.clamp(v)
x.clamp(min=v)
x.fill_(v)
x.unsqueeze(v)
x.transpose(0, v)
x.roll(v)
x.narrow(0, 0, v)
x.split(v)
x.chunk(v)
x.index_select(0, v)
x.masked_fill(x > 2, v)
x.flip(v)
x.numpy() + v
x.item if v else x.shape
x.dtype == v
x.device == v
x.shape == v
x.size(v)
x.is_floating_point() and v
x.tolist()[v]
x.contiguous(memory_format=v)
torch.zeros(v)
torch.zeros(2, dtype=v)
torch.zeros(2, device=v)
torch.full((2,), v)
torch.tensor(v)
torch.tensor([v])
torch.as_tensor(v)
torch.asarray(v)
torch.from_numpy(v)
torch.arange(v)
torch.arange(0, v)
torch.linspace(0, v, 3)
torch.eye(v)
torch.rand(1, generator=v)
torch.cat(v)
torch.cat([x, v])
torch.stack(v)
torch.where(x > 2, v, x)
torch.where(x > v, x, 0)
torch.add(x, v)
torch.maximum(x, v)
torch.clamp(x, max=v)
torch.sum(x, dim=v)
torch.isclose(x, v)
torch.is_tensor(v)
torch.is_floating_point(v)
torch.result_type(x, v)
torch.can_cast(v, torch.float64)
torch.promote_types(v, torch.float32)
torch.finfo(v).eps
torch.iinfo(v).max
torch.Size(v)
torch.Size([v])
torch.broadcast_shapes(v, (1,))
torch.numel(v)
torch.manual_seed(v); return torch.rand(1)
torch.nn.functional.relu(x) * v
torch.nn.functional.pad(x, (0, v))
torch.nn.functional.pad(x, v)
torch.nn.functional.dropout(x, v)
torch.nn.functional.softmax(x, v)
torch.nn.functional.interpolate(x[None, None], size=v)
torch.nn.functional.one_hot(x.long(), v)
torch.einsum("i,i->", x, v)
torch.device(v)
torch.set_grad_enabled(bool(v)); return torch.is_grad_enabled()
torch.ops.aten.add(x, v)
r = x.clone(); r[v] = 0; return r
r = x.clone(); r[0] = v; return r
r = x.clone(); r += v; return r
r = x.clone(); r.mul_(v); return r
"""

NUMPY = """\
np.asarray(v)
np.array([v])
np.add(v, 1)
np.sum(v)
np.float32(v)
np.int64(v)
np.dtype(v)
np.isnan(v)
np.zeros(v)
np.arange(v)
np.array([1, 2, 3])[v]
np.array([1, 2, 3]) + v
float(np.sqrt(v))
v.item()
v.tolist()
v.astype("f4")
v.dtype
v.shape
v.sum()
v.real
v.max()
"""

MODULES = (
    *("array", "base64", "binascii", "collections", "collections.abc", "copy", "dataclasses"),
    *("functools", "hashlib", "heapq", "inspect", "itertools", "json", "logging", "marshal"),
    *("math", "numbers", "operator", "pickle", "random", "statistics", "string", "struct", "torch"),
    *("torch.nn.functional", "types", "unicodedata", "zlib"),
)


def _lines(text: str, **settings: bool) -> list[Protocol]:
    return [Protocol(line, **settings) for line in text.splitlines()]


class Body(Protocol):
    """Statements of more than one line."""

    @property
    def body(self) -> str:
        return self.text


PROTOCOLS: list[Protocol] = [
    *_lines(TRUTH),
    *_lines(NUMBERS),
    *_lines(ARITHMETIC),
    *_lines(IN_PLACE, changes=True),
    *_lines(COMPARISONS),
    *(Protocol(line, by_object=line.startswith("hash(")) for line in HASHES.splitlines()),
    *_lines(INDICES),
    *_lines(CONTAINERS),
    *_lines(CHANGES, changes=True),
    *_lines(TEXTS),
    *_lines(ATTRIBUTES),
    *_lines(COPIES),
    *_lines(BUFFERS),
    *_lines(CALLS, changes=True),
    *(Body(text, changes=True) for text in STATEMENTS),
    *_lines(TENSORS),
    *_lines(NUMPY),
]

_LEFT_OUT = {
    "__subclasshook__": "a class is asked, not a value",
    "__init_subclass__": "a class is made",
    "__class_getitem__": "a class is asked, not a value",
    "__abstractmethods__": "no attribute of an instance",
    "__del__": "the object would be gone",
    "dump": "it writes a file",
    "tofile": "it writes a file",
    "byteswap": "it changes bytes of constants",
    "wait": "it would wait for ever",
    "acquire": "it would wait for ever",
    "_acquire_restore": "it would wait for ever",
    "get": "a queue without items would wait for ever",
    "breakpoint": "it stops",
    "clear": "a traceback's frame would be cleared",
    "tb_frame": "the frame of the test itself",
    "share_memory_": "it makes files",
    "_share_fd_cpu_": "it makes files",
    "_share_filename_cpu_": "it makes files",
    "data_ptr": "an address",
    "buffer_info": "an address",
    "today": "another time for each twin",
    "now": "another time for each twin",
    "utcnow": "another time for each twin",
    "_cdata": "an address",
    "ctypes": "an address",
    "__array_interface__": "an address",
    "__array_struct__": "an address",
    "_as_parameter_": "an address",
    "_weakref": "an address",
    "_backward_hooks": "nothing of the value",
}


_ENDLESS = frozenset({"count", "cycle"})
_WALKING = (*CONTAINERS.splitlines(), *INDICES.splitlines(), *NUMPY.splitlines(), *STATEMENTS)
_LAZY = frozenset({"StringIO", "BytesIO", "partial", "partial of closure", "exception", "OSError"})
_LONG = frozenset({"2 ** v", "list(range(v))", "[i for i in range(v)]"})


def left_out(row: Row, protocol: Protocol, in_place: bool = False) -> str | None:
    """Why a protocol is not tried on a type; None if it is."""
    if in_place and (protocol.by_object or protocol.changes):
        return "each twin has an object of its own"
    if row.name in _ENDLESS and (protocol.text in _WALKING or protocol.text in _WALKS_TOO):
        return "eager Python would walk it for ever"
    if row.name == "int of many digits" and protocol.text in _LONG:
        return "eager Python would run for ever"
    if row.name in _LAZY and any(
        word in protocol.text for word in ("pickle", "reduce", "getstate")
    ):
        return "it tells whether an instance dictionary without entries has been made"
    if row.name == "Tag" and "__reduce" in protocol.text:
        return "torch ends the process"
    if row.name == "queue" and ".get(" in protocol.text:
        return "it would wait for ever"
    if row.name == "ChainMap" and protocol.text in TENSORS.splitlines():
        return "torch raises two errors at once"
    if row.name in ("UserString", "Template") and protocol.text in TENSORS.splitlines():
        return "torch takes text that is no str for a sequence, and overflows the stack"
    return None


_WALKS_TOO = frozenset(
    {
        *(line for line in (COMPARISONS + CHANGES + BUFFERS + TENSORS + IN_PLACE).splitlines()),
        *(
            "list(v.__iter__())",
            "{1} | v",
            "json.dumps(v)",
            "[1] + v",
            "functools.reduce(v, [1, 2])",
        ),
    }
)


#: Where the functions come from whose models read values. The others (torch's settings, logging,
#: random numbers, contexts) are called for what they do.
_READERS = frozenset(
    {
        *("builtins", "math", "operator", "_operator", "copy", "functools", "_functools"),
        *("collections", "itertools", "numpy", "heapq", "_heapq", "bisect", "_bisect"),
    }
)
#: Not of these: they make a class, print, or look at the frame that calls them.
_NO_READERS = frozenset(
    {"print", "id", "hash", "super", "object", "breakpoint", "input", "exec", "eval"}
)
_SHAPES_OF_CALLS = ("F(v)", "F(v, v)", "F(1, v)", "F([v])", "F(v, 1, 2)")


def _is_reader(function: Any) -> bool:
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    return module in _READERS and function.__name__ not in _NO_READERS


def models() -> list[Protocol]:
    """Every function that captures have a model for, given the value: none can be forgotten."""
    return [
        Protocol(text, changes=True, function=function)
        for function in MODELS
        if _is_reader(function)
        for text in _SHAPES_OF_CALLS
    ]


#: Types whose values a model could read without anybody noticing.
OF_MODELS = frozenset(
    {
        *("Decimal", "MyInt", "np.int64", "np.int64 0-d", "np.array of one", "Numeric", "slice"),
        *("memoryview that changes", "keys", "list iterator", "bound method of list", "Plain"),
    }
)


def attributes_of(row: Row) -> list[Protocol]:
    """Every attribute of a type, read and, where it can be, called without arguments."""
    value = row.first()
    found: list[Protocol] = []
    for name in sorted(set(dir(type(value))) | _instance_names(value)):
        if left_out(row, Protocol(f"v.{name}()")) is not None:
            continue
        if not name.isidentifier() or keyword.iskeyword(name) or name in _LEFT_OUT:
            continue
        if isinstance(value, types.ModuleType) and not name.startswith("__"):
            continue
        found.append(Protocol(f"v.{name}", changes=True))
        try:
            is_method = callable(getattr(value, name))
        except Exception:
            is_method = False
        if is_method and not isinstance(value, type):
            by_object = name in ("__hash__", "__sizeof__")
            if name == "__iter__" and row.name not in _ENDLESS:
                found.append(Protocol("list(v.__iter__())", changes=True))
                continue  # Which iterator it is, is Python's affair.
            found.append(Protocol(f"v.{name}()", changes=not by_object, by_object=by_object))
    return found


def _instance_names(value: Any) -> set[str]:
    return set(getattr(value, "__dict__", ())) if not isinstance(value, types.ModuleType) else set()
