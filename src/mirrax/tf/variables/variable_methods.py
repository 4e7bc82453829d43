"""Mirrax variables with the additional methods of TensorFlow's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.errors import InvalidArgumentError, WrongShape
from mirrax.tf.errors import OutOfRangeError
from mirrax.tf.functions.python_functions import inside_function
from mirrax.tf.tensors.indexed_slices import IndexedSlices
from mirrax.tf.tensors.indexing import gather, gather_nd, keys_of
from mirrax.tf.tensors.tensor import dtype_of_numbers, tensor
from mirrax.tf.tensors.tensor_shape import TensorShape
from mirrax.tf.variables.variable_reads import VariableSlice, VariableValue, refuse_sum

_COMBINING = (mirrax.VariableAggregation.SUM, mirrax.VariableAggregation.MEAN)


def make_variable(
    initial_value: Any, dtype: Any = None, constraint: Any = None, **kwargs: Any
) -> Any:
    """Returns a new Mirrax variable with TensorFlow's methods.

    Args:
        initial_value: A value, or a function that returns it.
        dtype: The dtype, if it differs from that of the initial value.
        constraint: A function of the value, which optimizers apply to each new value.
        kwargs: Other arguments of `mirrax.Variable`.
    """
    if constraint is not None and not callable(constraint):
        raise ValueError(
            "`constraint` is a function that returns the nearest value that is allowed."
            f" Received: {constraint!r}. Pass for example `tf.nn.relu`."
        )
    kind = dtype_of_numbers(initial_value) if dtype is None else dtype
    made = with_methods(mirrax.Variable(initial_value, dtype=kind, **kwargs))
    if constraint is not None:
        made._constraint = constraint
    return made


def with_methods(variable: Any) -> Any:
    """Adds TensorFlow's methods to a Mirrax variable in place, and returns it.

    It remains an instance of its former class.
    """
    if isinstance(variable, mirrax.Variable) and not isinstance(variable, _Methods):
        variable.__class__ = _kind(type(variable))
    return variable


@functools.cache
def _kind(base: type) -> type:
    namespace = {"__slots__": (), "__doc__": base.__doc__, "__module__": __name__}
    made = type(base)(base.__name__, (_Methods, base), namespace)
    jax.tree_util.register_pytree_node(made, _flatten, _unflatten)
    return made


def _flatten(variable: Any) -> tuple[tuple[jax.Array], None]:
    return (variable.read_value(),), None


def _unflatten(_: None, children: Any) -> Any:
    return children[0]


def _scaling(method: str, update: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Returns a method that multiplies or divides rows by those of all replicas."""
    replace = _replacing(method, update)

    def scatter(
        self: Any, sparse_delta: Any, use_locking: Any = False, name: Any = None
    ) -> Any:
        context = mirrax.get_replica_context()
        aggregation = getattr(self, "aggregation", None)
        if context is None or aggregation not in _COMBINING:
            return replace(self, sparse_delta)
        slices = _require_slices(self, method, sparse_delta)
        values, indices = (
            context.all_gather(tensor(x), axis=0)
            for x in (slices.values, slices.indices)
        )
        if aggregation is mirrax.VariableAggregation.MEAN:
            values = values / context.num_replicas_in_sync
        changed = update(self.read_value(), indices, values)
        if aggregation is mirrax.VariableAggregation.SUM:
            # All replicas have the same result: one of them contributes to the sum.
            is_first = context.replica_id_in_sync_group == 0
            changed = jnp.where(is_first, changed, jnp.zeros_like(changed))
        return self.assign(changed)

    return scatter


def _replacing(
    method: str, update: Callable[[Any, Any, Any], Any]
) -> Callable[..., Any]:
    """Returns a method that changes rows of a variable."""

    def scatter(
        self: Any, sparse_delta: Any, use_locking: Any = False, name: Any = None
    ) -> Any:
        slices = _require_slices(self, method, sparse_delta)
        is_distributed = isinstance(self, mirrax.DistributedValues)
        if is_distributed and self.aggregation in _COMBINING:
            raise NotImplementedError(
                f"`{method}` replaces rows, and rows of several replicas have no sum "
                f"or mean. Received: aggregation={self.aggregation.name} for variable "
                f"'{self.name}'. Use `scatter_add`, or ONLY_FIRST_REPLICA."
            )
        indices, values = tensor(slices.indices), tensor(slices.values)
        return self.assign(update(self.read_value(), indices, values))

    return scatter


def _divided(value: Any, indices: Any, divisors: Any) -> Any:
    """Returns an array with some rows divided; integers are rounded towards zero."""
    factors = jnp.ones_like(value).at[indices].mul(divisors)
    return jax.lax.div(value, factors)


def _updated(update: Callable[[Any], Any], delta: Any) -> Any:
    try:
        return update(delta)
    except WrongShape as error:
        # TensorFlow finds it in the kernel; while it traces, from the shapes.
        if inside_function():
            raise
        raise InvalidArgumentError(str(error)) from None


