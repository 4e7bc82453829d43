"""`tf.linalg`."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as scipy_linalg
from jax import lax

from mirrax.tf.math.reductions import l2_normalize as l2_normalize
from mirrax.tf.namespaces.operations import Array, of_one, of_two, operations
from mirrax.tf.tensors.creation import eye as eye
from mirrax.tf.tensors.tensor import axes, tensor

adjoint = of_one(lambda x: jnp.conj(jnp.swapaxes(x, -1, -2)))
cholesky = of_one(jnp.linalg.cholesky)
cross = of_two(jnp.cross)
det = of_one(jnp.linalg.det)
eigvalsh = of_one(jnp.linalg.eigvalsh)
expm = of_one(scipy_linalg.expm)
logdet = of_one(lambda x: jnp.linalg.slogdet(x)[1])
slogdet = of_one(jnp.linalg.slogdet)
trace = of_one(lambda x: jnp.trace(x, axis1=-2, axis2=-1))


def matmul(
    a: Array,
    b: Array,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
) -> Any:
    left = _turned(a, transpose_a, adjoint_a)
    right = _turned(b, transpose_b, adjoint_b)
    return jnp.matmul(left, right, preferred_element_type=output_type)


def matvec(
    a: Array,
    b: Array,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
) -> Any:
    return (_turned(a, transpose_a, adjoint_a) @ b[..., None])[..., 0]


def _turned(matrix: Any, transpose: bool, adjoint: bool) -> Any:
    if not (transpose or adjoint):
        return matrix
    turned = jnp.swapaxes(matrix, -1, -2)
    return jnp.conj(turned) if adjoint else turned


def matrix_transpose(a: Array, name: Any = None, conjugate: bool = False) -> Any:
    return _turned(a, True, conjugate)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Any:
    return jnp.einsum(equation, *[tensor(value) for value in inputs])


def tensordot(a: Array, b: Array, axes: Any) -> Any:
    return jnp.tensordot(a, b, axes)


def inv(input: Array, adjoint: bool = False) -> Any:
    return jnp.linalg.inv(_turned(input, adjoint, adjoint))


def pinv(a: Array, rcond: Any = None, validate_args: bool = False) -> Any:
    return jnp.linalg.pinv(a, rtol=rcond)


def solve(matrix: Array, rhs: Array, adjoint: bool = False) -> Any:
    return jnp.linalg.solve(_turned(matrix, adjoint, adjoint), rhs)


def triangular_solve(
    matrix: Array, rhs: Array, lower: bool = True, adjoint: bool = False
) -> Any:
    return lax.linalg.triangular_solve(
        matrix,
        rhs,
        left_side=True,
        lower=lower,
        transpose_a=adjoint,
        conjugate_a=adjoint,
    )


def cholesky_solve(chol: Array, rhs: Array) -> Any:
    return scipy_linalg.cho_solve((chol, True), rhs)


def lstsq(
    matrix: Array, rhs: Array, l2_regularizer: float = 0.0, fast: bool = True
) -> Any:
    turned = jnp.swapaxes(matrix, -1, -2)
    square = turned @ matrix + l2_regularizer * jnp.eye(matrix.shape[-1])
    return jnp.linalg.solve(square, turned @ rhs)


def eigh(tensor: Array) -> tuple[Any, Any]:
    return tuple(jnp.linalg.eigh(tensor))


def qr(input: Array, full_matrices: bool = False) -> Any:
    mode = "complete" if full_matrices else "reduced"
    return jnp.linalg.qr(input, mode=mode)


def svd(tensor: Array, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return jnp.linalg.svd(tensor, full_matrices, compute_uv=False)
    u, s, vh = jnp.linalg.svd(tensor, full_matrices)
    return s, u, _turned(vh, False, True)


def matrix_rank(a: Array, tol: Any = None, validate_args: bool = False) -> Any:
    return jnp.linalg.matrix_rank(a, tol)


def norm(
    tensor: Array, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None
) -> Any:
    where = axes(axis)
    if ord in ("euclidean", "fro", 2, 2.0) and not isinstance(where, tuple):
        kept = bool(keepdims)
        return jnp.sqrt(jnp.sum(jnp.square(jnp.abs(tensor)), where, keepdims=kept))
    kind = {"euclidean": "fro"}.get(ord, ord)
    if where is None:
        tensor, where = tensor.reshape(-1), 0
    return jnp.linalg.norm(tensor, kind, where, bool(keepdims))


def normalize(
    tensor: Array, ord: Any = "euclidean", axis: Any = None
) -> tuple[Any, Any]:
    size = norm(tensor, ord, axis, keepdims=True)
    return tensor / size, size


def global_norm(t_list: Any) -> Any:
    squares = [jnp.sum(jnp.square(tensor(t))) for t in t_list if t is not None]
    return jnp.sqrt(sum(squares[1:], start=squares[0]))


def diag(
    diagonal: Array,
    name: str = "diag",
    k: int = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    make = jnp.vectorize(lambda row: jnp.diag(row, k), signature="(n)->(m,m)")
    return make(diagonal)


def diag_part(
    input: Array,
    name: str = "diag_part",
    k: int = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    return jnp.diagonal(input, k, -2, -1)


def tensor_diag(diagonal: Array) -> Any:
    return jnp.diag(diagonal.reshape(-1)).reshape(diagonal.shape * 2)


def tensor_diag_part(input: Array) -> Any:
    shape = input.shape[: input.ndim // 2]
    size = math.prod(shape)
    return jnp.diagonal(input.reshape(size, size)).reshape(shape)


def set_diag(
    input: Array,
    diagonal: Array,
    name: str = "set_diag",
    k: int = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    rows = jnp.arange(diagonal.shape[-1]) + max(-k, 0)
    return input.at[..., rows, rows + k].set(diagonal)


def band_part(input: Array, num_lower: int, num_upper: int) -> Any:
    above = jnp.triu(input, -num_lower) if num_lower >= 0 else input
    return jnp.tril(above, num_upper) if num_upper >= 0 else above


operations(globals())
