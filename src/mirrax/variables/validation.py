"""Checks the options of a variable, its initial value, and assigned values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from mirrax._jax.arrays import copied, is_stored
from mirrax._jax.traces import evaluated
from mirrax.context import stack
from mirrax.errors import LossyConversion, TracedInitialValue, WrongShape, WrongType
from mirrax.options import VariableAggregation, VariableSynchronization
from mirrax.values.array_like import as_array, is_prng_key, without_weak_type


def require_options(
    aggregation: Any, synchronization: Any, dtype: np.dtype[Any], variable: Any
) -> None:
    """Raises unless the options have the right types and fit the dtype."""
    for name, value, kind in (
        ("aggregation", aggregation, VariableAggregation),
        ("synchronization", synchronization, VariableSynchronization),
    ):
        if not isinstance(value, kind):
            raise ValueError(
                f"Invalid variable {name} mode: {value} for variable: {variable}. "
                f"`{name}` of a variable must be a `{kind.__name__}`. Received: "
                f"{name}={value!r}. Use one of {', '.join(map(str, kind))}."
            )
    if aggregation is VariableAggregation.MEAN and not jnp.issubdtype(
        dtype, jnp.inexact
    ):
        raise ValueError(
            "The mean of integers is not an integer, so `aggregation=MEAN` needs a "
            f"floating-point variable. Received: dtype={dtype}. Use SUM or "
            "ONLY_FIRST_REPLICA, or a floating-point dtype."
        )
    if aggregation is VariableAggregation.SUM and dtype == np.bool_:
        raise ValueError(
            "The sum of booleans is not a boolean, so `aggregation=SUM` needs a "
            f"numeric variable. Received: dtype={dtype}. Use ONLY_FIRST_REPLICA, or an "
            "integer dtype."
        )


@dataclasses.dataclass(frozen=True)
class OwnArray:
    """An initial value that nobody else holds, so the variable need not copy it."""

    array: jax.Array


def initial_array(initial_value: Any, dtype: Any) -> jax.Array:
    """Returns the array that a variable starts with."""
    if isinstance(initial_value, OwnArray):
        return initial_value.array
    if callable(initial_value):
        initial_value = _called(initial_value)
    with jax.ensure_compile_time_eval():
        value = as_array(initial_value)
    if value is None:
        raise ValueError(
            "A variable needs an initial value: an array, a number or a callable that "
            "returns one. Received: None."
        )
    if isinstance(value, jax.core.Tracer):
        _refuse(f"a traced value of shape {value.shape}")
    with jax.ensure_compile_time_eval():
        wanted = None if dtype is None else jax.dtypes.canonicalize_dtype(dtype)
        if wanted is not None:
            _require_safe(value, wanted)
        # With a weak type, assignments could change the dtype of the variable.
        return without_weak_type(new_array(value, wanted))


def new_array(value: Any, dtype: Any = None) -> jax.Array:
    """Returns a copy of `value` as an array, for a variable that may be donated.

    Where possible without `jnp.array`, which compiles a copy for each shape.
    """
    array: jax.Array
    is_local = is_stored(value) and value.is_fully_addressable
    # `device_put` does not copy keys that lie on several devices.
    if is_local and not is_prng_key(value) and dtype in (None, value.dtype):
        array = jax.device_put(value, may_alias=False)
    elif isinstance(value, np.ndarray):
        # `jnp.array` may read the memory later, when the user has changed it.
        kind: Any = jax.dtypes.canonicalize_dtype(dtype or value.dtype)
        array = copied(np.asarray(value, kind), _default_device())
    else:
        array = jnp.array(value, dtype=dtype, copy=True)
    return array


def _default_device() -> jax.Device:
    config: Any = jax.config
    device = config.jax_default_device
    if isinstance(device, jax.Device):
        return device
    return jax.local_devices(backend=device)[0]


def _called(initial_value: Callable[[], Any]) -> Any:
    """Calls an initializer outside the current trace.

    It may read and write other variables, such as the state of a generator.
    """
    try:
        with stack.overlaid(None), evaluated():
            return initial_value()
    except jax.errors.UnexpectedTracerError:
        return _refuse("a callable that uses a traced value")


def _refuse(received: str) -> NoReturn:
    raise TracedInitialValue(
        "The initial value of a variable must not be traced, even if a traced function "
        f"creates it. Received: {received}. Pass a callable, as in "
        "`Variable(lambda: jnp.zeros(3))`, or create the variable outside the function."
    )


def fitting(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Any:
    """Returns `value` as an array for a variable of this shape and dtype, or raises."""
    value = as_array(value)
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        _require_keys(value, dtype, name)
    elif isinstance(value, jax.Array):
        found: Any = jax.dtypes.canonicalize_dtype(value.dtype, True)
        is_weak = value.aval.weak_type
        if found != dtype and not (is_weak and _is_safe(found, dtype)):
            raise ValueError(
                f"Variable '{name}' has the fixed dtype {dtype}. Received: a value "
                f"of dtype {value.dtype}. Convert it with `.astype({str(dtype)!r})`."
            )
    else:
        if value is None:
            raise WrongType(
                "A variable is assigned arrays or numbers. Received: None for variable "
                f"'{name}'. Does a function lack its `return`, or is the value a "
                "gradient of something that does not depend on the variable?"
            )
        plain = np.asarray(value)
        if not _is_safe(plain.dtype, dtype) or not _is_in_range(plain, dtype):
            raise LossyConversion(
                f"Variable '{name}' has the fixed dtype {dtype}. Received: {value!r}, "
                "which does not convert without loss. Convert it first: "
                f"`np.asarray(value).astype({str(dtype)!r})`."
            )
        value = plain.astype(dtype)
    if value.shape != shape:
        raise WrongShape(
            f"Variable '{name}' has the fixed shape {shape}. Received: a value of "
            f"shape {value.shape}. Reshape or broadcast it first."
        )
    return value if value.dtype == dtype else jnp.asarray(value, dtype)


def _require_safe(value: Any, wanted: np.dtype[Any]) -> None:
    found = value.dtype if isinstance(value, jax.Array) else np.asarray(value).dtype
    if not jnp.issubdtype(found, jnp.number) or _is_safe(found, wanted):
        return
    # The classes that TensorFlow raises.
    kind = ValueError if isinstance(value, jax.Array) else LossyConversion
    raise kind(
        f"The initial value of a variable must convert to its dtype without loss. "
        f"Received: {value!r} for dtype={wanted}. Convert it first with "
        f"`jnp.asarray(value).astype({str(wanted)!r})`."
    )


def _require_keys(value: Any, dtype: Any, name: str) -> None:
    if not isinstance(value, jax.Array) or value.dtype != dtype:
        raise ValueError(
            f"Variable '{name}' holds random keys of dtype {dtype}. Received: "
            f"{value!r}. Assign keys, as `jax.random.split` returns them, or wrap "
            "their data with `jax.random.wrap_key_data`."
        )


def _is_in_range(value: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> bool:
    if value.dtype.kind not in "iu" or not jnp.issubdtype(wanted, jnp.integer):
        return True
    limits = np.iinfo(wanted)
    return bool(np.all((value >= limits.min) & (value <= limits.max)))


def _is_safe(found: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    rank = next(i for i, kind in enumerate(kinds) if jnp.issubdtype(wanted, kind))
    return any(jnp.issubdtype(found, kind) for kind in kinds[: rank + 1])
