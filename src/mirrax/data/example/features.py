"""What a user says about the features to parse."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from mirrax.data.example.kinds import kind_of


@dataclasses.dataclass(frozen=True)
class FixedLenFeature:
    """A feature with the same number of values in every example.

    Args:
        shape: The shape of the values of one example; () for a single value.
        dtype: float32, int64, or bytes for strings.
        default_value: What an example without the feature has; None makes it an error.
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None

    def __post_init__(self) -> None:
        kind_of(self.dtype)
        if None in self.shape or any(size < 0 for size in self.shape):
            raise ValueError(
                "The shape of a `FixedLenFeature` must be known. "
                f"Received: shape={self.shape!r}. Use a `VarLenFeature`."
            )


@dataclasses.dataclass(frozen=True)
class VarLenFeature:
    """A feature with any number of values in each example.

    Args:
        dtype: float32, int64, or bytes for strings.
    """

    dtype: Any

    def __post_init__(self) -> None:
        kind_of(self.dtype)


AnyFeature = FixedLenFeature | VarLenFeature
