"""`tf.train`: checkpoints, their managers, and functions that read them."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mirrax
from mirrax import train
from mirrax.errors import NotFoundError
from mirrax.tf.functions.concrete_functions import ConcreteFunction
from mirrax.tf.keras_support.keras_2 import latest_weights
from mirrax.tf.tensors.host_tensors import host

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_POLL_SECONDS = 1.0


class CheckpointReader:
    """The tensors of a checkpoint by name, with or without TensorFlow's suffix."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self._tensors = tensors

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {_full_name(n): list(t.shape) for n, t in self._tensors.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        return {_full_name(n): t.dtype for n, t in self._tensors.items()}

    def has_tensor(self, tensor_name: str) -> bool:
        return _own_name(tensor_name) in self._tensors

    def get_tensor(self, tensor_name: str) -> Any:
        if not self.has_tensor(tensor_name):
            raise NotFoundError(
                "The checkpoint has no tensor of this name. Received: "
                f"{tensor_name!r}. It has {', '.join(self._tensors)}."
            )
        return self._tensors[_own_name(tensor_name)]

    def debug_string(self) -> bytes:
        """Returns a line with the name, the dtype and the shape of each tensor."""
        lines = (
            f"{_full_name(n)} ({t.dtype}) {list(t.shape)}\n"
            for n, t in self._tensors.items()
        )
        return "".join(lines).encode()


def _full_name(name: str) -> str:
    """Returns a name with the suffix that TensorFlow adds to it."""
    return name + _SUFFIX


def _own_name(name: str) -> str:
    """Returns a name without the suffix that TensorFlow adds to it."""
    return name.removesuffix(_SUFFIX)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: Any = None) -> str | None:
    """Returns the newest checkpoint in a directory, or what `save_weights` wrote."""
    found = train.latest_checkpoint(checkpoint_dir)
    return found or latest_weights(checkpoint_dir)


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Returns the names of all variables of a checkpoint, and their shapes."""
    found = train.list_variables(ckpt_dir_or_file)
    return [(_full_name(name), shape) for name, shape in found]


@dataclasses.dataclass(frozen=True)
class CheckpointState:
    """The checkpoints in a directory: the newest, and all from the oldest on."""

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]


def get_checkpoint_state(
    checkpoint_dir: Any, latest_filename: Any = None
) -> CheckpointState | None:
    """Returns the checkpoints in a directory; None if there is none."""
    newest = train.latest_checkpoint(checkpoint_dir)
    if newest is None:
        return None
    # They are named "<name>-<number>".
    name = os.path.basename(newest).rpartition("-")[0]
    manager = train.CheckpointManager(
        train.Checkpoint(), checkpoint_dir, checkpoint_name=name
    )
    return CheckpointState(newest, manager.checkpoints)


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Returns whether there is a checkpoint at a path; only in `tf.compat.v1.train`."""
    return os.path.exists(checkpoint_prefix)


def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yields the newest checkpoint of a directory, then newer ones when they appear.

    Args:
        checkpoint_dir: The directory, which another program may write.
        min_interval_secs: The least time between two checkpoints.
        timeout: How many seconds to wait for the next one; by default forever.
        timeout_fn: Called when the time is over; true ends the iteration, which is also
            the default.
    """
    last = None
    while True:
        found = _newer_than(last, checkpoint_dir, timeout)
        if found is not None:
            began, last = time.monotonic(), found
            yield found
            time.sleep(max(0.0, began + min_interval_secs - time.monotonic()))
        elif timeout_fn is None or timeout_fn():
            return


def _newer_than(last: str | None, folder: Any, timeout: float | None) -> str | None:
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        newest = train.latest_checkpoint(folder)
        if newest not in (None, last):
            return newest
        if time.monotonic() + _POLL_SECONDS > end:
            return None
        time.sleep(_POLL_SECONDS)


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """Returns the value of a name in a checkpoint; TensorFlow's suffix is ignored."""
    return train.load_variable(ckpt_dir_or_file, _own_name(name))


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """Returns a reader of the tensors in a checkpoint."""
    return CheckpointReader(train.load_checkpoint(ckpt_dir_or_file))


@dataclasses.dataclass
class CheckpointOptions:
    """`tf.train.CheckpointOptions`: `enable_async`, and callbacks after a save.

    Devices and shards do not matter, because one worker writes everything from its
    host.
    """

    experimental_io_device: str | None = None
    experimental_enable_async_checkpoint: bool = False
    experimental_write_callbacks: Any = None
    enable_async: bool = False
    experimental_skip_slot_variables: bool = False
    experimental_sharding_callback: Any = None

    def __post_init__(self) -> None:
        for callback in self.experimental_write_callbacks or ():
            count = len(inspect.signature(callback).parameters)
            if count > 1:
                raise ValueError(
                    "A callback after a save takes the path of the checkpoint, or "
                    f"nothing. Received: {callback!r}, which has {count} parameters. "
                    "Bind the others with `functools.partial` or a lambda."
                )

    @property
    def is_async(self) -> bool:
        return self.enable_async or self.experimental_enable_async_checkpoint


