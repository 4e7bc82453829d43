"""`Variable`: the plain variable, and the base of all others."""

from __future__ import annotations

import abc
import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from mirrax._jax.arrays import shards, uncommitted, view, whole
from mirrax._jax.traces import evaluated, is_eager, is_staging
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.context import stack
from mirrax.devices.logical_devices import name_of
from mirrax.options import VariableAggregation, VariableSynchronization
from mirrax.trees import IdentityKey, Leaf
from mirrax.values.array_like import ArrayLike, on_host
from mirrax.values.distributed_values import html_parts
from mirrax.values.layouts import to_device
from mirrax.variables import aliasing, creator_scope, validation
from mirrax.variables.array_storage import Stored
from mirrax.variables.out_of_memory import LESS_TEMPORARY, SHARD_STATE, advise

Change = Callable[[Any, Any], Any]
"""How a written value updates the variable: (old, given) -> new."""


class VariableType(abc.ABCMeta):
    """Lets the strategy in force choose the class that `Variable(...)` creates."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Variable:
            return creator_scope.create(super().__call__, *args, **kwargs)
        return super().__call__(*args, **kwargs)


class Variable(ArrayLike, Stored, Leaf, metaclass=VariableType):
    """An array that can be assigned, stored on the devices of a strategy.

    Inside `strategy.scope()` this creates the class that the strategy needs, such as a
    `MirroredVariable`. Elsewhere it creates a plain variable.

    Args:
        initial_value: An array, a number, or a callable that returns one.
        trainable: Whether optimizers should change it; true by default, unless it is
            synchronized on read.
        name: Its name in errors and checkpoints.
        dtype: The dtype, if it differs from that of the initial value.
        aggregation: How writes from several replicas become one.
        synchronization: When the copies are synchronized.
        sharded: Whether each replica stores only a part of it; by default as the
            `shard_state` of the strategy says. Ignored outside of strategies.
        owner: The strategy that it belongs to; set by strategies.
        device: The device that stores it; set by strategies.

    >>> v = Variable([1.0, 2.0])
    >>> v.assign_add([1.0, 1.0])
    <mirrax.Variable 'Variable:0' shape=(2,) dtype=float32, numpy=array([2., 3.], ...)>
    """

    shown_as = "mirrax.Variable"
    """The name of its type when it is printed."""

    # Whether the replicas of an eager `run` synchronize for each write.
    is_written_together = False

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        sharded: bool | None = None,
        owner: Any = None,
        device: jax.Device | None = None,
    ) -> None:
        with contextlib.nullcontext() if device is None else jax.default_device(device):
            array = validation.initial_array(initial_value, dtype)
        validation.require_options(
            aggregation, synchronization, array.dtype, name or "Variable"
        )
        is_on_read = synchronization is VariableSynchronization.ON_READ
        self._name = name or "Variable"
        self._trainable = not is_on_read if trainable is None else trainable
        self._aggregation = aggregation
        self._synchronization = synchronization
        self._shape, self._dtype = array.shape, array.dtype
        self.owner = owner
        self._slot = [None], 0
        # Created eagerly, even while a function is traced.
        with jax.ensure_compile_time_eval():
            if device is not None:
                array = to_device(array, device)
            self.store(self._store_initial(array))

    @property
    def name(self) -> str:
        """Its name, with TensorFlow's suffix `:0`."""
        return f"{self._name}:0"

    @property
    def shared_name(self) -> str:
        """A name that is the same on all workers."""
        return self.name

    @property
    def lies_on(self) -> tuple[jax.Device, ...]:
        """The devices that store it."""
        return tuple(self.stored.devices())

    @property
    def trainable(self) -> bool:
        """Whether optimizers should change it."""
        return self._trainable

    @property
    def aggregation(self) -> VariableAggregation:
        """How writes from several replicas become one."""
        return self._aggregation

    @property
    def synchronization(self) -> VariableSynchronization:
        """When the copies are synchronized."""
        return self._synchronization

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self._shape

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return self._dtype

    @property
    def layout(self) -> ShardLayout | None:
        """How its array is cut over the replicas; None if it is whole."""
        return None

    @property
    def device(self) -> str:
        """The name of the device that stores it, or its first copy."""
        return name_of(shards(self.stored)[0].device)

    @property
    def value(self) -> jax.Array:
        """The array, as seen from the current context."""
        overlay = stack.overlay()
        if overlay is not None and overlay.knows(self):
            return overlay.read(self)
        return self.read_stored()

    def read_value(self) -> jax.Array:
        """The array, as seen from the current context."""
        return self.value

    def assign(self, value: Any) -> Any:
        """Replaces the value."""
        return self._change(replace, value)

    def assign_add(self, delta: Any) -> Any:
        """Adds `delta` to the value."""
        return self._change(operator.add, delta)

    def assign_sub(self, delta: Any) -> Any:
        """Subtracts `delta` from the value."""
        return self._change(operator.sub, delta)

    def ref(self) -> Reference:
        """A hashable handle of this variable, for dicts and sets.

        >>> v = Variable(1.0)
        >>> {v.ref(): "mine"}[v.ref()], v.ref().deref() is v
        ('mine', True)
        """
        return Reference(self)

    @override
    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the value in host memory."""
        overlay = stack.overlay()
        if overlay is not None and overlay.knows(self):
            return super().numpy()
        with aliasing.lock:
            return np.array(self.host_view())

    def host_view(self) -> np.ndarray[Any, Any]:
        """The value outside any trace, perhaps in the memory of the variable.

        Hold `aliasing.lock` until it is copied.
        """
        try:
            return np.asarray(self._peek())
        except jax.errors.JaxRuntimeError as error:
            advise(error, [(repr(self.name), self.stored)], SHARD_STATE, LESS_TEMPORARY)
            error.add_note(aliasing.lost_values_note([self.name]))
            raise

    @override
    def __jax_array__(self) -> jax.Array:
        return self.read_value()

    @override
    def __repr__(self) -> str:
        return describe_variable(self, self.read_value())

    def _repr_html_(self) -> str:
        title = f"{type(self).__name__} {self.name}"
        with aliasing.lock:
            return html_parts(title, self._peek_parts())

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(self.__dict__)
        other._slot = [None], 0
        with aliasing.lock:
            other.store(jnp.copy(self._readable()))
        return other

    def __copy__(self) -> Variable:
        return self.__deepcopy__({})

    @override
    def __reduce__(self) -> Any:
        raise TypeError(
            f"Variable '{self.name}' is on devices, so it cannot be pickled. Pickle "
            "`variable.numpy()`, and assign it to a new variable."
        )

    # Used by the engines, and overridden by subclasses.

    def _readable(self) -> jax.Array:
        """Returns the stored array, or raises if it is lost; hold the lock."""
        array = self.stored
        aliasing.require_alive(self, array)
        return array

    def read_stored(self) -> jax.Array:
        """Returns the value outside any trace."""
        self.refuse_read_in_jit()
        return self.shared_view(0)

    def _peek(self) -> jax.Array:
        """Returns the value outside any trace, for the caller to copy at once."""
        return self._shard(0)

    def _peek_parts(self) -> Sequence[Any]:
        """Returns all local copies, for the caller to show under the lock.

        Of a value that only all workers together can read, shape and dtype.
        """
        return [self._peek()]

    def traced_aval(self, inside_replica: bool) -> Any:
        """Returns the shape and dtype of the value inside a trace."""
        return jax.core.ShapedArray(self._shape, self._dtype)

    def refuse_read_in_jit(self) -> None:
        """Raises if JAX would make the current value a constant of a program."""
        if is_staging():
            raise RuntimeError(
                f"Variable '{self.name}' was read inside jax.jit (or scan, cond, ...), "
                "which would make its current value a constant. Use "
                "`@mirrax.function` in place of `jax.jit`, or pass `variable.value` "
                "as an argument."
            )

    def shared_view(self, index: int) -> jax.Array:
        """Returns a view of the stored copy `index`, which the user may keep."""
        with aliasing.lock:
            aliasing.mark_aliased(self)
            return aliasing.track_view(view(self._shard(index)))

    def _shard(self, index: int) -> jax.Array:
        # A compiled function that was given such an array may have cut it.
        return whole(self._readable(), index)

    def _store_initial(self, array: jax.Array) -> jax.Array:
        is_single = len(array.sharding.device_set) == 1
        return array if is_single else uncommitted(whole(array))

    def _fitting(self, given: Any) -> Any:
        self.refuse_write_in_transformation()
        return validation.fitting(given, self._shape, self._dtype, self.name)

    def refuse_write_in_transformation(self) -> None:
        """Raises inside a JAX transformation, which an assigned value cannot leave."""
        if stack.overlay() is None and not is_eager():
            raise RuntimeError(
                f"Variable '{self.name}' was assigned inside a JAX transformation "
                "(jax.grad, jit, scan, cond, vmap, ...), which the value cannot leave. "
                "Use `@mirrax.function` in place of `jax.jit` and "
                "`mirrax.value_and_grad` in place of `jax.grad`, or assign outside."
            )

    def _change(self, change: Change, given: Any) -> Any:
        overlay = stack.overlay()
        if overlay is None or not overlay.writes_at_once:
            return self._write(change, given)
        with stack.overlaid(None), evaluated():
            return self._write(change, given)

    def _write(self, change: Change, given: Any) -> Any:
        given = self._fitting(given)
        frame, overlay = stack.frame(), stack.overlay()
        if overlay is None:
            # Not that of the first part: the user may have donated the old array.
            devices: Any = self.stored.sharding.addressable_devices
            device = min(devices, key=lambda device: device.id)
            with jax.default_device(device):
                given = to_device(given, device)
                with aliasing.lock:
                    old = self.stored if change is replace else self._readable()
                    self.store(change(old, given))
            return self
        if isinstance(frame, stack.Replica) and frame.context.num_replicas_in_sync > 1:
            raise RuntimeError(
                f"Variable '{self.name}' was created outside `strategy.scope()`, so "
                "all replicas share it, and in a compiled `run` they cannot assign it "
                "one after another. Create it inside the scope."
            )
        overlay.write(self, change(overlay.read(self), given))
        return self


class Reference(IdentityKey):
    """A handle that compares equal to others of the same variable."""

    __slots__ = ()

    def deref(self) -> Variable:
        """Returns the variable."""
        return self.value


def describe_variable(variable: Any, value: Any) -> str:
    """Returns the text of a variable or a copy, in the format of TensorFlow."""
    start = f"<{variable.shown_as} '{variable.name}' shape={value.shape}"
    if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct):
        return f"{start} dtype={value.dtype}>"
    array = on_host(value)
    shown = str(array) if array.ndim == 0 else repr(array)
    # Rows of a matrix stand below each other.
    line_break = "\n" if "\n" in shown else ""
    return f"{start} dtype={value.dtype}, numpy={line_break}{shown}>"


def replace(old: Any, given: Any) -> Any:
    """The change of `assign`; copies, because JAX may share memory with `given`."""
    return given if isinstance(given, jax.core.Tracer) else validation.new_array(given)


def register_as_pytree(kind: type[ArrayLike]) -> None:
    """Lets JAX functions take variables of this class as their values."""
    jax.tree_util.register_pytree_node(
        kind,
        lambda variable: ((variable.__jax_array__(),), None),
        lambda _, children: children[0],
    )


register_as_pytree(Variable)
