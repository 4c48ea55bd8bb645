"""What goes wrong on GPUs, or is rare there: a clear error or eager's answer, and nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from tests.gpu.device import DEVICE, IS_GPU, needs_device, needs_gpu, synchronize
from tests.gpu.scripts import output
from tests.gpu.test_programs import check

pytestmark = needs_device


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"), torch.no_grad():
        yield
    anyshape.reset()


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def norm(x: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x, x.shape[-1:])).softmax(-1)


def native(compiled: Any) -> bool:
    return "native code: " in str(compiled.explain())


# -- processes -------------------------------------------------------------------------------------


def test_no_visible_gpu() -> None:
    """The processor's graphs are native as ever, and no part for GPUs is loaded."""
    said = output(
        """
        compiled = anyshape.compile(lambda x: x.sin() + 1, dynamic=True)
        for size in (3, 3, 4):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), x.sin() + 1)
        print("native code: 2" in str(compiled.explain()), compiled.stats().graphs)
        print(any(name.startswith("anyshape.runtime.cuda") for name in sys.modules))
        try:
            torch.ones(3, device="cuda")
        except Exception as error:
            print(type(error).__name__)
        """,
        {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert said.split()[:3] == ["True", "1", "False"]


CACHED = """
    warnings.simplefilter("error")
    compiled = anyshape.compile(lambda x: (x.sin() + 1).softmax(-1), dynamic=True)
    for rows in (5, 5, 7):
        x = torch.randn(rows, 33, device=DEVICE)
        torch.testing.assert_close(compiled(x), (x.sin() + 1).softmax(-1))
    print("native code: " in str(compiled.explain()), compiled.stats().eager_calls)
"""


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that a process has filled."""
    assert output(CACHED, {"ANYSHAPE_CACHE_DIR": str(tmp_path)}).split() == ["True", "0"]
    assert _files(tmp_path)
    return tmp_path


def test_a_truncated_cache(cache: Path) -> None:
    for path in _files(cache):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert output(CACHED, {"ANYSHAPE_CACHE_DIR": str(cache)}).split() == ["True", "0"]


@needs_gpu
def test_a_cache_of_another_gpu(cache: Path) -> None:
    """Another architecture has keys of its own: what it left is neither read nor lost."""
    before = {path: path.read_bytes() for path in _files(cache)}
    other = """
    from anyshape.runtime.cuda import code
    code._PTX.clear()
    code._PTX[7, 5] = 63
    """
    for program in (other + CACHED, CACHED):
        assert output(program, {"ANYSHAPE_CACHE_DIR": str(cache)}).split() == ["True", "0"]
    after = {path: path.read_bytes() for path in _files(cache)}
    assert len(after) > len(before)


@needs_gpu
def test_a_fork_after_cuda_was_used() -> None:
    """In the child the GPU is not there, as torch says; the processor is."""
    said = output(
        """
        compiled = anyshape.compile(lambda x: x.sin() + 1, dynamic=True)
        given = torch.ones(3, device="cuda")
        compiled(given), compiled(given)
        compiled(torch.ones(3)), compiled(torch.ones(3))
        sys.stdout.flush()
        child = os.fork()
        if not child:
            x = torch.randn(7)
            torch.testing.assert_close(compiled(x), x.sin() + 1)
            print("right", flush=True)
            for call in (lambda: compiled(torch.ones(4, device="cuda")), lambda: compiled(given)):
                try:
                    call()
                    torch.cuda.synchronize()
                except RuntimeError as error:
                    print("raised", flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        torch.testing.assert_close(compiled(given), given.sin() + 1)
        """
    )
    assert said.split() == ["right", "raised", "raised", "0"]


@needs_gpu
@pytest.mark.parametrize(
    "program",
    ["x[i] + 1", "x.index_select(0, i) * 2", "F.embedding(i, x) * 2", "x.gather(0, i[:, None])"],
)
def test_an_index_out_of_range(program: str) -> None:
    """An error at the latest when the GPU is waited for, not a wrong answer."""
    said = output(
        f"""
        import torch.nn.functional as F
        compiled = anyshape.compile(lambda x, i: {program}, dynamic=True)
        x = torch.randn(5, 3, device="cuda")
        for good in ([0, 1], [4, 2, 0]):
            compiled(x, torch.tensor(good, device="cuda"))
        torch.cuda.synchronize()
        print("right", flush=True)
        try:
            result = compiled(x, torch.tensor([1, 7], device="cuda"))
            torch.cuda.synchronize()
            compiled(x, torch.tensor([1, 2], device="cuda"))
            torch.cuda.synchronize()
        except Exception as error:
            print("raised", type(error).__mro__[-3].__name__, flush=True)
        os._exit(0)
        """
    )
    assert said.split()[:2] == ["right", "raised"], said


# -- memory ----------------------------------------------------------------------------------------


@needs_gpu
def test_out_of_memory() -> None:
    compiled = anyshape.compile(lambda x: (x.sin() + 1, x.cos() * 2), dynamic=True)
    small, large = randn(1000), randn(50_000_000)
    for x in (small, small, large):
        compiled(x)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (100 << 20)) / total)
    try:
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError):
                compiled(large)
            check((small.sin() + 1, small.cos() * 2), compiled(small), 1e-5)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    check((large.sin() + 1, large.cos() * 2), compiled(large), 1e-5)
    assert compiled.stats().graphs == 1
    assert native(compiled)


@needs_gpu
@pytest.mark.parametrize("function", [norm, lambda x: (x @ x.t()).relu().sum(), lambda x: x[x > 0]])
def test_nothing_leaks(function: Callable[..., Any]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    inputs = [randn(rows, 65) for rows in (3, 8, 100)]
    for _ in range(3):
        for x in inputs:
            compiled(x)
    synchronize()
    before = torch.cuda.memory_allocated()
    for number in range(100):
        compiled(inputs[number % 3])
    synchronize()
    assert torch.cuda.memory_allocated() == before


@needs_gpu
@pytest.mark.parametrize(
    "function",
    [lambda x: x + 1, lambda x: x.view(-1, 5) * 3, lambda x: torch.where(x > 3, x, 7)],
)
def test_more_elements_than_an_integer_counts(function: Callable[..., Any]) -> None:
    size = (2**31 + 5) // 5 * 5
    compiled = anyshape.compile(function, dynamic=True)
    small = torch.arange(100, device=DEVICE).to(torch.uint8)
    for _ in range(2):
        assert torch.equal(compiled(small), function(small))
    x = torch.zeros(size, dtype=torch.uint8, device=DEVICE)
    x[-1000:] = torch.arange(1000, device=DEVICE).to(torch.uint8)
    found, wanted = compiled(x), function(x)
    assert torch.equal(found.view(-1)[-4000:], wanted.view(-1)[-4000:])
    assert torch.equal(found, wanted)


@needs_gpu
def test_long_rows_and_many_rows() -> None:
    function = lambda x: (x.float().sum(-1), x.amax(-1))  # noqa: E731
    compiled = anyshape.compile(function, dynamic=True)
    for shape in ((4, 9), (3, 800_000_003), (700_000_001, 3), (1 << 22, 1)):
        x = torch.zeros(shape, dtype=torch.int8, device=DEVICE)
        x[-1, -1] = 5
        x[0, 0] = 3
        check(function(x), compiled(x), 1e-5)
        del x


# -- streams and threads ---------------------------------------------------------------------------


@needs_gpu
def test_the_current_stream() -> None:
    compiled = anyshape.compile(norm, dynamic=True)
    x = randn(64, 100)
    for _ in range(2):
        # All kernels are there: to load one would wait for the GPU.
        assert torch.isfinite(compiled(x)).all()
    synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # Memory is there: to get it would wait for the GPU.
        warm = [compiled(x * 0 + 1) for _ in range(3)]
        # Nor is eager's own kernel to be loaded.
        warm[0][0] = 5
        del warm
        synchronize()
        torch.cuda._sleep(2_000_000_000)
        late = x * 0 + 1
        late[0] = 5
        found = compiled(late)
        assert not stream.query(), "nothing has waited for the GPU"
    # Another stream's work is not behind the sleep.
    assert torch.isfinite(compiled(x)).all()
    assert not stream.query()
    stream.synchronize()
    check(norm(late), found, 1e-4)


@needs_gpu
def test_two_threads_on_two_streams() -> None:
    compiled = anyshape.compile(norm, dynamic=True)
    for _ in range(2):
        compiled(randn(3, 7))
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.no_grad(), torch.cuda.stream(stream):
                made = torch.Generator(DEVICE).manual_seed(seed)
                for turn in range(50):
                    if turn % 10 == 0:
                        torch.cuda._sleep(1_000_000)
                    size = (5 + seed + turn, 33 + seed)
                    x = torch.randn(size, device=DEVICE, generator=made)
                    found, wanted = compiled(x), norm(x)
                    # No other stream is waited for, so that a kernel elsewhere would be too late.
                    check(wanted, found, 1e-4)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not problems, problems
    assert compiled.stats().graphs == 1


# -- devices, dtypes, layouts ----------------------------------------------------------------------


def test_the_processor_after_the_gpu() -> None:
    compiled = anyshape.compile(norm, dynamic=True)
    for device in (DEVICE, "cpu", DEVICE, "cpu"):
        for rows in (3, 3, 8):
            x = torch.randn(rows, 20, device=device)
            check(norm(x), compiled(x), 1e-4)
    assert compiled.stats().graphs == (2 if IS_GPU else 1)
    assert compiled.stats().eager_calls == 0


def test_tensors_of_both() -> None:
    """Numbers may be on the processor; other tensors are an error of torch's."""
    function = lambda x, y: x * y + 1  # noqa: E731
    compiled = anyshape.compile(function, dynamic=True)
    for rows in (3, 3, 8):
        x, number = randn(rows, 4), torch.tensor(2.5)
        check(function(x, number), compiled(x, number), 1e-5)
    if IS_GPU:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="same device"):
                compiled(randn(3, 4), torch.ones(3, 4))


DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.uint8),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
)


