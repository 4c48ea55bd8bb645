"""Decompositions and solutions of linear systems. What comes from LAPACK is stored by columns.

Left to torch's meta functions: what depends on the values (residuals of `lstsq` but for its usual
driver) or is rarely used.
"""

from __future__ import annotations

from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.loops.expr import HALVES, Scalar
from anyshape.ops.broadcast import broadcast
from anyshape.ops.families.matmul import require_one_dtype, require_rank, require_same
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.pointwise_builder import broadcast_index, common_dtype
from anyshape.ops.lowering.scalars import cast, op
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.meta import Dense, Layout, Meta, Strided, contiguous
from anyshape.ops.op import Op, OpKind, Rule, gradient, lower
from anyshape.ops.promotion import category, complex_of, real
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, ge, gt, maximum, minimum, product

_LAPACK = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def by_columns(rank: int) -> Layout:
    """Matrices stored column by column, one after another."""
    return Dense((*range(rank - 2), rank - 1, rank - 2)) if rank > 1 else contiguous(rank)


def _require_matrix(q: ShapeQuery, a: Meta) -> None:
    if a.rank < 2:
        raise q.fail("a matrix has at least two dimensions")


def _require_lapack(q: ShapeQuery, a: Meta) -> None:
    _require_matrix(q, a)
    if a.dtype not in _LAPACK:
        raise q.fail(f"there is no decomposition of {a.dtype}")


def _require_square(q: ShapeQuery, a: Meta) -> None:
    _require_lapack(q, a)
    require_same(q, a.shape[-2], a.shape[-1], "the sizes of a square matrix")


def _columns(
    a: Meta, shape: tuple[Size, ...] | None = None, dtype: torch.dtype | None = None
) -> Meta:
    shape = a.shape if shape is None else shape
    return a.like(shape, dtype, by_columns(len(shape)))


def _infos(a: Meta) -> Meta:
    return a.like(a.shape[:-2], torch.int32)


def _square(q: ShapeQuery, A: Meta, *_: Any, **__: Any) -> Meta:
    """A matrix of the same size, by columns."""
    _require_square(q, A)
    return _columns(A)


def _square_ex(q: ShapeQuery, A: Meta, **_: Any) -> tuple[Meta, Meta]:
    _require_square(q, A)
    return _columns(A), _infos(A)


def _number(q: ShapeQuery, A: Meta) -> Meta:
    """One number a matrix."""
    _require_square(q, A)
    return A.like(A.shape[:-2])


def _slogdet(q: ShapeQuery, A: Meta) -> tuple[Meta, Meta]:
    _require_square(q, A)
    return A.like(A.shape[:-2]), A.like(A.shape[:-2], real(A.dtype))


def _eigh(q: ShapeQuery, A: Meta, UPLO: str = "L") -> tuple[Meta, Meta]:
    _require_square(q, A)
    return A.like(A.shape[:-1], real(A.dtype)), _columns(A)


def _eigvalsh(q: ShapeQuery, A: Meta, UPLO: str = "L") -> Meta:
    return _eigh(q, A)[0]


def _eig(q: ShapeQuery, A: Meta) -> tuple[Meta, Meta]:
    _require_square(q, A)
    dtype = A.dtype if A.dtype.is_complex else complex_of(A.dtype)
    return A.like(A.shape[:-1], dtype), _columns(A, dtype=dtype)


def _eigvals(q: ShapeQuery, A: Meta) -> Meta:
    return _eig(q, A)[0]


def _svd(
    q: ShapeQuery, A: Meta, full_matrices: bool = True, *, driver: str | None = None
) -> tuple[Meta, Meta, Meta]:
    _require_lapack(q, A)
    *batch, m, n = A.shape
    k = minimum(m, n)
    u = _columns(A, (*batch, m, m if full_matrices else k))
    return (
        u,
        A.like((*batch, k), real(A.dtype)),
        _columns(A, (*batch, n if full_matrices else k, n)),
    )


def _svdvals(q: ShapeQuery, A: Meta, *, driver: str | None = None) -> Meta:
    return _svd(q, A)[1]


def _old_svd(
    q: ShapeQuery, input: Meta, some: bool = True, compute_uv: bool = True
) -> tuple[Meta, Meta, Meta]:
    u, s, vh = _svd(q, input, not some)
    if compute_uv:
        return u, s, input.like((*vh.shape[:-2], vh.shape[-1], vh.shape[-2]))
    *batch, m, n = input.shape
    return input.like((*batch, m, m)), s, _columns(input, (*batch, n, n))


