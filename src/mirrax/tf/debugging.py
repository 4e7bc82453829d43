"""`tf.debugging`: assertions; in compiled code they are checked at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.dtypes import limits
from mirrax.tf.errors import InvalidArgumentError
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.tensor import is_traced, operands, tensor


def Assert(condition: Any, data: Any, summarize: Any = None) -> None:  # noqa: N802 - TensorFlow's name
    """Raises with `data` unless the condition holds."""
    _require(condition, "", "Expected a condition to hold", *data)


def _require(condition: Any, message: Any, rule: str, *values: Any) -> None:
    def check(holds: Any, *shown: Any) -> None:
        if not np.all(holds):
            text = ", ".join(str(np.asarray(value)) for value in shown)
            raise InvalidArgumentError(
                f"{message + ': ' if message else ''}{rule}. Received: {text}."
            )

    if is_traced([condition, *values]):
        jax.debug.callback(check, condition, *[tensor(value) for value in values])
    else:
        check(condition, *values)


def _comparison(function: Callable[[Any, Any], Any], words: str) -> Callable[..., None]:
    def check(x: Any, y: Any, message: Any = None, summarize: Any = None) -> None:
        left, right = operands(x, y)
        _require(function(left, right), message, f"Expected x {words} y", left, right)

    return check


def _against_zero(
    function: Callable[[Any, Any], Any], words: str
) -> Callable[..., None]:
    def check(x: Array, message: Any = None, summarize: Any = None) -> None:
        _require(function(x, 0), message, f"Expected x {words} 0", x)

    return check


assert_equal = _comparison(jnp.equal, "==")
assert_none_equal = _comparison(jnp.not_equal, "!=")
assert_greater = _comparison(jnp.greater, ">")
assert_greater_equal = _comparison(jnp.greater_equal, ">=")
assert_less = _comparison(jnp.less, "<")
assert_less_equal = _comparison(jnp.less_equal, "<=")
assert_positive = _against_zero(jnp.greater, ">")
assert_negative = _against_zero(jnp.less, "<")
assert_non_negative = _against_zero(jnp.greater_equal, ">=")
assert_non_positive = _against_zero(jnp.less_equal, "<=")


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: Any = None,
    summarize: Any = None,
) -> None:
    left, right = operands(x, y)
    tolerance = 10 * float(limits(tensor(left).dtype).eps)
    rtol, atol = (tolerance if x is None else x for x in (rtol, atol))
    near = jnp.isclose(left, right, rtol, atol)
    _require(near, message, "Expected x and y to be near", left, right)


def assert_all_finite(x: Array, message: Any) -> Any:
    _require(jnp.isfinite(x), message, "Expected finite values", x)
    return x


def check_numerics(tensor: Any, message: Any) -> Any:
    return assert_all_finite(tensor, message)


# Shapes and dtypes are checked at once, also while code is traced.


def assert_rank(x: Array, rank: int, message: Any = None) -> None:
    _require_known(x.ndim == rank, message, f"rank {rank}", x)


def assert_rank_at_least(x: Array, rank: int, message: Any = None) -> None:
    _require_known(x.ndim >= rank, message, f"a rank of at least {rank}", x)


def assert_rank_in(x: Array, ranks: Any, message: Any = None) -> None:
    _require_known(x.ndim in ranks, message, f"a rank in {ranks}", x)


def set_log_device_placement(enabled: bool) -> None:
    """Does nothing: `array.devices()` returns where an array is."""


def get_log_device_placement() -> bool:
    return False


def assert_scalar(tensor: Any, message: Any = None) -> Any:
    assert_rank(tensor, 0, message)
    return tensor


def assert_type(tensor: Array, tf_type: Any, message: Any = None) -> None:
    wanted = jax.dtypes.canonicalize_dtype(tf_type)
    if tensor.dtype != wanted:
        raise TypeError(f"{message or ''} Expected {wanted}. Received: {tensor.dtype}.")


def assert_integer(x: Array, message: Any = None) -> None:
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise TypeError(f"{message or ''} Expected integers. Received: {x.dtype}.")


def assert_shapes(
    shapes: Any, data: Any = None, summarize: Any = None, message: Any = None
) -> None:
    """Raises unless each tensor has its shape; equal letters mean equal sizes."""
    known: dict[Any, int] = {}
    for value, symbols in shapes.items() if hasattr(shapes, "items") else shapes:
        found = tensor(value)
        wanted = list(symbols) if not isinstance(symbols, int) else [symbols]
        _require_known(len(wanted) == found.ndim, message, f"shape {wanted}", found)
        for symbol, size in zip(wanted, found.shape, strict=True):
            is_name = isinstance(symbol, str) and not symbol.isdigit()
            expected = known.setdefault(symbol, size) if is_name else symbol
            is_free = symbol in (None, ".", "*")
            fits = is_free or int(expected) == size
            _require_known(fits, message, f"shape {wanted}", found)


def is_numeric_tensor(tensor: Any) -> bool:
    return isinstance(tensor, jax.Array) and tensor.dtype != bool


def _require_known(holds: bool, message: Any, rule: str, found: Any) -> None:
    if not holds:
        text = f"{message}: " if message else ""
        raise ValueError(f"{text}Expected {rule}. Received: shape {found.shape}.")


operations(globals())
