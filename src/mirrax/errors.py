"""The errors that Mirrax raises besides Python's own."""

from __future__ import annotations


class DataLossError(ValueError):
    """A file does not follow its format."""


class NotFoundError(FileNotFoundError):
    """A file, a folder or a checkpoint does not exist."""


class InvalidArgumentError(ValueError):
    """Values do not match, such as parts of unequal shapes."""


class OutOfRangeError(Exception):
    """An iterator has no more elements."""


# Callers, and TensorFlow, know these errors as one or the other.
class ConfigurationError(ValueError, RuntimeError):
    """The cluster, the devices or the settings are wrong; no restart cures that."""


class ReplicaError(RuntimeError):
    """The replicas of one `run` diverged where they must do the same."""


# TensorFlow raises an AssertionError here, and a wrong argument is a ValueError.
class DuplicateDevice(AssertionError, ValueError):  # noqa: N818
    """A device was listed twice."""


# TensorFlow raises a ValueError here, and a wrong type is a TypeError.
class WrongType(ValueError, TypeError):  # noqa: N818
    """An argument has a type that the function does not take."""


class WrongShape(ValueError):  # noqa: N818
    """A value does not have the shape of the variable that it is written to."""


# TensorFlow raises a TypeError here, and a wrong value is a ValueError.
class LossyConversion(TypeError, ValueError):  # noqa: N818
    """A number does not convert to a dtype without loss."""


# TensorFlow raises a TypeError here, and a wrong shape is a ValueError.
class SignatureMismatch(TypeError, ValueError):  # noqa: N818
    """An argument does not match its entry in an `input_signature`."""


class TracedInitialValue(ValueError):  # noqa: N818
    """A traced function creates a variable of a value that it computes."""


class VaryingError(ValueError):
    """A compiled function uses what differs between replicas where all must agree."""


class CheckpointMismatchError(ValueError):
    """Objects do not match a checkpoint."""


# TensorFlow raises a ValueError here.
class CheckpointObjectError(TypeError, ValueError):
    """An object cannot be saved in a checkpoint."""


class CheckpointDamagedError(OSError):
    """A complete checkpoint can no longer be read."""


class CheckpointWriteError(OSError):
    """A checkpoint was not written; earlier ones are unchanged."""


class JobError(RuntimeError):
    """Another worker failed, so this one cannot continue.

    All workers of a job raise the same error. An uncaught one ends the process with
    exit code 75, which tells a supervisor to retry; a `ProgramMismatch` with 1.

    Args:
        message: What happened, and what to do.
        worker: The index of the failed worker in the job, if it is one.
        host: The host of that worker.
        phase: What that worker, or this one, was doing.
        step: The last step that was completed there, as a `CheckpointManager` or
            Keras' `fit` reports it.
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
    """A worker died or stopped responding."""


class WorkerFailed(JobError):  # noqa: N818
    """A worker ended with an exception; the message has its traceback."""


class CollectiveTimeout(JobError):  # noqa: N818
    """A worker is alive but did not reach the collective that others wait in."""


class ProgramMismatch(JobError):  # noqa: N818
    """Two workers entered different collectives or programs."""
