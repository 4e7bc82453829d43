"""`tf.Variable` and `tf.get_variable`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax import VariableSynchronization as VariableSynchronization
from mirrax.tf.variables.name_scopes import scoped_name
from mirrax.tf.variables.variable_methods import make_variable


class _AggregationType(type):
    """Forwards to `mirrax.VariableAggregation`."""

    def __getattr__(cls, name: str) -> mirrax.VariableAggregation:
        try:
            return mirrax.VariableAggregation[name]
        except KeyError:
            raise AttributeError(
                f"`tf.VariableAggregation` has no {name!r}. Use one of "
                f"{[member.name for member in mirrax.VariableAggregation]}."
            ) from None

    def __iter__(cls) -> Iterator[mirrax.VariableAggregation]:
        return iter(mirrax.VariableAggregation)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, mirrax.VariableAggregation)


class VariableAggregation(metaclass=_AggregationType):
    """`mirrax.VariableAggregation`, with one more name from version 1."""

    ONLY_FIRST_TOWER = mirrax.VariableAggregation.ONLY_FIRST_REPLICA


class _VariableType(type):
    """Creates Mirrax variables, which are all instances of `tf.Variable`."""

    def __call__(
        cls,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        synchronization: VariableSynchronization | None = VariableSynchronization.AUTO,
        aggregation: mirrax.VariableAggregation | None = None,
        shape: Any = None,
    ) -> Any:
        created = make_variable(
            initial_value,
            trainable=trainable,
            name=scoped_name(name or "Variable"),
            dtype=dtype,
            aggregation=aggregation or mirrax.VariableAggregation.NONE,
            synchronization=synchronization or VariableSynchronization.AUTO,
            constraint=constraint,
        )
        if shape is not None and not mirrax.TensorSpec(shape).allows(created.shape):
            raise ValueError(
                "The initial value must have the shape of the variable. Received: "
                f"a value of shape {tuple(created.shape)} for shape={shape}."
            )
        return created

    def __instancecheck__(cls, value: object) -> bool:
        # Each copy of a variable is one, too.
        container = getattr(value, "container", None)
        return isinstance(value, mirrax.Variable) or isinstance(
            container, mirrax.Variable
        )


class Variable(metaclass=_VariableType):
    """`tf.Variable`: creates a `mirrax.Variable`.

    `validate_shape`, `caching_device`, `variable_def` and `import_scope` are ignored;
    `shape` is checked when the variable is created.
    """


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = np.float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: mirrax.VariableAggregation = mirrax.VariableAggregation.NONE,
    constraint: Any = None,
    **_: Any,
) -> Any:
    """Creates a variable; variables are not shared by name.

    Args:
        initializer: A value, a function of shape and dtype, or a class of such
            functions; zeros by default.
    """
    if regularizer is not None:
        raise NotImplementedError(
            "`regularizer` is not supported: there are no collections of losses. "
            f"Received: regularizer={regularizer!r}. Add it to the loss yourself."
        )
    return make_variable(
        _initial_value(shape, dtype, initializer),
        trainable=trainable,
        name=scoped_name(name),
        synchronization=synchronization,
        aggregation=aggregation,
        constraint=constraint,
    )


def _initial_value(shape: Any, dtype: Any, initializer: Any) -> Callable[[], Any] | Any:
    if initializer is not None and not callable(initializer):
        return initializer
    if shape is None:
        raise ValueError(
            "A variable needs a shape or an initial value. Received: neither. Pass "
            "`shape=...` or `initializer=value`."
        )
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    if initializer is None:
        return lambda: jnp.zeros(size, dtype)
    make = initializer() if isinstance(initializer, type) else initializer
    return lambda: make(size, dtype)
