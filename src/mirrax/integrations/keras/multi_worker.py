"""Keras models on several workers: same initial values, files from the first worker.

Every worker runs the same calls on the same batches, and computes its rows of each.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np
from typing_extensions import override

from mirrax.cluster import step_record
from mirrax.collectives import worker_exchange
from mirrax.collectives.worker_guard import Log
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.input.batch_digest import digest_of
from mirrax.integrations.keras import hooks, internals
from mirrax.train import worker_sync
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


def _restore(
    original: Callable[..., None], callback: Any, *args: Any, **kwargs: Any
) -> None:
    strategy = hooks.current_strategy()
    is_alone = strategy is None or strategy.topology.is_local
    with _NOTHING if is_alone else stack.entered(hooks.ChiefOnly(strategy)):
        original(callback, *args, **kwargs)


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
    if not topology.is_local:
        _compare(topology, digest_of(batch))


def same_batches(batches: Iterable[Tree], topology: Topology) -> Iterator[Tree]:
    """Yields batches; compares them with those of other workers now and then."""
    log = Log()
    for batch in batches:
        log.append(digest_of(batch))
        if log.is_due:
            _compare(topology, [log.count, log.checksum])
        yield batch
    _compare(topology, [log.count, log.checksum])


def _compare(topology: Topology, own: Any) -> None:
    answers = worker_exchange.exchange(topology, "batches", own)
    if any(answer != answers[0] for answer in answers):
        raise ValueError(
            "All workers must get the same batches; each computes its rows. "
            f"Received: other batches on worker {topology.worker_index} than on "
            f"others: {answers}. Seed what shuffles them; or let each worker read its "
            "own data, with `strategy.distribute_datasets_from_function`."
        )


def write_on_chief(strategy: Any, what: str, write: Callable[[], Any]) -> Any:
    """Writes files on the first worker; all workers wait for it, or raise its error.

    Inside `fit` nobody waits: there only the first worker may call this.
    """
    topology = strategy.topology
    if topology.is_local:
        return write()

    def write_alone() -> None:
        with stack.entered(hooks.ChiefOnly(strategy)):
            write()

    if not isinstance(stack.frame(), hooks.Fitting | hooks.ChiefOnly):
        worker_sync.write_on_chief(topology.peers, what, write_alone)
    elif is_chief(topology):
        write_alone()
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
    for callback in callbacks:
        if callback not in kept:
            _make_directory(callback)
    return [*kept, _FollowChief(worker)] if restores else kept


def _make_directory(callback: Any) -> None:
    """Makes the directory of a callback that does not run on this worker."""
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        directory = os.path.dirname(callback.filepath)
    elif isinstance(callback, keras.callbacks.BackupAndRestore):
        directory = callback.backup_dir
    else:
        return
    used = f"files of `{type(callback).__name__}`"
    worker_sync.make_unused_directory(pathlib.Path(directory), used)


class _FollowChief(keras.callbacks.Callback):  # type: ignore[misc]
    """Copies epoch and variables from the first worker, which may have a backup.

    Tells the launcher about the steps.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology
        self._num_steps = 0

    @override
    def on_train_begin(self, logs: Any = None) -> None:
        own = np.asarray(internals.initial_epoch(self.model), np.int64)
        epoch = worker_exchange.from_first(self._topology, "first epoch", own)
        internals.set_initial_epoch(self.model, int(epoch))
        variables = [*self.model.variables, *self.model.optimizer.variables]
        for variable in variables:
            variable.assign(from_chief(self._topology, variable, variable.numpy()))
        self._num_steps = int(self.model.optimizer.iterations.numpy())
        step_record.report_start(self._num_steps)

    @override
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._num_steps += 1
        step_record.report_step(self._num_steps)
