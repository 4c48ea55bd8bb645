"""What a guard on a tensor means: how it prints, when it holds, the lines of code that check it.

tensor 'x': type=Tensor, dtype=torch.float32, device=cpu, requires_grad=False, size=[?, 4]
tensor 'x' size mismatch at index 0. expected 10, actual 20
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from anyshape.guards.guard import Guard, TensorSpec
from anyshape.guards.path import Access, Path
from anyshape.guards.path_codegen import Walk
from anyshape.guards.values import is_dense

# -- text ---------------------------------------------------------------------------------------


def tensor_name(path: Path) -> str:
    """`'x'` for an argument, the whole path for what lies deeper."""
    if path.access is Access.LOCAL:
        return repr(path.key)
    return f'"{path.text}"' if "'" in path.text else f"'{path.text}'"


def tensor_text(guard: Guard) -> str:
    assert guard.path is not None, "a tensor guard looks at a path"
    spec = cast("TensorSpec", guard.value)
    sizes = ", ".join("?" if size is None else str(size) for size in spec.sizes)
    parts = [
        f"type={spec.type.__name__}",
        f"dtype={spec.dtype}",
        f"device={spec.device}",
        f"requires_grad={spec.requires_grad}",
        f"size=[{sizes}]",
    ]
    if spec.strides is not None:
        strides = ", ".join("?" if stride is None else str(stride) for stride in spec.strides)
        parts.append(f"stride=[{strides}]")
    if spec.order is not None:
        parts.append(_order_text(spec.order))
    if spec.layout is not None:
        parts.append(f"layout={spec.layout}")
    return f"tensor {tensor_name(guard.path)}: {', '.join(parts)}"


#: Orders of dimensions that have a name; torch has these two for images and volumes.
_ORDER_NAMES: Final[dict[tuple[int, ...], str]] = {
    (0, 2, 3, 1): "channels_last",
    (0, 2, 3, 4, 1): "channels_last_3d",
}


def _order_text(order: tuple[int, ...]) -> str:
    if order == tuple(range(len(order))):
        return "contiguous"
    return _ORDER_NAMES.get(order, f"dense in the order {list(order)}")


def check_tensor_text(guard: Guard) -> str:
    """As torch's logs have it."""
    spec = cast("TensorSpec", guard.value)
    assert guard.path is not None, "a tensor guard looks at a path"
    return (
        f"check_tensor({guard.path.text}, {spec.type.__name__}, {spec.dtype}, device={spec.device},"
        f" requires_grad={spec.requires_grad}, size={list(spec.sizes)},"
        f" stride={_strides(spec)})"
    )


def _strides(spec: TensorSpec) -> list[int | None]:
    """As far as they are the same for all sizes."""
    if spec.strides is not None:
        return list(spec.strides)
    if spec.order is None:
        return [None] * len(spec.sizes)
    found: list[int | None] = [None] * len(spec.sizes)
    step: int | None = 1
    for dim in reversed(spec.order):
        found[dim] = step
        size = spec.sizes[dim]
        step = None if step is None or size is None else step * size
    return found


# -- whether it holds ---------------------------------------------------------------------------


def is_like(tensor: object, spec: TensorSpec) -> bool:
    # A subclass may answer for its attributes as it likes.
    return next(differences(spec, tensor), None) is None


def mismatch(guard: Guard, found: object) -> str:
    """What is wrong with what was found in place of the tensor."""
    assert guard.path is not None, "a tensor guard looks at a path"
    spec = cast("TensorSpec", guard.value)
    what, index, expected, actual = next(differences(spec, found))
    at = "" if index is None else f" at index {index}"
    text = f"{what} mismatch{at}. expected {expected}, actual {actual}"
    return f"tensor {tensor_name(guard.path)} {text}"


def differences(spec: TensorSpec, tensor: Any) -> Iterator[tuple[str, int | None, object, object]]:
    """What is not as the spec says, at which dimension: what it should be, and what it is."""
    if type(tensor) is not spec.type:
        yield "type", None, spec.type.__name__, type(tensor).__name__
        return
    for attribute in ("dtype", "device", "requires_grad", "layout"):
        expected, actual = getattr(spec, attribute), getattr(tensor, attribute)
        if (attribute != "layout" or expected is not None) and expected != actual:
            yield attribute, None, expected, actual
    for question in _lazy_questions(spec):
        if getattr(tensor, question)():
            yield f"{question}()", None, False, True
    sizes: tuple[int, ...] = tensor.shape
    if len(sizes) != len(spec.sizes):
        yield "rank", None, len(spec.sizes), len(sizes)
        return
    for index, (expected, actual) in enumerate(zip(spec.sizes, sizes, strict=True)):
        if expected is not None and expected != actual:
            yield "size", index, expected, actual
    if spec.strides is None and spec.order is None:
        return
    strides: tuple[int, ...] = tensor.stride()
    if spec.strides is not None:
        for index, (expected, actual) in enumerate(zip(spec.strides, strides, strict=True)):
            if expected is not None and expected != actual:
                yield "stride", index, expected, actual
    if spec.order is not None and not is_dense(sizes, strides, spec.order):
        yield "layout", None, _order_text(spec.order), f"stride {list(strides)}"