def _qr(q: ShapeQuery, A: Meta, mode: str = "reduced") -> tuple[Meta, Meta]:
    _require_lapack(q, A)
    if mode not in ("reduced", "complete", "r"):
        raise q.fail(f"mode is 'reduced', 'complete' or 'r', not {mode!r}")
    *batch, m, n = A.shape
    rows = m if mode == "complete" else minimum(m, n)
    return A.like((0,)) if mode == "r" else _columns(A, (*batch, m, rows)), _columns(
        A, (*batch, rows, n)
    )


def _old_qr(q: ShapeQuery, input: Meta, some: bool = True) -> tuple[Meta, Meta]:
    return _qr(q, input, "reduced" if some else "complete")


def _geqrf(q: ShapeQuery, input: Meta) -> tuple[Meta, Meta]:
    _require_lapack(q, input)
    return _columns(input), input.like((*input.shape[:-2], minimum(*input.shape[-2:])))


def _require_pivot(q: ShapeQuery, a: Meta, pivot: bool) -> None:
    _require_lapack(q, a)
    if not pivot and a.device.type == "cpu":
        raise q.fail("on the CPU a triangular decomposition takes pivots")


def _lu(q: ShapeQuery, A: Meta, *, pivot: bool = True) -> tuple[Meta, Meta, Meta]:
    if not pivot:
        raise UnknownOperator(op=q.op)
    _require_pivot(q, A, pivot)
    *batch, m, n = A.shape
    k = minimum(m, n)
    return A.like((*batch, m, m)), A.like((*batch, m, k)), A.like((*batch, k, n))


def _lu_factor(q: ShapeQuery, A: Meta, *, pivot: bool = True) -> tuple[Meta, Meta]:
    _require_pivot(q, A, pivot)
    return _columns(A), A.like((*A.shape[:-2], minimum(*A.shape[-2:])), torch.int32)


def _lu_factor_ex(
    q: ShapeQuery, A: Meta, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Meta, ...]:
    return (*_lu_factor(q, A, pivot=pivot), _infos(A))


def _old_lu(
    q: ShapeQuery, A: Meta, pivot: bool = True, get_infos: bool = False
) -> tuple[Meta, ...]:
    found = _lu_factor(q, A, pivot=pivot)
    return (*found, _infos(A)) if get_infos else found


def _ldl_factor(q: ShapeQuery, A: Meta, *, hermitian: bool = False) -> tuple[Meta, Meta]:
    _require_square(q, A)
    return _columns(A), A.like(A.shape[:-1], torch.int32)


def _ldl_factor_ex(
    q: ShapeQuery, A: Meta, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Meta, ...]:
    return (*_ldl_factor(q, A), _infos(A))


def _matrix_power(q: ShapeQuery, A: Meta, n: int) -> Meta:
    _require_matrix(q, A)
    require_same(q, A.shape[-2], A.shape[-1], "the sizes of a square matrix")
    if type(n) is not int:
        raise UnknownOperator(op=q.op)
    if n < 0:
        _require_lapack(q, A)
    if n > 1 or n < -1:
        require_one_dtype(q, A)
    return _columns(A) if n == -1 else A.like()


def _matrix_exp(q: ShapeQuery, input: Meta) -> Meta:
    _require_matrix(q, input)
    if category(input.dtype) < 2:
        raise q.fail(f"there is no exponential of {input.dtype}")
    require_same(q, input.shape[-2], input.shape[-1], "the sizes of a square matrix")
    if not input.is_contiguous:
        raise UnknownOperator(op=q.op)  # some layouts are rejected by torch, others are copied
    return input.like()


def _require_numbers(q: ShapeQuery, *tolerances: Any) -> None:
    if any(isinstance(tolerance, Meta) for tolerance in tolerances):
        raise UnknownOperator(op=q.op)


