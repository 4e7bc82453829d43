"""The reader that `tf.train.load_checkpoint` returns."""

from __future__ import annotations

from typing import Any

from mirrax.errors import NotFoundError

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


class CheckpointReader:
    """The tensors of a checkpoint by name, with or without TensorFlow's suffix."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self._tensors = tensors

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {full_name(n): list(t.shape) for n, t in self._tensors.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        return {full_name(n): t.dtype for n, t in self._tensors.items()}

    def has_tensor(self, tensor_name: str) -> bool:
        return own_name(tensor_name) in self._tensors

    def get_tensor(self, tensor_name: str) -> Any:
        if not self.has_tensor(tensor_name):
            raise NotFoundError(
                "A checkpoint has only what was saved. Received: "
                f"{tensor_name!r}, for one with {', '.join(self._tensors)}."
            )
        return self._tensors[own_name(tensor_name)]

    def debug_string(self) -> bytes:
        """Returns a line with the name, the dtype and the shape of each tensor."""
        lines = (
            f"{full_name(n)} ({t.dtype}) {list(t.shape)}\n"
            for n, t in self._tensors.items()
        )
        return "".join(lines).encode()


def full_name(name: str) -> str:
    """Returns a name with the suffix that TensorFlow adds to it."""
    return name + _SUFFIX


def own_name(name: str) -> str:
    """Returns a name without the suffix that TensorFlow adds to it."""
    return name.removesuffix(_SUFFIX)