class Checkpoint(train.Checkpoint):
    """`tf.train.Checkpoint`: unsaved objects keep their values, as in TensorFlow.

    Args:
        root: An object whose attributes are saved as if they were given by name.
        kwargs: Other objects, by name.
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        if root is None:
            super().__init__(**kwargs)
            return
        for name, value in kwargs.items():
            if getattr(root, name, value) is not value:
                raise ValueError(
                    f"root.{name} already exists. Received: root={root!r} and "
                    f"{name}={value!r}. Save it under another name."
                )
        # What is in an object without a name has only its own name.
        own = {n: value for n, value in kwargs.items() if not hasattr(root, n)}
        super().__init__(**{"": root}, **own)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, mirrax.Function | ConcreteFunction):
            # No part of a checkpoint, but of what `tf.saved_model.save` saves.
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def save_counter(self) -> Any:  # type: ignore[override]
        """The number of saves, as a tensor."""
        return host(np.int64(super().__getattr__("save_counter")))

    def save(self, file_prefix: Any, options: Any = None) -> str:
        path = super().save(file_prefix, _is_async(options))
        _call_back(self, path, options)
        return path

    def write(  # type: ignore[override]
        self, file_prefix: Any, options: Any = None, asynchronous: bool = False
    ) -> str:
        path = super().write(file_prefix, asynchronous or _is_async(options))
        _call_back(self, path, options)
        return path

    def sync(self) -> None:
        """Waits for a save in the background, and raises if it failed."""
        self.wait()

    def restore(self, save_path: Any, options: Any = None) -> train.LoadStatus:
        return super().restore(save_path, partial=True)

    def read(self, save_path: Any, options: Any = None) -> train.LoadStatus:
        counter = int(self.save_counter)
        status = self.restore(save_path)
        self.set_save_counter(counter)
        return status


class CheckpointManager(train.CheckpointManager):
    """`tf.train.CheckpointManager`."""

    def __init__(
        self,
        checkpoint: train.Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Any = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if keep_checkpoint_every_n_hours is not None:
            raise NotImplementedError(
                "Only the newest checkpoints are kept. Received: "
                f"keep_checkpoint_every_n_hours={keep_checkpoint_every_n_hours}. Use "
                "`max_to_keep`, or a second manager in another directory."
            )
        super().__init__(
            checkpoint, directory, max_to_keep, checkpoint_name, init_fn=init_fn
        )
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError(
                "`checkpoint_interval` is a number of steps, so `step_counter` must be "
                f"given with it. Received: checkpoint_interval={checkpoint_interval!r} "
                "alone. Pass the variable that counts the steps."
            )
        self._step_counter = step_counter
        self._checkpoint_interval = checkpoint_interval
        self._last_step = last_checkpoint_step

    def sync(self) -> None:
        """Waits until the last checkpoint is complete; raises if that failed."""
        self.wait()

    @property
    def checkpoint_interval(self) -> int | None:
        """How many steps are between two checkpoints; None if `save` always saves."""
        return self._checkpoint_interval

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: Any = None,
    ) -> str | None:
        """Writes a checkpoint, unless it is too early; returns its path.

        With an interval, the first call saves, and later ones once so many steps have
        passed; with `check_interval=False`, once the step is another one.
        """
        interval = self._checkpoint_interval
        if interval is not None:
            step, last = int(self._step_counter), self._last_step
            is_early = check_interval and last is not None and step < last + interval
            if is_early or step == last:
                return None
            self._last_step = step
        path = super().save(checkpoint_number, check_interval=False)
        _call_back(self.checkpoint, path, options)
        return path

    def restore_or_initialize(self) -> str | None:
        """Restores the newest readable checkpoint; returns its path.

        If there is none, calls `init_fn` and returns None.
        """
        path = super().restore_or_initialize()
        if path is not None and self._checkpoint_interval is not None:
            self._last_step = int(self._step_counter)
        return path


def _call_back(checkpoint: train.Checkpoint, path: Any, options: Any) -> None:
    """Calls the callbacks of the options once the checkpoint is complete."""
    callbacks = getattr(options, "experimental_write_callbacks", None) or ()
    if callbacks:
        checkpoint.wait()
    for callback in callbacks:
        callback(*[path][: len(inspect.signature(callback).parameters)])


def _is_async(options: Any) -> bool:
    if not isinstance(options, CheckpointOptions | None):
        raise ValueError(
            "`options` are `tf.train.CheckpointOptions`, or None. Received: "
            f"{options!r}."
        )
    return options is not None and options.is_async
