"""Keras inside `strategy.run`: optimizers, losses and seeds across replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from mirrax.collectives.reduce import reduce
from mirrax.context import stack
from mirrax.integrations.keras import hooks, internals, restoring
from mirrax.integrations.keras.variable_hooks import adopt, attach, proxy_of
from mirrax.options import ReduceOp
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of
from mirrax.variables.foreign_variable import Outdated
from mirrax.variables.variable import Variable

_KERAS_VARIABLE = "_keras_variable"


def install() -> None:
    """Makes optimizers, losses and random seeds replica-aware."""
    for optimizer in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
        hooks.wrap(optimizer, "apply", _apply)
    for kind in vars(keras.optimizers).values():
        if isinstance(kind, type) and "build" in vars(kind):
            hooks.wrap(kind, "build", _build)
    hooks.wrap(keras.random.SeedGenerator, "next", _next_seed)
    hooks.wrap(*internals.REDUCE_LOSSES, _reduce)
    hooks.wrap(*internals.SCALE_LOSS, _scale)
    hooks.wrap(*internals.UNSCALE_LOSS, _unscale)


def _build(
    original: Callable[..., None], optimizer: Any, *args: Any, **kwargs: Any
) -> None:
    # Optimizers have different names for this argument.
    (variables,) = (*args, *kwargs.values())
    original(optimizer, _as_keras_variables(variables))


def _apply(
    original: Callable[..., None],
    optimizer: Any,
    grads: Sequence[Any],
    trainable_variables: Sequence[Any] | None = None,
) -> None:
    """Applies the sum of the gradients of all replicas."""
    if trainable_variables is not None:
        trainable_variables = _as_keras_variables(trainable_variables)
    replica = stack.frame()
    if not isinstance(replica, stack.Replica) or internals.stateless_scope():
        _apply_outside(original, optimizer, list(grads), trainable_variables)
        return
    strategy = hooks.current_strategy()
    if strategy is not None:
        adopt(optimizer.variables, strategy)
    # `merge_call` passes lists of shared objects unchanged.
    arguments = (original, optimizer, list(grads), trainable_variables)
    replica.context.merge_call(_apply_merged, arguments)


def _apply_merged(
    strategy: Any,
    original: Callable[..., None],
    optimizer: Any,
    grads: list[Any],
    variables: list[Any] | None,
) -> None:
    topology = strategy.topology
    if not topology.is_local and stack.overlay() is None:
        # With one replica per worker, gradients are plain arrays.
        grads = [
            None if grad is None else PerReplica(tuple(parts_of(grad, topology)))
            for grad in grads
        ]
    known = [grad for grad in grads if isinstance(grad, PerReplica)]
    summed = iter(reduce(strategy.collective, ReduceOp.SUM, known, axis=None))
    count = strategy.num_replicas_in_sync
    whole = [
        None
        if grad is None
        else next(summed)
        if isinstance(grad, PerReplica)
        else jnp.asarray(grad) * count
        for grad in grads
    ]
    _apply_whole(original, optimizer, whole, variables)


def _apply_outside(
    original: Callable[..., None],
    optimizer: Any,
    grads: list[Any],
    variables: Sequence[Any] | None,
) -> None:
    is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if is_scaled and not internals.stateless_scope():
        # It would assign variables in a branch of JAX's.
        _apply_whole(original, optimizer, grads, variables)
    else:
        restoring.build_optimizer(optimizer, variables)
        original(optimizer, grads, variables)


def _apply_whole(
    original: Callable[..., None],
    optimizer: Any,
    grads: list[Any],
    variables: Sequence[Any] | None,
) -> None:
    if variables is not None and not optimizer.built:
        optimizer.build(variables)
        is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        if is_scaled and stack.overlay() is not None:
            # The trace has scaled the loss by a constant, which now is a variable.
            raise Outdated
    restoring.build_optimizer(optimizer, variables)
    trained = internals.trained_by(optimizer)
    if variables is not None and [*map(id, variables)] != [*map(id, trained)]:
        original(optimizer, grads, variables)
    else:
        _update(optimizer, grads, trained)


def _update(optimizer: Any, grads: list[Any], trained: list[Any]) -> None:
    """Applies gradients to all variables as one program, also in eager code."""
    update = optimizer.stateless_apply
    if stack.overlay() is None:
        update = optimizer.__dict__.setdefault("_mirrax_update", jax.jit(update))
    variables = [*trained, *optimizer.variables]
    old = [variable.value for variable in variables]
    new, states = update(old[len(trained) :], grads, old[: len(trained)])
    for variable, before, after in zip(variables, old, [*new, *states], strict=True):
        if after is not before:
            variable.assign(after)


def _next_seed(
    original: Callable[..., Any], generator: Any, *args: Any, **kwargs: Any
) -> Any:
    seed = original(generator, *args, **kwargs)
    replica = hooks.replica()
    if replica is None:
        return seed
    return jax.random.fold_in(seed, replica.context.replica_id_in_sync_group)


def _reduce(
    original: Callable[..., Any],
    values: Any,
    sample_weight: Any = None,
    reduction: str | None = "sum_over_batch_size",
) -> Any:
    """Reduces the losses of a replica without rows to 0; Keras leaves them alone."""
    is_empty = values.shape == (0,) and reduction not in (None, "none")
    if is_empty and hooks.replica() is not None:
        values = values[:, None]
    return original(values, sample_weight, reduction)


def _scale(original: Callable[..., Any], value: Any) -> Any:
    """Makes a replica's mean its share of the mean over all rows."""
    replica = hooks.replica()
    return original(value) if replica is None else value * _share_of(replica)


def _unscale(original: Callable[..., Any], value: Any) -> Any:
    replica = hooks.replica()
    if replica is None:
        return original(value)
    share = _share_of(replica)
    return value / jnp.where(share == 0, 1, share)


def _share_of(replica: stack.Replica) -> Any:
    """Returns the part of the rows of all replicas that a replica has."""
    context = replica.context
    rows = replica.call.uneven_rows
    if len(rows) == context.num_replicas_in_sync:
        shares = jnp.asarray(rows, jnp.float32) / sum(rows)
        return shares[context.replica_id_in_sync_group]
    return 1 / context.num_replicas_in_sync


def _as_keras_variables(variables: Sequence[Any]) -> list[Any]:
    return [keras_variable_of(v) if isinstance(v, Variable) else v for v in variables]


def keras_variable_of(variable: Variable) -> Any:
    """Returns the Keras variable that wraps one of Mirrax, always the same."""
    made = variable.__dict__.get(_KERAS_VARIABLE)
    # A copy of a variable has the original's wrapper in its `__dict__`.
    if made is None or proxy_of(made) is not variable:
        made = variable.__dict__[_KERAS_VARIABLE] = _make_keras_variable(variable)
    return made


def _make_keras_variable(variable: Variable) -> Any:
    # Outside of every strategy: the variable belongs to one already, or to none.
    with stack.entered(None), jax.ensure_compile_time_eval():
        made = keras.Variable(
            jnp.zeros(variable.shape, variable.dtype),
            trainable=variable.trainable,
            name=variable.name.partition(":")[0].replace("/", "_"),
        )
    # Those of `mirrax.tf` can have one.
    made.constraint = getattr(variable, "constraint", None)
    internals.set_array(made, None)
    attach(made, variable)
    return made
