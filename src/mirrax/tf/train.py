"""`tf.train`: checkpoints, examples and `ClusterSpec`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirrax import train
from mirrax.cluster_resolver import ClusterSpec as ClusterSpec
from mirrax.data import example
from mirrax.tf.host_tensors import host
from mirrax.tf.missing_names import names_of
from mirrax.tf.moving_average import (
    ExponentialMovingAverage as ExponentialMovingAverage,
)

BytesList = example.BytesList
Example = example.Example
Feature = example.Feature
Features = example.Features
FloatList = example.FloatList
Int64List = example.Int64List

latest_checkpoint = train.latest_checkpoint
list_variables = train.list_variables


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """Returns the value of a name in a checkpoint; TensorFlow's suffix is ignored."""
    own = name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
    return train.load_variable(ckpt_dir_or_file, own)


class Checkpoint(train.Checkpoint):
    """`tf.train.Checkpoint`: unsaved objects keep their values, as in TensorFlow.

    Args:
        root: An object saved under the name `root`.
        kwargs: Other objects, by name.
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        super().__init__(**({} if root is None else {"root": root}), **kwargs)

    @property
    def save_counter(self) -> Any:  # type: ignore[override]
        """The number of saves, as a tensor."""
        return host(np.int64(super().__getattr__("save_counter")))

    def save(self, file_prefix: Any, options: Any = None) -> str:
        return super().save(file_prefix)

    def write(self, file_prefix: Any, options: Any = None) -> str:
        return super().write(file_prefix)

    def restore(self, save_path: Any, options: Any = None) -> train.LoadStatus:
        return super().restore(save_path, partial=True)

    def read(self, save_path: Any, options: Any = None) -> train.LoadStatus:
        counter = int(self.save_counter)
        status = self.restore(save_path)
        self.save_number(counter)
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
    ) -> None:
        if keep_checkpoint_every_n_hours is not None:
            raise NotImplementedError(
                "Only the newest checkpoints are kept. Received: "
                f"keep_checkpoint_every_n_hours={keep_checkpoint_every_n_hours}. Use "
                "`max_to_keep`, or a second manager in another directory."
            )
        super().__init__(
            checkpoint,
            directory,
            max_to_keep,
            checkpoint_name,
            init_fn=init_fn,
        )
        self._step_counter = step_counter
        self._checkpoint_interval = checkpoint_interval

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: Any = None,
    ) -> str | None:
        if checkpoint_number is None and self._step_counter is not None:
            checkpoint_number = int(self._step_counter)
        return super().save(checkpoint_number, check_interval)

    def _is_due(self, number: int) -> bool:
        # At the first call, and `interval` steps after the last save.
        last, interval = self._last_saved, self._checkpoint_interval
        return last is None or interval is None or number - last >= interval


__getattr__ = names_of("tf.train")
