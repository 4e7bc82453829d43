"""Keras models on several workers: same initial values, files from the first worker.

Every worker runs the same calls on the same batches, and computes its rows of each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np
from typing_extensions import override

from mirrax.collectives import worker_exchange
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.integrations.keras import hooks, internals
from mirrax.trees import Tree

_NOTHING = contextlib.nullcontext()

_WRITERS = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
)


def install() -> None:
    """Makes only the first worker restore a backup; the others copy from it."""
    hooks.wrap(keras.callbacks.BackupAndRestore, "on_train_begin", _restore)


def _restore(original: Callable[..., None], callback: Any, *args: Any) -> None:
    strategy = hooks.current_strategy()
    is_alone = strategy is None or strategy.topology.is_local
    with _NOTHING if is_alone else stack.entered(hooks.ChiefOnly(strategy)):
        original(callback, *args)


def is_chief(topology: Topology) -> bool:
    """Returns whether this worker prints and writes files for all."""
    return topology.worker_index == 0


def from_chief(topology: Topology, variable: Any, array: Any) -> Any:
    """Returns the first worker's array; sends it only if another worker's differs."""
    topic = f"Keras variable {internals.role_of(variable)}"
    if any(worker_exchange.differing(topology, topic, [array])):
        return worker_exchange.from_first(topology, topic, array)
    return array


def sync_numpy_random(topology: Topology) -> None:
    """Synchronizes NumPy's random state, with which Keras shuffles rows."""
    if topology.is_local:
        return
    kind, keys, position, *_ = np.random.get_state()
    own = np.asarray([*keys, position], np.uint32)
    *keys, position = worker_exchange.from_first(topology, "NumPy's random state", own)
    np.random.set_state((kind, np.asarray(keys, np.uint32), int(position), 0, 0.0))


def require_same_batch(batch: Tree, topology: Topology) -> None:
    """Raises unless all workers were given the same batch."""
    if topology.is_local:
        return
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(batch)]
    if any(worker_exchange.differing(topology, "batch", leaves)):
        raise ValueError(
            "All workers must get the same batches; each computes its rows. "
            f"Received: another batch on worker {topology.worker_index} than on "
            "others. Seed what shuffles them; or let each worker read its own data, "
            "with `strategy.distribute_datasets_from_function`."
        )


def same_first_batch(batches: Iterable[Tree], topology: Topology) -> Iterator[Tree]:
    """Yields batches; compares the first one with those of other workers."""
    for number, batch in enumerate(batches):
        if number == 0:
            require_same_batch(batch, topology)
        yield batch


def write_on_chief(strategy: Any, what: str, write: Callable[[], Any]) -> Any:
    """Writes files on the first worker; all workers wait for it, or raise its error.

    Inside `fit` nobody waits: there only the first worker may call this.
    """
    topology = strategy.topology
    if topology.is_local:
        return write()
    is_alone = isinstance(stack.frame(), hooks.Fitting | hooks.ChiefOnly)
    problem = ""
    if is_chief(topology):
        try:
            with stack.entered(hooks.ChiefOnly(strategy)):
                write()
        except Exception as error:
            if not is_alone:
                worker_exchange.exchange(
                    topology, what, f"{type(error).__name__}: {error}"
                )
            raise
    if not is_alone:
        problem = worker_exchange.exchange(topology, what, "")[0].decode()
    if problem:
        raise OSError(
            f"The first worker writes files for all, and could not: `{what}` there. "
            f"Received: {problem}."
        )
    return None


def wait_for_files(topology: Topology) -> None:
    """Waits until the first worker's callbacks have written their files."""
    if not topology.is_local:
        worker_exchange.exchange(topology, "files of callbacks", "")


def gathered(predict: Callable[..., Any], topology: Topology) -> Callable[..., Any]:
    """Returns `predict` with outputs that are gathered on every worker."""
    whole = jax.jit(lambda outputs: outputs, out_shardings=topology.replicated)

    def predict_all(state: Any, iterator: Any) -> Any:
        outputs, state = predict(state, iterator)
        return whole(outputs), state

    return predict_all


def callbacks_of(worker: Topology, callbacks: Any) -> Any:
    """Returns this worker's callbacks; those that write files run on the first."""
    is_ready = isinstance(callbacks, keras.callbacks.CallbackList)
    if worker.is_local or callbacks is None or is_ready:
        return callbacks
    callbacks = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    restores = any(isinstance(c, keras.callbacks.BackupAndRestore) for c in callbacks)
    kept = [c for c in callbacks if is_chief(worker) or not isinstance(c, _WRITERS)]
    return [*kept, _FollowChief(worker)] if restores else kept


class _FollowChief(keras.callbacks.Callback):  # type: ignore[misc]
    """Copies epoch and variables from the first worker, which may have a backup."""

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology

    @override
    def on_train_begin(self, logs: Any = None) -> None:
        own = np.asarray(internals.initial_epoch(self.model), np.int64)
        epoch = worker_exchange.from_first(self._topology, "first epoch", own)
        internals.set_initial_epoch(self.model, int(epoch))
        variables = [*self.model.variables, *self.model.optimizer.variables]
        for variable in variables:
            variable.assign(from_chief(self._topology, variable, variable.numpy()))
