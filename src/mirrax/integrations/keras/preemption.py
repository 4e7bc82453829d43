"""Ends `fit` on SIGTERM with a backup, if it has the callback `BackupAndRestore`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from typing_extensions import override

from mirrax.integrations.keras import chief, internals
from mirrax.train.preemption import PreemptionWatcher


@contextlib.contextmanager
def saving_on_preemption(given: Any, callbacks: Any, strategy: Any) -> Iterator[Any]:
    """Yields the callbacks for `fit`, one more if there is a backup among them.

    Args:
        given: The user's callbacks.
        callbacks: Those of this worker.
    """
    backups = [
        callback
        for callback in (given if isinstance(given, Sequence) else [given])
        if isinstance(callback, keras.callbacks.BackupAndRestore)
    ]
    if not backups:
        yield callbacks
        return
    own = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    watcher = PreemptionWatcher()
    try:
        yield [*own, _SaveOnPreemption(watcher, backups[0], strategy)]
    finally:
        watcher.close()


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
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._watcher.should_stop():
            save = functools.partial(internals.save_backup, self._backup, self._epoch)
            chief.run_on_chief(self._strategy, self.model, "a backup", save)
            self._watcher.exit()