def _matrix_rank(
    q: ShapeQuery,
    A: Meta,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Meta:
    _require_numbers(q, tol, atol, rtol)
    (_require_square if hermitian else _require_lapack)(q, A)
    return A.like(A.shape[:-2], torch.int64)


def _pinv(
    q: ShapeQuery,
    A: Meta,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Meta:
    _require_numbers(q, rcond, atol, rtol)
    (_require_square if hermitian else _require_lapack)(q, A)
    return A.like((*A.shape[:-2], A.shape[-1], A.shape[-2]))


def _cond(q: ShapeQuery, A: Meta, p: Any = None) -> Meta:
    (_require_lapack if p in (None, 2, -2) else _require_square)(q, A)
    return A.like(A.shape[:-2], real(A.dtype))


def _householder(q: ShapeQuery, A: Meta, tau: Meta) -> Meta:
    _require_lapack(q, A)
    require_one_dtype(q, A, tau)
    require_rank(q, tau, A.rank - 1, "the scales of the reflections")
    q.require(ge(A.shape[-2], A.shape[-1]), "there are at least as many rows as columns")
    q.require(ge(A.shape[-1], tau.shape[-1]), "there are at most as many reflections as columns")
    for a, b in zip(A.shape[:-2], tau.shape[:-1], strict=True):
        require_same(q, a, b, "the batch sizes")
    return _columns(A)


def _is_vector(q: ShapeQuery, a: Meta, b: Meta) -> bool:
    """Whether the right side is one vector a system: by its rank, or because it has the shape of
    such vectors.
    """
    if b.rank == 1:
        return True
    if b.rank != a.rank - 1:
        return False
    facts = (eq(x, y) for x, y in zip(b.shape, a.shape[:-1], strict=True))
    return q.decide(and_(*facts), "a right side in the shape of vectors is taken for vectors")


def _systems(q: ShapeQuery, a: Meta, b: Meta, *, left: bool = True) -> tuple[Size, ...]:
    """The shape of the solutions of square systems with matrices as right sides."""
    _require_square(q, a)
    _require_matrix(q, b)
    require_one_dtype(q, a, b)
    require_same(q, b.shape[-2 if left else -1], a.shape[-1], "the sizes of a system")
    return (*broadcast(q, [a.shape[:-2], b.shape[:-2]]), *b.shape[-2:])


def _solve(q: ShapeQuery, A: Meta, B: Meta, *, left: bool = True) -> Meta:
    _require_square(q, A)
    if not _is_vector(q, A, B):
        shape = _systems(q, A, B, left=left)
    else:
        if not left:
            raise q.fail("a vector stands on the right")
        require_one_dtype(q, A, B)
        require_same(q, B.shape[-1], A.shape[-1], "the sizes of a system")
        shape = (*broadcast(q, [A.shape[:-2], B.shape[:-1]]), B.shape[-1])
    # Also vectors are laid out as if their last two dimensions were a matrix.
    return A.like(shape, layout=by_columns(len(shape)) if left else None)


def _solve_ex(
    q: ShapeQuery, A: Meta, B: Meta, *, left: bool = True, check_errors: bool = False
) -> tuple[Meta, Meta]:
    return _solve(q, A, B, left=left), _infos(A)


def _solve_triangular(
    q: ShapeQuery, A: Meta, B: Meta, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Meta:
    return _columns(A, _systems(q, A, B, left=left))


def _old_triangular_solve(
    q: ShapeQuery,
    b: Meta,
    A: Meta,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Meta, Meta]:
    shape = _systems(q, A, b)
    return _columns(A, shape), _columns(A, (*shape[:-2], *A.shape[-2:]))


def _cholesky_solve(q: ShapeQuery, B: Meta, L: Meta, upper: bool = False) -> Meta:
    return _columns(L, _systems(q, L, B))


def _lu_solve(
    q: ShapeQuery, LU: Meta, pivots: Meta, B: Meta, *, left: bool = True, adjoint: bool = False
) -> Meta:
    if not left or pivots.dtype is not torch.int32:
        raise UnknownOperator(op=q.op)
    require_rank(q, pivots, LU.rank - 1, "the pivots")
    for a, b in zip(pivots.shape, LU.shape[:-1], strict=True):
        require_same(q, a, b, "the sizes of pivots and matrix")
    return _columns(LU, _systems(q, LU, B))


def _old_lu_solve(q: ShapeQuery, b: Meta, LU_data: Meta, LU_pivots: Meta) -> Meta:
    return _lu_solve(q, LU_data, LU_pivots, b)


def _lstsq(
    q: ShapeQuery, A: Meta, B: Meta, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Meta, ...]:
    _require_lapack(q, A)
    vector = _is_vector(q, A, B)
    if driver not in (None, "gelsy", "gels") or A.device.type != "cpu" or B.rank != A.rank - vector:
        raise UnknownOperator(
            op=q.op
        )  # of other drivers the values tell whether there are residuals
    require_one_dtype(q, A, B)
    *batch, m, n = A.shape
    require_same(q, B.shape[-1 if vector else -2], m, "the rows of a system")
    for a, b in zip(batch, B.shape, strict=False):
        require_same(q, a, b, "the batch sizes")
    # LAPACK solves in place: the solution is the first rows of what held the right side.
    rows = maximum(m, n)
    sides: tuple[Size, ...] = () if vector else (B.shape[-1],)
    shape = (*batch, n, *sides)
    strides: list[Size] = [1] if vector else [1, rows]
    step = rows * product(sides)
    for size in reversed(batch):
        strides.insert(0, step)
        step = step * size
    solution = A.like(shape, layout=Strided(tuple(strides)))
    return (solution, *_lstsq_findings(q, A, (*batch, *(sides or (1,))), driver or "gelsy"))


def _lstsq_findings(
    q: ShapeQuery, a: Meta, residuals: tuple[Size, ...], driver: str
) -> tuple[Meta, Meta, Meta]:
    """Residuals, ranks and singular values: which of them there are depends on the driver."""
    *batch, m, n = a.shape
    dtype = real(a.dtype)
    nothing, ranks = a.like((0,), dtype), a.like(tuple(batch), torch.int64)
    if driver == "gelsy":
        return nothing, ranks, nothing
    more_rows = q.decide(gt(m, n), "only a system with more rows than columns has residuals")
    return a.like(residuals, dtype) if more_rows else nothing, a.like((0,), torch.int64), nothing


def _cross(q: ShapeQuery, input: Meta, other: Meta, dim: int | None = None) -> Meta:
    if dim is None:
        three = (q.decide(eq(size, 3), "the first dimension of size 3") for size in input.shape)
        dim = next((place for place, is_three in enumerate(three) if is_three), None)
        if dim is None:
            raise q.fail("no dimension has size 3")
    return _linalg_cross(q, input, other, dim=dim)


def _linalg_cross(q: ShapeQuery, input: Meta, other: Meta, *, dim: int = -1) -> Meta:
    if input.rank != other.rank or not input.shape:
        raise q.fail("both vectors have the same number of dimensions, at least one")
    dtype = require_one_dtype(q, input, other)
    dim = q.dim(dim, input.rank)
    for tensor in (input, other):
        require_same(q, tensor.shape[dim], 3, "the size of a vector")
    return input.like(broadcast(q, [input.shape, other.shape]), dtype)


def _vander(q: ShapeQuery, input: Meta, *, N: Size | None = None) -> Meta:
    if input.dtype is torch.bool:
        raise q.fail("there are no powers of booleans")
    shape = input.shape or (1,)
    count = shape[-1] if N is None else N
    q.require(gt(count, 1), "there is more than one power")
    return input.like((*shape, count), input.dtype if category(input.dtype) > 1 else torch.int64)


def _old_vander(
    q: ShapeQuery, input: Meta, N: Size | None = None, increasing: bool = False
) -> Meta:
    require_rank(q, input, 1, "the vector")
    count = input.shape[0] if N is None else N
    q.require(ge(count, 0), "the number of powers is not negative")
    return input.like(
        (input.shape[0], count), input.dtype if category(input.dtype) > 1 else torch.int64
    )


def _tensorinv(q: ShapeQuery, A: Meta, ind: int = 2) -> Meta:
    if A.dtype not in _LAPACK or not 0 < ind <= A.rank:
        raise q.fail(f"no inverse of {A.dtype} with {ind} leading dimensions")
    rows, columns = A.shape[ind:], A.shape[:ind]
    require_same(q, product(rows), product(columns), "the sizes of a square matrix")
    order = (*range(len(rows), A.rank), *range(len(rows)))
    return A.like((*rows, *columns), layout=Dense(order))


def _tensorsolve(q: ShapeQuery, A: Meta, B: Meta, dims: Any = None) -> Meta:
    if A.dtype not in _LAPACK:
        raise q.fail(f"there is no decomposition of {A.dtype}")
    require_one_dtype(q, A, B)
    moved = q.dims(dims, A.rank) if dims is not None else ()
    shape = [size for dim, size in enumerate(A.shape) if dim not in moved]
    shape += [A.shape[dim] for dim in moved]
    result = tuple(shape[B.rank :])
    require_same(q, product(B.shape), product(result), "the sizes of a system")
    require_same(
        q, product(tuple(shape[: B.rank])), product(result), "the sizes of a square system"
    )
    return A.like(result)


def _rows(names: dict[str, tuple[Rule, tuple[str, ...]]], prefix: str) -> tuple[Op, ...]:
    return tuple(
        Op(f"linalg.{name}", (*(prefix + name,), *also), rule, OpKind.CALL_OUT)
        for name, (rule, also) in names.items()
    )


def _old(name: str) -> tuple[str, str]:
    return f"torch.{name}", f"torch.Tensor.{name}"


_LINALG: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "inv": (_square, _old("inverse")),
    "cholesky": (_square, _old("cholesky")),
    "inv_ex": (_square_ex, ()),
    "cholesky_ex": (_square_ex, ()),
    "det": (_number, _old("det")),
    "slogdet": (_slogdet, _old("slogdet")),
    "eigh": (_eigh, ()),
    "eigvalsh": (_eigvalsh, ()),
    "eig": (_eig, ()),
    "eigvals": (_eigvals, ()),
    "svd": (_svd, ()),
    "svdvals": (_svdvals, ()),
    "qr": (_qr, ()),
    "lu": (_lu, ()),
    "lu_factor": (_lu_factor, ()),
    "lu_factor_ex": (_lu_factor_ex, ()),
    "ldl_factor": (_ldl_factor, ()),
    "ldl_factor_ex": (_ldl_factor_ex, ()),
    "matrix_power": (_matrix_power, _old("matrix_power")),
    "matrix_exp": (_matrix_exp, _old("matrix_exp")),
    "matrix_rank": (_matrix_rank, ()),
    "pinv": (_pinv, ()),
    "cond": (_cond, ()),
    "householder_product": (_householder, _old("orgqr")),
    "solve": (_solve, ()),
    "solve_ex": (_solve_ex, ()),
    "solve_triangular": (_solve_triangular, ()),
    "lu_solve": (_lu_solve, ()),
    "lstsq": (_lstsq, ()),
    "cross": (_linalg_cross, ()),
    "vander": (_vander, ()),
    "tensorinv": (_tensorinv, ()),
    "tensorsolve": (_tensorsolve, ()),
}

_TORCH: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "logdet": (_number, ("torch.Tensor.logdet",)),
    "cholesky_inverse": (_square, ("torch.Tensor.cholesky_inverse",)),
    "svd": (_old_svd, ("torch.Tensor.svd",)),
    "qr": (_old_qr, ("torch.Tensor.qr",)),
    "geqrf": (_geqrf, ("torch.Tensor.geqrf",)),
    "lu": (_old_lu, ("torch.Tensor.lu", "torch.functional.lu")),
    "pinverse": (_pinv, ("torch.Tensor.pinverse",)),
    "triangular_solve": (_old_triangular_solve, ("torch.Tensor.triangular_solve",)),
    "cholesky_solve": (_cholesky_solve, ("torch.Tensor.cholesky_solve",)),
    "lu_solve": (_old_lu_solve, ("torch.Tensor.lu_solve",)),
    "cross": (_cross, ("torch.Tensor.cross",)),
    "vander": (_old_vander, ()),
}

ROWS: tuple[Op, ...] = (*_rows(_LINALG, "torch.linalg."), *_rows(_TORCH, "torch."))


# -- native code ----------------------------------------------------------------------------------


@lower("linalg.cross")
def lower_cross(c: Lowering, input: Value, other: Value, dim: Any) -> Value:
    """Along the last dimension, or in `torch.cross` along the first that has three elements."""
    rank, dtype = len(c.result.shape), common_dtype((input, other))
    if dtype in HALVES or dtype == "b1":
        raise NotLowered("of 16-bit floats, which torch rounds on the way")
    if dim is None:
        if c.function is not torch.linalg.cross:
            raise NotLowered("the dimension depends on the sizes")
        dim = -1
    along = place(dim, rank)
    whole = c.result.shape

    def component(number: int) -> Value:
        def at(index: Index) -> Scalar:
            def part(of: Value, ahead: int) -> Scalar:
                there = (*index[:along], (number + ahead) % 3, *index[along + 1 :])
                return cast(of.at(broadcast_index(of.sizes, whole, there)), dtype)

            forth = op("mul", part(input, 1), part(other, 2))
            return op("sub", forth, op("mul", part(input, 2), part(other, 1)))

        sizes = (*whole[:along], 1, *whole[along + 1 :])
        return c.values.new(sizes, dtype, at, (input, other), cost=3)

    for each in (input, other):
        c.materialize_if_expensive(each, 4)
    return c.joined([component(number) for number in range(3)], along, whole, c.result)


# -- gradients ------------------------------------------------------------------------------------


@gradient("linalg.cross")
def gradient_cross(grad: Term, input: Term, other: Term, dim: Any) -> Gradients:
    if dim is None:
        raise NoGradient("a dimension that torch looks for")
    if input.rank != other.rank:
        raise NoGradient("dimensions that one of them does not have")
    return {
        "input": other.call(torch.linalg.cross, grad, dim=dim),
        "other": grad.call(torch.linalg.cross, input, dim=dim),
    }
