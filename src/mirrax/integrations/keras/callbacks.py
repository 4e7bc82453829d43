"""Callbacks of Keras: on several workers, on SIGTERM, and without TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from typing_extensions import override

from mirrax.cluster import step_record
from mirrax.collectives import worker_exchange
from mirrax.devices.topology import Topology
from mirrax.integrations.keras import hooks, internals, multi_worker
from mirrax.lazy_modules import LazyModule
from mirrax.train.preemption import PreemptionWatcher

if TYPE_CHECKING:
    from mirrax import summary
else:
    summary = LazyModule("mirrax.summary")

_BACKUP = keras.callbacks.BackupAndRestore
_WRITERS = (
    _BACKUP,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
)

_SUMMARY_FUNCTIONS = (
    "create_file_writer",
    "histogram",
    "image",
    "record_if",
    "scalar",
    "write",
)

_HOOKS = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]


def install() -> None:
    """Gives `TensorBoard` a writer where TensorFlow is not installed."""
    callback = keras.callbacks.TensorBoard
    get = callback.summary.fget
    callback.summary = property(functools.partial(_summary, get))
    hooks.wrap(*internals.WRITE_MODEL, _write_model)


@contextlib.contextmanager
def prepared(callbacks: Any, strategy: Any, is_fit: bool) -> Iterator[Any]:
    """Yields this worker's callbacks; those that write files run on the first.

    With a `BackupAndRestore`, `fit` saves on SIGTERM.
    """
    if callbacks is None or isinstance(callbacks, keras.callbacks.CallbackList):
        yield callbacks
        return
    given = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    backups = [callback for callback in given if isinstance(callback, _BACKUP)]
    own = list(given)
    if not strategy.topology.is_local:
        own = [_OnChief(c, strategy) if isinstance(c, _WRITERS) else c for c in given]
        own += [_FollowChief(strategy.topology)] if backups else []
        own += [_StopTogether(strategy.topology)] if is_fit else []
    if not backups or not is_fit:
        yield own
        return
    watcher = PreemptionWatcher()
    try:
        yield [*own, _SaveOnPreemption(watcher, backups[0], strategy)]
    finally:
        watcher.close()


class _OnChief(keras.callbacks.Callback):  # type: ignore[misc]
    """A callback that runs on the first worker.

    The others take part where it changes variables, or reads sharded ones.
    """

    def __init__(self, callback: Any, strategy: Any) -> None:
        super().__init__()
        self._callback = callback
        self._strategy = strategy
        self._runs = strategy.is_chief
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
        kind = type(self._callback)
        if getattr(kind, name) is getattr(keras.callbacks.Callback, name):
            return False
        if name == "on_train_begin" and issubclass(kind, _BACKUP):
            return True
        if "batch" in name:
            # Others would cost time in every step.
            is_in_batches = isinstance(getattr(self._callback, "save_freq", None), int)
            if name != "on_train_batch_end" or not is_in_batches:
                return False
        return self._strategy.shard_bytes is not None

    def _call_together(self, name: str, *args: Any, **kwargs: Any) -> None:
        call = functools.partial(getattr(self._callback, name), *args, **kwargs)
        what = f"{type(self._callback).__name__}.{name}"
        multi_worker.run_on_chief(self._strategy, self.model, what, call)


def _make_directory(callback: Any) -> None:
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        directory = os.path.dirname(callback.filepath)
    elif isinstance(callback, _BACKUP):
        directory = callback.backup_dir
    else:
        return
    # Programs written for TensorFlow remove it afterwards.
    with contextlib.suppress(OSError):
        pathlib.Path(directory).mkdir(parents=True, exist_ok=True)


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
        optimizer = self.model.optimizer
        batches_per_update = optimizer.gradient_accumulation_steps or 1
        self._num_steps = int(optimizer.iterations) * batches_per_update
        step_record.report_start(self._num_steps)

    @override
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._num_steps += 1
        step_record.report_step(self._num_steps)


class _StopTogether(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends `fit` on all workers where `stop_training` is set on one, between epochs.

    Within an epoch all must set it after the same batch: others would wait in the next
    step. To ask them after each batch would make Keras wait for its results.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology

    @override
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._stop_if_one_does()

    @override
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._stop_if_one_does()

    def _stop_if_one_does(self) -> None:
        own = bool(self.model.stop_training)
        answers = worker_exchange.exchange(self._topology, "stop_training", own)
        self.model.stop_training = any(answers)


class _SaveOnPreemption(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, watcher: PreemptionWatcher, backup: Any, strategy: Any) -> None:
        super().__init__()
        self._watcher = watcher
        self._backup = backup
        self._strategy = strategy
        self._epoch = 0

    @override
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    @override
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # SIGTERM may have come during the evaluation.
        self._epoch = epoch + 1
        self._stop_if_asked()

    @override
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._watcher.should_stop():
            save = functools.partial(internals.save_backup, self._backup, self._epoch)
            multi_worker.run_on_chief(self._strategy, self.model, "a backup", save)
            self._watcher.exit()


def _summary(original: Callable[[Any], Any], callback: Any) -> Any:
    try:
        return original(callback)
    except ImportError:
        internals.set_summary_module(callback, _ours())
        return _ours()


@functools.cache
def _ours() -> types.SimpleNamespace:
    """Returns our functions as the module `tf.summary` that the callback uses."""
    used = {name: getattr(summary, name) for name in _SUMMARY_FUNCTIONS}
    return types.SimpleNamespace(**used, trace_on=_nothing, trace_export=_nothing)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no graph of TensorFlow to trace."""


def _write_model(original: Callable[[Any], None], callback: Any) -> None:
    """Writes the model for TensorBoard's graph of layers."""
    if callback.summary is not _ours():
        original(callback)
        return
    if type(callback.model).__name__ not in ("Functional", "Sequential"):
        return
    metadata = summary.SummaryMetadata()
    metadata.plugin_data.plugin_name = "graph_keras_model"
    metadata.plugin_data.content = b"1"
    with internals.summary_writer(callback).as_default():
        summary.write("keras", callback.model.to_json(), 0, metadata)
