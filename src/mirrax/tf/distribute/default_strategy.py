"""The default strategy of `tf.distribute`: that of `mirrax`, with more methods."""

from __future__ import annotations

import functools

import mirrax
from mirrax.tf.distribute.deprecated_methods import DeprecatedMethods


def get_strategy() -> mirrax.Strategy:
    """Returns the current strategy; the default one has the methods of version 1."""
    return mirrax.get_strategy() if mirrax.has_strategy() else _default_strategy()


@functools.cache
def _default_strategy() -> mirrax.Strategy:
    kind, own = type(mirrax.get_strategy()), {"isolates_session_state": False}
    made: mirrax.Strategy = type(kind.__name__, (DeprecatedMethods, kind), own)()
    return made
