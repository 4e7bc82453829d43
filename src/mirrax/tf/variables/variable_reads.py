"""The results of reading a variable: arrays that know their variable."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

import mirrax
from mirrax.tf.errors import InvalidArgumentError


class VariableRead(mirrax.ArrayLike):
    """An array that was read from a variable; behaves like the array it wraps.

    Args:
        array: The array.
        variable: The variable.
    """

    __slots__ = ("_array", "_variable")

    def __init__(self, array: jax.Array, variable: Any) -> None:
        self._array = array
        self._variable = variable

    @override
    def __jax_array__(self) -> jax.Array:
        return self._array

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._array, name)

    def __repr__(self) -> str:
        return repr(self._array)

    def __str__(self) -> str:
        return str(self._array)


class VariableValue(VariableRead):
    """`variable.value`, which can also be called: `variable.value()`."""

    __slots__ = ()

    def __call__(self, do_not_use: Any = None) -> jax.Array:
        return self._array


class VariableSlice(VariableRead):
    """`variable[key]`: a slice of a variable, with `assign`.

    Args:
        array: The array.
        variable: The variable.
        key: The index of the slice.
    """

    __slots__ = ("_key",)

    def __init__(self, array: jax.Array, variable: Any, key: Any) -> None:
        super().__init__(array, variable)
        self._key = key

    def assign(self, value: Any, name: Any = None, read_value: bool = True) -> Any:
        """Assigns to this slice; returns the result of `variable.assign`."""
        refuse_sum(self._variable, "assign")
        part = self._variable.read_value().at[self._key]
        return self._variable.assign(part.set(self._fitting(value)))

    def _fitting(self, value: Any) -> Any:
        array, shape = jnp.asarray(value), self._array.shape
        try:
            fits = np.broadcast_shapes(array.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise InvalidArgumentError(
                "A value assigned to a slice of a variable must have its shape. "
                f"Received: shape {array.shape} for a slice of shape {shape} of "
                f"'{self._variable.name}'. Reshape it first."
            )
        return array.astype(self._array.dtype)


def refuse_sum(variable: Any, method: str) -> None:
    """Raises where the rows that are kept would be added up over the replicas."""
    context = mirrax.get_replica_context()
    is_one_of_several = context is not None and context.num_replicas_in_sync > 1
    is_distributed = isinstance(variable, mirrax.DistributedValues)
    is_summed = (
        is_distributed
        and variable.aggregation is mirrax.VariableAggregation.SUM
        and variable.synchronization is not mirrax.VariableSynchronization.ON_READ
    )
    if is_one_of_several and is_summed:
        raise NotImplementedError(
            f"`{method}` of some rows of a variable in `run` needs an aggregation that "
            "keeps the other rows. Received: aggregation=SUM for variable "
            f"'{variable.name}'. Use `scatter_add`, ONLY_FIRST_REPLICA or MEAN."
        )


def _flatten(read: VariableRead) -> tuple[tuple[jax.Array], None]:
    return (read.__jax_array__(),), None


def _unflatten(_: None, children: Any) -> Any:
    return children[0]


for _kind in (VariableValue, VariableSlice):
    # JAX functions take them as the arrays they wrap.
    jax.tree_util.register_pytree_node(_kind, _flatten, _unflatten)
