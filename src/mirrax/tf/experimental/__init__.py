"""`tf.experimental`: `numpy`, `Optional` and `async_scope` are available."""

import contextlib

from mirrax.tf.data.experimental import Optional as Optional
from mirrax.tf.experimental import numpy as numpy


def async_scope() -> contextlib.AbstractContextManager[None]:
    """Returns a context that changes nothing: JAX runs operations asynchronously."""
    return contextlib.nullcontext()


def async_clear_error() -> None:
    """Does nothing: an error is raised where a value is read, and not kept."""
