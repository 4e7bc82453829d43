"""`Checkpoint`: a group of objects that is saved and restored together."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from mirrax.context import guards, stack
from mirrax.train import worker_sync
from mirrax.train.checkpoints import checkpoint_format, host_transfer
from mirrax.train.checkpoints.background_writer import Then, Writer
from mirrax.train.checkpoints.checkpoint_format import CheckpointData
from mirrax.train.checkpoints.deferred_restore import DeferredRestore, LoadStatus
from mirrax.train.checkpoints.restore import find_entries, start_restore
from mirrax.train.checkpoints.saved_objects import (
    COUNTER,
    all_entries,
    find_aliases,
    has_state,
    require_savable,
)
from mirrax.train.checkpoints.saved_values import Entry
from mirrax.variables import aliasing

Path = str | os.PathLike[str]


_OWN_ATTRIBUTES = {
    "_objects",
    "_pending",
    "_observers",
    "_writer",
    "_unfinished",
    "_buffers",
}


class Checkpoint:
    """A group of objects that is saved and restored together.

    Takes variables, models and optimizers of Keras and Flax NNX, pytrees of arrays
    (Equinox, Optax, Linen), random keys and numbers, dataset iterators, and other
    checkpoints. Variables, models and iterators are restored in place. Arrays and
    numbers are replaced: after `restore`, read the attribute of that name.

    Every worker of a job calls `save`; one of them writes.

    >>> import tempfile
    >>> import mirrax
    >>> weight = mirrax.Variable(3.0)
    >>> checkpoint = mirrax.train.Checkpoint(weight=weight, step=7)
    >>> path = checkpoint.save(tempfile.mkdtemp() + "/ckpt")
    >>> _ = weight.assign(0.0)
    >>> checkpoint.step = 0
    >>> _ = checkpoint.restore(path).assert_consumed()
    >>> float(weight), checkpoint.step
    (3.0, 7)
    """

    save_counter: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Not in `__init__`, so that subclasses can set objects before they call it.
        made = super().__new__(cls)
        made.__dict__["_objects"] = {COUNTER: 0}
        made.__dict__["_pending"] = None
        made.__dict__["_observers"] = []
        made.__dict__["_writer"] = Writer()
        made.__dict__["_unfinished"] = None
        # The memory of the last background save that is done, for the next one.
        made.__dict__["_buffers"] = {}
        return made

    def __init__(self, **objects: Any) -> None:
        for name, value in objects.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN_ATTRIBUTES or hasattr(Checkpoint, name):
            raise ValueError(
                "An object in a checkpoint needs a name that is not taken. Received: "
                f"{name!r}. Choose another one."
            )
        if name.startswith("_") and not has_state(value):
            # An attribute of a subclass.
            object.__setattr__(self, name, value)
            return
        require_savable(name, value)
        self._objects[name] = value
        if self._pending is not None and self._pending.is_pending(name):
            self._pending.give()
        self.__dict__["_observers"] = [then for then in self._observers if not then()]

    def __delattr__(self, name: str) -> None:
        if name in self._objects:
            del self._objects[name]
        else:
            object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        objects = self.__dict__.get("_objects", {})
        if name in objects:
            return objects[name]
        raise AttributeError(
            f"This checkpoint has no object {name!r}. It has: {sorted(objects)}."
        )

    def save(self, file_prefix: Path, asynchronous: bool = False) -> str:
        """Writes a numbered checkpoint, `<file_prefix>-<number>`; returns its path.

        Args:
            file_prefix: The directory and the name before the number.
            asynchronous: Whether to return once all values are copied, and write in the
                background. `wait`, or the next `save`, raises if that failed.
        """
        _require_path(file_prefix)
        number = self._objects[COUNTER] + 1
        return self.write_numbered(file_prefix, number, asynchronous)

    def write(self, file_prefix: Path, asynchronous: bool = False) -> str:
        """Writes a checkpoint at exactly this path; returns it.

        It may replace another checkpoint, which stays valid until the new one is
        complete, but no other files.
        """
        return self._write(file_prefix, asynchronous)

    def _write(
        self, file_prefix: Path, asynchronous: bool, then: Then | None = None
    ) -> str:
        guards.require_cross_replica("`Checkpoint.save`")
        if stack.overlay() is not None:
            raise RuntimeError(
                "A checkpoint holds values, and a traced function has none yet. "
                "Received: `save` or `write` inside `mirrax.function`. Call it outside."
            )
        _require_path(file_prefix)
        path = pathlib.Path(file_prefix).absolute()
        self.wait()
        if self._pending is not None:
            self._pending.give()
        entries = self._named_entries()
        workers = worker_sync.current_peers()
        # Before any value is read: reading may wait for other workers.
        positions = worker_sync.check_same_objects(workers, path, entries)
        aliases = find_aliases(self._objects)
        buffers, self.__dict__["_buffers"] = self._buffers, {}
        saved = _collect(entries, positions, aliases, buffers)

        def write() -> None:
            self._writer.start(path, saved, then)
            if not asynchronous:
                self._writer.wait()

        worker_sync.write_on_chief(workers, path, write)
        # Not earlier: Ctrl-C may leave a thread behind that still reads the arrays.
        self.__dict__["_unfinished"] = (path, saved.arrays) if asynchronous else None
        return str(path)

    def write_numbered(
        self, prefix: Path, number: int, asynchronous: bool, then: Then | None = None
    ) -> str:
        """Writes `<prefix>-<number>` and sets `save_counter`, unless that fails.

        One worker calls `then` once the checkpoint is complete.
        """
        before = self._objects[COUNTER]
        self.set_save_counter(number)
        try:
            path = f"{os.fsdecode(prefix)}-{number}"
            return self._write(path, asynchronous, then)
        except BaseException:
            self.set_save_counter(before)
            raise

    def set_save_counter(self, number: int) -> None:
        """Sets `save_counter`."""
        self._objects[COUNTER] = number

    def wait(self) -> None:
        """Waits for a background write, and raises if it failed; on every worker."""
        unfinished, self.__dict__["_unfinished"] = self._unfinished, None
        if unfinished is not None:
            path, arrays = unfinished
            worker_sync.write_on_chief(
                worker_sync.current_peers(), path, self._writer.wait
            )
            self.__dict__["_buffers"] = arrays

    def restore(self, save_path: Path | None, partial: bool = False) -> LoadStatus:
        """Restores all objects from a checkpoint.

        Values of objects that do not exist yet are restored when they are created.

        Args:
            save_path: What `save` returned; None does nothing.
            partial: Whether objects that were not saved keep their values; otherwise
                that is an error.
        """
        if save_path is None:
            return LoadStatus(None)
        self.wait()
        workers = worker_sync.current_peers()
        path = worker_sync.readable_path(workers, pathlib.Path(save_path).absolute())
        problem: Exception | None = None
        order: int | None = None
        try:
            saved = checkpoint_format.read(path)
            order = saved.order
            values = {
                **saved.arrays,
                **worker_sync.local_positions(workers, saved.plain),
            }
            entries = find_entries(self._objects, values, saved.aliases)
            undo = start_restore(path, entries, values, partial)
        except Exception as error:
            problem = error
        try:
            worker_sync.check_all_can_restore(workers, path, order, problem)
        except Exception:
            if problem is None:
                undo()
            raise
        if self._pending is not None:
            self._pending.cancel()
        pending = DeferredRestore(self._objects, values, saved.aliases, partial)
        pending.restore(entries)
        self.__dict__["_pending"] = pending
        return LoadStatus(pending)

    def read(self, save_path: Path, partial: bool = False) -> LoadStatus:
        """Restores a checkpoint without changing `save_counter`."""
        counter = self._objects[COUNTER]
        status = self.restore(save_path, partial)
        self.set_save_counter(counter)
        return status

    def checkpoint_contents(self) -> Mapping[str, Any]:
        """Returns the objects by name: a checkpoint can be part of another."""
        return {name: value for name, value in self._objects.items() if name != COUNTER}

    def when_contents_change(self, then: Callable[[], bool]) -> None:
        """Calls `then` after each change of the contents, until it returns True."""
        self._observers.append(then)

    def _named_entries(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for name, entry in all_entries(self._objects):
            if name in entries:
                raise ValueError(
                    "Everything in a checkpoint needs a name of its own. Received: two "
                    f"objects called '{name}'. Give the objects other names."
                )
            entries[name] = entry
        return entries


def _require_path(path: Path) -> None:
    if not os.fspath(path):
        raise ValueError(
            "A checkpoint needs a path that is not empty. Received: ''. Give the "
            "directory and a name, such as 'checkpoints/ckpt'."
        )


def _collect(
    entries: Mapping[str, Entry],
    positions: Mapping[str, list[Any]],
    aliases: Mapping[str, str],
    buffers: Mapping[str, np.ndarray[Any, Any]],
) -> CheckpointData:
    """Returns copies of all values, in `buffers` where they fit."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    plain: dict[str, Any] = dict(positions)
    # No program may change the variables before they are copied.
    with aliasing.lock:
        for name, entry in entries.items():
            if name in positions:
                continue
            value = entry.get()
            if isinstance(value, np.ndarray):
                arrays[name] = host_transfer.copy_array(value, buffers.get(name))
            else:
                plain[name] = value
    return CheckpointData(arrays, plain, aliases)
