"""`tf.name_scope`: a prefix for names of operations and variables."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import jax

_prefix: contextvars.ContextVar[str] = contextvars.ContextVar("_prefix", default="")


@contextlib.contextmanager
def name_scope(name: str, *_: Any, **__: Any) -> Iterator[str]:
    """Names operations in JAX profiles, and prefixes the names of variables.

    >>> with name_scope("outer"), name_scope("inner") as prefix:
    ...     prefix, tf.Variable(1.0, name="v").name
    ('outer/inner/', 'outer/inner/v:0')
    """
    # A name that ends in a slash is the full name of a scope.
    prefix = name if name.endswith("/") else f"{_prefix.get()}{name}/"
    token = _prefix.set(prefix)
    try:
        with jax.named_scope(name.rstrip("/")):
            yield prefix
    finally:
        _prefix.reset(token)


def scoped_name(name: str) -> str:
    """Returns a variable name with the prefix of the current scope."""
    return _prefix.get() + name