class _Methods:
    """A mix-in for the classes of variables."""

    __slots__ = ()

    shown_as = "tf.Variable"

    @property
    def shape(self) -> Any:
        """The sizes, as a `TensorShape`."""
        return TensorShape(super().shape)  # type: ignore[misc]

    def get_shape(self) -> Any:
        return self.shape

    @property
    def value(self) -> Any:
        """The array; TensorFlow programs call it, JAX programs do not."""
        return VariableValue(self.read_value(), self)

    def read_value(self) -> Any:
        return super().value  # type: ignore[misc]

    def __jax_array__(self) -> Any:
        return self.read_value()

    # There is nothing to lock or to name.
    def assign(
        self,
        value: Any,
        use_locking: Any = None,
        name: Any = None,
        read_value: Any = True,
    ) -> Any:
        written = super().assign(value)  # type: ignore[misc]
        return written if read_value else None

    def assign_add(
        self,
        delta: Any,
        use_locking: Any = None,
        name: Any = None,
        read_value: Any = True,
    ) -> Any:
        written = _updated(super().assign_add, delta)  # type: ignore[misc]
        return written if read_value else None

    def assign_sub(
        self,
        delta: Any,
        use_locking: Any = None,
        name: Any = None,
        read_value: Any = True,
    ) -> Any:
        written = _updated(super().assign_sub, delta)  # type: ignore[misc]
        return written if read_value else None

    def __getitem__(self, key: Any) -> Any:
        return VariableSlice(self.read_value()[key], self, key)

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        """What optimizers apply to each new value; None if there is nothing."""
        return getattr(self, "_constraint", None)

    @property
    def initializer(self) -> None:
        """None: variables are initialized when they are created."""
        return None

    @property
    def handle(self) -> Any:
        """The variable itself: there are no resources of a graph."""
        return self

    @property
    def distribute_strategy(self: Any) -> Any:
        """The strategy of the scope in which the variable was created."""
        return self.owner

    def load(self: Any, value: Any, session: Any = None) -> None:
        """Assigns a value."""
        self.assign(value)

    def eval(self, session: Any = None) -> Any:
        """Returns the value as a NumPy array."""
        return np.asarray(self.read_value())

    def count_up_to(self: Any, limit: Any) -> Any:
        """Adds 1 and returns the value before; raises at the limit."""
        before = self.read_value()
        if int(before) >= int(limit):
            raise OutOfRangeError(
                f"`count_up_to` counts up to its limit. Received: limit={limit} for "
                f"variable '{self.name}', which is {int(before)}."
            )
        self.assign_add(1)
        return before

    def initialized_value(self) -> Any:
        return self.read_value()

    def is_initialized(self, name: Any = None) -> Any:
        return jnp.asarray(True)

    def experimental_ref(self: Any) -> Any:
        return self.ref()

    def set_shape(self: Any, shape: Any) -> None:
        """Raises unless the variable has this shape."""
        self.shape.assert_is_compatible_with(shape)

    def sparse_read(self, indices: Any, name: Any = None) -> Any:
        """Returns the rows at these indices."""
        return gather(self.read_value(), indices)

    def gather_nd(self, indices: Any, name: Any = None) -> Any:
        return gather_nd(self.read_value(), indices)

    def scatter_add(
        self: Any, sparse_delta: Any, use_locking: Any = False, name: Any = None
    ) -> Any:
        """Adds rows; with aggregation SUM, those of all replicas are summed."""
        return self.assign_add(_rows(self, "scatter_add", sparse_delta))

    def scatter_sub(
        self: Any, sparse_delta: Any, use_locking: Any = False, name: Any = None
    ) -> Any:
        return self.assign_sub(_rows(self, "scatter_sub", sparse_delta))

    scatter_update = _replacing("scatter_update", lambda v, at, x: v.at[at].set(x))
    scatter_max = _replacing("scatter_max", lambda v, at, x: v.at[at].max(x))
    scatter_min = _replacing("scatter_min", lambda v, at, x: v.at[at].min(x))
    scatter_mul = _scaling("scatter_mul", lambda v, at, x: v.at[at].mul(x))
    scatter_div = _scaling("scatter_div", _divided)

    def batch_scatter_update(
        self: Any, sparse_delta: Any, use_locking: Any = False, name: Any = None
    ) -> Any:
        """Replaces elements of each row of a batch."""
        delta = _require_slices(self, "batch_scatter_update", sparse_delta)
        refuse_sum(self, "batch_scatter_update")
        indices = tensor(delta.indices)
        change: Any = lambda row, at, x: row.at[at].set(x)  # noqa: E731
        for _ in range(indices.ndim - 1):
            change = jax.vmap(change)
        return self.assign(change(self.read_value(), indices, tensor(delta.values)))

    def scatter_nd_add(self: Any, indices: Any, updates: Any, name: Any = None) -> Any:
        return self.assign(_at(self, indices, "scatter_nd_add").add(tensor(updates)))

    def scatter_nd_sub(self: Any, indices: Any, updates: Any, name: Any = None) -> Any:
        return self.assign(_at(self, indices, "scatter_nd_sub").add(-tensor(updates)))

    def scatter_nd_update(
        self: Any, indices: Any, updates: Any, name: Any = None
    ) -> Any:
        return self.assign(_at(self, indices, "scatter_nd_update").set(tensor(updates)))


def _at(variable: Any, indices: Any, method: str) -> Any:
    refuse_sum(variable, method)
    return variable.read_value().at[keys_of(tensor(indices))]


def _rows(variable: Any, method: str, delta: Any) -> Any:
    slices = _require_slices(variable, method, delta)
    zeros = jnp.zeros(variable.shape, variable.dtype)
    return zeros.at[tensor(slices.indices)].add(tensor(slices.values))


def _require_slices(variable: Any, method: str, delta: Any) -> IndexedSlices:
    if variable.synchronization is mirrax.VariableSynchronization.ON_READ:
        raise NotImplementedError(
            f"`{method}` needs a variable that is synchronized on write. Received: "
            f"'{variable.name}' with ON_READ. Use `assign_add` of an array."
        )
    if not isinstance(delta, IndexedSlices):
        raise TypeError(
            f"`{method}` takes `tf.IndexedSlices(values, indices)`. Received: "
            f"{delta!r}."
        )
    return delta
