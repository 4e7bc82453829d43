"""`PreemptionCheckpointHandler` and its parts, over `mirrax.train`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from mirrax import train
from mirrax.tf.train import CheckpointManager

_RUNS = "checkpointed_runs"


class PreemptionWatcher(train.PreemptionWatcher):
    """`tf.distribute.experimental.PreemptionWatcher`."""

    def __init__(self) -> None:
        super().__init__()

    def block_until_worker_exit(self) -> None:
        """Does nothing, as in TensorFlow without TPUs."""


@dataclasses.dataclass(frozen=True)
class TerminationConfig:
    """`tf.distribute.experimental.TerminationConfig`.

    Args:
        termination_watcher_fn: Returns whether this machine is about to be taken away;
            SIGTERM always says so.
        exit_fn: Ends the program after the checkpoint; by default with exit code 75.
        grace_period: Accepted; the program saves and ends at once.
        save_fn: Saves; by default the manager's `save`.
    """

    termination_watcher_fn: Callable[[], bool] | None = None
    exit_fn: Callable[[], object] | None = None
    grace_period: int | None = None
    save_fn: Callable[..., object] | None = None


class PreemptionCheckpointHandler:
    """`tf.distribute.experimental.PreemptionCheckpointHandler`.

    Restores the newest checkpoint when it is created.

    Args:
        cluster_resolver: Not needed: the job knows its workers.
        checkpoint_or_checkpoint_manager: What to save.
        checkpoint_dir: The directory of a checkpoint without a manager.
        termination_config: How to notice, save and end.
    """

    def __init__(
        self,
        cluster_resolver: Any,
        checkpoint_or_checkpoint_manager: train.Checkpoint | train.CheckpointManager,
        checkpoint_dir: Any = None,
        termination_config: TerminationConfig | None = None,
    ) -> None:
        if isinstance(checkpoint_or_checkpoint_manager, train.CheckpointManager):
            self._manager = checkpoint_or_checkpoint_manager
        elif not checkpoint_dir:
            raise ValueError(
                "`checkpoint_dir` must be given together with a `Checkpoint`. "
                f"Received: {checkpoint_dir!r}. Name a directory, or pass a "
                "`CheckpointManager`."
            )
        else:
            self._manager = CheckpointManager(
                checkpoint_or_checkpoint_manager, checkpoint_dir, max_to_keep=1
            )
        self._config = termination_config or TerminationConfig()
        setattr(self._manager.checkpoint, _RUNS, 0)
        self._manager.restore_or_initialize()
        self._watcher = train.PreemptionWatcher(self._config.termination_watcher_fn)

    @property
    def total_run_calls(self) -> int:
        """The number of calls that could save, those before a restart included."""
        return int(getattr(self._manager.checkpoint, _RUNS))

    def run(
        self, distributed_train_function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Calls the function; before that, saves and ends if a machine is preempted."""
        self._save_if_preempted()
        result = distributed_train_function(*args, **kwargs)
        self._count_call()
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Saves and ends if a machine is preempted, on all workers alike.

        Args:
            args: The arguments of `save_fn`, or of the manager's `save`; by default
                the number of the checkpoint is that of the calls.
            kwargs: The same.
        """
        self._save_if_preempted(*args, **kwargs)
        self._count_call()

    def _count_call(self) -> None:
        setattr(self._manager.checkpoint, _RUNS, self.total_run_calls + 1)

    def _save_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        if not self._watcher.should_stop():
            return
        if self._config.save_fn is not None:
            self._config.save_fn(*args, **kwargs)
        elif args or kwargs:
            self._manager.save(*args, **kwargs)
        else:
            self._manager.save(self.total_run_calls, check_interval=False)
        self._manager.wait()
        if self._config.exit_fn is None:
            self._watcher.exit()
        self._watcher.close()
        self._config.exit_fn()

    @contextlib.contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Saves and ends after the `with` block if a machine was preempted in it."""
        yield
        self.save_checkpoint_if_preempted()
