"""Saved values that wait for objects which do not exist yet."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from mirrax._jax.traces import evaluated
from mirrax.context import stack
from mirrax.train.checkpoints.observed_containers import observe
from mirrax.train.checkpoints.restore import (
    find_entries,
    require_match,
    set_values,
    start_restore,
)
from mirrax.train.checkpoints.saved_objects import (
    COUNTER,
    HasLateContents,
    all_entries,
    find_objects,
    group_of,
)
from mirrax.train.checkpoints.saved_values import Entry, entry_of_foreign
from mirrax.variables import foreign_libraries


class DeferredRestore:
    """The rest of a checkpoint: values that are given to objects when they appear.

    Args:
        objects: The objects in the checkpoint, by name; may change.
        values: The saved values, also those for objects that exist.
        aliases: Other names of saved values: alias -> name.
        partial: Whether a model built later may have variables that were not saved.
    """

    def __init__(
        self,
        objects: dict[str, Any],
        values: dict[str, Any],
        aliases: Mapping[str, str],
        partial: bool,
    ) -> None:
        self._objects = objects
        self._values = values
        self._aliases = aliases
        self._required = frozenset() if partial else frozenset(values)
        self.saved = values.keys() | aliases.keys()
        self._watched: dict[int, Any] = {}

    def unclaimed(self) -> list[str]:
        self.give()
        return sorted(self._values)

    def held(self) -> set[str]:
        self.give()
        return {name for name, _ in all_entries(self._objects)} - {COUNTER}

    def cancel(self) -> None:
        """Forgets the values, because others were restored."""
        self._values.clear()
        self._watched.clear()

    def restore(self, entries: Mapping[str, Entry]) -> None:
        """Restores objects except iterators, and waits for those that are missing."""
        set_values(entries, self._values)
        self._watch()

    def give(self) -> bool:
        """Gives values to objects that exist now; returns whether none is left."""
        if self._values:
            with _outside_of_traces():
                entries = find_entries(self._objects, self._values, self._aliases)
                start_restore(None, entries, self._values, partial=True)
                self.restore(entries)
        return not self._values

    def is_pending(self, name: str) -> bool:
        """Returns whether a value waits for an object, or for what is in it."""
        names = (*self._values, *self._aliases)
        # What is in an object without a name has only its own name.
        below = f"{name}/" if name else ""
        return bool(self._values) and any(
            key == name or key.startswith(below) for key in names
        )

    def _give_after_build(self, name: str) -> bool:
        """Restores a model of another library; returns whether no value is left."""
        groups = {group_of(saved) for saved in self._required}
        # An optimizer added later is no mismatch; another layer is.
        new = {
            n: entry
            for n, entry in all_entries({name: self._objects[name]})
            if group_of(n) in groups and n not in self._required
        }
        require_match(None, new, {}, partial=False)
        return self.give()

    def _watch(self) -> None:
        """Asks objects with pending values to tell when they change."""
        for name in filter(self.is_pending, list(self._objects)):
            observed = observe(self._objects[name], self.give)
            self._objects[name] = observed
            for inner, value in find_objects(name, observed):
                if self.is_pending(inner):
                    self._watch_object(name, value)
                    self._give_early(inner, value)

    def _give_early(self, name: str, value: Any) -> None:
        """Restores what an incomplete object of another library has already."""
        for inner, held in foreign_libraries.early_arrays_of(value).items():
            entry, saved = entry_of_foreign(held), f"{name}/{inner}".lstrip("/")
            if saved in self._values and not entry.difference(self._values[saved]):
                entry.set(self._values.pop(saved))

    def _watch_object(self, name: str, value: Any) -> None:
        is_new = id(value) not in self._watched
        self._watched[id(value)] = value
        if not isinstance(value, HasLateContents):
            if is_new:
                built = functools.partial(self._give_after_build, name)
                foreign_libraries.when_complete(value, built)
            return
        if is_new:
            value.when_contents_change(self.give)
        for attribute, held in value.checkpoint_contents().items():
            observed = observe(held, self.give)
            if observed is not held:
                setattr(value, attribute, observed)


class LoadStatus:
    """The result of a `restore`.

    >>> path = mirrax.train.Checkpoint(step=3).save("run")
    >>> run = mirrax.train.Checkpoint(step=0)
    >>> _ = run.restore(path).assert_consumed()
    >>> run.step
    3
    """

    def __init__(self, restored: DeferredRestore | None) -> None:
        self._restored = restored

    def assert_consumed(self) -> LoadStatus:
        """Raises if a saved value has no object, or an object no saved value."""
        left = self._require_restored().unclaimed()
        if left:
            raise AssertionError(
                "Everything in the checkpoint must have an object. Received: values "
                f"for {', '.join(left)}, which no object has taken. Add the objects to "
                "the checkpoint, or call `expect_partial()`."
            )
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Raises if an object has a value that was not saved."""
        restored = self._require_restored()
        unmatched = sorted(restored.held() - restored.saved)
        if unmatched:
            raise AssertionError(
                "Everything that the objects hold must be in the checkpoint. Received: "
                f"no values for {', '.join(unmatched)}. Make the objects as they were, "
                "or leave this check out."
            )
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Raises if no object has a value that was saved."""
        restored = self._require_restored()
        if restored.saved.isdisjoint(restored.held()):
            raise AssertionError(
                "At least one object must be in the checkpoint. Received: a checkpoint "
                f"with {', '.join(sorted(restored.saved))}. Give the objects the names "
                "that they had."
            )
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Does nothing: `restore` has restored everything."""

    initialize_or_restore = run_restore_ops

    def expect_partial(self) -> LoadStatus:
        """Does nothing: values without an object are allowed."""
        return self

    def _require_restored(self) -> DeferredRestore:
        if self._restored is None:
            raise AssertionError(
                "There is nothing to check without a checkpoint. Received: "
                "restore(None). Ask for `latest_checkpoint` first."
            )
        return self._restored


@contextlib.contextmanager
def _outside_of_traces() -> Iterator[None]:
    """Leaves `run` and traced functions, in which objects may have appeared."""
    with stack.entered(None), stack.overlaid(None), evaluated():
        yield
