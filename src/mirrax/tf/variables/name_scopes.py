"""`tf.name_scope`: a prefix for names of operations and variables."""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any

import jax

_prefix: contextvars.ContextVar[str] = contextvars.ContextVar("_prefix", default="")


class name_scope:  # noqa: N801 - TensorFlow's name
    """Names operations in JAX profiles, and prefixes the names of variables.

    >>> with name_scope("outer"), name_scope("inner") as prefix:
    ...     prefix, tf.Variable(1.0, name="v").name
    ('outer/inner/', 'outer/inner/v:0')
    """

    def __init__(
        self, name: Any, default_name: Any = None, values: Any = None, **_: Any
    ) -> None:
        self.name = default_name if name is None else name
        if not isinstance(self.name, str):
            raise ValueError(
                f"The name of a scope must be a string. Received: {self.name!r}. Pass "
                '`tf.name_scope("a_name")`.'
            )
        # One for each time that it is entered and not left yet.
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> str:
        # A name that ends in a slash is the full name of a scope; '' leaves all.
        is_full = self.name.endswith("/") or not self.name
        prefix = self.name if is_full else f"{_prefix.get()}{self.name}/"
        stack = contextlib.ExitStack()
        if self.name:
            stack.enter_context(jax.named_scope(self.name.rstrip("/")))
        stack.callback(_prefix.reset, _prefix.set(prefix))
        self._entered.append(stack)
        return prefix

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().close()


def scoped_name(name: str) -> str:
    """Returns a variable name with the prefix of the current scope."""
    return _prefix.get() + name
