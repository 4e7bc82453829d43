"""`tf.sparse`: features of varying length are dense arrays here."""

from __future__ import annotations

from typing import Any

from mirrax.tf.missing_names import names_of


def to_dense(
    sp_input: Any,
    default_value: Any = None,
    validate_indices: bool = True,
    name: Any = None,
) -> Any:
    """Returns its input, such as a feature of `tf.io.VarLenFeature`: it is dense."""
    return sp_input


__getattr__ = names_of("tf.sparse")
