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
def prepared(callbacks: Any, model: Any, strategy: Any, is_fit: bool) -> Iterator[Any]:
    """Yields this worker's callbacks; those that write files run on the first.

    With a `BackupAndRestore`, `fit` saves on SIGTERM.
    """
    if callbacks is None or isinstance(callbacks, keras.callbacks.CallbackList):
        yield callbacks
        return
    given = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    backups = [callback for callback in given if isinstance(callback, _BACKUP)]
    own = list(given)
    topology = strategy.topology
    if not topology.is_local:
        own = [
            _on_chief(each, model, strategy) if isinstance(each, _WRITERS) else each
            for each in given
        ]
        own += [_follow_chief(model, topology)] if backups else []
        own += [_stop_together(model, topology)] if is_fit else []
    if not backups or not is_fit:
        yield own
        return
    watcher = PreemptionWatcher()
    try:
        yield [*own, _save_on_preemption(watcher, backups[0], model, strategy)]
    finally:
        watcher.close()


def _on_chief(callback: Any, model: Any, strategy: Any) -> Any:
    """Returns a callback that runs on the first worker.

    The others take part where it changes variables, or reads sharded ones.
    """

    def call_together(name: str, *args: Any, **kwargs: Any) -> None:
        call = functools.partial(getattr(callback, name), *args, **kwargs)
        what = f"{type(callback).__name__}.{name}"
        multi_worker.run_on_chief(strategy, model, what, call)

    calls: dict[str, Any] = {}
    if strategy.is_chief:
        names = (*_HOOKS, "set_params", "set_model")
        calls = {name: getattr(callback, name) for name in names}
    else:
        _make_directory(callback)
    for name in _HOOKS:
        if _needs_all(callback, name, strategy):
            calls[name] = functools.partial(call_together, name)
    return keras.callbacks.LambdaCallback(**calls)


def _needs_all(callback: Any, name: str, strategy: Any) -> bool:
    """Returns whether all workers take part in a method of a callback."""
    kind = type(callback)
    if getattr(kind, name) is getattr(keras.callbacks.Callback, name):
        return False
    if name == "on_train_begin" and issubclass(kind, _BACKUP):
        return True
    if "batch" in name:
        # Others would cost time in every step.
        is_in_batches = isinstance(getattr(callback, "save_freq", None), int)
        if name != "on_train_batch_end" or not is_in_batches:
            return False
    return strategy.shard_bytes is not None


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


def _follow_chief(model: Any, topology: Topology) -> Any:
    """Starts at the epoch of the first worker; tells the launcher about the steps."""
    num_steps = 0

    def begin(logs: Any = None) -> None:
        nonlocal num_steps
        own = np.asarray(internals.initial_epoch(model), np.int64)
        epoch = worker_exchange.from_first(topology, "first epoch", own)
        internals.set_initial_epoch(model, int(epoch))
        batches_per_update = model.optimizer.gradient_accumulation_steps or 1
        num_steps = int(model.optimizer.iterations) * batches_per_update
        step_record.report_start(num_steps)

    def end_step(batch: int, logs: Any = None) -> None:
        nonlocal num_steps
        num_steps += 1
        step_record.report_step(num_steps)

    return keras.callbacks.LambdaCallback(
        on_train_begin=begin, on_train_batch_end=end_step
    )


def _stop_together(model: Any, topology: Topology) -> Any:
    """Ends `fit` on all workers where `stop_training` is set on one, between epochs.

    Within an epoch all must set it after the same batch: others would wait in the next
    step. To ask them after each batch would make Keras wait for its results.
    """

    def stop_if_one_does(epoch: int, logs: Any = None) -> None:
        own = bool(model.stop_training)
        answers = worker_exchange.exchange(topology, "stop_training", own)
        model.stop_training = any(answers)

    return keras.callbacks.LambdaCallback(
        on_epoch_begin=stop_if_one_does, on_epoch_end=stop_if_one_does
    )


def _save_on_preemption(
    watcher: PreemptionWatcher, backup: Any, model: Any, strategy: Any
) -> Any:
    current = 0

    def begin_epoch(epoch: int, logs: Any = None) -> None:
        nonlocal current
        current = epoch

    def end_epoch(epoch: int, logs: Any = None) -> None:
        # SIGTERM may have come during the evaluation.
        begin_epoch(epoch + 1)
        stop_if_asked(epoch)

    def stop_if_asked(number: int, logs: Any = None) -> None:
        if watcher.should_stop():
            save = functools.partial(internals.save_backup, backup, current)
            multi_worker.run_on_chief(strategy, model, "a backup", save)
            watcher.exit()

    return keras.callbacks.LambdaCallback(
        on_epoch_begin=begin_epoch,
        on_epoch_end=end_epoch,
        on_train_batch_end=stop_if_asked,
    )


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
