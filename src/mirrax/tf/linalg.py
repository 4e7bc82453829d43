"""`tf.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as scipy_linalg
from jax import lax

from mirrax.tf.math.reductions import l2_normalize as l2_normalize
from mirrax.tf.missing_names import names_of
from mirrax.tf.tensors.creation import eye as eye
from mirrax.tf.tensors.tensor import axes, of_one, of_two, tensor

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
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: Any = None,
) -> Any:
    left = _turned(tensor(a), transpose_a, adjoint_a)
    right = _turned(tensor(b), transpose_b, adjoint_b)
    return jnp.matmul(left, right, preferred_element_type=output_type)


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: Any = None,
) -> Any:
    return (_turned(tensor(a), transpose_a, adjoint_a) @ tensor(b)[..., None])[..., 0]


def _turned(matrix: Any, transpose: bool, adjoint: bool) -> Any:
    if not (transpose or adjoint):
        return matrix
    turned = jnp.swapaxes(matrix, -1, -2)
    return jnp.conj(turned) if adjoint else turned


def matrix_transpose(a: Any, name: Any = None, conjugate: bool = False) -> Any:
    return _turned(tensor(a), True, conjugate)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Any:
    return jnp.einsum(equation, *[tensor(value) for value in inputs])


def tensordot(a: Any, b: Any, axes: Any, name: Any = None) -> Any:
    return jnp.tensordot(tensor(a), tensor(b), axes)


def inv(input: Any, adjoint: bool = False, name: Any = None) -> Any:
    return jnp.linalg.inv(_turned(tensor(input), adjoint, adjoint))


def pinv(
    a: Any, rcond: Any = None, validate_args: bool = False, name: Any = None
) -> Any:
    return jnp.linalg.pinv(tensor(a), rtol=rcond)


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: Any = None) -> Any:
    return jnp.linalg.solve(_turned(tensor(matrix), adjoint, adjoint), tensor(rhs))


def triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: Any = None
) -> Any:
    return lax.linalg.triangular_solve(
        tensor(matrix),
        tensor(rhs),
        left_side=True,
        lower=lower,
        transpose_a=adjoint,
        conjugate_a=adjoint,
    )


def cholesky_solve(chol: Any, rhs: Any, name: Any = None) -> Any:
    return scipy_linalg.cho_solve((tensor(chol), True), tensor(rhs))


def lstsq(
    matrix: Any,
    rhs: Any,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: Any = None,
) -> Any:
    matrix, rhs = tensor(matrix), tensor(rhs)
    turned = jnp.swapaxes(matrix, -1, -2)
    square = turned @ matrix + l2_regularizer * jnp.eye(matrix.shape[-1])
    return jnp.linalg.solve(square, turned @ rhs)


def eigh(tensor: Any, name: Any = None) -> tuple[Any, Any]:
    values, vectors = jnp.linalg.eigh(_tensor(tensor))
    return values, vectors


def qr(input: Any, full_matrices: bool = False, name: Any = None) -> Any:
    mode = "complete" if full_matrices else "reduced"
    return jnp.linalg.qr(tensor(input), mode=mode)


def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: Any = None
) -> Any:
    array = _tensor(tensor)
    if not compute_uv:
        return jnp.linalg.svd(array, full_matrices, compute_uv=False)
    u, s, vh = jnp.linalg.svd(array, full_matrices)
    return s, u, _turned(vh, False, True)


def matrix_rank(
    a: Any, tol: Any = None, validate_args: bool = False, name: Any = None
) -> Any:
    return jnp.linalg.matrix_rank(tensor(a), tol)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: Any = None,
    name: Any = None,
) -> Any:
    array, where = _tensor(tensor), axes(axis)
    if ord in ("euclidean", "fro", 2, 2.0) and not isinstance(where, tuple):
        kept = bool(keepdims)
        return jnp.sqrt(jnp.sum(jnp.square(jnp.abs(array)), where, keepdims=kept))
    kind = {"euclidean": "fro"}.get(ord, ord)
    if where is None:
        array, where = array.reshape(-1), 0
    return jnp.linalg.norm(array, kind, where, bool(keepdims))


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: Any = None
) -> tuple[Any, Any]:
    size = norm(tensor, ord, axis, keepdims=True)
    return _tensor(tensor) / size, size


def global_norm(t_list: Any, name: Any = None) -> Any:
    squares = [jnp.sum(jnp.square(tensor(t))) for t in t_list if t is not None]
    return jnp.sqrt(sum(squares[1:], start=squares[0]))


def diag(
    diagonal: Any,
    name: str = "diag",
    k: int = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    make: Callable[[Any], Any] = lambda row: jnp.diag(row, k)  # noqa: E731
    array = tensor(diagonal)
    for _ in range(array.ndim - 1):
        make = jax.vmap(make)
    return make(array)


def diag_part(
    input: Any,
    name: str = "diag_part",
    k: int = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    return jnp.diagonal(tensor(input), k, -2, -1)


def tensor_diag(diagonal: Any, name: Any = None) -> Any:
    array = tensor(diagonal)
    return jnp.diag(array.reshape(-1)).reshape(array.shape * 2)


def tensor_diag_part(input: Any, name: Any = None) -> Any:
    array = tensor(input)
    shape = array.shape[: array.ndim // 2]
    size = 1
    for length in shape:
        size *= length
    return jnp.diagonal(array.reshape(size, size)).reshape(shape)


def set_diag(
    input: Any,
    diagonal: Any,
    name: str = "set_diag",
    k: int = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    array, line = tensor(input), tensor(diagonal)
    rows = jnp.arange(line.shape[-1]) + max(-k, 0)
    return array.at[..., rows, rows + k].set(line)


def band_part(input: Any, num_lower: int, num_upper: int, name: Any = None) -> Any:
    array = tensor(input)
    rows = jnp.arange(array.shape[-2])[:, None]
    columns = jnp.arange(array.shape[-1])[None]
    is_kept = jnp.ones(array.shape[-2:], bool)
    if num_lower >= 0:
        is_kept &= rows - columns <= num_lower
    if num_upper >= 0:
        is_kept &= columns - rows <= num_upper
    return jnp.where(is_kept, array, 0)


_tensor = tensor

__getattr__ = names_of("tf.linalg")