def _mixed(x: Tensor, y: Tensor) -> Any:
    return x + y, x * 3, torch.where(x > 0, x, y), (x == y).any(-1), x.to(torch.float32).sum(-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    compiled = anyshape.compile(_mixed, dynamic=True)
    for shape in ((3, 5), (3, 5), (17, 64), (1, 1000), (0, 3), (2, 1)):
        x, y = ((torch.randn(shape, device=DEVICE) * 3).to(dtype) for _ in range(2))
        check(_mixed(x, y), compiled(x, y), 1e-5 if dtype.itemsize > 2 else 2e-2)
    assert compiled.stats().graphs == 1
    assert native(compiled)


def test_channels_last() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.AvgPool2d(2)
    )
    net = net.eval().to(DEVICE, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    compiled: Any = anyshape.compile(net, dynamic=True)
    for batch, side in ((2, 8), (2, 8), (3, 20), (1, 13)):
        x = randn(batch, 3, side, side).contiguous(memory_format=torch.channels_last)
        found, wanted = compiled(x), net(x)
        check(wanted, found, 1e-3)
        assert found.stride() == wanted.stride()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    weight = randn(16, 16)

    def function(x: Tensor) -> Any:
        y = F.linear(x, weight)
        return y, F.gelu(y) + x, y.softmax(-1), F.layer_norm(y, (16,))

    compiled = anyshape.compile(function, dynamic=True)
    for rows in (4, 4, 9):
        x = randn(rows, 16)
        for enabled in (True, False):
            with torch.autocast(DEVICE, dtype=dtype, enabled=enabled):
                check(function(x), compiled(x), 3e-2 if enabled else 1e-3)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "without the first": lambda x: x.reshape(-1)[1:],
    "without the first row": lambda x: x[1:],
    "without the first column": lambda x: x[:, 1:],
    "every other": lambda x: x[:, ::2],
    "transposed": lambda x: x.t(),
    "expanded": lambda x: x[:1].expand(7, -1),
    "overlapping": lambda x: x.as_strided((x.shape[0] - 1, 3), (2, 1), 1),
    "with strides of its own": lambda x: x.as_strided(
        (x.shape[1], x.shape[0] - 1), (1, x.shape[1]), 1
    ),
    "of two bytes": lambda x: x.to(torch.bfloat16)[:, 1:],
    "of one byte": lambda x: (x > 0).view(torch.uint8)[:, 3:],
    "a number": lambda x: x[0, 0],
}


