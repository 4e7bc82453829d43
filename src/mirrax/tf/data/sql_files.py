"""Datasets of SQL databases."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np

from mirrax import TensorSpec
from mirrax.tf.data.datasets import Dataset
from mirrax.tf.dtypes import string
from mirrax.tf.errors import InvalidArgumentError, UnknownError
from mirrax.tf.io.files import path_of


def SqlDataset(  # noqa: N802 - TensorFlow's name
    driver_name: str, data_source_name: Any, query: str, output_types: Any
) -> Dataset:
    """Returns the rows that a query selects, each as a tuple of scalars.

    Args:
        driver_name: "sqlite".
        data_source_name: The file of the database.
        query: The SQL text.
        output_types: The dtype of each column.
    """
    given = output_types if isinstance(output_types, tuple | list) else [output_types]
    dtypes = [np.dtype(dtype) for dtype in given]

    def rows() -> Iterator[Any]:
        if driver_name != "sqlite":
            raise InvalidArgumentError(
                f'`driver_name` must be "sqlite". Received: {driver_name!r}. Use '
                "`Dataset.from_generator` for other databases."
            )
        try:
            yield from _rows(path_of(data_source_name), query, dtypes)
        except sqlite3.Error as error:
            raise UnknownError(
                "The database must be readable, and the query valid. Received: "
                f"{query!r} for {data_source_name!r}: {error}. Run it with `sqlite3`."
            ) from error

    signature = tuple(TensorSpec([], dtype) for dtype in dtypes)
    return Dataset.from_generator(rows, output_signature=signature)


def _rows(path: str, query: str, dtypes: list[np.dtype[Any]]) -> Iterator[Any]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        # Texts and BLOBs are strings of bytes alike.
        database.text_factory = bytes
        found = database.execute(query)
        if len(found.description or ()) != len(dtypes):
            raise InvalidArgumentError(
                "`output_types` must have a type for each column of the query. "
                f"Received: {len(dtypes)} types, for {query!r}."
            )
        for row in found:
            yield tuple(map(_value, row, dtypes))


def _value(field: Any, dtype: np.dtype[Any]) -> Any:
    if dtype == string:
        return (
            field if isinstance(field, bytes) else str("" if field is None else field)
        )
    try:
        return np.asarray(field or 0, float if dtype.kind == "f" else int).astype(dtype)
    except ValueError as error:
        raise InvalidArgumentError(
            f"A column of type {dtype} must hold numbers. Received: {field!r}. Use "
            "`tf.string`, or CAST the column in the query."
        ) from error
