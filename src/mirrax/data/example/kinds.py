"""The kinds of values that a feature can have."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# The numbers of the fields of Feature.
BYTES, FLOAT, INT64 = 1, 2, 3
DTYPES = {
    BYTES: np.dtype(object),
    FLOAT: np.dtype(np.float32),
    INT64: np.dtype(np.int64),
}
KIND_NAMES = {BYTES: "bytes", FLOAT: "float32", INT64: "int64"}


def kind_of(dtype: Any) -> int:
    """Returns the kind of the values of a dtype."""
    kinds = {"f4": FLOAT, "i8": INT64, "S": BYTES, "U": BYTES, "O": BYTES}
    try:
        given = np.dtype("S" if dtype == "string" else dtype)
    except TypeError:
        given = np.dtype(bool)
    kind = kinds.get(given.kind) or kinds.get(f"{given.kind}{given.itemsize}")
    if dtype is None or kind is None:
        raise ValueError(
            "The dtype of a feature must be float32, int64 or bytes: examples hold "
            f"nothing else. Received: {dtype!r}. Parse as one of these and convert."
        )
    return kind