def _lazy_questions(spec: TensorSpec) -> tuple[str, ...]:
    """What is asked of a tensor that may stand for other values than are in its memory, as
    `z.conj().imag` does. None that is captured does so."""
    dtype: Any = spec.dtype
    if dtype.is_complex:
        return "is_conj", "is_neg"
    return ("is_neg",) if dtype.is_floating_point else ()


# -- code ---------------------------------------------------------------------------------------


def emit_tensor(walk: Walk, guard: Guard) -> None:
    path, spec = guard.path, cast("TensorSpec", guard.value)
    assert path is not None, "a tensor guard looks at a path"
    found = walk.variable(path)
    walk.refuse_if(f"{walk.name(type)}({found}) is not {walk.name(spec.type)}")
    walk.refuse_if(f"{found}.dtype is not {walk.name(spec.dtype)}")
    _sizes_of_tensor(walk, path, spec)
    if getattr(spec.device, "type", None) == "cpu":
        walk.refuse_if(f"not {found}.is_cpu")  # There is one; half the price of the comparison.
    else:
        walk.refuse_if(f"{found}.device != {walk.name(spec.device)}")
    walk.refuse_if(f"{'not ' if spec.requires_grad else ''}{found}.requires_grad")
    for question in _lazy_questions(spec):
        walk.refuse_if(f"{found}.{question}()")
    if spec.layout is not None:
        walk.refuse_if(f"{found}.layout is not {walk.name(spec.layout)}")
    if spec.strides is not None:
        _strides_of_tensor(walk, found, spec.strides)
    if spec.order is not None:
        _order_of_tensor(walk, path, spec.sizes, spec.order)


def _strides_of_tensor(walk: Walk, found: str, strides: tuple[int | None, ...]) -> None:
    if None not in strides:
        walk.refuse_if(f"{found}.stride() != {walk.name(strides)}")
        return
    for dim, stride in enumerate(strides):
        if stride is not None:
            walk.refuse_if(f"{found}.stride({dim}) != {stride}")


def _sizes_of_tensor(walk: Walk, path: Path, spec: TensorSpec) -> None:
    found, rank = walk.variable(path), len(spec.sizes)
    static = [(dim, size) for dim, size in enumerate(spec.sizes) if size is not None]
    if len(static) == rank:
        sizes = spec.sizes
        walk.refuse_if(f"{found}.shape != {walk.name(sizes)}" if rank else f"{found}.ndim")
        return
    shape = walk.shape(path)
    walk.refuse_if(f"{walk.name(len)}({shape}) != {rank}")
    for dim, size in static:
        walk.refuse_if(f"{shape}[{dim}] != {size}")


def _order_of_tensor(
    walk: Walk, path: Path, sizes: tuple[int | None, ...], order: tuple[int, ...]
) -> None:
    found = walk.variable(path)
    if order == tuple(range(len(order))):
        if order:
            walk.refuse_if(f"not {found}.is_contiguous()")
        return
    if 0 in sizes:
        return  # A tensor without elements always fits.
    strides = walk.assign(f"{found}.stride()")
    dense = dense_condition(_size_texts(walk, path, sizes), strides, order)
    if None in sizes:
        dense = f"{dense} or 0 in {walk.shape(path)}"
    walk.refuse_if(f"not ({dense})")


def _size_texts(walk: Walk, path: Path, sizes: tuple[int | None, ...]) -> list[str]:
    return [
        f"{walk.shape(path)}[{dim}]" if size is None else str(size)
        for dim, size in enumerate(sizes)
    ]


def dense_condition(sizes: Sequence[str], strides: str, order: tuple[int, ...]) -> str:
    """That the strides are those of a dense tensor whose dimensions lie in this order, as text: a
    dimension's stride is the product of the sizes inside it, and does not matter if its size is
    1."""
    conditions: list[str] = []
    inside: list[str] = []
    for dim in reversed(order):
        if sizes[dim] != "1":
            expected = "*".join(inside) or "1"
            free = "" if sizes[dim].isdigit() else f"{sizes[dim]} == 1 or "
            conditions.append(f"({free}{strides}[{dim}] == {expected})")
            inside.append(sizes[dim])
    return " and ".join(conditions) or "True"
