"""`tf.debugging`: assertions; in compiled code they are checked at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.errors import InvalidArgumentError
from mirrax.tf.missing_names import names_of
from mirrax.tf.tensors.tensor import is_traced, operands, tensor


def Assert(  # noqa: N802 - TensorFlow's name
    condition: Any, data: Any, summarize: Any = None, name: Any = None
) -> None:
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
    def check(
        x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None
    ) -> None:
        left, right = operands(x, y)
        _require(function(left, right), message, f"Expected x {words} y", left, right)

    return check


def _against_zero(
    function: Callable[[Any, Any], Any], words: str
) -> Callable[..., None]:
    def check(
        x: Any, message: Any = None, summarize: Any = None, name: Any = None
    ) -> None:
        array = tensor(x)
        _require(function(array, 0), message, f"Expected x {words} 0", array)

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


def assert_all_finite(x: Any, message: Any, name: Any = None) -> Any:
    array = tensor(x)
    _require(jnp.isfinite(array), message, "Expected finite values", array)
    return array


def check_numerics(tensor: Any, message: Any, name: Any = None) -> Any:
    return assert_all_finite(tensor, message)


# Shapes and dtypes are checked at once, also while code is traced.


def assert_rank(x: Any, rank: int, message: Any = None, name: Any = None) -> None:
    _require_known(tensor(x).ndim == rank, message, f"rank {rank}", tensor(x))


def assert_rank_at_least(
    x: Any, rank: int, message: Any = None, name: Any = None
) -> None:
    found = tensor(x)
    _require_known(found.ndim >= rank, message, f"a rank of at least {rank}", found)


def assert_rank_in(x: Any, ranks: Any, message: Any = None, name: Any = None) -> None:
    found = tensor(x)
    _require_known(found.ndim in ranks, message, f"a rank in {ranks}", found)


def set_log_device_placement(enabled: bool) -> None:
    """Does nothing: `array.devices()` returns where an array is."""


def get_log_device_placement() -> bool:
    return False


def _require_known(holds: bool, message: Any, rule: str, found: Any) -> None:
    if not holds:
        text = f"{message}: " if message else ""
        raise ValueError(f"{text}Expected {rule}. Received: shape {found.shape}.")


_tensor = tensor

__getattr__ = names_of("tf.debugging")