def _several(x: Tensor) -> Any:
    return x * 2 + 1, x.float().sum(-1), (x.float() + 1).softmax(-1), x.to(torch.float16)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    compiled = anyshape.compile(_several, dynamic=True)
    for shape in ((4, 8), (4, 8), (5, 9), (16, 64), (33, 130)):
        x = LAYOUTS[layout](randn(*shape))
        found, wanted = compiled(x), _several(x)
        check(wanted, found, 1e-4)
        assert [each.stride() for each in found] == [each.stride() for each in wanted]


def test_addresses_that_change() -> None:
    """One program for tensors that begin anywhere."""
    whole = randn(4000)
    compiled = anyshape.compile(_several, dynamic=True)
    for start in (0, 1, 2, 3, 4, 5, 0, 8):
        x = whole[start : start + 1024].view(16, 64)
        check(_several(x), compiled(x), 1e-4)
    assert compiled.stats().graphs == 1


SMALL: dict[str, Callable[[Tensor], Any]] = {
    "pointwise": lambda x: x.sin() * 2 + 1,
    "norm": norm,
    "columns": lambda x: (x.sum(0), x.mean(0)),
    "rows": lambda x: (x.sum(-1), x.softmax(-1)),
    "all": lambda x: (x.sum(), x.mean()),
    "joined": lambda x: (torch.cat([x, x]), F.pad(x, (1, 2))),
    "stretched": lambda x: x[:1] + x,
    "running": lambda x: (x.cumsum(0), x.cumsum(1)),
    "turned": lambda x: x.t().contiguous(),
    "product": lambda x: (x @ x.t()).relu(),
}


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (1, 5), (5, 1), (0, 0)])
@pytest.mark.parametrize("name", SMALL)
def test_sizes_0_and_1(name: str, shape: tuple[int, int]) -> None:
    function = SMALL[name]
    compiled = anyshape.compile(function, dynamic=True)
    for each in ((3, 4), shape, shape, (6, 2)):
        x = randn(*each)
        check(function(x), compiled(x), 1e-4)
    first = anyshape.compile(function, dynamic=True)
    for each in (shape, shape, (3, 4)):
        x = randn(*each)
        check(function(x), first(x), 1e-4)


