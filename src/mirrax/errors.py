"""The errors that Mirrax raises beside Python's own."""

from __future__ import annotations


class DataLossError(ValueError):
    """A file does not hold what its format promises."""


class NotFoundError(FileNotFoundError):
    """A file, a folder or a checkpoint is not there."""


class InvalidArgumentError(ValueError):
    """Values that do not fit each other, such as parts of unequal shapes."""


class OutOfRangeError(Exception):
    """An iterator was asked for more than it has."""


class ReplicaError(RuntimeError):
    """The replicas of one `run` did different things where they must do the same."""


# TensorFlow raises an AssertionError here, and a wrong argument is a ValueError.
class DuplicateDevice(AssertionError, ValueError):  # noqa: N818
    """A device was named twice where each must be another one."""


# TensorFlow raises a TypeError here, and a wrong value is a ValueError.
class LossyConversion(TypeError, ValueError):  # noqa: N818
    """A number does not fit the dtype that it is for."""


# TensorFlow raises a TypeError here, and a wrong shape is a ValueError.
class SignatureMismatch(TypeError, ValueError):  # noqa: N818
    """An argument does not fit its entry in an `input_signature`."""


class CheckpointMismatchError(ValueError):
    """Objects are not as they were when they were saved."""


class CheckpointDamagedError(OSError):
    """A checkpoint was completed once, but cannot be read any more."""


class CheckpointWriteError(OSError):
    """A checkpoint was not written; what was there before is still as it was."""


class JobError(RuntimeError):
    """Something happened to another worker, so that this one cannot go on.

    All workers of a job raise the same one. A process that ends with it has the exit
    code 75, which tells a supervisor that a new attempt makes sense.

    Args:
        message: What happened, and what to do.
        worker: The index in the job of the worker it happened to, if it is one.
        host: Where that worker runs.
        phase: What that worker, or this one, was doing.
        step: In which step.
    """

    def __init__(
        self,
        message: str,
        *,
        worker: int | None = None,
        host: str = "",
        phase: str = "",
        step: int | None = None,
    ) -> None:
        super().__init__(message)
        self.worker = worker
        self.host = host
        self.phase = phase
        self.step = step


class WorkerLost(JobError):  # noqa: N818
    """A worker died, or nothing is heard from it any more."""


class WorkerFailed(JobError):  # noqa: N818
    """A worker ended with an exception; the message has its traceback."""


class CollectiveTimeout(JobError):  # noqa: N818
    """A worker is alive and did not come to where the others wait for it."""


class ProgramMismatch(JobError):  # noqa: N818
    """Two workers wanted to do different things together."""
