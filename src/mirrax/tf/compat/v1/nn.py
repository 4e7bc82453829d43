"""`tf.compat.v1.nn`: that of version 2, but `dropout` takes what it keeps."""

from __future__ import annotations

from typing import Any

from mirrax.tf import nn as version_2


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: Any = None,
    rate: Any = None,
) -> Any:
    """Sets random elements to zero; one of `keep_prob` and `rate` must be given."""
    if (keep_prob is None) == (rate is None):
        raise ValueError(
            "`dropout` takes either `keep_prob` or `rate`, which is 1 - `keep_prob`. "
            f"Received: keep_prob={keep_prob}, rate={rate}."
        )
    dropped = 1 - keep_prob if rate is None else rate
    return version_2.dropout(x, dropped, noise_shape, seed)


def __getattr__(name: str) -> Any:
    return getattr(version_2, name)
