"""`tf.summary.experimental`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mirrax.summary import get_step as get_step
from mirrax.summary import set_step as set_step
from mirrax.tf.variables.name_scopes import scoped_name


@contextlib.contextmanager
def summary_scope(
    name: str, default_name: str = "summary", values: Any = None
) -> Iterator[tuple[str, str]]:
    """Yields the tag of a summary, and the name of its scope."""
    full = scoped_name(name or default_name)
    yield full, f"{full}/"
