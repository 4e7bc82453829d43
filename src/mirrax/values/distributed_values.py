"""Values with a part on each replica."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from mirrax.trees import Leaf
from mirrax.values.array_like import on_host


class DistributedValues(Leaf):
    """A value with one part per replica of this process.

    >>> isinstance(mirrax.PerReplica((1, 2)), DistributedValues)
    True
    >>> mirrax.PerReplica((1, 2)).values
    (1, 2)
    """

    __slots__ = ()

    _label: ClassVar[str] = "DistributedValues"

    @property
    @abc.abstractmethod
    def values(self) -> tuple[Any, ...]:
        """The parts of the replicas that run in this process, in replica order."""

    def for_replica(self, index: int) -> Any:
        """What local replica `index` gets when this is an argument of `run`."""
        return self.values[index]

    def __repr__(self) -> str:
        return describe_parts(self._label, self.values, describe)

    def __str__(self) -> str:
        return describe_parts(self._label, self.values, print_part)


def describe_parts(
    kind: str, parts: tuple[Any, ...], show: Callable[[Any], str]
) -> str:
    """Returns the text of a distributed value, one line per part."""
    lines = ",\n".join(f"  {i}: {show(part)}" for i, part in enumerate(parts))
    return f"{kind}:{{\n{lines}\n}}"


def print_part(part: Any) -> str:
    """Returns what `print` shows of one part; arrays as TensorFlow prints tensors."""
    if not isinstance(part, jax.Array) or isinstance(part, jax.core.Tracer):
        return str(part)
    return f"tf.Tensor({on_host(part)}, shape={part.shape}, dtype={part.dtype})"


def describe(part: Any) -> str:
    """Returns the text of one part; arrays as TensorFlow's docs print tensors."""
    if isinstance(part, jax.Array) and not isinstance(part, jax.core.Tracer):
        value = on_host(part)
        if value.dtype == jax.dtypes.canonicalize_dtype(np.int64):
            # So that NumPy does not print the dtype of JAX' default integers.
            value = value.astype(np.int64)
        shown = str(value) if value.ndim == 0 else repr(value)
        return f"<tf.Tensor: shape={part.shape}, dtype={part.dtype}, numpy={shown}>"
    return repr(part)
