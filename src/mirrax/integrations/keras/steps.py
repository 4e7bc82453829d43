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
from mirrax.integrations.keras.optimizer_variables import as_keras_variables
from mirrax.integrations.keras.variables import adopt
from mirrax.options import ReduceOp
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of


def install() -> None:
    """Makes optimizers, losses and random seeds replica-aware."""
    for optimizer in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
        hooks.wrap(optimizer, "apply", _apply)
    for kind in vars(keras.optimizers).values():
        if isinstance(kind, type) and "build" in vars(kind):
            hooks.wrap(kind, "build", _build)
    hooks.wrap(keras.random.SeedGenerator, "next", _next_seed)
    hooks.wrap(*internals.SCALE_LOSS, _scale)
    hooks.wrap(*internals.UNSCALE_LOSS, _unscale)


def _build(
    original: Callable[..., None], optimizer: Any, variables: Sequence[Any]
) -> None:
    """Builds an optimizer for variables of Keras, and of Mirrax."""
    original(optimizer, as_keras_variables(variables))


def _apply(
    original: Callable[..., None],
    optimizer: Any,
    grads: Sequence[Any],
    trainable_variables: Sequence[Any] | None = None,
) -> None:
    """Applies the sum of the gradients of all replicas."""
    if trainable_variables is not None:
        trainable_variables = as_keras_variables(trainable_variables)
    replica = stack.frame()
    if not isinstance(replica, stack.Replica) or internals.stateless_scope():
        restoring.build_optimizer(optimizer, trainable_variables)
        original(optimizer, grads, trainable_variables)
        return
    adopt(optimizer.variables, replica.strategy)
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
    if variables is not None and not optimizer.built:
        optimizer.build(variables)
    restoring.build_optimizer(optimizer, variables)
    trained = internals.trained_by(optimizer)
    if variables is not None and [*map(id, variables)] != [*map(id, trained)]:
        original(optimizer, whole, variables)
    else:
        _update(optimizer, whole, trained)


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


def _next_seed(original: Callable[..., Any], generator: Any, *args: Any) -> Any:
    """Returns a seed that differs between replicas."""
    replica = hooks.replica()
    if replica is None:
        return original(generator, *args)
    seed = original(generator, *args)
    return jax.random.fold_in(seed, replica.context.replica_id_in_sync_group)


def _scale(original: Callable[..., Any], value: Any) -> Any:
    """Divides a replica's mean by the replica count, so that the sum is a mean."""
    replica = hooks.replica()
    return original(value) if replica is None else value / _count(replica)


def _unscale(original: Callable[..., Any], value: Any) -> Any:
    replica = hooks.replica()
    return original(value) if replica is None else value * _count(replica)


def _count(replica: Any) -> int:
    return int(replica.context.num_replicas_in_sync)
