"""Names that are the same in versions 1 and 2."""

from __future__ import annotations

import importlib
from typing import Any

from mirrax.tf.missing_names import names_of
from mirrax.tf.replacements import REPLACEMENTS

_missing = names_of("tf.compat.v1")


def same_as_in_version_2(name: str) -> Any:
    """Looks a name up in version 2; the `__getattr__` of `tf.compat.v1`."""
    is_gone = f"tf.compat.v1.{name}" in REPLACEMENTS
    if not is_gone and not name.startswith("__"):
        # Imported late: `mirrax.tf` imports this module.
        found = vars(importlib.import_module("mirrax.tf")).get(name)
        if found is not None:
            return found
    return _missing(name)