# -- writes ----------------------------------------------------------------------------------------


def _add(x: Tensor, y: Tensor) -> Any:
    x.add_(y)
    return x * y


def _shift(x: Tensor, y: Tensor) -> Any:
    before = x + y
    y[1:] = x[:-1] * 2
    return before, x * 2


def _view(x: Tensor, y: Tensor) -> Any:
    part = x[:, 1:]
    part.mul_(2)
    return part, x.view(-1), y.t()


@pytest.mark.parametrize("function", [_add, _shift, _view])
def test_writes_and_aliases(function: Callable[..., Any]) -> None:
    compiled = anyshape.compile(function, dynamic=True)

    def apart(whole: Tensor) -> tuple[Tensor, Tensor]:
        return whole[:4, :4], whole[4:, :4]

    def same(whole: Tensor) -> tuple[Tensor, Tensor]:
        return whole[:4, :4], whole[:4, :4]

    def shifted(whole: Tensor) -> tuple[Tensor, Tensor]:
        return whole[:4, :4], whole[:4, 1:]

    for parts in (apart, apart, same, shifted, apart):
        here = randn(8, 5)
        there = here.clone()
        try:
            wanted = function(*parts(here))
        except RuntimeError:
            with pytest.raises(RuntimeError):
                compiled(*parts(there))
            continue
        check(wanted, compiled(*parts(there)), 1e-5)
        check(here, there, 1e-5)


