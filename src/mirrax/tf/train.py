"""`tf.train`: checkpoints, examples, and who takes part in a cluster."""

from __future__ import annotations

import os
from typing import Any

import mirrax
from mirrax.cluster_resolver import ClusterSpec as ClusterSpec
from mirrax.data import example
from mirrax.tf.absent import names_of
from mirrax.train import latest_checkpoint as latest_checkpoint

BytesList = example.BytesList
Example = example.Example
Feature = example.Feature
Features = example.Features
FloatList = example.FloatList
Int64List = example.Int64List


class Checkpoint(mirrax.train.Checkpoint):
    """`tf.train.Checkpoint`.

    Args:
        root: An object that is saved under the name `root`.
        kwargs: Other objects, by their names.
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        super().__init__(**({} if root is None else {"root": root}), **kwargs)


class CheckpointManager(mirrax.train.CheckpointManager):
    """`tf.train.CheckpointManager`.

    With `step_counter`, at least `checkpoint_interval` steps lie between two
    checkpoints.
    """

    def __init__(
        self,
        checkpoint: mirrax.train.Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Any = None,
    ) -> None:
        if keep_checkpoint_every_n_hours is not None:
            raise NotImplementedError(
                "Checkpoints are kept by their number only. Received: "
                f"keep_checkpoint_every_n_hours={keep_checkpoint_every_n_hours}. Use "
                "`max_to_keep`, or a second manager with another directory."
            )
        self._step_counter = step_counter
        super().__init__(
            checkpoint,
            directory,
            max_to_keep,
            checkpoint_name,
            save_interval=checkpoint_interval or 1,
            init_fn=init_fn,
        )

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: Any = None,
    ) -> str | None:
        """Saves under a number; without one, under that of the step or the save."""
        number = self._step_counter if checkpoint_number is None else checkpoint_number
        number = None if number is None else int(number)
        return super().save(number, check_interval)


__getattr__ = names_of("tf.train")
