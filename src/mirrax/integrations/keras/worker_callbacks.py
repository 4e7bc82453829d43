"""Callbacks of Keras on several workers: those that write files run on the first."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from typing_extensions import override

from mirrax.cluster import step_record
from mirrax.collectives import worker_exchange
from mirrax.devices.topology import Topology
from mirrax.integrations.keras import internals
from mirrax.integrations.keras.chief import run_on_chief
from mirrax.train import worker_sync

_BACKUP = keras.callbacks.BackupAndRestore
_WRITERS = (
    _BACKUP,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
)

_HOOKS = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]


def callbacks_of(strategy: Any, callbacks: Any) -> Any:
    """Returns this worker's callbacks; those that write files run on the first."""
    is_ready = isinstance(callbacks, keras.callbacks.CallbackList)
    if strategy.topology.is_local or callbacks is None or is_ready:
        return callbacks
    callbacks = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    restores = any(isinstance(callback, _BACKUP) for callback in callbacks)
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
        run_on_chief(self._strategy, self.model, what, call)


def _make_directory(callback: Any) -> None:
    """Makes the directory of a callback that does not run on this worker."""
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        directory = os.path.dirname(callback.filepath)
    elif isinstance(callback, _BACKUP):
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