def test_results_that_are_views() -> None:
    function = lambda x: (x, x[1:], x.t(), x + 1)  # noqa: E731
    compiled = anyshape.compile(function, dynamic=True)
    for rows in (3, 3, 5):
        x = randn(rows, 4)
        same, part, turned, new = compiled(x)
        assert same is x
        assert part.data_ptr() == x[1:].data_ptr()
        assert turned.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        x.add_(1)
        assert torch.equal(turned, x.t())
        assert torch.equal(new, x)


# -- data and random numbers -----------------------------------------------------------------------


def _ways(x: Tensor) -> Tensor:
    return x.sin() * 2 if x.sum() > 0 else x.cos() - 1


DATA: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x * x.sum().item(),
    "a size": lambda x: torch.zeros(int(x.abs().sum().item()) % 7 + 1, device=x.device) + 1,
    "nonzero": lambda x: (x > 0).nonzero() * 2,
    "mask": lambda x: x[x > 0].sin() + 1,
    "branch": _ways,
    "unique": lambda x: (x * 3).long().unique() + 1,
    "tolist": lambda x: x + sum((x[0] * 8).round().tolist()),
    "masked_select": lambda x: torch.masked_select(x, x < 0).softmax(-1),
    "where": lambda x: torch.where(x > 0)[0] + 1,
}


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    function = DATA[name]
    compiled = anyshape.compile(function, dynamic=True)
    torch.manual_seed(0)
    for rows in (3, 3, 5, 1, 8):
        x = randn(rows, 4)
        check(function(x), compiled(x), 1e-4)


DRAWS: dict[str, Callable[[Tensor], Any]] = {
    "dropout": lambda x: F.dropout(x.sin(), 0.5) + 1,
    "rand_like": lambda x: x + torch.rand_like(x),
    "several": lambda x: (torch.randn_like(x) * 2, F.dropout(x, 0.1), x.bernoulli(0.5)),
    "made": lambda x: torch.randint(0, 9, x.shape, device=x.device) + x,
    "permutation": lambda x: x[torch.randperm(x.shape[0], device=x.device)],
    "in place": lambda x: x.clone().normal_().exp(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers(name: str) -> None:
    """Those of eager code, and as many of them."""
    function = DRAWS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for rows in (3, 3, 40, 1):
        x = randn(rows, 16)
        found: list[Any] = []
        for call in (function, compiled):
            torch.manual_seed(rows)
            found.append((call(x), torch.rand(3, device=DEVICE)))
        check(found[0], found[1], 1e-4)


def test_gradients() -> None:
    weight = randn(6, 6).requires_grad_()
    function = lambda x: F.gelu(F.linear(x, weight)).softmax(-1)  # noqa: E731
    compiled = anyshape.compile(function, dynamic=True)
    with torch.enable_grad():
        for rows in (3, 3, 5):
            x = randn(rows, 6).requires_grad_()
            found: list[Any] = []
            for call in (function, compiled):
                result = call(x)
                found.append((result.detach(), *torch.autograd.grad(result[0].sum(), (x, weight))))
            check(found[0], found[1], 1e-3)


def test_inference_mode() -> None:
    compiled = anyshape.compile(norm, dynamic=True)
    for mode in (torch.inference_mode, nullcontext, torch.inference_mode):
        with mode():
            x = randn(5, 6)
            found = compiled(x)
            check(norm(x), found, 1e-4)
            assert found.is_inference() == (mode is torch.inference_mode)


def test_a_default_device() -> None:
    function = lambda n: torch.arange(n).sin() + torch.ones(n)  # noqa: E731
    compiled = anyshape.compile(function, dynamic=True)
    for device in (DEVICE, "cpu", DEVICE):
        with torch.device(device):
            for size in (3, 5):
                found = compiled(size)
                check(function(size), found, 1e-5)
                assert found.device.type == device
    assert compiled.stats().eager_calls == 0
