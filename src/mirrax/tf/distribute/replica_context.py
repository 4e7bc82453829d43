"""Contexts: `ReplicaContext` with tensors, `InputContext` printed as in TensorFlow."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax import InputContext as InputContext
from mirrax.tf.distribute.default_strategy import get_strategy
from mirrax.tf.tensors.indexed_slices import IndexedSlices, is_slices
from mirrax.tf.tensors.tensor import tensor


class ReplicaContext:
    """`mirrax.ReplicaContext` whose number is a tensor and which adds up slices.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> number = lambda: get_replica_context().replica_id_in_sync_group.numpy()
    >>> [int(value) for value in strategy.run(number).values]
    [0, 1]
    """

    def __init__(self, context: mirrax.ReplicaContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    @property
    def replica_id_in_sync_group(self) -> Any:
        number = self._context.replica_id_in_sync_group
        if not isinstance(number, int):
            return number
        with jax.ensure_compile_time_eval():
            return jnp.asarray(number, jnp.int32)

    @property
    def devices(self) -> Any:
        """The name of this replica's device; nested for mirrored strategies."""
        names = self._context.devices
        kinds = (mirrax.MirroredStrategy, mirrax.MultiWorkerMirroredStrategy)
        return [list(names)] if isinstance(self.strategy, kinds) else names

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Returns `value` combined; the rows of `IndexedSlices` stand side by side."""
        leaves, structure = jax.tree.flatten(value, is_leaf=is_slices)
        if not any(map(is_slices, leaves)):
            return self._context.all_reduce(reduce_op, value, options)
        op = mirrax.ReduceOp(str(getattr(reduce_op, "name", reduce_op)).upper())
        share = self.num_replicas_in_sync if op is mirrax.ReduceOp.MEAN else 1
        reduced = [
            self._join(leaf, share)
            if is_slices(leaf)
            else self._context.all_reduce(op, leaf, options)
            for leaf in leaves
        ]
        return jax.tree.unflatten(structure, reduced)

    def all_gather(self, value: Any, axis: Any, options: Any = None) -> Any:
        """Returns `value` of all replicas joined along `axis`, a number or tensor."""
        refuse_slices("all_gather", value)
        if self.num_replicas_in_sync == 1:
            return jax.tree.map(tensor, value)
        return self._context.all_gather(value, as_axis(axis), options)

    def _join(self, slices: IndexedSlices, share: int) -> IndexedSlices:
        values, indices = self._context.all_gather((slices.values, slices.indices), 0)
        return IndexedSlices(values / share, indices, slices.dense_shape)


def get_replica_context() -> ReplicaContext | None:
    """Returns the context of this replica; None in cross-replica context."""
    context = mirrax.get_replica_context()
    if context is None:
        return None
    if context is getattr(context.strategy, "replica_context", None):
        # Outside of `run` and scopes, it is that of the default strategy of `mirrax`.
        default: Any = get_strategy()
        context = default.replica_context
    return ReplicaContext(context)


def as_axis(axis: Any) -> Any:
    """Returns an axis that is a tensor as a number."""
    return operator.index(axis) if getattr(axis, "shape", None) == () else axis


def refuse_slices(method: str, value: Any) -> None:
    """Raises if a value holds `IndexedSlices`, which have no axis to gather along."""
    if any(map(is_slices, jax.tree.leaves(value, is_leaf=is_slices))):
        raise NotImplementedError(
            f"{method} does not support IndexedSlices. Received: {value!r}. Use "
            "`slices.to_dense()`."
        )


def _str(context: InputContext) -> str:
    return (
        f"tf.distribute.InputContext(input pipeline id {context.input_pipeline_id}, "
        f"total: {context.num_input_pipelines})"
    )


InputContext.__str__ = _str  # type: ignore[assignment, method-assign]
