"""A training loop that continues where it was stopped."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Generic, TypeVar, overload

from typing_extensions import override

from mirrax.train.checkpoints.checkpoint_manager import CheckpointManager
from mirrax.train.checkpoints.saved_objects import find_objects
from mirrax.train.preemption import PreemptionWatcher

T = TypeVar("T")


class _Count:
    """The number of steps that are done."""

    value = 0


class ResumableSteps(Iterator[T], Generic[T]):
    """The steps that `resumable` yields."""

    def __init__(self, left: Generator[T, None, None], count: _Count) -> None:
        self._left = left
        self._count = count

    @property
    def num_done(self) -> int:
        """The number of steps that are done, those before the restart included."""
        return self._count.value

    @override
    def __next__(self) -> T:
        return next(self._left)

    def close(self) -> None:
        """Ends the loop as `break` does."""
        self._left.close()


@overload
def resumable(manager: CheckpointManager, steps: int) -> ResumableSteps[int]: ...


@overload
def resumable(manager: CheckpointManager, steps: Iterator[T]) -> ResumableSteps[T]: ...


def resumable(
    manager: CheckpointManager, steps: int | Iterator[Any]
) -> ResumableSteps[Any]:
    """Yields the steps that are left; restores first, and saves as they are done.

    Restores the manager's newest checkpoint. Saves at the manager's interval, after the
    last step, and on SIGTERM: then all workers save after the same step and end with
    exit code 75. A checkpoint's number is the number of steps that are done.

    After `break` or an exception, nothing more is saved.

    Args:
        manager: Saves everything that the steps change, the iterator too.
        steps: How many steps in all; yields their numbers, from 0. Or an iterator in
            the checkpoint, whose elements are yielded until its end.

    >>> import tempfile
    >>> import mirrax
    >>> run = mirrax.train.Checkpoint(total=0)
    >>> manager = mirrax.train.CheckpointManager(run, tempfile.mkdtemp())
    >>> for step in mirrax.train.resumable(manager, 4):
    ...     run.total += step
    ...     if step == 1:
    ...         break
    >>> for step in mirrax.train.resumable(manager, 4):
    ...     run.total += step
    >>> run.total
    6
    """
    _require_in_checkpoint(manager, steps)
    count = _Count()
    return ResumableSteps(_left(manager, steps, count), count)


def _left(
    manager: CheckpointManager, steps: int | Iterator[Any], count: _Count
) -> Generator[Any, None, None]:
    watcher = PreemptionWatcher()
    try:
        is_restored = manager.restore_or_initialize() is not None
        if is_restored:
            count.value = int(manager.checkpoint.save_counter)
        num_saved = count.value if is_restored else None
        left = iter(range(count.value, steps)) if isinstance(steps, int) else steps
        for step in left:
            yield step
            count.value += 1
            if watcher.should_stop():
                manager.save(count.value, check_interval=False)
                manager.wait()
                watcher.exit()
            if manager.save(count.value) is not None:
                num_saved = count.value
        if num_saved != count.value:
            manager.save(count.value, check_interval=False)
        manager.wait()
        # SIGTERM may have come after the last step, or when none was left.
        if watcher.should_stop():
            watcher.exit()
    finally:
        watcher.close()


def _require_in_checkpoint(manager: CheckpointManager, steps: object) -> None:
    if isinstance(steps, int) and not isinstance(steps, bool) and steps >= 0:
        return
    saved = find_objects("", manager.checkpoint)
    if not any(steps is value for _, value in saved):
        raise ValueError(
            "`resumable` takes the number of steps, or an iterator that the checkpoint "
            f"saves too, so that it can continue there. Received: {steps!r}. Make "
            "`batches = iter(dataset)`, and give it to the checkpoint and to "
            "`resumable`."
        )
