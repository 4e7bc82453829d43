"""The errors that Mirrax raises beside Python's own."""

from __future__ import annotations


class DataLossError(ValueError):
    """A file does not hold what its format promises."""


class InvalidArgumentError(ValueError):
    """Values that do not fit each other, such as parts of unequal shapes."""


class OutOfRangeError(Exception):
    """An iterator was asked for more than it has."""


class ReplicaError(RuntimeError):
    """The replicas of one `run` did different things where they must do the same."""


# TensorFlow raises an AssertionError here, and a wrong argument is a ValueError.
class DuplicateDevice(AssertionError, ValueError):  # noqa: N818
    """A device was named twice where each must be another one."""


class CheckpointMismatchError(ValueError):
    """Objects are not as they were when they were saved."""


class CheckpointDamagedError(OSError):
    """A checkpoint was completed once, but cannot be read any more."""
