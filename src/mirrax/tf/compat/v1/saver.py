"""`tf.compat.v1.train.Saver`: checkpoints of variables by their names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from mirrax.tf.errors import NotFoundError
from mirrax.tf.train.checkpoints import Checkpoint, checkpoint_exists, load_checkpoint


class Saver:
    """Saves variables by their names, and keeps the newest checkpoints.

    Args:
        var_list: The variables, or a dict of them by name.
        max_to_keep: How many checkpoints are kept; None or 0 for all.
        options: TensorFlow's other options, which have no effect.

    >>> weight = tf.Variable(1.0, name="weight")
    >>> saver = Saver([weight])
    >>> path = saver.save(None, "model", global_step=3)
    >>> _ = weight.assign(2.0)
    >>> saver.restore(None, path)
    >>> os.path.basename(path), float(weight.numpy())
    ('model-3', 1.0)
    """

    def __init__(
        self, var_list: Any = None, max_to_keep: int | None = 5, **options: Any
    ) -> None:
        if var_list is None:
            raise RuntimeError(
                "There are no collections of variables: `var_list` must specify a list "
                "or a dict of them. Received: None. Pass `model.variables`, for "
                "example."
            )
        self._variables = _by_name(var_list)
        self._max_to_keep = max_to_keep
        self.last_checkpoints: list[str] = []
        """The paths of those that are kept, the oldest first."""

    def save(
        self, sess: Any, save_path: Any, global_step: Any = None, **options: Any
    ) -> str:
        """Writes a checkpoint; returns its path, which ends in the step if given."""
        path = os.fspath(save_path)
        if global_step is not None:
            path = f"{path}-{int(global_step)}"
        path = Checkpoint(**self._variables).write(path)
        if self._max_to_keep:
            kept = [known for known in self.last_checkpoints if known != path]
            self.last_checkpoints = [*kept, path]
            while len(self.last_checkpoints) > self._max_to_keep:
                shutil.rmtree(self.last_checkpoints.pop(0), ignore_errors=True)
        return path

    def restore(self, sess: Any, save_path: Any) -> None:
        """Restores all variables."""
        if not checkpoint_exists(save_path):
            raise ValueError(
                f"The passed save_path is not a valid checkpoint: {save_path}. Pass "
                "what `save` or `tf.train.latest_checkpoint` returned."
            )
        reader = load_checkpoint(save_path)
        for name in self._variables:
            if not reader.has_tensor(name):
                raise NotFoundError(
                    f"Key {name} not found in checkpoint. Received: {save_path}, which "
                    f"has {sorted(reader.get_variable_to_shape_map())}."
                )
        Checkpoint(**self._variables).read(save_path)

    def set_last_checkpoints(self, last_checkpoints: Iterable[str]) -> None:
        """Takes over the checkpoints of another saver."""
        self.last_checkpoints = list(last_checkpoints)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Takes over those of some checkpoints that still exist."""
        self.set_last_checkpoints(filter(checkpoint_exists, checkpoint_paths))


def _by_name(variables: Any) -> dict[str, Any]:
    if isinstance(variables, Mapping):
        return dict(variables)
    named = {}
    for variable in variables:
        name = variable.name.removesuffix(":0")
        if name in named:
            raise ValueError(
                "Variables are saved under their names. At least two variables have "
                f"the same name: {name}. Give a dict of other names."
            )
        named[name] = variable
    return named
