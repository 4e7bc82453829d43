"""`tf.errors`: aliases of the errors that Python, JAX or Mirrax raises."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator

import jax

from mirrax.errors import CollectiveTimeout, JobError, WorkerLost
from mirrax.errors import DataLossError as DataLossError
from mirrax.errors import InvalidArgumentError as InvalidArgumentError
from mirrax.errors import NotFoundError as NotFoundError
from mirrax.errors import OutOfRangeError as OutOfRangeError

OpError = Exception
CancelledError = concurrent.futures.CancelledError
DeadlineExceededError = CollectiveTimeout
OperatorNotAllowedInGraphError = jax.errors.TracerBoolConversionError
PermissionDeniedError = PermissionError
UnavailableError = WorkerLost
UnimplementedError = NotImplementedError
AbortedError = JobError
# XLA raises one class for all of these.
InternalError = ResourceExhaustedError = UnknownError = jax.errors.JaxRuntimeError


class AlreadyExistsError(FileExistsError):
    """A file or directory already exists."""


class FailedPreconditionError(RuntimeError):
    """An operation was called in a wrong state, such as a read before a write."""


# TensorFlow raises an InvalidArgumentError here, and JAX a TypeError.
class InvalidOperands(InvalidArgumentError, TypeError):  # noqa: N818
    """Arguments of an operation do not match, such as arrays of unequal shapes."""


class NotCompilable(TypeError, ValueError, NotImplementedError):  # noqa: N818
    """XLA cannot compile what a function does; `tf.function` runs its Python."""


class UnauthenticatedError(PermissionError):
    """A request has no valid credentials."""


for _kind in (
    AlreadyExistsError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
):
    setattr(_kind, "message", property(str))  # noqa: B010 - not of Python's errors


@contextlib.contextmanager
def of_files() -> Iterator[None]:
    """Converts Python's file errors to TensorFlow's."""
    try:
        yield
    except (NotFoundError, AlreadyExistsError):
        raise
    except FileNotFoundError as error:
        raise NotFoundError(error.errno, error.strerror, error.filename) from error
    except FileExistsError as error:
        raise AlreadyExistsError(error.errno, error.strerror, error.filename) from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise FailedPreconditionError(str(error)) from error


OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16
