"""Strides, padding and dilations of convolution and pooling windows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Windows:
    """Window options along the spatial axes, and the position of the channels."""

    strides: tuple[int, ...]
    padding: Any
    dilations: tuple[int, ...]
    channels_first: bool


def windows(
    ndim: int,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any = None,
) -> Windows:
    """Returns the window options for `ndim` spatial axes."""
    first = data_format is not None and data_format.startswith("NC")
    return Windows(
        along_axes(strides, ndim, first),
        _padding(padding, ndim, first),
        along_axes(dilations, ndim, first),
        first,
    )


def along_axes(numbers: Any, ndim: int, channels_first: bool) -> tuple[int, ...]:
    """Expands one number, or extracts the spatial ones, to one per spatial axis.

    >>> along_axes([1, 2, 3, 1], 2, channels_first=False)
    (2, 3)
    """
    if numbers is None:
        return (1,) * ndim
    found = [int(n) for n in np.asarray(numbers).reshape(-1)]
    if len(found) == 1:
        return tuple(found * ndim)
    if len(found) == ndim:
        return tuple(found)
    if len(found) == ndim + 2:
        return tuple(found[2:] if channels_first else found[1:-1])
    raise ValueError(
        f"{ndim} spatial axes take 1, {ndim} or {ndim + 2} numbers. Received: "
        f"{numbers!r}."
    )


def spatial(ndim: int) -> str:
    """Returns the letters of the spatial axes, for JAX's layouts."""
    return "DHW"[3 - ndim :]


def _padding(padding: Any, ndim: int, channels_first: bool) -> Any:
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ValueError(
                "`padding` must be 'SAME', 'VALID' or a list of pairs. Received: "
                f"padding={padding!r}."
            )
        return padding.upper()
    pairs = [(int(before), int(after)) for before, after in padding]
    if len(pairs) == ndim + 2:
        return pairs[2:] if channels_first else pairs[1:-1]
    return pairs
