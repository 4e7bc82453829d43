"""Keras models on several workers: same initial values, files from the first worker.

Every worker runs the same calls on the same batches, and computes its rows of each.
"""

from __future__ import annotations

import functools
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

_WRITERS = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
)

_HOOKS = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]


def variables_of(model: Any) -> list[Any]:
    """Returns the variables of a model, its optimizer and its metrics."""
    optimizer = getattr(model, "optimizer", None)
    slots = [] if optimizer is None else optimizer.variables
    return [*model.variables, *slots, *model.metrics_variables]


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


def run_on_chief(strategy: Any, model: Any, what: str, run: Callable[[], None]) -> None:
    """Runs code on the first worker; raises on all workers if it fails there.

    All workers call this together. Meanwhile the others take part in what the first
    one does with the variables of the model.

    Args:
        what: What the code writes, for the error.
    """
    topology = strategy.topology
    if topology.is_local:
        run()
        return
    variables = variables_of(model)
    numbers = {id(variable): number for number, variable in enumerate(variables)}

    def ask(operation: str, variable: Any) -> None:
        if is_chief(topology):
            _from_chief(topology, [operation, numbers[id(variable)]])

    def lead() -> None:
        try:
            run()
        finally:
            _from_chief(topology, None)

    with stack.entered(hooks.ChiefOnly(strategy, ask)):
        if not is_chief(topology):
            _follow(topology, variables)
        worker_sync.write_on_chief(topology.peers, what, lead)


def _from_chief(topology: Topology, own: Any) -> Any:
    return worker_exchange.exchange(topology, "a call of the first worker", own)[0]


def _follow(topology: Topology, variables: Sequence[Any]) -> None:
    """Does what the first worker does with variables, until it says None."""
    while (wanted := _from_chief(topology, None)) is not None:
        operation, number = wanted
        variable = variables[number]
        if operation == "read":
            _ = variable.value
        else:
            variable.assign(np.zeros(variable.shape, internals.dtype_of(variable)))


def write_on_chief(
    strategy: Any, model: Any, what: str, write: Callable[[], Any]
) -> Any:
    """Writes files on the first worker; all workers wait for it, or raise its error.

    Inside `fit` nobody waits for the files of a mirrored model.
    """
    frame = stack.frame()
    is_within = isinstance(frame, hooks.ChiefOnly) or (
        isinstance(frame, hooks.Fitting) and strategy.shard_bytes is None
    )
    if strategy.topology.is_local or (is_within and is_chief(strategy.topology)):
        return write()
    if not is_within:
        run_on_chief(strategy, model, what, write)
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


def callbacks_of(strategy: Any, callbacks: Any) -> Any:
    """Returns this worker's callbacks; those that write files run on the first."""
    is_ready = isinstance(callbacks, keras.callbacks.CallbackList)
    if strategy.topology.is_local or callbacks is None or is_ready:
        return callbacks
    callbacks = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    restores = any(isinstance(c, keras.callbacks.BackupAndRestore) for c in callbacks)
    own = [
        _OnChief(callback, strategy) if isinstance(callback, _WRITERS) else callback
        for callback in callbacks
    ]
    return [*own, _FollowChief(strategy.topology)] if restores else own


class _OnChief(keras.callbacks.Callback):  # type: ignore[misc]
    """A callback that runs on the first worker.

    The others take part where it changes variables, or reads sharded ones.
    """

    def __init__(self, callback: Any, strategy: Any) -> None:
        super().__init__()
        self._callback = callback
        self._strategy = strategy
        self._runs = is_chief(strategy.topology)
        if not self._runs:
            _make_directory(callback)
        for name in _HOOKS:
            if self._needs_all(name):
                setattr(self, name, functools.partial(self._call_together, name))
            elif self._runs:
                setattr(self, name, getattr(callback, name))

    @override
    def set_params(self, params: Any) -> None:
        super().set_params(params)
        if self._runs:
            self._callback.set_params(params)

    @override
    def set_model(self, model: Any) -> None:
        super().set_model(model)
        if self._runs:
            self._callback.set_model(model)

    def _needs_all(self, name: str) -> bool:
        if getattr(type(self._callback), name) is getattr(
            keras.callbacks.Callback, name
        ):
            return False
        restores = isinstance(self._callback, keras.callbacks.BackupAndRestore)
        if name == "on_train_begin" and restores:
            return True
        if self._strategy.shard_bytes is None:
            return False
        if name == "on_train_batch_end":
            return isinstance(getattr(self._callback, "save_freq", None), int)
        return "batch" not in name

    def _call_together(self, name: str, *args: Any, **kwargs: Any) -> None:
        call = functools.partial(getattr(self._callback, name), *args, **kwargs)
        what = f"{type(self._callback).__name__}.{name}"
        run_on_chief(self._strategy, self.model, what, call)


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
    """Starts at the epoch of the first worker; tells the launcher about the steps."""

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology
        self._num_steps = 0

    @override
    def on_train_begin(self, logs: Any = None) -> None:
        own = np.asarray(internals.initial_epoch(self.model), np.int64)
        epoch = worker_exchange.from_first(self._topology, "first epoch", own)
        internals.set_initial_epoch(self.model, int(epoch))
        self._num_steps = int(self.model.optimizer.iterations.numpy())
        step_record.report_start(self._num_steps)

    @override
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._num_steps += 1
        step_record.report_step(self._num_steps)
