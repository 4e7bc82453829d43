"""`Checkpoint`: a group of objects that is saved and restored together."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

from mirrax.context import guards, stack
from mirrax.train import checkpoint_files, worker_sync
from mirrax.train.checkpoint_files import CheckpointData
from mirrax.train.saved_objects import (
    COUNTER,
    Entry,
    find_entries,
    find_objects,
    group_of,
    move_iterators,
    require_match,
    set_values,
)
from mirrax.variables import foreign_libraries

Path = str | os.PathLike[str]


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

    def __init__(self, **objects: Any) -> None:
        self.__dict__["_objects"] = {}
        self.__dict__["_pending"] = {}
        self.__dict__["_writer"] = checkpoint_files.Writer()
        self.__dict__["_unfinished"] = None
        self._objects[COUNTER] = 0
        for name, value in objects.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or hasattr(type(self), name):
            raise ValueError(
                "An object in a checkpoint needs a name that is not taken. Received: "
                f"{name!r}. Choose another one, without an underscore in front."
            )
        self._objects[name] = value
        self._restore_pending(name)

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
        self._objects[COUNTER] += 1
        return self.write(f"{os.fspath(file_prefix)}-{self.save_counter}", asynchronous)

    def write(self, file_prefix: Path, asynchronous: bool = False) -> str:
        """Writes a checkpoint at exactly this path; returns it.

        It may replace another checkpoint, which stays valid until the new one is
        complete, but no other files.
        """
        guards.require_cross_replica("`Checkpoint.save`")
        if stack.overlay() is not None:
            raise RuntimeError(
                "A checkpoint holds values, and a traced function has none yet. "
                "Received: `save` or `write` inside `mirrax.function`. Call it outside."
            )
        _require_path(file_prefix)
        path = pathlib.Path(file_prefix).absolute()
        self.wait()
        self._restore_pending()
        entries = self._named_entries()
        workers = worker_sync.current_peers()
        # Before any value is read: reading may wait for other workers.
        positions = worker_sync.check_same_objects(workers, path, entries)
        saved = _collect(entries, positions)

        def write() -> None:
            self._writer.start(path, saved)
            if not asynchronous:
                self._writer.wait()

        worker_sync.write_on_chief(workers, path, write)
        self.__dict__["_unfinished"] = path if asynchronous else None
        return str(path)

    def save_number(self, number: int) -> None:
        """Sets `save_counter`; for `CheckpointManager`."""
        self._objects[COUNTER] = number

    def wait(self) -> None:
        """Waits for a background write, and raises if it failed.

        Every worker calls it, also once before the program ends.
        """
        path, self.__dict__["_unfinished"] = self._unfinished, None
        if path is not None:
            worker_sync.write_on_chief(
                worker_sync.current_peers(), path, self._writer.wait
            )

    def restore(self, save_path: Path | None, partial: bool = False) -> LoadStatus:
        """Restores all objects from a checkpoint.

        Values of objects that do not exist yet are restored when they are created.

        Args:
            save_path: What `save` returned; None does nothing.
            partial: Whether objects that were not saved keep their values; otherwise
                that is an error.
        """
        if save_path is None:
            return LoadStatus(self)
        path = pathlib.Path(save_path).absolute()
        self.wait()
        workers = worker_sync.current_peers()
        problem: Exception | None = None
        try:
            saved = checkpoint_files.read(path)
            values = {
                **saved.arrays,
                **worker_sync.local_positions(workers, saved.plain),
            }
            entries = dict(self._entries())
            require_match(path, entries, values, partial)
            undo = move_iterators(entries, values)
        except Exception as error:
            problem = error
        try:
            worker_sync.check_all_can_restore(workers, path, problem)
        except Exception:
            if problem is None:
                undo()
            raise
        saved_names = frozenset(values)
        names = frozenset() if partial else saved_names
        set_values(entries, values)
        self.__dict__["_pending"] = values
        self._defer_restore(names)
        return LoadStatus(self, saved_names)

    def read(self, save_path: Path, partial: bool = False) -> LoadStatus:
        """Restores a checkpoint without changing `save_counter`."""
        counter = self.save_counter
        status = self.restore(save_path, partial)
        self._objects[COUNTER] = counter
        return status

    def checkpoint_contents(self) -> Mapping[str, Any]:
        """Returns the objects by name: a checkpoint can be part of another."""
        return {name: value for name, value in self._objects.items() if name != COUNTER}

    def unclaimed(self) -> list[str]:
        """Returns the names of saved values without an object yet."""
        self._restore_pending()
        return sorted(self._pending)

    def not_in(self, names: Set[str]) -> list[str]:
        """Returns the names of the objects' values that are not in `names`."""
        self._restore_pending()
        held = {name for name, _ in self._entries()} - {COUNTER}
        return sorted(held - names)

    def _entries(self, only: str | None = None) -> Iterator[tuple[str, Entry]]:
        foreign_libraries.connected()
        for name, value in list(self._objects.items()):
            if only in (None, name):
                replace = functools.partial(self._objects.__setitem__, name)
                yield from find_entries(name, value, replace)

    def _named_entries(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for name, entry in self._entries():
            if name in entries:
                raise ValueError(
                    "Everything in a checkpoint needs a name of its own. Received: two "
                    f"objects called '{name}'. Give the objects other names."
                )
            entries[name] = entry
        return entries

    def _defer_restore(self, names: Set[str]) -> None:
        """Restores models without variables yet as soon as they have them."""
        for name, value in self._objects.items():
            if self._has_pending(name):
                then = functools.partial(
                    self._restore_deferred, name, self._pending, names
                )
                for found in find_objects(value):
                    foreign_libraries.when_complete(found, then)

    def _has_pending(self, name: str) -> bool:
        return any(key == name or key.startswith(f"{name}/") for key in self._pending)

    def _restore_deferred(
        self, name: str, values: Mapping[str, Any], names: Set[str]
    ) -> bool:
        """Restores values of new variables; returns whether none is pending."""
        if values is not self._pending:
            # Another checkpoint was restored since.
            return True
        groups = {group_of(saved) for saved in names}
        entries = dict(self._entries(name))
        # An optimizer added later is no mismatch; another layer is.
        new = {
            n: e for n, e in entries.items() if group_of(n) in groups and n not in names
        }
        require_match(None, new, {}, partial=False)
        self._restore_pending(name)
        return not self._has_pending(name)

    def _restore_pending(self, only: str | None = None) -> None:
        if not self._pending:
            return
        entries = dict(self._entries(only))
        found = {name: e for name, e in entries.items() if name in self._pending}
        require_match(None, found, self._pending, partial=True)
        move_iterators(found, self._pending)
        set_values(found, self._pending)


class LoadStatus:
    """The result of a `restore`."""

    def __init__(self, checkpoint: Checkpoint, saved: Set[str] | None = None) -> None:
        self._checkpoint = checkpoint
        self._saved = saved

    def assert_consumed(self) -> LoadStatus:
        """Raises if the checkpoint has values without an object."""
        left = self._checkpoint.unclaimed()
        if left:
            raise AssertionError(
                "Everything in the checkpoint must have an object. Received: values "
                f"for {', '.join(left)}, which no object has taken. Add the objects to "
                "the checkpoint, or call `expect_partial()`."
            )
        return self

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Raises if an object has a value that was not saved."""
        unmatched = [] if self._saved is None else self._checkpoint.not_in(self._saved)
        if unmatched:
            raise AssertionError(
                "Everything that the objects hold must be in the checkpoint. Received: "
                f"no values for {', '.join(unmatched)}. Make the objects as they were, "
                "or leave this check out."
            )
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Does nothing: `restore` has checked that."""
        return self

    def expect_partial(self) -> LoadStatus:
        """Does nothing: values without an object are allowed."""
        return self


def _require_path(path: Path) -> None:
    if not os.fspath(path):
        raise ValueError(
            "A checkpoint needs a path that is not empty. Received: ''. Give the "
            "directory and a name, such as 'checkpoints/ckpt'."
        )


def _collect(
    entries: Mapping[str, Entry], positions: Mapping[str, list[Any]]
) -> CheckpointData:
    values = {name: e.get() for name, e in entries.items() if name not in positions}
    arrays = {n: v for n, v in values.items() if isinstance(v, np.ndarray)}
    plain = {n: v for n, v in values.items() if n not in arrays}
    return CheckpointData(arrays, {**plain, **positions})
